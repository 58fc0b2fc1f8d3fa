"""What Dagster shows of a partition agrees with the ledger, whatever is changed, run and observed in between."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import RunFailureReason
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.loader import LoadingContextForTest

from findingaid.identity.hashes import text_hash
from findingaid.indexing.checks import checks_of
from findingaid.model import Discovery
from findingaid.sources.files import Files
from findingaid.store import Leases
from findingaid.store.ledger import LedgerRow
from findingaid_dagster.assets import FAILED_TAG, STORE_TAG
from findingaid_dagster.assets.corpus import materialize
from findingaid_dagster.assets.keys import Keys
from findingaid_dagster.assets.sync import sync
from findingaid_dagster.internals.backfills import launch_backfill
from findingaid_dagster.internals.events import logged_data_versions
from findingaid_dagster.pipelines import stale
from findingaid_dagster.resources import FindingAidResource
from tests.code_location.test_automation import SENSORS, look
from tests.code_location.test_checks import latest_metadata
from tests.conftest import Cli, text_about
from tests.support.location import HOUR_AGO, SETTLED, STAGES, Location, open_location

BINARY = b"\x00binary"

UNCHANGED = "no partition is stale or missing, or changed since it failed"


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


def shown(location: Location, key: str) -> dict[str, str | None]:
    """Return the data version of each stage of a partition, as Dagster last logged it."""
    return {s: logged_data_versions(location.instance, dg.AssetKey(["docs", s]), [key]).get(key) for s in STAGES}


def observed(location: Location, key: str) -> str | None:
    found = logged_data_versions(location.instance, dg.AssetKey(["docs", "source"]), [key], observed=True)
    return found.get(key)


def written(row: LedgerRow) -> dict[str, str | None]:
    return {stage: row.version(stage) for stage in STAGES}


def test_a_changed_rule_of_access_is_told_of_each_artifact_and_of_what_readers_see(location: Location) -> None:
    """A rule changes no artifact, and the records of the artifacts for which it says something else."""
    published = dg.AssetKey(["docs", "published"])
    location.cli.settings["corpora"]["docs"]["access"] = [{"readers": ["public"]}]
    location.begin()
    before = logged_data_versions(location.instance, dg.AssetKey(["docs", "records"]))
    location.cli.settings["corpora"]["docs"]["access"].append({"match": "ledger.md", "readers": ["group:hr"]})
    assert location.stale() == {key: {"artifacts"} for key in before}

    assert location.index().success

    assert location.stale() == {}
    after = logged_data_versions(location.instance, dg.AssetKey(["docs", "records"]))
    assert {key for key in before if before[key] != after[key]} == {"ledger.md"}
    told, _ = location.instance.fetch_materializations(published, limit=5).records
    assert told.asset_materialization
    assert told.asset_materialization.metadata["changed"].value == 1
    logged = location.events()
    assert location.index().success
    assert location.events() == logged


@pytest.mark.parametrize("by", ["artifact", "bucket"])
def test_artifacts_that_are_materialized_alone_for_a_changed_rule_leave_no_other_stage_stale(
    location: Location, by: str
) -> None:
    """No run would build these stages, since the rule changes none of their outputs."""
    docs = location.cli.settings["corpora"]["docs"]
    docs |= {"access": [{"readers": ["public"]}], "partitions": {"by": by, "buckets": 1}}
    location.begin()
    docs["access"] = [{"match": "ledger.md", "readers": ["group:hr"]}, {"readers": ["public"]}]
    first, last = ("ledger.md", "writer.md") if by == "artifact" else (Keys(1).key_of("ledger.md"), None)

    assert location.materialize(["artifacts"], first, last).success

    assert location.stale() == {}
    assert location.index().success
    assert location.stale() == {}
    change(location.cli.docs / "ledger.md", "edit", 1)
    assert location.materialize(["artifacts"], first, last).success
    assert location.stale() == {first: {"surfaces"}}


@pytest.mark.parametrize("by", ["artifact", "bucket"])
def test_what_the_configuration_of_before_made_is_shown_as_current_by_no_run_of_others(
    location: Location, by: str
) -> None:
    """The command line built one artifact by it, and the job another one by the new one."""
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": by, "buckets": 1}
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.settle()
    assert location.cli.run("index").exit_code == 0
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}

    assert location.index(artifacts=["reader.md"]).success

    others = {"artifact": {"ledger.md", "vector.md", "writer.md"}, "bucket": {"bucket-0-of-1"}}
    assert location.stale() == {key: {"surfaces"} for key in others[by]}
    assert location.index().success
    assert location.stale() == {}


def test_a_partition_that_the_source_skips_now_has_no_event_and_keeps_its_newer_observation(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.begin()
    before = location.events()
    location.cli.write("ledger.md", BINARY)
    os.utime(location.cli.docs / "ledger.md", (SETTLED + 9, SETTLED + 9))
    location.observe()
    seen = observed(location, "ledger.md")

    run = location.materialize(STAGES, "ledger.md")

    assert not run.success
    assert location.events() == before
    assert observed(location, "ledger.md") == seen
    assert "artifacts" in location.stale()["ledger.md"]

    assert location.index().success
    assert "ledger.md" not in location.instance.get_dynamic_partitions("docs")


def test_a_bucket_with_an_artifact_that_the_source_skips_now_stays_stale_and_names_it(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": "bucket", "buckets": 2}
    location.begin()
    bucket = Keys(2).key_of("ledger.md")
    change(location.cli.docs / "ledger.md", "binary", 1)
    location.observe()
    seen = observed(location, bucket)

    run = location.materialize(STAGES, bucket)

    assert not run.success
    assert observed(location, bucket) == seen
    assert location.stale() == {bucket: set(STAGES)}
    (row,) = latest_metadata(location, "records", bucket)["failed artifacts"].records
    assert row.data["artifact"] == "ledger.md"

    assert location.index().success
    assert location.all_fresh()


@pytest.mark.parametrize("whole", [Location.index, Location.materialize_published])
def test_a_bucket_is_fresh_after_a_run_over_the_corpus_has_skipped_a_file_that_was_observed(
    location: Location, whole: Callable[[Location], dg.ExecuteInProcessResult]
) -> None:
    """What was observed is another version of the bucket than that of the artifacts in it."""
    docs = location.cli.settings["corpora"]["docs"]
    docs["source"]["unreadable"] = "skip"
    docs["partitions"] = {"by": "bucket", "buckets": 1}
    location.begin()
    change(location.cli.docs / "picture.md", "binary", 1)
    location.observe()
    assert location.stale() == {"bucket-0-of-1": {"artifacts"}}

    assert whole(location).success

    assert location.all_fresh()


def test_a_run_of_other_artifacts_leaves_an_observation_newer_than_the_ledger(location: Location) -> None:
    location.begin()
    for name in ("ledger.md", "reader.md"):
        location.cli.write(name, text_about(f"another {name}"))
        os.utime(location.cli.docs / name, (SETTLED + 9, SETTLED + 9))
    location.observe()
    seen = observed(location, "reader.md")

    assert location.index(artifacts=["ledger.md"]).success

    assert observed(location, "reader.md") == seen
    assert location.stale().keys() == {"reader.md"}


def test_what_was_gone_before_it_was_indexed_is_no_failure(location: Location) -> None:
    """As when automation asks for a file that was added and deleted again."""
    location.begin()
    location.cli.write("brief.md", text_about("brief"))
    location.observe()
    (location.cli.docs / "brief.md").unlink()

    assert location.materialize(STAGES, "brief.md").success

    assert "brief.md" not in location.instance.get_dynamic_partitions("docs")


@pytest.mark.parametrize(
    ("seed", "unreadable"),
    [(0, "fail"), (1, "skip"), pytest.param(2, "skip", marks=[pytest.mark.release, pytest.mark.slow])],
)
def test_after_any_changes_and_runs_dagster_shows_what_the_ledger_has(
    location: Location, seed: int, unreadable: str
) -> None:
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = unreadable
    location.begin()
    chance = random.Random(seed)  # not a secret
    names = ["ledger.md", "reader.md", "vector.md", "writer.md", "new.md"]
    newest: dict[str, str | None] = {}  # partition -> its version when it was last observed or read
    for step in range(8):
        for name in chance.sample(names, 2):
            change(location.cli.docs / name, chance.choice(["edit", "delete", "binary", "touch"]), step)
        before = location.events()
        action = chance.choice(["job", "job of one", "materialize", "observe"])
        there = sorted(location.instance.get_dynamic_partitions("docs"))
        one = chance.choice(there)
        if action == "job":
            location.index(allow_loss=True)
        elif action == "job of one" and (location.cli.docs / one).exists():
            location.index(artifacts=[one])
        elif action == "materialize":
            location.materialize(STAGES, one)
        else:
            location.observe()
            newest |= {key: observed(location, key) for key in location.instance.get_dynamic_partitions("docs")}
        rows = location.aid.indexer("docs").ledger.rows("docs")
        for key in location.instance.get_dynamic_partitions("docs"):
            row, events = rows.get(key), location.events() - before
            if row is None or row.failed_stage:
                assert not any(name == key for _, name in events), (step, action, key)
            elif any(name == key for _, name in events):
                assert shown(location, key) == written(row), (step, action, key)
                newest[key] = observed(location, key)
                assert newest[key] == row.stamp.rstrip("?"), (step, action, key)
            elif key in newest:
                assert observed(location, key) == newest[key], (step, action, key)


def change(path: Path, how: str, step: int) -> None:
    """Change a file, at a time of its own that is long ago."""
    if how == "delete":
        path.unlink(missing_ok=True)
        return
    if how != "touch" or not path.exists():
        path.write_bytes(BINARY if how == "binary" else text_about(f"{path.stem} {step}").encode())
    os.utime(path, (SETTLED + 10 * step + 10, SETTLED + 10 * step + 10))


def tick(location: Location, cursor: str | None = None) -> dg.SensorExecutionData:  # type: ignore[name-defined]
    sensor = location.definitions.resolve_sensor_def("changed_sources")
    resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}
    with dg.build_sensor_context(location.instance, cursor=cursor, resources=resources) as context:
        return sensor.evaluate_tick(context)


def started(location: Location, tags: dict[str, str] | None = None) -> str:
    """Create a run of the index job that Dagster knows as started; return its id."""
    job = location.definitions.resolve_job_def("index")
    run_id = str(uuid.uuid4())
    location.instance.create_run_for_job(
        job, run_id=run_id, status=dg.DagsterRunStatus.STARTED, tags={**job.run_tags, **(tags or {})}
    )
    return run_id


def test_only_a_run_that_is_alive_and_writes_this_store_is_waited_for(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster keeps a run as started whose process was killed."""
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    started(location, {STORE_TAG: text_hash("another store")})
    assert tick(location).run_requests, "a run into another store"

    run = started(location)
    assert tick(location).skip_message == f"run {run[:8]} of the index job is under way"

    with monkeypatch.context() as patch:
        patch.setattr(stale, "time", HOUR_AGO)
        assert tick(location).run_requests, "its last sign is of a clock that was set back"
    monkeypatch.setattr(stale, "SILENT_SECONDS", -1)
    assert tick(location).run_requests, "nothing was heard of it, and it holds no lease"

    with Leases(location.aid.store).of_run(run, location.aid.embedder.id, print).on("docs"):
        assert tick(location).skip_message == f"run {run[:8]} of the index job is under way"


