"""Batch jobs of synopses that are sent but not collected yet: one row each, and a second once the id is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from findingaid.store import schemas
from findingaid.store.sql import equals
from findingaid.store.store import Store


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The fields of `schemas.BATCHES`; `batch_id` is "" until it is known, and if the process ends before."""

    tag: str
    batch_id: str
    corpus: str
    producer_id: str
    run: str
    keys: Sequence[str]
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    at: datetime

    def __str__(self) -> str:
        return f"batch {self.batch_id or self.tag} of {len(self.keys):,} synopses, sent {self.at:%Y-%m-%d %H:%M} UTC"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for programs, with the number of synopses instead of the keys."""
        told = asdict(self)
        del told["keys"]
        return told | {"synopses": len(self.keys), "at": self.at.isoformat(timespec="seconds")}


class OpenBatches:
    """The batches table of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, **wanted: str) -> list[OpenBatch]:
        """Return the batches with the given field values, oldest first."""
        where = " AND ".join(equals(name, value) for name, value in wanted.items()) or None
        found = self._store.rows("batches", schemas.BATCHES.names, where).to_pylist()
        by_tag = {row["tag"]: OpenBatch(**row) for row in sorted(found, key=lambda row: bool(row["batch_id"]))}
        return sorted(by_tag.values(), key=lambda batch: batch.at)

    def intend(self, batch: OpenBatch) -> None:
        """Record a batch that is about to be sent, so that it can be found by its tag if the sender dies."""
        self._store.append("batches", pa.Table.from_pylist([asdict(batch)], schema=schemas.BATCHES))

    def sent(self, batch: OpenBatch, batch_id: str) -> OpenBatch:
        """Record the id that the endpoint gave to a batch; return the batch with it."""
        named = replace(batch, batch_id=batch_id)
        self.intend(named)
        return named

    def close(self, batch: OpenBatch) -> None:
        """Forget a batch that was collected, or that was never sent."""
        self._store.drop("batches", "tag", [batch.tag])
