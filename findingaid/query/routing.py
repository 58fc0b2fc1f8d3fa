"""Routes: from what a query finds to what it is after, by way of summaries and of edges.

Of an artifact the records of granularity `chunk` are its leaves, all others, such as synopsis, description and
capability, its summaries. A summary that matches is a seed; an artifact has at most one, the best.

- `Boost` searches everything, and lifts the leaves of artifacts whose summary matches.
- `Collapsed` searches summaries, goes from each seed to its artifact's leaves and leaves the seed out; an artifact
  without leaves is stood for by its summaries. What has no summary is not found.
- `Gate` does the same with its seeds alone, and ranks their leaves as if there were nothing else.
- `Walk` asks a `Policy` at each record where to go on, within bounds; `Neighbours` is one that follows edges.

A route asks the table at most three questions, whatever the size of the corpus; `Collapsed` does so again where its
first seeds lead to too little, at most twice for each look; a walk asks two for each step that it is deep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from findingaid.errors import ConfigError, QueryError, brief, one_line
from findingaid.query.ranking import (
    CANDIDATES,
    DEEPER,
    Ranking,
    best_first,
    best_of_artifacts,
    merged,
    no_better,
    rankings,
)
from findingaid.query.reader import Candidate, Key, Reader
from findingaid.query.request import Request
from findingaid.query.search import Route
from findingaid.registry import imported
from findingaid.store.sql import both, equals, of_artifacts

LEAVES = "chunk"
"""The granularity of leaves."""

IS_LEAF = equals("granularity", LEAVES)
IS_SUMMARY = f"NOT ({IS_LEAF})"

Seeds = Mapping[Key, Candidate]
"""Artifact -> the best of its summaries that match."""


@dataclass(frozen=True)
class Boost:
    """Leaves of the artifacts of the `seeds` best summaries get `weight` times the summary's score on top.

    Those that the query did not find are added, behind everything found until they are lifted; by lexical search
    alone those that have words of it.
    """

    seeds: int = 10
    weight: float = 0.5
    closed = False

    def __post_init__(self) -> None:
        _refuse(self.seeds, self.weight)

    def scope(self, request: Request) -> str | None:
        return request.condition

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        condition = _of_summaries(request)
        seeds = _seeds(merged(reader, request, rankings(reader, request, _depth(request), condition)), self.seeds)
        if not seeds:
            return ranked
        return best_first(self._lifted(c, seeds) for c in [*ranked, *self._added(reader, request, ranked, seeds)])

    def _added(
        self, reader: Reader, request: Request, ranked: Sequence[Candidate], seeds: Seeds
    ) -> Iterable[Candidate]:
        """Leaves of the seeds that the query did not find. Of a hybrid search the dense ranking is enough."""
        hybrid = request.mode == "hybrid"
        condition = both(request.condition, IS_LEAF, of_artifacts(seeds))
        one = replace(request, mode="dense") if hybrid else request
        found = rankings(reader, one, _depth(request), condition, narrow=True)
        known = {c.record_id for c in ranked}
        leaves = merged(reader, request, [*found, Ranking("lexical", 0, ())] if hybrid else found)
        added = [c for c in leaves if c.record_id not in known]
        if request.blend is None and (hybrid or len(request.queries) > 1):  # places among a few say little
            lowest = min((c.score for c in ranked), default=0.0)
            return [replace(c, score=lowest) for c in added]
        return added

    def _lifted(self, c: Candidate, seeds: Seeds) -> Candidate:
        seed = seeds.get(c.artifact)
        if seed is None or c.granularity != LEAVES:
            return c
        return replace(c, score=c.score + self.weight * seed.score, route="boost", depth=1, seed=seed.record_id)


@dataclass(frozen=True)
class Collapsed:
    """The leaves of the artifacts of the `seeds` best summaries; where those are too few, behind them those of others.

    A leaf's score is its own and, by the share `weight`, its seed's.
    """

    seeds: int = 10
    weight: float = 0.5
    closed = False

    def __post_init__(self) -> None:
        _refuse(self.seeds, self.weight)

    def scope(self, request: Request) -> str | None:
        return _of_summaries(request)

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        hits: list[Candidate] = []
        for seeds in _groups(ranked, self.seeds):
            hits += no_better(hits, _down(reader, request, ranked, "collapsed", seeds, self.weight))
            if len({c.artifact for c in hits} if request.per_artifact else hits) >= request.wanted:
                break
        return hits


@dataclass(frozen=True)
class Gate:
    """The leaves of the artifacts of the `seeds` best summaries, however many hits those make, by their own scores."""

    seeds: int = 10
    closed = True

    def __post_init__(self) -> None:
        _refuse(self.seeds)

    def scope(self, request: Request) -> str | None:
        return _of_summaries(request)

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        return _down(reader, request, ranked, "gate", _seeds(ranked, self.seeds), 0.0)


def _down(
    reader: Reader, request: Request, ranked: Sequence[Candidate], name: str, seeds: Seeds, weight: float
) -> list[Candidate]:
    """From summaries to the leaves of their artifacts, and to those summaries that have none."""
    if not seeds:
        return []
    leaves, others = _leaves(reader, request, seeds)
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
    return best_first([*routed, *(c for c in alone if not request.surfaces or c.surface_kind in request.surfaces)])


def _leaves(reader: Reader, request: Request, seeds: Seeds) -> tuple[list[Candidate], set[Key]]:
    """The leaves of the seeds' artifacts, best first, and the artifacts that have others besides."""
    depth = _depth(request)
    condition = both(request.condition, IS_LEAF, of_artifacts(seeds))
    while True:
        found = rankings(reader, request, depth, condition, narrow=True)
        leaves = merged(reader, request, found)
        artifacts = len({leaf.artifact for leaf in leaves}) if request.per_artifact else request.wanted
        if artifacts >= min(request.wanted, len(seeds)) or all(len(r.found) < depth for r in found):
            break
        depth *= DEEPER
    lexical = request.mode == "lexical"
    unseen = seeds.keys() if lexical else seeds.keys() - {leaf.artifact for leaf in leaves}
    # A dense ranking that is not full has every leaf.
    have_all = not lexical and not request.surfaces and any(r.ranker == "dense" and len(r.found) < depth for r in found)
    if not unseen or have_all:
        return leaves, set()
    rest = reader.where(both(request.condition_of(()), IS_LEAF, of_artifacts(unseen)))
    if lexical:  # a leaf is reached by its summary, whatever its own words are
        known = {leaf.record_id for leaf in leaves}
        kinds = request.surfaces
        leaves += [c for c in rest if c.record_id not in known and (not kinds or c.surface_kind in kinds)]
    return leaves, {c.artifact for c in rest}


