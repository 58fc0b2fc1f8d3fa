"""Retrieval routes: from the records that match a query to related records, by way of summaries or edges.

The leaves of an artifact are its records of granularity `chunk`. All its other records, such as synopsis, description
and capability, are its summary records. A matching summary record is a seed. An artifact has at most one seed, its
best one.

- `Boost` searches everything, and mixes the score of a leaf with that of its artifact's best summary record.
- `Auto` does so where a model wrote the summary records, and otherwise nothing.
- `Collapsed` searches summary records and replaces each seed, apart from weak ones far below the best, by the leaves of
  its artifact (hierarchical, or parent-child, retrieval). An artifact without leaves is represented by its summary
  records. An artifact without summary records is not found.
- `Gate` does the same with the best seeds only, without those far below the best one, and ranks their leaves by the
  leaves' own scores.
- `Walk` follows a `Policy` from record to record, within bounds; `Neighbours` is a policy that follows edges.

For one query, a route queries the table at most three times, whatever the size of the corpus, with these exceptions:

- `Collapsed` does so again if its first seeds lead to too few hits, at most twice each time it runs.
- With one hit per artifact, `Collapsed` and `Gate` rank leaves again, deeper, while they cover too few artifacts.
- A walk makes two queries per step of its depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from findingaid.errors import ConfigError, QueryError, brief, one_line
from findingaid.query.search.fusion import (
    CANDIDATES,
    DEPTH_FACTOR,
    Ranking,
    best_per_artifact,
    cap_scores,
    merge_rankings,
    rank_records,
    sort_by_score,
)
from findingaid.query.search.noise import is_weak
from findingaid.query.search.reader import Candidate, Key, Reader
from findingaid.query.search.request import IS_LEAF, IS_SUMMARY, LEAVES, Request, Route
from findingaid.query.search.walks import Policy, Walk
from findingaid.registry import imported
from findingaid.store.sql import both, of_artifacts

Seeds = Mapping[Key, Candidate]
"""Artifact -> its best matching summary record."""


@dataclass(frozen=True)
class Boost:
    """Route that mixes the score of each leaf with that of the best summary record of its artifact.

    The score of a leaf is (1 - `weight`) times its own score plus `weight` times the summary record's. Leaves of the
    best `seeds` seeds that the query did not find are added. Where scores come from ranks, these leaves start from the
    lowest score that was found. In lexical mode only leaves with words of the query are added, and a summary record
    without such words changes nothing. Only the first `CANDIDATES` are mixed, and deeper records follow, so that all
    pages are cut from one order.
    """

    seeds: int = 10
    weight: float = 0.35
    closed = False

    def __post_init__(self) -> None:
        _require_valid(self.seeds, self.weight)

    def scope(self, request: Request) -> str | None:
        return request.condition

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        condition = _of_summaries(request)
        seeds = _best_seeds(merge_rankings(reader, request, rank_records(reader, request, _depth(request), condition)))
        if not seeds:
            return ranked
        best = dict(islice(seeds.items(), self.seeds))
        found = [*ranked[:CANDIDATES], *self._find_missing_leaves(reader, request, ranked[:CANDIDATES], best)]
        seeds = {**self._find_missing_seeds(reader, request, found, seeds), **seeds}
        mixed = sort_by_score(self._mix(c, seeds) for c in found)
        known = {c.record_id for c in found}
        return [*mixed, *cap_scores(mixed, [c for c in ranked[CANDIDATES:] if c.record_id not in known])]

    def _find_missing_leaves(
        self, reader: Reader, request: Request, ranked: Sequence[Candidate], seeds: Seeds
    ) -> Iterable[Candidate]:
        """Return leaves of the seeds' artifacts that the query did not find."""
        known = {c.record_id for c in ranked}
        condition = both(request.condition, IS_LEAF, of_artifacts(seeds))
        added = [c for c in _rank_unfound(reader, request, condition) if c.record_id not in known]
        if request.scores_from_ranks:  # ranks among a few records mean little
            lowest = min((c.score for c in ranked), default=0.0)
            return [replace(c, score=lowest) for c in added]
        return added

    def _find_missing_seeds(self, reader: Reader, request: Request, leaves: Sequence[Candidate], seeds: Seeds) -> Seeds:
        """Return the summary records of the leaves' other artifacts, which the query ranks deeper than was read."""
        artifacts = {c.artifact for c in leaves if c.granularity == LEAVES} - seeds.keys()
        if not artifacts or len(seeds) < CANDIDATES or request.scores_from_ranks:
            return {}
        condition = both(_of_summaries(request), of_artifacts(sorted(artifacts)))
        return _best_seeds(_rank_unfound(reader, request, condition))

    def _mix(self, c: Candidate, seeds: Seeds) -> Candidate:
        seed = seeds.get(c.artifact)
        if seed is None or c.granularity != LEAVES:
            return c
        score = (1 - self.weight) * c.score + self.weight * seed.score
        return replace(c, score=score, route="boost", depth=1, seed=seed.record_id)


