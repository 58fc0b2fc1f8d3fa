"""Answers to the questions of schedules and sensors: whether a run is under way, and what it would have to do."""

import time
from contextlib import suppress

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import StoreError
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.plan import CorpusPlan
from findingaid.model import Stage
from findingaid.store import Leases
from findingaid_dagster.assets import (
    FAILED_TAG,
    STORE_TAG,
    asset_key,
    build_step,
    keys_in_use,
    known_failures,
    new_failures,
    read_selected,
    store_tag,
)
from findingaid_dagster.internals.events import ENDED, failed_attempts, has_unsuccessful_step, last_sign
from findingaid_dagster.internals.partitions import awaited_partitions

LOOKED_BACK = 20
"""Most runs of assets since the last run of the job of which one may have been cut short."""

UNFINISHED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

CUT_SHORT = [*ENDED, *UNFINISHED]
"""States of runs that did not succeed: Dagster keeps one as started whose process was killed."""

SILENT_SECONDS = 300
"""Seconds without an event after which a run that holds no lease counts as killed.

Dagster keeps a run as started whose process was killed. A run that builds holds the lease on its corpus, and one that
does not has little to do until its next event. An event that is as far ahead is of a clock that was set back.
"""


def run_config(corpora: list[str]) -> dict[str, object]:
    """Return the run configuration that indexes only these corpora."""
    return {"ops": {"discover": {"config": {"corpora": corpora}}}}


def run_under_way(instance: dg.DagsterInstance, job: dg.JobDefinition | None, aid: FindingAid) -> str:
    """Return which run of the job, or of any job or assets, writes this store now; "" if none does.

    Runs into other stores do not count, nor runs whose process was killed.
    """
    ours = dg.RunsFilter(job_name=job.name if job else None, statuses=UNFINISHED, tags=store_tag(aid))
    records = instance.get_run_records(ours)
    working = {held.run for held in Leases(aid.store).held()} if records and aid.store.exists() else set()
    for record in records:
        run = record.dagster_run
        queued = run.status is dg.DagsterRunStatus.QUEUED
        if queued or run.run_id in working or abs(time.time() - last_sign(instance, record)) < SILENT_SECONDS:
            return f"run {run.run_id[:8]} of the {run.job_name} job is under way"
    return ""


def is_left_undone(instance: dg.DagsterInstance, job: dg.JobDefinition, aid: FindingAid) -> bool:
    """Check whether a run was killed, or lost its store, before it had published and told Dagster what it had built.

    It was the last run of the job, or a later one of assets. A version that was rolled back is not left undone, nor one
    for which the last run of the job failed by name, as by a check.
    """
    if not aid.store.exists() or _is_rolled_back(aid) or Leases(aid.store).held():
        return False
    ours = {STORE_TAG: job.run_tags[STORE_TAG]}
    last = instance.get_run_records(dg.RunsFilter(job_name=job.name, tags=ours), limit=1)
    if any(record.dagster_run.tags.get(FAILED_TAG) for record in last):
        return False
    if any(record.dagster_run.status in CUT_SHORT for record in last) or not aid.publisher.current():
        return True
    since = last[0].update_timestamp if last else None
    after = dg.RunsFilter(tags=ours, statuses=CUT_SHORT, updated_after=since)
    later = [record.dagster_run for record in instance.get_run_records(after, limit=LOOKED_BACK)]
    unnamed = [run.run_id for run in later if not run.tags.get(FAILED_TAG)]
    if not unnamed or run_under_way(instance, None, aid):
        return False
    ops = list(map(build_step, aid.corpora))
    return any(has_unsuccessful_step(instance, run_id, ops) for run_id in unnamed)


def _is_rolled_back(aid: FindingAid) -> bool:
    """Return whether a rollback holds, which is lost with the table of the records."""
    with suppress(StoreError):
        return aid.publisher.withdrawn()
    return False


def unseen(aid: FindingAid) -> str:
    """Return an addition to the message of a tick: readers do not see the newest records, and why.

    "" if they do, or if a run is under way, which publishes what it builds.
    """
    if not aid.store.exists() or aid.publisher.current() or Leases(aid.store).held():
        return ""
    held = _is_rolled_back(aid)
    why = "a rollback holds until publish_index" if held else "mend what the last run names, and run index"
    return f"; readers do not see the newest records: {why}"


def stale_artifacts(
    instance: dg.DagsterInstance, indexer: Indexer, plan: CorpusPlan
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the stale artifacts with their stamps, and the deleted ones.

    Known failures are not stale, nor artifacts whose outputs are pending, since a run would start at once that may have
    nothing to do. What cannot be listed is stale until a run has named it.
    """
    known = known_failures(instance, indexer, plan.stale) - plan.lost.keys()
    waiting = indexer.waiting(listing for listing in plan.stale if listing.settled)
    listed = [(x.artifact_id, x.stamp) for x in plan.stale if x.artifact_id not in known | waiting]
    listed += [(artifact_id, "") for artifact_id in new_failures(instance, indexer, plan.failures)]
    return listed, list(plan.deleted)


def left_partitions(instance: dg.DagsterInstance, aid: FindingAid, indexer: Indexer, plan: CorpusPlan) -> list[str]:
    """Return the partitions of artifacts that are gone, and those that Dagster shows as failed and readers see.

    Runs kept the former for a backfill that has ended. The latter were built by a run that was killed when it had
    published, or by something else since they failed.
    """
    there = set(instance.get_dynamic_partitions(indexer.name))
    key_of = keys_in_use(instance, indexer.corpus, 0).key_of
    left = there.difference(key_of(x.artifact_id) for x in plan.listed)
    if left:
        left.difference_update(map(key_of, indexer.ledger.stamps(indexer.name)))
        left -= awaited_partitions(instance)
    failed = there & failed_attempts(instance, asset_key(indexer.corpus, Stage.RECORDS))
    if failed and aid.store.exists() and aid.publisher.current():
        left |= {key for key, found in read_selected(indexer, failed).items() if found.is_complete(Stage.RECORDS)}
    return sorted(left)
