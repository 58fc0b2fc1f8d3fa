"""Only a run that failed by name is a try of an artifact: after another one that leaves it stale, one more is due."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from findingaid.model import Stage
from findingaid_dagster.assets import AssetData, corpus, partitions_of, publications
from findingaid_dagster.assets.sync import sync
from findingaid_dagster.pipelines import index, sensors, tries
from findingaid_dagster.pipelines.code_location import build_definitions
from tests.code_location.test_agreement import backfill_tick, change
from tests.code_location.test_automation import SENSORS, Ticks, corpora_of, look, store
from tests.code_location.test_checks import evaluations
from tests.conftest import Cli, text_about
from tests.support.location import HOUR_AGO, SETTLED, STAGES, Location, open_location

ENDS = [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["corpora"]["docs"]["backfill_schedule"] = "0 3 * * *"
    yield from open_location(cli, monkeypatch)


@pytest.mark.parametrize("sensor", SENSORS)
@pytest.mark.parametrize("status", ENDS, ids=["canceled", "failed"])
def test_another_run_is_due_after_one_that_was_interrupted_and_waits_ever_longer(
    location: Location, monkeypatch: pytest.MonkeyPatch, sensor: str, status: dg.DagsterRunStatus
) -> None:
    location.begin()
    (location.cli.docs / "vector.md").unlink()
    first = look(location, sensor=sensor)
    assert corpora_of(look(location, first.cursor, sensor)) == ["docs"], "the run could not be created"

    for minutes in (1, 2, 4):
        location.end_runs(first.run_requests, status, failed="")
        reason = look(location, first.cursor, sensor).skip_message or ""
        assert f"was interrupted: see it. Another one starts in {minutes} minutes" in reason
    with monkeypatch.context() as patch:
        patch.setattr(tries, "time", HOUR_AGO)
        assert corpora_of(look(location, first.cursor, sensor)) == ["docs"], "the clock was set back"
    monkeypatch.setattr(tries, "FIRST_WAIT", -1)
    again = look(location, first.cursor, sensor)

    assert corpora_of(again) == ["docs"]
    location.end_runs(again.run_requests)
    assert "tried it: see that run" in (look(location, again.cursor, sensor).skip_message or "")


def started_by_each(location: Location) -> list[list[str]]:
    """Return the corpora of the run that the first tick of each sensor starts; none is kept of what a tick finds."""
    found = [look(location, sensor=sensor) for sensor in SENSORS]
    return [corpora_of(each) if each.run_requests else [] for each in found]


def materialize_changed(location: Location) -> dg.ExecuteInProcessResult:
    return location.materialize(STAGES, "ledger.md")


@pytest.mark.parametrize(
    ("by", "run", "module", "starting"),
    [
        ("artifact", Location.index, index, SENSORS),
        ("artifact", Location.materialize_published, corpus, SENSORS),
        ("artifact", materialize_changed, corpus, SENSORS),
        # The other sensor observes the bucket, which automation then requests.
        ("bucket", Location.index, index, ["changed_sources"]),
        ("bucket", Location.materialize_published, corpus, ["changed_sources"]),
    ],
)
def test_another_run_is_due_after_one_that_was_killed_when_it_had_published(
    location: Location,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    run: Callable[[Location], dg.ExecuteInProcessResult],
    module: ModuleType,
    starting: Sequence[str],
) -> None:
    """Nothing is stale, but Dagster does not know the records that readers see."""

    def killed(*arguments: object, visible: bool = True, **options: object) -> None:
        if not visible or Stage.RECORDS not in next(iter(arguments[3:]), [Stage.RECORDS]):
            sync(*arguments, visible=visible, **options)
        else:
            raise RuntimeError

    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": by, "buckets": 1}
    location.begin()
    change(location.cli.docs / "ledger.md", "edit", 1)
    with monkeypatch.context() as patch:
        patch.setattr(module, "sync", killed)
        assert not run(location).success
    assert location.aid.publisher.current()

    found = {sensor: look(location, sensor=sensor) for sensor in starting}

    assert all(corpora_of(each) == ["docs"] for each in found.values())
    assert location.index(corpora=["docs"]).success
    assert location.failed() == set()
    assert location.all_fresh()
    assert not any(look(location, each.cursor, sensor).run_requests for sensor, each in found.items())


def test_another_run_is_due_after_the_second_step_of_a_corpus_was_killed_when_it_had_published(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster runs the stages in two steps if an asset of a team is between them."""
    stages, between = [dg.AssetKey(["docs", stage]) for stage in STAGES], dg.AssetKey("between")

    @dg.asset(key=between, deps=[stages[1]], partitions_def=partitions_of("docs"))
    def read_surfaces() -> None: ...

    def after(spec: dg.AssetSpec, data: AssetData) -> dg.AssetSpec:
        return spec.merge_attributes(deps=[between]) if data.part == Stage.EMBEDDINGS else spec

    def killed(context: dg.OpExecutionContext, *arguments: Any) -> list[dg.AssetMaterialization]:
        if context.get_step_execution_context().step.key == "docs_index_2":
            raise RuntimeError
        return publications(context, *arguments)

    location.begin()
    change(location.cli.docs / "ledger.md", "edit", 1)
    own = build_definitions(location.cli.config, translation=after)
    job = dg.Definitions.merge(own, dg.Definitions(assets=[read_surfaces])).resolve_implicit_global_asset_job_def()
    monkeypatch.setattr(corpus, "publications", killed)
    ledger, selected = {"dagster/partition": "ledger.md"}, [*stages, between]
    before = location.events()
    run = job.execute_in_process(
        instance=location.instance, asset_selection=selected, tags=ledger, raise_on_error=False
    )
    assert not run.success
    logged = location.events() - before
    assert {logged[stage, "ledger.md"] for stage in ("artifacts", "embeddings", "records")} == {1}

    assert started_by_each(location) == [["docs"], ["docs"]]


