"""The asset of the published records: what downstream assets and automation are told, and when."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import get_reexecution_strategy

from findingaid_dagster.assets import FAILED_TAG, HELD, corpus
from findingaid_dagster.assets.sync import sync
from findingaid_dagster.pipelines import index
from findingaid_dagster.pipelines.code_location import build_definitions
from findingaid_dagster.pipelines.stale import unseen
from tests.code_location.test_automation import look, store
from tests.conftest import Cli, text_about
from tests.support.location import STAGES, Location, open_location

PUBLISHED = dg.AssetKey(["docs", "published"])
DIGEST = dg.AssetKey("digest")


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    cli.settings["retain"] = 2
    yield from open_location(cli, monkeypatch)


def events(location: Location) -> list[tuple[str, dict[str, object]]]:
    """(data version, metadata) of each materialization of the published records, newest first."""
    records = location.instance.fetch_materializations(PUBLISHED, limit=100).records
    found = [record.asset_materialization for record in records]
    return [
        ((event.tags or {})["dagster/data_version"], {name: value.value for name, value in event.metadata.items()})
        for event in found
        if event
    ]


def with_digest(location: Location) -> dg.Definitions:
    """The location merged with a team's asset that eagerly follows the published records."""

    @dg.asset(deps=[PUBLISHED], automation_condition=dg.AutomationCondition.eager())
    def digest() -> dg.MaterializeResult:  # type: ignore[type-arg]
        return dg.MaterializeResult(metadata={"found": len(location.aid.search("sentence", 50))})

    return dg.Definitions.merge(location.definitions, dg.Definitions(assets=[digest]))


def test_a_publish_is_told_once_with_its_changes_and_a_run_without_changes_is_not(location: Location) -> None:
    """To those who read the asset, and to automation downstream."""
    ticks = Ticks(location)
    assert not any(ticks.tick() for _ in range(2))  # nothing is published
    location.begin()
    assert [ticks.tick() for _ in range(3)].count(True) == 1
    location.index()
    assert not any(ticks.tick() for _ in range(2))
    location.cli.write("ledger.md", text_about("another ledger"))
    (location.cli.docs / "writer.md").unlink()
    location.index()
    assert [ticks.tick() for _ in range(3)].count(True) == 1

    (second, changes), (first, built) = events(location)
    assert first != second
    assert {k: built[k] for k in ("by", "artifacts", "dagster/row_count", "new", "changed", "deleted", "failed")} == {
        "by": "published", "artifacts": 4, "dagster/row_count": 8, "new": 4, "changed": 0, "deleted": 0, "failed": 0,
    }  # fmt: skip
    assert {k: changes[k] for k in ("artifacts", "new", "changed", "deleted", "texts embedded")} == {
        "artifacts": 3, "new": 0, "changed": 1, "deleted": 1, "texts embedded": 2,
    }  # fmt: skip
    assert changes["version"] == location.aid.publisher.served()
    assert isinstance(changes["seconds"], float)
    status = location.staleness_of(PUBLISHED)
    assert status == ("FRESH", ())


def add_notes(location: Location) -> None:
    """Add a second corpus, of one file."""
    notes = location.cli.folder / "notes"
    notes.mkdir()
    (notes / "note.md").write_text(text_about("notes"))
    location.cli.settings["corpora"]["notes"] = {"source": {"kind": "files", "root": "notes"}}


def told_of_notes(location: Location) -> list[object]:
    """Return the number of artifacts of each event of the second corpus, newest first."""
    records = location.instance.fetch_materializations(dg.AssetKey(["notes", "published"]), limit=5).records
    return [event.metadata["artifacts"].value for record in records if (event := record.asset_materialization)]


def test_a_corpus_is_told_when_it_is_published_first_and_when_a_rollback_takes_it_away(location: Location) -> None:
    """A run of another corpus leaves readers without it as before; after a rollback they have it no more."""
    add_notes(location)
    assert location.index(corpora=["docs"]).success
    assert told_of_notes(location) == []

    assert location.index(corpora=["notes"]).success
    rollback = location.definitions.resolve_job_def("rollback_index")
    assert rollback.execute_in_process(instance=location.instance).success
    assert told_of_notes(location) == [0, 1]


