"""What rankers find, and one ranking of it: fused, and weighed by surface kind and age."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from findingaid.model import Rank
from findingaid.query.reader import LIGHT, Candidate, Found, Reader
from findingaid.query.recency import factors
from findingaid.query.request import Request

T = TypeVar("T", Found, Candidate)

RRF_K = 60
"""The constant of reciprocal rank fusion; 60 is the value of its paper, and flat between 20 and 100."""

CANDIDATES = 100
"""How deep each ranking is fused."""

DEEPER = 4
"""How many times deeper each further look is, while a page is not full."""


class Ranking(NamedTuple):
    """What one ranker finds for one of the queries, best first."""

    ranker: str
    query: int
    found: Sequence[Found]


def rankings(
    reader: Reader,
    request: Request,
    depth: int,
    condition: str | None,
    narrow: bool = False,
    columns: Sequence[str] = LIGHT,
) -> list[Ranking]:
    """What each ranker finds for each query, all asked at the same time; `narrow` where few records fit.

    Without columns there is only what ranking needs, for `Reader.candidates` to read where more is wanted.
    """
    asked: list[Callable[[], Ranking]] = []
    for number, query in enumerate(request.queries):
        if request.mode != "lexical":
            asked.append(partial(_dense, reader, number, query, depth, condition, narrow, columns))
        if request.mode != "dense":
            asked.append(partial(_lexical, reader, number, query, depth, condition, columns))
    weighing: list[Callable[[], Any]] = []
    if len(asked) > 1 and request.mode != "dense" and request.blend is not None:
        unknown = dict.fromkeys(word for query in request.queries for word in reader.unweighed(query))
        weighing = [partial(reader.weigh, word) for word in unknown]
    return reader.at_once(*asked, *weighing)[: len(asked)]


def _dense(
    reader: Reader,
    number: int,
    query: str,
    depth: int,
    condition: str | None,
    narrow: bool,
    columns: Sequence[str],
) -> Ranking:
    return Ranking("dense", number, reader.nearest(reader.embed(query), depth, condition, narrow, columns))


def _lexical(
    reader: Reader, number: int, query: str, depth: int, condition: str | None, columns: Sequence[str]
) -> Ranking:
    return Ranking("lexical", number, reader.matching(query, depth, condition, columns))


def merged(reader: Reader, request: Request, found: Sequence[Ranking]) -> list[Candidate]:
    """Several rankings as one, best first."""
    first, behind = in_one(reader, request, found)
    return reader.candidates([*first, *behind])


def in_one(reader: Reader, request: Request, found: Sequence[Ranking]) -> tuple[list[Found], list[Found]]:
    """One ranking of several, in order, and what is behind it."""
    first, behind = fuse(found, request, [reader.attainable(query) for query in request.queries])
    return reader.in_order(first) if len(found) > 1 else first, behind


def fuse(found: Sequence[Ranking], request: Request, attainable: Sequence[float]) -> tuple[list[Found], list[Found]]:
    """One ranking of several, and what is behind it: of each ranking what is deeper than `CANDIDATES`, by best rank.

    A single ranking keeps its own scores. Several are blended on one scale from 0 to 1, cosine similarity as it is
    and BM25 as the share of what is attainable by the words of its query; or fused by reciprocal ranks.
    """
    first: dict[int, Found] = {}
    behind: dict[int, tuple[tuple[int, int], Found]] = {}
    for number, ranking in enumerate(found):
        share = _share_of(ranking, len(found), request, attainable)
        for rank, f in enumerate(ranking.found, 1):
            adds = share(rank, f.score)
            why = (Rank(ranking.ranker, ranking.query, rank, f.score, adds),) if request.explain else ()
            if rank <= CANDIDATES:
                before = first.get(f.rowid)
                score, ranks = (before.score, before.ranks) if before else (0.0, ())
                first[f.rowid] = Found(f.rowid, score + adds, f.row, (*ranks, *why))
            elif f.rowid not in behind or (rank, number) < behind[f.rowid][0]:
                behind[f.rowid] = (rank, number), Found(f.rowid, adds, f.row, why)
    deeper = sorted((place for row, place in behind.items() if row not in first), key=lambda place: place[0])
    return sorted(first.values(), key=lambda f: -f.score), [f for _, f in deeper]


def _share_of(
    ranking: Ranking, of: int, request: Request, attainable: Sequence[float]
) -> Callable[[int, float], float]:
    """What a place and a score in a ranking add to a score."""
    if of == 1:
        return lambda _, score: score
    if request.blend is None:
        return lambda rank, _: reciprocal(rank)
    dense = request.blend if request.mode == "hybrid" else 1.0
    lexical = 1 - request.blend if request.mode == "hybrid" else 1.0
    if ranking.ranker == "dense":
        return lambda _, score: dense * max(0.0, score) / len(request.queries)
    most = attainable[ranking.query] or 1.0
    return lambda _, score: lexical * min(1.0, score / most) / len(request.queries)


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
    return best_first(weighed)


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """By score, ties by id."""
    return sorted(candidates, key=lambda c: (-c.score, c.record_id))


def best_of_artifacts(ranked: Iterable[Candidate]) -> list[Candidate]:
    """The first candidate of each artifact."""
    best: dict[tuple[str, str], Candidate] = {}
    for c in ranked:
        best.setdefault(c.artifact, c)
    return list(best.values())


def no_better(ahead: Sequence[T], behind: Sequence[T]) -> list[T]:
    """What stands behind, with scores that are no better than of those ahead."""
    most = ahead[-1].score if ahead else float("inf")
    following = []
    for f in behind:
        most = min(most, f.score)
        following.append(f if f.score == most else _scored(f, most))
    return following


def _scored(f: T, score: float) -> T:
    return f._replace(score=score) if isinstance(f, Found) else replace(f, score=score)