def backfill_tick(location: Location) -> str:
    """Return the reason of a tick of the backfill schedule, which names the backfill that it launched."""
    schedule = location.definitions.resolve_schedule_def("docs_backfill")
    resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}
    repository = location.definitions.get_repository_def()
    with dg.build_schedule_context(location.instance, resources=resources, repository_def=repository) as context:
        return str(schedule.evaluate_tick(context).skip_message)


def end_backfills(location: Location) -> None:
    for backfill in location.instance.get_backfills():
        location.instance.update_backfill(backfill.with_status(BulkActionStatus.COMPLETED_FAILED))


def test_partitions_that_keep_failing_are_backfilled_once_for_each_change(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["backfill_schedule"] = "0 3 * * *"
    location.begin()
    change(location.cli.docs / "ledger.md", "binary", 0)

    assert backfill_tick(location).startswith("launched backfill")
    assert "is under way" in backfill_tick(location)
    end_backfills(location)
    assert "tried them" in backfill_tick(location)
    assert not location.materialize(STAGES, "ledger.md").success
    assert backfill_tick(location) == UNCHANGED

    change(location.cli.docs / "ledger.md", "touch", 1)
    assert backfill_tick(location).startswith("launched backfill")
    end_backfills(location)
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    assert backfill_tick(location).startswith("launched backfill")


class Away(Files):
    """Source of a team that raises an error of its own."""

    def discover(self) -> Discovery:
        raise ConnectionError("no route to the wiki")


@pytest.mark.parametrize("how", ["emptied", "gone", "raises"])
def test_a_source_that_is_away_is_one_failed_run_of_each_sensor_and_a_failed_tick_and_observation(
    location: Location, how: str
) -> None:
    """They name the option of the job that accepts a loss. Other corpora are observed nevertheless."""
    away, other = location.cli.settings["corpora"]["docs"], location.cli.folder / "other"
    other.mkdir()
    away["backfill_schedule"] = "0 3 * * *"
    location.cli.settings["corpora"]["other"] = {"source": {"kind": "files", "root": str(other)}}
    location.begin()
    if how == "raises":
        away["source"]["kind"] = f"{__name__}:{Away.__name__}"
    else:
        for path in location.cli.docs.iterdir():
            path.unlink()
    if how == "gone":
        location.cli.docs.rmdir()
    (other / "new.md").write_text(text_about("new"))
    os.utime(other / "new.md", (SETTLED, SETTLED))

    reasons = []
    for sensor in (tick, look):
        first = sensor(location)
        location.end_runs(first.run_requests)
        again = sensor(location, first.cursor)
        of = {corpus for run in first.run_requests or () for corpus in indexed_by(run)}
        assert "docs" in of
        assert not any("docs" in indexed_by(run) for run in again.run_requests or ())
        reasons.append(again.skip_message)
    with pytest.raises(dg.DagsterUserCodeExecutionError) as error:
        backfill_tick(location)
    reasons.append(str(error.value.user_exception))
    observed = observe_alone(location)
    reasons.append(str(observed.failure_data_for_node("docs_source").error))

    assert [event.partition for event in first.asset_events] == ["new.md"]
    assert not observed.success
    why = {"emptied": "`allow_loss: true`", "gone": "no such directory", "raises": "no route to the wiki"}[how]
    for reason in reasons:
        assert why in str(reason)
        assert "--allow-loss" not in str(reason)


def test_a_row_that_cannot_be_listed_starts_one_run_which_names_it(location: Location) -> None:
    """Nothing else may have changed: the rows beside it are as before, and one that was deleted stays for now."""
    rows = location.cli.folder / "rows.jsonl"
    source = {"kind": "records", "path": "rows.jsonl", "id": "id", "text": ["text"]}
    location.cli.settings["corpora"]["docs"]["source"] = source

    def write(*lines: str) -> None:
        rows.write_text("\n".join(lines) + "\n")
        os.utime(rows, (SETTLED, SETTLED + rows.stat().st_size))

    def started() -> list[list[str]]:
        return [
            [corpus for request in sensor(location).run_requests or () for corpus in indexed_by(request)]
            for sensor in (tick, look)
        ]

    good = ['{"id": "a", "text": "the first row"}', '{"id": "b", "text": "the second row"}']
    write(*good)
    assert location.index().success
    assert started() == [[], []]

    write(good[0], "{broken")
    assert started() == [["docs"], ["docs"]]
    assert not location.index().success
    assert "rows.jsonl:2" in location.instance.get_runs(limit=1)[0].tags[FAILED_TAG]
    assert started() == [[], []]

    write(*good)
    assert started() == [["docs"], ["docs"]]
    assert location.index().success
    assert started() == [[], []]


def indexed_by(request: dg.RunRequest) -> list[str]:
    """Return the corpora that a run is to index."""
    corpora: list[str] = request.run_config["ops"]["discover"]["config"]["corpora"]
    return corpora


def observe_alone(location: Location) -> dg.ExecuteInProcessResult:
    """Observe the source of docs, as the UI does."""
    job = location.definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=location.instance, asset_selection=[dg.AssetKey(["docs", "source"])], raise_on_error=False
    )


