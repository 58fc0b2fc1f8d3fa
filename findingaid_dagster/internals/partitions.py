"""Removal of many dynamic partitions at once, unless a backfill needs them.

Dagster removes each in a transaction of its own, and ends a backfill that has lost one: runs that are queued are
canceled, and what they were to build stays missing.

tests/code_location/test_buckets.py fails if a new Dagster moves something used here.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.partitions.subset import DefaultPartitionsSubset
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionsFilter, BulkActionStatus
from dagster._core.storage.event_log.schema import DynamicPartitionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

KEYS_AT_ONCE = 1000
"""Number of partition keys per statement."""

UNDER_WAY = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]


def awaited_partitions(instance: dg.DagsterInstance) -> set[str]:
    """Return the keys of dynamic partitions of any name that backfills under way target."""
    backfills = [found.asset_backfill_data for found in instance.get_backfills(BulkActionsFilter(statuses=UNDER_WAY))]
    return {
        key
        for data in filter(None, backfills)
        for subset in data.target_subset.partitions_subsets_by_asset_key.values()
        if isinstance(subset, DefaultPartitionsSubset)
        for key in subset.get_partition_keys()
    }


def drop_partitions(instance: dg.DagsterInstance, name: str, keys: Sequence[str]) -> None:
    """Delete the keys that no backfill under way targets. The next run of the job deletes the others."""
    if keys:
        awaited = awaited_partitions(instance)
        delete_partitions(instance, name, [key for key in keys if key not in awaited])


def delete_partitions(instance: dg.DagsterInstance, name: str, keys: Sequence[str]) -> None:
    """Delete keys from the dynamic partitions of this name; those that are not there are ignored."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        for key in keys:
            instance.delete_dynamic_partition(name, key)
        return
    of_name = DynamicPartitionsTable.c.partitions_def_name == name
    with storage.index_connection() as connection:
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = DynamicPartitionsTable.c.partition.in_(keys[start : start + KEYS_AT_ONCE])
            connection.execute(DynamicPartitionsTable.delete().where(of_name, some))
