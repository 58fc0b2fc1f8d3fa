"""Tags of runs, and their failures where people look for them: in the error of the step, a tag, and the partitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.identity.hashes import text_hash
from findingaid.indexing.indexer import Indexer
from findingaid.model import WRITTEN, Failure, Listing, Stage
from findingaid_dagster.assets.keys import asset_key, keys_in_use
from findingaid_dagster.assets.partitions import read_selected
from findingaid_dagster.internals.events import failed_attempts, log_planned, tag_run

FAILED_TAG = "findingaid/failed"
"""Tag of a failed run that names the first failures; the list of runs shows it, and alerts can read it."""

RETRY_TAG = "dagster/retry_on_asset_or_op_failure"
"""Tag by which an instance with run retries tries a failed run again only if its process died."""

STORE_TAG = "findingaid/store"
"""Tag of the runs that publish: a hash of the address of their store."""

NAMED = 5
"""Number of failures that the error of a run names."""

TAG_CHARACTERS = 300

HELD = "readers keep the version that was rolled back to: the job publish_index publishes the newest records"


def fail_run(
    context: dg.OpExecutionContext, lead: str, problems: Sequence[str], metadata: Mapping[str, Any] | None = None
) -> dg.Failure:
    """Tag the run with its first failures, one line each, and return the error to raise, which names them too.

    Run retries of the instance would repeat the failure and its alarm, unless the run has that tag already.
    """
    more = "; …" if len(problems) > NAMED else ""
    named = "; ".join(problems[:NAMED]) + more
    cut = named if len(named) <= TAG_CHARACTERS else f"{named[:TAG_CHARACTERS]}…"
    retry = context.run.tags.get(RETRY_TAG, "false")
    tag_run(context.instance, context.run_id, {FAILED_TAG: cut, RETRY_TAG: retry})
    return dg.Failure(f"{lead}: {named}", metadata, allow_retries=False)


def store_tag(aid: FindingAid) -> dict[str, str]:
    """Return the tag of the runs that publish into a store."""
    return {STORE_TAG: text_hash(aid.store.uri)[:16]}


def forget_failure(context: dg.OpExecutionContext) -> None:
    """Empty the tag with failures that a re-execution took over from the run before; Dagster cannot remove it."""
    if context.run.tags.get(FAILED_TAG):
        tag_run(context.instance, context.run_id, {FAILED_TAG: ""})


def log_failed(context: dg.OpExecutionContext, indexer: Indexer, failures: Iterable[Failure]) -> None:
    """Have Dagster show the partitions of artifacts as failed, once this run has failed.

    Dagster does so itself in a run of assets, whose partitions it knows. A bucket stays stale instead if it has outputs
    of other artifacts, since its event counts the failed ones.
    """
    of, instance = indexer.corpus, context.instance
    keys, there = keys_in_use(instance, of, 0), set(instance.get_dynamic_partitions(of.name))
    found = [(failure, keys.key_of(failure.artifact_id)) for failure in failures]
    buckets = read_selected(indexer, {key for _, key in found} & there) if keys.buckets else {}
    failed: dict[Stage, set[str]] = {stage: set() for stage in of.stages}
    for failure, key in found:
        for stage in [Stage(failure.stage)] if failure.stage in WRITTEN else of.stages:
            if key not in buckets or not buckets[key].counts_failures(stage):
                failed[stage].add(key)
    for stage, of_stage in failed.items():
        if new := of_stage & there - failed_attempts(instance, asset_key(of, stage), context.run_id):
            log_planned(context, asset_key(of, stage), sorted(new))


def known_failures(instance: dg.DagsterInstance, indexer: Indexer, listings: Iterable[Listing]) -> set[str]:
    """Return the listed artifacts that failed as they are now, if Dagster shows it.

    To try them once more by themselves would be another alarm for the same failure.
    """
    return _shown(instance, indexer, set(indexer.tried(listings)))


def new_failures(instance: dg.DagsterInstance, indexer: Indexer, failures: Iterable[Failure]) -> list[str]:
    """Return what the source could not list, such as a broken row, if no run has failed for it and Dagster shows it."""
    found = {failure.artifact_id for failure in failures}
    tried = found & {failure.artifact_id for failure in indexer.ledger.failures(indexer.name)} if found else found
    return sorted(found - _shown(instance, indexer, tried))


def _shown(instance: dg.DagsterInstance, indexer: Indexer, failed: set[str]) -> set[str]:
    """Return the failed artifacts that Dagster shows as failed; buckets count theirs, which is enough."""
    of = indexer.corpus
    if not failed or (keys := keys_in_use(instance, of, 0)).buckets:
        return failed
    shown = set().union(*(failed_attempts(instance, asset_key(of, stage)) for stage in of.stages))
    return {artifact_id for artifact_id in failed if keys.key_of(artifact_id) in shown}
