"""Events of the summary nodes of artifacts, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from findingaid.claims.model import SummaryNode
from findingaid.store import schemas
from findingaid.store.histories import time_after
from findingaid.store.sql import equals
from findingaid.store.store import Store
from findingaid.store.tables import select_rows

if TYPE_CHECKING:
    from lance import LanceDataset

NODE_EVENTS = "node_events"

CREATED, SUPERSEDED = "SUMMARY_CREATED", "SUMMARY_SUPERSEDED"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Row of `schemas.NODE_EVENTS`."""

    corpus: str
    artifact_id: str
    event: str
    node_id: str
    by: str
    members: Sequence[str]
    producer_id: str
    at: datetime

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"at": self.at.isoformat(timespec="seconds")}


def node_events(store: Store, corpus: str, artifact_ids: Sequence[str]) -> dict[str, list[NodeEvent]]:
    """Return the events of each artifact that has any, by artifact id."""
    rows = store.lookup(NODE_EVENTS, "artifact_id", artifact_ids, schemas.NODE_EVENTS.names, equals("corpus", corpus))
    return _by_artifact(rows)


def published_events(published: LanceDataset, corpus: str, artifact_id: str) -> list[NodeEvent]:
    """Return the events of an artifact in a published version of the table."""
    names = schemas.NODE_EVENTS.names
    rows = select_rows(published, "artifact_id", [artifact_id], names, equals("corpus", corpus))
    return _by_artifact(rows).get(artifact_id, [])


def _by_artifact(rows: pa.Table) -> dict[str, list[NodeEvent]]:
    found: dict[str, list[NodeEvent]] = {}
    # Of two events at one time, a node is superseded before the next one is created.
    for row in rows.sort_by([("at", "ascending"), ("event", "descending")]).to_pylist():
        found.setdefault(row["artifact_id"], []).append(NodeEvent(**row))
    return found


def node_event_rows(store: Store, corpus: str, nodes: Mapping[str, SummaryNode | None]) -> pa.Table:
    """Return the events for the current summary nodes of some artifacts, as rows; none that is already recorded.

    They are appended once the tables hold the nodes, so that no event names a node that was never stored. If a run is
    killed before that, the next run appends them.
    """
    known = node_events(store, corpus, list(nodes))
    events = [asdict(event) for i, node in nodes.items() for event in _events(known.get(i, []), node)]
    return pa.Table.from_pylist(events, schema=schemas.NODE_EVENTS)


def _events(known: Sequence[NodeEvent], node: SummaryNode | None) -> Iterable[NodeEvent]:
    last = known[-1] if known and known[-1].event == CREATED else None
    if (last.node_id if last else None) == (node.node_id if node else None):
        return
    at = time_after(event.at for event in known)
    if last:
        by = node.node_id if node else ""
        yield NodeEvent(last.corpus, last.artifact_id, SUPERSEDED, last.node_id, by, last.members, last.producer_id, at)
    if node:
        yield NodeEvent(node.corpus, node.artifact_id, CREATED, node.node_id, "", node.members, node.producer_id, at)
