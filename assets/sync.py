"""Synchronization of a Dagster instance with the ledger: partition keys, and a materialization per new version.

The ledger is authoritative, and the instance is a view of it. The same function therefore serves the `index` job, a
materialization from the UI, and an instance that is behind because the CLI did the work.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from findingaid.corpus import Corpus
from findingaid.indexing.indexer import Indexer
from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.query.search import corpus_fields
from findingaid.store import LedgerRow
from findingaid_dagster.assets.disclosure import filter_failures, filter_reason
from findingaid_dagster.assets.keys import (
    SOURCE,
    Keys,
    add_partitions,
    asset_key,
    deps_of,
    keys_in_use,
    keys_of,
)
from findingaid_dagster.assets.metadata import first_rows, metadata_of, shown_artifacts
from findingaid_dagster.assets.partitions import Partition, read_partitions, read_selected
from findingaid_dagster.assets.source import observation
from findingaid_dagster.assets.specs import event_metadata, record_columns
from findingaid_dagster.assets.upstream import Inputs, InputVersion, input_tags, inputs_at, made_from_others
from findingaid_dagster.internals.events import (
    event_pointer,
    failed_attempts,
    latest_event_ids,
    log_asset_events,
    log_planned,
    logged_data_versions,
)
from findingaid_dagster.internals.partitions import delete_partitions, drop_partitions

LOGGED_AT_ONCE = 1000
"""Number of partitions whose metadata are in memory while their events are logged."""


def sync(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    keys: Sequence[str] | None = None,
    again: Collection[Stage] | None = None,
    previews: bool = False,
    *,
    inputs: Mapping[str, Inputs],
    visible: bool = True,
    listed: int | None = None,
) -> None:
    """Log everything about the partitions with these keys, or the whole corpus, that the instance does not know yet.

    `again` are the stages that a materialization selected. These are logged, even at the same version. The run did not
    touch the other stages: they are logged if they are to name a version of the artifacts with other rules of access.
    Records are logged only if readers see them, as `visible` tells; in the middle of a run Dagster shows them as in
    progress. Artifacts that failed are not logged, nor outdated ones. Texts are logged only with `previews`. The whole
    corpus is divided anew if it has grown beyond its limit, or has shrunk below it.

    `inputs` has the `input_versions` of each stage from before the source was listed. After a run over the whole
    corpus, `listed` is the highest event id from then. What such a run found unchanged is logged, too, if Dagster knows
    it as made from other versions, of the source or of other inputs.
    """
    instance, of = context.instance, indexer.corpus
    partitions = _read_all(context, indexer) if keys is None else _read_some(instance, indexer, keys)
    if again is None:  # an event would show as current what another configuration made
        partitions = {key: found for key, found in partitions.items() if not found.is_outdated(indexer.recipe.id)}
    asked = None if keys is None else list(partitions)
    observed: set[str] = set()
    changed = changed_versions(instance, of, partitions, asked) if again is None else {}
    if keys is not None and not visible:
        # In the middle of a run, whose end logs the records. First, so that automation leaves what is observed alone.
        records = changed.get(Stage.RECORDS, partitions.keys())
        planned = [k for k, p in partitions.items() if p.has_output(Stage.RECORDS) and k in records]
        log_planned(context, asset_key(of, Stage.RECORDS), planned)
    if again is None or Stage.ARTIFACTS in again:
        observed = _observe(context, of, partitions, asked, listed or 0)
    failed = {stage: failed_attempts(instance, asset_key(of, stage)) for stage in of.stages} if keys is None else {}
    others: dict[Stage, set[str]] = {}
    if again is None:
        unlogged = unlogged_partitions(instance, of, partitions) if keys is None else set()
        if listed is not None:
            others = {x: made_from_others(instance, of, x, inputs.get(x, {})) for x in of.stages}
        unknown = observed.union(unlogged, *failed.values(), *changed.values(), *others.values())
        partitions = {key: found for key, found in partitions.items() if key in unknown}
    due = _due(instance, indexer, partitions, observed, failed, others, again)
    if not visible:
        del due[Stage.RECORDS]
    told = sorted(set().union(*due.values()))
    for start in range(0, len(told), LOGGED_AT_ONCE):
        part = {key: partitions[key] for key in told[start : start + LOGGED_AT_ONCE]}
        _log(
            context,
            indexer,
            {stage: [part[key] for key in of_stage if key in part] for stage, of_stage in due.items()},
            inputs,
            previews,
        )
        if len(told) > LOGGED_AT_ONCE:
            context.log.info(f"{of.name}: told Dagster of {start + len(part):,} of {len(told):,} partitions")
    _log_unsettled(context, of, partitions, due, again, previews)


def changed_versions(
    instance: dg.DagsterInstance,
    of: Corpus,
    partitions: Mapping[str, Partition],
    asked: Sequence[str] | None = None,
) -> dict[Stage, set[str]]:
    """Map the first and the last stage to the partitions whose data version Dagster does not know; `asked` limits them.

    The version of the records covers all earlier stages, but for the rules of access by which an artifact was read.
    """
    found: dict[Stage, set[str]] = {}
    for stage in (Stage.ARTIFACTS, Stage.RECORDS):
        known = logged_data_versions(instance, asset_key(of, stage), asked)
        found[stage] = {key for key, partition in partitions.items() if partition.version(stage) != known.get(key)}
    return found


def unlogged_partitions(instance: dg.DagsterInstance, of: Corpus, partitions: Mapping[str, Partition]) -> set[str]:
    """Return the partitions with an output that Dagster shows as missing or of another version at some stage.

    As after a wipe, and after a materialization that left out a stage which the command line had built.
    """
    logged = {stage: logged_data_versions(instance, asset_key(of, stage)) for stage in of.stages}
    return {
        key
        for key, partition in partitions.items()
        if any(
            partition.has_output(stage) and known.get(key) != partition.version(stage)
            for stage, known in logged.items()
        )
    }


def _read_all(context: dg.OpExecutionContext, indexer: Indexer) -> dict[str, Partition]:
    """Return all partitions of a corpus, after giving the instance their keys and no others."""
    instance, corpus = context.instance, indexer.name
    total = indexer.ledger.count(corpus)
    keys, before = Keys(indexer.corpus.partitions.buckets_for(total)), keys_in_use(instance, indexer.corpus, total)
    if keys != before:
        context.log.info(f"{corpus}: {total:,} artifacts: {_division(keys)} from now on, {_division(before)} before")
    partitions = read_partitions(indexer, keys)
    add_partitions(instance, corpus, list(partitions))
    gone = set(instance.get_dynamic_partitions(corpus)).difference(partitions)
    drop = drop_partitions if keys == before else delete_partitions  # keys of two divisions cannot be told apart
    drop(instance, corpus, sorted(gone))
    return partitions


def _read_some(instance: dg.DagsterInstance, indexer: Indexer, keys: Sequence[str]) -> dict[str, Partition]:
    """Return the partitions that have these keys; a bucket that has become empty is removed from the instance."""
    partitions = read_selected(indexer, keys)
    add_partitions(instance, indexer.name, list(partitions))
    drop_partitions(instance, indexer.name, [k for k in keys if k not in partitions and keys_of(k).buckets])
    return partitions


def _division(keys: Keys) -> str:
    return f"{keys.buckets:,} hash buckets" if keys.buckets else "a partition per artifact"


def _log(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    due: Mapping[Stage, Sequence[Partition]],
    inputs: Mapping[str, Inputs],
    previews: bool,
) -> None:
    """Log a materialization of each stage, in order, for the partitions that are due."""
    wanted = {artifact_id for of in due.values() for partition in of for artifact_id in shown_artifacts(partition)}
    shown = first_rows(indexer, due, wanted)
    for stage, partitions in due.items():
        pointer, added = event_pointer(context.instance), inputs.get(stage, {})
        events = [
            _event(indexer, stage, partition, pointer, added, metadata_of(stage, partition, shown[stage], previews))
            for partition in partitions
        ]
        if events:
            events[-1] = events[-1].with_metadata({**events[-1].metadata, **_of_table(indexer, stage, previews)})
        log_asset_events(context, events)


def _log_unsettled(
    context: dg.OpExecutionContext,
    of: Corpus,
    partitions: Mapping[str, Partition],
    due: Mapping[Stage, Sequence[str]],
    again: Collection[Stage] | None,
    previews: bool,
) -> None:
    """Log an observation for each artifact's partition whose output failed or is pending; a bucket counts them."""
    built = set().union(*(keys for stage, keys in due.items() if stage is not Stage.RECORDS))
    for stage in WRITTEN:
        told = [partitions[key] for key in sorted(partitions if stage in (again or ()) else built)]
        log_asset_events(
            context,
            [
                _unsettled(of, stage, partition.row, partition.key, previews)
                for partition in told
                if not partition.is_bucket and _is_unsettled(partition.row, stage)
            ],
        )


