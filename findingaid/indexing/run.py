"""One run: prepare the tables, plan, build batches, and close.

The CLI runs all of it in one process by `Run.index`. The `index` job and materializations of Dagster call the same
methods one by one, the job in a process for each batch.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from findingaid import telemetry
from findingaid.claims.decisions import DecisionLog
from findingaid.claims.eligible import count_expired
from findingaid.claims.redaction import complete, extractors, incomplete, scrub
from findingaid.corpus import Corpus, find_corpus
from findingaid.errors import (
    RAISED,
    FindingAidError,
    NotFoundError,
    QueryError,
    SourceError,
    StoreError,
    brief,
    one_line,
)
from findingaid.identity.hashes import content_hash
from findingaid.indexing.budget import BudgetTracker
from findingaid.indexing.forecast import Forecast
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import BuildOptions, Progress
from findingaid.indexing.plan import COMPARED, CorpusPlan, plan_corpus, refuse_loss, refuse_skips
from findingaid.indexing.progress import ProgressLog
from findingaid.indexing.release import Release, ReleaseResult
from findingaid.indexing.retries import NEXT_RUN
from findingaid.indexing.synopses import find_repeated_synopses, synthesizers_of
from findingaid.indexing.vectors import dimensions_of
from findingaid.indexing.workers import Executor, InProcess, Workers
from findingaid.model import WRITTEN, Discovery, Failure, Stage
from findingaid.protocols import Embedder, FolderSource, LocalSource, SettlingSource, Source
from findingaid.reports import BatchReport, CorpusReport, Report
from findingaid.sources.patterns import exclude_patterns
from findingaid.store import Lease, Leases, Store, repair
from findingaid.store.leases import Tell
from findingaid.store.purge import Purged, purge, remove_others
from findingaid.store.sql import one_of
from findingaid.store.verify import named
from findingaid.strategies.with_synopsis import split_synopsis
from findingaid.text.folding import composed

LOGGER = logging.getLogger("findingaid")

ID_BYTES = 4096
"""Most bytes of an artifact's id, the length of the longest path on Linux. Each of its records has the id."""

RETRACTED = "{} artifacts left the index, such as {}: who may read them by now is not known"

DECIDED_ELSEWHERE = (
    "decisions on {} claims or artifacts are of corpora that are not in the configuration, such as {}, and do not apply"
    " here: if it is this one, name it so again, or decide anew"
)

CHANGED = "the configuration was changed while the run was at work: the next run does the rest"

NOTHING = "nothing is listed: the source has no artifact"

UNSETTLED = "the source is being written: nothing is deleted until a later run"

ProgressOf = Callable[[str], Progress]
"""Function from the name of a corpus to the callback that reports progress on its artifacts and texts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The work on a corpus begins: what a run found to do."""

    plan: CorpusPlan


@dataclass(frozen=True, slots=True)
class BatchBuilt:
    """The rows of a batch are written; they are published at the end of the run."""

    corpus: str
    artifact_ids: Sequence[str]
    report: BatchReport


@dataclass(frozen=True, slots=True)
class Finished:
    """The work on a corpus has ended. Its report has the error of a source that could not be listed."""

    corpus: str
    report: CorpusReport


@dataclass(frozen=True, slots=True)
class Published:
    """The tables were maintained and checked, and published unless a check failed."""

    result: ReleaseResult


RunEvent = Planned | BatchBuilt | Finished | Published


