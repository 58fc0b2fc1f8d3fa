"""From summary nodes to the claims that they are summaries of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from findingaid.claims.eligible import Eligibility, Eligible
from findingaid.claims.events import NodeEvent, node_events
from findingaid.errors import NotFoundError, QueryError
from findingaid.model import SUMMARY, Bullet, Hit
from findingaid.query.edges import Neighbour
from findingaid.query.hits import COLUMNS, Hits, hit, span_of
from findingaid.query.ranking import merged, rankings
from findingaid.store import Store
from findingaid.store.sql import any_of, both, equals, of_artifacts, one_of

if TYPE_CHECKING:
    from findingaid.query.reader import Reader, Row
    from findingaid.query.request import Request

NODE_COLUMNS = (
    "record_id", "corpus", "artifact_id", "artifact_version", "claim_id", "text", "span_start", "span_end", "metadata",
    "producer_id",
)  # fmt: skip

SUMMARIZES = "SUMMARIZES"
"""The kind of the edge from a summary node to a claim; also the route of a claim that its node led to."""


@dataclass(frozen=True)
class WithMembers:
    """The step of a search that puts behind each summary node the `top_k` of its claims that answer best.

    They come beside the hits of the page, and only those that may be shown.
    """

    top_k: int
    eligibility: Eligibility

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise QueryError(f"summary_top_k must be at least 0, got {self.top_k}")

    def after(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        nodes = [found for found in hits if found.surface_kind == SUMMARY]
        if not nodes or not self.top_k:
            return hits
        known = {found.record_id for found in hits}
        claims = [found for found in self._claims(reader, request, nodes) if found.record_id not in known]
        led = []
        for found in hits:
            led.append(found)
            if found.surface_kind == SUMMARY:
                led += [replace(claim, seed=found.record_id) for claim in _of(found, claims)[: self.top_k]]
        return Hits(led, getattr(hits, "enough", ""))

    def _claims(self, reader: Reader, request: Request, nodes: Sequence[Hit]) -> list[Hit]:
        """The members of all these nodes that may be shown and match the filters, best first."""
        ids = sorted({claim_id for node in nodes for claim_id in node.metadata["members"]})
        condition = both(
            replace(request, shown=self.eligibility.now().claims(request.tiers)).condition_of(()),
            of_artifacts({(node.corpus, node.artifact_id) for node in nodes}),
            one_of("claim_id", ids),
        )
        found = merged(reader, request, rankings(reader, request, len(ids), condition, narrow=True))
        rows = reader.rows_of(found, COLUMNS)
        return [
            replace(hit(c, row, request.explain), route=SUMMARIZES, depth=1) for c, row in zip(found, rows, strict=True)
        ]


def _of(node: Hit, claims: Iterable[Hit]) -> list[Hit]:
    """Those of the claims that a node is a summary of."""
    members = set(node.metadata["members"])
    key = (node.corpus, node.artifact_id)
    return [c for c in claims if (c.corpus, c.artifact_id) == key and c.metadata["claim_id"] in members]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A summary node as published: its points with the claims that each cites, all its claims, and what became of it
    and of those before it."""

    node_id: str
    record_id: str
    corpus: str
    artifact_id: str
    artifact_version: str
    bullets: Sequence[Bullet]
    themes: Sequence[str]
    confidence: float
    producer_id: str
    members: Sequence[Neighbour]
    events: Sequence[NodeEvent]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"events": [event.to_dict() for event in self.events]}


def node_view(store: Store, reader: Reader, wanted: str, corpora: Sequence[str], eligible: Eligible) -> NodeView:
    """The summary node of an artifact of these corpora, by its own id, its record's or the artifact's.

    Raises QueryError where there is none that may be shown, or where several of them have one.
    """
    named = any_of(*(equals(column, wanted) for column in ("claim_id", "record_id", "artifact_id")))
    found = _records(reader, both(eligible.nodes(reader.members), named, one_of("corpus", corpora)))
    if len(found) > 1:
        where = ", ".join(row["corpus"] for row in found)
        raise QueryError(f"{wanted!r} is in several corpora, {where}: name one by --corpus")
    if not found:
        raise NotFoundError(
            f"no published summary node {wanted!r}: an artifact with few claims has none, and one of which a claim was"
            " retracted has none until the next run"
        )
    (row,) = found
    said = orjson.loads(row["metadata"])
    return NodeView(
        node_id=row["claim_id"],
        record_id=row["record_id"],
        corpus=row["corpus"],
        artifact_id=row["artifact_id"],
        artifact_version=row["artifact_version"],
        bullets=[Bullet(text, tuple(members)) for text, members in said["bullets"]],
        themes=said["themes"],
        confidence=said["confidence"],
        producer_id=row["producer_id"],
        members=_members(reader, row, eligible),
        events=node_events(store, row["corpus"], [row["artifact_id"]]).get(row["artifact_id"], []),
    )


def summarized(reader: Reader, wanted: str, corpora: Sequence[str], eligible: Eligible) -> list[Neighbour]:
    """The claims that a summary node, by its id or its record's, is a summary of; [] where there is no such node.

    They are what the node itself says it stands on, so no edge is kept of them that could be left behind. A claim that
    may not be shown has no title.
    """
    if not reader.members:
        return []
    named = any_of(equals("claim_id", wanted), equals("record_id", wanted))
    nodes = _records(reader, both(eligible.nodes(reader.members), named, one_of("corpus", corpora)))
    return [member for node in nodes for member in _members(reader, node, eligible)]


def summarizing(reader: Reader, claim_id: str, corpora: Sequence[str], eligible: Eligible) -> list[Neighbour]:
    """The summary nodes that a claim is a member of; [] where there are none that may be shown."""
    holding = sorted(record for record, members in reader.members.items() if claim_id in members)
    of = both(eligible.nodes(reader.members), one_of("record_id", holding), one_of("corpus", corpora))
    return [_neighbour(node, node["claim_id"], node) for node in _records(reader, of)]


def _members(reader: Reader, node: Row, eligible: Eligible) -> list[Neighbour]:
    """The claims of a node, in the order of the text."""
    members = orjson.loads(node["metadata"])["members"]
    of = both(of_artifacts([(node["corpus"], node["artifact_id"])]), one_of("claim_id", members))
    claims = {row["claim_id"]: row for row in _records(reader, both(eligible.claims(), of))}
    return [_neighbour(node, claim_id, claims.get(claim_id)) for claim_id in members]


def _neighbour(of: Row, section: str, row: Row | None) -> Neighbour:
    span, text = (span_of(row), row["text"]) if row else (None, None)
    return Neighbour(of["corpus"], of["artifact_id"], SUMMARIZES, section, span, text)


def _records(reader: Reader, condition: str) -> list[Row]:
    rows: list[Row] = reader.records.to_table(columns=list(NODE_COLUMNS), filter=condition).to_pylist()
    return sorted(rows, key=lambda row: (row["corpus"], row["artifact_id"]))