def test_a_corpus_that_is_empty_is_told_by_the_run_that_finds_it_so(location: Location) -> None:
    add_notes(location)
    (location.cli.folder / "notes" / "note.md").unlink()
    assert location.index().success
    assert told_of_notes(location) == [0]
    checked = [
        key for key in location.definitions.resolve_asset_graph().asset_check_keys if "notes" in key.asset_key.path
    ]
    storage = location.instance.event_log_storage

    assert location.index().success
    for key in checked:
        assert [found.status.value for found in storage.get_asset_check_execution_history(key, limit=5)] == [
            "SUCCEEDED"
        ]


def test_a_new_corpus_that_a_check_of_another_one_holds_back_is_told_when_it_is_published(location: Location) -> None:
    location.begin()
    add_notes(location)
    names = ("ledger.md", "vector.md", "reader.md")
    for name in names:
        location.cli.write(name, b"\x00binary")

    held = location.index()
    told_then = told_of_notes(location)
    for name in names:
        location.cli.write(name, text_about(name))
    published = location.index()

    assert (held.success, published.success) == (False, True)
    assert told_then == []
    assert told_of_notes(location) == [1]


def materialize_all(location: Location) -> dg.ExecuteInProcessResult:
    """Materialize all partitions, as a backfill does."""
    names = ["ledger.md", "reader.md", "vector.md", "writer.md"]
    location.instance.add_dynamic_partitions("docs", names)
    return location.materialize(STAGES, names[0], names[-1])


@pytest.mark.parametrize(
    ("run", "module"),
    [(Location.index, index), (Location.materialize_published, corpus), (materialize_all, corpus)],
    ids=["job", "published", "partitions"],
)
def test_the_sensor_leaves_it_to_a_run_to_tell_what_it_published(
    location: Location,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[Location], dg.ExecuteInProcessResult],
    module: ModuleType,
) -> None:
    """The event of the sensor would have no numbers, and the run would log none."""
    ticks, log = [], sync

    def look_first(*arguments: object, **options: object) -> None:
        ticks.append(look(location, sensor="published_elsewhere"))
        store(location, ticks[0])
        log(*arguments, **options)

    monkeypatch.setattr(module, "sync", look_first)
    monkeypatch.setattr(module, "has_artifact_partitions", lambda *_: False)  # all is logged after the publish
    assert run(location).success

    ((_, told),) = events(location)
    assert (told["new"], told["failed"]) == (4, 0)
    assert (ticks[-1].skip_message or "").endswith("job is under way")


def test_what_a_blocking_check_holds_back_is_told_to_nobody_downstream(location: Location) -> None:
    location.begin()
    ticks = Ticks(location)
    ticks.tick()
    before = location.events()
    for name in ("ledger.md", "vector.md", "reader.md"):
        location.cli.write(name, b"\x00binary")
    location.cli.write("writer.md", text_about("another writer"))

    assert not location.index().success

    logged = location.events() - before
    assert set(logged) == {(stage, "writer.md") for stage in STAGES[:-1]}
    assert len(events(location)) == 1
    assert not ticks.tick()
    for name in ("ledger.md", "vector.md", "reader.md"):
        location.cli.write(name, text_about(name))
    assert location.index().success
    assert location.events()["records", "writer.md"] == before["records", "writer.md"] + 1
    assert len(events(location)) == 2
    assert ticks.tick()