def test_what_dagster_shows_as_failed_is_backfilled_or_logged_again_by_the_job(location: Location) -> None:
    """A run of records fails while they are rolled back, and no later run finds anything new."""
    location.cli.settings["retain"] = 3
    location.cli.settings["corpora"]["docs"]["backfill_schedule"] = "0 3 * * *"
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    assert location.index().success
    location.settle()
    assert location.index().success
    location.aid.rollback()
    assert not location.materialize(STAGES, "ledger.md").success
    location.aid.publish()
    assert location.failed() == {("records", "ledger.md")}
    before = location.events()

    assert backfill_tick(location).endswith("of 1 stale, missing or failed partitions of docs")
    end_backfills(location)
    assert location.index().success

    assert location.failed() == set()
    assert location.events() - before == {("records", "ledger.md"): 1}
    assert backfill_tick(location) == UNCHANGED


@pytest.mark.parametrize(("given", "again"), [({}, False), ({"dagster/retry_on_asset_or_op_failure": "true"}, True)])
def test_run_retries_of_an_instance_repeat_no_failure_unless_the_run_asks_for_it(
    location: Location, given: dict[str, str], again: bool
) -> None:
    location.cli.write("ledger.md", BINARY)

    assert not location.index(tags={"dagster/max_retries": "2", **given}).success

    (run,) = location.instance.get_runs()
    assert auto_reexecution_should_retry_run(location.instance, run, RunFailureReason.STEP_FAILURE) == again
    assert auto_reexecution_should_retry_run(location.instance, run, RunFailureReason.UNEXPECTED_TERMINATION)