@dataclass
class Run:
    """One run over corpora of a store, on one account of spending."""

    store: Store
    embedder: Embedder
    corpora: Mapping[str, Corpus]
    spending: BudgetTracker
    log: DecisionLog
    release: Release
    executor: Executor | None = None
    """Executor of the batches; None builds them in this process."""

    tell: Tell = LOGGER.warning
    """Callback for lines that say which other run is waited for."""

    _indexers: dict[str, Indexer] = field(default_factory=dict, repr=False)
    _inspected: bool = field(default=False, repr=False)

    @cached_property
    def lease(self) -> Lease:
        """Lease of this run on the corpus that it works on, held until the end of `with run`."""
        run = self.spending.run if self.spending.shared else ""
        return Leases(self.store).of_run(run, self.embedder.id, self.tell)

    def __enter__(self) -> Self:
        self.lease.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.lease.__exit__()

    def indexer(self, corpus: str) -> Indexer:
        """Return the indexer of one corpus, the same at each call. Raises UnknownCorpusError."""
        if corpus not in self._indexers:
            of = find_corpus(self.corpora, corpus)
            self._indexers[corpus] = Indexer(of, self.embedder, self.store, self.spending, self.log, self.lease)
        return self._indexers[corpus]

    def prepare(self, *, allow_loss: bool = False) -> list[str]:
        """Create missing and damaged tables, complete interrupted redactions, and return a line per table made anew.

        A new store gives no lines. If a table has to be made, runs with another embedder are kept out until this call
        ends, or `with run`. Raises StoreError if the log of decisions is lost, unless `allow_loss` lets it start
        empty, and if a run with another embedder is under way.
        """
        with self:
            dim = dimensions_of(self.embedder, self.store)
            repaired = repair.prepare(self.store, dim, allow_loss=allow_loss, before_making=self.lease.join)
            complete(self.store, self.log, extractors(self.corpora.values()), self.lease)
            self._inspected = True
            return repaired

    def plan(self, corpus: str, *, force: bool = False, allow_loss: bool = False) -> CorpusPlan:
        """Return the stale and deleted artifacts of one corpus.

        `force` makes every artifact stale. Raises SourceError if the source cannot be listed or, unless `allow_loss`,
        lists far fewer artifacts than are indexed.
        """
        self._inspect()
        indexer = self.indexer(corpus)
        known, lost = indexer.ledger.columns(corpus, *COMPARED), indexer.ledger.lost(corpus)
        decided = indexer.artifacts_with_new_decisions()
        skipped = indexer.skipped.rows(corpus)
        if getattr(indexer.corpus.source, "unreadable", "skip") != "skip":  # read them again, to let them fail
            skipped = {artifact_id: ("", reason) for artifact_id, (_, reason) in skipped.items()}
        found = _discover(indexer.corpus.source)
        waiting = {i: failure for i, failure in indexer.tried(found.listings).items() if failure.retry_in != NEXT_RUN}
        compare = partial(plan_corpus, corpus, known=known, recipe_id=indexer.recipe.id, lost=lost, force=force)
        compare = partial(compare, decided=decided, skipped=skipped, waiting=waiting, allow_loss=allow_loss)
        plan = compare(found)
        if plan.deleted and _may_miss(indexer.corpus.source):
            plan = compare(_either(_discover(indexer.corpus.source), found))
        if plan.deleted and isinstance(indexer.corpus.source, SettlingSource) and not indexer.corpus.source.settle():
            plan = replace(plan, deleted=[], notes=[*plan.notes, UNSETTLED])
        if not allow_loss:
            refuse_loss(plan, known, indexer.corpus.max_loss)
        unused = of.unused([each.artifact_id for each in found.listings]) if (of := indexer.corpus.access) else ()
        elsewhere = () if known.num_rows else self._decided_elsewhere()
        return replace(plan, notes=[*plan.notes, *unused, *elsewhere])

    def _decided_elsewhere(self) -> Iterator[str]:
        """Yield a line on decisions of corpora that are not configured: they do not apply to a corpus that is new."""
        decided = {each.claim_id: each.corpus for each in self.log.all() if each.corpus not in {"", *self.corpora}}
        if decided:
            yield DECIDED_ELSEWHERE.format(len(decided), brief(min(decided.values())))

    def plans(
        self,
        corpora: Sequence[str],
        artifact_ids: Collection[str] = (),
        *,
        force: bool = False,
        allow_loss: bool = False,
    ) -> dict[str, CorpusPlan | SourceError]:
        """Return the plan of each corpus, or the error of its source.

        With `artifact_ids` the plans cover only these artifacts, stale or not, and corpora without any are left out.
        Raises NotFoundError for an artifact that no source lists and no corpus has.
        """
        found: dict[str, CorpusPlan | SourceError] = {}
        for corpus in corpora:
            try:
                plan = self.plan(corpus, force=force or bool(artifact_ids), allow_loss=allow_loss)
                found[corpus] = plan.only(artifact_ids) if artifact_ids else plan
            except SourceError as error:
                found[corpus] = error
        if not artifact_ids:
            return found
        plans = {corpus: plan for corpus, plan in found.items() if isinstance(plan, CorpusPlan) and plan.artifact_ids}
        known = {composed(artifact_id) for plan in plans.values() for artifact_id in plan.artifact_ids}
        missing = {artifact_id for artifact_id in artifact_ids if composed(artifact_id) not in known}
        unlisted = {corpus: error for corpus, error in found.items() if isinstance(error, SourceError)}
        if missing and not unlisted:
            raise NotFoundError(f"artifact {brief(min(missing))}: in none of the sources of {', '.join(corpora)}")
        return {**plans, **unlisted} if missing else {**plans}

    def options(
        self, corpora: Sequence[str], *, force: bool = False, pay_again: bool = False, stages: Collection[str] = ()
    ) -> BuildOptions:
        """Return the options of a run that brings all stages up to date, and with `force` redoes `stages`, or all.

        Raises QueryError for a stage that none of the corpora has, and for `stages` without `force`.
        """
        if stages and not force:
            raise QueryError("stages: named to be redone: add --force")
        chosen = [find_corpus(self.corpora, corpus) for corpus in corpora]
        known = {stage for corpus in chosen for stage in corpus.stages}
        if not any(split_synopsis(corpus.strategy)[1] for corpus in chosen):
            known.discard(Stage.SYNOPSES)
        if unknown := [stage for stage in stages if stage not in known]:
            names = ", ".join(stage for stage in Stage if stage in known)
            raise QueryError(f"stage {brief(unknown[0])}: {', '.join(corpora)} has {names}")
        return BuildOptions(force=force, pay_again=pay_again, forced=[Stage(stage) for stage in stages] or tuple(Stage))

    def workers(self) -> AbstractContextManager[Workers]:
        """Return the workers that build the batches of this run."""
        return self.executor.workers(self.spending.run) if self.executor else nullcontext(InProcess())

    def plan_selected(self, corpus: str, artifact_ids: Collection[str]) -> CorpusPlan:
        """Return a plan that builds these artifacts, stale or not; `deleted` are those that the source does not have.

        Raises SourceError.
        """
        found = _discover(self.indexer(corpus).corpus.source)
        wanted = set(artifact_ids)
        listings = [listing for listing in found.listings if listing.artifact_id in wanted]
        failures = [failure for failure in found.failures if failure.artifact_id in wanted]
        there = {listing.artifact_id for listing in listings} | {failure.artifact_id for failure in failures}
        deleted = sorted(wanted - there)
        return CorpusPlan(corpus, len(there), listings, deleted, failures, allow_loss=True, partial=True)

    def begin(self, plan: CorpusPlan, *, force: bool = False) -> CorpusPlan:
        """Take the lease on a corpus if there is work, and record failures and lost parts; return the plan to follow.

        If another run works on the corpus, it is waited for, and the corpus is planned again. The lease is held until
        the end of `with run`. Raises SourceError as `plan` does.
        """
        if not plan.writes:
            return plan
        if self.lease.take(plan.corpus):
            again = self.plan(plan.corpus, force=force or plan.partial, allow_loss=plan.allow_loss)
            plan = again.only(plan.artifact_ids) if plan.partial else again
        self.indexer(plan.corpus).begin(plan)
        return plan

    def note_unlisted(self, corpus: str, error: SourceError) -> str:
        """Record that the source of a corpus could not be listed, which its status tells; return the reason."""
        reason = _at_key(corpus, error)
        self.indexer(corpus).skipped.note_unlisted(corpus, type(error).__name__, reason)
        return reason

    def finish_corpus(self, plan: CorpusPlan, reports: Sequence[BatchReport]) -> CorpusReport:
        """Clean up after the batches of a plan, and return the report of the corpus from theirs.

        Removes the records of artifacts that are skipped now. Raises SourceShrunkError if these are suspiciously many.
        """
        indexer = self.indexer(plan.corpus)
        if not plan.partial and plan.recipe_id != indexer.recipe.id:  # in Dagster, each step may load it anew
            plan = replace(plan, partial=True, notes=[*plan.notes, CHANGED])
        newly_skipped = [artifact_id for report in reports for artifact_id in report.newly_skipped]
        if newly_skipped:
            if not plan.allow_loss:
                refuse_skips(len(newly_skipped), indexer.ledger.count(plan.corpus), indexer.corpus.max_loss)
            indexer.remove(newly_skipped)
        if plan.partial or plan.failures or any(report.failed for report in reports):
            indexer.retract_other_embedders(partial=plan.partial)
        if gone := indexer.retract_undecided(partial=plan.partial):
            said = RETRACTED.format(len(gone), brief(gone[0]))
            plan = replace(plan, deleted=[*plan.deleted, *gone], notes=[*plan.notes, said])
        if not plan.partial:
            indexer.collect_unwanted_batches()
        report = _report(plan, reports, indexer.ledger.rows_of(plan.corpus, "records"))
        written = indexer.pipeline.synopses if report.calls.synthesize else None
        repeated = find_repeated_synopses(written, self.store, plan.corpus)
        expired = count_expired(self.store, plan.corpus, self.log.all())
        return replace(report, exclude=self._exclude(plan.corpus, report.failed), repeated=repeated, expired=expired)

    def _exclude(self, corpus: str, failed: Sequence[Failure]) -> list[str]:
        """Return the patterns that leave out artifacts that cannot be read; none for one, whose message says so."""
        indexer = self.indexer(corpus)
        unread = {f.artifact_id for f in failed if "exclude it" in f.message}
        if len(unread) < 2 or not hasattr(indexer.corpus.source, "exclude"):
            return []
        known = indexer.ledger.columns(corpus, "artifact_id")["artifact_id"].to_pylist()
        return exclude_patterns(unread, set(known) - unread)

    def close(self, corpora: Sequence[str] = ()) -> ReleaseResult:
        """Maintain the tables, check the corpora that the run changed, and publish; see `Release.publish_changes`."""
        return self.release.publish_changes(corpora, self.lease)

    # -- all in one process ----------------------------------------------------------------------------

    def estimate(self, corpora: Sequence[str]) -> Report:
        """Return the work that `index` would do, its cost and its time, without a paid call or a write."""
        forecast = Forecast()
        reports = {name: self._estimate(name, forecast) for name in corpora}
        texts = sum(report.calls.embed for report in reports.values())
        return Report(reports, embed_seconds=forecast.seconds(self.embedder, texts))

    def index(
        self,
        corpora: Sequence[str],
        *,
        artifacts: Collection[str] = (),
        stages: Collection[str] = (),
        force: bool = False,
        pay_again: bool = False,
        allow_loss: bool = False,
        progress: ProgressOf | None = None,
    ) -> Report:
        """Bring corpora up to date and publish; see `FindingAid.index`.

        Without `progress`, the log of findingaid gets lines on it.
        """
        progress = progress or (lambda corpus: ProgressLog(LOGGER.info, corpus, self.spending))
        options = self.options(corpora, force=force, pay_again=pay_again, stages=stages)
        details = {"findingaid.corpora": list(corpora)}
        with telemetry.span("index", "findingaid.run.duration", {}, details), self:
            repaired = self.prepare(allow_loss=allow_loss)
            plan_of = partial(self.plan, force=force, allow_loss=allow_loss)
            if artifacts:
                plans = self.plans(corpora, artifacts, force=force, allow_loss=allow_loss)
                corpora, plan_of = list(plans), partial(_planned, plans)
            events = list(self.events(corpora, plan_of, options, progress))
        reports = {event.corpus: event.report for event in events if isinstance(event, Finished)}
        result = next(event.result for event in events if isinstance(event, Published))
        held = self.release.publisher.behind() if result.held else ""
        return Report(reports, repaired, result.unpublished, held=held)

    def events(
        self,
        corpora: Sequence[str],
        plan_of: Callable[[str], CorpusPlan],
        options: BuildOptions,
        progress: ProgressOf,
    ) -> Iterator[RunEvent]:
        """Work on corpora one after the other, publish, and yield each thing when it has happened.

        A corpus gives Planned, BatchBuilt for each batch, and Finished; the last event is Published. `plan_of` returns
        the plan of a corpus, or raises SourceError, of which the report tells. To be called within `with run`, and
        after `prepare`.
        """
        active: list[str] = []
        with self.workers() as workers:
            for corpus in corpora:
                start = time.perf_counter()
                try:
                    report = yield from self._work_on(
                        plan_of(corpus), replace(options, progress=progress(corpus)), workers
                    )
                except SourceError as error:
                    report = CorpusReport(error=self.note_unlisted(corpus, error))
                active += [corpus] if report.active else []
                yield Finished(corpus, replace(report, seconds=_since(start)))
        yield Published(self.close(active))

    def _work_on(
        self, plan: CorpusPlan, options: BuildOptions, workers: Workers
    ) -> Generator[RunEvent, None, CorpusReport]:
        plan = self.begin(plan, force=options.force)
        yield Planned(plan)
        if options.progress:
            options.progress(Stage.ARTIFACTS.value, len(plan.stale), 0)
        reports: list[BatchReport] = []
        indexer = self.indexer(plan.corpus)
        for batch, report in workers.build(indexer, plan.steps() if self.executor else plan.batches(), options):
            reports.append(report)
            yield BatchBuilt(plan.corpus, [listing.artifact_id for listing in batch], report)
        for ids in plan.removals():
            indexer.remove(ids)
        return self.finish_corpus(plan, reports)

    def _estimate(self, corpus: str, forecast: Forecast) -> CorpusReport:
        start = time.perf_counter()
        try:
            plan, indexer = self.plan(corpus), self.indexer(corpus)
        except SourceError as error:
            return CorpusReport(error=_at_key(corpus, error), seconds=_since(start))
        estimates = [indexer.estimate(batch, forecast) for batch in plan.batches()]
        failed = {failure.artifact_id for estimate in estimates for failure in estimate.failed}
        counted = {listing.artifact_id for listing in plan.stale} - failed  # a skipped one gets no records
        rows = indexer.ledger.columns(corpus, "artifact_id", "n_records")
        replaced = pc.is_in(rows["artifact_id"], pa.array([*counted, *plan.deleted], pa.string()))
        kept = pc.sum(rows["n_records"].filter(pc.invert(replaced))).as_py() or 0
        report = _report(plan, estimates, kept + sum(estimate.records for estimate in estimates))
        return replace(report, seconds=_since(start))

    def _inspect(self) -> None:
        """Have the store treat unusable tables as empty, unless `prepare` has made them anew."""
        if not self._inspected:
            repair.inspect(self.store, dimensions_of(self.embedder, self.store))
            self._inspected = True

    # -- purging ---------------------------------------------------------------------------------------

    def purge(self) -> Purged:
        """Delete removed data from disk for good, while new runs and decisions wait.

        Raises StoreError if another process works on artifacts or purges, after a rollback, and if the newest records
        fail their checks or a redaction or a write is not finished.
        """
        self.prepare()
        with Leases(self.store).whole_store() as lease:
            return self._purge(lease)

    def _purge(self, lease: Lease) -> Purged:
        if self.release.publisher.withdrawn():
            raise StoreError(
                "not purged: the newest records were rolled back, and a purge leaves no others: run `findingaid"
                " publish`, or index what is to come instead"
            )
        rows, others = remove_others(self.store, self.corpora, lease)  # first, since no run can make these fit
        self.release.require_fit("purged")
        decisions = self.log.all()
        if problem := next(chain(incomplete(self.store, decisions), self._unwritten()), None):
            raise StoreError(f"not purged: {problem} first")
        scrub(self.store, decisions, extractors(self.corpora.values()))
        done = purge(self.store, self.embedder.id, synthesizers_of(self.corpora.values()), lease)
        return replace(done, rows=done.rows + rows, corpora=others)

    def _unwritten(self) -> Iterator[str]:
        """Yield lines naming artifacts whose records predate a write, or a redaction, that is not finished."""
        where = f"{one_of('corpus', sorted(self.corpora))} AND records IS NULL AND n_records > 0"
        rows = self.store.rows("ledger", ("corpus", "artifact_id"), where).to_pylist()
        for problem in named("artifacts whose records are not rewritten", [tuple(row.values()) for row in rows]):
            yield f"{problem}: run `findingaid index`"