class Ticks:
    """Automation of the downstream asset, tick by tick."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.cursor: dg.AssetDaemonCursor | None = None  # type: ignore[name-defined]

    def tick(self) -> bool:
        """Evaluate once; returns whether the downstream asset is requested."""
        found = dg.evaluate_automation_conditions(
            with_digest(self.location), self.location.instance, dg.AssetSelection.assets(DIGEST), cursor=self.cursor
        )
        self.cursor = found.cursor
        return found.get_num_requested(DIGEST) > 0


@pytest.mark.dagster_versions
def test_an_asset_after_the_published_records_runs_after_them_in_the_same_run(location: Location) -> None:
    location.instance.add_dynamic_partitions("docs", ["ledger.md", "reader.md"])
    job = with_digest(location).resolve_implicit_global_asset_job_def()
    selection = [*(dg.AssetKey(["docs", stage]) for stage in STAGES), PUBLISHED, DIGEST]

    result = job.execute_in_process(
        instance=location.instance, asset_selection=selection, tags={"dagster/partition": "ledger.md"}
    )

    (event,) = result.asset_materializations_for_node("digest")
    assert event.metadata["found"].value == 2
    assert [metadata["artifacts"] for _, metadata in events(location)] == [1]
    assert location.staleness_of(PUBLISHED) == ("FRESH", ())


def test_materializing_the_published_records_after_a_rollback_names_the_job_that_publishes(location: Location) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.run("index")
    location.aid.rollback()
    job = location.definitions.resolve_implicit_global_asset_job_def()

    result = job.execute_in_process(instance=location.instance, asset_selection=[PUBLISHED], raise_on_error=False)

    assert not result.success
    assert "publish_index" in location.instance.get_runs(limit=1)[0].tags[FAILED_TAG]
    assert unseen(location.aid).endswith("a rollback holds until publish_index")


def test_materializing_records_after_a_rollback_fails_as_its_backfill_does_until_they_are_published(
    location: Location,
) -> None:
    """Readers do not see the records, so that no event of them is logged, which Dagster's backfills take for failed."""
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    assert location.index().success
    location.aid.rollback()
    before = location.events()

    held = [location.materialize(stages, "ledger.md").success for stages in (["records"], STAGES)]

    assert held == [False] * 2
    for run in location.instance.get_runs(limit=2):
        assert run.tags[FAILED_TAG] == HELD
    assert location.events() - before == {(stage, "ledger.md"): 1 for stage in STAGES[:-1]}
    assert location.materialize(STAGES[:-1], "ledger.md").success
    location.aid.publish()
    assert location.materialize(["records"], "ledger.md").success
    assert location.all_fresh()


def test_an_artifact_that_became_unreadable_is_materialized_by_no_run(location: Location) -> None:
    location.begin()
    before = location.events()
    location.cli.write("ledger.md", b"\x00binary")

    whole = location.materialize(STAGES, "ledger.md", "reader.md")
    job = location.index()

    assert [whole.success, job.success] == [False] * 2
    assert {key for _, key in location.events() - before} == {"reader.md"}
    (failure,) = location.aid.status()[0].failed
    assert (failure.kind, failure.runs) == ("binary", 2)
    for run in location.instance.get_runs(limit=2):
        assert "ledger.md: run `findingaid status --failed` for the reason [artifacts: binary" in run.tags[FAILED_TAG]