def test_no_run_is_due_after_one_that_published_before_an_asset_of_a_team_failed(location: Location) -> None:
    published = dg.AssetKey(["docs", "published"])

    @dg.asset(deps=[published])
    def digest() -> None:
        raise RuntimeError

    location.begin()
    definitions = dg.Definitions.merge(location.definitions, dg.Definitions(assets=[digest]))
    change(location.cli.docs / "ledger.md", "edit", 1)
    job = definitions.resolve_implicit_global_asset_job_def()
    assets = [published, dg.AssetKey("digest")]
    assert not job.execute_in_process(instance=location.instance, asset_selection=assets, raise_on_error=False).success

    assert started_by_each(location) == [[], []]


def test_partitions_that_no_run_would_mend_start_none(location: Location) -> None:
    """A run of them was canceled, after which Dagster shows them as they were."""
    location.begin()
    run = location.instance.create_run_for_job(
        location.definitions.resolve_implicit_global_asset_job_def(),
        asset_selection=frozenset(dg.AssetKey(["docs", stage]) for stage in STAGES),
        tags={"dagster/partition": "ledger.md"},
        status=dg.DagsterRunStatus.STARTING,
    )
    location.instance.report_run_canceled(run)

    assert started_by_each(location) == [[], []]


@pytest.mark.parametrize("sensor", SENSORS)
def test_each_time_that_a_source_is_away_starts_a_run(location: Location, sensor: str) -> None:
    location.begin()
    docs, away, cursor, requested = location.cli.docs, location.cli.folder / "away", None, []
    for source, target in ((docs, away), (away, docs)) * 2:
        source.rename(target)
        for _ in range(2):
            found = look(location, cursor, sensor)
            location.end_runs(found.run_requests)
            cursor = found.cursor
            requested.append(corpora_of(found) if found.run_requests else [])

    assert requested == [["docs"], [], [], []] * 2


@pytest.mark.parametrize("how", ["away", "refused", "alone"])
def test_a_source_that_is_away_stays_red_until_it_is_back(location: Location, how: str) -> None:
    """The runs of other corpora are green meanwhile. Once it is back, a run is started though nothing changed."""
    docs, away, other = location.cli.docs, location.cli.folder / "away", location.cli.folder / "other"
    other.mkdir()
    location.cli.settings["corpora"]["other"] = {"source": {"kind": "files", "root": str(other)}}
    location.begin()
    docs.rename(away)
    if how == "refused":
        docs.mkdir()
    job = location.definitions.resolve_implicit_global_asset_job_def()
    published = [dg.AssetKey(["docs", "published"])]
    if how == "alone":
        assert not job.execute_in_process(
            instance=location.instance, asset_selection=published, raise_on_error=False
        ).success
    else:
        assert not location.index().success
    (other / "new.md").write_text(text_about("new"))
    os.utime(other / "new.md", (SETTLED, SETTLED))
    assert location.index(corpora=["other"]).success

    (found,) = evaluations(location, "source_listed")[:1]
    assert not found.passed
    assert ("`allow_loss: true`" if how == "refused" else "no such directory") in found.description

    if how == "refused":
        docs.rmdir()
    away.rename(docs)
    assert started_by_each(location) == [["docs"], ["docs"]]
    if how == "alone":
        assert job.execute_in_process(instance=location.instance, asset_selection=published).success
    else:
        assert location.index(corpora=["docs"]).success
    assert evaluations(location, "source_listed")[0].passed
    assert started_by_each(location) == [[], []]


def test_a_source_that_the_command_line_found_back_starts_a_run_that_says_so(location: Location) -> None:
    location.begin()
    away = location.cli.docs.rename(location.cli.folder / "away")
    assert not location.index().success
    away.rename(location.cli.docs)
    assert location.cli.run("index").exit_code == 0

    assert started_by_each(location) == [["docs"], ["docs"]]
    assert location.index().success
    assert evaluations(location, "source_listed")[0].passed
    assert started_by_each(location) == [[], []]


def test_a_run_that_refused_to_skip_most_files_is_not_started_again(location: Location) -> None:
    """The failed check of the run is no other finding than what the run was for."""
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.begin()
    for name in ("ledger.md", "reader.md", "vector.md"):
        location.cli.write(name, b"\x00binary")
    location.settle()
    (request,) = (found := look(location, sensor="changed_sources")).run_requests or ()
    assert not location.index(tags=dict(request.tags), corpora=["docs"]).success
    assert not evaluations(location, "source_listed")[0].passed

    assert not look(location, found.cursor, "changed_sources").run_requests


