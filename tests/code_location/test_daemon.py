"""Schedules, sensors and automation conditions under the real daemon."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

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