def test_what_was_wiped_in_dagster_is_backfilled_or_logged_again_by_the_job(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["backfill_schedule"] = "0 3 * * *"
    location.begin()
    location.instance.wipe_assets([dg.AssetKey(["docs", "surfaces"])])
    assert {stage for _, stages in location.stale().items() for stage in stages} >= {"surfaces"}

    assert backfill_tick(location).endswith("of 4 stale, missing or failed partitions of docs")
    end_backfills(location)
    assert location.index().success

    assert location.all_fresh()
    assert backfill_tick(location) == UNCHANGED


def test_a_materialization_with_another_embedder_publishes_beside_what_fails(location: Location) -> None:
    location.begin()
    location.cli.write("ledger.md", BINARY)
    location.cli.settings["embedder"] = {"kind": "findingaid.testing.CountingEmbedder", "name": "other"}

    assert not location.materialize(STAGES, "ledger.md", "writer.md").success

    assert {hit.artifact_id for hit in location.aid.search("about", 50)} == {"reader.md", "vector.md", "writer.md"}
    assert location.failed() == {(stage, "ledger.md") for stage in STAGES}


def evaluated(location: Location) -> set[str]:
    """Return the checks that Dagster shows as evaluated for the latest materialization of their asset."""
    keys = [
        dg.AssetCheckKey(dg.AssetKey(["docs", check.stage]), check.name)
        for check in checks_of(location.aid.corpora["docs"])
    ]
    found = location.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)

    async def targets() -> set[str]:
        context = LoadingContextForTest(location.instance)
        return {key.name for key, record in found.items() if await record.targets_latest_materialization(context)}

    return asyncio.run(targets())


