"""Automation conditions of the assets, evaluated as by the daemon, on a real instance."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from findingaid.store import Leases
from findingaid.testing import OpenAIServer
from findingaid_dagster.assets import sync
from findingaid_dagster.pipelines import sensors
from findingaid_dagster.pipelines.sensors import FEW
from findingaid_dagster.resources import FindingAidResource
from tests.conftest import PLAIN, Cli, openai, text_about
from tests.support.location import HOUR_AGO, SETTLED, STAGES, Location, open_location

FILES = {"ledger.md", "reader.md", "vector.md", "writer.md"}
SENSORS = ("observe_sources", "changed_sources")


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


class Ticks:
    """The automation sensor of a location, tick by tick."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.cursor: dg.AssetDaemonCursor | None = None  # type: ignore[name-defined]

    def tick(self) -> set[str]:
        """The partitions requested by one tick, which must cover all five stages and nothing else."""
        result = dg.evaluate_automation_conditions(
            self.location.definitions, self.location.instance, cursor=self.cursor
        )
        self.cursor = result.cursor
        requested = {stage: result.get_requested_partitions(dg.AssetKey(["docs", stage])) for stage in STAGES}
        assert set(map(frozenset, requested.values())) == {frozenset(requested["records"])}
        assert not result.get_requested_partitions(dg.AssetKey(["docs", "source"]))
        return {str(key) for key in requested["records"]}

    def quiet(self) -> bool:
        """Whether the next two ticks request nothing: a condition may see an event one tick late."""
        return not any(self.tick() for _ in range(2))


@pytest.fixture
def ticks(location: Location) -> Ticks:
    """An automation that was switched on over an index that is up to date."""
    location.begin()
    ticks = Ticks(location)
    assert ticks.quiet()
    return ticks


def test_what_was_observed_is_requested_together_and_once_for_each_change(location: Location, ticks: Ticks) -> None:
    """Also what keeps failing: a new file that cannot be read, and one that became so."""
    location.cli.write("ledger.md", text_about("another ledger"))
    for name in ("bad.md", "writer.md"):
        location.cli.write(name, b"\x00binary")
    location.observe()

    assert ticks.tick() == {"ledger.md", "bad.md", "writer.md"}
    assert ticks.quiet()
    assert location.materialize(STAGES, "ledger.md").success
    assert not location.materialize(STAGES, "bad.md").success
    assert not location.materialize(STAGES, "writer.md").success
    assert ticks.quiet()
    assert location.observe() == set()
    assert location.stale() == {"bad.md": set(STAGES), "writer.md": {"artifacts"}}

    location.cli.write("bad.md", b"\x00binary still")
    location.observe()
    assert ticks.tick() == {"bad.md"}


def test_what_the_job_did_is_not_requested(location: Location, ticks: Ticks) -> None:
    """Also after an observation, for a changed strategy, and where the command line did it first."""
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("added.md", text_about("added"))
    os.utime(location.cli.docs / "writer.md", (SETTLED + 1, SETTLED + 1))
    location.observe()
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    assert location.index().success
    assert ticks.quiet()

    location.cli.write("ledger.md", text_about("a third ledger"))
    location.cli.write("more.md", text_about("more"))
    before = location.events()
    assert location.cli.run("index").exit_code == 0
    assert ticks.quiet()
    assert location.index().success
    assert ticks.quiet()
    assert (location.events() - before).keys() == {
        (stage, name) for stage in STAGES for name in ("ledger.md", "more.md")
    }
    assert location.all_fresh()


def test_partitions_that_a_job_is_adding_and_removes_are_not_requested_and_one_that_comes_back_is(
    location: Location, ticks: Ticks
) -> None:
    path = location.cli.docs / "ledger.md"
    text = path.read_bytes()
    location.cli.write("added.md", text_about("added"))
    location.instance.add_dynamic_partitions("docs", ["added.md"])  # which the job does before it logs them
    assert ticks.tick() == set()
    path.unlink()
    assert location.index().success
    assert ticks.quiet()

    path.write_bytes(text)
    location.observe()

    assert ticks.tick() == {"ledger.md"}
    assert ticks.quiet()