def _is_unsettled(row: LedgerRow, stage: Stage) -> bool:
    """Check whether the output of this stage failed or is pending, and the ledger has the reason."""
    unsettled = row.outcome(stage) in {Outcome.FAILED, Outcome.PENDING}
    return bool(unsettled and row.failed_stage in {"", stage} and row.failed_message)


def _unsettled(of: Corpus, stage: Stage, row: LedgerRow, key: str, previews: bool) -> dg.AssetObservation:
    """Return an observation of the failed or pending output of a stage.

    It is not a materialization, because there is no output and the partition stays stale.
    """
    metadata = {"outcome": row.outcome(stage)}
    if row.failure:
        (failure,) = filter_failures([row.failure], previews)
        metadata |= {"kind": failure.kind, "reason": failure.message}
    else:
        metadata |= {"reason": filter_reason(row.failed_message, previews)}
    return dg.AssetObservation(asset_key(of, stage), partition=key, metadata=metadata)


def _of_table(indexer: Indexer, stage: Stage, previews: bool) -> dict[str, Any]:
    """Return the metadata of the table of a stage, for the last event of many: Dagster shows those of the latest.

    With `previews`, the columns of the records include the filter fields of the corpus.
    """
    found = event_metadata(indexer.corpus, stage, indexer.store.uri)
    if stage is Stage.RECORDS and previews:
        fields = indexer.store.retried(lambda: corpus_fields(indexer.store.dataset("records"), [indexer.name]))
        found["dagster/column_schema"] = record_columns(fields[indexer.name])
    return found