def _rank_unfound(reader: Reader, request: Request, condition: str) -> list[Candidate]:
    """Rank the few records of a condition that rankings of more records did not reach.

    In hybrid mode only by dense ranking: as in fusion, records that lexical ranking did not reach get nothing from it.
    """
    if request.mode != "hybrid":
        return merge_rankings(
            reader, request, rank_records(reader, request, _depth(request), condition, selective=True)
        )
    dense = rank_records(reader, replace(request, mode="dense"), _depth(request), condition, selective=True)
    return merge_rankings(reader, request, [*dense, Ranking("lexical", 0, ())])


@dataclass(frozen=True)
class Auto:
    """Route that is `boost` where a model wrote the summaries, and flat elsewhere.

    Extractive summaries repeat sentences of the chunks. They do not help (docs/evaluation.md), and so are not used.
    """

    boost: Boost = field(default_factory=Boost)
    closed = False

    def scope(self, request: Request) -> str | None:
        return request.condition

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        asked = set(request.corpora or reader.kinds)
        return self.boost.route(reader, request, ranked) if asked & reader.summarized_by_model else ranked


@dataclass(frozen=True)
class Collapsed:
    """Hierarchical route to the leaves of the artifacts of the best `seeds` seeds; if too few, those of others follow.

    The score of a leaf is (1 - `weight`) times its own score plus `weight` times its seed's score. A seed does not
    match, and is not followed, if it is weak and scores less than `cut` times the best one.
    """

    seeds: int = 10
    weight: float = 0.5
    cut: float = 0.3
    closed = False

    def __post_init__(self) -> None:
        _require_valid(self.seeds, self.weight, self.cut)

    def scope(self, request: Request) -> str | None:
        return _of_summaries(request)

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        hits: list[Candidate] = []
        for group in _group_seeds(ranked, self.seeds):
            seeds = _matching(reader, request, group, _least_score(request, ranked, self.cut))
            hits += cap_scores(hits, _route_to_leaves(reader, request, ranked, "collapsed", seeds, self.weight))
            if len({c.artifact for c in hits} if request.per_artifact else hits) >= request.hits_needed:
                break
        return hits


@dataclass(frozen=True)
class Gate:
    """Hierarchical route to the leaves of the best `seeds` seeds only, ranked by the leaves' own scores.

    Seeds whose score is below `cut` times the best one's are not followed, so that a small corpus is narrowed, too.
    Scores made from ranks are not cut, since they do not tell how similar a seed is. The route is closed: the page may
    stay short.
    """

    seeds: int = 10
    cut: float = 0.3
    closed = True

    def __post_init__(self) -> None:
        _require_valid(self.seeds, cut=self.cut)

    def scope(self, request: Request) -> str | None:
        return _of_summaries(request)

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        seeds = _best_seeds(ranked, self.seeds)
        if (least := _least_score(request, seeds.values(), self.cut)) > 0:
            seeds = {artifact: seed for artifact, seed in seeds.items() if seed.score >= least}
        return _route_to_leaves(reader, request, ranked, "gate", seeds, 0.0)


def _route_to_leaves(
    reader: Reader, request: Request, ranked: Sequence[Candidate], name: str, seeds: Seeds, weight: float
) -> list[Candidate]:
    """Return the leaves of the seeds' artifacts, and the summary records of those artifacts that have no leaves."""
    if not seeds:
        return []
    leaves, others = _read_leaves(reader, request, seeds)
    routed = [
        replace(
            leaf,
            score=(1 - weight) * leaf.score + weight * seeds[leaf.artifact].score,
            route=name,
            depth=1,
            seed=seeds[leaf.artifact].record_id,
        )
        for leaf in leaves
    ]
    routers = {leaf.artifact for leaf in leaves} | others
    alone = (c for c in ranked if c.artifact in seeds and c.artifact not in routers)
    return sort_by_score([*routed, *(c for c in alone if not request.surfaces or c.surface_kind in request.surfaces)])


def _read_leaves(reader: Reader, request: Request, seeds: Seeds) -> tuple[list[Candidate], set[Key]]:
    """Return the leaves of the seeds' artifacts, best first, and the artifacts with further leaves of any surface kind.

    The set is empty if the ranking already has every leaf.
    """
    depth = _depth(request)
    condition = both(request.condition, IS_LEAF, of_artifacts(seeds))
    while True:
        found = rank_records(reader, request, depth, condition, selective=True)
        leaves = merge_rankings(reader, request, found)
        artifacts = len({leaf.artifact for leaf in leaves}) if request.per_artifact else request.hits_needed
        if artifacts >= min(request.hits_needed, len(seeds)) or all(len(r.found) < depth for r in found):
            break
        depth *= DEPTH_FACTOR
    lexical = request.mode == "lexical"
    unseen = seeds.keys() if lexical else seeds.keys() - {leaf.artifact for leaf in leaves}
    # A dense ranking that is not full has every leaf.
    have_all = not lexical and not request.surfaces and any(r.ranker == "dense" and len(r.found) < depth for r in found)
    if not unseen or have_all:
        return leaves, set()
    rest = reader.where(both(request.condition_of(()), IS_LEAF, of_artifacts(unseen)))
    if lexical:  # a leaf is reached through its summary record, with or without words of the query
        known = {leaf.record_id for leaf in leaves}
        kinds = request.surfaces
        leaves += [c for c in rest if c.record_id not in known and (not kinds or c.surface_kind in kinds)]
    return leaves, {c.artifact for c in rest}


