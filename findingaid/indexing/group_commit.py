"""Group commit: many batches become visible in one commit a table.

Each batch is computed, and its rows are written to files, before it joins a group. A group is committed in three steps:

1. The ledger records the intent to write.
2. Each table gets one commit, which takes the files of all batches.
3. The ledger records that the batches are done, and the versions of the tables that have their rows.

After a crash at any point, unfinished work is stale and is done again. Step 1 is needed for a source that is reverted
after a crash: without the intent in the ledger it would look up to date.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa

from findingaid.model import Listing
from findingaid.reports import BatchReport
from findingaid.store import Lease, Ledger, LedgerRow, Store
from findingaid.store.fragments import Fragments
from findingaid.store.schemas import PER_ARTIFACT

GROUP_ARTIFACTS = 16_384
"""Artifacts from which a group is committed. Their ledger rows are held in memory until then."""

GROUP_SECONDS = 120
"""Seconds after which a group is committed, so that a crash loses little."""


@dataclass(frozen=True)
class BuiltBatch:
    """Batch that is computed, with its rows in files. It is small and picklable: another process may build it.

    `tables` maps each table to the artifacts whose rows are replaced, and their new rows. `histories` has the rows to
    append to other tables. `intents` and `outcomes` are the ledger rows before and after the commit.
    """

    tables: Mapping[str, tuple[Sequence[str], Fragments]]
    histories: Mapping[str, pa.Table]
    intents: Sequence[LedgerRow]
    outcomes: Sequence[LedgerRow]
    report: BatchReport


def commit_group(store: Store, corpus: str, built: Sequence[BuiltBatch], lease: Lease) -> None:
    """Commit batches of one corpus together: the intents, the tables, the outcomes.

    Each commit is made only while the lease is held. The last one is made only if no other process has written these
    artifacts since the first one. Raises StoreError, with nothing more written, if the lease was lost.
    """
    ledger = Ledger(store)
    intents = [row for batch in built for row in batch.intents]
    intended = _put(ledger, corpus, intents, lease)
    # Between intent and outcome the order of the tables does not matter.
    tables = dict.fromkeys(table for batch in built for table in batch.tables)
    made = store.each(tables, lambda table: _replace(store, table, corpus, built, lease))
    known: dict[str, Any] = {f"v_{table}": made[table] for table in PER_ARTIFACT if made.get(table)}
    for name in dict.fromkeys(name for batch in built for name in batch.histories):
        rows = [batch.histories[name] for batch in built if name in batch.histories]
        store.append(name, pa.concat_tables(rows), lease.check_commit)
    announced = {row.artifact_id for row in intents}
    outcomes = [replace(row, **known) for batch in built for row in batch.outcomes]
    outcomes = [replace(row, updated=intended) if row.artifact_id in announced else row for row in outcomes]
    _put(ledger, corpus, outcomes, lease)


def _replace(store: Store, table: str, corpus: str, built: Sequence[BuiltBatch], lease: Lease) -> int | None:
    """Commit the rows of a table; return the version that has them."""
    changes = [batch.tables[table] for batch in built if table in batch.tables]
    ids = list(chain.from_iterable(ids for ids, _ in changes))
    return store.replace_by_fragments(table, corpus, ids, [made for _, made in changes], lease.check_commit)


def _put(ledger: Ledger, corpus: str, rows: Sequence[LedgerRow], lease: Lease) -> datetime | None:
    return ledger.follow(corpus, rows, lease.check) if rows else None


@dataclass
class Group:
    """Batches of one corpus that are built and not committed yet."""

    store: Store
    corpus: str
    lease: Lease
    _built: list[tuple[Sequence[Listing], BuiltBatch]] = field(default_factory=list)
    _committed: deque[tuple[Sequence[Listing], BatchReport]] = field(default_factory=deque)
    _artifacts: int = 0
    _since: float = field(default_factory=time.monotonic)

    def add(self, listings: Sequence[Listing], batch: BuiltBatch) -> None:
        """Add a batch of these artifacts, and commit if there are many, or the last commit was long ago."""
        self._built.append((listings, batch))
        self._artifacts += len(listings)
        if self._artifacts >= GROUP_ARTIFACTS or time.monotonic() - self._since > GROUP_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit the batches, if there are any."""
        built, self._built, self._artifacts, self._since = self._built, [], 0, time.monotonic()
        if built:
            commit_group(self.store, self.corpus, [batch for _, batch in built], self.lease)
            self._committed += ((listings, batch.report) for listings, batch in built)

    def committed(self) -> Iterator[tuple[Sequence[Listing], BatchReport]]:
        """Yield the batches, with their reports, that were committed since the last call; also in another thread."""
        while self._committed:
            yield self._committed.popleft()
