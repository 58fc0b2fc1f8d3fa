"""A team's assets and checks after the partitions of a corpus, in the same run."""

from collections.abc import Iterator, Sequence

import dagster as dg
import pytest

from findingaid_dagster.internals.events import logged_data_versions
from tests.code_location.test_code_location import STAGES, Location, open_location
from tests.conftest import Cli

KEYS = ["ledger.md", "reader.md", "vector.md", "writer.md"]


def key(stage: str) -> dg.AssetKey:
    return dg.AssetKey(["docs", stage])


RECORDS = key("records")
ONE, RANGE = ("ledger.md", "ledger.md"), ("ledger.md", "vector.md")


@dg.asset(
    deps=[RECORDS],
    partitions_def=dg.DynamicPartitionsDefinition(name="docs"),
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
) -> dg.ExecuteInProcessResult:
    """Run these stages and the assets and checks after them for a range of partitions, as the UI does."""
    location.instance.add_dynamic_partitions("docs", KEYS)
    own = dg.Definitions(assets=after, asset_checks=checks)
    job = dg.Definitions.merge(location.definitions, own).resolve_implicit_global_asset_job_def()
    start, end = partitions
    return job.execute_in_process(
        instance=location.instance,
        asset_selection=[*map(key, stages), *(asset.key for asset in after)],
        tags={"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end},
        raise_on_error=False,
    )


def versions(location: Location, stage: str) -> dict[str, str]:
    return logged_data_versions(location.instance, key(stage))


@pytest.mark.dagster_versions
@pytest.mark.parametrize("partitions", [ONE, RANGE])
@pytest.mark.parametrize("after", [digests, digest], ids=["same partitions", "no partitions"])
def test_an_asset_after_the_records_runs_in_the_same_run(
    location: Location, partitions: tuple[str, str], after: dg.AssetsDefinition
) -> None:
    built = KEYS[: KEYS.index(partitions[1]) + 1]

    result = run(location, partitions, STAGES, after)

    assert result.success
    told = {event.partition for event in result.asset_materializations_for_node(after.op.name)}
    assert told == (set(built) if after is digests else {None})
    assert versions(location, "records") == {
        i: row.records for i, row in location.aid.indexer("docs").ledger.rows("docs").items() if i in built
    }
    for stage in STAGES:
        assert {location.staleness_of(key(stage), i) for i in built} == {("FRESH", ())}


def test_a_stage_in_the_middle_can_be_awaited_and_the_later_ones_stay_fresh(location: Location) -> None:
    after = dg.asset(name="read", deps=[key("surfaces")])(lambda: None)

    assert run(location, RANGE, STAGES, after).success

    assert {location.staleness_of(key(stage), "reader.md") for stage in STAGES} == {("FRESH", ())}


def test_the_check_of_a_team_runs_after_the_records(location: Location) -> None:
    result = run(location, ONE, STAGES, checks=[reviewed])

    evaluated = [check.check_name for check in result.get_asset_check_evaluations()]
    assert evaluated.count("reviewed") == 1
    assert evaluated.count("ids_unique") == 1


def test_nothing_runs_after_records_of_which_one_failed(location: Location) -> None:
    location.cli.write("reader.md", b"\x00binary")
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "fail"

    result = run(location, RANGE, STAGES, digests)

    assert not result.success
    assert not result.asset_materializations_for_node("digests")
    assert set(versions(location, "records")) == {"ledger.md", "vector.md"}


def test_nothing_runs_after_records_that_a_rollback_holds_back(location: Location) -> None:
    location.index()
    location.cli.write("ledger.md", "# Another\n\nAnother ledger.")
    location.index()
    location.aid.rollback()

    result = run(location, ONE, ["records"], digests)

    assert not result.success
    assert not result.asset_materializations_for_node("digests")


def test_without_a_step_after_it_a_stage_is_told_once(location: Location) -> None:
    run(location, RANGE, STAGES)

    assert set(location.events().values()) == {1}
