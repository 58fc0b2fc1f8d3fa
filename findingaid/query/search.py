"""Dense, lexical and hybrid search over the published records, one step after another.

    candidates -> fuse -> route -> weigh -> best of an artifact -> rerank -> page -> after

Every step takes candidates and gives candidates, best first; only the hits that the last steps see are read whole.
What is asked stands in a `Request`, and each step sees it along with the `Reader`, whose primitives are the only
way to the table. Three places are for others:

- `Request.route`, a `Route`: sees what the query found, after fusion and before anything is counted or cut, and may
  add candidates, drop them and score them again. At most three questions to the table, whatever the size. What it
  adds carries `route`, `depth` and `seed`, and a score on the scale of those it was given.
- `Request.rerank`, a `Rerank`: is given the best `rerank.depth` as whole hits, gives them in another order with
  scores of its own; what was behind them stays behind them.
- `Request.after`, each an `After`, in this order: is given the hits of the page, gives hits: fewer (select), with
  more text (expand).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, get_args

from findingaid.errors import QueryError
from findingaid.model import Embedder, Hit, Mode
from findingaid.query.hits import COLUMNS, Hits, hit
from findingaid.query.reader import Candidate, Reader
from findingaid.query.request import Request
from findingaid.query.where import checked
from findingaid.store import Store

RRF_K = 60
"""The constant of reciprocal rank fusion; 60 is the value of its paper, and flat between 20 and 100."""

CANDIDATES = 100
"""How deep each ranking is fused, at least."""


class Route(Protocol):
    """How candidates lead to others, such as from a synopsis to the rest of its artifact."""

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
    """Queries against the published version of a store."""

    store: Store
    embedder: Embedder

    def search(self, request: Request) -> Hits:
        """The hits of the page asked for; fewer only where fewer match the filters."""
        _refuse_malformed(request)
        asked = replace(request, queries=request.rewrite(request.queries)) if request.rewrite else request
        hits = self.store.retried(lambda: self._search(asked))
        return Hits(hits, hits.enough, asked.queries)

    def reader(self) -> Reader:
        """The published records. Raises StoreError when nothing was published yet."""
        return Reader(self.store.published(), self.embedder)

    def _search(self, request: Request) -> Hits:
        reader = self.reader()
        if request.where:
            with self.store.reached():
                request = replace(
                    request, where=checked(request.where, self.store, reader.records, tuple(request.corpora))
                )
        if not reader.size:
            return Hits()
        ranked = self._ranked(reader, request)
        hits = self._whole(reader, request, ranked)
        for step in request.after:
            changed = step.after(reader, request, hits)
            hits = Hits(changed, getattr(changed, "enough", hits.enough) or hits.enough)
        return hits

    def _ranked(self, reader: Reader, request: Request) -> list[Candidate]:
        """Candidates in their last order; goes deeper until a page is full or there is nothing more."""
        depth = max(CANDIDATES, request.wanted)
        while True:
            found = rankings(reader, request, depth)
            ranked: Sequence[Candidate] = fuse(found, request)
            if request.route:
                ranked = request.route.route(reader, request, ranked)
            ranked = weigh(ranked, request)
            if request.per_artifact:
                ranked = best_of_artifacts(ranked)
            if len(ranked) >= request.wanted or all(len(ranking) < depth for ranking in found):
                return list(ranked)
            depth *= 4

    def _whole(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Hits:
        wanted = request.wanted
        if request.rerank:
            wanted = max(wanted, request.rerank.depth)
        else:
            ranked = ranked[request.offset :]
            wanted = request.k
        ranked = ranked[:wanted]
        rows = reader.rows_of(ranked, COLUMNS)
        hits = Hits(hit(c, row, request.explain) for c, row in zip(ranked, rows, strict=True))
        if request.rerank:
            first = request.rerank.rerank(request, hits[: request.rerank.depth])
            hits = Hits([*first, *hits[request.rerank.depth :]][request.offset : request.wanted])
        return hits


def rankings(reader: Reader, request: Request, depth: int) -> list[list[Candidate]]:
    """What each ranker finds for each query, all asked at the same time."""
    condition = request.condition
    asked: list[Callable[[], list[Candidate]]] = []
    for number, query in enumerate(request.queries):
        if request.mode != "lexical":
            asked.append(partial(_dense, reader, query, depth, condition, number))
        if request.mode != "dense":
            asked.append(partial(reader.lexical, query, depth, condition, number))
    return reader.at_once(*asked)


def _dense(reader: Reader, query: str, depth: int, condition: str | None, number: int) -> list[Candidate]:
    return reader.dense(reader.embed(query), depth, condition, number)


def fuse(rankings: Sequence[Sequence[Candidate]], request: Request) -> list[Candidate]:
    """One ranking of several; a single one keeps its own scores."""
    if len(rankings) == 1:
        return list(rankings[0])
    found: dict[str, Candidate] = {}
    for ranking in rankings:
        for c in ranking:
            seen = found.get(c.record_id)
            found[c.record_id] = replace(c, ranks=(*seen.ranks, *c.ranks)) if seen else c
    scores = reciprocal_ranks([[c.record_id for c in ranking] for ranking in rankings])
    return [replace(found[record_id], score=score) for record_id, score in scores]


def reciprocal_ranks(rankings: Iterable[Sequence[str]]) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: (id, sum of 1 / (60 + rank)), best first, ties by id; ranks count from 1.

    Cormack, Clarke and Büttcher, SIGIR 2009, https://doi.org/10.1145/1571941.1572114
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))


def weigh(ranked: Sequence[Candidate], request: Request) -> Sequence[Candidate]:
    """Candidates by their scores times the weights of their surface kinds."""
    if not request.weights:
        return ranked
    weighed = [
        replace(c, score=c.score * weight, weight=weight)
        for c in ranked
        for weight in (request.weights.get(c.surface_kind, 1.0),)
    ]
    return sorted(weighed, key=lambda c: (-c.score, c.record_id))


def best_of_artifacts(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each artifact."""
    best: dict[tuple[str, str], Candidate] = {}
    for c in ranked:
        best.setdefault((c.corpus, c.artifact_id), c)
    return list(best.values())


def _refuse_malformed(request: Request) -> None:
    for query in request.queries or ("",):
        if not query.strip():
            raise QueryError("the query is empty: give it at least one word")
    if request.k < 1:
        raise QueryError(f"k must be at least 1, got {request.k}")
    if request.mode not in get_args(Mode):
        raise QueryError(f"unknown mode {request.mode!r}. Known: {', '.join(get_args(Mode))}")
