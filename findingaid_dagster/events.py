"""Batched storage of Dagster events, at about the cost of a row per event.

Open-source Dagster writes one event per partition and asset, each over a new SQLite connection with several synced
commits: 20 to 130 ms per event. Here a batch is one transaction per database, over connections that are kept open.

`dagster.yaml` names `BatchingSqliteStorage`. This module must be installed, since every Dagster process (webserver,
daemon, runs) imports it before it loads any code location. It uses undocumented parts of Dagster.
tests/code_location/test_code_location.py fails if a new Dagster moves something used here.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import dagster as dg
from dagster._check import CheckError
from dagster._core.definitions.data_version import DEFAULT_DATA_VERSION, extract_data_version_from_entry
from dagster._core.events import (
    ASSET_EVENTS,
    AssetObservationData,
    DagsterEvent,
    DagsterEventBatchMetadata,
    DagsterEventType,
    StepMaterializationData,
    generate_event_batch_id,
)
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage, _event_logs_directory
from dagster._serdes import ConfigurableClassData
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

BATCH_SIZE_VARIABLE = "DAGSTER_EVENT_BATCH_SIZE"
"""Environment variable without which Dagster never passes a storage more than one event at once."""

BATCH_SIZE = 1000

KEPT_CONNECTIONS = 4
"""Number of open databases: the index and the runs being written. A webserver that reads many runs must close some."""

BUSY_SECONDS = 30


def enable_batching() -> None:
    """Let this process and its children write events in batches; a batch size set by the user stays."""
    os.environ.setdefault(BATCH_SIZE_VARIABLE, str(BATCH_SIZE))


class BatchingSqliteEventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log with connections kept open and one transaction per batch."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock, self._engine(shard).connect() as connection, connection.begin():
            yield connection

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
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
            self._store_asset_event_tags(connection, events, ids)
            last = {e.get_dagster_event().asset_key: (e, i) for e, i in zip(events, ids, strict=True)}
            for entry, event_id in last.values():
                self._store_asset_event(connection, entry, event_id)
        return None

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
        enable_batching()
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


def log_asset_events(
    context: dg.OpExecutionContext, events: Sequence[dg.AssetMaterialization | dg.AssetObservation]
) -> None:
    """Log events of any assets and partitions as events of this step, in batches.

    `context.log_event` would write each event on its own and print a line for it.
    """
    step = context.get_step_execution_context().step
    batch = generate_event_batch_id()  # type: ignore[no-untyped-call]  # dagster leaves it untyped
    for i, logged in enumerate(events, 1):
        kind, data = _payload(logged)
        context.instance.report_dagster_event(
            DagsterEvent(
                event_type_value=kind.value,
                job_name=context.job_name,
                step_handle=step.handle,
                step_kind_value=step.kind.value,
                event_specific_data=data,
                message=f"{kind.value.rsplit('_', 1)[-1].capitalize()} of {logged.label}",
            ),
            context.run_id,
            logging.DEBUG,
            DagsterEventBatchMetadata(batch, i == len(events)),
        )


def _payload(
    logged: dg.AssetMaterialization | dg.AssetObservation,
) -> tuple[DagsterEventType, StepMaterializationData | AssetObservationData]:
    if isinstance(logged, dg.AssetObservation):
        return DagsterEventType.ASSET_OBSERVATION, AssetObservationData(logged)
    return DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(logged)


def logged_data_versions(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Sequence[str] | None = None, observed: bool = False
) -> dict[str, str]:
    """Map partitions to the data version of their latest materialization, or latest observation with `observed`.

    If `partitions` is None, all are mapped. Partitions without such an event or version are left out.
    """
    if partitions is not None and not partitions:
        return {}
    kind = DagsterEventType.ASSET_OBSERVATION if observed else DagsterEventType.ASSET_MATERIALIZATION
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        asset, kind, ["dagster/data_version"], asset_partitions=partitions
    )
    return {key: found["dagster/data_version"] for key, found in tags.items() if "dagster/data_version" in found}


def latest_event_ids(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Sequence[str] | None = None, observed: bool = False
) -> dict[str, int]:
    """Map partitions to the id of their latest materialization, or latest observation with `observed`.

    A later event has a higher id. If `partitions` is None, all are mapped.
    """
    kind = DagsterEventType.ASSET_OBSERVATION if observed else DagsterEventType.ASSET_MATERIALIZATION
    wanted = None if partitions is None else set(partitions)
    return dict(instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind, wanted))


def event_pointer(instance: dg.DagsterInstance) -> int:
    """Return the highest event id so far.

    Dagster decides whether an input changed by looking for events after a materialization's pointer. The highest id is
    therefore a valid pointer for all partitions of a batch.
    """
    return instance.event_log_storage.get_maximum_record_id() or 0


def current_data_version(instance: dg.DagsterInstance, asset: dg.AssetKey) -> str:
    """Return the data version that Dagster compares inputs with: that of the latest event, or of an unknown asset."""
    record = instance.get_latest_data_version_record(asset)
    version = extract_data_version_from_entry(record.event_log_entry) if record else None
    return (version or DEFAULT_DATA_VERSION).value


def spec_inputs(context: dg.OpExecutionContext, asset: dg.AssetKey) -> set[dg.AssetKey]:
    """Return the inputs of an asset as the code location has it, perhaps with more than it was built with.

    A job that a test runs in its process knows no code location, and gets none.
    """
    assets = context.assets_def if context.has_assets_def else None
    if assets and asset in assets.specs_by_key:
        return {dep.asset_key for dep in assets.specs_by_key[asset].deps}
    try:
        graph = context.repository_def.asset_graph
    except CheckError:
        return set()
    return set(graph.get(asset).parent_keys) if graph.has(asset) else set()
