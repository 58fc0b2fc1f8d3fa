"""Removal of many dynamic partitions at once; Dagster removes each in a transaction of its own.

tests/code_location/test_buckets.py fails if a new Dagster moves something used here.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.storage.event_log.schema import DynamicPartitionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

KEYS_AT_ONCE = 1000
"""Number of partition keys per statement."""


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
