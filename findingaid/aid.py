"""Facade used by the CLI, Dagster and user code: every operation of findingaid behind one object."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from findingaid.access import Caller, is_principal
from findingaid.claims.decisions import DecisionLog, Verdict, broken
from findingaid.claims.eligible import BY_DEFAULT, Eligibility, ReviewPolicy
from findingaid.claims.model import Action
from findingaid.claims.redaction import incomplete
from findingaid.claims.review import Claims, whoami
from findingaid.claims.revocations import Revoked
from findingaid.config.budget_check import check_budget
from findingaid.config.building import Config
from findingaid.config.loading import load
from findingaid.corpus import Corpus, find_corpus
from findingaid.errors import ConfigError, NotFoundError, QueryError, StoreError, brief
from findingaid.identity.fingerprints import EMBEDDER, check_id
from findingaid.indexing.budget import NO_BUDGET, Budget, BudgetTracker, Price
from findingaid.indexing.checks import CheckResult
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.ray_workers import RayExecutor
from findingaid.indexing.release import Release
from findingaid.indexing.run import ProgressOf, Run
from findingaid.indexing.vectors import dimensions_of
from findingaid.indexing.workers import Executor
from findingaid.metrics import CachingEmbedder
from findingaid.model import Hit
from findingaid.protocols import Answerer, Embedder, FolderSource, Verifier
from findingaid.query.answers.answer import Answer
from findingaid.query.answers.compose import compose
from findingaid.query.answers.evidence import Question, find_evidence, find_passages_beside
from findingaid.query.answers.generation import AnswererOption, choose_answerer, generate_answer
from findingaid.query.answers.verification import LexicalVerifier
from findingaid.query.context.pack import (
    ContextDefaults,
    ContextPack,
    Packer,
    PreviousPack,
    SummarizerOption,
    choose_summarizer,
    missing_summary_records,
    pieces_from_hits,
    pieces_from_pinned,
    previous_digest,
    read_session_piece,
    read_summary_records,
)
from findingaid.query.context.rendering import Form
from findingaid.query.lookup.absences import Absence, count_unclaimed, find_absences
from findingaid.query.lookup.access import AccessView, read_access
from findingaid.query.lookup.artifact import (
    AnchoredSummaryView,
    ArtifactView,
    read_anchored_summaries,
    read_artifact,
    read_titles,
    refuse_other_version,
)
from findingaid.query.lookup.browsing import Contents, Shelf, browse
from findingaid.query.lookup.disclosure import Disclosure, Level, disclose_artifact
from findingaid.query.lookup.freshness import (
    FreshnessCheck,
    VersionsStep,
    check_freshness,
    published_versions,
    wants_verification,
)
from findingaid.query.lookup.passages import ClaimPassages, find_passages
from findingaid.query.lookup.places import Location, locate_hits
from findingaid.query.lookup.provenance import Impact, Link, Provenance
from findingaid.query.lookup.reading import CHARS, Reading, read_text
from findingaid.query.lookup.references import Neighbour, ReferenceCount, find_most_referenced, find_neighbours
from findingaid.query.lookup.resolve import artifact_of_file, resolve, resolve_and_read
from findingaid.query.lookup.status import Statuses, find_unread, read_statuses
from findingaid.query.lookup.summary_nodes import NodeView, claims_of_node, nodes_of_claim, read_node
from findingaid.query.search.components import SearchDefaults
from findingaid.query.search.filters.fields import Field, corpus_fields
from findingaid.query.search.hits import Hits
from findingaid.query.search.options import FreshnessOption, SearchOptions, listing_options
from findingaid.query.search.reader import Key, Reader
from findingaid.query.search.request import PostProcessor, Request
from findingaid.query.search.searcher import Searcher
from findingaid.query.search.steps import SearchSteps
from findingaid.query.search.summary_claims import SUMMARIZES, NodeClaimsStep
from findingaid.reports import Report, Unclaimed
from findingaid.request_limits import within
from findingaid.store import Ledger, Publisher, Store, Version, repair
from findingaid.store.emptiness import why_empty
from findingaid.store.leases import Tell
from findingaid.store.own_files import own_files
from findingaid.store.purge import Purged
from findingaid.store.verify import verify
from findingaid.synthesis.anchored_summary import AnchoredSummary
from findingaid.text.folding import composed

LOGGER = logging.getLogger("findingaid")

CALLERS_KEPT = 32
"""Callers whose view of the published version stays open (least recently used is dropped)."""

T = TypeVar("T")
V = TypeVar("V", ArtifactView, Disclosure, Reading)


def open(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> FindingAid:  # noqa: A001  # as gzip.open
    """Return the finding aid that a findingaid.yaml describes. Touches no network and writes nothing.

    `overrides` maps dotted keys to values: {"store": "/tmp/index", "embedder.kind": "hash"}. Raises ConfigError.
    """
    return FindingAid.of(load(path, overrides))


@dataclass(frozen=True)
class FindingAid:
    """An index, its corpora, and the model that embeds them."""

    store: Store
    embedder: Embedder
    corpora: Mapping[str, Corpus]
    retain: int = 1
    """Number of published versions to keep, including the served one."""

    budget: Budget = NO_BUDGET
    """Limit on the use of language models per run; work beyond it is left to the next run."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    """Price of each model, by name."""

    evaluations: Path | None = None
    """Folder where evaluations keep the vectors of queries; with None they keep none."""
    search_defaults: SearchDefaults = field(default_factory=SearchDefaults)
    """Defaults of every search, which its arguments override."""
    context_defaults: ContextDefaults = field(default_factory=ContextDefaults)
    """Token counter of context packs, and the summarizer of the pieces that do not fit."""

    review: ReviewPolicy = BY_DEFAULT
    """Policy that decides which claims are shown and cited."""

    answerer: Answerer | None = None
    """Answerer that writes when the caller asks for a model."""

    executor: Executor | None = None
    """Executor that builds the batches of a run in other processes; None builds them in this process."""

    verifier: Verifier | None = None
    """Verifier of the sentences that the answerer writes; None for one that compares words."""

    previews: bool = False
    """Whether Dagster's events and logs may show document text."""

    config: Path | None = None
    """File that configures it, which is never a source."""

    def __post_init__(self) -> None:
        check_id(self.embedder, EMBEDDER)
        own = own_files(self.store, self.config, self.evaluations)
        for corpus in self.corpora.values():
            if isinstance(corpus.source, FolderSource):
                corpus.source.leave_out(own)

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the finding aid that a configuration describes."""
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
            executor=_executor_of(config),
            verifier=config.verifier,
            previews=config.settings.dagster.previews,
            config=config.file,
        )

    def open_run(self, name: str | None = None, tell: Tell = LOGGER.warning) -> Run:
        """Return a new run. Processes that open a run of the same `name` share its spending account and its corpora.

        `tell` is called with a line that names the run that is waited for. Raises ConfigError if the budget cannot be
        enforced, see `check_budget`.
        """
        self._require_operator()
        check_budget(self.budget, self.prices, self.corpora.values())
        of = replace(self, store=self.store.caching())
        spending = BudgetTracker(
            of.store, self.budget, self.prices, shared=name is not None or self.executor is not None
        )
        if name is not None:
            spending.run = name
        return Run(of.store, self.embedder, self.corpora, spending, self._decisions, of.release, self.executor, tell)

    def indexer(self, corpus: str) -> Indexer:
        """Return the indexer of one corpus, in a run of its own. Raises ConfigError for an unknown corpus."""
        return self.open_run().indexer(corpus)

    @cached_property
    def _decisions(self) -> DecisionLog:
        return DecisionLog(self.store)

    def within(self, corpora: Sequence[str]) -> Self:
        """Return a copy limited to these corpora: others are never found, opened, counted or named in an error.

        Raises ConfigError if a corpus is unknown, or none is named.
        """
        if not corpora:
            raise ConfigError("no corpus given: name at least one")
        return replace(self, corpora={name: find_corpus(self.corpora, name) for name in corpora})

    def as_caller(self, user: str = "", groups: Iterable[str] = ()) -> Self:
        """Return a copy that finds, opens, counts and names only what this user may read, who is in these groups.

        `user` is "user:NAME", or "" for somebody unknown, and each group is "group:NAME". The copy only reads. Raises
        QueryError for a value that is not of this form.
        """
        return self.for_caller(Caller.of(user, groups))

    def for_caller(self, caller: Caller) -> Self:
        """Return the copy that `as_caller` returns. The last ones are kept, with the version that they have open."""
        self._require_operator()
        revoked = self.revoked()
        found = self._for_caller(revoked.limit(caller), revoked.artifacts)
        assert isinstance(found, type(self))  # noqa: S101  # it is a copy
        return found

    @cached_property
    def _for_caller(self) -> Callable[[Caller, frozenset[Key]], FindingAid]:
        def limited(caller: Caller, without: frozenset[Key]) -> FindingAid:
            copied = replace(self, store=self.store.for_caller(caller, without))
            copied.__dict__["searcher"] = self.searcher.in_view(copied.store)
            return copied

        return lru_cache(CALLERS_KEPT)(limited)

    def revoked(self) -> Revoked:
        """Return what is revoked, by the newest decisions."""
        return Revoked.after(self._decisions.all())

    def revoke(self, *revoked: str, actor: str | None = None, reason: str = "") -> None:
        """Take rights away before any run: from a principal, or from everybody for a published artifact.

        It counts for every copy that `as_caller` returns from now on, and for every request to a server. A revoked user
        reads nothing. Raises QueryError for an unknown artifact, and one of a corpus that everybody may read.
        """
        self._decide_access(Action.REVOKE, revoked, actor, reason)

    def admit(self, *admitted: str, actor: str | None = None, reason: str = "") -> None:
        """End what `revoke` began. Raises QueryError for what is not revoked."""
        self._decide_access(Action.ADMIT, admitted, actor, reason)

    def _decide_access(self, action: Action, named: Sequence[str], actor: str | None, reason: str) -> None:
        self._require_operator()
        if not any(corpus.access for corpus in self.corpora.values()):
            raise QueryError(f"{action}: no corpus has `access`, so that everybody may read everything")
        verdicts = [self._access_verdict(action, each) for each in named]
        if not verdicts:
            raise QueryError(f"{action}: name a principal or an artifact")
        self._decisions.decide(lambda _: verdicts, actor or whoami(), reason)

    def _access_verdict(self, action: Action, named: str) -> Verdict:
        """Return the verdict on a principal or an artifact. Raises QueryError."""
        known = self.revoked()
        if is_principal(named):
            if action is Action.ADMIT and composed(named) not in known.principals:
                raise QueryError(f"admit {named}: it is not revoked")
            return Verdict(action, "", named, "")
        if action is Action.ADMIT:
            key = next((key for key in known.artifacts if named in ("/".join(key), key[1])), None)
            if key is None:
                raise QueryError(f"admit {brief(named)}: it is not revoked")
        elif (key := self.resolve(named)) is None:
            raise NotFoundError(f"revoke {brief(named)}: neither user:NAME, group:NAME nor a published artifact")
        elif self.corpora[key[0]].access is None:
            raise QueryError(f"revoke {brief(named)}: everybody may read {key[0]}: set corpora.{key[0]}.access")
        return Verdict(action, key[0], "/".join(key), key[1])

    def _require_operator(self) -> None:
        """Raise QueryError in a copy for a caller."""
        if self.store.caller is not None:
            raise QueryError("not for a caller: only whoever reads everything may do this")

    # -- building --------------------------------------------------------------------------------------

    def plan(self, corpora: Sequence[str] | None = None) -> Report:
        """Return the work that `index` would do and its cost, exactly, without a paid call or a write.

        A synopsis that is not written yet counts as one text to embed. The time for embedding many texts is estimated
        from a few of them, if the embedder runs on this machine.
        """
        return self.open_run().estimate(self._names(corpora))

    def index(
        self,
        corpora: Sequence[str] | None = None,
        *,
        artifacts: Collection[str] = (),
        stages: Collection[str] = (),
        force: bool = False,
        pay_again: bool = False,
        allow_loss: bool = False,
        progress: ProgressOf | None = None,
    ) -> Report:
        """Bring corpora up to date and publish. The report lists failures; everything else is published.

        `artifacts` limits the run to these ids. `force` also rebuilds artifacts that are current, but reuses cached
        model calls; with `pay_again` it calls the models again too. `stages` limits both to these stages; later stages
        follow if their input changes. `allow_loss` accepts that a source lists far fewer artifacts than are indexed,
        and that the log of human decisions is lost.

        Raises NotFoundError for an unknown artifact, and QueryError for a stage that no corpus has.
        """
        return self.open_run().index(
            self._names(corpora),
            artifacts=artifacts,
            stages=stages,
            force=force,
            pay_again=pay_again,
            allow_loss=allow_loss,
            progress=progress,
        )

    def remembering(self) -> Self:
        """Return a copy that embeds no query twice, and none that an earlier evaluation has embedded."""
        return replace(self, embedder=CachingEmbedder.kept_in(self.evaluations, self.embedder))

    def check(self, corpora: Sequence[str] | None = None) -> list[CheckResult]:
        """Run every check of these corpora over all of their newest records, not only over new ones."""
        return self.release.check(self._names(corpora))

    def _names(self, corpora: Sequence[str] | None) -> list[str]:
        return [find_corpus(self.corpora, name).name for name in corpora] if corpora else list(self.corpora)

    def _one(self, corpus: str | None) -> list[str]:
        """Return the named corpus, or all corpora: those in which an id is looked up."""
        return self._names(None if corpus is None else [corpus])

    # -- publishing ------------------------------------------------------------------------------------

    @property
    def release(self) -> Release:
        """The release of the newest records to readers, after their checks. Raises QueryError for a caller."""
        self._require_operator()

        def searching(store: Store) -> FindingAid:
            return replace(self, store=store).remembering()

        return Release(self.store, self.embedder, self.corpora, self.publisher, searching)

    @property
    def publisher(self) -> Publisher:
        """The publisher, which moves readers between versions of the records."""
        return Publisher(self.store, self.retain)

    def versions(self) -> list[Version]:
        """Return the published versions that are kept, newest first. Raises StoreError before the first run."""
        with self.store.require_index():
            return self.publisher.versions()

    def publish(self) -> int:
        """Publish the newest records, even after a rollback. Raises StoreError if they fail their checks."""
        with self.store.require_index():
            return self.release.publish_newest()

    def rollback(self, version: int | None = None) -> int:
        """Serve an earlier version until a run indexes something new or `publish` is called.

        Raises StoreError if that version, or any earlier one, is not kept.
        """
        with self.store.require_index():
            return self.release.rollback(version)

    def purge(self) -> Purged:
        """Delete removed data from disk for good, while new runs and decisions wait.

        Raises StoreError if another process works on artifacts or purges, after a rollback, and if the newest records
        fail their checks or a redaction or a write is not finished.
        """
        return self.open_run().purge()

    def pinned(self) -> Self:
        """Return a copy for the parts of one request: all of them read one published version.

        That is the version at the first of them, whatever is published meanwhile.
        """
        searcher, _ = self.searcher.pinned(), self._search_steps  # the copy keeps the models that those have loaded
        pinned = copy(self)
        pinned.__dict__["searcher"] = searcher
        return pinned

    # -- querying --------------------------------------------------------------------------------------

    @listing_options
    def search(self, query: str | Sequence[str], k: int = 10, **options: Unpack[SearchOptions]) -> Hits:
        """Return the k best records of the published index, best first. Several queries are ranked together.

        An option that is None, or not given, has its default or the configured one. `route` is a name, an import path
        or an object, see `findingaid.query.search.routing`. Each of `rewrite`, `rerank` and `select` is an object, a
        function, a kind or a spec; False is none, also for `expand`.

        Summary nodes are searched beside everything else, also with `per_artifact`. The claims that follow each come in
        addition to the k hits.

        Raises QueryError for an invalid query, StoreError if nothing is published or another embedder made the index,
        and ModelError if a requested model fails.
        """
        fresh, top_k = options.pop("fresh", False), options.pop("summary_top_k", 3)
        request = self._search_steps.request(query, k, self._names(options.pop("corpora", None)), options)
        versions: dict[Key, str] = {}
        added: list[PostProcessor] = [NodeClaimsStep(top_k, self.eligibility)] if request.use_summaries else []
        if fresh:
            added.append(VersionsStep(versions))
        with within(request.timeout if fresh else None):
            hits = self.searcher.search(replace(request, post_processors=[*request.post_processors, *added]))
            if not fresh:
                return hits
            check = self._freshness([(hit.corpus, hit.artifact_id) for hit in hits], fresh, versions)
        marked = (
            check.mark(hit, hit.corpus, hit.metadata.get("quote") or (hit.text if hit.span else "")) for hit in hits
        )
        return Hits(marked, hits.enough, hits.queries, check.seconds)

    def freshness(self, keys: Iterable[Key], fresh: FreshnessOption = True) -> FreshnessCheck:
        """Return, by (corpus, artifact id), whether the sources still have the published versions of artifacts.

        The stamps at the sources decide, and no artifact is read; it is unknown for a source that cannot be asked for
        single artifacts. If `fresh` is "verify", the artifacts are read again.

        Raises QueryError for another value of `fresh`, and StoreError if nothing is published.
        """
        return self._freshness(keys, fresh, {})

    def _freshness(self, keys: Iterable[Key], fresh: FreshnessOption, known: Mapping[Key, str]) -> FreshnessCheck:
        """Return the freshness of artifacts of the `known` versions, and of the others as they are published."""
        verify, wanted = wants_verification(fresh), list(keys)
        rest = [key for key in wanted if key not in known]
        read = self.searcher.read(lambda reader: published_versions(reader, rest)) if rest else {}
        versions = {**read, **known}
        if self.store.caller is not None and (unknown := next((key for key in wanted if key not in versions), None)):
            raise NotFoundError(f"no published artifact {brief(unknown[1])}")
        return check_freshness(self.store, versions, self.corpora, wanted, verify=verify)

    def _marked(self, shown: V, fresh: FreshnessOption, artifact_version: str | None) -> V:
        """Return an artifact, or a part of it, with its freshness if that is asked for, unless of another version."""
        key = shown.corpus, shown.artifact_id
        refuse_other_version(key, shown.artifact_version, artifact_version)
        if not fresh:
            return shown
        return self._freshness([key], fresh, {key: shown.artifact_version}).mark(shown, shown.corpus)

    def browse(
        self,
        corpora: Sequence[str] | None = None,
        *,
        where: str | None = None,
        suffixes: Sequence[str] = (),
        folder: str = "",
        k: int = 20,
        offset: int = 0,
    ) -> Contents:
        """Return the k published artifacts after the `offset` newest, and counts by corpus, kind of file and folder.

        `suffixes` are ends of artifact ids such as ".md", and `folder` is their beginning, such as "docs/". Raises
        QueryError for an invalid filter, StoreError if nothing is published.
        """
        shelf = Shelf(self._names(corpora) if corpora else (), suffixes, folder)
        request, searcher = Request(queries=(), corpora=self._names(None), where=where), self.searcher
        return searcher.read(lambda reader: browse(reader, searcher.artifacts(reader, request), shelf, k, offset))

    @cached_property
    def _search_steps(self) -> SearchSteps:
        return SearchSteps(self.corpora, self.search_defaults)

    @cached_property
    def searcher(self) -> Searcher:
        """The searcher that answers requests, with the state it keeps between them."""
        whole, memory = self.store.for_caller(None), self.search_defaults.memory
        searcher = Searcher(whole, self.embedder, self.review, tuple(self.corpora), memory)
        return searcher.in_view(self.store) if self.store.caller else searcher

    @property
    def eligibility(self) -> Eligibility:
        """The rules for which claims may be shown, by the newest decisions; every reading operation applies them."""
        return self.searcher.eligibility

    @property
    def claims(self) -> Claims:
        """The claims of artifacts, and the human decisions on them. Raises QueryError for a caller."""
        self._require_operator()
        return Claims(self.store, self.corpora, self.eligibility)

    def answer(
        self,
        query: str,
        depth: int = 3,
        max_chars: int = 4000,
        llm: AnswererOption = False,
        *,
        corpora: Sequence[str] | None = None,
        where: str | None = None,
        tiers: Sequence[str] | None = None,
        numbered: bool = False,
        fresh: FreshnessOption = False,
    ) -> Answer:
        """Return an answer of at most `max_chars` from the `depth` best pieces of evidence, cited in every sentence.

        Evidence is claims, where corpora have them, and sentences of passages, which fill in what no claim covers. Only
        claims of these `tiers` are cited, by default those in `review.answer_from` of the configuration, as the
        decisions are at this moment; a sentence counts as a claim that is its own quote. With `llm` a model writes the
        answer, and each of its sentences is checked against the evidence it cites. `llm` is True for the configured
        model, or a kind, a spec or an object. If no evidence answers the query, by its words and its dense score, the
        answer is "". If that is so, or its relevance is low, it names the passages that a search finds. With
        `numbered`, citations are numbers instead of ids; `max_chars` counts them as they are. With `fresh`,
        sentences whose source has changed get a note, which `max_chars` does not count.

        Raises QueryError for an invalid query, StoreError if nothing is published, ConfigError if no model is
        configured, and ModelError if the model fails.
        """
        if max_chars < 1:
            raise QueryError(f"max_chars must be at least 1, got {max_chars}")
        answerer = choose_answerer(llm, self.answerer)
        versions: dict[Key, str] = {}
        noted = [VersionsStep(versions)] if fresh else []
        improved = partial(self._improved, post_processors=noted)
        question = Question(query, depth, self._names(corpora), where, tiers, improved)
        self = self.pinned()
        evidence = find_evidence(self.searcher, question)
        if answerer:
            found = generate_answer(evidence, answerer, self._verifier, depth, max_chars, numbered=numbered)
        else:
            found = compose(evidence, depth, max_chars, numbered=numbered)
        if found.weak:
            found = replace(found, passages=find_passages_beside(self.searcher, query, self._names(corpora), where))
        if not found.sentences:
            found = replace(found, unread=find_unread(self.store, self._names(corpora)))
        return self._marked_answer(found, fresh, versions) if fresh else found

    def _marked_answer(self, found: Answer, fresh: FreshnessOption, versions: Mapping[Key, str]) -> Answer:
        cited = [(claim.corpus, place.artifact_id) for claim in found.claims for place in claim.places]
        cited += [(quote.corpus, quote.artifact_id) for quote in found.quotes]
        cited += [(each.corpus, each.artifact_id) for each in found.passages]
        check = self._freshness(cited, fresh, versions)
        claims = [
            replace(claim, places=tuple(check.mark(place, claim.corpus, place.quote) for place in claim.places))
            for claim in found.claims
        ]
        quotes = [check.mark(each, each.corpus, each.quote) for each in found.quotes]
        passages = [check.mark(each, each.corpus, each.text if each.span else "") for each in found.passages]
        return replace(found, claims=claims, quotes=quotes, passages=passages, fresh_seconds=check.seconds)

    def _improved(self, request: Request, post_processors: Sequence[PostProcessor] = ()) -> Request:
        """Add the configured rewriting and reranking to a search. Selection and expansion only suit readers of hits."""
        steps = self._search_steps.request_fields(request, select=False, expand=False)
        return replace(request, **{**steps, "post_processors": post_processors})

    @property
    def _verifier(self) -> Verifier:
        return self.verifier or LexicalVerifier(lexical=self.store.lexical)

    def unclaimed(self, corpora: Sequence[str] | None = None) -> dict[str, Unclaimed]:
        """Return, by corpus, the numbers of artifacts in which no claim was found, by reason and suffix."""
        return count_unclaimed(self.store, self.corpora, self._names(corpora))

    def absences(self, artifact_id: str, corpus: str) -> list[Absence]:
        """Return what an artifact does not have although its corpus is configured for it, with the reasons."""
        name = find_corpus(self.corpora, corpus).name
        now = self.eligibility.now()
        return self.searcher.read(lambda reader: find_absences(reader, self.corpora, (name, artifact_id), now))

    def passages(
        self, claim_id: str, corpora: Sequence[str] | None = None, *, fresh: FreshnessOption = False
    ) -> ClaimPassages | None:
        """Return a claim with the passages that state it; None if the id belongs to no claim.

        With `fresh`, each passage says whether its source still has the published version.

        Raises QueryError for a claim that may not be shown any more.
        """
        now, decisions = self.eligibility.now(), self.eligibility.shown()
        names = self._names(corpora)
        found = self.searcher.read(lambda reader: find_passages(reader, self.corpora, claim_id, now, decisions, names))
        if found is None or not fresh:
            return found
        versions = {(found.corpus, passage.artifact_id): passage.artifact_version for passage in found.passages}
        check = self._freshness(versions, fresh, versions)
        return replace(found, passages=[check.mark(passage, found.corpus, passage.quote) for passage in found.passages])

    def why(self, wanted: str, corpora: Sequence[str] | None = None, *, places: bool = True) -> list[Link]:
        """Trace a claim, summary node, record or artifact back to its source; broken links are named.

        Without `places`, the result does not reveal where a source is on this machine, only its name for the artifact.

        Raises QueryError for an unknown id.
        """
        of, names = self._provenance(places), self._names(corpora)
        one = corpora is not None and len(names) == 1
        return self._look_up_in(wanted, names, lambda reader, i, within: of(reader, within).why(i), one)

    def impact(self, artifact_id: str, corpus: str | None = None) -> Impact:
        """Return everything that depends on an artifact. Raises QueryError for an unknown id."""
        of, names = self._provenance(), self._names(None)
        return self._look_up(artifact_id, corpus, lambda reader, i, within: of(reader, names).impact(i, within))

    def _provenance(self, places: bool = True) -> Callable[[Reader, Sequence[str]], Provenance]:
        """Return a function from a reader and corpora to the provenance there, by the decisions of now."""
        now, decisions = self.eligibility.now(), self.eligibility.shown()
        return lambda reader, within: Provenance(reader, self.corpora, now, decisions, within, places)

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
        summarizer: SummarizerOption = None,
        previous: PreviousPack = None,
        as_result: bool = False,
        **search: Unpack[SearchOptions],
    ) -> ContextPack:
        """Return a context pack for a model: at most `budget_tokens` when rendered in `form`.

        Candidates are, by priority, the `pinned` pieces, the anchored summaries of `sessions` (artifact ids), and the k
        best hits; with `summaries`, also the summaries of the artifacts of these hits. `summarizer`, an object, a kind
        or a spec, writes a digest of the pieces that do not fit. None uses the configured one, and False uses none.
        With `previous`, the pack before this one, the summarizer updates the digest of that pack instead: it is sent
        the previous digest and the pieces that the digest does not cover yet.
        The other options are those of `search`. The pack lists left-out pieces with the reason in `dropped`, and
        anything less than the caller asked for in `degraded`. With `as_result`, the budget holds for the JSON of
        `ContextPack.to_result()`, not only for the rendered text. With `fresh`, the citation of a piece says if its
        source has changed.

        Raises the errors of `search`, and QueryError for an unknown session, a `previous` that is not a pack, digest or
        anchored summary, and a budget below that of an empty pack.
        """
        digest = previous_digest(previous)
        count = self.context_defaults.count or self.embedder.count_tokens
        packer = Packer(budget_tokens, form, count, self.context_defaults.tokenizer, as_result)
        self = self.pinned()
        fresh, names = search.pop("fresh", False), self._names(search.get("corpora"))
        search["corpora"] = names
        asked = [self._look_up_in(session, names, read_session_piece) for session in sessions]
        hits = self.search(query, k, **search)
        keys = list(dict.fromkeys((hit.corpus, hit.artifact_id) for hit in hits)) if summaries else []
        eligible = self.eligibility.now()
        generated = self.searcher.read(lambda reader: read_summary_records(reader, keys, eligible)) if keys else {}
        writes, problem = choose_summarizer(summarizer, self.context_defaults.summarizer)
        degraded = [*missing_summary_records(self.store, keys), *filter(None, [problem])]
        candidates = [*pieces_from_pinned(pinned), *asked, *pieces_from_hits(hits, generated)]
        queries = (query,) if isinstance(query, str) else tuple(query)
        if not fresh:
            return packer.pack(queries, candidates, writes, degraded, digest)
        check = self.freshness([(each.corpus, each.artifact_id) for each in candidates if each.artifact_id], fresh)
        candidates = [
            check.mark(each, each.corpus, each.text if each.span else "") if each.artifact_id else each
            for each in candidates
        ]
        pack = packer.pack(queries, candidates, writes, degraded, digest)
        return replace(pack, fresh_seconds=check.seconds)

    def fields(self, corpora: Sequence[str] | None = None) -> Mapping[str, Sequence[Field]]:
        """Map each corpus to the fields of its published records that `where` can name.

        The columns that all records have are not listed. Raises StoreError if nothing is published yet.
        """
        names = self._names(corpora)
        return self.searcher.read(lambda reader: corpus_fields(reader.records, names))

    def show(
        self,
        artifact_or_record_id: str,
        corpus: str | None = None,
        *,
        artifact_version: str | None = None,
        fresh: FreshnessOption = False,
    ) -> ArtifactView:
        """Return one artifact with its published records in plan order. Raises QueryError for an unknown id.

        With `artifact_version`, as a hit has it, another published version is refused. With `fresh`, it says whether
        its source still has the published version.
        """
        now = self.eligibility.now()
        found = self._look_up(
            artifact_or_record_id, corpus, lambda reader, i, within: read_artifact(reader, i, within, now)
        )
        return self._marked(found, fresh, artifact_version)

    def access(self, artifact_or_record_id: str, corpus: str | None = None) -> AccessView:
        """Return who may read an artifact, and which rules say so. Raises QueryError for an unknown id."""
        self._require_operator()
        revoked = self.revoked()
        return self._look_up(
            artifact_or_record_id,
            corpus,
            lambda reader, i, within: read_access(reader, self.corpora, revoked, i, within),
        )

    def resolve(self, wanted: str, corpus: str | None = None) -> Key | None:
        """Return corpus and id of the artifact that a name denotes; None if there is none.

        A name is an id, `CORPUS/ID` or the end of an id from a `/` on, each also with the line or the span that
        findingaid prints. Everything that takes an id takes a name. Raises QueryError if several artifacts have it.
        """
        names = self._one(corpus)
        return self.searcher.read(lambda reader: resolve(reader.records, wanted, names))

    def artifact_of_file(self, path: str, corpus: str | None = None) -> str:
        """Return `CORPUS/ID` for the path of a file in a corpus, with the line after it; else the text itself."""
        return artifact_of_file({name: self.corpora[name] for name in self._one(corpus)}, path)

    def locate(self, hits: Sequence[Hit]) -> list[Location]:
        """Return the file and the line of each hit, as far as its source has files on this machine."""
        return self.searcher.read(lambda reader: locate_hits(reader, self.corpora, hits))

    def _look_up(self, wanted: str, corpus: str | None, read: Callable[[Reader, str, Sequence[str]], T]) -> T:
        """Return what `read` finds for an id in a corpus or in all, or for an artifact; see `resolve_and_read`."""
        return self._look_up_in(wanted, self._one(corpus), read, corpus is not None)

    def _look_up_in(
        self, wanted: str, corpora: Sequence[str], read: Callable[[Reader, str, Sequence[str]], T], is_id: bool = False
    ) -> T:
        """Call `resolve_and_read` with one reader. It `is_id` if the caller named its corpus."""
        return self.searcher.read(
            lambda reader: resolve_and_read(reader.records, wanted, corpora, partial(read, reader), is_id)
        )

    def read(
        self,
        artifact_or_record_id: str,
        corpus: str | None = None,
        *,
        file: str | None = None,
        offset: int | None = None,
        span: tuple[int, int] | None = None,
        artifact_version: str | None = None,
        chars: int = CHARS,
        fresh: FreshnessOption = False,
    ) -> Reading:
        """Return at most `chars` characters of an artifact's text, or of one of its bundled files.

        The text begins at `offset`, or is that of `span`. Without either it begins at the record of this id, or at the
        start, and comes with an outline. `next_offset` is where the next part begins. With `artifact_version`, as the
        hit has it whose span this is, another published version is refused, which has other words there. With `fresh`,
        it says whether the source still has the published version. Raises QueryError for an unknown id, and for a place
        that is not in the text.
        """
        found = self._look_up(
            artifact_or_record_id,
            corpus,
            lambda reader, i, within: read_text(
                reader, self.corpora, i, within, file=file, offset=offset, span=span, chars=chars
            ),
        )
        return self._marked(found, fresh, artifact_version)

    def artifacts(self, corpora: Sequence[str] | None = None) -> list[tuple[Key, str]]:
        """Return (corpus, artifact id) and title of every published artifact, ordered by id.

        Raises StoreError if nothing is published.
        """
        names = frozenset(self._names(corpora))
        return self.searcher.read(lambda reader: [(k, t) for k, t in reader.titles.items() if k[0] in names])

    def titles(self, keys: Iterable[Key]) -> Mapping[Key, str]:
        """Map the (corpus, artifact id) of each of these artifacts that is published to its title."""
        return self.searcher.read(lambda reader: read_titles(reader.records, keys))

    def history(self, artifact_or_record_id: str, corpus: str | None = None) -> list[AnchoredSummaryView]:
        """Return all anchored summaries of an artifact, oldest first; [] if it never had one.

        Raises QueryError for an unknown id.
        """
        return self._look_up(artifact_or_record_id, corpus, read_anchored_summaries)

    def neighbours(
        self,
        artifact_id: str,
        corpus: str | None = None,
        *,
        kinds: Sequence[str] | None = None,
        reverse: bool = False,
    ) -> list[Neighbour]:
        """Return the artifacts that an artifact refers to, in text order.

        With `reverse`, return the artifacts that refer to it, ordered by id. Given the id of a summary node, return the
        claims that it summarizes. Given the id of a claim and `reverse`, return the summary nodes that it is a member
        of. Raises QueryError for an unknown or ambiguous id.
        """
        names = self._one(corpus)
        derived = nodes_of_claim if reverse else claims_of_node
        eligible = self.eligibility.now()
        readable = self._names(None)

        def find(reader: Reader, wanted: str, within: Sequence[str]) -> list[Neighbour]:
            if (not kinds or SUMMARIZES in kinds) and (found := derived(reader, artifact_id, names, eligible)):
                return found
            return find_neighbours(reader, wanted, within, readable, kinds, reverse)

        return self._look_up(artifact_id, corpus, find)

    def summary_node(self, id_: str, corpus: str | None = None) -> NodeView:
        """Return the summary node of an artifact, found by its own id, its record's or the artifact's.

        Raises QueryError if there is no node that may be shown, or if several corpora have one.
        """
        eligible = self.eligibility.now()
        return self._look_up(
            id_, corpus, lambda reader, i, within: read_node(reader, self.corpora, i, within, eligible)
        )

    def most_referenced(
        self, k: int = 10, *, corpora: Sequence[str] | None = None, kinds: Sequence[str] | None = None
    ) -> list[ReferenceCount]:
        """Return the k targets that most artifacts refer to, with their counts, including targets in no corpus."""
        names, readable = self._names(corpora), self._names(None)
        return self.searcher.read(lambda reader: find_most_referenced(reader, k, names, readable, kinds))

    def disclose(
        self,
        artifact_or_record_id: str,
        level: Level = "metadata",
        corpus: str | None = None,
        file: str | None = None,
        *,
        artifact_version: str | None = None,
        fresh: FreshnessOption = False,
    ) -> Disclosure:
        """Return an artifact up to a level (metadata, body, list of bundled files), or the text of one bundled `file`.

        With `artifact_version`, another published version is refused. With `fresh`, it says whether its source still
        has the published version. Raises QueryError if the artifact or the file does not exist.
        """
        found = self._look_up(
            artifact_or_record_id,
            corpus,
            lambda reader, i, within: disclose_artifact(reader, self.corpora, i, level, within, file),
        )
        return self._marked(found, fresh, artifact_version)

    def status(self, corpora: Sequence[str] | None = None) -> Statuses:
        """Return the indexed counts and the failures of each corpus."""
        return read_statuses(self.store, self._names(corpora), self._decisions)

    def why_empty(self, corpora: Sequence[str] | None = None) -> str:
        """Return one line on why these corpora have no records, by the last runs; "" if one has, or if none was run."""
        names = self._names(corpora)
        return (
            "" if any(Ledger(self.store).rows_of(name, "records") for name in names) else why_empty(self.store, names)
        )

    def verify(self) -> list[str]:
        """Return all problems of the tables, one line each; [] if they are complete and consistent."""
        self._require_operator()
        problems = verify(self.store, dimensions_of(self.embedder, self.store))
        if repair.problem(self.store, "decisions"):
            return problems
        try:
            decisions = self._decisions.all()
            return [*problems, *(list(broken(decisions)) or incomplete(self.store, decisions))]
        except StoreError as error:
            return [*problems, str(error)]


def _executor_of(config: Config) -> Executor | None:
    """Return the executor of a configuration, whose workers open the same settings; None for those of Dagster."""
    if (ray := config.ray) is None:
        return None
    settings = Config(config.settings, config.base)  # without the objects that it has built, which stay here
    return RayExecutor(partial(_open_run, settings), ray.address, ray.cpus, ray.gpus or 0, ray.actors)


def _open_run(config: Config, name: str) -> Run:
    return FindingAid.of(config).open_run(name)