def _discover(source: Source) -> Discovery:
    """List a source. Convert any exception but a FindingAidError to a SourceError, so that other corpora go on.

    Artifacts with an id of more than ID_BYTES become failures. Of several with one id the first counts, and a note says
    so. A note also says that nothing is listed, unless the source itself says more.
    """
    try:
        found = _first_of_each(_refuse_long_ids(source.discover()))
        return found if found.listings or found.failures or found.notes else replace(found, notes=[NOTHING])
    except FindingAidError:
        raise
    except RAISED as error:  # a source may raise anything
        raise SourceError(f"source: cannot be listed: {one_line(error)}") from error


def _may_miss(source: Source) -> bool:
    """Return whether a source lists folders of this machine.

    Some file systems, such as tmpfs and Btrfs, leave out a file that is replaced by another while they list its folder.
    """
    return isinstance(source, FolderSource) and isinstance(source, LocalSource) and bool(source.watched())


def _either(found: Discovery, other: Discovery) -> Discovery:
    """Return a discovery with what only the other one has."""
    ids = {x.artifact_id for x in found.listings} | {x.artifact_id for x in found.failures}
    listings = [*found.listings, *(x for x in other.listings if x.artifact_id not in ids)]
    failures = [*found.failures, *(x for x in other.failures if x.artifact_id not in ids)]
    unknown = [*found.unknown, *other.unknown]
    listings = sorted(listings, key=attrgetter("artifact_id"))
    return replace(found, listings=listings, failures=failures, unknown=unknown)