def _groups(summaries: Sequence[Candidate], count: int) -> Iterator[Seeds]:
    """The first seeds, the others of what is ranked at first, and what only a deeper look finds.

    A group does not depend on how many hits are wanted, so that pages are cut from one order.
    """
    known: Seeds = {}
    for found in (_seeds(summaries, count), _seeds(summaries[:CANDIDATES]), _seeds(summaries)):
        if group := {artifact: seed for artifact, seed in found.items() if artifact not in known}:
            yield group
        known = {**known, **found}


def _seeds(summaries: Iterable[Candidate], count: int | None = None) -> Seeds:
    """The best summary of each artifact, of the first `count` artifacts or of all."""
    return {c.artifact: c for c in best_of_artifacts(summaries)[:count]}


def _of_summaries(request: Request) -> str:
    return both(request.condition_of(()), IS_SUMMARY)


def _depth(request: Request) -> int:
    return max(CANDIDATES, request.wanted)


def _refuse(count: int, weight: float = 0.0) -> None:
    if count < 1:
        raise QueryError(f"a route needs at least 1 seed, got {count}")
    if not 0 <= weight <= 1:
        raise QueryError(f"the weight of a route is from 0 to 1, got {weight:g}")


# -- walks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of a record that a walk has reached, and where the walk goes on from it.

    `emit` makes it a hit. `leaves` leads to the leaves of its artifact, `along` and `against` to the best record of
    each artifact that it refers to, or that refers to it, by edges of these kinds; ANY is every kind.
    """

    emit: bool = True
    leaves: bool = False
    along: Collection[str] = ()
    against: Collection[str] = ()


ANY = ("*",)


@runtime_checkable
class Policy(Protocol):
    """Says at each record where a walk goes on."""

    def step(self, at: Candidate) -> Step:
        """`at.depth` is how far the walk has come, 0 for what the query found."""


@dataclass(frozen=True)
class Neighbours:
    """Goes from what is found to what its artifact refers to, or with `against` to what refers to it.

    A policy that emits everything it comes to; an empty list of kinds follows none.
    """

    along: Collection[str] = ANY
    against: Collection[str] = ()

    def step(self, at: Candidate) -> Step:
        return Step(along=self.along, against=self.against)


@dataclass(frozen=True)
class Walk:
    """Goes where a policy says, breadth first, from everything that the query found.

    It ends whatever the policy says: it comes to no record twice, goes at most `depth` steps, and to at most `nodes`
    records. With each step a score is multiplied by `decay`.
    """

    policy: Policy = field(default_factory=Neighbours)
    depth: int = 1
    nodes: int = 1_000
    decay: float = 0.5
    closed = True

    def scope(self, request: Request) -> str | None:
        return request.condition

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        frontier = list(ranked[: self.nodes])
        seen = {c.record_id for c in frontier}
        emitted: list[Candidate] = []
        for depth in range(self.depth + 1):
            steps = [(c, self._step(c)) for c in frontier]
            emitted += [c for c, step in steps if step.emit]
            if depth == self.depth or len(seen) >= self.nodes:
                break
            reached = [c for c in self._reached(reader, request, steps) if c.record_id not in seen]
            frontier = reached[: self.nodes - len(seen)]
            seen.update(c.record_id for c in frontier)
            if not frontier:
                break
        return best_first(emitted)

    def _step(self, at: Candidate) -> Step:
        try:
            step = self.policy.step(at)
        except Exception as error:  # a policy may raise anything
            raise QueryError(f"route: {type(self.policy).__name__} fails: {one_line(error)}") from error
        if not isinstance(step, Step):
            raise QueryError(f"route: {type(self.policy).__name__} gave {type(step).__name__}, expected Step")
        return step

    def _reached(self, reader: Reader, request: Request, steps: Sequence[tuple[Candidate, Step]]) -> list[Candidate]:
        """What the steps lead to, from the best first, each by the first that leads there."""
        inside = _first((c.artifact, c) for c, step in steps if step.leaves)
        beyond = _first(_across(reader, steps))
        places = [both(IS_LEAF, of_artifacts(inside))] * bool(inside) + [of_artifacts(beyond)] * bool(beyond)
        if not places:
            return []
        condition = both(request.condition, " OR ".join(f"({place})" for place in places))
        reached: list[Candidate] = []
        at: set[Key] = set()
        for c in self._found(reader, request, condition):
            if c.granularity == LEAVES and c.artifact in inside:
                reached.append(self._led(c, inside[c.artifact], "leaves"))
            elif c.artifact in beyond and c.artifact not in at:
                at.add(c.artifact)
                reached.append(self._led(c, beyond[c.artifact], "edges"))
        return best_first(reached)

    def _found(self, reader: Reader, request: Request, condition: str) -> list[Candidate]:
        if request.mode == "lexical":  # no edge says that its ends have words in common
            return reader.where(condition)
        dense = replace(request, mode="dense")
        return merged(reader, dense, rankings(reader, dense, self.nodes, condition, narrow=True))

    def _led(self, c: Candidate, origin: Candidate, how: str) -> Candidate:
        seed = origin.seed or origin.record_id
        return replace(c, score=self.decay * origin.score, ranks=(), route=how, depth=origin.depth + 1, seed=seed)


def _first(led: Iterable[tuple[Key, Candidate]]) -> dict[Key, Candidate]:
    """What is led to -> the first that leads there."""
    found: dict[Key, Candidate] = {}
    for key, origin in led:
        found.setdefault(key, origin)
    return found


def _across(reader: Reader, steps: Sequence[tuple[Candidate, Step]]) -> Iterable[tuple[Key, Candidate]]:
    """(artifact at the other end, the record that leads there) of all edges that the steps follow."""
    along = {c.artifact: step.along for c, step in reversed(steps) if step.along}
    against = {c.artifact: step.against for c, step in reversed(steps) if step.against}
    if not along and not against:
        return
    parts = [of_artifacts(along)] * bool(along)
    parts += [of_artifacts(against, "target_corpus", "target_id")] * bool(against)
    columns = ["corpus", "artifact_id", "target_corpus", "target_id", "kind", "position"]
    rows = reader.edges().to_table(columns=columns, filter=" OR ".join(f"({part})" for part in parts)).to_pylist()
    rows.sort(key=lambda row: (row["corpus"], row["artifact_id"], row["position"]))
    out, back = _by_end(rows, "corpus", "artifact_id"), _by_end(rows, "target_corpus", "target_id")
    for c, step in steps:
        for row in out.get(c.artifact, ()):
            if _follows(step.along, row["kind"]):
                yield (row["target_corpus"], row["target_id"]), c
        for row in back.get(c.artifact, ()):
            if _follows(step.against, row["kind"]):
                yield (row["corpus"], row["artifact_id"]), c


def _by_end(rows: Iterable[dict[str, Any]], corpus: str, artifact_id: str) -> dict[Key, list[dict[str, Any]]]:
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row[corpus], row[artifact_id]), []).append(row)
    return found


def _follows(kinds: Collection[str], kind: str) -> bool:
    return kind in kinds or "*" in kinds


# -- by name -------------------------------------------------------------------------------------------

ROUTES: Mapping[str, Route | None] = {
    "flat": None,
    "boost": Boost(),
    "collapsed": Collapsed(),
    "gate": Gate(),
    "neighbours": Walk(),
}
"""The routes that ship; flat is none at all."""


def route_of(said: str | Route | Policy | None) -> Route | None:
    """The route of a name or an import path, "module:attribute"; a policy becomes a walk. Raises QueryError."""
    if said is None or (isinstance(said, str) and said in ROUTES):
        return ROUTES[said] if said else None
    found: Any = said
    if isinstance(said, str):
        if ":" not in said:
            raise QueryError(f"unknown route {brief(said)}. Known: {', '.join(ROUTES)}, or module:attribute")
        try:
            found = imported(said, "route")
            found = found() if isinstance(found, type) else found
        except ConfigError as error:
            raise QueryError(str(error)) from None
        except Exception as error:  # noqa: BLE001  # of a class that findingaid does not ship
            raise QueryError(f"route {said!r}: {one_line(error)}") from None
    if isinstance(found, Route):
        return found
    if isinstance(found, Policy):
        return Walk(found)
    raise QueryError(f"{said!r} is no route: it has neither scope, route and closed, nor step")
