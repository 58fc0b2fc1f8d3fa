"""Summary nodes, and the claims that they summarize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from findingaid.claims.eligible import Eligible
from findingaid.claims.events import NODE_EVENTS, NodeEvent, published_events
from findingaid.corpus import Corpus
from findingaid.errors import NotFoundError, QueryError
from findingaid.protocols import Bullet
from findingaid.query.lookup.absences import explain_missing_node
from findingaid.query.lookup.references import Neighbour
from findingaid.query.search.hits import span_of
from findingaid.store.sql import any_of, both, equals, of_artifacts, one_of

if TYPE_CHECKING:
    from findingaid.query.search.reader import Reader
    from findingaid.query.search.vector_memory import Row
from findingaid.query.search.summary_claims import SUMMARIZES

NODE_COLUMNS = (
    "record_id", "corpus", "artifact_id", "artifact_version", "claim_id", "text", "span_start", "span_end", "metadata",
    "producer_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeView:
    """Summary node as published: its points with the claims that each cites, and all its claims.

    `events` are those of this node, and of the earlier nodes of the artifact.
    """

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


def read_node(
    reader: Reader,
    configured: Mapping[str, Corpus],
    wanted: str,
    corpora: Sequence[str],
    eligible: Eligible,
) -> NodeView:
    """Return the summary node of an artifact of these corpora, by its own id, its record's or the artifact's.

    Raises QueryError if no such node may be shown, with the reason, or if several corpora have one.
    """
    named = any_of(*(equals(column, wanted) for column in ("claim_id", "record_id", "artifact_id")))
    found = _records(reader, both(eligible.nodes(reader.node_members), named, one_of("corpus", corpora)))
    if len(found) > 1:
        where = ", ".join(row["corpus"] for row in found)
        raise QueryError(f"{wanted!r} is in several corpora, {where}: name one by --corpus")
    if not found:
        raise NotFoundError(
            explain_missing_node(reader, configured, wanted, corpora, eligible)
            or f"no summary node or artifact {wanted!r}"
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
        events=published_events(reader.beside(NODE_EVENTS), row["corpus"], row["artifact_id"]),
    )


def claims_of_node(reader: Reader, wanted: str, corpora: Sequence[str], eligible: Eligible) -> list[Neighbour]:
    """Return the claims of a summary node, by its id or its record's id; [] if no such node may be shown.

    The claims are read from the node itself, so that no stored edge can become stale. A claim that may not be shown has
    no title.
    """
    if not reader.node_members:
        return []
    named = any_of(equals("claim_id", wanted), equals("record_id", wanted))
    nodes = _records(reader, both(eligible.nodes(reader.node_members), named, one_of("corpus", corpora)))
    return [member for node in nodes for member in _members(reader, node, eligible)]


def nodes_of_claim(reader: Reader, claim_id: str, corpora: Sequence[str], eligible: Eligible) -> list[Neighbour]:
    """Return the summary nodes that have a claim as a member; [] if none may be shown."""
    holding = sorted(record for record, members in reader.node_members.items() if claim_id in members)
    of = both(eligible.nodes(reader.node_members), one_of("record_id", holding), one_of("corpus", corpora))
    return [_neighbour(node, node["claim_id"], node) for node in _records(reader, of)]


def _members(reader: Reader, node: Row, eligible: Eligible) -> list[Neighbour]:
    """Return the claims of a node, in text order."""
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
