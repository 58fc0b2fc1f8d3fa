"""Assets of one corpus, built by one operation that runs the selected stages.

There is one operation for all stages because each partition needs its own data version. Dagster allows that only for
events that the step logs itself, and it would skip the steps after a step that logs its own events. The published
records are an output of the step: they have no partitions, and assets after them run in order.

A stage is an output too if a step of the same run comes after it. Then Dagster logs an event of its own for each
partition, without its data version, and the events with the data versions follow it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import dagster as dg

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.errors import SourceError
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.plan import CorpusPlan
from findingaid.indexing.progress import ProgressLog
from findingaid.indexing.release import ReleaseResult
from findingaid.indexing.run import BatchBuilt, Finished, Planned, ProgressOf, Published, Run
from findingaid.model import Stage
from findingaid.reports import BatchReport, CorpusReport
from findingaid.store.contents import Contents
from findingaid_dagster.assets.checks import checks_step, complete_checks, log_checks
from findingaid_dagster.assets.disclosure import filter_failures, filter_report, may_quote
from findingaid_dagster.assets.failures import HELD, fail_run, forget_failure, log_failed, store_tag
from findingaid_dagster.assets.keys import (
    PUBLISHED,
    Keys,
    artifact_id_of,
    asset_key,
    keys_in_use,
    keys_of,
    select_artifacts,
)
from findingaid_dagster.assets.published import as_result, publications, read_published
from findingaid_dagster.assets.specs import Translation, published_spec, stage_spec, translated, unchanged
from findingaid_dagster.assets.sync import sync
from findingaid_dagster.assets.upstream import Inputs, input_versions
from findingaid_dagster.internals.definitions import awaited_assets
from findingaid_dagster.internals.events import event_pointer, log_asset_events, tag_run
from findingaid_dagster.internals.partitions import drop_partitions
from findingaid_dagster.resources import in_dagster, in_one_line, opened

NAMED = 20
"""Number of artifact ids in a line of the log."""

BACKFILL_TAG = "dagster/backfill"
"""Tag that Dagster gives the runs of a backfill."""


class MaterializeConfig(dg.Config):
    """Options of a materialization, set in the launchpad or by run configuration."""

    force: bool = False
    """Run the selected stages again even if nothing changed; cached model calls are not repeated."""

    pay_again: bool = False
    """With `force`, also call the models again."""

    allow_loss: bool = False
    """Index the whole corpus even if its source lists far fewer artifacts than are indexed."""


def corpus_assets(
    indexer: Indexer,
    resource_key: str,
    pool: str | None = None,
    op_tags: Mapping[str, Any] = MappingProxyType({}),
    translation: Translation = unchanged,
) -> dg.AssetsDefinition:
    """Return the assets `corpus/artifacts` to `corpus/records`, partitioned alike, and `corpus/published`."""
    corpus, published = indexer.name, asset_key(indexer.corpus, PUBLISHED)
    translate = partial(translated, translation, indexer.corpus)

    @dg.multi_asset(
        name=build_step(corpus),
        specs=[
            *(translate(stage, stage_spec(indexer, stage)) for stage in indexer.corpus.stages),
            translate(PUBLISHED, published_spec(indexer)),
        ],
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
        required_resource_keys={resource_key},
        pool=pool,
        op_tags=op_tags,
    )
    def build(context: dg.AssetExecutionContext, config: MaterializeConfig) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]  # dagster leaves its value type open
        """Run the selected stages for the selected artifacts, then check and publish.

        Without a stage, when the published records alone are selected, index the whole corpus as the job `index` does.
        """
        stages = [
            stage for stage in indexer.corpus.stages if asset_key(indexer.corpus, stage) in context.selected_asset_keys
        ]
        keys = list(context.partition_keys) if stages else []
        after = awaited_assets(context, besides=checks_step(corpus))
        awaited = [stage for stage in stages if asset_key(indexer.corpus, stage) in after]
        aid = opened(context.resources, resource_key)
        op_context = context.op_execution_context
        forget_failure(op_context)
        tag_run(op_context.instance, op_context.run_id, store_tag(aid))  # as the definitions of jobs do
        publishes = published in context.selected_asset_keys
        # Before the source is listed, and for a part that the run does not make, not at all: it may read many events.
        inputs = input_versions(op_context, indexer.corpus, stages or [*indexer.corpus.stages, PUBLISHED])
        with in_one_line(f"{corpus}: "):
            try:
                if stages:
                    done = materialize(op_context, aid, corpus, keys, stages, config, inputs, at_once=not awaited)
                else:
                    done = index_corpus(op_context, aid, corpus, config, inputs)
            except SourceError as error:  # by name, or sensors would take the run for one that was cut short
                raise fail_run(op_context, corpus, [in_dagster(str(error))]) from None
        visible, failed = done.release.visible, done.failed
        if (publishes or Stage.RECORDS in stages) and not visible and not failed:
            failed = [HELD]  # else the run is green, and its backfill red, as no event of the records is logged
        if not failed:
            yield from (dg.MaterializeResult(asset_key=asset_key(indexer.corpus, stage)) for stage in awaited)
        unlogged = [stage for stage in done.unlogged if stage is not Stage.RECORDS or visible]
        if unlogged:
            sync(op_context, aid.indexer(corpus), done.built, unlogged, aid.previews, inputs=inputs)
        log_checks(op_context, aid, done.release.checks, [corpus] if visible else [])
        wanted = visible and publishes
        asked, whole = [corpus] if wanted else [], {corpus: inputs[PUBLISHED]} if wanted and not stages else {}
        for event in publications(op_context, aid, done.before, {corpus: done.report}, asked, whole):
            if wanted and event.asset_key == published:
                yield as_result(event)
            else:
                log_asset_events(op_context, [event])
        if failed:
            counted = done.selected and done.failed and not done.release.unpublished
            of = f" of {done.selected:,} artifacts" if counted else ""
            what = f"{len(failed)}{of} failed"
            raise fail_run(op_context, what, failed)

    return build


def build_step(corpus: str) -> str:
    """Return the name of the step of a run of assets that builds a corpus."""
    return f"{corpus}_index"


@dataclass(frozen=True)
class Materialized:
    """Result of a materialization.

    `failed` has a line for each failure of the `selected` artifacts, and `built` the keys of the partitions that were
    built. `unlogged` are the stages whose events are not logged yet. `before` are the contents that readers saw until
    then.
    """

    failed: list[str]
    selected: int
    built: list[str]
    unlogged: list[Stage]
    before: dict[str, Contents]
    release: ReleaseResult
    report: BatchReport


def materialize(
    context: dg.OpExecutionContext,
    aid: FindingAid,
    corpus: str,
    keys: list[str],
    stages: list[Stage],
    config: MaterializeConfig,
    inputs: Mapping[str, Inputs],
    *,
    at_once: bool,
) -> Materialized:
    """Build these stages of the partitions with these keys, and publish.

    An artifact's own partition is built in any case. Of a bucket only stale artifacts are built, and those that are
    gone are removed. With `at_once`, the events of each batch are logged when it is built, apart from those of the
    records and of buckets, which have artifacts in many batches.
    """
    with aid.open_run(context.run_id, context.log.warning) as run:
        for line in run.prepare():
            context.log.warning(line)
        indexer, total = run.indexer(corpus), BatchReport()
        buckets = [key for key in keys if keys_of(key).buckets]
        logged = [stage for stage in stages if at_once and not buckets and stage is not Stage.RECORDS]
        built: list[str] = []
        absent: list[str] = []
        plan = run.begin(_plan(run, corpus, keys, config), force=config.force)
        options = BuildOptions(stages, config.force, pay_again=config.pay_again)
        failed = [str(failure) for failure in filter_failures(plan.failures, may_quote(aid))]
        own = replace(options, progress=_progress(context, run)(corpus))
        with run.workers() as workers:
            for batch, unfiltered in workers.build(indexer, plan.steps(), own):
                ids = [listing.artifact_id for listing in batch]
                report = filter_report(unfiltered, ids, may_quote(aid))
                _log_batch(context, corpus, ids)
                failed += map(str, report.failed)
                failed += [
                    f"{artifact_id}: skipped by the source now: run the index job"
                    for artifact_id in report.newly_skipped
                ]
                absent += [x.artifact_id for x in report.skipped if x.artifact_id not in report.newly_skipped]
                done = list(map(Keys().key_of, ids))
                if logged:
                    sync(context, indexer, done, logged, aid.previews, inputs=inputs)
                built += done
                total += report
        if buckets:
            built = keys
            for gone in plan.removals():
                indexer.remove(gone)
        else:
            indexed = indexer.ledger.rows(corpus, plan.deleted)
            failed += [f"{artifact_id}: no longer in the source: run the index job" for artifact_id in indexed]
            absent += [i for i in plan.deleted if i not in indexed]
            if at_once and BACKFILL_TAG not in context.run.tags:
                _drop_partitions(context, corpus, absent)
            else:  # steps that follow would be told that these have records, and a backfill ends if a partition goes
                failed += [f"{i}: gone, or skipped by the source, and not indexed: run the index job" for i in absent]
        indexer.retract_other_embedders(partial=True)
        before = read_published(aid)
        release = run.close([corpus])
    log_remarks(context, corpus, total)
    _log_failures(context, corpus, failed, release)
    unlogged = [stage for stage in stages if stage not in logged]
    return Materialized(failed, len(plan.artifact_ids), built, unlogged, before, release, total)


def _drop_partitions(context: dg.OpExecutionContext, corpus: str, artifact_ids: Sequence[str]) -> None:
    """Remove the partitions of artifacts that were gone or skipped before they were indexed, as automation may ask."""
    if artifact_ids:
        context.log.info(f"{corpus}: gone or skipped before they were indexed: {named(artifact_ids)}")
        drop_partitions(context.instance, corpus, list(map(Keys().key_of, artifact_ids)))


def _plan(run: Run, corpus: str, keys: Collection[str], config: MaterializeConfig) -> CorpusPlan:
    """Return the plan of partitions: of artifacts whether stale or not, or of what is stale in buckets."""
    if not any(keys_of(key).buckets for key in keys):
        return run.plan_selected(corpus, list(map(artifact_id_of, keys)))
    plan = run.plan(corpus, force=config.force, allow_loss=config.allow_loss)
    return plan.only(select_artifacts(keys, plan.artifact_ids))


def index_corpus(
    context: dg.OpExecutionContext,
    aid: FindingAid,
    corpus: str,
    config: MaterializeConfig,
    inputs: Mapping[str, Inputs],
) -> Materialized:
    """Bring a whole corpus up to date and publish: build what is stale, and remove what its source does not have."""
    at_once, total, before, release = False, CorpusReport(), {}, ReleaseResult(None, ())
    listed = event_pointer(context.instance)
    with aid.open_run(context.run_id, context.log.warning) as run:
        for line in run.prepare(allow_loss=config.allow_loss):
            context.log.warning(line)
        indexer = run.indexer(corpus)
        plan_of = partial(run.plan, force=config.force, allow_loss=config.allow_loss)
        options = run.options([corpus], force=config.force, pay_again=config.pay_again)
        for event in run.events([corpus], plan_of, options, _progress(context, run)):
            match event:
                case Planned(plan):
                    at_once = has_artifact_partitions(context.instance, indexer.corpus, plan)
                case BatchBuilt(_, ids, report):
                    _log_batch(context, corpus, ids)
                    if at_once:
                        done = list(map(Keys().key_of, ids))
                        sync(context, indexer, done, previews=aid.previews, inputs=inputs, visible=False)
                        log_failed(context, indexer, report.failed)
                case Finished(_, total):
                    if total.error:
                        log_checks(context, aid, complete_checks(context.instance, aid, release, [corpus]).checks)
                        raise SourceError(total.error)
                    total = filter_report(total, list(plan.artifact_ids), may_quote(aid))
                    before = read_published(aid)
                case Published(release):
                    pass
    failed = list(map(str, total.failed))
    log_remarks(context, corpus, total)
    _log_failures(context, corpus, failed, release)
    sync(context, indexer, previews=aid.previews, inputs=inputs, visible=release.visible, listed=listed)
    release = complete_checks(context.instance, aid, release, [corpus])
    log_failed(context, indexer, total.failed)
    context.log.info(f"{corpus}: {total}")
    return Materialized(failed, 0, [], [], before, release, total)


def has_artifact_partitions(instance: dg.DagsterInstance, of: Corpus, plan: CorpusPlan) -> bool:
    """Check whether a corpus has a partition per artifact, now and after a run of this plan."""
    return Keys() == keys_in_use(instance, of, plan.artifacts) == Keys(of.partitions.buckets_for(plan.artifacts))


def _progress(context: dg.OpExecutionContext, run: Run) -> ProgressOf:
    return lambda corpus: ProgressLog(context.log.info, corpus, run.spending)


def _log_batch(context: dg.OpExecutionContext, corpus: str, ids: Sequence[str]) -> None:
    context.log.info(f"{corpus}: a batch is built: {len(ids)} artifacts: {named(ids)}")


def _log_failures(context: dg.OpExecutionContext, corpus: str, failed: list[str], release: ReleaseResult) -> None:
    """Add the reason to `failed` if publishing was refused, and log all failures."""
    if release.unpublished:
        failed.append(f"not published, readers keep the previous version: {release.unpublished}")
    if release.held:
        context.log.warning(f"{corpus}: {HELD}")
    for line in failed:
        context.log.error(f"{corpus}: {line}")


def log_remarks(context: dg.OpExecutionContext, corpus: str, report: BatchReport) -> None:
    """Log what a batch or a run skipped, guessed, cut off, refused or left to the next run."""
    for line in report.remarks:
        context.log.info(f"{corpus}: {line}")
    for line in report.warnings:
        context.log.warning(f"{corpus}: {line}")


def named(artifact_ids: Sequence[str]) -> str:
    """Format the artifact ids of a batch for a log line; only the first `NAMED` are named."""
    return ", ".join(artifact_ids[:NAMED]) + (", …" if len(artifact_ids) > NAMED else "")