@pytest.mark.parametrize("by", ["job", "asset"])
def test_checks_are_evaluated_of_what_the_command_line_indexed(location: Location, by: str) -> None:
    location.begin()
    location.cli.settings["corpora"]["docs"]["access"] = [{"readers": ["public"]}]
    location.cli.run("index")
    (location.cli.docs / "ledger.md").unlink()
    location.cli.write("reader.md", text_about("another reader"))
    assert location.cli.run("index").exit_code == 0

    done = location.index() if by == "job" else location.materialize_published()

    assert done.success
    assert evaluated(location) == {check.name for check in checks_of(location.aid.corpora["docs"])}
    assert len(location.index().get_asset_check_evaluations()) == 0


@pytest.mark.parametrize("module", ["pipelines.index", "assets.corpus"])
def test_checks_are_evaluated_after_a_run_that_was_killed_before_it_had_logged_them(
    location: Location, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))

    def killed(*arguments: object) -> None:
        raise RuntimeError

    run = location.index if module == "pipelines.index" else location.materialize_published
    with monkeypatch.context() as patch:
        patch.setattr(f"findingaid_dagster.{module}.log_checks", killed)
        assert not run().success
    assert location.all_fresh()
    assert evaluated(location) == set()

    assert location.index().success

    assert evaluated(location) == {check.name for check in checks_of(location.aid.corpora["docs"])}
    assert len(location.index().get_asset_check_evaluations()) == 0


