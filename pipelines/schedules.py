"""Schedules: of runs of the job, and of backfills of exactly the stale partitions."""

from collections.abc import Iterable

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus, Schedule
from findingaid.errors import ConfigError
from findingaid.identity.hashes import content_hash
from findingaid.model import Stage
from findingaid_dagster.assets import (
    add_partitions,
    asset_key,
    changed_versions,
    keys_in_use,
    read_partitions,
    unlogged_partitions,
)
from findingaid_dagster.internals.backfills import latest_backfills, launch_backfill
from findingaid_dagster.internals.events import failed_attempts
from findingaid_dagster.pipelines.stale import run_config, run_under_way, stale_artifacts, unseen
from findingaid_dagster.pipelines.tries import COUNTED, TRIED_TAG, tried_by_backfill
from findingaid_dagster.resources import in_one_line, opened


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
        if run := run_under_way(context.instance, job, aid):
            return dg.SkipReason(run)
        before = latest_backfills(context.instance, tags, COUNTED)
        if before and before[0].is_under_way:
            return dg.SkipReason(f"backfill {before[0].id} of this schedule is under way")
        with in_one_line(f"{of.name}: "):
            found = _to_backfill(context.instance, aid, of.name)
        if not found:
            return dg.SkipReason(f"no partition is stale or missing, or changed since it failed{unseen(aid)}")
        tried = content_hash(aid.indexer(of.name).recipe.id, sorted(found.items()))
        if why := tried_by_backfill(context.instance, before, tried):
            return dg.SkipReason(f"{len(found)} partitions are {why}")
        keys = sorted(found)
        add_partitions(context.instance, of.name, keys)
        title = f"{len(keys)} stale, missing or failed partitions of {of.name}"
        launched = launch_backfill(context, assets, keys, {**job.run_tags, **tags, TRIED_TAG: tried}, title)
        return dg.SkipReason(f"launched backfill {launched} of {title}")

    return launch


def _to_backfill(instance: dg.DagsterInstance, aid: FindingAid, corpus: str) -> dict[str, str]:
    """Return the keys of the partitions to build, each with a hash of the stamps and versions for which it is built.

    They have artifacts that are stale, new or failed, or records that Dagster does not know, as after a run outside of
    it, or Dagster shows them as failed or missing. Raises SourceError.
    """
    indexer = aid.indexer(corpus)
    stale, deleted = stale_artifacts(instance, indexer, aid.open_run().plan(corpus))
    keys, found = keys_in_use(instance, indexer.corpus, len(stale)), dict[str, str]()
    # A run of a bucket removes what is gone; an artifact's own partition would fail.
    stamps = {**dict(stale), **dict.fromkeys(deleted if keys.buckets else (), "")}
    for artifact_id, stamp in sorted(stamps.items()):
        key = keys.key_of(artifact_id)
        found[key] = content_hash(found.get(key), artifact_id, stamp)
    if aid.store.exists() and aid.publisher.current():  # else the records of a run would not be logged
        failed = set().union(*(failed_attempts(instance, asset_key(indexer.corpus, x)) for x in indexer.corpus.stages))
        gone, partitions = set(map(keys.key_of, deleted)), read_partitions(indexer, keys)
        changed = changed_versions(instance, indexer.corpus, partitions).values()
        shown = failed.union(unlogged_partitions(instance, indexer.corpus, partitions), *changed)
        found |= {
            key: content_hash(found.get(key), partition.version(Stage.RECORDS))
            for key, partition in partitions.items()
            if key not in gone and not any(row.failed_stage for row in partition.rows) and key in shown
        }
    return found
