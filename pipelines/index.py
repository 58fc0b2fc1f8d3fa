"""The `index` job: discover and plan, batches of stale artifacts through the stages, then finish."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
from pydantic import Field

from findingaid.aid import summary
from findingaid.errors import SourceError
from findingaid.model import CorpusReport, Failure, Listing, Report, Stage
from findingaid.plan import CorpusPlan
from findingaid.reporting import BatchReport
from findingaid_dagster.assets import log_checks, named, sync, table
from findingaid_dagster.pipelines.executor import Execution
from findingaid_dagster.resources import FindingAidResource

TRIES = 2
"""Of a batch: a worker that was killed or a store that was not there are often better the next time."""


@dataclass(frozen=True)
class _Build:
    """A batch of stale artifacts of one corpus."""

    corpus: str
    listings: list[Listing]
    force: bool
    pay_again: bool


@dataclass(frozen=True)
class _Remove:
    """A batch of artifacts that the source no longer has."""

    corpus: str
    artifact_ids: list[str]


class IndexConfig(dg.Config):
    """What a run of the job may be told."""

    corpora: list[str] = Field(default_factory=list)
    """Only these; all of them when empty."""

    force: bool = False
    """Do every artifact again; calls that were paid for are not repeated."""

    pay_again: bool = False
    """With `force`: ask the models again, too."""

    allow_loss: bool = False
    """Accept that a source lists far fewer artifacts than are indexed, and that the log of decisions is gone."""


@dg.op(out={"plans": dg.Out(), "batches": dg.DynamicOut()})
def discover(context: dg.OpExecutionContext, config: IndexConfig, findingaid: FindingAidResource) -> Iterator[Any]:
    """List every source, compare with the ledger, and hand out what is stale in batches."""
    aid = findingaid.open()
    for line in aid.prepare(allow_loss=config.allow_loss):
        context.log.warning(line)
    plans: dict[str, CorpusPlan | str] = {}
    for corpus in config.corpora or aid.corpora:
        try:
            plans[corpus] = plan = aid.plan_corpus(corpus, force=config.force, allow_loss=config.allow_loss)
        except SourceError as error:
            context.log.error(f"{corpus}: {error}")  # noqa: TRY400  # the message says it all, the trace nothing
            plans[corpus] = str(error)
            continue
        aid.indexer(corpus).begin(plan)
        context.log.info(f"{corpus}: {plan.artifacts} artifacts, {len(plan.stale)} stale, {len(plan.deleted)} deleted")
        for number, listings in enumerate(plan.batches()):
            work = _Build(corpus, list(listings), config.force, config.pay_again)
            yield dg.DynamicOutput(work, f"{corpus}__{number}", "batches")
        for number, ids in enumerate(plan.removals()):
            yield dg.DynamicOutput(_Remove(corpus, list(ids)), f"{corpus}__remove_{number}", "batches")
    yield dg.Output(
        {corpus: plan if isinstance(plan, str) else _small(plan) for corpus, plan in plans.items()}, "plans"
    )


@dg.op(retry_policy=dg.RetryPolicy(max_retries=TRIES, delay=5))
def batch(context: dg.OpExecutionContext, work: Any, findingaid: FindingAidResource) -> Any:
    """Take one batch through all stages; the instance learns of it at once.

    A retry does what is left. The one after the last try builds nothing and reports the batch as lost, so that
    `finish` publishes the rest: else one text that crashes whoever reads it would keep everything from readers.
    """
    if isinstance(work, _Build) and context.retry_number == TRIES:
        return work.corpus, _lost(work)
    aid = findingaid.open()
    indexer = aid.indexer(work.corpus, aid.spending(context.run_id))
    if isinstance(work, _Remove):
        indexer.remove(work.artifact_ids)
        return None
    context.log.info(f"{work.corpus}: {len(work.listings)} artifacts: {named(work.listings)}")
    report = indexer.build(work.listings, force=work.force, pay_again=work.pay_again)
    for failure in report.failed:
        context.log.error(f"{work.corpus}: {failure}")
    if _keeps_history():
        sync(context, indexer, [listing.artifact_id for listing in work.listings])
    return work.corpus, report


@dg.op
def finish(
    context: dg.OpExecutionContext, plans: dict[str, Any], done: list[Any], findingaid: FindingAidResource
) -> None:
    """Maintain and publish the tables, bring partition keys up to date, and fail if anything failed."""
    aid = findingaid.open()
    spending = aid.spending(context.run_id)
    reports: dict[str, CorpusReport] = {}
    for corpus, plan in plans.items():
        if isinstance(plan, str):
            reports[corpus] = CorpusReport(error=plan)
            continue
        indexer = aid.indexer(corpus, spending)
        indexer.retract_other_embedders()
        indexer.take_in_unwanted_batches()
        batches = [report for name, report in filter(None, done) if name == corpus]
        reports[corpus] = summary(plan, batches, aid.count_records(corpus))
    end = aid.finish([corpus for corpus, report in reports.items() if report.active])
    if _keeps_history():
        log_checks(context, aid, end.checks)
        for corpus in (corpus for corpus, report in reports.items() if report.error is None):
            sync(context, aid.indexer(corpus))
    _tell(context, Report(reports, unpublished=end.unpublished))


def _tell(context: dg.OpExecutionContext, report: Report) -> None:
    """Log what was done, and fail the run if anything failed."""
    for corpus, found in report.corpora.items():
        context.log.info(f"{corpus}: {found}")
        for line in filter(None, (found.warning, found.left)):
            context.log.warning(f"{corpus}: {line}")
    done = {"corpora": table(_rows(report))} if report.corpora else {}
    if problems := list(report.problems()):
        published = "" if report.unpublished else "everything else is published, but "
        raise dg.Failure(
            f"{published}{len(problems)} failed: {'; '.join(problems[:5])}",
            {"failed": dg.MetadataValue.md("\n".join(f"- {line}" for line in problems)), **done},
            allow_retries=False,
        )
    context.add_output_metadata(done)


def _rows(report: Report) -> list[dict[str, Any]]:
    """What was done and used, a row a corpus."""
    return [
        {"corpus": corpus, "artifacts": r.artifacts, "new": r.new, "changed": r.changed, "deleted": r.deleted,
         "failed": len(r.failed), "records": r.records, "synopses written": r.calls.synthesize,
         "synopses pending": r.pending, "synthesizer calls": r.usage.calls, "tokens in": r.usage.input_tokens,
         "tokens out": r.usage.output_tokens, "cost": r.cost, "texts embedded": r.calls.embed,
         "tokens embedded": r.tokens, "texts cut off": r.truncated.texts}
        for corpus, r in report.corpora.items()
    ]  # fmt: skip


def _lost(work: _Build) -> BatchReport:
    why = f"its batch failed {TRIES} times, or its worker was killed: the log of the run has more"
    return BatchReport(failed=[Failure(x.artifact_id, Stage.ARTIFACTS.value, "lost", why) for x in work.listings])


def _small(plan: CorpusPlan) -> CorpusPlan:
    """A plan without the listings that its batches carry, since it travels to the last step too."""
    return replace(plan, stale=(), lost={})


def _keeps_history() -> bool:
    """Without DAGSTER_HOME the instance ends with the run, and events would be written for nobody."""
    return "DAGSTER_HOME" in os.environ


QUIET = {"loggers": {"console": {"config": {"log_level": "INFO"}}}}
"""On a terminal the job says what it did, not each event; the instance has those."""


def index_job(name: str, execution: Execution, findingaid: FindingAidResource) -> dg.JobDefinition:
    """The job of one configuration, run by its executor.

    Its resources are its own: the IO manager of the code location may be one that only takes tables.
    """
    resources = {"findingaid": findingaid, "io_manager": execution.io_manager}
    return index.to_job(name, resource_defs=resources, executor_def=execution.executor, config=QUIET)


@dg.graph
def index() -> None:
    """Bring every corpus up to date: read, cut, summarise, embed and publish what changed, and only that."""
    plans, batches = discover()
    finish(plans, batches.map(batch).collect())