def test_checks_are_evaluated_after_runs_at_once(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that began last ends before the other one has logged its records."""
    location.begin()
    for name in ("ledger.md", "reader.md"):
        location.cli.write(name, text_about(f"another {name}"))
    other: list[bool] = []

    def later(*arguments: Any, **options: Any) -> None:
        if not other:
            other.append(False)
            other[0] = location.materialize(STAGES, "reader.md").success
        sync(*arguments, **options)

    monkeypatch.setattr("findingaid_dagster.assets.corpus.sync", later)
    monkeypatch.setattr("findingaid_dagster.assets.corpus.materialize", partial(materialize_later, materialize))
    assert location.materialize(STAGES, "ledger.md").success

    assert other == [True]
    assert evaluated(location) == {check.name for check in checks_of(location.aid.corpora["docs"])}


def materialize_later(materialize: Any, *arguments: Any, at_once: bool) -> Any:
    """Log all events after the run has given back its lease, as it does those of the records."""
    return materialize(*arguments, at_once=False)


@pytest.mark.parametrize("by", ["artifact", "bucket"])
def test_a_partition_that_a_backfill_waits_for_stays_until_the_backfill_has_ended(location: Location, by: str) -> None:
    """Dagster ends a backfill that has lost one, and what its other runs were to build stays missing."""
    buckets = 64
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": by, "buckets": buckets}
    location.begin()
    gone = Keys(buckets if by == "bucket" else 0).key_of("ledger.md")
    context = dg.build_schedule_context(location.instance, repository_def=location.definitions.get_repository_def())
    keys = location.instance.get_dynamic_partitions("docs")
    launch_backfill(context, [dg.AssetKey(["docs", "records"])], keys, {}, "waiting")
    (location.cli.docs / "ledger.md").unlink()
    if by == "bucket":
        assert location.materialize(STAGES, gone).success
    assert location.index().success
    assert gone in location.instance.get_dynamic_partitions("docs")
    assert not any(look(location, sensor=sensor).run_requests for sensor in SENSORS)

    end_backfills(location)

    assert all(look(location, sensor=sensor).run_requests for sensor in SENSORS)
    assert location.index().success
    assert gone not in location.instance.get_dynamic_partitions("docs")
    assert not any(look(location, sensor=sensor).run_requests for sensor in SENSORS)


@pytest.mark.parametrize(("left", "by"), [("synopses", "artifact"), ("synopses", "bucket"), ("embeddings", "artifact")])
def test_a_stage_that_a_selection_left_out_is_told_by_the_next_run_of_all(
    location: Location, left: str, by: str
) -> None:
    """The command line built it, and a materialization told of the stages before it and behind it."""
    location.cli.settings["corpora"]["docs"]["partitions"] = {"by": by, "buckets": 1}
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    location.settle()
    assert location.cli.run("index").exit_code == 0
    key = "ledger.md" if by == "artifact" else Keys(1).key_of("ledger.md")
    assert location.materialize([stage for stage in STAGES if stage != left], key).success
    assert left in location.stale()[key]

    assert location.index().success

    assert location.stale() == {}
    logged = location.events()
    assert location.index().success
    assert location.events() == logged
