"""Dense, lexical and hybrid search over the published records, one step after another.

    candidates -> fuse -> route -> weigh -> best of an artifact -> rerank -> page -> after

Every step takes candidates and gives candidates, best first; only the hits that the last steps see are read whole.
What is asked stands in a `Request`, and each step sees it along with the `Reader`, whose primitives are the only
way to the table. Three places are for others:

- `Request.route`, a `Route`: says which records the query ranks, sees what it found, after fusion and before anything
  is counted or cut, and may add candidates, drop them and score them again. At most three questions to the table,
  whatever the size. What it adds carries `route`, `depth` and `seed`, and a score on the scale of those it was given.
- `Request.rerank`, a `Rerank`: is given the best `rerank.depth` as whole hits, gives them in another order with
  scores of its own; what was behind them stays behind them.
- `Request.after`, each an `After`, in this order: is given the hits of the page, gives hits: fewer (select), with
  more text (expand).

Pages are cut from one order, however deep it is read: the first `CANDIDATES` of each ranking are fused, routed and
weighed; what is deeper follows by its best rank. Ties are broken by record id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from findingaid.claims.decisions import DecisionLog
from findingaid.claims.eligible import BY_DEFAULT, NEITHER, Eligibility, ReviewPolicy
from findingaid.errors import QueryError, StoreError, brief
from findingaid.model import CLAIM, SUMMARY, Embedder, Hit
from findingaid.query.fields import corpus_fields
from findingaid.query.hits import COLUMNS, Hits, hit
from findingaid.query.ranking import CANDIDATES, DEEPER, best_of_artifacts, in_one, no_better, rankings, weigh
from findingaid.query.reader import LIGHT, Candidate, Found, Reader
from findingaid.query.request import Request
from findingaid.query.where import checked
from findingaid.store import Store
from findingaid.store.publishing import PUBLISHED
from findingaid.store.sql import any_of

T = TypeVar("T")

QUERIES_KEPT = 1024
"""Vectors of queries that are kept, the last ones used."""


@runtime_checkable
class Route(Protocol):
    """How candidates lead to others, such as from a synopsis to the rest of its artifact."""

    @property
    def closed(self) -> bool:
        """Whether too few candidates are all there are; else more is asked for, and routed again."""

    def scope(self, request: Request) -> str | None:
        """The condition of what the query itself ranks, such as summaries alone."""

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        """The candidates in their new order."""


class Rerank(Protocol):
    """Puts the best hits in a better order than a search can."""

    @property
    def depth(self) -> int:
        """How many hits it is given."""

    def rerank(self, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The same hits in another order, with other scores."""