def _refuse_long_ids(found: Discovery) -> Discovery:
    ids = chain((listing.artifact_id for listing in found.listings), (each.artifact_id for each in found.failures))
    long = set(filter(_is_long, ids))
    if not long:
        return found
    listings = [listing for listing in found.listings if listing.artifact_id not in long]
    failures = [failure for failure in found.failures if failure.artifact_id not in long]
    return replace(found, listings=listings, failures=[*failures, *map(_long_id, sorted(long))])


def _first_of_each(found: Discovery) -> Discovery:
    counts = Counter(listing.artifact_id for listing in found.listings)
    if counts.total() == len(counts):
        return found
    first = {listing.artifact_id: listing for listing in reversed(found.listings)}
    repeated = brief(next(artifact_id for artifact_id, count in counts.items() if count > 1))
    more = counts.total() - len(counts)
    note = f"listed again under an id that another artifact has, and left out: {more:,}, such as {repeated}"
    return replace(found, listings=[first[artifact_id] for artifact_id in counts], notes=[*found.notes, note])


def _is_long(artifact_id: str) -> bool:
    return len(artifact_id) > ID_BYTES // 4 and len(artifact_id.encode("utf-8", "replace")) > ID_BYTES


def _long_id(artifact_id: str) -> Failure:
    """Return the failure of an artifact whose id is too long, under the beginning of the id and its hash."""
    size = len(artifact_id.encode("utf-8", "replace"))
    message = f"its id has {size:,} bytes, the limit is {ID_BYTES:,}: shorten it or leave it out"
    shown = artifact_id[:80].encode("utf-8", "replace").decode()
    return Failure(f"{shown}…{content_hash(artifact_id)[:8]}", Stage.ARTIFACTS.value, "too_large", message)


