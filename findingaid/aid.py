"""The whole of findingaid behind one object: what the CLI, Dagster and a program of yours call."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from findingaid.checks import TORN, Checker, CheckResult, measured
from findingaid.claims.decisions import broken
from findingaid.claims.eligible import BY_DEFAULT, Eligibility, ReviewPolicy
from findingaid.claims.model import Decided
from findingaid.claims.redaction import scrub, still_stated
from findingaid.claims.standing import decided
from findingaid.config import Config, ContextDefaults, SearchDefaults, load
from findingaid.errors import ConfigError, QueryError, SourceError, StoreError, UnknownCorpusError, brief
from findingaid.evaluation import Remembering, forget_runs
from findingaid.indexing import Indexer
from findingaid.model import (
    WRITTEN,
    Answerer,
    Corpus,
    CorpusReport,
    Embedder,
    Failure,
    Mode,
    Report,
    Stage,
    Synthesizer,
)
from findingaid.plan import CorpusPlan, plan_corpus, refuse_loss
from findingaid.query.answer import Answer, compose
from findingaid.query.context import (
    ContextPack,
    Packer,
    Summarizing,
    chosen,
    missing_summaries,
    pinned_pieces,
    session_piece,
    summaries_of,
    wanted,
)
from findingaid.query.disclose import Disclosure, Level, disclose
from findingaid.query.edges import Neighbour, Referenced, most_referenced, neighbours
from findingaid.query.fields import Field, corpus_fields
from findingaid.query.forms import Form
from findingaid.query.hits import Hits
from findingaid.query.members import SUMMARIZES, NodeView, WithMembers, node_view, summarized, summarizing
from findingaid.query.offers import Asked
from findingaid.query.offers import found as offers_for
from findingaid.query.parts import Parts, RerankedBy, RewrittenBy, SelectedBy
from findingaid.query.passages import ClaimPassages, passages
from findingaid.query.provenance import Impact, Link, Provenance
from findingaid.query.reader import Key
from findingaid.query.request import Recency, Request
from findingaid.query.routing import Policy, route_of
from findingaid.query.search import Route, Searcher
from findingaid.query.show import ArtifactView, CorpusStatus, SummaryView, show, status, summaries
from findingaid.query.writing import Writing, answerer_of, written
from findingaid.reporting import BatchReport, together
from findingaid.reviewing import Claims
from findingaid.spending import NO_BUDGET, Budget, Price, Spending
from findingaid.store import Leases, Ledger, Publisher, Store, Version
from findingaid.store.leases import POLL_SECONDS
from findingaid.store.purge import Purged, purge
from findingaid.store.verify import verify
from findingaid.summaries import AnchoredSummary
from findingaid.synthesizing import Progress

if TYPE_CHECKING:
    from lance import LanceDataset


@dataclass(frozen=True)
class Finish:
    """What the end of a run came to: why readers still have the version before, if they do, and the checks."""

    unpublished: str | None
    checks: Sequence[CheckResult]


@dataclass(frozen=True)
class _Seen:
    """What checks of the newest records came to, and why those are not to be published, if so."""

    checker: Checker
    checks: Sequence[CheckResult]
    unfit: str | None


ProgressOf = Callable[[str], Progress]
"""Gives for a corpus what is called as its artifacts and texts are done."""


def open(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> FindingAid:  # noqa: A001  # as gzip.open
    """The finding aid that a findingaid.yaml describes. Raises ConfigError; touches no network and writes nothing.

    `overrides` maps dotted keys to values: {"store": "/tmp/index", "embedder.kind": "hash"}.
    """
    return FindingAid.of(load(path, overrides))


@dataclass(frozen=True)
class FindingAid:
    """An index, the corpora it is made of, and the model that embeds them."""

    store: Store
    embedder: Embedder
    corpora: Mapping[str, Corpus]
    retain: int = 1
    """Published versions that are kept, the served one included."""

    budget: Budget = NO_BUDGET
    """The most that one run may use of synthesizers; what is over it is left to the next."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    """Model -> what it costs."""

    evaluations: Path | None = None
    """The folder where evaluations keep rankings and the vectors of queries; without one they keep none."""
    search_defaults: SearchDefaults = field(default_factory=SearchDefaults)
    """What every search does that does not say otherwise."""
    context_defaults: ContextDefaults = field(default_factory=ContextDefaults)
    """How context packs are counted, and who writes of what did not fit."""

    review: ReviewPolicy = BY_DEFAULT
    """Which claims are shown and cited."""

    answerer: Answerer | None = None
    """Who writes answers where a model is asked for."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """The finding aid that a configuration describes."""
        store = Store(config.store, config.storage_options, config.settings.lexical.settings)
        return cls(
            store,
            config.embedder,
            config.corpora,
            config.settings.retain,
            config.budget,
            config.prices,
            config.evaluations,
            config.search,
            context_defaults=config.context,
            review=config.settings.review.policy,
            answerer=config.answerer,
        )

    def indexer(self, corpus: str, spending: Spending | None = None) -> Indexer:
        """What takes one corpus through the stages, with an account. Raises ConfigError for an unknown one."""
        return Indexer(self._corpus(corpus), self.embedder, self.store, spending or self.spending(), self.decided)

    def decided(self, corpus: str) -> Decided:
        """What people decided of the claims of a corpus, as it is now."""
        return decided(corpus, self.eligibility.log.all())

    def spending(self, run: str | None = None) -> Spending:
        """A new account of what a run spends; with the name of a `run` one that all its processes share."""
        if run is None:
            return Spending(self.store, self.budget, self.prices)
        return Spending(self.store, self.budget, self.prices, run, shared=True)

    def synthesizers(self) -> dict[str, Synthesizer]:
        """Id -> who writes synopses of one or more of the corpora."""
        found = (self.indexer(corpus).synopses for corpus in self.corpora)
        return {of.synthesizer.id: of.synthesizer for of in found if of is not None}

    def within(self, corpora: Sequence[str]) -> Self:
        """The same with these corpora alone: nothing of another is found, opened, counted or named by an error.

        Raises ConfigError where one is unknown, or none is named.
        """
        if not corpora:
            raise ConfigError("no corpus is named: name those that may be looked into")
        return replace(self, corpora={name: self._corpus(name) for name in corpora})

    def _corpus(self, name: str) -> Corpus:
        if name not in self.corpora:
            raise UnknownCorpusError(f"unknown corpus {brief(name)}. Known: {', '.join(self.corpora) or 'none'}")
        return self.corpora[name]

    # -- building --------------------------------------------------------------------------------------

    def plan(self, corpora: Sequence[str] | None = None) -> Report:
        """What `index` would do and what it would cost, exactly, without a model call or a write.

        A synopsis that is not written yet counts as one text to embed.
        """
        self.store.inspect(self.embedder.dim)
        seen: set[str] = set()
        return Report({name: self._timed(self._estimate, name, seen) for name in self._names(corpora)})

    def index(
        self,
        corpora: Sequence[str] | None = None,
        *,
        force: bool = False,
        pay_again: bool = False,
        allow_loss: bool = False,
        progress: ProgressOf | None = None,
    ) -> Report:
        """Bring corpora up to date and publish. What fails is in the report; everything else is published.

        `force` does again what is current, without paying again for what is kept of model calls; `pay_again`
        with it asks the models again, too. `allow_loss` accepts that a source lists far fewer artifacts than are
        indexed, and that people's decisions are lost.
        """
        names = self._names(corpora)
        repaired = self.prepare(allow_loss=allow_loss)
        spending = self.spending()
        reports = {
            name: self._timed(self._index, name, spending, force, pay_again, allow_loss, progress) for name in names
        }
        return Report(reports, repaired, self.finish([name for name in names if reports[name].active]).unpublished)

    def prepare(self, *, allow_loss: bool = False) -> list[str]:
        """Make the tables that are missing or damaged; says which those were.

        Raises StoreError where people's decisions are lost, unless `allow_loss` lets the log begin anew.
        """
        return self.store.prepare(self.embedder.dim, allow_loss=allow_loss)

    def finish(self, corpora: Sequence[str] | None = None) -> Finish:
        """Maintain the tables, check what is new in them, and publish it where nothing speaks against that.

        Checked are the corpora named, in which something was done, and all that have records not yet published.
        """
        if not corpora and self.publisher.current() and self.store.reindexed():
            return Finish(None, [])
        withdrawn = self.publisher.withdrawn()  # asked before maintenance makes a version of its own
        self.store.compact()
        with ThreadPoolExecutor(1) as pool:
            indexing = pool.submit(self.store.index)  # makes versions, but no data files to be checked
            seen = self._settled(corpora or ())
            indexing.result()
        end = self.store.retried(lambda: self._publish(seen, corpora or (), withdrawn))
        self.store.clean()
        return end

    def _publish(self, seen: _Seen, corpora: Sequence[str], withdrawn: bool) -> Finish:
        """Publish the newest version, checked again where another run has written to it meanwhile."""
        newest, edges = self.store.dataset("records"), self.store.dataset("edges")
        if not seen.checker.covers(newest, edges):
            seen = self._settled(corpora)
            newest, edges = seen.checker.newest, seen.checker.edges
        names = {result.corpus for result in seen.checks}
        quality = [] if withdrawn or seen.unfit else self._quality(newest, edges, names)
        unfit = seen.unfit or _failing(quality)
        if withdrawn:
            self.publisher.hold()
        elif unfit is None:
            self.publisher.publish(newest.version, edges.version)
        indexed = [seen.checker.indexed(corpus) for name, corpus in self.corpora.items() if name in names]
        return Finish(unfit, [*seen.checks, *quality, *indexed])

    def _quality(self, records: LanceDataset, edges: LanceDataset, changed: Collection[str]) -> list[CheckResult]:
        """What known questions find in a version of the records, for the corpora where that may have changed."""
        due = {
            name: corpus.quality
            for name, corpus in self.corpora.items()
            if corpus.quality and (name in changed or (corpus.quality.everywhere and changed))
        }
        if not due:
            return []
        looking = replace(self, store=self.store.showing(records, edges)).remembering()
        return [measured(name, quality, looking, self.evaluations) for name, quality in due.items()]

    def remembering(self) -> Self:
        """The same, which embeds no query twice, nor one that an earlier evaluation embedded."""
        return replace(self, embedder=Remembering.kept_in(self.evaluations, self.embedder))

    def _settled(self, corpora: Sequence[str]) -> _Seen:
        """What the checks find when no other run is between writing records and the ledger's word for them."""
        waited = True
        while True:
            seen = self.store.retried(lambda: self._checked(corpora))
            if seen.unfit is None or not self._may_be_torn(seen.checks):
                return seen
            held = bool(Leases(self.store).held())
            if not held and not waited:
                return seen
            waited = held  # and once more when nobody is left, who may have ended since the checks
            time.sleep(POLL_SECONDS if held else 0)

    def _checked(self, corpora: Sequence[str]) -> _Seen:
        checker = Checker(self.store, self.embedder)
        checks = self._results(checker, {*corpora, *checker.touched()})
        return _Seen(checker, checks, self._unfit(checks))

    def _may_be_torn(self, checks: Sequence[CheckResult]) -> bool:
        torn = any(result.check in TORN for result in checks if not result.passed)
        return torn or not Ledger(self.store).counts_agree("records")

    def check(self, corpora: Sequence[str] | None = None) -> list[CheckResult]:
        """Every check of corpora, over all of their newest records."""
        names = self._names(corpora)

        def look() -> list[CheckResult]:
            checker = Checker(self.store, self.embedder, everything=True)
            quality = self._quality(checker.newest, checker.edges, names)
            indexed = (checker.indexed(self._corpus(name)) for name in names)
            return [*self._results(checker, names), *(q for q in quality if q.corpus in names), *indexed]

        return self.store.retried(look)

    def _results(self, checker: Checker, names: Collection[str]) -> list[CheckResult]:
        return [result for name, corpus in self.corpora.items() if name in names for result in checker.check(corpus)]

    @property
    def publisher(self) -> Publisher:
        """What moves readers from version to version of the records."""
        return Publisher(self.store, self.retain)

    def _unfit(self, checks: Sequence[CheckResult]) -> str | None:
        """Why the newest records are not to be published."""
        if not Ledger(self.store).counts_agree("records"):
            return "some corpora are not rebuilt yet: index all of them"
        if others := [
            name for name in self.corpora if self.store.count("records", self.indexer(name).of_another_embedder)
        ]:
            return f"another embedder made the records of {', '.join(others)}: index them too"
        return _failing(checks)

    def plan_corpus(self, corpus: str, *, force: bool = False, allow_loss: bool = False) -> CorpusPlan:
        """What is stale in one corpus. Raises SourceError."""
        indexer = self.indexer(corpus)
        known = indexer.ledger.known(corpus)
        lost = indexer.ledger.lost(corpus)
        plan = plan_corpus(
            corpus, indexer.of.source.discover(), known, indexer.recipe.id, lost, force, indexer.decided_anew()
        )
        if not allow_loss:
            refuse_loss(plan, len(known), self._corpus(corpus).max_loss)
        return plan

    def _index(
        self,
        corpus: str,
        spending: Spending,
        force: bool,
        pay_again: bool,
        allow_loss: bool,
        progress: ProgressOf | None,
    ) -> CorpusReport:
        plan = self.plan_corpus(corpus, force=force, allow_loss=allow_loss)
        indexer = self.indexer(corpus, spending)
        indexer.begin(plan)
        advance = progress(corpus) if progress else None
        if advance:
            advance(Stage.ARTIFACTS.value, len(plan.stale), 0)
        reports = indexer.build_all(plan.batches(), force, pay_again, advance)
        for ids in plan.removals():
            indexer.remove(ids)
        indexer.retract_other_embedders()
        indexer.take_in_unwanted_batches()
        return summary(plan, reports, self.count_records(corpus))

    def count_records(self, corpus: str) -> int:
        """Records of a corpus by the ledger."""
        return Ledger(self.store).rows_of(corpus, "records")

    def _estimate(self, corpus: str, seen: set[str]) -> CorpusReport:
        plan = self.plan_corpus(corpus)
        indexer = self.indexer(corpus)
        estimates = [indexer.estimate(batch, seen) for batch in plan.batches()]
        looked_at = {listing.artifact_id for listing in plan.stale} - {
            f.artifact_id for e in estimates for f in e.failed
        }
        rows = indexer.ledger.rows(corpus)
        kept = sum(row.n_records for i, row in rows.items() if i not in looked_at and i not in plan.deleted)
        return summary(plan, estimates, kept + sum(e.records for e in estimates))

    def _timed(self, do: Callable[..., CorpusReport], corpus: str, *arguments: Any) -> CorpusReport:
        start = time.perf_counter()
        try:
            report = do(corpus, *arguments)
        except SourceError as error:
            report = CorpusReport(error=_at_key(corpus, error))
        return replace(report, seconds=round(time.perf_counter() - start, 3))

    def _names(self, corpora: Sequence[str] | None) -> list[str]:
        return [self._corpus(name).name for name in corpora] if corpora else list(self.corpora)

    def _one(self, corpus: str | None) -> list[str]:
        """A corpus that is named, else all: what is looked into for an id."""
        return self._names(None if corpus is None else [corpus])

    # -- publishing ------------------------------------------------------------------------------------

    def versions(self) -> list[Version]:
        """The published versions that are kept, newest first. Raises StoreError before the first run."""
        return self.publisher.versions()

    def publish(self) -> int:
        """Publish the newest records, also after a rollback. Raises StoreError when they are not fit for it."""
        self._require_fit("published")
        return self.publisher.publish()

    def rollback(self, version: int | None = None) -> int:
        """Serve an earlier version until something new is indexed, or `publish`. Raises StoreError if none is kept."""
        return self.publisher.rollback(version)

    def purge(self) -> Purged:
        """Make what was removed really gone from disk. Raises StoreError while another run works on artifacts."""
        self.prepare()
        if held := Leases(self.store).held():
            raise StoreError(f"not purged: {held[0]} works on {held[0].corpus}: run it when that is done")
        self._require_fit("purged")
        decisions = self.eligibility.log.all()
        if count := still_stated(self.store, decisions):
            raise StoreError(f"not purged: {count} redacted claims are still indexed: run `findingaid index` first")
        scrub(self.store, decisions)
        if self.evaluations:
            forget_runs(self.evaluations)
        return purge(self.store, self.corpora, self.embedder.id, self.synthesizers())

    def _require_fit(self, what: str) -> None:
        seen = self._settled(())
        changed = list(self.corpora) if self.publisher.served() != self.publisher.newest() else []
        if unfit := seen.unfit or _failing(self._quality(seen.checker.newest, seen.checker.edges, changed)):
            raise StoreError(f"not {what}: {unfit}")

    # -- asking ----------------------------------------------------------------------------------------

    def search(
        self,
        query: str | Sequence[str],
        k: int = 10,
        *,
        corpora: Sequence[str] | None = None,
        mode: Mode = "hybrid",
        where: str | None = None,
        surfaces: Sequence[str] | None = None,
        tiers: Sequence[str] | None = None,
        weights: Mapping[str, float] | None = None,
        blend: float | None = 0.5,
        per_artifact: bool = False,
        recency: Recency | None = None,
        offset: int = 0,
        timeout: float | None = None,
        explain: bool = False,
        route: str | Route | Policy | None = None,
        rewrite: RewrittenBy = None,
        rerank: RerankedBy = None,
        rerank_depth: int | None = None,
        select: SelectedBy = None,
        expand: int | str | None = None,
        use_summaries: bool = False,
        summary_top_k: int = 3,
    ) -> Hits:
        """The k best records of the published index, best first; of several queries those that answer them together.

        `where` is SQL over the records' columns and the fields of their corpora (see `fields`); `surfaces` keeps
        these surface kinds; claims and summary nodes are found only where their kinds are named, of claims those of
        these `tiers`, by default those that the configuration answers from. `route` leads from what matches to other
        records: the name of one (boost, collapsed, gate, neighbours), an import path or an object, see
        `findingaid.query.routing`. `rewrite` adds queries in other words; `rerank` puts the best `rerank_depth`, and
        at least all that are wanted, in its own order; `select` keeps what is enough of the k; `expand` gives each hit
        so many neighbours, its "section" or its "artifact". Each of these four is an object, a function, a kind or its
        spec, and False for none where the configuration names one. With `use_summaries` summary nodes are found beside
        everything else, each followed by the `summary_top_k` of its claims that answer best, which come beside the k.

        Raises QueryError for a query that cannot be put, StoreError where nothing is published or another embedder
        made the index, ModelError where a model that was asked for fails.
        """
        request = Request(
            queries=(query,) if isinstance(query, str) else tuple(query),
            k=k,
            offset=offset,
            mode=mode,
            corpora=self._names(corpora),
            surfaces=surfaces or (),
            tiers=tiers,
            use_summaries=use_summaries,
            where=where,
            weights=weights or {},
            blend=blend,
            per_artifact=per_artifact,
            recency=recency,
            timeout=timeout,
            explain=explain,
            route=route_of(route),
        )
        added = self._parts.added(request, rewrite, rerank, rerank_depth, select, expand)
        if use_summaries:
            added["after"] += [WithMembers(summary_top_k, self.eligibility)]
        return self.searcher.search(replace(request, **added))

    @cached_property
    def _parts(self) -> Parts:
        return Parts(self.store, self.corpora, self.search_defaults)

    @cached_property
    def searcher(self) -> Searcher:
        """What answers requests, with what it keeps between them."""
        return Searcher(self.store, self.embedder, self.review, tuple(self.corpora))

    @property
    def eligibility(self) -> Eligibility:
        """Which claims may be shown by the newest decisions: what every way of reading asks."""
        return self.searcher.eligibility

    @property
    def claims(self) -> Claims:
        """What artifacts state, and what people decide of it."""
        return Claims(self.store, self.corpora, self.eligibility)

    def answer(
        self,
        query: str,
        depth: int = 3,
        max_chars: int = 4000,
        llm: Writing = False,
        *,
        corpora: Sequence[str] | None = None,
        where: str | None = None,
        tiers: Sequence[str] | None = None,
    ) -> Answer:
        """An answer of at most `max_chars` from the `depth` best claims that may be cited, a citation a sentence.

        Cited are claims of `tiers`, by default of those that the configuration answers from, as decided at this moment.
        With `llm` a model writes, and what it writes is checked sentence by sentence: True for the configured one, a
        kind, a spec or an object. Where nothing covers the query the answer is "", and its words are the gaps.

        Raises QueryError for a query that cannot be put, StoreError where nothing is published, ConfigError where no
        model is configured, ModelError where it fails.
        """
        if max_chars < 1:
            raise QueryError(f"max_chars must be at least 1, got {max_chars}")
        answerer = answerer_of(llm, self.answerer)
        found = offers_for(self.searcher, Asked(query, depth, self._claimed(corpora), where, tiers, self._improved))
        return written(found, answerer, depth, max_chars) if answerer else compose(found, depth, max_chars)

    def _improved(self, request: Request) -> Request:
        """A search rewritten and reranked as all are; what is selected or expanded is for those who read hits."""
        return replace(request, **self._parts.added(request, select=False, expand=False))

    def _claimed(self, corpora: Sequence[str] | None) -> list[str]:
        """The corpora that have claims, of those named or of all. Raises QueryError where none has."""
        names = self._names(corpora)
        claimed = [name for name in names if self.corpora[name].claims]
        if not claimed:
            raise QueryError(
                f"{', '.join(names)}: no claims are taken from it: set claims: true in its corpus and run"
                " `findingaid index`"
            )
        return claimed

    def passages(self, claim_id: str, corpora: Sequence[str] | None = None) -> ClaimPassages | None:
        """A claim with the passages that say it; None for an id that is no claim's.

        Raises QueryError for a claim that may not be shown any more.
        """
        now, decisions = self.eligibility.now(), self.eligibility.log.all()
        return passages(self.store, self.corpora, claim_id, now, decisions, self._names(corpora))

    def why(self, wanted: str, corpora: Sequence[str] | None = None, *, places: bool = True) -> list[Link]:
        """Where a claim, summary node, record or artifact comes from, down to its source; broken links are named.

        Without `places` nothing is told of where a source is on this machine, only what it calls the artifact.

        Raises QueryError for an unknown id.
        """
        return replace(self._provenance(corpora), places=places).why(wanted)

    def impact(self, artifact_id: str, corpus: str | None = None) -> Impact:
        """What stands on an artifact. Raises QueryError for an unknown id."""
        return self._provenance(None).impact(artifact_id, corpus and self._corpus(corpus).name)

    def _provenance(self, corpora: Sequence[str] | None) -> Provenance:
        now, decisions = self.eligibility.now(), self.eligibility.log.all()
        return Provenance(self.store, self.corpora, now, decisions, self._names(corpora))

    def context(
        self,
        query: str | Sequence[str],
        budget_tokens: int,
        *,
        k: int = 20,
        form: Form = "text",
        pinned: Sequence[str | AnchoredSummary] = (),
        sessions: Sequence[str] = (),
        summaries: bool = True,
        summarizer: Summarizing = None,
        corpora: Sequence[str] | None = None,
        **search: Any,
    ) -> ContextPack:
        """What answers a query, put together for a model: never more than `budget_tokens` as it is shown in `form`.

        The k best hits, with `summaries` those of their artifacts, the anchored summaries of `sessions` by artifact id,
        and what is `pinned`, which comes first. `summarizer`, an object or a spec, writes of what did not fit; False
        for none where the configuration names one. `search` is what `search` takes besides. What is not in the pack
        is in its `dropped`, with the reason; what is less than was asked for in `degraded`.

        Raises what `search` does, and QueryError for an unknown session or a budget that holds nothing.
        """
        count = self.context_defaults.count or self.embedder.count_tokens
        packer = Packer(budget_tokens, form, count, self.context_defaults.tokenizer)
        names = self._names(corpora)
        asked = [session_piece(self.store, session, names) for session in sessions]
        hits = self.search(query, k, corpora=names, **search)
        keys = list(dict.fromkeys((hit.corpus, hit.artifact_id) for hit in hits)) if summaries else []
        eligible = self.eligibility.now()
        generated = self.store.retried(lambda: summaries_of(self.searcher.reader(), keys, eligible)) if keys else {}
        writes, problem = chosen(summarizer, self.context_defaults.summarizer)
        degraded = [*missing_summaries(self.store, keys), *filter(None, [problem])]
        candidates = [*pinned_pieces(pinned), *asked, *wanted(hits, generated)]
        return packer.pack((query,) if isinstance(query, str) else tuple(query), candidates, writes, degraded)

    def fields(self, corpora: Sequence[str] | None = None) -> Mapping[str, Sequence[Field]]:
        """corpus -> the fields of its published records that `where` can name, besides the columns all records have.

        Raises StoreError when nothing is published yet.
        """
        return self.store.retried(lambda: corpus_fields(self.store.published(), self._names(corpora)))

    def show(self, artifact_or_record_id: str, corpus: str | None = None) -> ArtifactView:
        """One artifact with its published records in plan order. Raises QueryError for an unknown id."""
        return show(self.store, artifact_or_record_id, self._one(corpus), self.eligibility.now())

    def artifacts(self, corpora: Sequence[str] | None = None) -> list[tuple[Key, str]]:
        """(corpus, artifact id) of all that are published, with their titles, by id. Raises StoreError."""
        names = frozenset(self._names(corpora))
        return self.store.retried(
            lambda: [(k, t) for k, t in self.searcher.reader().artifacts.items() if k[0] in names]
        )

    def history(self, artifact_or_record_id: str, corpus: str | None = None) -> list[SummaryView]:
        """The anchored summaries that an artifact has had, oldest first; [] where there is none.

        Raises QueryError for an unknown id.
        """
        return summaries(self.store, artifact_or_record_id, self._one(corpus))

    def neighbours(
        self,
        artifact_id: str,
        corpus: str | None = None,
        *,
        kinds: Sequence[str] | None = None,
        reverse: bool = False,
    ) -> list[Neighbour]:
        """What an artifact refers to, or with `reverse` what refers to it, in order. Raises QueryError.

        Of the id of a summary node the claims that it is a summary of, of a claim's with `reverse` its nodes.
        """
        names = self._one(corpus)
        derived = summarizing if reverse else summarized
        eligible = self.eligibility.now()
        if not kinds or SUMMARIZES in kinds:
            found = self.store.retried(lambda: derived(self.searcher.reader(), artifact_id, names, eligible))
            if found:
                return found
        return neighbours(self.store, artifact_id, names, self._names(None), kinds, reverse)

    def summary_node(self, id_: str, corpus: str | None = None) -> NodeView:
        """The summary node of an artifact, by its own id, its record's or the artifact's.

        Raises QueryError where there is none that may be shown.
        """
        names, eligible = self._one(corpus), self.eligibility.now()
        return self.store.retried(lambda: node_view(self.store, self.searcher.reader(), id_, names, eligible))

    def most_referenced(
        self, k: int = 10, *, corpora: Sequence[str] | None = None, kinds: Sequence[str] | None = None
    ) -> list[Referenced]:
        """What most artifacts refer to, and how many do; also what is in no corpus."""
        return most_referenced(self.store, k, self._names(corpora), self._names(None), kinds)

    def disclose(
        self,
        artifact_or_record_id: str,
        level: Level = "metadata",
        corpus: str | None = None,
        file: str | None = None,
    ) -> Disclosure:
        """An artifact up to a level: its metadata, its body, the list of files that come with it; or one such `file`.

        Raises QueryError for what is not there.
        """
        return disclose(self.store, self.corpora, artifact_or_record_id, level, self._one(corpus), file)

    def status(self, corpora: Sequence[str] | None = None) -> list[CorpusStatus]:
        """What the index holds of each corpus, and what failed."""
        return [status(self.store, name) for name in self._names(corpora)]

    def verify(self) -> list[str]:
        """Everything that is wrong with the tables, one line each; [] when they are whole and agree."""
        problems = verify(self.store, self.embedder.dim)
        return problems if self.store.problem("decisions") else [*problems, *broken(self.eligibility.log.all())]