@pytest.mark.parametrize("status", ENDS, ids=["canceled", "failed"])
def test_what_automation_requested_and_no_run_tried_starts_a_run_of_the_job(
    location: Location, status: dg.DagsterRunStatus
) -> None:
    """Dagster has seen its observation, so that automation would never ask for it again."""
    location.begin()
    ticks = Ticks(location)
    assert ticks.quiet()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("added.md", text_about("something new"))
    location.settle()
    location.observe()
    assert ticks.tick() == {"ledger.md", "added.md"}
    for name in ("ledger.md", "added.md"):
        location.instance.create_run_for_job(
            location.definitions.resolve_implicit_global_asset_job_def(),
            asset_selection=frozenset(dg.AssetKey(["docs", stage]) for stage in STAGES),
            tags={"dagster/partition": name},
            status=dg.DagsterRunStatus.STARTING,
        )
    assert not look(location).run_requests, "while the runs are under way"
    for run in location.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING])):
        if status is dg.DagsterRunStatus.CANCELED:
            location.instance.report_run_canceled(run)
        else:
            location.instance.report_run_failed(run)

    assert ticks.quiet()
    found = look(location)

    assert corpora_of(found) == ["docs"]
    location.end_runs(found.run_requests)
    assert "tried it: see that run" in (look(location, found.cursor).skip_message or "")
    assert location.index(corpora=["docs"]).success
    assert not look(location, found.cursor).run_requests
    assert location.all_fresh()


def test_a_run_that_fails_by_name_while_a_tick_looks_is_not_repeated(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.begin()
    location.cli.write("bad.md", b"\x00binary")
    location.settle()
    store(location, look(location))
    look_at_runs = sensors.failed_attempts

    def after_the_run(*of: object, **narrowed: object) -> set[str]:
        assert not location.materialize(list(STAGES), "bad.md").success
        return look_at_runs(*of, **narrowed)

    monkeypatch.setattr(sensors, "failed_attempts", after_the_run)
    found = look(location)

    assert location.failed() >= {("artifacts", "bad.md")}
    assert not found.run_requests


@pytest.mark.parametrize("how", ["backfill canceled", "run canceled"])
def test_a_backfill_that_was_interrupted_is_launched_again(
    location: Location, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    location.begin()
    change(location.cli.docs / "ledger.md", "edit", 0)
    assert backfill_tick(location).startswith("launched backfill")
    (backfill,) = location.instance.get_backfills()
    ended = BulkActionStatus.CANCELED if how == "backfill canceled" else BulkActionStatus.COMPLETED_FAILED
    location.instance.update_backfill(backfill.with_status(ended))
    if how == "run canceled":
        location.instance.create_run_for_job(
            location.definitions.resolve_implicit_global_asset_job_def(),
            tags={"dagster/backfill": backfill.backfill_id},
            status=dg.DagsterRunStatus.CANCELED,
        )

    assert f"1 partitions are stale, and backfill {backfill.backfill_id} was interrupted" in backfill_tick(location)
    monkeypatch.setattr(tries, "FIRST_WAIT", -1)

    assert backfill_tick(location).startswith("launched backfill")


def lose_tables(location: Location) -> None:
    shutil.rmtree(location.cli.folder / "index")


def test_what_is_lost_again_after_a_backfill_built_it_is_backfilled_again(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are as they were, and so is what the backfill is to build."""
    location.begin()
    lose_tables(location)
    assert backfill_tick(location).startswith("launched backfill")
    (backfill,) = location.instance.get_backfills()
    tags = {"dagster/backfill": backfill.backfill_id}
    assert location.materialize(list(STAGES), "ledger.md", "writer.md", tags=tags).success
    location.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_SUCCESS))
    assert backfill_tick(location).startswith("no partition is stale")
    lose_tables(location)

    reason = f"4 partitions are stale, and backfill {backfill.backfill_id} succeeded, and what it did was lost: see it"
    assert backfill_tick(location).startswith(reason)
    monkeypatch.setattr(tries, "FIRST_WAIT", -1)

    assert backfill_tick(location).startswith("launched backfill")


@pytest.mark.parametrize("sensor", SENSORS)
def test_what_is_lost_again_before_the_tick_after_a_run_built_it_is_built_again(
    location: Location, monkeypatch: pytest.MonkeyPatch, sensor: str
) -> None:
    location.begin()
    lose_tables(location)
    first = look(location, sensor=sensor)
    (request,) = first.run_requests or ()
    assert location.index(corpora=["docs"], tags=dict(request.tags)).success
    lose_tables(location)

    again = look(location, first.cursor, sensor)
    assert "succeeded, and what it did was lost: see it. Another one starts in 1 minutes" in (again.skip_message or "")
    monkeypatch.setattr(tries, "FIRST_WAIT", -1)

    assert corpora_of(look(location, again.cursor, sensor)) == ["docs"]
