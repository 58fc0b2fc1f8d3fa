"""Backfills launched by a program: schedules and sensors have no public way to ask for one.

This is what the webserver does for `launchPartitionBackfill`. tests/code_location/test_daemon.py fails if a new Dagster
moves something used here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.utils import make_new_backfill_id


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


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that was launched; it is completed if Dagster launched all its runs, whatever became of them."""

    id: str
    is_under_way: bool
    is_completed: bool
    ended: float
    """Time of its end, or of its launch if Dagster has not noted the end."""

    tags: Mapping[str, str]


def latest_backfills(instance: dg.DagsterInstance, tags: Mapping[str, str], limit: int) -> list[Backfill]:
    """Return the newest backfills with these tags, newest first."""
    return [
        Backfill(
            found.backfill_id,
            found.status not in BULK_ACTION_TERMINAL_STATUSES,
            found.status in {BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED},
            found.backfill_end_timestamp or found.backfill_timestamp,
            found.tags,
        )
        for found in instance.get_backfills(BulkActionsFilter(tags=tags), limit=limit)
    ]
