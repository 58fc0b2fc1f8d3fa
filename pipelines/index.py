"""The `index` job: discover and plan, take batches of stale artifacts through the stages, then finish."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import dagster as dg
from pydantic import Field

from findingaid.aid import FindingAid
from findingaid.corpus import Corpus
from findingaid.errors import ConfigError, SourceError
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.plan import CorpusPlan
from findingaid.indexing.progress import ProgressLog
from findingaid.indexing.run import Run
from findingaid.indexing.workers import TRIES, lost_batch
from findingaid.model import Listing, Stage
from findingaid.reports import BatchReport, CorpusReport, Report, group_failures
from findingaid_dagster.assets import (
    HELD,
    PUBLISHED,
    Inputs,
    Keys,
    artifact_id_of,
    complete_checks,
    fail_run,
    filter_failures,
    filter_notes,
    filter_report,
    filter_skipped,
    forget_failure,
    has_artifact_partitions,
    input_versions,
    keeps_history,
    keys_of,
    log_checks,
    log_failed,
    log_remarks,
    may_quote,
    named,
    publications,
    read_published,
    select_artifacts,
    sync,
    table,
    usage_numbers,
)
from findingaid_dagster.internals.events import event_pointer, log_asset_events
from findingaid_dagster.pipelines.console import LOGGERS, quiet
from findingaid_dagster.pipelines.executor import DELAY, Execution
from findingaid_dagster.resources import in_dagster, in_one_line, opened


@dataclass(frozen=True)
class _Build:
    """Batches of stale artifacts of one corpus, to be built by one step; `number` says which of how many steps.

    With an executor of the library, one step has all batches, and otherwise one. The events of a batch are logged
    `at_once` if each artifact has a partition of its own. They name the `inputs` of each stage.
    """

    corpus: str
    batches: list[list[Listing]]
    options: BuildOptions
    number: str
    at_once: bool
    inputs: Mapping[str, Inputs]


@dataclass(frozen=True)
class _Discovered:
    """Plan of a corpus, or why it has none, and the number of `steps` that build and remove what it says.

    `inputs` has, by part, the versions of the assets that the corpus is made from. They were read before the source was
    listed, since an asset may change while the run works. `listed` is the highest event id from then.
    """

    plan: CorpusPlan | str
    steps: int
    inputs: Mapping[str, Inputs]
    listed: int


@dataclass(frozen=True)
class _Remove:
    """A batch of artifacts that the source no longer has, to be removed."""

    corpus: str
    artifact_ids: list[str]


class IndexConfig(dg.Config):
    """Options of a run of the job."""

    corpora: list[str] = Field(default=[])
    """Index only these corpora; all of them if empty."""

    artifacts: list[str] = Field(default=[])
    """Index only these artifacts; all of them if empty. The tag `dagster/partition` of a run names one of them."""

    stages: list[str] = Field(default=[])
    """With `force`, build only these stages again; all of them if empty."""

    force: bool = False
    """Build every artifact again; cached model calls are not repeated."""

    pay_again: bool = False
    """With `force`, also call the models again."""

    allow_loss: bool = False
    """Accept that a source lists far fewer artifacts than are indexed, and that the log of decisions is lost."""


PARTITION_TAG = "dagster/partition"
RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
"""Tags by which Dagster names the partitions of a run."""

RESUMED_TAG = "dagster/is_resume_retry"
"""Tag that Dagster gives a re-execution from failure, which takes the results of the earlier steps as they were."""

RESUMED = " (from failure, not all are tried again: re-execute all steps)"

RETRIED = {"dagster/retry_strategy": "ALL_STEPS"}
"""Tag by which a run that crashed is retried whole: from failure, Dagster leaves out steps that had not begun."""


def _partition_of(tags: Mapping[str, str], config: IndexConfig) -> str | None:
    """Return the key of the partition that the tags limit the run to, if any. Raises ConfigError."""
    if found := [tag for tag in RANGE_TAGS if tag in tags]:
        raise ConfigError(
            f"tag {found[0]}: the job takes no range of partitions: give `artifacts` in the run configuration,"
            " or materialize the assets"
        )
    key = tags.get(PARTITION_TAG)
    if key is not None and config.artifacts not in ([], [artifact_id_of(key)]):
        raise ConfigError(f"tag {PARTITION_TAG}={key} contradicts `artifacts` of the run configuration: give one")
    return key


def _plans(
    run: Run, corpora: Sequence[str], key: str | None, config: IndexConfig
) -> dict[str, CorpusPlan | SourceError]:
    """Return the plan of each corpus, limited to the partition with this key or to the configured artifacts."""
    plans = partial(run.plans, corpora, force=config.force, allow_loss=config.allow_loss)
    if key is None or not keys_of(key).buckets:
        return plans(config.artifacts if key is None else [artifact_id_of(key)])
    return {
        corpus: plan.only(select_artifacts([key], plan.artifact_ids)) if isinstance(plan, CorpusPlan) else plan
        for corpus, plan in plans().items()
    }


def _discover(context: dg.OpExecutionContext, config: IndexConfig, aid: FindingAid) -> Iterator[Any]:
    key = _partition_of(context.run.tags, config)
    corpora = list(aid.within(config.corpora).corpora if config.corpora else aid.corpora)
    inputs = {corpus: _input_versions(context, aid.corpora[corpus]) for corpus in corpora}
    listed = event_pointer(context.instance)
    with aid.open_run(context.run_id, context.log.warning) as run:
        for line in run.prepare(allow_loss=config.allow_loss):
            context.log.warning(line)
        options = run.options(corpora, force=config.force, pay_again=config.pay_again, stages=config.stages)
        plans: dict[str, tuple[CorpusPlan | str, int]] = {}
        for corpus, plan in _plans(run, corpora, key, config).items():
            plan = _begun(run, plan, config.force)
            if isinstance(plan, SourceError):
                error = in_dagster(run.note_unlisted(corpus, plan))
                plans[corpus] = error, 0
                context.log.error(f"{corpus}: {error}")
                continue
            context.log.info(
                f"{corpus}: {plan.artifacts} artifacts, {len(plan.stale)} stale, {len(plan.deleted)} deleted"
            )
            at_once = keeps_history() and has_artifact_partitions(context.instance, aid.corpora[corpus], plan)
            batches = list(map(list, plan.steps()))
            steps = [batches] if batches and aid.executor else [[batch] for batch in batches]
            removals = list(plan.removals())
            plans[corpus] = plan, len(steps) + len(removals)
            for number, step in enumerate(steps):
                work = _Build(corpus, step, options, f"{number + 1} of {len(steps)}", at_once, inputs[corpus])
                yield dg.DynamicOutput(work, f"{corpus}__{number}", "batches")
            for number, ids in enumerate(removals):
                yield dg.DynamicOutput(_Remove(corpus, list(ids)), f"{corpus}__remove_{number}", "batches")
        yield dg.Output(
            {
                corpus: _Discovered(
                    plan if isinstance(plan, str) else _small(plan, may_quote(aid)), n_steps, inputs[corpus], listed
                )
                for corpus, (plan, n_steps) in plans.items()
            },
            "plans",
        )


def _input_versions(context: dg.OpExecutionContext, of: Corpus) -> Mapping[str, Inputs]:
    return input_versions(context, of, [*of.stages, PUBLISHED]) if keeps_history() else {}


def _begun(run: Run, plan: CorpusPlan | SourceError, force: bool) -> CorpusPlan | SourceError:
    """Begin a plan, see `Run.begin`, and return it, or the error of its source."""
    try:
        return plan if isinstance(plan, SourceError) else run.begin(plan, force=force)
    except SourceError as error:
        return error


def _build(context: dg.OpExecutionContext, work: Any, aid: FindingAid) -> Any:
    with aid.open_run(context.run_id, context.log.warning) as run:
        indexer = run.indexer(work.corpus)
        if isinstance(work, _Remove):
            indexer.remove(work.artifact_ids)
            return work.corpus, BatchReport()
        ids = [listing.artifact_id for listing in chain.from_iterable(work.batches)]
        context.log.info(f"{work.corpus}: part {work.number}: {len(ids)} artifacts: {named(ids)}")
        progress = ProgressLog(context.log.info, work.corpus, run.spending)
        options = replace(work.options, progress=progress)
        progress(Stage.ARTIFACTS.value, len(ids), 0)
        total = BatchReport()
        with run.workers() as workers:
            for batch, built in workers.build(indexer, work.batches, options):
                ids = [listing.artifact_id for listing in batch]
                report = filter_report(built, ids, may_quote(aid))
                for failure in report.failed:
                    context.log.error(f"{work.corpus}: {failure}")
                if work.at_once:
                    done = list(map(Keys().key_of, ids))
                    sync(context, indexer, done, previews=aid.previews, inputs=work.inputs, visible=False)
                    log_failed(context, indexer, report.failed)
                total += report
        return work.corpus, total


def _finish(context: dg.OpExecutionContext, plans: dict[str, Any], done: list[Any], aid: FindingAid) -> Report:
    with aid.open_run(context.run_id, context.log.warning) as run:
        reports: dict[str, CorpusReport] = {}
        for corpus, discovered in plans.items():
            plan = discovered.plan
            if isinstance(plan, str):
                reports[corpus] = CorpusReport(error=plan)
                continue
            batches = [report for name, report in done if name == corpus]
            try:
                reports[corpus] = run.finish_corpus(plan, batches)
            except SourceError as error:
                reports[corpus] = CorpusReport(error=in_dagster(run.note_unlisted(corpus, error)))
        before = read_published(aid) if keeps_history() and not aid.publisher.current() else {}
        closed = run.close([corpus for corpus, report in reports.items() if report.active])
        if keeps_history():
            planned = [corpus for corpus, report in reports.items() if report.error is None]
            whole = [corpus for corpus in planned if not plans[corpus].plan.partial]
            for corpus in planned:
                _tell(context, run.indexer(corpus), plans[corpus], aid.previews, closed.visible)
                log_failed(context, run.indexer(corpus), reports[corpus].failed)
            log_checks(context, aid, complete_checks(context.instance, aid, closed, reports).checks)
            inputs = {corpus: plans[corpus].inputs[PUBLISHED] for corpus in whole if closed.visible}
            log_asset_events(context, publications(context, aid, before, reports, inputs=inputs))
        if closed.held:
            context.log.warning(HELD)
        return Report(reports, unpublished=closed.unpublished, held=HELD if closed.held else "")


def _tell(context: dg.OpExecutionContext, indexer: Indexer, of: _Discovered, previews: bool, visible: bool) -> None:
    """Log what Dagster does not know of a corpus."""
    listed = of.listed if isinstance(of.plan, CorpusPlan) and not of.plan.partial else None
    sync(context, indexer, previews=previews, inputs=of.inputs, visible=visible, listed=listed)


def _left_out(plans: Mapping[str, _Discovered], done: Sequence[tuple[str, BatchReport]]) -> dict[str, str]:
    """Map each corpus with steps that gave no result to a line: a re-execution leaves out those that never began."""
    return {
        corpus: f"{corpus}: {n} of {of.steps} steps did not run, and their artifacts are as before"
        for corpus, of in plans.items()
        if (n := of.steps - sum(name == corpus for name, _ in done))
    }


def _as_partial(of: _Discovered) -> _Discovered:
    """Return a plan like one of some artifacts: the run says nothing of the others."""
    return replace(of, plan=replace(of.plan, partial=True)) if isinstance(of.plan, CorpusPlan) else of


def _log_report(context: dg.OpExecutionContext, report: Report, left_out: Iterable[str]) -> None:
    """Log the results of each corpus, and fail the run if anything failed or was left out."""
    for corpus, found in report.corpora.items():
        if not found.error:
            context.log.info(f"{corpus}: {found}")
        log_remarks(context, corpus, found)
    done = {"corpora": table(_rows(report))} if report.corpora else {}
    if problems := [*report.problems(), *left_out]:
        # Artifacts that failed alike share a line.
        n_failed = len(problems) + sum(len(r.failed) - len(group_failures(r.failed)) for r in report.corpora.values())
        published = "" if report.unpublished or report.held else "everything else is published, but "
        told = {"failed": dg.MetadataValue.md("\n".join(f"- {line}" for line in problems)), **done}
        resumed = RESUMED if RESUMED_TAG in context.run.tags else ""
        raise fail_run(context, f"{published}{n_failed:,} failed{resumed}", problems, told)
    context.add_output_metadata(done)


def _rows(report: Report) -> list[dict[str, Any]]:
    """Return the counts and usage of each corpus as a row."""
    return [
        {"corpus": corpus, "artifacts": r.artifacts, "new": r.new, "changed": r.changed, "deleted": r.deleted,
         "failed": len(r.failed), "records": r.records, "synopses written": r.calls.synthesize,
         "synopses pending": r.pending, **usage_numbers(r), "cost": r.cost, "texts cut off": r.truncated.texts}
        for corpus, r in report.corpora.items()
    ]  # fmt: skip


def _small(plan: CorpusPlan, previews: bool) -> CorpusPlan:
    """Return a plan without the listings, which its batches carry: the plan itself is passed to the last step."""
    failures, waiting = (filter_failures(failed, previews) for failed in (plan.failures, plan.waiting))
    skipped, notes = filter_skipped(plan.skipped, previews), filter_notes(plan.notes, previews)
    return replace(plan, stale=(), listed=(), lost={}, failures=failures, waiting=waiting, skipped=skipped, notes=notes)


def index_job(lead: str, key: str, execution: Execution) -> dg.JobDefinition:
    """Return the job `index` of one configuration, run by its executor.

    It takes the resource `key` of the code location, and keeps the data between its steps by `steps_key`. Names of ops
    start with `lead`, since those of several configurations must differ; names of steps do not.
    """
    needs, out = {key}, partial(dg.Out, io_manager_key=steps_key(key))
    operate = partial(dg.op, required_resource_keys=needs, tags=execution.op_tags, pool=execution.pool)

    @operate(name=f"{lead}discover", out={"plans": out(), "batches": dg.DynamicOut(io_manager_key=steps_key(key))})
    def discover(context: dg.OpExecutionContext, config: IndexConfig) -> Iterator[Any]:
        """List every source, compare it with the ledger, and emit stale and deleted artifacts in batches."""
        forget_failure(context)
        with in_one_line():
            yield from _discover(context, config, opened(context.resources, key))

    @operate(name=f"{lead}batch", out=out(), retry_policy=execution.crashes)
    def batch(context: dg.OpExecutionContext, work: Any) -> Any:
        """Take one batch through all stages and log its events to the instance at once, except those of its records.

        A retry does the remaining work. The retry after `TRIES` attempts builds nothing and reports the batch as lost,
        so that `finish` publishes the rest. Otherwise one text that crashes its reader would keep everything from
        being published.
        """
        if isinstance(work, _Build) and context.retry_number == TRIES:
            why = "or its worker was killed: see the log of the run"
            return work.corpus, lost_batch(list(chain.from_iterable(work.batches)), why)
        try:
            with in_one_line():
                return _build(context, work, opened(context.resources, key))
        except Exception as error:
            if isinstance(error, dg.Failure) and not error.allow_retries:
                raise
            raise dg.RetryRequested(TRIES, DELAY) from error

    @operate(name=f"{lead}finish")
    def finish(context: dg.OpExecutionContext, plans: dict[str, Any], done: list[Any]) -> None:
        """Maintain, check and publish the tables, log the published records, and fail if anything failed."""
        forget_failure(context)
        left_out = _left_out(plans, done)
        known = {corpus: _as_partial(of) if corpus in left_out else of for corpus, of in plans.items()}
        with in_one_line():
            report = _finish(context, known, done, opened(context.resources, key))
        _log_report(context, report, left_out.values())

    # Not the name of the job, which is that of a corpus's op if the configuration has the same name as the corpus.
    @dg.graph(name=f"{lead}index_corpora")
    def index() -> None:
        """Bring every corpus up to date: read, cut, summarise, embed and publish only changed artifacts."""
        plans, batches = discover.alias("discover")()
        finish.alias("finish")(plans, batches.map(batch.alias("batch")).collect())

    config = quiet("discover", IndexConfig)
    return index.to_job(
        name=f"{lead}index",
        executor_def=execution.executor,
        config=config,
        # not run_tags, which Dagster leaves out of runs from its UI and command line
        tags={**RETRIED, **execution.run_tags},
        logger_defs=LOGGERS,
    )


def steps_key(key: str) -> str:
    """Return the key of the IO manager for data between steps. That of the code location may accept only tables."""
    return f"{key}_steps"