def test_a_run_that_repeats_a_failed_one_does_not_name_its_failures(location: Location) -> None:
    """Dagster gives it the tags of the run before; from failure, that is the last step with the earlier results."""
    location.begin()
    location.cli.write("ledger.md", b"\x00binary")
    assert not location.index(tags={"dagster/is_resume_retry": "true"}).success
    (failed,) = location.instance.get_runs(limit=1)
    (error,) = [record.event_log_entry.dagster_event for record in location.instance.get_records_for_run(
        failed.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records]  # fmt: skip
    assert "(from failure, not all are tried again: re-execute all steps)" in str(error)
    location.cli.write("ledger.md", text_about("another ledger"))
    inherited = {FAILED_TAG: failed.tags[FAILED_TAG]}

    assert location.materialize(STAGES, "ledger.md", tags=inherited).success
    assert location.index(tags=inherited).success

    assert [run.tags[FAILED_TAG] for run in location.instance.get_runs(limit=2)] == [""] * 2


def reloaded_job() -> dg.JobDefinition:
    """The job of the configuration, as the process of another run loads it."""
    return build_definitions(os.environ["FINDINGAID_CONFIG"]).resolve_job_def("index")


def test_a_run_from_failure_names_the_steps_that_dagster_leaves_out_of_it(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repeats those that failed, and not those that had not begun: what these were to build stays stale."""
    location.begin()
    archive = location.cli.folder / "archive"
    archive.mkdir()
    (archive / "note.md").write_text(text_about("notes"))
    location.cli.settings["corpora"]["archive"] = {"source": {"kind": "files", "root": "archive"}}
    location.cli.write("ledger.md", text_about("another ledger"))
    assert location.observe() == {"ledger.md"}
    stale = {"ledger.md": {"artifacts"}}
    assert location.stale() == stale
    job = dg.reconstructable(reloaded_job)

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index, "_build", kill)
        with dg.execute_job(job, location.instance) as found:
            assert not found.success
    [killed] = location.instance.get_runs(limit=1)
    assert get_reexecution_strategy(killed, location.instance) == ReexecutionStrategy.ALL_STEPS  # a run retry
    by_hand = dg.ReexecutionOptions.from_failure(killed.run_id, location.instance)
    with dg.execute_job(job, location.instance, reexecution_options=by_hand) as again:
        assert not again.success

    [error] = [event.step_failure_data.error for event in again.all_events if event.event_type_value == "STEP_FAILURE"]
    assert "docs: 1 of 1 steps did not run, and their artifacts are as before" in str(error)
    assert {corpus.corpus: corpus.artifacts for corpus in location.aid.status()} == {"archive": 1, "docs": 4}
    assert location.stale() == stale
    assert location.index().success
    assert location.all_fresh()


def divide_anew(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": "bucket", "buckets": 2}


def wipe_records(location: Location) -> None:
    location.instance.wipe_assets([dg.AssetKey(["docs", "records"])])


def publish_by_the_command_line(location: Location) -> None:
    """Publish a change of which the sensor tells before any run tells of the partition."""
    location.cli.write("ledger.md", text_about("another ledger"))
    location.cli.run("index")
    assert len(look(location, sensor="published_elsewhere").asset_events) == 1


@pytest.mark.parametrize("change", [divide_anew, wipe_records, publish_by_the_command_line])
@pytest.mark.parametrize("index", [Location.index, Location.materialize_published], ids=["job", "assets"])
def test_published_records_are_fresh_after_a_run_has_told_of_them_anew(
    location: Location, change: Callable[[Location], None], index: Callable[[Location], dg.ExecuteInProcessResult]
) -> None:
    location.begin()
    change(location)

    assert index(location).success

    assert location.staleness_of(PUBLISHED) == ("FRESH", ())
    told = len(events(location))
    assert location.index().success
    assert len(events(location)) == told


@pytest.mark.parametrize("index", [Location.index, Location.materialize_published], ids=["job", "assets"])
def test_a_run_names_the_other_store_whose_corpus_of_the_same_name_it_replaces(
    location: Location, index: Callable[[Location], dg.ExecuteInProcessResult]
) -> None:
    def warnings() -> list[str]:
        run = index(location)
        assert run.success
        logged = location.instance.all_logs(run.run_id)
        return [entry.user_message for entry in logged if entry.level == logging.WARNING]

    assert warnings() == []
    first = location.aid.store.uri
    location.cli.settings["store"] = "staging"
    location.cli.write("ledger.md", text_about("another ledger"))

    (line,) = warnings()

    assert line.startswith(f"docs: what Dagster showed until now was of the store {first}, and this run is of")
    location.cli.write("ledger.md", text_about("the ledger once more"))
    assert warnings() == []


def test_a_run_names_the_corpus_with_another_prefix_whose_partitions_it_replaces(
    location: Location, tmp_path: Path
) -> None:
    """Dagster keeps one set of partitions for both, though their assets have keys of their own."""
    other = tmp_path / "other"
    (other / "docs").mkdir(parents=True)
    (other / "docs" / "cellar.md").write_text(text_about("cellar"))
    text = location.cli.config.read_text()
    (other / "findingaid.yaml").write_text(f"{text}dagster: {{key_prefix: [staging]}}\n")
    staging = build_definitions(other / "findingaid.yaml").resolve_job_def("index")
    assert location.index().success
    for _ in range(2):
        run = staging.execute_in_process(instance=location.instance)
        logged = [e.user_message for e in location.instance.all_logs(run.run_id) if e.level == logging.WARNING]
        (line,) = logged
        assert line.startswith(f"docs: what Dagster showed until now was of the store {location.aid.store.uri}, and")


def lose_records(location: Location) -> None:
    shutil.rmtree(location.cli.folder / "index" / "records.lance")


@pytest.mark.parametrize(
    ("change", "index"),
    [
        (wipe_records, Location.index),
        (wipe_records, Location.materialize_published),
        (lose_records, Location.materialize_published),
    ],
)
def test_an_event_of_the_records_that_dagster_knows_counts_no_changes(
    location: Location, change: Callable[[Location], None], index: Callable[[Location], dg.ExecuteInProcessResult]
) -> None:
    """As after a run that told Dagster of its partitions anew, or rebuilt what was lost."""
    location.begin()
    change(location)
    assert index(location).success

    (_, changes), _ = events(location)
    assert [changes[count] for count in ("new", "changed", "deleted")] == [0, 0, 0]
