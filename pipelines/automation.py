"""What brings the index up to date by itself: the clock, changed sources, and observed ones."""

from collections.abc import Iterator

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import SourceError
from findingaid.identity import content_hash
from findingaid_dagster.assets import changed, observation
from findingaid_dagster.resources import opened

UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


def schedules(aid: FindingAid, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """A schedule for each corpus that has one configured; each run does only what is stale."""
    return [
        dg.ScheduleDefinition(
            name=f"{corpus.name}_schedule",
            job=job,
            cron_schedule=corpus.schedule,
            run_config=run_config([corpus.name]),
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=f"Bring {corpus.name} up to date.",
        )
        for corpus in aid.corpora.values()
        if corpus.schedule
    ]


def changed_sources(name: str, job: dg.JobDefinition, resource_key: str) -> dg.SensorDefinition:
    """The sensor that starts a run when a source lists something else than was indexed."""

    @dg.sensor(name=name, job=job, minimum_interval_seconds=60, required_resource_keys={resource_key})
    def look(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        """Start a run when a source lists something else than was indexed. Lists and compares; reads no artifact.

        What keeps failing starts one run and not one a tick: the cursor remembers what was asked for.
        """
        if _under_way(context.instance, job):
            yield dg.SkipReason("a run of the index job is under way")
            return
        stale, reasons = _stale(opened(context.resources, resource_key))
        cursor = content_hash(stale)
        if not stale:
            yield dg.SkipReason("; ".join(reasons) or "nothing changed")
        elif cursor == context.cursor:
            yield dg.SkipReason("what is stale was tried before and is as it was: see the last run")
        else:
            yield dg.RunRequest(run_config=run_config(sorted(stale)))
        context.update_cursor(cursor)

    return look


def observe_sources(name: str, job: dg.JobDefinition, resource_key: str) -> dg.SensorDefinition:
    """The sensor that observes all sources, so that the assets' automation conditions see what changed.

    A sensor and no condition on the source itself: Dagster would start a run a partition to observe.
    """

    @dg.sensor(name=name, minimum_interval_seconds=60, required_resource_keys={resource_key})
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Observe what changed in the sources, without a run. Lists and compares; reads no artifact."""
        if _under_way(context.instance, job):
            return dg.SensorResult(skip_reason="a run of the index job is under way, which observes what it reads")
        aid = opened(context.resources, resource_key)
        observations, reasons = [], []
        for corpus in aid.corpora:
            try:
                found = changed(context.instance, aid.indexer(corpus))
            except SourceError as error:
                reasons.append(f"{corpus}: {error}")
                continue
            observations += [observation(corpus, key, version) for key, version in found.items()]
        reason = "; ".join(reasons) or f"{len(observations)} artifacts changed"
        return dg.SensorResult(asset_events=observations, skip_reason=reason)

    return look


def run_config(corpora: list[str]) -> dict[str, object]:
    """The run configuration that indexes only these corpora."""
    return {"ops": {"discover": {"config": {"corpora": corpora}}}}


def _under_way(instance: dg.DagsterInstance, job: dg.JobDefinition) -> bool:
    return instance.get_runs_count(dg.RunsFilter(job_name=job.name, statuses=UNDER_WAY)) > 0


def _stale(aid: FindingAid) -> tuple[dict[str, object], list[str]]:
    """corpus -> what of it is stale, and why a corpus could not be listed."""
    aid.store.inspect(aid.embedder.dim)
    found: dict[str, object] = {}
    reasons = []
    for corpus in aid.corpora:
        try:
            plan = aid.plan_corpus(corpus)
        except SourceError as error:
            reasons.append(f"{corpus}: {error}")
            continue
        if plan.stale or plan.deleted:
            found[corpus] = [[(x.artifact_id, x.stamp) for x in plan.stale], list(plan.deleted)]
    return found, reasons