def _due(
    instance: dg.DagsterInstance,
    indexer: Indexer,
    partitions: Mapping[str, Partition],
    observed: Collection[str],
    failed: Mapping[Stage, set[str]],
    others: Mapping[Stage, set[str]],
    again: Collection[Stage] | None,
) -> dict[Stage, list[str]]:
    """Map each stage, in order, to the partitions whose materialization is to be logged.

    Those that Dagster shows as `failed` are among them if the ledger has their output: no other event takes that back.
    So are those that it knows as made from `others` of the inputs that a team gave the stage.
    """
    of, wanted = indexer.corpus, list(partitions)
    ids = {stage: latest_event_ids(instance, asset_key(of, stage), wanted) for stage in of.stages}
    changed: dict[Stage, set[str]] = {}
    due: dict[Stage, list[str]] = {}
    for stage in of.stages:
        known = logged_data_versions(instance, asset_key(of, stage), wanted)
        shown_failed = failed.get(stage, ())
        changed[stage] = {
            k for k, found in partitions.items() if found.version(stage) != known.get(k) or k in shown_failed
        }
        # A stage must name the new version of an input, even if its own output is unchanged.
        stale = changed[stage].union(
            *(changed[dep] for dep in deps_of(of, stage)),
            observed if stage is Stage.ARTIFACTS else (),
            others.get(stage, set()).intersection(partitions),
        )
        stale |= {
            key for key in partitions for dep in deps_of(of, stage) if ids[dep].get(key, 0) > ids[stage].get(key, 0)
        }
        if again is not None:  # a changed rule of access is a new version of artifacts, but of no other stage
            follows = Stage.ARTIFACTS in again and Stage.ARTIFACTS in deps_of(of, stage)
            rules = {k for k in changed[Stage.ARTIFACTS] if follows and _is_cut(indexer, partitions[k])}
            stale = set(partitions) if stage in again else rules
        due[stage] = sorted(key for key in stale if partitions[key].has_output(stage))
    return due


