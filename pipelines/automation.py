"""Schedules and sensors that keep the index up to date."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus, Schedule
from findingaid.errors import ConfigError, SourceError
from findingaid.identity.hashes import content_hash
from findingaid.model import Stage
from findingaid.store import Leases, Ledger
from findingaid_dagster.assets import (
    add_partitions,
    asset_key,
    changed_partitions,
    changed_publications,
    keys_in_use,
    observation,
    read_partitions,
)
from findingaid_dagster.internals.backfills import latest_backfill, launch_backfill
from findingaid_dagster.internals.events import last_sign, logged_data_versions
from findingaid_dagster.resources import opened

T = TypeVar("T")

UNFINISHED = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

STORE_TAG = "findingaid/store"
"""Tag of the runs of the index job: a hash of the address of their store."""

TRIED_TAG = "findingaid/tried"
"""Tag of a scheduled backfill: a hash of what was stale."""

SILENT_SECONDS = 300
"""Seconds without an event after which a run that holds no lease counts as killed.

Dagster keeps a run as started whose process was killed. A run that builds holds the lease on its corpus, and one that
does not has little to do until its next event.
"""

FEW = 10
"""Most changes left to the automation conditions, for which Dagster starts a run per range of partitions."""


def check_schedules(corpora: Iterable[Corpus]) -> None:
    """Raise ConfigError for a schedule whose cron fields Dagster does not accept, such as minute 99 or 30 February."""
    for corpus in corpora:
        for key, times in (("schedule", corpus.schedule), ("backfill_schedule", corpus.backfill_schedule)):
            if times is None:
                continue
            try:
                dg.ScheduleDefinition(name="checked", job_name="index", cron_schedule=times.cron)
            except dg.DagsterInvalidDefinitionError:
                raise ConfigError(
                    f"corpora.{corpus.name}.{key}.cron: {times.cron!r} names no time: expected minute, hour, day of the"
                    " month, month and day of the week, such as '0 3 * * *'"
                ) from None


def schedules(aid: FindingAid, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each corpus that configures one; each run builds only stale artifacts."""
    return [
        dg.ScheduleDefinition(
            name=f"{corpus.name}_schedule",
            job=job,
            cron_schedule=corpus.schedule.cron,
            execution_timezone=corpus.schedule.timezone,
            run_config=run_config([corpus.name]),
            default_status=dg.DefaultScheduleStatus[corpus.schedule.default_status],
            description=f"Bring {corpus.name} up to date.",
        )
        for corpus in aid.corpora.values()
        if corpus.schedule
    ]