class After(Protocol):
    """What becomes of the hits of a page."""

    def after(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits as they are returned."""


@dataclass(frozen=True)
class Searcher:
    """Queries against the published version of a store. Keeps that version open, and the vectors of queries."""

    store: Store
    embedder: Embedder
    review: ReviewPolicy = BY_DEFAULT
    within: Sequence[str] = ()
    """The only corpora that may be looked into; () for all."""

    def search(self, request: Request) -> Hits:
        """The hits of the page asked for; fewer only where fewer match the filters.

        Raises QueryError, StoreError, and ModelError where a model that was asked for fails.
        """
        request.check()
        request = replace(request, queries=tuple(_sayable(query) for query in request.queries))
        return within(request.timeout, partial(self._rewritten, request))

    def reader(self) -> Reader:
        """The published records, opened again when others are published. Raises StoreError before the first run."""
        with self._lock:
            published = self._kept.get("records")
            tag = published and _tag(published.records)
            if published is None or tag is None or tag != self._kept["tag"]:
                self._kept.clear()
                records = self.store.published()
                edges = partial(self.store.edges_of, records)
                published = Reader(records, self._asking, edges, within=self.within)
                self._kept.update(records=published, tag=_tag(published.records))
            return published

    def _rewritten(self, request: Request) -> Hits:
        if request.rewrite:
            request = replace(request, queries=request.rewrite(request.queries))
        hits = self.store.retried(lambda: self._search(request))
        return Hits(hits, hits.enough, request.queries)

    def _search(self, request: Request) -> Hits:
        try:
            return self._answer(self.reader(), request)
        except (OSError, RuntimeError, ValueError, StoreError):
            self._kept.clear()  # its files may be gone, or its edges
            raise

    def _answer(self, reader: Reader, request: Request) -> Hits:
        request = self._checked(reader, request)
        if not reader.size:
            return Hits()
        hits = _whole(reader, request, self._ranked(reader, request))
        for step in request.after:
            changed = step.after(reader, request, hits)
            hits = Hits(changed, getattr(changed, "enough", hits.enough) or hits.enough)
        return hits

    def _checked(self, reader: Reader, request: Request) -> Request:
        """The request with its filters as the table is to read them. Raises QueryError for what it does not have."""
        corpora = request.corpora
        for kind in (*request.surfaces, *request.weights):
            if not any(kind in reader.kinds.get(corpus, ()) for corpus in corpora or reader.kinds):
                known = sorted({k for corpus in corpora or reader.kinds for k in reader.kinds.get(corpus, ())})
                raise QueryError(f"unknown surface kind {brief(kind)}. Known: {', '.join(known) or 'none'}")
        if request.recency:
            _require_time(reader, request.recency.field, corpora)
        where = request.where
        if where is not None:
            asked = (where, *corpora)
            if asked not in reader.filters:
                with self.store.reached():
                    reader.filters[asked] = checked(where, self.store, reader.records, tuple(corpora))
            where = reader.filters[asked]
        everywhere = set(corpora) >= reader.kinds.keys()
        shown = self._shown(reader, request)
        return replace(request, where=where, corpora=() if everywhere else corpora, shown=shown)

    def _shown(self, reader: Reader, request: Request) -> str | None:
        """The condition of what may be shown; claims and summary nodes only where their kinds are asked for."""
        if not any({CLAIM, SUMMARY} & kinds for kinds in reader.kinds.values()):
            return None
        eligible = self.eligibility.now()
        parts = [NEITHER]
        if CLAIM in request.surfaces:
            parts.append(eligible.claims(request.tiers))
        if SUMMARY in request.surfaces or request.use_summaries:
            parts.append(eligible.nodes(reader.members))
        return any_of(*parts)

    def _ranked(self, reader: Reader, request: Request) -> Sequence[Found | Candidate]:
        """The records in their last order; looks deeper until a page is full or there is nothing more."""
        wanted = max(request.wanted, request.rerank.depth if request.rerank else 0)
        request = replace(request, k=wanted - request.offset)  # a route is to find what is reranked, too
        depth = wanted if _is_plain(request) else max(CANDIDATES, wanted)
        scope = request.route.scope(request) if request.route else request.condition
        while True:
            found = rankings(reader, request, depth, scope, columns=_columns(request))
            ranked = _steps(reader, request, *in_one(reader, request, found))
            done = len(ranked) >= wanted or all(len(ranking.found) < depth for ranking in found)
            if done or (request.route and request.route.closed):
                return ranked
            depth *= DEEPER

    @cached_property
    def eligibility(self) -> Eligibility:
        """Which claims may be shown, always by the newest decisions."""
        return Eligibility(DecisionLog(self.store), self.review)

    @cached_property
    def _asking(self) -> _Remembering:
        return _Remembering(self.embedder)

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()


class _Remembering:
    """An embedder's queries, each embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.embed_query = lru_cache(QUERIES_KEPT)(embedder.embed_query)

    @property
    def id(self) -> str:
        return self._embedder.id


def within(seconds: float | None, answer: Callable[[], T]) -> T:
    """The answer, if it comes in time. Raises QueryError when it does not; what is under way is left to end."""
    if seconds is None:
        return answer()
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(answer())
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if raised:
        raise raised[0]
    if not given:
        raise QueryError(f"no answer within {seconds:g} s: allow more time, or narrow the search by corpus or filter")
    return given[0]


def _steps(
    reader: Reader, request: Request, first: Sequence[Found], behind: Sequence[Found]
) -> Sequence[Found | Candidate]:
    """What was found, routed, weighed and with one record an artifact, as far as any of that is asked for."""
    if not _has_steps(request):
        return [*first, *no_better(first, behind)]
    ranked: Sequence[Candidate] = reader.candidates([*first, *behind])
    if request.route:
        ranked = weigh(request.route.route(reader, request, ranked), reader, request)
    else:
        ahead = weigh(ranked[: len(first)], reader, request)
        ranked = [*ahead, *no_better(ahead, ranked[len(first) :])]
    return best_of_artifacts(ranked) if request.per_artifact else ranked


def _whole(reader: Reader, request: Request, ranked: Sequence[Found | Candidate]) -> Hits:
    """The hits of the page, reranked where that is asked for."""
    reranked = request.rerank.depth if request.rerank else 0
    start, stop = (0, max(request.wanted, reranked)) if request.rerank else (request.offset, request.wanted)
    page = ranked[start:stop]
    if _is_plain(request) and all(isinstance(f, Found) and f.row for f in page):
        rows = [f.row or {} for f in page if isinstance(f, Found)]
    else:
        rows = reader.rows_of(page, [*LIGHT, *COLUMNS])
    hits = Hits(
        hit(Candidate.of(row, c) if isinstance(c, Found) else c, row, request.explain)
        for c, row in zip(page, rows, strict=True)
    )
    if request.rerank:
        better = request.rerank.rerank(request, hits[:reranked])
        hits = Hits([*better, *hits[reranked:]][request.offset : request.wanted])
    return hits


def _has_steps(request: Request) -> bool:
    """Whether more becomes of what was found than fusion."""
    return bool(request.weights or request.recency or request.route or request.per_artifact)


def _columns(request: Request) -> Sequence[str]:
    """What is read of all records that are ranked: of a few all that a hit has, of many what the steps look at."""
    if _is_plain(request) and request.wanted <= CANDIDATES:
        return [*LIGHT, *COLUMNS]
    return LIGHT if _has_steps(request) else ()


def _is_plain(request: Request) -> bool:
    """Whether the order is that of one ranking, so that no more of it need be read than is wanted."""
    return len(request.queries) == 1 and request.mode != "hybrid" and not _has_steps(request)


def _require_time(reader: Reader, name: str, corpora: Sequence[str]) -> None:
    """Raises QueryError unless a field holds times, or texts that may be dates."""
    found = {f.name: f.type for fields in corpus_fields(reader.records, corpora).values() for f in fields}
    times = sorted(field for field, kind in found.items() if kind in {"timestamp", "string"})
    if name not in times:
        reason = f"is {found[name]}, not a time" if name in found else "is in none of the corpora searched"
        raise QueryError(f"recency: field {name!r} {reason}. Fields of times or texts: {', '.join(times) or 'none'}")


def _sayable(query: str) -> str:
    """A query that can be written as UTF-8: halves of a character stand for an unknown one."""
    return query.encode("utf-8", "replace").decode()


def _tag(records: Any) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = records.tags.list().get(PUBLISHED)
    return found