def _planned(plans: Mapping[str, CorpusPlan | SourceError], corpus: str) -> CorpusPlan:
    """Return the plan of a corpus, or raise the error of its source."""
    plan = plans[corpus]
    if isinstance(plan, SourceError):
        raise plan
    return plan


def _report(plan: CorpusPlan, reports: Sequence[BatchReport], records: int) -> CorpusReport:
    """Return the report of one corpus from those of its batches; `records` is its record count afterwards."""
    total = sum(reports, BatchReport())
    failed: list[Failure] = [*plan.failures, *plan.waiting, *total.failed]
    left_out = sum(failure.stage not in WRITTEN for failure in failed)
    counts: dict[str, Any] = {each.name: getattr(total, each.name) for each in fields(total)}
    counts |= {"failed": failed, "records": records, "skipped": [*plan.skipped, *total.skipped]}
    artifacts = plan.artifacts - len(total.skipped)
    return CorpusReport(
        **counts,
        artifacts=artifacts,
        unchanged=artifacts - total.new - total.changed - left_out,
        deleted=len(plan.deleted) + len(total.newly_skipped),
        waits=plan.notes,
    )


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)


def _at_key(corpus: str, error: SourceError) -> str:
    """Return a source's message; if it starts with a configuration key, prefix it with the corpus's key."""
    message = str(error)
    return f"corpora.{corpus}.{message}" if message.startswith("source.") else message
