"""What brings the index up to date by itself: the clock, changed sources, and observed ones."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.batching import Batching, ended
from findingaid.errors import SourceError, SynthesisError
from findingaid.identity import content_hash
from findingaid.store import Ledger, OpenBatch
from findingaid_dagster.assets import add_partitions, changed, observation
from findingaid_dagster.resources import opened

T = TypeVar("T")

UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

FEW = 10
"""Changes that are left to the automation conditions; Dagster starts a run for each range of partitions."""


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

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        required_resource_keys={resource_key},
        description="Starts a run of the job when a source lists something else than was indexed.",
    )
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

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        required_resource_keys={resource_key},
        description="Observes the sources, for the automation sensor. Many changes at once start a run of the job.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Observe what changed in the sources, without a run. Lists and compares; reads no artifact.

        Many changes at once start one run of the index job instead, since automation starts one a range.
        """
        if _under_way(context.instance, job):
            return dg.SensorResult(skip_reason="a run of the index job is under way, which observes what it reads")
        found, reasons = _changed(context.instance, opened(context.resources, resource_key))
        many = sum(map(len, found.values())) > FEW
        cursor = content_hash(found) if many else ""
        if many and cursor != context.cursor:
            return dg.SensorResult([dg.RunRequest(run_config=run_config(sorted(found)))], cursor=cursor)
        if many:
            return dg.SensorResult(skip_reason="what changed was tried before and is as it was: see the last run")
        for corpus, versions in found.items():
            add_partitions(context.instance, corpus, list(versions))
        events = [observation(c, key, v) for c, versions in found.items() for key, v in versions.items() if v]
        reason = "; ".join([f"{len(events)} artifacts changed", *reasons])
        return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=cursor)

    return look


def finished_batches(name: str, job: dg.JobDefinition, resource_key: str) -> dg.SensorDefinition:
    """The sensor that starts a run when a batch of synopses is done."""

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=300,
        required_resource_keys={resource_key},
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts a run of the job when a batch of synopses is done.",
    )
    def look(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        """Start a run when a batch of synopses is done: one for each that is, since the cursor remembers them."""
        if _under_way(context.instance, job):
            yield dg.SkipReason("a run of the index job is under way, which takes in what is done")
            return
        done, reasons = _done(opened(context.resources, resource_key))
        cursor = content_hash(sorted((batch.tag, str(batch.at)) for batch in done))
        if not done:
            yield dg.SkipReason("; ".join(reasons) or "no batch is done")
        elif cursor == context.cursor:
            yield dg.SkipReason("a run was started for what is done and has not taken it in: see that run")
        else:
            yield dg.RunRequest(run_config=run_config(sorted({batch.corpus for batch in done})))
            context.update_cursor(cursor)

    return look


def sends_batches(aid: FindingAid) -> bool:
    """Whether any corpus may have its synopses written by batch."""
    return any(isinstance(s, Batching) and s.batch_from is not None for s in aid.synthesizers().values())


def _done(aid: FindingAid) -> tuple[list[OpenBatch], list[str]]:
    """The batches that are done, and why an endpoint could not be asked."""
    aid.store.inspect(aid.embedder.dim)
    done: list[OpenBatch] = []
    reasons: list[str] = []
    for synthesizer in aid.synthesizers().values():
        try:
            done += [batch for batch in ended(aid.store, synthesizer) if batch.corpus in aid.corpora]
        except SynthesisError as error:
            reasons.append(str(error))
    return done, reasons


def run_config(corpora: list[str]) -> dict[str, object]:
    """The run configuration that indexes only these corpora."""
    return {"ops": {"discover": {"config": {"corpora": corpora}}}}


def _under_way(instance: dg.DagsterInstance, job: dg.JobDefinition) -> bool:
    return instance.get_runs_count(dg.RunsFilter(job_name=job.name, statuses=UNDER_WAY)) > 0


def _changed(instance: dg.DagsterInstance, aid: FindingAid) -> tuple[dict[str, dict[str, str]], list[str]]:
    """corpus -> partition -> version of what was not observed yet, and why a corpus could not be listed."""
    return _of_each(aid, lambda corpus: changed(instance, aid.indexer(corpus)))


def _stale(aid: FindingAid) -> tuple[dict[str, object], list[str]]:
    """corpus -> what of it is stale, and why a corpus could not be listed."""
    aid.store.inspect(aid.embedder.dim)

    def stale(corpus: str) -> object:
        plan = aid.plan_corpus(corpus)
        waits = Ledger(aid.store).pending(corpus)  # a run would start for them at once that may do no more
        listed = [(x.artifact_id, x.stamp) for x in plan.stale if not x.settled or x.stamp != waits.get(x.artifact_id)]
        return [listed, list(plan.deleted)] if listed or plan.deleted else None

    return _of_each(aid, stale)


def _of_each(aid: FindingAid, look: Callable[[str], T]) -> tuple[dict[str, T], list[str]]:
    """corpus -> what `look` finds of it, where it finds anything, and why a corpus could not be listed."""
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
