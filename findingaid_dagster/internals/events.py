"""Reading and writing events of many partitions at once."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import dagster as dg
from dagster._check import CheckError
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.data_version import DEFAULT_DATA_VERSION, extract_data_version_from_entry
from dagster._core.events import (
    AssetMaterializationPlannedData,
    AssetObservationData,
    DagsterEvent,
    DagsterEventType,
    StepMaterializationData,
)
from dagster._core.execution.plan.step import ExecutionStep
from dagster._core.execution.stats import StepEventStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord
from dagster_shared.record import replace

from findingaid.identity.hashes import content_hash

BATCH_SIZE = 1000

UNKNOWN_VERSION = DEFAULT_DATA_VERSION.value
"""Data version that Dagster gives an asset or partition without events."""

LOOKED_BACK = 20
"""Latest executions of a check among which its last evaluation is sought; those of runs under way have none yet."""


def log_asset_events(
    context: dg.OpExecutionContext, events: Sequence[dg.AssetMaterialization | dg.AssetObservation]
) -> None:
    """Log events of any assets and partitions as events of this step, in batches.

    `context.log_event` would write each event on its own and print a line for it. Dagster's own batching needs an
    environment variable, which would apply to all other assets of the process too. So the storage gets the batches
    directly.
    """
    step = context.get_step_execution_context().step
    # A batch has events of one asset: Postgres updates only the asset of the last event.
    for _, of in groupby(events, key=lambda logged: (type(logged), logged.asset_key)):
        entries = [_entry(context, step, logged) for logged in of]
        for start in range(0, len(entries), BATCH_SIZE):
            context.instance.event_log_storage.store_event_batch(entries[start : start + BATCH_SIZE])


def log_planned(context: dg.OpExecutionContext, asset: dg.AssetKey, partitions: Sequence[str]) -> None:
    """Log that this run is to materialize these partitions, as Dagster does for a run of assets.

    Dagster shows those that get no materialization as in progress, and as failed once the run has failed.
    """
    step, kind = context.get_step_execution_context().step, DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    entries = [
        _entry_of(context, step, kind, AssetMaterializationPlannedData(asset, key), f"{asset.to_user_string()} {key}")
        for key in partitions
    ]
    for start in range(0, len(entries), BATCH_SIZE):
        context.instance.event_log_storage.store_event_batch(entries[start : start + BATCH_SIZE])


def _entry(
    context: dg.OpExecutionContext, step: ExecutionStep, logged: dg.AssetMaterialization | dg.AssetObservation
) -> dg.EventLogEntry:
    return _entry_of(context, step, *_payload(logged), logged.label)


def _entry_of(
    context: dg.OpExecutionContext,
    step: ExecutionStep,
    kind: DagsterEventType,
    data: StepMaterializationData | AssetObservationData | AssetMaterializationPlannedData,
    label: str,
) -> dg.EventLogEntry:
    logged_event = DagsterEvent(
        event_type_value=kind.value,
        job_name=context.job_name,
        step_handle=step.handle,
        step_kind_value=step.kind.value,
        event_specific_data=data,
        message=f"{kind.value.rsplit('_', 1)[-1].capitalize()} of {label}",
    )
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]  # dagster leaves it untyped
        error_info=None,
        level=logging.DEBUG,
        user_message="",
        run_id=context.run_id,
        timestamp=time.time(),
        step_key=logged_event.step_key,
        job_name=context.job_name,
        dagster_event=logged_event,
    )


def _payload(
    logged: dg.AssetMaterialization | dg.AssetObservation,
) -> tuple[DagsterEventType, StepMaterializationData | AssetObservationData]:
    if isinstance(logged, dg.AssetObservation):
        return DagsterEventType.ASSET_OBSERVATION, AssetObservationData(logged)
    return DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(logged)


def logged_data_versions(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    partitions: Sequence[str] | None = None,
    observed: bool = False,
    before: int | None = None,
) -> dict[str, str]:
    """Map partitions to the data version of their latest materialization, or latest observation with `observed`.

    If `partitions` is None, all are mapped. Partitions without such an event or version are left out. With `before`,
    events from this id on do not count.
    """
    if partitions is not None and not partitions:
        return {}
    kind = DagsterEventType.ASSET_OBSERVATION if observed else DagsterEventType.ASSET_MATERIALIZATION
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        asset, kind, ["dagster/data_version"], asset_partitions=partitions, before_cursor=before
    )
    return {key: found["dagster/data_version"] for key, found in tags.items() if "dagster/data_version" in found}


def latest_event_ids(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Sequence[str] | None = None, observed: bool = False
) -> dict[str, int]:
    """Map partitions to the id of their latest materialization, or latest observation with `observed`.

    A later event has a higher id. If `partitions` is None, all are mapped.
    """
    kind = DagsterEventType.ASSET_OBSERVATION if observed else DagsterEventType.ASSET_MATERIALIZATION
    wanted = None if partitions is None else set(partitions)
    return dict(instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind, wanted))


def has_new_versions(instance: dg.DagsterInstance, asset: dg.AssetKey, pointer: int) -> bool:
    """Return whether any partition got its first version or another one after the event with this id.

    Dagster then shows an asset as stale whose event names this pointer.
    """
    later = [key for key, event in latest_event_ids(instance, asset).items() if event > pointer]
    if not later:
        return False
    before = logged_data_versions(instance, asset, later, before=pointer + 1)
    return before != logged_data_versions(instance, asset, later)


def latest_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey
) -> Iterator[tuple[str, dg.AssetMaterialization]]:
    """Yield the latest materialization of each partition of an asset, with the key of the partition."""
    ids = list(latest_event_ids(instance, asset).values())
    for start in range(0, len(ids), BATCH_SIZE):
        wanted = dg.AssetRecordsFilter(asset, storage_ids=ids[start : start + BATCH_SIZE])
        for record in instance.fetch_materializations(wanted, limit=BATCH_SIZE).records:
            if record.partition_key is not None and record.asset_materialization:
                yield record.partition_key, record.asset_materialization


FAILED = (dg.DagsterRunStatus.FAILURE,)

ENDED = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def failed_attempts(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    run_id: str = "",
    statuses: Sequence[dg.DagsterRunStatus] = FAILED,
) -> set[str]:
    """Return the partitions that Dagster shows as failed: a run planned them after their latest event, and failed.

    The run `run_id` counts as failed, too, and with `ENDED` as statuses also runs that were canceled.
    """
    planned = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        asset
    )
    if not planned:
        return set()
    wanted = dg.RunsFilter(run_ids=list({run for run, _ in planned.values()}), statuses=statuses)
    failed = {run_id, *(run.run_id for run in instance.get_runs(wanted))}
    return {key for key, (run, _) in planned.items() if run in failed}


def event_pointer(instance: dg.DagsterInstance) -> int:
    """Return the highest event id so far.

    Dagster decides whether an input changed by looking for events after a materialization's pointer. The highest id is
    therefore a valid pointer for all partitions of a batch.
    """
    return instance.event_log_storage.get_maximum_record_id() or 0


def current_data_versions(instance: dg.DagsterInstance, asset: dg.AssetKey) -> tuple[str, dict[str, str]]:
    """Return the data version that Dagster compares inputs with, and those of the partitions, which it compares alone.

    The first is that of the latest event, or of an unknown asset; for an asset with partitions a hash of theirs.
    """
    record = instance.get_latest_data_version_record(asset)
    if record and record.partition_key is not None:
        found = logged_data_versions(instance, asset, observed=True) | logged_data_versions(instance, asset)
        return content_hash(sorted(found.items())), found
    version = extract_data_version_from_entry(record.event_log_entry) if record else None
    return version.value if version else UNKNOWN_VERSION, {}


def spec_inputs(context: dg.OpExecutionContext, asset: dg.AssetKey) -> set[dg.AssetKey]:
    """Return the inputs of an asset as the code location has it, perhaps with more than it was built with.

    A job that a test runs in its process knows no code location, and gets none.
    """
    assets = context.assets_def if context.has_assets_def else None
    if assets and asset in assets.specs_by_key:
        return {dep.asset_key for dep in assets.specs_by_key[asset].deps}
    try:
        graph = context.repository_def.asset_graph
    except CheckError:
        return set()
    return set(graph.get(asset).parent_keys) if graph.has(asset) else set()


def spec_partitions(context: dg.OpExecutionContext, asset: dg.AssetKey) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of an asset as the code location, or else the job, has it."""
    try:
        graph: Any = context.repository_def.asset_graph
    except CheckError:
        graph = context.job_def.asset_layer.asset_graph
    found: dg.PartitionsDefinition[str] | None = graph.get(asset).partitions_def if graph.has(asset) else None
    return found


