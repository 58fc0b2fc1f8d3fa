"""Backfills launched by a program: schedules and sensors have no public way to ask for one.

This is what the webserver does for `launchPartitionBackfill`. tests/code_location/test_daemon.py fails if a new Dagster
moves something used here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.utils import make_new_backfill_id

UNDER_WAY = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]


def launch_backfill(
    context: dg.ScheduleEvaluationContext,
    assets: Sequence[dg.AssetKey],
    partitions: Sequence[str],
    tags: Mapping[str, str],
    title: str,
) -> str:
    """Store a backfill of these partitions of each asset, which the daemon then executes; return its id."""
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id=make_new_backfill_id(),
        asset_graph=context.repository_def.asset_graph,
        partition_names=partitions,
        asset_selection=assets,
        backfill_timestamp=time.time(),
        tags=tags,
        dynamic_partitions_store=context.instance,
        all_partitions=False,
        title=title,
        description=None,
        run_config=None,
    )
    context.instance.add_backfill(backfill)
    return backfill.backfill_id


def is_backfill_under_way(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> bool:
    """Check whether a backfill with these tags has not ended."""
    return bool(instance.get_backfills(BulkActionsFilter(statuses=UNDER_WAY, tags=tags), limit=1))
