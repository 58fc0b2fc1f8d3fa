"""Sensors: they observe sources, start runs for what changed, and tell Dagster of publishes by other programs."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import SourceError
from findingaid.identity.hashes import content_hash
from findingaid_dagster.assets import changed_partitions, changed_publications, observation, partitions_of
from findingaid_dagster.pipelines.stale import run_config, run_under_way, stale_artifacts
from findingaid_dagster.resources import in_dagster, opened

T = TypeVar("T")

FEW = 10
"""Most changes left to the automation conditions, for which Dagster starts a run per range of partitions."""


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
        if run := run_under_way(context.instance, job, aid):
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
        if run := run_under_way(context.instance, job, aid):
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
        # The daemon adds them after it has stored the events: automation would request one without, and then with it.
        partitions = [partitions_of(corpus).build_add_request(list(versions)) for corpus, versions in found.items()]
        events = [
            observation(aid.corpora[c], key, v) for c, versions in found.items() for key, v in versions.items() if v
        ]
        reason = "; ".join([f"{len(events)} artifacts changed", *reasons])
        return dg.SensorResult(
            asset_events=events, dynamic_partitions_requests=partitions, skip_reason=reason, cursor=cursor
        )

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
        now = [f"{event.asset_key.to_user_string()}: {event.metadata['by'].value}" for event in events]
        reason = "; ".join(now) or "readers see what Dagster knows"
        return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=served)

    return look


def _changed(instance: dg.DagsterInstance, aid: FindingAid) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Map each corpus to its unobserved partitions with their versions; also return why corpora could not be listed."""
    return _of_each(aid, lambda corpus: changed_partitions(instance, aid.indexer(corpus)))


def _stale(aid: FindingAid) -> tuple[dict[str, object], list[str]]:
    """Map each corpus to its stale and deleted artifacts, if any; also return why corpora could not be listed."""

    def stale(corpus: str) -> object:
        found = stale_artifacts(aid, corpus)
        return list(found) if any(found) else None

    return _of_each(aid, stale)


def _of_each(aid: FindingAid, look: Callable[[str], T]) -> tuple[dict[str, T], list[str]]:
    """Map each corpus to the result of `look`, unless it is empty; also return why corpora could not be listed."""
    found: dict[str, T] = {}
    reasons = []
    for corpus in aid.corpora:
        try:
            seen = look(corpus)
        except SourceError as error:
            reasons.append(f"{corpus}: {in_dagster(str(error))}")
            continue
        if seen:
            found[corpus] = seen
    return found, reasons