def last_sign(instance: dg.DagsterInstance, record: dg.RunRecord) -> float:
    """Return the time of the latest event of a run, or of its creation, as seconds since the epoch."""
    events = instance.get_records_for_run(record.dagster_run.run_id, limit=1, ascending=False).records
    return max([record.create_timestamp.timestamp(), *(event.event_log_entry.timestamp for event in events)])


def has_unsuccessful_step(instance: dg.DagsterInstance, run_id: str, ops: Sequence[str]) -> bool:
    """Return whether a run began a step of one of these ops, and it did not succeed.

    Dagster splits the op of a multi-asset around assets between its own, and numbers the steps from the second on.
    """
    of_ops = re.compile(rf"({'|'.join(map(re.escape, ops))})(_\d+)?")
    found = instance.get_run_step_stats(run_id)
    return any(of_ops.fullmatch(step.step_key) and step.status is not StepEventStatus.SUCCESS for step in found)


def check_target(
    instance: dg.DagsterInstance, asset: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """Return the latest materialization of an asset, as an evaluation of a check names it.

    Dagster shows a check as not evaluated if its latest execution names another one, and is of another run.
    """
    records = instance.fetch_materializations(asset, limit=1).records
    if not records:
        return None
    (latest,) = records
    return AssetCheckEvaluationTargetMaterializationData(
        run_id=latest.run_id, storage_id=latest.storage_id, timestamp=latest.timestamp
    )


def latest_evaluation(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, target: AssetCheckEvaluationTargetMaterializationData | None
) -> dg.AssetCheckEvaluation | None:
    """Return the latest evaluation of a check, as one of this materialization; None if it was never evaluated."""
    found = _evaluation(_last_evaluated(instance, check))
    return replace(found, target_materialization_data=target) if found else None


def is_evaluated(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, target: AssetCheckEvaluationTargetMaterializationData | None
) -> bool:
    """Return whether the latest evaluation of a check is of this materialization, or without one, if there is any."""
    last = _last_evaluated(instance, check)
    return _is_of(last, target) if target else last is not None


def show_as_evaluated(instance: dg.DagsterInstance, evaluation: dg.AssetCheckEvaluation) -> None:
    """Report an evaluation once more if Dagster would show that of another run, which ended before this one.

    Dagster shows the execution that was planned last, and runs at once do not end in the order of their plans.
    """
    check, target = evaluation.asset_check_key, evaluation.target_materialization_data
    shown = instance.event_log_storage.get_latest_asset_check_execution_by_key([check]).get(check)
    if target and _evaluation(shown) and not _is_of(shown, target):
        instance.report_runless_asset_event(evaluation)


def _last_evaluated(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> AssetCheckExecutionRecord | None:
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=LOOKED_BACK)
    return next(filter(_evaluation, history), None)


def _is_of(record: AssetCheckExecutionRecord | None, target: AssetCheckEvaluationTargetMaterializationData) -> bool:
    """Return whether Dagster shows a materialization as evaluated by this execution of a check."""
    found = _evaluation(record)
    return bool(record and found and (record.run_id == target.run_id or found.target_materialization_data == target))


def _evaluation(record: AssetCheckExecutionRecord | None) -> dg.AssetCheckEvaluation | None:
    event = record.event.dagster_event if record and record.event else None
    found = event.event_specific_data if event else None
    return found if isinstance(found, dg.AssetCheckEvaluation) else None


def tag_run(instance: dg.DagsterInstance, run_id: str, tags: Mapping[str, str]) -> None:
    """Add tags to a run."""
    instance.add_run_tags(run_id, tags)