def summary(plan: CorpusPlan, reports: Sequence[BatchReport], records: int) -> CorpusReport:
    """One corpus's report from those of its batches; `records` is what the corpus then holds."""
    whole = together(reports)
    failed: list[Failure] = [*plan.failures, *whole.failed]
    left_out = sum(f.stage not in WRITTEN for f in failed)
    return CorpusReport(
        artifacts=plan.artifacts,
        new=whole.new,
        changed=whole.changed,
        unchanged=plan.artifacts - whole.new - whole.changed - left_out,
        deleted=len(plan.deleted),
        failed=failed,
        records=records,
        calls=whole.calls,
        tokens=whole.tokens,
        truncated=whole.truncated,
        usage=whole.usage,
        cost=whole.cost,
        pending=whole.pending,
        pending_claims=whole.pending_claims,
        waiting=whole.waiting,
        refused=whole.refused,
    )


def _failing(checks: Sequence[CheckResult]) -> str | None:
    """What speaks against publishing."""
    return "; ".join(str(result) for result in checks if result.check.blocking and not result.passed) or None


def _at_key(corpus: str, error: SourceError) -> str:
    """A source's message, led by its key in the configuration where it names one."""
    message = str(error)
    return f"corpora.{corpus}.{message}" if message.startswith("source.") else message
