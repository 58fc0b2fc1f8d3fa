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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from findingaid.errors import QueryError, StoreError
from findingaid.model import Embedder, Hit, Rank, Vectors
from findingaid.query.fields import corpus_fields
from findingaid.query.hits import COLUMNS, Hits, hit
from findingaid.query.reader import Candidate, Reader
from findingaid.query.recency import factors
from findingaid.query.request import Request
from findingaid.query.where import checked
from findingaid.store import Store

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")

RRF_K = 60
"""The constant of reciprocal rank fusion; 60 is the value of its paper, and flat between 20 and 100."""

CANDIDATES = 100
"""How deep each ranking is fused."""

DEEPER = 4
"""How many times deeper each further look is, while a page is not full."""

QUERIES_KEPT = 1024
"""Vectors of queries that are kept, the last ones used."""


@dataclass(frozen=True)
class Index:
    """What a route asks: the records, ranked for a request under any condition, and the edges between artifacts.

    `rankings` takes the request, a depth and a condition, and whether that is `narrow`: few records fulfil it.
    """

    reader: Reader
    rankings: Rankings
    edges: Callable[[], LanceDataset]

    def fused(self, rankings: Sequence[Sequence[Candidate]], request: Request) -> list[Candidate]:
        """One ranking of several, on the scale of the search."""
        first, behind = fuse(rankings, request, [self.reader.attainable(query) for query in request.queries])
        return [*first, *_behind(first, behind)]


class Rankings(Protocol):
    """What each ranker finds for each query of a request."""

    def __call__(
        self, request: Request, depth: int, condition: str | None, narrow: bool = False
    ) -> list[list[Candidate]]:
        """Of each query its dense ranking first, where the mode has one."""


