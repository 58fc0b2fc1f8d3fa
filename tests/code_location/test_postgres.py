"""Code location on an instance that stores its events in a real PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator

import dagster as dg
import pytest
import yaml

from findingaid.model import Stage
from findingaid_dagster.internals.events import latest_event_ids, logged_data_versions
from tests.code_location.test_code_location import (  # noqa: F401  # the same truths; collected here they run on the location below
    test_a_changed_strategy_makes_surfaces_stale_and_each_stage_is_materialized_after_those_before_it,
    test_a_failed_artifact_and_a_source_that_is_gone_fail_the_job_after_the_rest_is_published,
    test_an_observed_change_makes_exactly_its_partition_stale_until_the_next_run,
    test_one_partition_and_a_range_can_be_materialized,
    test_the_job_logs_every_partition_of_every_asset_once_in_batches_with_its_own_version,
    test_the_job_runs_from_the_command_line,
)
from tests.conftest import PLAIN, Cli, text_about
from tests.support.location import STAGES, Location, open_location
from tools.postgres import Server, programs, server

__all__ = [name for name in globals() if name.startswith("test_")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("CI") and programs() is None, reason="needs Debian's package postgresql"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server("fsync=off") as running:
        yield running


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch, postgres: Server) -> Iterator[Location]:
    address = postgres.database(cli.folder.name)
    settings = {"telemetry": {"enabled": False}, "storage": {"postgres": {"postgres_url": address}}}
    yield from open_location(cli, monkeypatch, yaml.safe_dump(settings))


@pytest.mark.release
def test_a_thousand_artifacts_have_their_versions_and_a_rerun_logs_nothing(location: Location) -> None:
    """More than a batch of artifacts, and more than one of events."""
    for number in range(1_100):
        location.cli.write(f"{number:04d}.md", text_about(f"topic {number}"))

    assert location.index().success
    first = logged(location)
    assert location.index().success

    rows = location.aid.indexer("docs").ledger.rows("docs")
    assert set(location.staleness(every=100).values()) == {("FRESH", ())}
    assert first == logged(location)
    assert {key: {i: version for i, (version, _) in found.items()} for key, found in first.items()} == {
        stage: {i: row.version(stage) for i, row in rows.items()} for stage in PLAIN
    }


def logged(location: Location) -> dict[Stage, dict[str, tuple[str, int]]]:
    """stage -> partition -> (data version, id) of the newest event."""
    found = {}
    for stage in PLAIN:
        asset = dg.AssetKey(["docs", stage.value])
        ids = latest_event_ids(location.instance, asset)
        found[stage] = {i: (v, ids[i]) for i, v in logged_data_versions(location.instance, asset).items()}
    return found


def test_a_materialization_can_plan_an_event_an_asset(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planned events are written one by one, as docs/dagster-at-scale.md advises for Postgres."""
    monkeypatch.setenv("DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "1")
    location.instance.add_dynamic_partitions("docs", ["ledger.md", "reader.md", "vector.md", "writer.md"])

    result = location.materialize(STAGES, "ledger.md", "writer.md")

    assert result.success
    planned = location.instance.get_records_for_run(
        result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    ).records
    assert len(planned) == len(STAGES)
    assert location.events().total() == len(STAGES) * 4
    assert location.all_fresh()
