"""Dense, lexical and hybrid search over the published records, as a sequence of steps.

    candidates -> fuse -> route -> weigh -> best of an artifact -> rerank -> page -> post-process

Every step takes candidates and returns candidates, best first. Text and metadata are read only for the hits that
reach the last steps. Each step receives the `Request` and the `Reader`; the primitives of the reader are the only
access to the table. Three steps can be supplied by the caller:

- `Request.route`, a `Route`: chooses the records that the query ranks. It receives the candidates after fusion, before
  anything is counted or cut, and may add candidates, drop them and change their scores. It should query the table at
  most three times, whatever the size of the corpus. A candidate that it adds carries `route`, `depth` and `seed`, and
  a score on the same scale as the candidates that the route received.
- `Request.rerank`, a `RerankStep`: receives the best `rerank.depth` hits with their text and returns them in a new
  order with new scores. Hits below that depth stay behind them.
- `Request.post_processors`, run in order: each receives the hits of the page and returns hits, such as
  fewer of them (select) or hits with more text (expand).

All pages are cut from one order, however deep it is read. The first `CANDIDATES` of each ranking are fused, routed and
weighed; deeper records follow by their best rank. Ties are broken by record id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from findingaid import telemetry
from findingaid.claims.decisions import DecisionLog
from findingaid.claims.eligible import BY_DEFAULT, NEITHER, Eligibility, ReviewPolicy
from findingaid.embedding.same_model import SameModel
from findingaid.embedding.validation import query_vector
from findingaid.errors import QueryError, StoreError, brief
from findingaid.model import CLAIM, SUMMARY, Vectors
from findingaid.protocols import Embedder, Local
from findingaid.query.search.filters.fields import corpus_fields
from findingaid.query.search.filters.validation import validate_filter
from findingaid.query.search.fusion import (
    CANDIDATES,
    DEPTH_FACTOR,
    apply_weights,
    best_per_artifact,
    cap_scores,
    fuse_rankings,
    rank_records,
)
from findingaid.query.search.hits import HIT_COLUMNS, Hits, build_hit
from findingaid.query.search.noise import is_weak
from findingaid.query.search.pages import at_matched_page
from findingaid.query.search.reader import Candidate, Key, Reader, RowHit
from findingaid.query.search.request import Request
from findingaid.query.search.timeouts import run_with_timeout
from findingaid.query.search.vector_memory import CANDIDATE_COLUMNS, MEGABYTE, VectorMemory
from findingaid.store import Store
from findingaid.store.emptiness import why_empty
from findingaid.store.sql import any_of
from findingaid.store.tags import published_mark

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")

FILTERS_KEPT = 64
"""Validated filters that are cached, so that paging does not validate them again. One can have 100,000 characters."""

QUERIES_KEPT = 1024
"""Query vectors that are cached (least recently used is dropped)."""


@dataclass(frozen=True)
class Searcher:
    """Search over the published version of a store. Keeps that version open, and caches query vectors."""

    store: Store
    embedder: Embedder
    review: ReviewPolicy = BY_DEFAULT
    within: Sequence[str] = ()
    """Corpora that may be read; () for all."""

    memory: int = 512
    """Megabytes that the vectors of the published version may take in memory; 0 leaves them in the table."""

    of: Searcher | None = None
    """Searcher whose published version this one keeps for all its requests, see `pinned`; None to follow publishes."""

    whole: Searcher | None = None
    """Searcher of all records, whose model and vectors this one of a caller uses, see `in_view`."""

    def search(self, request: Request, reader: Reader | None = None) -> Hits:
        """Return the requested page of hits; it is shorter only if fewer records match the filters.

        With a `reader`, the version that it reads is searched, and the caller tries again if its files are gone.

        Raises QueryError, StoreError, and ModelError if a requested model fails.
        """
        request.check()
        request = replace(request, queries=tuple(_encodable(query) for query in request.queries))
        labels = {"db.system.name": "lancedb", "db.operation.name": "search", "db.collection.name": "records"}
        details = {"findingaid.mode": request.mode, "findingaid.k": request.k}
        with telemetry.span("search records", "db.client.operation.duration", labels, details, kind="CLIENT") as found:
            hits = run_with_timeout(request.timeout, partial(self._search_rewritten, request, reader))
            found["db.response.returned_rows"] = len(hits)
        return hits

    def artifacts(self, reader: Reader, request: Request) -> list[Key]:
        """Return the artifacts that have a record which passes the filters of a request.

        Raises QueryError for an invalid filter.
        """
        condition = self._validate(reader, request).condition
        found = reader.records.to_table(columns=["corpus", "artifact_id"], filter=condition)
        once = found.group_by(found.column_names).aggregate([])
        return list(zip(once["corpus"].to_pylist(), once["artifact_id"].to_pylist(), strict=True))

    def reader(self) -> Reader:
        """Return a reader of the published version, opened anew after a publish. Raises StoreError before any run."""
        return self._opened().reader

    def read(self, do: Callable[[Reader], T]) -> T:
        """Return the result of `do` with the reader; with a new one if the files of its version are gone.

        Raises StoreError if nothing is published, or a table is damaged.
        """

        def attempt() -> T:
            reader = self.reader()
            with self._forgetting(reader):
                return do(reader)

        return self.store.retried(attempt)

    def pinned(self) -> Searcher:
        """Return a copy for the parts of one request: it keeps to one version, whatever is published meanwhile."""
        return self if self.of else replace(self, of=self)

    def in_view(self, store: Store) -> Searcher:
        """Return a searcher of what a caller's view of the store shows, with the model and the vectors of this one."""
        return replace(self, store=store, whole=self)

    @contextmanager
    def _forgetting(self, reader: Reader) -> Iterator[None]:
        """Forget a reader when it fails: the files of its version, or of a table beside it, may be gone."""
        try:
            yield
        except (OSError, RuntimeError, ValueError, StoreError):
            self._forget(reader)
            raise

    def _forget(self, reader: Reader) -> None:
        with self._lock:
            if (opened := self._slot.opened) and opened.reader is reader:
                self._slot.opened = None
                if self.whole and opened.whole:
                    self.whole._forget(opened.whole)
        if self.of:
            self.of._forget(reader)

    def _opened(self) -> _Opened:
        with self._lock:
            opened = self._slot.opened
            if opened is None or not (self.of or opened.mark == published_mark(opened.reader.records)):
                opened = self._slot.opened = self.of._opened() if self.of else self._open(opened)
            return opened

    def _open(self, before: _Opened | None) -> _Opened:
        if self.whole is None:
            return self._open_published(before)
        opened = self.whole._opened()
        whole = opened.reader
        records = self.store.permitted("records", whole.records)
        reader = Reader(records, whole.embedder, self.store, within=self.within, memory=whole.memory)
        return _Opened(opened.mark, reader, whole)

    def _open_published(self, before: _Opened | None) -> _Opened:
        mark = published_mark(self._published())  # before the records are opened: a later publish changes it
        records = self._published()
        loaded = before and before.reader.memory
        memory = VectorMemory(records, self.memory * MEGABYTE, bool(loaded and (loaded.reload or loaded.loaded)))
        return _Opened(mark, Reader(records, self._caching_embedder, self.store, within=self.within, memory=memory))

    def _published(self) -> LanceDataset:
        """Return the published records. Raises StoreError, with the reason by the last runs if there is one."""
        try:
            return self.store.published()
        except StoreError as error:
            if why := why_empty(self.store, self.within):
                raise StoreError(f"{error}. By the last run, {why}") from error
            raise

    def _search_rewritten(self, request: Request, reader: Reader | None) -> Hits:
        if request.rewrite:
            request = replace(request, queries=request.rewrite(request.queries))
        if reader is None:
            self._load_model(request)
            hits = self.read(lambda reader: self._answer(reader, request))
        else:
            hits = self._answer(reader, request)
        return Hits(hits, hits.enough, request.queries)

    def _load_model(self, request: Request) -> None:
        """In the first search of a process, load a model on this machine while the records are opened."""
        first = self.whole or self.of or self
        if first._slot.opened or request.mode == "lexical" or not isinstance(self.embedder, Local):
            return
        with ThreadPoolExecutor(1) as pool:
            embedding = pool.submit(self._caching_embedder.embed_query, request.queries[0])
            self.read(lambda reader: reader)
            embedding.result()

    def _answer(self, reader: Reader, request: Request) -> Hits:
        request = self._validate(reader, request)
        if not reader.size:
            return Hits()
        if reader.memory and request.mode != "lexical" and not request.offset:  # all pages are of one order
            reader.memory.on_search()
        hits = _read_page(reader, request, self._rank(reader, request))
        hits = Hits([at_matched_page(hit, request.queries, self.store.lexical) for hit in hits], hits.enough)
        for post_processor in request.post_processors:
            changed = post_processor.process(reader, request, hits)
            hits = Hits(changed, getattr(changed, "enough", hits.enough) or hits.enough)
        return hits

    def _validate(self, reader: Reader, request: Request) -> Request:
        """Return the request with its filters as passed to Lance.

        Raises QueryError for a surface kind or field that the records do not have.
        """
        corpora = request.corpora
        for kind in (*request.surfaces, *request.weights):
            if not any(kind in reader.kinds.get(corpus, ()) for corpus in corpora or reader.kinds):
                known = sorted({k for corpus in corpora or reader.kinds for k in reader.kinds.get(corpus, ())})
                raise QueryError(f"unknown surface kind {brief(kind)}. Known: {', '.join(known) or 'none'}")
        if request.recency:
            _require_time(reader, request.recency.field, corpora)
        where = None if request.where is None else self._validate_filter(reader, request.where, tuple(corpora))
        everywhere = set(corpora) >= reader.kinds.keys()
        shown = self._visible_condition(reader, request)
        return replace(request, where=where, corpora=() if everywhere else corpora, shown=shown)

    def _validate_filter(self, reader: Reader, where: str, corpora: tuple[str, ...]) -> str:
        """Return a filter as passed to Lance, from the cache if it was validated before. Raises QueryError."""
        asked = (where, *corpora)
        known = reader.filters.get(asked)
        if known is None:
            with self.store.storage_errors():
                known = validate_filter(where, self.store, reader.records, corpora)
            if len(reader.filters) >= FILTERS_KEPT:
                reader.filters.clear()
            reader.filters[asked] = known
        return known

    def _visible_condition(self, reader: Reader, request: Request) -> str | None:
        """Return the condition of records that may be shown: claims and summary nodes only if requested.

        Returns None if the index has neither claims nor summary nodes.
        """
        if not any({CLAIM, SUMMARY} & kinds for kinds in reader.kinds.values()):
            return None
        eligible = self.eligibility.now()
        parts = [NEITHER]
        if CLAIM in request.surfaces:
            parts.append(eligible.claims(request.tiers))
        if SUMMARY in request.surfaces or request.use_summaries:
            parts.append(eligible.nodes(reader.node_members))
        return any_of(*parts)

    def _rank(self, reader: Reader, request: Request) -> Sequence[RowHit | Candidate]:
        """Return the records in final order (before reranking); read deeper until the page is full or all are read."""
        wanted = max(request.hits_needed, request.rerank.depth if request.rerank else 0)
        request = replace(request, k=wanted - request.offset)  # the route must find the hits to be reranked, too
        depth = wanted if _is_plain(request) else max(CANDIDATES, wanted)
        scope = request.route.scope(request) if request.route else request.condition
        while True:
            found = rank_records(reader, request, depth, scope, columns=_columns(reader, request))
            ranked = _apply_steps(reader, request, *fuse_rankings(reader, request, found))
            done = len(ranked) >= wanted or all(len(ranking.found) < depth for ranking in found)
            if done or (request.route and request.route.closed):
                return ranked
            depth *= DEPTH_FACTOR

    @cached_property
    def eligibility(self) -> Eligibility:
        """Rules for which claims may be shown, always by the newest decisions."""
        return self.of.eligibility if self.of else Eligibility(DecisionLog(self.store), self.review)

    @cached_property
    def _caching_embedder(self) -> _CachingEmbedder:
        shared = self.of or self.whole
        return shared._caching_embedder if shared else _CachingEmbedder(self.embedder, self.store)

    @cached_property
    def _slot(self) -> _Slot:
        return _Slot()

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()


