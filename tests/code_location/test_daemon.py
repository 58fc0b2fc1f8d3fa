"""Schedules, sensors and automation conditions under the real daemon."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)

from findingaid.sources.files import RACY_NANOSECONDS
from tests.code_location.test_code_location import STAGES, Location, open_location
from tests.conftest import Cli, text_about
from tests.support.deployment import ENDED, Deployment, dagster_dev, until

pytestmark = pytest.mark.slow

AUTOMATION = "default_automation_condition_sensor"


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """A location whose index is up to date, and whose files are settled."""
    for found in open_location(cli, monkeypatch):
        time.sleep(RACY_NANOSECONDS / 1e9)
        assert found.index().success
        yield found


@pytest.fixture
def dagster(location: Location) -> Iterator[Deployment]:
    yield from dagster_dev(location.cli.folder / "dagster_home", location.cli.config)


@pytest.fixture
def every_minute(location: Location) -> Iterator[Deployment]:
    """The location with a schedule, which is on from the start."""
    location.cli.settings["corpora"]["docs"]["schedule"] = {"cron": "* * * * *", "default_status": "RUNNING"}
    location.cli.run("status")
    yield from dagster_dev(location.cli.folder / "dagster_home", location.cli.config)


def test_a_schedule_brings_only_what_is_stale(location: Location, every_minute: Deployment) -> None:
    before = location.events()
    location.cli.write("ledger.md", text_about("another ledger"))

    run = until(lambda: scheduled(every_minute), "the schedule starts no run")

    assert every_minute.ended(run["runId"]) == "SUCCESS"
    assert location.events() - before == Counter({(stage, "ledger.md"): 1 for stage in STAGES})
    assert every_minute.not_fresh() == {}


def test_a_schedule_backfills_exactly_the_stale_missing_and_failed_partitions(location: Location) -> None:
    location.cli.write("bad.md", b"\x00binary")
    assert not location.index().success
    location.cli.write("brought.md", text_about("brought"))
    assert location.cli.run("index").exit_code == 1  # by a program that tells Dagster nothing
    before = location.events()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("added.md", text_about("added"))
    (location.cli.docs / "vector.md").unlink()
    location.cli.settings["corpora"]["docs"]["backfill_schedule"] = {"cron": "* * * * *", "default_status": "RUNNING"}
    location.cli.run("status")

    for _ in dagster_dev(location.cli.folder / "dagster_home", location.cli.config):
        backfill = until(lambda: ended_backfill(location), "the schedule launches no backfill")

    brought = {"added.md", "brought.md", "ledger.md"}
    targeted = backfill.asset_backfill_data.target_subset.get_partitions_subset(dg.AssetKey(["docs", "records"]))
    assert set(targeted.get_partition_keys()) == {"bad.md", *brought}
    assert backfill.status is BulkActionStatus.COMPLETED_FAILED
    assert location.events() - before == Counter({(stage, key): 1 for stage in STAGES for key in brought})


def ended_backfill(location: Location) -> PartitionBackfill | None:
    """Return the first backfill of the schedule if it has ended."""
    found = location.instance.get_backfills(BulkActionsFilter(tags={"dagster/schedule_name": "docs_backfill"}))
    return found[-1] if found and found[-1].status in BULK_ACTION_TERMINAL_STATUSES else None


def scheduled(dagster: Deployment) -> dict[str, object] | None:
    """The newest run of the schedule."""
    wanted = {"key": "dagster/schedule_name", "value": "docs_schedule"}
    return next((run for run in dagster.runs() if wanted in run["tags"]), None)


def test_the_sensor_starts_a_run_for_a_change_and_none_for_none(location: Location, dagster: Deployment) -> None:
    indexed = len(dagster.runs())
    dagster.switch_on("changed_sources")

    dagster.ticked("changed_sources", 1)
    unchanged = (dagster.ticks("changed_sources"), len(dagster.runs()))
    location.cli.write("ledger.md", text_about("another ledger"))
    until(lambda: len(dagster.runs()) > indexed, "the sensor starts no run")

    assert unchanged == (["SKIPPED"], indexed)
    run = dagster.runs()[0]
    assert {"key": "dagster/sensor_name", "value": "changed_sources"} in run["tags"]
    assert dagster.ended(run["runId"]) == "SUCCESS"
    assert dagster.not_fresh() == {}


def test_automation_brings_what_was_observed_and_tries_what_fails_once(location: Location, dagster: Deployment) -> None:
    indexed = len(dagster.runs())
    dagster.switch_on(AUTOMATION)
    dagster.ticked(AUTOMATION, 1)
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("bad.md", b"\x00binary")

    dagster.switch_on("observe_sources")
    until(lambda: dagster.not_fresh() == {"bad.md": set(STAGES)} and settled(dagster, indexed), "nothing is brought")
    after = len(dagster.runs())
    dagster.ticked(AUTOMATION, 2)

    assert len(dagster.runs()) == after
    assert Counter(run["status"] for run in dagster.runs()[:-indexed]) == {"SUCCESS": 1, "FAILURE": 1}
    assert "another ledger" in location.aid.search("another ledger", 1, mode="lexical")[0].text


def settled(dagster: Deployment, before: int) -> bool:
    """Whether runs were started, and all of them have ended."""
    runs = dagster.runs()
    return len(runs) > before and all(run["status"] in ENDED for run in runs)