def _least_score(request: Request, seeds: Iterable[Candidate], cut: float) -> float:
    """Return `cut` times the best score of seeds; 0 if scores come from ranks, which do not tell how similar."""
    return 0.0 if request.scores_from_ranks else cut * max((seed.score for seed in seeds), default=0.0)


def _matching(reader: Reader, request: Request, seeds: Seeds, least: float) -> Seeds:
    """Return the seeds without weak ones that score less than `least`."""
    low = {artifact: seed for artifact, seed in seeds.items() if least > 0 and seed.score < least}
    rows = reader.rows_of(list(low.values()), ["text"]) if low else []
    judged = zip(low.items(), rows, strict=True)
    weak = {artifact for (artifact, seed), row in judged if is_weak(reader, request, seed, row)}
    return {artifact: seed for artifact, seed in seeds.items() if artifact not in weak}


def _group_seeds(summaries: Sequence[Candidate], count: int) -> Iterator[Seeds]:
    """Yield groups of seeds: the best `count`, then the others among the first `CANDIDATES`, then all deeper ones.

    The groups do not depend on the number of hits wanted, so that all pages are cut from one order.
    """
    known: Seeds = {}
    for found in (_best_seeds(summaries, count), _best_seeds(summaries[:CANDIDATES]), _best_seeds(summaries)):
        if group := {artifact: seed for artifact, seed in found.items() if artifact not in known}:
            yield group
        known = {**known, **found}


def _best_seeds(summaries: Iterable[Candidate], count: int | None = None) -> Seeds:
    """Return the best summary record of each artifact, for the first `count` artifacts or for all."""
    return {c.artifact: c for c in best_per_artifact(summaries)[:count]}


def _of_summaries(request: Request) -> str:
    return both(request.condition_of(()), IS_SUMMARY)


def _depth(request: Request) -> int:
    return max(CANDIDATES, request.hits_needed)


def _require_valid(count: int, weight: float = 0.0, cut: float = 0.0) -> None:
    if count < 1:
        raise QueryError(f"a route needs at least 1 seed, got {count}")
    if not 0 <= weight <= 1:
        raise QueryError(f"the weight of a route must be from 0 to 1, got {weight:g}")
    if not 0 <= cut <= 1:
        raise QueryError(f"the cut of a route must be from 0 to 1, got {cut:g}")


# -- by name -------------------------------------------------------------------------------------------

ROUTES: Mapping[str, Route | None] = {
    "flat": None,
    "auto": Auto(),
    "boost": Boost(),
    "collapsed": Collapsed(),
    "gate": Gate(),
    "neighbours": Walk(),
}
"""Built-in routes; "flat" means no route."""

SEEDED: Mapping[str, type[Boost | Collapsed | Gate]] = {"boost": Boost, "collapsed": Collapsed, "gate": Gate}
"""Built-in routes that follow a number of seeds, which may be added to the name: "gate:3"."""


def resolve_route(said: str | Route | Policy | None) -> Route | None:
    """Return the route for a name, an import path ("module:attribute") or an object; a policy becomes a `Walk`.

    A number after the name of a built-in route is its number of seeds: "gate:3" is `Gate(3)`.

    Returns None for None and "flat". Raises QueryError for an unknown name, a failed import and other objects.
    """
    if said is None or (isinstance(said, str) and said in ROUTES):
        return ROUTES[said] if said else None
    found: Any = said
    if isinstance(said, str):
        name, _, seeds = said.partition(":")
        if name in SEEDED and seeds.isdecimal():
            return SEEDED[name](int(seeds))
        if name in ROUTES and seeds:
            raise QueryError(f"route {brief(said)}: only {', '.join(SEEDED)} take a number of summaries, as in gate:3")
        if ":" not in said:
            raise QueryError(f"unknown route {brief(said)}. Known: {', '.join(ROUTES)}, or module:attribute")
        try:
            found = imported(said, "route")
            found = found() if isinstance(found, type) else found
        except ConfigError as error:
            raise QueryError(str(error)) from None
        except Exception as error:  # noqa: BLE001  # a class from outside findingaid may raise anything
            raise QueryError(f"route {said!r}: {one_line(error)}") from None
    if isinstance(found, Route):
        return found
    if isinstance(found, Policy):
        return Walk(found)
    raise QueryError(f"{said!r} is not a route: it has neither scope, route and closed, nor step")