def backfill_schedules(aid: FindingAid, job: dg.JobDefinition, resource_key: str) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each corpus with a `backfill_schedule`, which launches backfills."""
    return [
        _backfill_schedule(corpus, corpus.backfill_schedule, job, resource_key)
        for corpus in aid.corpora.values()
        if corpus.backfill_schedule
    ]


def _backfill_schedule(of: Corpus, times: Schedule, job: dg.JobDefinition, resource_key: str) -> dg.ScheduleDefinition:
    assets = [asset_key(of, stage) for stage in of.stages]
    tags = {"dagster/schedule_name": f"{of.name}_backfill"}

    @dg.schedule(
        times.cron,
        name=f"{of.name}_backfill",
        target=dg.AssetSelection.assets(*assets),
        execution_timezone=times.timezone,
        default_status=dg.DefaultScheduleStatus[times.default_status],
        required_resource_keys={resource_key},
        description=f"Launch a backfill of the stale, missing and failed partitions of {of.name}.",
    )
    def launch(context: dg.ScheduleEvaluationContext) -> dg.SkipReason:
        """Launch a backfill of the partitions that need one, and name it in the reason of the tick.

        Dagster records the tick as skipped, since the schedule itself requests no run.
        """
        aid = opened(context.resources, resource_key)
        if run := _under_way(context.instance, job, aid):
            return dg.SkipReason(run)
        before = latest_backfill(context.instance, tags)
        if before and before.is_under_way:
            return dg.SkipReason(f"backfill {before.id} of this schedule is under way")
        try:
            found = _to_backfill(context.instance, aid, of.name)
        except SourceError as error:
            return dg.SkipReason(str(error))
        if not found:
            return dg.SkipReason("no partition is stale, missing or failed")
        tried = content_hash(aid.indexer(of.name).recipe.id, sorted(found.items()))
        if before and before.tags.get(TRIED_TAG) == tried:
            return dg.SkipReason(
                f"{len(found)} partitions are as stale as when backfill {before.id} tried them: see it"
            )
        keys = sorted(found)
        add_partitions(context.instance, of.name, keys)
        title = f"{len(keys)} stale, missing or failed partitions of {of.name}"
        launched = launch_backfill(context, assets, keys, {**job.run_tags, **tags, TRIED_TAG: tried}, title)
        return dg.SkipReason(f"launched backfill {launched} of {title}")

    return launch


def _to_backfill(instance: dg.DagsterInstance, aid: FindingAid, corpus: str) -> dict[str, str]:
    """Return the keys of the partitions to build, each with a hash of the stamps and versions for which it is built.

    They have artifacts that are stale, new or failed, or records that Dagster does not know, as after a run outside of
    it. Raises SourceError.
    """
    indexer, (stale, deleted) = aid.indexer(corpus), _stale_artifacts(aid, corpus)
    keys, found = keys_in_use(instance, indexer.corpus, len(stale)), dict[str, str]()
    # A run of a bucket removes what is gone; an artifact's own partition would fail.
    stamps = {**dict(stale), **dict.fromkeys(deleted if keys.buckets else (), "")}
    for artifact_id, stamp in sorted(stamps.items()):
        key = keys.key_of(artifact_id)
        found[key] = content_hash(found.get(key), artifact_id, stamp)
    if aid.store.exists() and aid.publisher.current():  # else the records of a run would not be logged
        known = logged_data_versions(instance, asset_key(indexer.corpus, Stage.RECORDS))
        gone = set(map(keys.key_of, deleted))
        found |= {
            key: content_hash(found.get(key), partition.version(Stage.RECORDS))
            for key, partition in read_partitions(indexer, keys).items()
            if key not in gone
            and not any(row.failed_stage for row in partition.rows)
            and partition.version(Stage.RECORDS) != known.get(key)
        }
    return found


def changed_sources(name: str, job: dg.JobDefinition, resource_key: str) -> dg.SensorDefinition:
    """Return the sensor that starts a run when the listing of a source differs from the index."""

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        required_resource_keys={resource_key},
        description="Starts a run of the job when a source differs from the index.",
    )
    def look(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        """Start a run when the listing of a source differs from the index. Read no artifact.

        Artifacts that keep failing start one run, not one per tick: the cursor remembers the stale set of that run.
        """
        aid = opened(context.resources, resource_key)
        if run := _under_way(context.instance, job, aid):
            yield dg.SkipReason(run)
            return
        stale, reasons = _stale(aid)
        cursor = content_hash(stale)
        if not stale:
            yield dg.SkipReason("; ".join(reasons) or "nothing changed")
        elif cursor == context.cursor:
            yield dg.SkipReason("the stale artifacts are unchanged since the last run tried them: see that run")
        else:
            yield dg.RunRequest(run_config=run_config(sorted(stale)))
        context.update_cursor(cursor)

    return look


def observe_sources(name: str, job: dg.JobDefinition, resource_key: str) -> dg.SensorDefinition:
    """Return the sensor that observes all sources, so that the assets' automation conditions see the changes.

    A condition on the source asset itself would not do: Dagster would start a run per partition to observe.
    """

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        required_resource_keys={resource_key},
        description="Observes the sources, for the automation sensor. Many changes at once start a run of the job.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Observe the changed artifacts of the sources, without a run. Read no artifact.

        Many changes at once start one run of the index job instead, since automation starts a run per range of
        partitions.
        """
        aid = opened(context.resources, resource_key)
        if run := _under_way(context.instance, job, aid):
            return dg.SensorResult(skip_reason=f"{run} and observes the sources")
        found, reasons = _changed(context.instance, aid)
        many = sum(map(len, found.values())) > FEW
        cursor = content_hash(found) if many else ""
        if many and cursor != context.cursor:
            return dg.SensorResult([dg.RunRequest(run_config=run_config(sorted(found)))], cursor=cursor)
        if many:
            return dg.SensorResult(
                skip_reason="the changed artifacts are the same as in the last run, which tried them: see that run"
            )
        for corpus, versions in found.items():
            add_partitions(context.instance, corpus, list(versions))
        events = [
            observation(aid.corpora[c], key, v) for c, versions in found.items() for key, v in versions.items() if v
        ]
        reason = "; ".join([f"{len(events)} artifacts changed", *reasons])
        return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=cursor)

    return look


