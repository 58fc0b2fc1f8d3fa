"""Actions of the UI through its GraphQL API, and its pages in a real browser, on a running Dagster."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from findingaid.sources import files
from tests.conftest import Cli, text_about
from tests.support.deployment import Deployment, dagster_dev, until
from tests.support.listings import read_listing
from tests.support.location import DAGSTER_YAML, STAGES, Location, open_location

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FILES = ["ledger.md", "reader.md", "vector.md", "writer.md"]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """A location that the job has indexed."""
    cli = Cli(tmp_path_factory.mktemp("location"))
    cli.settings["executor"] = {"kind": "in_process"}
    with pytest.MonkeyPatch.context() as patch:
        for found in open_location(cli, patch, DAGSTER_YAML):
            patch.setattr(files, "_listing", read_listing)  # as in the processes of Dagster
            assert found.index().success
            yield found


@pytest.fixture(scope="module")
def dagster(location: Location) -> Iterator[Deployment]:
    yield from dagster_dev(location.cli.folder / "dagster_home", location.cli.config)


def test_what_the_ui_shows_and_does_is_exactly_that(location: Location, dagster: Deployment) -> None:
    assert dagster.not_fresh() == {}
    a_change_is_stale_for_exactly_its_partition_and_for_its_reason(location, dagster)
    a_backfill_and_a_range_build_their_partitions_and_no_others(location, dagster)
    in_a_backfill_one_artifact_fails_by_name_and_the_others_are_published(location, dagster)
    a_changed_strategy_is_stale_for_exactly_what_stands_on_it(location, dagster)
    assert location.aid.verify() == []


def a_change_is_stale_for_exactly_its_partition_and_for_its_reason(location: Location, dagster: Deployment) -> None:
    location.cli.write("ledger.md", text_about("another ledger"))

    assert dagster.ended(dagster.launch("__ASSET_JOB", [["docs", "source"]])) == "SUCCESS"
    found = {key: status for key, status in dagster.staleness().items() if status[0] != "FRESH"}

    assert found == {("artifacts", "ledger.md"): ("STALE", ("has a new data version",))}
    assert dagster.materialize(STAGES, dagster_partition="ledger.md") == "SUCCESS"
    assert dagster.not_fresh() == {}


def a_backfill_and_a_range_build_their_partitions_and_no_others(location: Location, dagster: Deployment) -> None:
    added = ["a.md", "b.md", "c.md", "d.md"]
    for name in added:
        location.cli.write(name, text_about(name))
    location.instance.add_dynamic_partitions("docs", added)
    before = location.events()

    backfill = dagster.backfill(STAGES, ["a.md", "c.md"])

    assert backfill["status"] == "COMPLETED_SUCCESS", backfill
    assert set(location.events() - before) == {(stage, key) for stage in STAGES for key in ("a.md", "c.md")}
    assert dagster.not_fresh() == {key: set(STAGES) for key in ("b.md", "d.md")}
    assert names_in(location) == {*FILES, "a.md", "c.md"}
    start, end = {"dagster_asset_partition_range_start": "b.md"}, {"dagster_asset_partition_range_end": "c.md"}
    assert dagster.materialize(STAGES, **start, **end) == "SUCCESS"
    assert dagster.not_fresh() == {"d.md": set(STAGES)}


def in_a_backfill_one_artifact_fails_by_name_and_the_others_are_published(
    location: Location, dagster: Deployment
) -> None:
    location.cli.write("bad.md", b"\x00binary")
    location.instance.add_dynamic_partitions("docs", ["bad.md"])

    backfill = dagster.backfill(STAGES, ["bad.md", "d.md"])

    assert backfill["status"] == "COMPLETED_FAILED", backfill
    counts = {
        status["assetKey"]["path"][1]: (status["numPartitionsMaterialized"], status["numPartitionsFailed"])
        for status in backfill["assetBackfillData"]["assetBackfillStatuses"]
    }
    assert counts == dict.fromkeys(STAGES, (1, 1))
    assert "bad.md" in failures(dagster)
    assert dagster.not_fresh() == {"bad.md": set(STAGES)}
    assert "d.md" in names_in(location)
    (location.cli.docs / "bad.md").unlink()
    assert dagster.ended(dagster.launch("index")) == "SUCCESS"
    assert dagster.not_fresh() == {}


def names_in(location: Location) -> set[str]:
    return {hit.artifact_id for hit in location.aid.search("sentence", 50)}


def failures(dagster: Deployment) -> str:
    """Return the reasons of the failed runs."""
    query = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    ... on ExecutionStepFailureEvent { error { message cause { message } } } } } } }"""
    failed = [run["runId"] for run in dagster.runs() if run["status"] == "FAILURE"]
    return str([dagster.ask(query, run=run) for run in failed])


def a_changed_strategy_is_stale_for_exactly_what_stands_on_it(location: Location, dagster: Deployment) -> None:
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    location.cli.configure()

    dagster.reload()
    found = {key: status for key, status in dagster.staleness().items() if status[0] != "FRESH"}

    names = [*FILES, "a.md", "b.md", "c.md", "d.md"]
    assert found == {("surfaces", key): ("STALE", ("has a new code version",)) for key in names}
    assert dagster.materialize(STAGES, dagster_partition="ledger.md") == "SUCCESS"
    assert set(dagster.not_fresh()) == {*names} - {"ledger.md"}
    assert dagster.ended(dagster.launch("index")) == "SUCCESS"
    assert dagster.not_fresh() == {}


@pytest.fixture
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{argument}")
    for argument in ("disable-background-networking", "disable-component-update", "window-size=1500,1000"):
        options.add_argument(f"--{argument}")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def shows(browser: Any, address: str, *texts: str) -> None:
    """Open a page and wait until it shows all of these texts."""
    browser.get(address)

    def text() -> str:
        return str(browser.execute_script("return document.body.innerText"))

    until(lambda: all(each in text() for each in texts), lambda: f"{address} does not show {texts}: {text()[:2000]}")


@pytest.mark.skipif(
    not os.environ.get("CI") and not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="needs Debian's chromium and chromium-driver",
)
def test_people_see_assets_partitions_and_the_finished_run(
    browser: Any, location: Location, dagster: Deployment
) -> None:
    count = len(location.instance.get_dynamic_partitions("docs"))
    partitions = ("ledger.md", "vector.md", f"Materialized ({count})", "Missing (0)")
    shows(browser, f"{dagster.address}/assets/docs/records?view=partitions", *partitions)
    strategy = location.cli.settings["corpora"]["docs"].get("strategy", {"name": "Chunked"})["name"]
    shows(browser, f"{dagster.address}/assets/docs/surfaces?view=overview", f"{strategy}-", "lancedb", "docs")
    shows(browser, f"{dagster.address}/runs", "index", "Success")
    shows(browser, f"{dagster.address}/locations/findingaid/jobs/index", "discover", "finish")