def test_artifacts_are_not_requested_while_the_job_is_at_them_nor_after_it_could_not_publish(
    location: Location, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their records are logged at the end of the run: automation would do all of them again, in a run per range."""
    location.cli.settings["corpora"]["docs"]["max_failures"] = 0.1
    location.cli.write("added.md", text_about("added"))
    for name in ("bad.md", "writer.md"):
        location.cli.write(name, b"\x00binary")
    location.cli.write("ledger.md", text_about("another ledger"))
    location.settle()
    quiet: list[bool] = []
    module = sys.modules[sync.__module__]
    observe = module._observe
    monkeypatch.setattr(module, "_observe", lambda *of: (observe(*of), quiet.append(not ticks.tick()))[0])

    @dg.success_hook(name="in_the_middle")
    def look_at_it(context: dg.HookContext) -> None:
        if context.op.name == "batch":
            quiet.append(ticks.quiet())

    job = location.definitions.resolve_job_def("index").with_hooks({look_at_it})
    assert not job.execute_in_process(instance=location.instance, raise_on_error=False).success

    assert quiet == [True, True, True]  # after the observations of the batch, after the batch, and at the end
    assert ("records", "added.md") in location.failed()
    assert ticks.quiet()
    for sensor in SENSORS:
        found = look(location, sensor=sensor)
        assert not found.run_requests
        assert (found.skip_message or "").endswith(
            "; readers do not see the newest records: mend what the last run names, and run index"
        )
        with Leases(location.aid.store).of_run("a run", location.aid.embedder.id, print).on("docs"):
            assert "readers" not in (look(location, sensor=sensor).skip_message or "")
    for name in ("bad.md", "writer.md"):
        (location.cli.docs / name).unlink()
    assert location.index(allow_loss=True).success
    assert ticks.quiet()
    assert location.all_fresh()


def test_what_a_run_built_but_did_not_publish_is_published_by_the_next_run_of_a_sensor(location: Location) -> None:
    """Nothing is stale after it, so that readers would keep the text of before until the next change."""
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.settle()
    job = location.definitions.resolve_job_def("index")
    assert job.execute_in_process(instance=location.instance, op_selection=["discover", "batch"]).success

    found = {sensor: look(location, sensor=sensor) for sensor in SENSORS}

    assert [corpora_of(each) for each in found.values()] == [["docs"], ["docs"]]
    location.end_runs(found["observe_sources"].run_requests)
    assert not any(look(location, each.cursor, sensor).run_requests for sensor, each in found.items())
    assert location.index(corpora=["docs"]).success
    assert location.all_fresh()
    assert "another ledger" in location.aid.search("another ledger", 1, mode="lexical")[0].text
    assert not any(look(location, sensor=sensor).run_requests for sensor in found)


def test_a_partition_that_a_run_is_at_waits_for_its_end(location: Location, ticks: Ticks) -> None:
    run = location.instance.create_run_for_job(
        location.definitions.resolve_implicit_global_asset_job_def(),
        asset_selection=frozenset(dg.AssetKey(["docs", stage]) for stage in STAGES),
        tags={"dagster/partition": "ledger.md"},
        status=dg.DagsterRunStatus.STARTED,
    )
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("writer.md", text_about("another writer"))
    location.observe()

    during = ticks.tick()
    location.instance.report_run_canceled(run)

    assert during == {"writer.md"}
    assert ticks.tick() == {"ledger.md"}
    assert ticks.quiet()


def test_what_is_missing_when_it_is_switched_on_is_requested_once(location: Location) -> None:
    location.instance.add_dynamic_partitions("docs", sorted(FILES))
    ticks = Ticks(location)

    assert [ticks.tick(), ticks.tick()] == [set(), FILES]
    assert ticks.quiet()


def test_deletions_and_a_new_strategy_start_one_run_of_the_job_and_automation_requests_nothing(
    location: Location, ticks: Ticks
) -> None:
    """Automation would ask for the deleted partition too, and leave the others to runs that have the code of before."""
    (location.cli.docs / "vector.md").unlink()
    deleted = look(location)
    assert (corpora_of(deleted), deleted.asset_events) == (["docs"], [])
    location.end_runs(deleted.run_requests)
    assert "as stale as" in (look(location, deleted.cursor).skip_message or "")

    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    with Leases(location.aid.store).of_run("a run", location.aid.embedder.id, print).on("docs"):
        assert not look(location, deleted.cursor).run_requests
    deployed = look(location, deleted.cursor)
    assert corpora_of(deployed) == ["docs"]
    assert ticks.quiet()
    assert location.index().success

    assert ticks.quiet()
    assert location.all_fresh()
    assert look(location, deployed.cursor).skip_message == "0 artifacts changed"


def test_what_a_run_just_failed_starts_no_run_of_the_job_though_dagster_does_not_show_it_yet(
    location: Location,
) -> None:
    """A run of automation ends in Dagster after it has released its lease."""
    location.begin()
    location.cli.write("ledger.md", b"\x00binary")
    assert location.cli.run("index").exit_code == 1

    assert not look(location).run_requests


def test_what_was_lost_in_the_store_or_is_skipped_now_starts_a_run_of_the_job(location: Location, ticks: Ticks) -> None:
    """Automation would not: Dagster shows the one as built, and the other as tried. Readers would keep its old text."""
    index = location.cli.folder / "index"
    for gone in (index, index / "records.lance"):
        shutil.rmtree(gone)
        lost = look(location)
        assert corpora_of(lost) == ["docs"]
        assert ticks.quiet()
        assert location.index().success
        assert look(location, lost.cursor).skip_message == "0 artifacts changed"

    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.cli.write("ledger.md", b"\x00binary")
    os.utime(location.cli.docs / "ledger.md", (SETTLED + 1, SETTLED + 1))
    location.observe()
    assert ticks.tick() == {"ledger.md"}
    assert not look(location).run_requests, "before the run has read it"
    assert not location.materialize(STAGES, "ledger.md").success
    assert corpora_of(look(location)) == ["docs"]
    assert location.index().success

    assert ticks.quiet()
    assert location.all_fresh()
    assert look(location).skip_message == "0 artifacts changed"


def test_lost_records_start_a_run_also_if_another_corpus_is_empty_or_an_artifact_failed(location: Location) -> None:
    """Whether anything else is left undone depends on what readers see, which nobody can tell then."""
    (location.cli.folder / "notes").mkdir()
    location.cli.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}
    records = location.cli.folder / "index" / "records.lance"
    location.settle()
    assert location.index().success
    shutil.rmtree(records)
    assert [corpora_of(look(location, sensor=sensor)) for sensor in SENSORS] == [["docs", "notes"]] * 2
    told = look(location, "before", sensor="published_elsewhere")
    assert (told.skip_message or "").startswith("table records of")
    assert told.cursor == "before"

    location.cli.write("ledger.md", b"\x00binary")
    location.settle()  # else the time of the file becomes certain between the last two ticks
    assert not location.index().success
    shutil.rmtree(records)
    lost = {sensor: look(location, sensor=sensor) for sensor in SENSORS}
    for sensor, found in lost.items():
        assert corpora_of(found) == ["docs"]
        location.end_runs(found.run_requests)
        again = look(location, found.cursor, sensor)
        assert (again.skip_message or "").endswith("mend what the last run names, and run index")


def corpora_of(found: dg.SensorExecutionData) -> list[str]:  # type: ignore[name-defined]
    """Return the corpora that the one run is for that a tick of the sensor starts."""
    (request,) = found.run_requests or ()
    return list(request.run_config["ops"]["discover"]["config"]["corpora"])


def test_the_sensor_observes_without_a_run_what_changed(location: Location, ticks: Ticks) -> None:
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.write("added.md", text_about("added"))

    first = look(location)
    assert ticks.quiet(), "a new partition is requested before its observation is stored, and again after that"
    store(location, first)
    second = look(location)

    assert {event.partition for event in first.asset_events} == {"ledger.md", "added.md"}
    assert second.asset_events == []
    assert ticks.tick() == {"ledger.md", "added.md"}
    assert location.stale().keys() == {"ledger.md", "added.md"}


def look(location: Location, cursor: str | None = None, sensor: str = "observe_sources") -> dg.SensorExecutionData:  # type: ignore[name-defined]
    """One tick of a sensor."""
    definition = location.definitions.resolve_sensor_def(sensor)
    resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}
    with dg.build_sensor_context(location.instance, cursor=cursor, resources=resources) as context:
        return definition.evaluate_tick(context)


def store(location: Location, found: dg.SensorExecutionData) -> None:  # type: ignore[name-defined]
    """Store what a tick of the sensor found, as the daemon does."""
    for event in found.asset_events:
        location.instance.report_runless_asset_event(event)
    for request in found.dynamic_partitions_requests or ():
        location.instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)


def test_what_changes_while_a_run_works_on_it_or_just_did_is_observed_and_requested_later(
    location: Location, ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.cli.write("ledger.md", text_about("another ledger"))
    location.observe()
    assert ticks.tick() == {"ledger.md"}
    with Leases(location.aid.store).of_run("a run", location.aid.embedder.id, print).on("docs"):
        location.cli.write("ledger.md", text_about("a third ledger"))
        assert look(location).asset_events == []
    assert location.materialize(STAGES, "ledger.md").success
    location.cli.write("ledger.md", text_about("a fourth ledger"))
    with monkeypatch.context() as patch:
        patch.setattr(sensors, "JUST_NOW", 60)
        assert look(location).asset_events == []
        patch.setattr(sensors, "time", HOUR_AGO)
        assert look(location).asset_events, "the clock was set back"
    assert ticks.quiet()

    store(location, look(location))

    assert ticks.tick() == {"ledger.md"}
    assert ticks.quiet()


def test_many_changes_start_one_run_of_the_job_and_what_fails_in_it_is_tried_once_for_each_change(
    location: Location, ticks: Ticks
) -> None:
    for number in range(FEW):
        location.cli.write(f"new-{number}.md", text_about("something new"))
    for name in ("bad.md", "writer.md"):
        location.cli.write(name, b"\x00binary")
    location.settle()

    first = look(location)
    (request,) = first.run_requests or ()
    assert first.asset_events == []
    assert ticks.quiet()
    job = location.definitions.resolve_job_def("index")
    assert not job.execute_in_process(
        run_config=request.run_config, instance=location.instance, raise_on_error=False
    ).success
    assert location.failed() == {(stage, name) for stage in STAGES for name in ("bad.md", "writer.md")}

    second = look(location, first.cursor)
    assert (second.run_requests, second.asset_events) == ([], [])
    assert ticks.quiet()

    location.cli.write("writer.md", b"\x00binary still")
    os.utime(location.cli.docs / "writer.md", (SETTLED + 1, SETTLED + 1))
    location.observe()
    assert ticks.tick() == {"writer.md"}
    assert ticks.quiet()


def test_the_sensor_observes_nothing_while_the_job_runs(location: Location) -> None:
    job = location.definitions.resolve_job_def("index")
    location.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=job.run_tags)

    found = look(location)

    assert found.asset_events == []
    assert "under way" in (found.skip_message or "")


def test_every_stage_has_a_condition_and_the_source_none(location: Location) -> None:
    graph = location.definitions.resolve_asset_graph()

    conditions = {stage: graph.get(dg.AssetKey(["docs", stage.value])).automation_condition for stage in PLAIN}

    assert all(conditions.values())
    assert graph.get(dg.AssetKey(["docs", "source"])).automation_condition is None


def test_synopses_that_are_pending_start_no_run_of_the_sensors_until_another_model_is_to_write_them(
    location: Location, server: OpenAIServer
) -> None:
    location.cli.settings |= {"synthesizer": openai(server), "budget": {"calls": 0}}
    location.begin()

    quiet = [look(location, sensor=name) for name in reversed(SENSORS)]
    location.cli.settings["synthesizer"]["model"] = "another"
    mended = [look(location, sensor=name) for name in reversed(SENSORS)]

    assert location.aid.status()[0].synopses == {"pending": 4}
    assert [found.skip_message for found in quiet] == ["nothing changed", "0 artifacts changed"]
    assert [corpora_of(found) for found in mended] == [["docs"], ["docs"]]