@dataclass(frozen=True, slots=True)
class _Opened:
    """Reader, and the mark of the publish that it was opened after: one value, so that no thread sees half of it."""

    mark: object
    reader: Reader
    whole: Reader | None = None
    """Reader of all records, if this is that of a caller."""


@dataclass(slots=True)
class _Slot:
    """Place of the reader that is kept from one search to the next."""

    opened: _Opened | None = None


class _CachingEmbedder:
    """Embedder that caches query vectors, after it made sure that the same model answers as when they were indexed."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self._embedder = embedder
        self._same_model = SameModel(embedder, store)
        self.embed_query = lru_cache(QUERIES_KEPT)(self._embed)

    @property
    def id(self) -> str:
        return self._embedder.id

    def _embed(self, text: str) -> Vectors:
        vector = query_vector(self._embedder.embed_query(text))
        if self._same_model.problem:
            raise StoreError(f"embedder: {self._same_model.problem}")
        return vector


def _apply_steps(
    reader: Reader, request: Request, first: Sequence[RowHit], behind: Sequence[RowHit]
) -> Sequence[RowHit | Candidate]:
    """Apply the requested steps to the ranking: route, weigh, and keep one record per artifact."""
    if not _has_steps(request):
        return [*first, *cap_scores(first, behind)]
    ranked: Sequence[Candidate] = reader.candidates([*first, *behind])
    if request.route:
        ranked = apply_weights(request.route.route(reader, request, ranked), reader, request)
    else:
        ahead = apply_weights(ranked[: len(first)], reader, request)
        ranked = [*ahead, *cap_scores(ahead, ranked[len(first) :])]
    return best_per_artifact(ranked, SUMMARY if request.use_summaries else "") if request.per_artifact else ranked


def _read_page(reader: Reader, request: Request, ranked: Sequence[RowHit | Candidate]) -> Hits:
    """Read the hits of the page, and rerank them if requested."""
    reranked = request.rerank.depth if request.rerank else 0
    start, stop = (0, max(request.hits_needed, reranked)) if request.rerank else (request.offset, request.hits_needed)
    page = ranked[start:stop]
    if _is_plain(request) and all(isinstance(f, RowHit) and f.row for f in page):
        rows = [f.row or {} for f in page if isinstance(f, RowHit)]
    else:
        rows = reader.rows_of(page, [*CANDIDATE_COLUMNS, *HIT_COLUMNS])
    candidates = [Candidate.of(row, c) if isinstance(c, RowHit) else c for c, row in zip(page, rows, strict=True)]
    hits = Hits(
        build_hit(c, row, request.explain, is_weak(reader, request, c, row))
        for c, row in zip(candidates, rows, strict=True)
    )
    if request.rerank:
        better = request.rerank.rerank(hits[:reranked], request.explain)
        hits = Hits([*better, *hits[reranked:]][request.offset : request.hits_needed])
    return hits


def _has_steps(request: Request) -> bool:
    """Return whether the request has steps after fusion: weights, recency, a route or one record per artifact."""
    return bool(request.weights or request.recency or request.route or request.per_artifact)


def _columns(reader: Reader, request: Request) -> Sequence[str]:
    """Return the columns to read with a ranking.

    A short ranking without further steps is read with all columns of a hit, else only the columns that steps need, and
    none where these are in memory.
    """
    if reader.in_memory:
        return ()
    if _is_plain(request) and request.hits_needed <= CANDIDATES:
        return [*CANDIDATE_COLUMNS, *HIT_COLUMNS]
    return CANDIDATE_COLUMNS if _has_steps(request) else ()


def _is_plain(request: Request) -> bool:
    """Return whether the order is that of a single ranking, so that it need not be read deeper than the page."""
    return len(request.queries) == 1 and request.mode != "hybrid" and not _has_steps(request)


def _require_time(reader: Reader, name: str, corpora: Sequence[str]) -> None:
    """Raise QueryError unless a field holds times, or texts that may be dates."""
    found = {f.name: f.type for fields in corpus_fields(reader.records, corpora).values() for f in fields}
    times = sorted(field for field, kind in found.items() if kind in {"timestamp", "string"})
    if name not in times:
        reason = f"is {found[name]}, not a time" if name in found else "is in none of the corpora searched"
        raise QueryError(f"recency: field {name!r} {reason}. Fields of times or texts: {', '.join(times) or 'none'}")


def _encodable(query: str) -> str:
    """Return the query with lone surrogates replaced by "?", so that it can be encoded as UTF-8."""
    return query.encode("utf-8", "replace").decode()
