"""Removal of events of partitions that are gone. Dagster keeps them, and its SQL storages can wipe whole assets only.

tests/code_location/test_history.py fails if a new Dagster moves something used here.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import dagster as dg
from dagster._core.events import DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.schema import AssetEventTagsTable, AssetKeyTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._serdes import deserialize_value
from sqlalchemy import select
from sqlalchemy.engine import Connection

from findingaid.errors import ConfigError

KEYS_AT_ONCE = 1000
"""Number of partition keys per statement."""

BUSY_SECONDS = 30

EVENTS = SqlEventLogStorageTable


@dataclass(frozen=True)
class Pruned:
    """Counts of a removal. `size` is the number of bytes by which SQLite's files shrank; 0 on Postgres."""

    partitions: int = 0
    events: int = 0
    size: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(self.partitions + other.partitions, self.events + other.events, self.size + other.size)


def prune_partitions(instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey], kept: Collection[str]) -> Pruned:
    """Delete the events of all partitions of these assets except those `kept`. Raises ConfigError.

    SQLite's files shrink. Postgres reuses the space after its next vacuum. The index, which says what is left to
    delete, comes last, so that a removal that was killed is completed by the next one.
    """
    storage = _sql_storage(instance.event_log_storage)
    of_assets = EVENTS.c.asset_key.in_([asset.to_string() for asset in assets])
    with storage.index_connection() as connection:
        found = select(EVENTS.c.partition).where(of_assets, EVENTS.c.partition.is_not(None)).distinct()
        gone = sorted(set(connection.execute(found).scalars()).difference(kept))
    if not gone:
        return Pruned()
    events, before = 0, _disk_use(storage)
    groups = [gone[start : start + KEYS_AT_ONCE] for start in range(0, len(gone), KEYS_AT_ONCE)]
    conditions = [of_assets & EVENTS.c.partition.in_(group) for group in groups]
    has_index_columns = storage.has_asset_key_index_cols()  # by a connection of its own, so before the transaction
    with storage.index_connection() as connection:
        runs = (connection.execute(select(EVENTS.c.run_id).where(where).distinct()).scalars() for where in conditions)
        shards = sorted(_shards(storage, set(chain.from_iterable(runs))))
    for run, path in shards:
        with storage.run_connection(run) as connection:
            for where in conditions:
                events += connection.execute(EVENTS.delete().where(where)).rowcount
        _shrink(path)
    with storage.index_connection() as connection:
        for where in conditions:
            tagged = AssetEventTagsTable.c.event_id.in_(select(EVENTS.c.id).where(where))
            connection.execute(AssetEventTagsTable.delete().where(tagged))
            events += connection.execute(EVENTS.delete().where(where)).rowcount
        for asset in assets:
            _renew_latest(storage, connection, asset, has_index_columns)
    for asset in assets:
        storage.wipe_asset_cached_status(asset)
    if isinstance(storage, SqliteEventLogStorage):
        _shrink(storage.path_for_shard(INDEX_SHARD_NAME))
    return Pruned(len(gone), events, max(0, before - _disk_use(storage)))


def _sql_storage(storage: EventLogStorage[Any]) -> SqlEventLogStorage:
    if not isinstance(storage, SqlEventLogStorage):
        raise ConfigError(f"history can be removed from SQLite and Postgres, not from {type(storage).__name__}")
    return storage


def _disk_use(storage: SqlEventLogStorage) -> int:
    """Return the bytes of the databases of SQLite storage, with their journals but not the memory that they share."""
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    folder = os.path.dirname(storage.path_for_shard(INDEX_SHARD_NAME))
    return sum(entry.stat().st_size for entry in os.scandir(folder) if not entry.name.endswith("-shm"))


def _renew_latest(
    storage: SqlEventLogStorage, connection: Connection, asset: dg.AssetKey, has_index_columns: bool
) -> None:
    """Replace the copy of an asset's latest materialization by the latest one that is left, if any."""
    of_asset = EVENTS.c.asset_key == asset.to_string()
    kind = EVENTS.c.dagster_event_type == DagsterEventType.ASSET_MATERIALIZATION.value
    latest = connection.execute(
        select(EVENTS.c.id, EVENTS.c.event).where(of_asset, kind).order_by(EVENTS.c.id.desc()).limit(1)
    ).first()
    values: dict[str, Any] = {"last_materialization": None}
    if latest:
        event = deserialize_value(latest.event, EventLogEntry)
        values = storage._get_asset_entry_values(event, latest.id, has_index_columns)
    key = AssetKeyTable.c.asset_key == asset.to_string()
    connection.execute(AssetKeyTable.update().where(key).values(**values))


def _shards(storage: SqlEventLogStorage, runs: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the runs whose events are in a database of their own, as SQLite storage has them, with its path."""
    if isinstance(storage, SqliteEventLogStorage):
        paths = {run: storage.path_for_shard(run) for run in runs}
        yield from ((run, path) for run, path in paths.items() if os.path.exists(path))


def _shrink(path: str) -> None:
    """Return the free pages of a SQLite database to the disk, unless another process keeps it locked."""
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError:  # locked: the pages are used again
            return