@runtime_checkable
class Route(Protocol):
    """How candidates lead to others, such as from a synopsis to the rest of its artifact."""

    @property
    def closed(self) -> bool:
        """Whether too few candidates are all there are; else more is asked for, and routed again."""

    def scope(self, request: Request) -> str | None:
        """The condition of what the query itself ranks, such as summaries alone."""

    def route(self, index: Index, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
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

    def search(self, request: Request) -> Hits:
        """The hits of the page asked for; fewer only where fewer match the filters. Raises QueryError, StoreError."""
        request.check()
        request = replace(request, queries=tuple(_sayable(query) for query in request.queries))
        return within(request.timeout, lambda: self.store.retried(lambda: self._search(request)))

    def reader(self) -> Reader:
        """The published records, opened again when others are published. Raises StoreError before the first run."""
        with self._lock:
            published = self._kept.get("records")
            tag = published and _tag(published.records)
            if published is None or tag is None or tag != self._kept["tag"]:
                self._kept.clear()
                published = Reader(self.store.published())
                self._kept.update(records=published, tag=_tag(published.records))
            return published

    def _search(self, request: Request) -> Hits:
        try:
            return self._answer(self.reader(), request)
        except (OSError, RuntimeError, ValueError):
            self._kept.clear()  # its files may be gone
            raise

    def _answer(self, reader: Reader, request: Request) -> Hits:
        request = self._checked(reader, request)
        if not reader.size:
            return Hits()
        hits = _whole(reader, request, self._ranked(reader, request))
        for step in request.after:
            hits = Hits(step.after(reader, request, hits))
        return hits

    def _checked(self, reader: Reader, request: Request) -> Request:
        """The request with its filters as the table is to read them. Raises QueryError for what it does not have."""
        corpora = request.corpora
        for kind in (*request.surfaces, *request.weights):
            if not any(kind in reader.kinds.get(corpus, ()) for corpus in corpora or reader.kinds):
                known = sorted({k for corpus in corpora or reader.kinds for k in reader.kinds.get(corpus, ())})
                raise QueryError(f"unknown surface kind {kind!r}. Known: {', '.join(known) or 'none'}")
        if request.recency:
            _require_time(reader, request.recency.field, corpora)
        where = request.where
        if where is not None:
            with self.store.reached():
                where = checked(where, self.store, reader.records, tuple(corpora))
        return replace(request, where=where, corpora=() if set(corpora) >= reader.kinds.keys() else corpora)

    def _ranked(self, reader: Reader, request: Request) -> Sequence[Candidate]:
        """Candidates in their last order; looks deeper until a page is full or there is nothing more."""
        wanted = max(request.wanted, request.rerank.depth if request.rerank else 0)
        depth = wanted if _is_plain(request) else max(CANDIDATES, wanted)
        route = request.route
        scope = route.scope(request) if route else request.condition
        index = Index(reader, partial(self._rankings, reader), partial(self.store.edges_of, reader.records))
        while True:
            found = self._rankings(reader, request, depth, scope)
            first, behind = fuse(found, request, [reader.attainable(query) for query in request.queries])
            if route:
                ranked = weigh(route.route(index, request, [*first, *_behind(first, behind)]), reader, request)
            else:
                ranked = [*(ahead := weigh(first, reader, request)), *_behind(ahead, behind)]
            if request.per_artifact:
                ranked = best_of_artifacts(ranked)
            done = len(ranked) >= wanted or all(len(ranking) < depth for ranking in found)
            if done or (route and route.closed):
                return ranked
            depth *= DEEPER

    def _rankings(
        self, reader: Reader, request: Request, depth: int, condition: str | None, narrow: bool = False
    ) -> list[list[Candidate]]:
        """What each ranker finds for each query, all asked at the same time."""
        asked: list[Callable[[], list[Candidate]]] = []
        for number, query in enumerate(request.queries):
            if request.mode != "lexical":
                asked.append(partial(self._dense, reader, query, depth, condition, number, narrow))
            if request.mode != "dense":
                asked.append(partial(reader.lexical, query, depth, condition, number))
        weighing: list[Callable[[], Any]] = []
        if len(asked) > 1 and request.mode != "dense" and request.blend is not None:
            unknown = dict.fromkeys(word for query in request.queries for word in reader.unweighed(query))
            weighing = [partial(reader.weigh, word) for word in unknown]
        return reader.at_once(*asked, *weighing)[: len(asked)]

    def _dense(
        self, reader: Reader, query: str, depth: int, condition: str | None, number: int, narrow: bool
    ) -> list[Candidate]:
        if reader.made_by != self.embedder.id:
            raise StoreError(
                f"the index was made with embedder {reader.made_by}, the configuration says {self.embedder.id}:"
                " run `findingaid index`, or set `embedder` back"
            )
        return reader.dense(self.vector(query), depth, condition, number, narrow)

    @cached_property
    def vector(self) -> Callable[[str], Vectors]:
        """The vector of a query, kept for when it is asked again."""
        return lru_cache(QUERIES_KEPT)(self.embedder.embed_query)

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()


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
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not given:
        raise QueryError(f"no answer within {seconds:g} s: allow more time, or narrow the search by corpus or filter")
    return given[0]


def fuse(
    rankings: Sequence[Sequence[Candidate]], request: Request, attainable: Sequence[float]
) -> tuple[list[Candidate], list[Candidate]]:
    """One ranking of several, and what is behind it: of each ranking what is deeper than `CANDIDATES`, by best rank.

    A single ranking keeps its own scores. Several are blended on one scale from 0 to 1, cosine similarity as it is
    and BM25 as the share of what is attainable by the words of its query; or fused by reciprocal ranks.
    """
    share = _share_of(rankings, request, attainable)
    found: dict[str, Candidate] = {}
    ranks: dict[str, list[Rank]] = {}
    for ranking in rankings:
        for c in ranking:
            found.setdefault(c.record_id, c)
            ranks.setdefault(c.record_id, []).append(replace(c.ranks[0], share=share(c.ranks[0])))
    first, behind = [], []
    for record_id, c in found.items():
        near = tuple(rank for rank in ranks[record_id] if rank.rank <= CANDIDATES)
        if near:
            first.append(replace(c, score=sum(rank.share for rank in near), ranks=near))
        else:
            best = min(ranks[record_id], key=lambda rank: rank.rank)
            behind.append(replace(c, score=best.share, ranks=(best,)))
    return sorted(first, key=_order), sorted(behind, key=lambda c: (c.ranks[0].rank, c.record_id))


def _share_of(
    rankings: Sequence[Sequence[Candidate]], request: Request, attainable: Sequence[float]
) -> Callable[[Rank], float]:
    """What a rank adds to a score."""
    if len(rankings) == 1:
        return lambda rank: rank.score
    if request.blend is None:
        return lambda rank: reciprocal(rank.rank)
    dense, lexical = {"dense": (1.0, 0.0), "lexical": (0.0, 1.0)}.get(request.mode, (request.blend, 1 - request.blend))
    each = len(request.queries)

    def blended(rank: Rank) -> float:
        if rank.ranker == "dense":
            return dense * max(0.0, rank.score) / each
        return lexical * min(1.0, rank.score / (attainable[rank.query] or rank.score)) / each

    return blended


def reciprocal(rank: int) -> float:
    """What a place adds in reciprocal rank fusion: 1 / (60 + rank); ranks count from 1.

    Cormack, Clarke and Büttcher, SIGIR 2009, https://doi.org/10.1145/1571941.1572114
    """
    return 1 / (RRF_K + rank)


def weigh(ranked: Sequence[Candidate], reader: Reader, request: Request) -> Sequence[Candidate]:
    """Candidates by their scores times the weights of their surface kinds and of their age."""
    if not request.weights and not request.recency:
        return ranked
    ages: Iterable[float] = [1.0] * len(ranked)
    if request.recency:
        times = [row[request.recency.field] for row in reader.rows_of(ranked, [request.recency.field])]
        ages = factors(times, request.recency.half_life)
    weighed = []
    for c, age in zip(ranked, ages, strict=True):
        weight = age * request.weights.get(c.surface_kind, 1.0)
        # A cosine can be negative: what is to count more must then come nearer to 0.
        weighed.append(replace(c, score=c.score * weight if c.score > 0 else c.score / weight, weight=weight))
    return sorted(weighed, key=_order)


def best_of_artifacts(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each artifact."""
    best: dict[tuple[str, str], Candidate] = {}
    for c in ranked:
        best.setdefault((c.corpus, c.artifact_id), c)
    return list(best.values())


def _behind(ahead: Sequence[Candidate], behind: Sequence[Candidate]) -> list[Candidate]:
    """What stands behind, with scores that are no better than of those ahead."""
    most = ahead[-1].score if ahead else float("inf")
    following = []
    for c in behind:
        most = min(most, c.score)
        following.append(replace(c, score=most))
    return following


def _whole(reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Hits:
    """The hits of the page, reranked where that is asked for."""
    reranked = request.rerank.depth if request.rerank else 0
    start, stop = (0, max(request.wanted, reranked)) if request.rerank else (request.offset, request.wanted)
    page = ranked[start:stop]
    rows = reader.rows_of(page, COLUMNS)
    hits = Hits(hit(c, row, request.explain) for c, row in zip(page, rows, strict=True))
    if request.rerank:
        better = request.rerank.rerank(request, hits[:reranked])
        hits = Hits([*better, *hits[reranked:]][request.offset : request.wanted])
    return hits


def _is_plain(request: Request) -> bool:
    """Whether the order is that of one ranking, so that no more of it need be read than is wanted."""
    one = len(request.queries) == 1 and request.mode != "hybrid"
    return one and not (request.weights or request.recency or request.route or request.per_artifact)


def _require_time(reader: Reader, name: str, corpora: Sequence[str]) -> None:
    """Raises QueryError unless a field holds times, or texts that may be dates."""
    found = {f.name: f.type for fields in corpus_fields(reader.records, corpora).values() for f in fields}
    times = sorted(field for field, kind in found.items() if kind in {"timestamp", "string"})
    if name not in times:
        reason = f"is {found[name]}, not a time" if name in found else "is in none of the corpora searched"
        raise QueryError(f"recency: field {name!r} {reason}. Fields of times or texts: {', '.join(times) or 'none'}")


def _order(c: Candidate) -> tuple[float, str]:
    return -c.score, c.record_id


def _sayable(query: str) -> str:
    """A query that can be written as UTF-8: halves of a character stand for an unknown one."""
    return query.encode("utf-8", "replace").decode()


def _tag(records: Any) -> Mapping[str, Any] | None:
    from findingaid.store.publishing import PUBLISHED

    found: Mapping[str, Any] | None = records.tags.list().get(PUBLISHED)
    return found
