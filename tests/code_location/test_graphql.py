"""Actions of the UI through its GraphQL API, on a running Dagster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.code_location.test_code_location import STAGES, Location, open_location
from tests.conftest import Cli, text_about
from tests.support.deployment import Deployment, dagster_dev

pytestmark = pytest.mark.slow

FILES = ["ledger.md", "reader.md", "vector.md", "writer.md"]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


@pytest.fixture
def dagster(location: Location) -> Iterator[Deployment]:
    yield from dagster_dev(location.cli.folder / "dagster_home", location.cli.config)


def test_one_partition_a_range_and_the_job_end_fresh(location: Location, dagster: Deployment) -> None:
    location.instance.add_dynamic_partitions("docs", FILES)

    one = dagster.materialize(STAGES, dagster_partition="writer.md")
    after_one = dagster.not_fresh()
    several = dagster.materialize(
        STAGES, dagster_asset_partition_range_start="ledger.md", dagster_asset_partition_range_end="reader.md"
    )
    after_several = dagster.not_fresh()
    job = dagster.ended(dagster.launch("index"))

    assert (one, several, job) == ("SUCCESS",) * 3
    assert after_one == {key: set(STAGES) for key in ("ledger.md", "reader.md", "vector.md")}
    assert after_several == {"vector.md": set(STAGES)}
    assert dagster.not_fresh() == {}
    assert location.aid.verify() == []


def test_a_backfill_of_scattered_partitions_does_them_and_no_others(location: Location, dagster: Deployment) -> None:
    location.instance.add_dynamic_partitions("docs", FILES)

    backfill = dagster.backfill(STAGES, ["ledger.md", "vector.md"])

    assert backfill["status"] == "COMPLETED_SUCCESS", backfill
    assert dagster.not_fresh() == {key: set(STAGES) for key in ("reader.md", "writer.md")}
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == {"ledger.md", "vector.md"}
    assert set(location.events()) == {(stage, key) for stage in STAGES for key in ("ledger.md", "vector.md")}


def test_in_a_backfill_one_artifact_fails_by_name_and_the_others_are_published(
    location: Location, dagster: Deployment
) -> None:
    location.cli.write("bad.md", b"\x00binary")
    location.instance.add_dynamic_partitions("docs", ["bad.md", *FILES])

    backfill = dagster.backfill(STAGES, ["bad.md", "ledger.md", "vector.md"])

    assert backfill["status"] == "COMPLETED_FAILED", backfill
    counts = {
        status["assetKey"]["path"][1]: (status["numPartitionsMaterialized"], status["numPartitionsFailed"])
        for status in backfill["assetBackfillData"]["assetBackfillStatuses"]
    }
    assert counts == dict.fromkeys(STAGES, (2, 1))
    assert "bad.md" in failures(dagster)
    assert dagster.not_fresh() == {key: set(STAGES) for key in ("bad.md", "reader.md", "writer.md")}
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == {"ledger.md", "vector.md"}


def failures(dagster: Deployment) -> str:
    """Return the reasons of the failed runs."""
    query = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    ... on ExecutionStepFailureEvent { error { message cause { message } } } } } } }"""
    failed = [run["runId"] for run in dagster.runs() if run["status"] == "FAILURE"]
    return str([dagster.ask(query, run=run) for run in failed])


def test_a_change_is_stale_for_exactly_its_partition_and_for_its_reason(
    location: Location, dagster: Deployment
) -> None:
    assert location.index().success
    before = dagster.not_fresh()
    location.cli.write("ledger.md", text_about("another ledger"))

    observed = dagster.ended(dagster.launch("__ASSET_JOB", [["docs", "source"]]))
    after = {key: found for key, found in dagster.staleness().items() if found[0] != "FRESH"}
    job = dagster.ended(dagster.launch("index"))

    assert before == {}
    assert observed == job == "SUCCESS"
    assert after == {("artifacts", "ledger.md"): ("STALE", ("has a new data version",))}
    assert dagster.not_fresh() == {}


def test_a_changed_strategy_is_stale_for_exactly_what_stands_on_it(location: Location, dagster: Deployment) -> None:
    assert location.index().success
    assert dagster.not_fresh() == {}
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    location.cli.run("status")

    dagster.reload()
    found = dagster.staleness()

    stale = {key: status for key, status in found.items() if status[0] != "FRESH"}
    assert stale == {("surfaces", key): ("STALE", ("has a new code version",)) for key in FILES}
    assert dagster.materialize(STAGES, dagster_partition="ledger.md") == "SUCCESS"
    assert set(dagster.not_fresh()) == {"reader.md", "vector.md", "writer.md"}
    assert dagster.ended(dagster.launch("index")) == "SUCCESS"
    assert dagster.not_fresh() == {}
