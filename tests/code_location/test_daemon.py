"""Schedules, sensors and automation conditions under the real daemon."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import dagster as dg
import pytest
import yaml
from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, ScheduleInstigatorData, TickStatus

from findingaid.sources import files
from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.deployment import ENDED, Deployment, dagster_dev, until
from tests.support.listings import read_listing
from tests.support.location import DAGSTER_YAML, STAGES, Location, open_location

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

AUTOMATION = "default_automation_condition_sensor"
EVERY_MINUTE = "* * * * *"
STAYS = 3
"""Seconds without a tick after which a sensor counts as stopped: the daemon looks each second."""


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """A location whose index is up to date, and whose files are settled."""
    cli.settings["executor"] = {"kind": "in_process"}
    cli.settings["corpora"]["docs"] |= {"schedule": EVERY_MINUTE, "backfill_schedule": EVERY_MINUTE}
    for found in open_location(cli, monkeypatch, DAGSTER_YAML):
        monkeypatch.setattr(files, "_listing", read_listing)  # as in the processes of Dagster
        time.sleep(files.RACY_NANOSECONDS / 1e9)
        assert found.index().success
        yield found


@pytest.fixture
def dagster(location: Location) -> Iterator[Deployment]:
    """Dagster with sensors that do not wait a minute."""
    workspace = location.cli.folder / "workspace.yaml"
    loaded = {"relative_path": str(ROOT / "tests" / "support" / "eager_location.py"), "working_directory": str(ROOT)}
    workspace.write_text(yaml.safe_dump({"load_from": [{"python_file": {**loaded, "location_name": "findingaid"}}]}))
    yield from dagster_dev(location.cli.folder / "dagster_home", location.cli.config, workspace)


def test_sensors_automation_and_schedules_bring_exactly_what_is_stale(location: Location, dagster: Deployment) -> None:
    a_sensor_starts_a_run_for_a_change_and_none_for_none(location, dagster)
    automation_brings_what_was_observed_and_tries_what_fails_once(location, dagster)
    a_schedule_backfills_exactly_the_stale_and_missing_partitions(location, dagster)
    a_schedule_brings_only_what_is_stale(location, dagster)


def a_sensor_starts_a_run_for_a_change_and_none_for_none(location: Location, dagster: Deployment) -> None:
    indexed = len(dagster.runs())
    dagster.switch_on("changed_sources")

    dagster.ticked("changed_sources", 1)
    unchanged = (dagster.ticks("changed_sources")[-1], len(dagster.runs()))
    location.cli.write("ledger.md", text_about("another ledger"))
    until(lambda: len(dagster.runs()) > indexed, "the sensor starts no run")
    stop(location, "changed_sources")

    assert unchanged == ("SKIPPED", indexed)
    run = dagster.runs()[0]
    assert {"key": "dagster/sensor_name", "value": "changed_sources"} in run["tags"]
    assert dagster.ended(run["runId"]) == "SUCCESS"
    assert dagster.not_fresh() == {}


def automation_brings_what_was_observed_and_tries_what_fails_once(location: Location, dagster: Deployment) -> None:
    before = len(dagster.runs())
    dagster.switch_on(AUTOMATION)
    dagster.ticked(AUTOMATION, 1)
    location.cli.write("ledger.md", text_about("a third ledger"))
    location.cli.write("bad.md", b"\x00binary")

    dagster.switch_on("observe_sources")
    # The sensor observes the ledger a tick later if its run was just now, and Dagster shows it as fresh until then.
    until(lambda: dagster.not_fresh() == {"bad.md": set(STAGES)} and settled(dagster, before + 1), dagster.told)
    after = len(dagster.runs())
    dagster.ticked(AUTOMATION, 2)
    stop(location, "observe_sources", AUTOMATION)

    assert len(dagster.runs()) == after
    assert Counter(run["status"] for run in dagster.runs()[:-before]) == {"SUCCESS": 1, "FAILURE": 1}
    assert "a third ledger" in location.aid.search("a third ledger", 1, mode="lexical")[0].text


def settled(dagster: Deployment, before: int) -> bool:
    """Whether there are more runs than before, and all of them have ended."""
    runs = dagster.runs()
    return len(runs) > before and all(run["status"] in ENDED for run in runs)


def a_schedule_backfills_exactly_the_stale_and_missing_partitions(location: Location, dagster: Deployment) -> None:
    location.cli.write("brought.md", text_about("brought"))
    assert location.cli.run("index").exit_code == 1  # by a program that tells Dagster nothing
    before = location.events()
    location.cli.write("ledger.md", text_about("a fourth ledger"))
    location.cli.write("added.md", text_about("added"))
    (location.cli.docs / "vector.md").unlink()

    start_at_once(location, dagster, "docs_backfill")
    until(lambda: backfills(location), "the schedule launches no backfill")
    stop(location, "docs_backfill")
    backfill = until(lambda: ended_backfill(location), "the backfill does not end")

    brought = {"added.md", "brought.md", "ledger.md"}
    targeted = backfill.asset_backfill_data.target_subset.get_partitions_subset(dg.AssetKey(["docs", "records"]))
    assert set(targeted.get_partition_keys()) == brought
    assert backfill.status is BulkActionStatus.COMPLETED_SUCCESS
    built = Counter({(stage, key): 1 for stage in STAGES for key in brought})
    assert location.events() - before == built, dagster.told()


def backfills(location: Location) -> Sequence[PartitionBackfill]:
    """Return the backfills of the schedule, newest first."""
    return location.instance.get_backfills(BulkActionsFilter(tags={"dagster/schedule_name": "docs_backfill"}))


def ended_backfill(location: Location) -> PartitionBackfill | None:
    """Return the first backfill of the schedule if it has ended."""
    found = backfills(location)
    return found[-1] if found and found[-1].status in BULK_ACTION_TERMINAL_STATUSES else None


def a_schedule_brings_only_what_is_stale(location: Location, dagster: Deployment) -> None:
    (location.cli.docs / "bad.md").unlink()
    before = location.events()
    location.cli.write("reader.md", text_about("another reader"))

    start_at_once(location, dagster, "docs_schedule")
    run = until(lambda: scheduled(dagster), "the schedule starts no run")
    stop(location, "docs_schedule")

    assert dagster.ended(str(run["runId"])) == "SUCCESS"
    assert location.events() - before == Counter({(stage, "reader.md"): 1 for stage in STAGES})
    assert dagster.not_fresh() == {}


def scheduled(dagster: Deployment) -> dict[str, object] | None:
    """The newest run of the schedule."""
    wanted = {"key": "dagster/schedule_name", "value": "docs_schedule"}
    return next((run for run in dagster.runs() if wanted in run["tags"]), None)


def start_at_once(location: Location, dagster: Deployment, schedule: str) -> None:
    """Start a schedule as if a minute ago, so that its first tick is due."""
    dagster.start(schedule)
    earlier = ScheduleInstigatorData(EVERY_MINUTE, time.time() - 60)
    location.instance.update_instigator_state(state_of(location, schedule).with_data(earlier))


def stop(location: Location, *names: str) -> None:
    """Stop schedules or sensors, and wait until they stay stopped.

    Dagster's daemon reads the state of a sensor, and writes it back with the times of its tick. A stop in between is
    lost, and what still ticks does the work that another part of the test waits for.
    """
    since = time.monotonic()

    def stay_stopped() -> bool:
        nonlocal since
        for state in [state_of(location, name) for name in names]:
            ticks = location.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1)
            if state.status is not InstigatorStatus.STOPPED:
                location.instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))
            elif not ticks or ticks[0].status is not TickStatus.STARTED:
                continue
            since = time.monotonic()
        return time.monotonic() - since > STAYS

    until(stay_stopped, f"{names} do not stop")


def state_of(location: Location, schedule: str) -> InstigatorState:
    (state,) = (found for found in location.instance.all_instigator_state() if found.name == schedule)
    return state