def published_elsewhere(name: str, resource_key: str) -> dg.SensorDefinition:
    """Return the sensor that tells Dagster of publishes and rollbacks by other programs, without a run."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=30,
        required_resource_keys={resource_key},
        description="Materializes CORPUS/published after a publish or rollback outside of Dagster.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Report what readers see if another version is served than at the last tick: the cursor remembers it."""
        aid = opened(context.resources, resource_key)
        served = str(aid.publisher.served() if aid.store.exists() else None)
        events = [] if served == context.cursor else changed_publications(aid, context.instance)
        reason = None if events else "readers see what Dagster knows"
        return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=served)

    return look


def run_config(corpora: list[str]) -> dict[str, object]:
    """Return the run configuration that indexes only these corpora."""
    return {"ops": {"discover": {"config": {"corpora": corpora}}}}


def _under_way(instance: dg.DagsterInstance, job: dg.JobDefinition, aid: FindingAid) -> str:
    """Return which run of the job writes this store now; "" if none does.

    Runs into other stores do not count, nor runs whose process was killed.
    """
    ours = dg.RunsFilter(job_name=job.name, statuses=UNFINISHED, tags={STORE_TAG: job.run_tags[STORE_TAG]})
    records = instance.get_run_records(ours)
    working = {held.run for held in Leases(aid.store).held()} if records and aid.store.exists() else set()
    for record in records:
        run = record.dagster_run
        queued = run.status is dg.DagsterRunStatus.QUEUED
        if queued or run.run_id in working or time.time() - last_sign(instance, record) < SILENT_SECONDS:
            return f"run {run.run_id[:8]} of the {job.name} job is under way"
    return ""


def _changed(instance: dg.DagsterInstance, aid: FindingAid) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Map each corpus to its unobserved partitions with their versions; also return why corpora could not be listed."""
    return _of_each(aid, lambda corpus: changed_partitions(instance, aid.indexer(corpus)))


def _stale(aid: FindingAid) -> tuple[dict[str, object], list[str]]:
    """Map each corpus to its stale and deleted artifacts, if any; also return why corpora could not be listed."""

    def stale(corpus: str) -> object:
        found = _stale_artifacts(aid, corpus)
        return list(found) if any(found) else None

    return _of_each(aid, stale)


def _stale_artifacts(aid: FindingAid, corpus: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the stale artifacts with their stamps, and the deleted ones. Raises SourceError.

    Artifacts whose outputs are pending are not stale, since a run would start at once that may have nothing to do.
    """
    plan = aid.open_run().plan(corpus)
    waits = Ledger(aid.store).pending(corpus)
    listed = [(x.artifact_id, x.stamp) for x in plan.stale if not x.settled or x.stamp != waits.get(x.artifact_id)]
    return listed, list(plan.deleted)


def _of_each(aid: FindingAid, look: Callable[[str], T]) -> tuple[dict[str, T], list[str]]:
    """Map each corpus to the result of `look`, unless it is empty; also return why corpora could not be listed."""
    found: dict[str, T] = {}
    reasons = []
    for corpus in aid.corpora:
        try:
            seen = look(corpus)
        except SourceError as error:
            reasons.append(f"{corpus}: {error}")
            continue
        if seen:
            found[corpus] = seen
    return found, reasons
