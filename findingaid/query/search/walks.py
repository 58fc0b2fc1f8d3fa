"""Routes that follow edges from record to record, within bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from findingaid.errors import QueryError, one_line
from findingaid.query.search.edges import read_edges
from findingaid.query.search.fusion import merge_rankings, rank_records, sort_by_score
from findingaid.query.search.reader import Candidate, Key, Reader
from findingaid.query.search.request import IS_LEAF, LEAVES, Request
from findingaid.store.sql import both, of_artifacts


@dataclass(frozen=True, slots=True)
class Step:
    """Decision about a record that a walk has reached.

    - `emit`: return the record as a hit.
    - `leaves`: go on to the leaves of its artifact.
    - `along`: go on to the best record of each artifact that its artifact refers to by edges of these kinds.
    - `against`: the same for each artifact that refers to its artifact.

    ANY stands for every kind of edge.
    """

    emit: bool = True
    leaves: bool = False
    along: Collection[str] = ()
    against: Collection[str] = ()


ANY = ("*",)


@runtime_checkable
class Policy(Protocol):
    """Policy that decides at each record where a walk continues."""

    def step(self, at: Candidate) -> Step:
        """Decide about one record. `at.depth` is its distance from the query's own hits, which have depth 0."""


@dataclass(frozen=True)
class Neighbours:
    """Policy that follows edges between artifacts, `along` them to their targets or `against` them to their sources.

    It emits every record that it reaches. An empty list of kinds follows no edges.
    """

    along: Collection[str] = ANY
    against: Collection[str] = ()

    def step(self, at: Candidate) -> Step:
        return Step(along=self.along, against=self.against)


@dataclass(frozen=True)
class Walk:
    """Route that follows a policy breadth first, starting from the best `nodes` records that the query found.

    It always ends: it visits no record twice, takes at most `depth` steps, and visits at most `nodes` records. Each
    step multiplies the score by `decay`.
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
            reached = [c for c in self._reach(reader, request, steps) if c.record_id not in seen]
            frontier = reached[: self.nodes - len(seen)]
            seen.update(c.record_id for c in frontier)
            if not frontier:
                break
        return sort_by_score(emitted)

    def _step(self, at: Candidate) -> Step:
        try:
            step = self.policy.step(at)
        except Exception as error:  # a policy may raise anything
            raise QueryError(f"route: {type(self.policy).__name__} fails: {one_line(error)}") from error
        if not isinstance(step, Step):
            raise QueryError(f"route: {type(self.policy).__name__} returned {type(step).__name__}, expected Step")
        return step

    def _reach(self, reader: Reader, request: Request, steps: Sequence[tuple[Candidate, Step]]) -> list[Candidate]:
        """Return the records that the steps lead to, best first, each credited to the first step that leads to it."""
        inside = _first_by_artifact((c.artifact, c) for c, step in steps if step.leaves)
        beyond = _first_by_artifact(_follow_edges(reader, steps))
        places = [both(IS_LEAF, of_artifacts(inside))] * bool(inside) + [of_artifacts(beyond)] * bool(beyond)
        if not places:
            return []
        condition = both(request.condition, " OR ".join(f"({place})" for place in places))
        reached: list[Candidate] = []
        at: set[Key] = set()
        for c in self._rank_reached(reader, request, condition):
            if c.granularity == LEAVES and c.artifact in inside:
                reached.append(self._derive(c, inside[c.artifact], "leaves"))
            elif c.artifact in beyond and c.artifact not in at:
                at.add(c.artifact)
                reached.append(self._derive(c, beyond[c.artifact], "edges"))
        return sort_by_score(reached)

    def _rank_reached(self, reader: Reader, request: Request, condition: str) -> list[Candidate]:
        if request.mode == "lexical":  # the two ends of an edge need not share words
            return reader.where(condition)
        dense = replace(request, mode="dense")
        return merge_rankings(reader, dense, rank_records(reader, dense, self.nodes, condition, selective=True))

    def _derive(self, c: Candidate, origin: Candidate, how: str) -> Candidate:
        seed = origin.seed or origin.record_id
        return replace(c, score=self.decay * origin.score, ranks=(), route=how, depth=origin.depth + 1, seed=seed)


def _first_by_artifact(led: Iterable[tuple[Key, Candidate]]) -> dict[Key, Candidate]:
    """Map each artifact to the first record that leads to it."""
    found: dict[Key, Candidate] = {}
    for key, origin in led:
        found.setdefault(key, origin)
    return found


def _follow_edges(reader: Reader, steps: Sequence[tuple[Candidate, Step]]) -> Iterable[tuple[Key, Candidate]]:
    """Yield (artifact at the other end, record that leads to it) for all edges that the steps follow."""
    along = {c.artifact: step.along for c, step in reversed(steps) if step.along}
    against = {c.artifact: step.against for c, step in reversed(steps) if step.against}
    if not along and not against:
        return
    rows = read_edges(reader, along, against)
    rows.sort(key=lambda row: (row["corpus"], row["artifact_id"], row["position"]))
    out, back = _group_by_end(rows, "corpus", "artifact_id"), _group_by_end(rows, "target_corpus", "target_id")
    for c, step in steps:
        for row in out.get(c.artifact, ()):
            if _follows(step.along, row["kind"]):
                yield (row["target_corpus"], row["target_id"]), c
        for row in back.get(c.artifact, ()):
            if _follows(step.against, row["kind"]):
                yield (row["corpus"], row["artifact_id"]), c


def _group_by_end(rows: Iterable[dict[str, Any]], corpus: str, artifact_id: str) -> dict[Key, list[dict[str, Any]]]:
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row[corpus], row[artifact_id]), []).append(row)
    return found


def _follows(kinds: Collection[str], kind: str) -> bool:
    return kind in kinds or "*" in kinds
