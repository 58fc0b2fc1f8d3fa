"""History of the anchored summaries of artifacts, and the order of histories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from findingaid.store.sql import equals
from findingaid.store.store import Store
from findingaid.store.tables import select_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

TICK = timedelta(milliseconds=1)
"""Unit of the times in histories."""

COLUMNS = ("artifact_id", "iteration", "segments", "summary", "producer_id", "at")


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of `schemas.SUMMARIES`."""

    artifact_id: str
    iteration: int
    segments: int
    summary: str
    producer_id: str
    at: datetime


def time_after(known: Iterable[datetime]) -> datetime:
    """Return the time of a new row of a history with these times: now, unless the clock was set back."""
    return max([datetime.now(UTC), *(at + TICK for at in known)])


def history(store: Store, corpus: str, artifact_ids: Sequence[str]) -> dict[str, list[SummaryRow]]:
    """Map artifact id to its anchored summaries, oldest first; artifacts without any are left out."""
    rows = store.lookup("summaries", "artifact_id", artifact_ids, COLUMNS, equals("corpus", corpus))
    return _by_artifact(rows)


def published_history(store: Store, published: LanceDataset, corpus: str, artifact_id: str) -> list[SummaryRow]:
    """Return the anchored summaries that an artifact has in a published version of the table, oldest first.

    Those that a redaction has removed since are left out.
    """
    rows = select_rows(published, "artifact_id", [artifact_id], COLUMNS, equals("corpus", corpus))
    there = history(store, corpus, [artifact_id]).get(artifact_id, [])
    return [row for row in _by_artifact(rows).get(artifact_id, []) if row in there]


def _by_artifact(rows: pa.Table) -> dict[str, list[SummaryRow]]:
    found: dict[str, list[SummaryRow]] = {}
    for row in rows.sort_by("at").to_pylist():
        found.setdefault(row["artifact_id"], []).append(SummaryRow(**row))
    return found
