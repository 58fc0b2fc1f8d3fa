"""Sensors: they observe sources, start runs for what changed, and tell Dagster of publishes by other programs."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.errors import SourceError, StoreError
from findingaid.identity.hashes import content_hash
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.plan import CorpusPlan
from findingaid.model import Listing, Stage
from findingaid.store import Leases
from findingaid_dagster.assets import (
    SOURCE,
    STORE_TAG,
    asset_key,
    changed_partitions,
    changed_publications,
    keys_in_use,
    new_failures,
    observation,
    partitions_of,
    shows_unlisted,
)
from findingaid_dagster.internals.events import ENDED, failed_attempts, latest_event_ids
from findingaid_dagster.pipelines.stale import (
    is_left_undone,
    left_partitions,
    run_config,
    run_under_way,
    stale_artifacts,
    unseen,
)
from findingaid_dagster.pipelines.tries import tried_by, tried_tags
from findingaid_dagster.resources import in_dagster, opened

T = TypeVar("T")

FEW = 10
"""Most changes left to the automation conditions, for which Dagster starts a run per range of partitions."""

NOTHING = "-"
"""Cursor after a tick that found nothing: an empty one would leave that of the tick before."""

JUST_NOW = 60
"""Seconds after a materialization in which automation, which looks every 30 seconds, may not have seen it yet."""


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

        A source that cannot be listed starts one too, which fails and says why. The cursor remembers what runs were
        started for, so that each starts one and not one per tick.
        """
        aid = opened(context.resources, resource_key)
        if run := run_under_way(context.instance, job, aid):
            yield dg.SkipReason(run)
            return
        seen = _of_each(aid, lambda corpus: _stale(context.instance, aid, corpus))
        found = _with_undone(seen, context.instance, job, aid)
        new, why, cursor = _untried(found, context.instance, job, context.cursor)
        if new:
            yield _request(new)
        else:
            yield dg.SkipReason(("; ".join(why) or "nothing changed") + unseen(aid))
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
        description="Observes the sources, for the automation sensor. Deletions, a new strategy and many changes start"
        " a run of the job.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Observe the changed artifacts of the sources, without a run. Read no artifact.

        Deletions, a changed recipe and many changes at once start one run of the index job instead, since automation
        removes nothing, and starts a run per range of partitions. A source that cannot be listed starts one too, which
        fails and says why. What changes while a run works on it, or just did, is observed later.
        """
        aid = opened(context.resources, resource_key)
        if run := run_under_way(context.instance, job, aid):
            return dg.SensorResult(skip_reason=f"{run} and observes the sources")
        seen = _of_each(aid, lambda corpus: _changes(context.instance, aid, corpus))
        found = _with_undone(seen, context.instance, job, aid)
        few = {corpus: changes for corpus, changes in found.items() if isinstance(changes, dict)}
        others = {corpus: changes for corpus, changes in found.items() if corpus not in few}
        new, why, cursor = _untried(others, context.instance, job, context.cursor)
        # The daemon adds them after it has stored the events: automation would request one without, and then with it.
        partitions = [partitions_of(corpus).build_add_request(list(versions)) for corpus, versions in few.items()]
        events = [
            observation(aid.corpora[c], key, v) for c, versions in few.items() for key, v in versions.items() if v
        ]
        # Before the run that is due, what readers see may be lost.
        reason = None if new else "; ".join([f"{len(events)} artifacts changed", *why]) + unseen(aid)
        return dg.SensorResult(
            [_request(new)] if new else None,
            asset_events=events,
            dynamic_partitions_requests=partitions,
            skip_reason=reason,
            cursor=cursor,
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
        """Report what readers see if something else is served than at the last tick: the cursor remembers it.

        A run of a job or of assets reports what it publishes itself, with its numbers.
        """
        aid = opened(context.resources, resource_key)
        if run := run_under_way(context.instance, None, aid):
            return dg.SensorResult(skip_reason=run)
        try:
            served = str(aid.publisher.mark() if aid.store.exists() else None)
            events = [] if served == context.cursor else changed_publications(aid, context.instance)
        except StoreError as error:  # as while the records are lost: the run that rebuilds them reports them
            return dg.SensorResult(skip_reason=str(error), cursor=context.cursor)
        now = [f"{event.asset_key.to_user_string()}: {event.metadata['by'].value}" for event in events]
        reason = "; ".join(now) or "readers see what Dagster knows"
        return dg.SensorResult(asset_events=events, skip_reason=reason, cursor=served)

    return look


def _stale(instance: dg.DagsterInstance, aid: FindingAid, corpus: str) -> object:
    """Return the stale and deleted artifacts of a corpus and its partitions left over, or None. Raises SourceError.

    They come with the recipe: another one is tried though the same artifacts are stale.
    """
    plan, indexer = aid.open_run().plan(corpus), aid.indexer(corpus)
    found = [*stale_artifacts(instance, indexer, plan), left_partitions(instance, aid, indexer, plan)]
    return [indexer.recipe.id, *found] if any(found) or shows_unlisted(instance, indexer.corpus) else None


def _changes(instance: dg.DagsterInstance, aid: FindingAid, corpus: str) -> dict[str, str] | list[object]:
    """Return the changed partitions of a corpus that no run works on, or just did, or a list of all for the job to do.

    Automation would take a change during a run for the one that the run was for. Raises SourceError.
    """
    if aid.store.exists() and Leases(aid.store).held(corpus):
        return {}
    plan, indexer = aid.open_run().plan(corpus), aid.indexer(corpus)
    found = changed_partitions(instance, aid, plan)
    unseen = _unseen(instance, indexer, plan, found)
    if unseen:  # a run may have built or tried them since they were planned
        due = {listing.artifact_id for listing in _due(indexer, aid.open_run().plan(corpus))}
        unseen = [artifact_id for artifact_id in unseen if artifact_id in due]
    unseen += new_failures(instance, indexer, plan.failures)
    gone = [*plan.deleted, *left_partitions(instance, aid, indexer, plan)]
    if gone or unseen or len(found) > FEW or shows_unlisted(instance, indexer.corpus):
        return [indexer.recipe.id, sorted(found.items()), gone, unseen]
    if not found:
        return {}
    asset, now = asset_key(aid.corpora[corpus], Stage.ARTIFACTS), time.time()
    made = dg.AssetRecordsFilter(
        asset, asset_partitions=list(found), after_timestamp=now - JUST_NOW, before_timestamp=now + JUST_NOW
    )
    recent = {record.partition_key for record in instance.fetch_materializations(made, limit=1000).records}
    return {key: version for key, version in found.items() if key not in recent}


def _unseen(instance: dg.DagsterInstance, indexer: Indexer, plan: CorpusPlan, changed: Collection[str]) -> list[str]:
    """Return the stale artifacts for which automation sees no reason, besides those of the `changed` partitions.

    They are outdated, or Dagster shows them as built since they were observed, as after a loss in the store. Or a run
    that was to build them ended before it tried them.
    """
    of, stale = indexer.corpus, _due(indexer, plan)
    if not stale:
        return []
    keys = keys_in_use(instance, of, len(stale))
    observed = latest_event_ids(instance, asset_key(of, SOURCE), observed=True)
    made = latest_event_ids(instance, asset_key(of, Stage.ARTIFACTS))
    built = {key for key, event in made.items() if event > observed.get(key, 0)} - set(changed)
    left = failed_attempts(instance, asset_key(of, Stage.ARTIFACTS), statuses=ENDED) - set(changed)
    keyed = {x.artifact_id: keys.key_of(x.artifact_id) for x in stale if x.settled}
    fresh = {artifact_id for artifact_id, key in keyed.items() if key in built | left}
    return sorted(fresh | indexer.outdated(stale))


def _due(indexer: Indexer, plan: CorpusPlan) -> list[Listing]:
    """Return the stale artifacts that did not fail as they are now, nor wait for a model."""
    handled = indexer.handled(plan.stale)
    return [listing for listing in plan.stale if listing.artifact_id not in handled]


def _of_each(aid: FindingAid, look: Callable[[str], T]) -> dict[str, T | SourceError]:
    """Map each corpus to the result of `look`, unless it is empty, or to the error of its source."""
    found: dict[str, T | SourceError] = {}
    for corpus in aid.corpora:
        try:
            seen = look(corpus)
        except SourceError as error:
            found[corpus] = error
            continue
        if seen:
            found[corpus] = seen
    return found


def _with_undone(
    found: Mapping[str, T | SourceError], instance: dg.DagsterInstance, job: dg.JobDefinition, aid: FindingAid
) -> dict[str, T | SourceError | str]:
    """Return what was found, and for the other corpora whether a run left anything undone."""
    others = aid.corpora.keys() - found.keys()
    left = others and is_left_undone(instance, job, aid)
    return {**found, **dict.fromkeys(others if left else (), "undone")}


def _untried(
    found: Mapping[str, object], instance: dg.DagsterInstance, job: dg.JobDefinition, cursor: str | None
) -> tuple[dict[str, str], list[str], str]:
    """Return the corpora for which a run is due, by name, a line for each other one on why none is, and the new cursor.

    The cursor has a hash of the finding of each corpus, and so has the run that is started for it. Errors of a source
    are alike, since their messages may differ by the address of an object.
    """
    hashes = {
        corpus: content_hash(corpus, type(finding).__name__ if isinstance(finding, SourceError) else finding)
        for corpus, finding in found.items()
    }
    known, store, due, why = (cursor or "").split(), {STORE_TAG: job.run_tags[STORE_TAG]}, dict[str, str](), []
    for corpus, finding in found.items():
        own = {corpus: hashes[corpus]}
        tried = tried_by(instance, {**store, **tried_tags(own)}) if hashes[corpus] in known else None
        if tried is None:
            due |= own
        else:
            error = f"{in_dagster(str(finding))}: " if isinstance(finding, SourceError) else ""
            why.append(f"{corpus}: {error}{tried}")
    return due, why, " ".join(sorted(hashes.values())) or NOTHING


def _request(due: Mapping[str, str]) -> dg.RunRequest:
    """Return a request of one run for these corpora, each with the hash of its finding."""
    return dg.RunRequest(run_config=run_config(sorted(due)), tags=tried_tags(due))
