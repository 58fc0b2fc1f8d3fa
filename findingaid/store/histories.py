"""History of the anchored summaries of artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from findingaid.store.sql import equals
from findingaid.store.store import Store


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of `schemas.SUMMARIES`."""

    artifact_id: str
    iteration: int
    segments: int
    summary: str
    producer_id: str
    at: datetime


def history(store: Store, corpus: str, artifact_ids: Sequence[str]) -> dict[str, list[SummaryRow]]:
    """Map artifact id to its anchored summaries, oldest first; artifacts without any are left out."""
    columns = ("artifact_id", "iteration", "segments", "summary", "producer_id", "at")
    rows = store.lookup("summaries", "artifact_id", artifact_ids, columns, equals("corpus", corpus))
    found: dict[str, list[SummaryRow]] = {}
    for row in rows.sort_by("at").to_pylist():
        found.setdefault(row["artifact_id"], []).append(SummaryRow(**row))
    return found