def _is_cut(indexer: Indexer, partition: Partition) -> bool:
    """Check whether all surfaces are those of the artifacts as they are: no run builds them again."""
    versions = [(row.version(Stage.ARTIFACTS), row.version(Stage.SURFACES)) for row in partition.rows]
    return all(artifact and surfaces == indexer.recipe.surfaces(artifact) for artifact, surfaces in versions)


def _observe(
    context: dg.OpExecutionContext,
    of: Corpus,
    partitions: Mapping[str, Partition],
    asked: Sequence[str] | None,
    listed: int,
) -> set[str]:
    """Log the stamps at which artifacts were read, if the instance has not seen them.

    Returns the partitions whose source was observed, by this call or before, after their latest materialization.
    Dagster shows those as stale until they are logged again.
    """
    asset = asset_key(of, SOURCE)
    known = logged_data_versions(context.instance, asset, asked, observed=True)
    stamps = {key: partition.stamp_version() for key, partition in partitions.items() if partition.was_read}
    # What was not read keeps its last observation, which may be that of a sensor; else the sensor would see a change.
    never = {key: found.stamp_version() for key, found in partitions.items() if found.is_bucket and key not in known}
    stamps = {**never, **stamps}
    unseen = sorted(key for key, stamp in stamps.items() if stamp and stamp != known.get(key))
    if asked is None and unseen:
        newer = _observed_since(context.instance, of, partitions, unseen, listed)
        stamps = {key: stamp for key, stamp in stamps.items() if key not in newer}
        unseen = [key for key in unseen if key not in newer]
    log_asset_events(context, [observation(of, key, stamps[key]) for key in unseen])
    observed = latest_event_ids(context.instance, asset, asked, observed=True)
    made = latest_event_ids(context.instance, asset_key(of, Stage.ARTIFACTS), asked)
    return {key for key in stamps if observed.get(key, 0) > made.get(key, 0)}


def _observed_since(
    instance: dg.DagsterInstance, of: Corpus, partitions: Mapping[str, Partition], keys: Sequence[str], listed: int
) -> set[str]:
    """Return those of the partitions with these keys that were observed after the ledger's reading of them.

    It was observed after its latest materialization, which still has the version of the ledger, and after a run
    `listed` the whole source: what was observed before, as a file that is skipped, may leave the version as it is.
    """
    artifacts = asset_key(of, Stage.ARTIFACTS)
    observed = latest_event_ids(instance, asset_key(of, SOURCE), keys, observed=True)
    made, versions = latest_event_ids(instance, artifacts, keys), logged_data_versions(instance, artifacts, keys)
    return {
        key
        for key in keys
        if observed.get(key, 0) > max(made.get(key, 0), listed)
        and partitions[key].version(Stage.ARTIFACTS) == versions.get(key)
    }


def _event(
    indexer: Indexer,
    stage: Stage,
    partition: Partition,
    pointer: int,
    added: Inputs,
    metadata: Mapping[str, Any],
) -> dg.AssetMaterialization:
    """Return the event of one partition; `added` are inputs that a team gave the asset, with their data versions."""
    own = {asset_key(indexer.corpus, dep): partition.input_version(dep) for dep in deps_of(indexer.corpus, stage)}
    if stage is Stage.ARTIFACTS:
        own = {asset_key(indexer.corpus, SOURCE): partition.stamp_version()}
    inputs = {asset.to_user_string(): InputVersion(found, pointer) for asset, found in own.items()}
    inputs |= inputs_at(added, partition.key)
    if partition.is_bucket and not partition.is_complete(stage):
        # Before all events, so that Dagster takes each input for a new one, and the bucket for stale.
        inputs = {asset: replace(found, pointer=-1) for asset, found in inputs.items()}
    tags = {
        "dagster/code_version": indexer.recipe.code_version(stage),
        "dagster/data_version": partition.version(stage) or "",
        "dagster/data_version_is_user_provided": "true",
        **input_tags(inputs),
    }
    return dg.AssetMaterialization(
        asset_key(indexer.corpus, stage), partition=partition.key, tags=tags, metadata=metadata
    )
