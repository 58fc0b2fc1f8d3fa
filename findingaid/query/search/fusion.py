"""Fusion of dense and lexical rankings into one, and weighting by surface kind and age."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from findingaid.model import Rank
from findingaid.query.search.reader import Candidate, Key, Reader, RowHit
from findingaid.query.search.recency import recency_factors
from findingaid.query.search.request import Request
from findingaid.query.search.vector_memory import CANDIDATE_COLUMNS

T = TypeVar("T", RowHit, Candidate)

RRF_K = 60
"""Constant of reciprocal rank fusion. The paper uses 60; results hardly change between 20 and 100."""

CANDIDATES = 100
"""Number of records of each ranking that are fused."""

DEPTH_FACTOR = 4
"""Factor by which the search depth grows while a page is not full."""


class Ranking(NamedTuple):
    """Ranking by one ranker for one of the queries, best first. `query` is the query's index in the request.

    With `ranked` false, these are scores of records that are not among the first of the ranking.
    """

    ranker: str
    query: int
    found: Sequence[RowHit]
    ranked: bool = True


def rank_records(
    reader: Reader,
    request: Request,
    depth: int,
    condition: str | None,
    selective: bool = False,
    columns: Sequence[str] = CANDIDATE_COLUMNS,
) -> list[Ranking]:
    """Run each ranker for each query, all concurrently. Pass `selective` if few records match the condition.

    Without columns only row ids and scores are read; `Reader.candidates` reads the rest if needed.
    """
    asked: list[Callable[[], Ranking]] = []
    for number, query in enumerate(request.queries):
        if request.mode != "lexical":
            asked.append(partial(_dense, reader, number, query, depth, condition, selective, columns))
        if request.mode != "dense":
            asked.append(partial(_lexical, reader, number, query, depth, condition, columns))
    weighing: list[Callable[[], Any]] = []
    if len(asked) > 1 and request.mode != "dense" and request.blend is not None:
        unknown = dict.fromkeys(term for query in request.queries for term in reader.terms_without_maximum(query))
        weighing = [partial(reader.load_maximum, term) for term in unknown]
    return reader.run_concurrently(*asked, *weighing)[: len(asked)]


def _dense(
    reader: Reader,
    number: int,
    query: str,
    depth: int,
    condition: str | None,
    selective: bool,
    columns: Sequence[str],
) -> Ranking:
    return Ranking("dense", number, reader.nearest(reader.embed(query), depth, condition, selective, columns))


def _lexical(
    reader: Reader, number: int, query: str, depth: int, condition: str | None, columns: Sequence[str]
) -> Ranking:
    return Ranking("lexical", number, reader.matching(query, depth, condition, columns))


def merge_rankings(reader: Reader, request: Request, found: Sequence[Ranking]) -> list[Candidate]:
    """Merge several rankings into one list of candidates, best first."""
    first, behind = fuse_rankings(reader, request, found)
    return reader.candidates([*first, *behind])


def fuse_rankings(reader: Reader, request: Request, found: Sequence[Ranking]) -> tuple[list[RowHit], list[RowHit]]:
    """Fuse several rankings; return the fused part with ties in order, and the deeper records behind it."""
    if len(found) > 1 and request.blend is not None:
        found = [*_with_similarities(reader, request, found)]
    first, behind = fuse(found, request, [reader.max_bm25(query) for query in request.queries])
    return reader.in_order(first) if len(found) > 1 else first, behind


def _with_similarities(reader: Reader, request: Request, found: Sequence[Ranking]) -> Iterator[Ranking]:
    """Yield the rankings, and after each dense one the scores of records that only other rankings have found.

    Without them a blend would count a record at rank 101 as having nothing in common with the query. All cosines are
    computed in one way: those of Lance differ in the last digit, by which records of the same text would not tie.
    """
    fused = sorted({f.rowid for ranking in found for f in ranking.found[:CANDIDATES]})
    for ranking in found:
        if ranking.ranker != "dense" or not fused:
            yield ranking
            continue
        similar = {f.rowid: f for f in reader.similarities(reader.embed(request.queries[ranking.query]), fused)}
        first = [f._replace(score=similar.pop(f.rowid).score) for f in ranking.found[:CANDIDATES]]
        yield ranking._replace(found=[*first, *ranking.found[CANDIDATES:]])
        yield Ranking("dense", ranking.query, list(similar.values()), ranked=False)


def fuse(found: Sequence[Ranking], request: Request, max_bm25: Sequence[float]) -> tuple[list[RowHit], list[RowHit]]:
    """Fuse several rankings; return the fused part, and behind it the records deeper than `CANDIDATES` by best rank.

    A single ranking keeps its own scores. With `request.blend`, several rankings are blended on one scale from 0 to 1:
    cosine similarity unchanged (negative counts 0), and BM25 divided by the score max_bm25 with the query's words.
    Without it they are fused by reciprocal rank.
    """
    first: dict[int, RowHit] = {}
    behind: dict[int, tuple[tuple[int, int], RowHit]] = {}
    for number, ranking in enumerate(found):
        share = _contribution_of(ranking, len(found), request, max_bm25)
        for rank, f in enumerate(ranking.found, 1):
            adds = share(rank, f.score)
            why = (Rank(ranking.ranker, ranking.query, rank if ranking.ranked else None, f.score, adds),)
            if rank <= CANDIDATES or not ranking.ranked:
                before = first.get(f.rowid)
                score, ranks = (before.score, before.ranks) if before else (0.0, ())
                first[f.rowid] = RowHit(f.rowid, score + adds, f.row, (*ranks, *why))
            elif f.rowid not in behind or (rank, number) < behind[f.rowid][0]:
                behind[f.rowid] = (rank, number), RowHit(f.rowid, adds, f.row, why)
    deeper = sorted((place for row, place in behind.items() if row not in first), key=lambda place: place[0])
    return sorted(first.values(), key=lambda f: -f.score), [f for _, f in deeper]


def _contribution_of(
    ranking: Ranking, of: int, request: Request, max_bm25: Sequence[float]
) -> Callable[[int, float], float]:
    """Return the function (rank, score) -> contribution of a ranking to the fused score."""
    if of == 1:
        return lambda _, score: score
    if request.blend is None:
        return lambda rank, _: reciprocal_rank(rank)
    dense = request.blend if request.mode == "hybrid" else 1.0
    lexical = 1 - request.blend if request.mode == "hybrid" else 1.0
    if ranking.ranker == "dense":
        return lambda _, score: dense * max(0.0, score) / len(request.queries)
    most = max_bm25[ranking.query] or 1.0
    return lambda _, score: lexical * min(1.0, score / most) / len(request.queries)


def reciprocal_rank(rank: int) -> float:
    """Return the contribution of a rank in reciprocal rank fusion: 1 / (60 + rank); ranks count from 1.

    Cormack, Clarke and Büttcher, SIGIR 2009, https://doi.org/10.1145/1571941.1572114
    """
    return 1 / (RRF_K + rank)


def apply_weights(ranked: Sequence[Candidate], reader: Reader, request: Request) -> Sequence[Candidate]:
    """Sort candidates by their scores times the weights of their surface kind and age."""
    if not request.weights and not request.recency:
        return ranked
    ages: Iterable[float] = [1.0] * len(ranked)
    if request.recency:
        times = [row[request.recency.field] for row in reader.rows_of(ranked, [request.recency.field])]
        ages = recency_factors(times, request.recency.half_life)
    weighed = []
    for c, age in zip(ranked, ages, strict=True):
        weight = age * request.weights.get(c.surface_kind, 1.0)
        # A cosine can be negative: a higher weight must then move it closer to 0.
        weighed.append(replace(c, score=c.score * weight if c.score > 0 else c.score / weight, weight=weight))
    return sort_by_score(weighed)


def sort_by_score(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort by score, ties by record id."""
    return sorted(candidates, key=lambda c: (-c.score, c.record_id))


def best_per_artifact(ranked: Iterable[Candidate], beside: str = "") -> list[Candidate]:
    """Return the first candidate of each artifact, and the first of the surface kind `beside`."""
    best: dict[tuple[Key, bool], Candidate] = {}
    for c in ranked:
        best.setdefault((c.artifact, c.surface_kind == beside), c)
    return list(best.values())


def cap_scores(ahead: Sequence[T], behind: Sequence[T]) -> list[T]:
    """Return the entries behind, with scores capped so that none exceeds the entry before it."""
    most = ahead[-1].score if ahead else float("inf")
    following = []
    for f in behind:
        most = min(most, f.score)
        following.append(f if f.score == most else _with_score(f, most))
    return following


def _with_score(f: T, score: float) -> T:
    return f._replace(score=score) if isinstance(f, RowHit) else replace(f, score=score)
