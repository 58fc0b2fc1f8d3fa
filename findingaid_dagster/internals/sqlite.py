"""Dagster's SQLite storage with batched events, at about the cost of a row per event.

Open-source Dagster writes one event per partition and asset, each over a new SQLite connection with several synced
commits: 20 to 130 ms per event. Here a batch is one transaction per database, over connections that are kept open.

`dagster.yaml` names the class, as `BatchingSqliteStorage` of the module `findingaid_dagster`. findingaid must be
installed, since every Dagster process (webserver, daemon, runs) imports the class before it loads any code location.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, Self

import dagster as dg
from sqlalchemy import create_engine, event, inspect
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

try:
    from dagster._core.events import ASSET_EVENTS
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
    from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
    from dagster._core.storage.sqlite_storage import DagsterSqliteStorage, _event_logs_directory
    from dagster._serdes import ConfigurableClassData
except ImportError as error:
    raise ImportError(
        f"findingaid's SQLite storage does not work with Dagster {dg.__version__} ({error}): remove the block `storage`"
        " from dagster.yaml to use Dagster's own, or use Postgres"
    ) from error

BATCH_SIZE_VARIABLE = "DAGSTER_EVENT_BATCH_SIZE"
"""Environment variable without which Dagster never passes more than one event at once to a storage."""

BATCH_SIZE = 1000

KEPT_CONNECTIONS = 4
"""Number of open databases: the index and the runs being written. A webserver that reads many runs must close some."""

BUSY_SECONDS = 30


class BatchingSqliteEventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log with connections kept open and one transaction per batch."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._under_way: dict[str, Connection] = {}
        self._partitions: dict[str, Sequence[str]] = {}
        self._partitions_of: object = None
        self._one_thread = RLock()
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """Open a transaction of a database; inside of one, continue it."""
        with self._one_thread:
            if shard in self._under_way:
                yield self._under_way[shard]
                return
            with self._engine(shard).connect() as connection, connection.begin():
                self._under_way[shard] = connection
                try:
                    yield connection
                finally:
                    del self._under_way[shard]

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store asset events of one run: one transaction in the run's database, one in the index.

        Any other batch is stored by Dagster's own method.
        """
        run_id = events[0].run_id
        if any(
            e.run_id != run_id or not e.is_dagster_event or e.dagster_event_type not in ASSET_EVENTS for e in events
        ):
            return super().store_event_batch(events)
        rows = [self._event_to_row(e) for e in events]
        with self.run_connection(run_id) as connection:
            connection.execute(SqlEventLogStorageTable.insert(), rows)
        with self.index_transaction() as connection:
            # Sorted, since RETURNING alone guarantees no order; ids increase in the order of the rows.
            insert = SqlEventLogStorageTable.insert().returning(
                SqlEventLogStorageTable.c.id, sort_by_parameter_order=True
            )
            ids = connection.execute(insert, rows).scalars().all()
            self.store_asset_event_tags(events, ids)
            last = {e.get_dagster_event().asset_key: (e, i) for e, i in zip(events, ids, strict=True)}
            for entry, event_id in last.values():
                self.store_asset_event(entry, event_id)
        return None

    def has_table(self, table_name: str) -> bool:
        # The base method makes an engine for each question, a third of the time of a tick of the automation sensor.
        with self.index_connection() as connection:
            return inspect(connection).has_table(table_name)

    def get_dynamic_partitions(self, partitions_def_name: str) -> Sequence[str]:
        # A tick of the automation sensor asks some 200 times, and the base method reads all keys each time. They are
        # kept until SQLite counts a write, by another connection or by this one.
        with self.index_connection() as connection:
            database: Any = connection.connection.driver_connection
            if database.in_transaction:  # which may be rolled back
                return super().get_dynamic_partitions(partitions_def_name)
            (of_others,) = database.execute("PRAGMA data_version").fetchone()
            state = (database, of_others, database.total_changes)
            if state != self._partitions_of:
                self._partitions, self._partitions_of = {}, state
            if partitions_def_name not in self._partitions:
                self._partitions[partitions_def_name] = super().get_dynamic_partitions(partitions_def_name)
            return [*self._partitions[partitions_def_name]]

    def dispose(self) -> None:
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        super().dispose()

    def _engine(self, shard: str) -> Engine:
        """Return the open engine of a database; reopen it if its file has been deleted, as by wiping a run."""
        kept = self._engines.pop(shard, None)
        if kept is not None and not os.path.exists(self.path_for_shard(shard)):
            kept.dispose()
            self._initialized_dbs.discard(shard)
            kept = None
        engine = kept or self._open(shard)
        if shard not in self._initialized_dbs:
            self._initdb(engine)
            self._initialized_dbs.add(shard)
        self._engines[shard] = engine  # keeps the most recently used engine last
        while len(self._engines) > KEPT_CONNECTIONS:
            self._engines.pop(next(iter(self._engines))).dispose()
        return engine

    def _open(self, shard: str) -> Engine:
        arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}  # the lock lets in one thread at a time
        engine = create_engine(self.conn_string_for_shard(shard), poolclass=StaticPool, connect_args=arguments)
        event.listen(engine, "connect", _normal_sync)
        return engine


def _normal_sync(connection: Any, _record: Any) -> None:
    """Set synchronous=NORMAL: under WAL, a power cut may lose the last events, but never corrupts the log."""
    connection.execute("PRAGMA synchronous=NORMAL")


class BatchingSqliteStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with the event log above; the class that `dagster.yaml` names.

    Its files are in `base_dir`, by default $DAGSTER_HOME. Without either they are in a temporary folder that is deleted
    when the process ends, as Dagster's own are.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        os.environ.setdefault(BATCH_SIZE_VARIABLE, str(BATCH_SIZE))
        super().__init__(base_dir, inst_data)
        self._event_log_storage = BatchingSqliteEventLog(_event_logs_directory(base_dir))

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> Self:
        # The base method builds the base class by name instead of this class.
        base_dir = config_value.get("base_dir") or os.environ.get("DAGSTER_HOME") or _temporary_folder().name
        return cls.from_local(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {"base_dir": dg.Field(dg.StringSource, is_required=False)}


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create one folder per process, since Dagster builds the storage of an instance more than once."""
    return tempfile.TemporaryDirectory(prefix="findingaid-dagster-")
