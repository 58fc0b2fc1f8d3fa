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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

FIRST_GROUP = 4
"""Batches of the first group. Each group has twice as many as the last, so that concurrent runs share small work."""

GROUP_BATCHES = 64
GROUP_ARTIFACTS = 16_384
"""Limits of a group. Other runs wait for the artifacts of a group, and their ledger rows are held in memory."""

GROUP_SECONDS = 120
"""Seconds after which the built batches of a group are committed before the rest, so that a crash loses little."""


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


def group_batches(batches: Iterable[Sequence[Listing]]) -> Iterator[list[Sequence[Listing]]]:
    """Group batches that are leased and committed together."""
    most, group, artifacts = FIRST_GROUP, list[Sequence[Listing]](), 0
    for batch in batches:
        group.append(batch)
        artifacts += len(batch)
        if len(group) == most or artifacts >= GROUP_ARTIFACTS:
            yield group
            most, group, artifacts = min(2 * most, GROUP_BATCHES), [], 0
    if group:
        yield group


@dataclass
class OpenGroup:
    """Batches under one lease that are built and not committed yet; `reports` are those of all its batches."""

    store: Store
    corpus: str
    lease: Lease
    reports: list[BatchReport] = field(default_factory=list)
    _built: list[BuiltBatch] = field(default_factory=list)
    _since: float = field(default_factory=time.monotonic)

    def add(self, batch: BuiltBatch) -> None:
        """Add a batch, and commit if the last commit was long ago."""
        self._built.append(batch)
        self.reports.append(batch.report)
        if time.monotonic() - self._since > GROUP_SECONDS:
            self._commit()

    def close(self) -> None:
        """Commit the batches, and release the lease."""
        with self.lease:
            self._commit()

    def _commit(self) -> None:
        built, self._built, self._since = self._built, [], time.monotonic()
        if built:
            commit_group(self.store, self.corpus, built, self.lease)
