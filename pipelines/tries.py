"""Tries: what became of the runs and backfills that sensors and schedules started, each for one finding.

A try is a run that failed by name. One that something else ended is none: it could not start, was canceled, or its
process was killed. Neither is one that succeeded, if the finding is there again, as after a loss in the store. Another
one is due, after a wait that doubles each time.
"""

import math
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile

import dagster as dg

from findingaid_dagster.assets import FAILED_TAG
from findingaid_dagster.internals.backfills import Backfill

TRIED_TAG = "findingaid/tried"
"""Tag of runs and backfills: a hash of the finding. That of a run has the name of the corpus added."""

FIRST_WAIT = 60
"""Seconds from the end of the first run that was no try until another one is due."""

COUNTED = 11
"""Most runs that double the wait, which grows to 17 hours."""


def tried_tags(hashes: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a run for the findings with these hashes, by corpus."""
    return {f"{TRIED_TAG}_{corpus}": found for corpus, found in hashes.items()}


def tried_by(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> str | None:
    """Return what tried the finding with these tags, or when the next run is due; None if one is due now."""
    records = instance.get_run_records(dg.RunsFilter(tags=dict(tags)), limit=COUNTED)
    without = list(takewhile(lambda record: not _failed_by_name(record.dagster_run), records))
    if records and not without:
        return f"as stale as when run {records[0].dagster_run.run_id[:8]} tried it: see that run"
    ended = [record.end_time or record.update_timestamp.timestamp() for record in without]
    return _wait(len(ended), ended[0], f"run {records[0].dagster_run.run_id[:8]}", [records[0]]) if ended else None


def tried_by_backfill(instance: dg.DagsterInstance, backfills: Sequence[Backfill], finding: str) -> str | None:
    """Return which of the backfills, newest first, tried the finding, or when the next is due; None if one is due."""

    def runs_of(backfill: Backfill) -> Sequence[dg.RunRecord]:
        return instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": backfill.id}))

    def is_no_try(backfill: Backfill) -> bool:
        return not backfill.is_completed or any(not _failed_by_name(record.dagster_run) for record in runs_of(backfill))

    same = list(takewhile(lambda backfill: backfill.tags.get(TRIED_TAG) == finding, backfills))
    without = list(takewhile(is_no_try, same))
    if same and not without:
        return f"as stale as when backfill {same[0].id} tried them: see it"
    if not without:
        return None
    return _wait(len(without), same[0].ended, f"stale, and backfill {same[0].id}", runs_of(same[0]))


def _failed_by_name(run: dg.DagsterRun) -> bool:
    return run.status is not dg.DagsterRunStatus.SUCCESS and bool(run.tags.get(FAILED_TAG))


def _wait(times: int, ended: float, what: str, runs: Sequence[dg.RunRecord]) -> str | None:
    wait = FIRST_WAIT * 2 ** (times - 1)
    seconds = ended + wait - time.time()
    if not 0 < seconds <= wait:  # more is left if the clock was set back
        return None
    succeeded = runs and all(record.dagster_run.is_success for record in runs)
    why = "succeeded, and what it did was lost" if succeeded else "was interrupted"
    return f"{what} {why}: see it. Another one starts in {math.ceil(seconds / 60):,} minutes"
