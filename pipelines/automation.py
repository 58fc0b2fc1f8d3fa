"""What starts the `index` job by itself: the clock, and changed sources."""

from collections.abc import Iterator

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import SourceError
from findingaid.identity import content_hash
from findingaid_dagster.pipelines.index import JOB
from findingaid_dagster.resources import FindingAidResource

UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


def schedules(aid: FindingAid) -> list[dg.ScheduleDefinition]:
    """A schedule for each corpus that has one configured; each run does only what is stale."""
    return [
        dg.ScheduleDefinition(
            name=f"{corpus.name}_schedule",
            job_name=JOB,
            cron_schedule=corpus.schedule,
            run_config=run_config([corpus.name]),
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=f"Bring {corpus.name} up to date.",
        )
        for corpus in aid.corpora.values()
        if corpus.schedule
    ]


@dg.sensor(job_name=JOB, minimum_interval_seconds=60)
def changed_sources(
    context: dg.SensorEvaluationContext, findingaid: FindingAidResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Start a run when a source lists something else than was indexed. Lists and compares; reads no artifact.

    What keeps failing starts one run and not one a tick: the cursor remembers what was asked for.
    """
    under_way = context.instance.get_runs_count(dg.RunsFilter(job_name=JOB, statuses=UNDER_WAY))
    if under_way:
        yield dg.SkipReason("a run of the index job is under way")
        return
    stale, reasons = _stale(findingaid.open())
    cursor = content_hash(stale)
    if not stale:
        yield dg.SkipReason("; ".join(reasons) or "nothing changed")
    elif cursor == context.cursor:
        yield dg.SkipReason("what is stale was tried before and is as it was: see the last run")
    else:
        yield dg.RunRequest(run_config=run_config(sorted(stale)))
    context.update_cursor(cursor)


def run_config(corpora: list[str]) -> dict[str, object]:
    """The run configuration that indexes only these corpora."""
    return {"ops": {"discover": {"config": {"corpora": corpora}}}}


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
