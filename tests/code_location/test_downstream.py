"""A team's assets and checks after the partitions of a corpus, in the same run."""

from collections.abc import Iterator, Sequence

import dagster as dg
import pytest

from findingaid_dagster import partitions_of
from findingaid_dagster.internals.events import logged_data_versions
from tests.conftest import Cli
from tests.support.location import STAGES, Location, open_location

KEYS = ["ledger.md", "reader.md", "vector.md", "writer.md"]


def key(stage: str) -> dg.AssetKey:
    return dg.AssetKey(["docs", stage])


RECORDS = key("records")
ONE, RANGE = ("ledger.md", "ledger.md"), ("ledger.md", "vector.md")


@dg.asset(
    deps=[RECORDS],
    partitions_def=partitions_of("docs"),
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def digests(context: dg.AssetExecutionContext) -> None:
    """An asset with the same partitions."""


@dg.asset(deps=[RECORDS])
def digest() -> None:
    """An asset without partitions."""


@dg.asset_check(asset=RECORDS)
def reviewed() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["retain"] = 2
    yield from open_location(cli, monkeypatch)


def run(
    location: Location,
    partitions: tuple[str, str],
    stages: list[str],
    *after: dg.AssetsDefinition,
    checks: Sequence[dg.AssetChecksDefinition] = (),
    backfill: bool = False,
) -> dg.ExecuteInProcessResult:
    """Run these stages and the assets and checks after them for a range of partitions, as the UI does."""
    location.instance.add_dynamic_partitions("docs", KEYS)
    own = dg.Definitions(assets=after, asset_checks=checks)
    job = dg.Definitions.merge(location.definitions, own).resolve_implicit_global_asset_job_def()
    start, end = partitions
    tags = {"dagster/backfill": "started"} if backfill else {}
    return job.execute_in_process(
        instance=location.instance,
        asset_selection=[*map(key, stages), *(asset.key for asset in after)],
        tags={"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end, **tags},
        raise_on_error=False,
    )


def versions(location: Location, stage: str) -> dict[str, str]:
    return logged_data_versions(location.instance, key(stage))


@pytest.mark.dagster_versions
def test_assets_and_checks_after_a_stage_run_in_the_same_run(location: Location) -> None:
    """With the same partitions and with none, after the records and after a stage in the middle."""
    built = KEYS[: KEYS.index(RANGE[1]) + 1]
    read = dg.asset(name="read", deps=[key("surfaces")])(lambda: None)

    result = run(location, RANGE, STAGES, digests, digest, read, checks=[reviewed])

    assert result.success
    for name, told in {"digests": set(built), "digest": {None}, "read": {None}}.items():
        assert {event.partition for event in result.asset_materializations_for_node(name)} == told
    evaluated = [check.check_name for check in result.get_asset_check_evaluations()]
    assert (evaluated.count("reviewed"), evaluated.count("ids_unique")) == (1, 1)
    assert versions(location, "records") == {
        i: row.records for i, row in location.aid.indexer("docs").ledger.rows("docs").items() if i in built
    }
    for stage in STAGES:
        assert {location.staleness_of(key(stage), i) for i in built} == {("FRESH", ())}


def test_nothing_runs_after_records_of_which_one_failed(location: Location) -> None:
    location.cli.write("reader.md", b"\x00binary")
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"

    result = run(location, RANGE, STAGES, digests)

    assert not result.success
    assert not result.asset_materializations_for_node("digests")
    assert set(versions(location, "records")) == {"ledger.md", "vector.md"}


@pytest.mark.parametrize(
    ("after", "backfill"),
    [([digests], False), ([], True), ([], False)],
    ids=["with an asset after it", "in a backfill", "alone"],
)
def test_what_the_source_skips_has_no_event_of_records(
    location: Location, after: list[dg.AssetsDefinition], backfill: bool
) -> None:
    """Its partition goes with the run, apart from a backfill: Dagster ends one that has lost a partition."""
    fails = bool(after or backfill)
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.cli.write("reader.md", b"\x00binary")

    result = run(location, RANGE, STAGES, *after, backfill=backfill)

    assert result.success != fails
    assert not [event for event in result.all_events if event.asset_key == digests.key]
    assert {r.partition_key for r in location.instance.fetch_materializations(RECORDS, limit=9).records} == {
        "ledger.md", "vector.md",
    }  # fmt: skip
    location.observe()
    assert ("reader.md" in location.instance.get_dynamic_partitions("docs")) == fails
    assert location.index().success
    assert "reader.md" not in location.instance.get_dynamic_partitions("docs")
