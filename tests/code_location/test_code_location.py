"""Code location on a real instance: the job, materializations from the UI, and the resulting staleness."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
import yaml

from findingaid.store import Leases
from findingaid.store.leases import LeaseRow
from findingaid_dagster.assets import artifact_id_of, partition_key
from findingaid_dagster.internals.definitions import config_field
from findingaid_dagster.internals.events import logged_data_versions
from findingaid_dagster.internals.sqlite import BatchingSqliteEventLog
from findingaid_dagster.pipelines.index import IndexConfig
from findingaid_dagster.resources import FindingAidResource
from tests.conftest import PLAIN, Cli, text_about
from tests.paths import ROOT
from tests.support.location import SETTLED, STAGES, Location, dagster, defined, open_location, run_cli

KEYS = ["ledger.md", "reader.md", "vector.md", "writer.md"]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


@pytest.mark.dagster_versions
def test_the_job_logs_every_partition_of_every_asset_once_in_batches_with_its_own_version(location: Location) -> None:
    storage = location.instance.event_log_storage
    batches: list[int] = []
    stored = storage.store_event_batch
    storage.store_event_batch = lambda events: (batches.append(len(events)), stored(events))[1]  # type: ignore[method-assign,func-returns-value]

    assert location.index().success
    assert location.index().success

    rows = location.aid.indexer("docs").ledger.rows("docs")
    assert isinstance(storage, BatchingSqliteEventLog) or type(storage).__module__.startswith("dagster_postgres")
    # The five assets, the observed source, the plan of the records, and the published records.
    assert batches[:8] == [4] * 7 + [1]
    assert location.instance.get_dynamic_partitions("docs") == KEYS
    assert location.events() == {(stage, key): 1 for stage in STAGES for key in KEYS}
    for stage in PLAIN:
        logged = logged_data_versions(location.instance, dg.AssetKey(["docs", stage.value]))
        assert logged == {key: rows[key].version(stage) for key in KEYS}
        assert len(set(logged.values())) == 4
    assert location.all_fresh()
    assert location.aid.verify() == []


@pytest.mark.parametrize("by", ["index", "materialize"])
def test_a_run_logs_which_run_it_waits_for(location: Location, by: str) -> None:
    location.begin()
    location.cli.write("ledger.md", text_about("another ledger"))
    until = datetime.now(UTC) + timedelta(seconds=3)
    theirs = LeaseRow("them", "elsewhere", 1, "docs", "1", "", "", until)
    Leases(location.aid.store).edit(lambda _: [theirs])

    result = location.index() if by == "index" else location.materialize(["artifacts", "surfaces"], "ledger.md")

    assert result.success
    assert datetime.now(UTC) > until
    logged = [event.user_message for event in location.instance.all_logs(result.run_id)]
    assert logged.count("waiting for run 1 (process 1 on host elsewhere), which works on docs") == 1
    assert Leases(location.aid.store).held() == []


def test_the_job_builds_the_artifacts_and_stages_alone_that_tags_and_options_name(location: Location) -> None:
    location.begin()
    begun, events = location.aid.indexer("docs").ledger.rows("docs"), location.events()

    assert location.index(artifacts=["ledger.md"], stages=["synopses"], force=True, pay_again=True).success
    forced = location.aid.indexer("docs").ledger.rows("docs")
    for name in ("vector.md", "reader.md"):
        location.cli.write(name, text_about(f"another {name}"))
    assert location.index({"dagster/partition": "vector.md"}).success

    assert {key for key, row in forced.items() if row.updated != begun[key].updated} == {"ledger.md"}
    assert location.events() - events == Counter({(stage, "vector.md"): 1 for stage in STAGES})


def test_the_job_refuses_in_one_line_tags_and_options_that_it_cannot_follow(location: Location) -> None:
    def refusal(tags: dict[str, str] | None = None, **config: object) -> str:
        (failed,) = [event for event in location.index(tags, **config).all_events if event.is_step_failure]
        assert failed.step_failure_data.user_failure_data
        return str(failed.step_failure_data.user_failure_data.description)

    gone = "artifact 'gone.md': in none of the sources of docs"
    assert refusal({"dagster/partition": "gone.md"}).startswith(gone)
    assert refusal(artifacts=["gone.md"]).startswith(gone)
    contradiction = refusal({"dagster/partition": "ledger.md"}, artifacts=["reader.md"])
    assert contradiction.startswith("tag dagster/partition=ledger.md contradicts `artifacts`")
    assert "the job takes no range of partitions" in refusal({"dagster/asset_partition_range_start": "ledger.md"})
    assert refusal(corpora=["nope"]) == "unknown corpus 'nope'. Known: docs"
    assert location.aid.status()[0].artifacts == 0


@pytest.mark.dagster_versions
def test_an_observed_change_makes_exactly_its_partition_stale_until_the_next_run(location: Location) -> None:
    """A file that was edited, one that was touched, one that is new, and one that was deleted."""
    location.begin()
    unchanged, before = location.observe(), location.events()
    location.cli.write("ledger.md", text_about("another ledger"))
    os.utime(location.cli.docs / "reader.md", (SETTLED + 1, SETTLED + 1))
    location.cli.write("added.md", text_about("added"))
    (location.cli.docs / "vector.md").unlink()

    reported = location.observe()
    stale = location.stale()
    assert location.index().success

    assert unchanged == set()
    assert reported == {"ledger.md", "reader.md", "added.md"}
    assert stale == {"ledger.md": {"artifacts"}, "reader.md": {"artifacts"}, "added.md": set(STAGES)}
    built = {(stage, key): 1 for stage in STAGES for key in ("ledger.md", "added.md")}
    assert location.events() - before == Counter({**built, ("artifacts", "reader.md"): 1})
    assert set(location.instance.get_dynamic_partitions("docs")) == {"added.md", *KEYS} - {"vector.md"}
    assert location.all_fresh()
    assert location.observe() == set()


def test_an_observed_change_stays_stale_until_its_text_was_read(location: Location) -> None:
    """A later stage that was materialized does not hide it."""
    location.begin()
    location.cli.write("ledger.md", text_about("something else entirely"))
    location.observe()

    assert location.materialize(STAGES[1:], "ledger.md").success
    assert location.stale() == {"ledger.md": {"artifacts"}}
    assert location.index().success
    assert "something else entirely" in location.aid.search("something else", 1, mode="lexical")[0].text
    assert location.all_fresh()

    (location.cli.docs / "ledger.md").unlink()
    result = location.materialize(STAGES, "ledger.md")
    assert not result.success
    assert any("no longer in the source" in str(event) for event in result.all_events if event.is_step_failure)


def test_a_text_that_is_skipped_from_now_on_loses_its_partition_and_is_not_observed_again(location: Location) -> None:
    location.begin()
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    for name in ("ledger.md", "picture.md"):
        location.cli.write(name, b"\x00binary")

    assert location.index().success

    assert location.instance.get_dynamic_partitions("docs") == ["reader.md", "vector.md", "writer.md"]
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == {"reader.md", "vector.md", "writer.md"}
    location.observe()
    assert location.instance.get_dynamic_partitions("docs") == ["reader.md", "vector.md", "writer.md"]
    assert location.all_fresh()


def test_a_failed_artifact_and_a_source_that_is_gone_fail_the_job_after_the_rest_is_published(
    location: Location,
) -> None:
    location.cli.settings["corpora"]["gone"] = {"source": {"kind": "files", "root": "nowhere"}}
    location.cli.write("bad.md", b"\x00binary")

    result = location.index()

    assert not result.success
    (failed,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    why = str(failed.user_failure_data)
    assert "docs: bad.md: " in why
    assert "[artifacts: binary]" in why
    assert "no such directory" in why
    assert not any("gone: 0 artifacts" in entry.user_message for entry in location.instance.all_logs(result.run_id))
    assert [failure.kind for failure in location.aid.status(["gone"])[0].failed] == ["SourceError"]
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == set(KEYS)
    assert location.staleness()["records", "bad.md"] == ("MISSING", ())


@pytest.mark.dagster_versions
def test_one_partition_and_a_range_can_be_materialized(location: Location) -> None:
    location.instance.add_dynamic_partitions("docs", KEYS)

    for end, count in ((None, 1), ("vector.md", 3)):
        before = location.events()

        assert location.materialize(STAGES, "ledger.md", end).success

        assert set((location.events() - before).values()) == {1}
        assert set(location.events()) == {(stage, key) for stage in STAGES for key in KEYS[:count]}
        assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == set(KEYS[:count])
        assert location.stale() == {key: set(STAGES) for key in KEYS[count:]}


def test_a_changed_strategy_makes_surfaces_stale_and_each_stage_is_materialized_after_those_before_it(
    location: Location,
) -> None:
    location.begin()
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}

    assert location.stale() == {key: {"surfaces"} for key in KEYS}
    assert not location.materialize(["records"], "ledger.md").success
    assert location.materialize(STAGES[1:2], "ledger.md").success
    assert location.stale()["ledger.md"] == set(STAGES[2:])
    assert location.materialize(STAGES[2:], "ledger.md").success

    hits = location.aid.search("ledger", 50, where="artifact_id = 'ledger.md'")
    assert {hit.surface_kind for hit in hits} == {"document", "synopsis"}
    assert location.stale() == {key: {"surfaces"} for key in KEYS[1:]}


@pytest.mark.parametrize("artifact_id", ["a/b.md", "new\nline", "three...dots", "50%", "%0A", "ünï 🗂", "quote'\""])
def test_a_partition_key_gives_its_artifact_back(artifact_id: str) -> None:
    assert artifact_id_of(partition_key(artifact_id)) == artifact_id


def test_files_with_odd_names_have_partitions_like_any_other(location: Location) -> None:
    names = ["new\nline.md", "three...dots.md", "50%.md", "ünï 🗂.md", "sub/quote'\".md"]
    for path in location.cli.docs.iterdir():
        path.unlink()
    for name in names:
        location.cli.write(name, text_about(repr(name)))

    assert location.index().success

    keys = location.instance.get_dynamic_partitions("docs")
    assert set(keys) == {partition_key(name) for name in names}
    assert location.materialize(STAGES, keys[0], keys[-1]).success
    assert set(location.events().values()) == {2}
    assert location.all_fresh()


@pytest.mark.dagster_versions
def test_the_job_runs_from_the_command_line(location: Location) -> None:
    location.cli.write("bad.md", b"\x00binary")

    first = run_cli("job", "execute", *defined(location), "-j", "index")

    assert first.returncode != 0
    # Not the last lines of its output: Dagster may end before it has printed those.
    assert "docs: 5 artifacts, 5 stale" in first.stderr
    assert "bad.md: run `findingaid status --failed` for the reason [artifacts: binary]" in first.stderr
    assert "Stack Trace" not in first.stderr
    assert location.events().total() == 20
    assert len(location.aid.search("sentence", 50)) == 8


def test_without_an_instance_the_job_indexes_logs_no_events_and_says_why_an_artifact_failed(
    location: Location, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("bad.md", "worse.md"):
        location.cli.write(name, b"\x00binary")
    monkeypatch.delenv("DAGSTER_HOME")

    done = dagster("job", "execute", *defined(location), "-j", "index")

    assert done.exit_code == 1
    told = (capfd.readouterr().err + done.stderr).splitlines()
    (ending,) = [line for line in told if "RUN_FAILURE" in line]
    assert "2 failed: docs: 2 artifacts (bad.md, worse.md): binary, not text: exclude it [artifacts: binary]" in ending
    assert "Stack Trace" not in " ".join(told)
    assert len(location.aid.search("sentence", 50)) == 8
    assert location.events().total() == 0


def test_the_workspace_loads_from_elsewhere_and_names_what_is_broken(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    validate = ("definitions", "validate", "-w", str(ROOT / "workspace.yaml"))

    done = dagster(*validate)
    location.cli.config.write_text(yaml.safe_dump({**location.cli.settings, "stoer": "x"}))
    broken = dagster(*validate)

    assert done.exit_code == 0, done.output
    assert "All code locations passed validation" in done.output
    assert broken.exit_code != 0
    assert "stoer: unknown key" in broken.output


def test_a_code_location_loads_the_configuration_beside_it_before_that_of_the_working_directory(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.cli.configure()
    monkeypatch.chdir(location.cli.folder)
    calls = "from findingaid_dagster import build_definitions\ndefs = build_definitions('findingaid.yaml')\n"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "definitions.py").write_text(calls)

    def corpora() -> set[str]:
        defs = runpy.run_path(str(tmp_path / "own" / "definitions.py"))["defs"]
        return {key.path[0] for key in defs.resolve_asset_graph().get_all_asset_keys()}

    before = corpora()
    settings = {**location.cli.settings, "corpora": {"other": location.cli.settings["corpora"]["docs"]}}
    (tmp_path / "own" / "findingaid.yaml").write_text(yaml.safe_dump(settings))

    assert (before, corpora()) == ({"docs"}, {"other"})


@pytest.mark.slow
def test_dg_checks_the_definitions_of_a_checkout(location: Location) -> None:
    program = Path(sys.executable).parent / "dg"

    done = subprocess.run([program, "check", "defs"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All definitions loaded successfully" in done.stdout


class TestSensor:
    """The sensor that notices changed sources, as the daemon evaluates it."""

    def tick(
        self, location: Location, cursor: str | None = None
    ) -> tuple[list[dict[str, object]], str | None, str | None]:
        """(run configurations asked for, reason for none, cursor after)."""
        sensor = location.definitions.resolve_sensor_def("changed_sources")
        resources = {"findingaid": FindingAidResource(config_path=str(location.cli.config))}
        with dg.build_sensor_context(location.instance, cursor=cursor, resources=resources) as context:
            data = sensor.evaluate_tick(context)
            if location.aid.store.exists():
                location.end_runs(data.run_requests)
            requests = [dict(request.run_config) for request in data.run_requests or ()]
            return requests, data.skip_message, data.cursor

    def test_a_change_and_a_failure_start_one_run_for_their_corpus(self, location: Location) -> None:
        run = {"ops": {"discover": {"config": {"corpora": ["docs"]}}}}
        first, _, cursor = self.tick(location)
        location.begin()
        second, quiet, cursor = self.tick(location, cursor)
        location.cli.write("bad.md", b"\x00binary")
        location.settle()
        third, _, cursor = self.tick(location, cursor)
        run_id = location.instance.get_run_records(limit=1)[0].dagster_run.run_id[:8]
        fourth, reason, cursor = self.tick(location, cursor)
        location.index()
        fifth, tried, _ = self.tick(location, cursor)

        assert first == third == [run]
        assert (second, quiet) == ([], "nothing changed")
        assert (fourth, reason) == ([], f"docs: as stale as when run {run_id} tried it: see that run")
        assert (fifth, tried) == ([], "nothing changed")

    def test_a_source_that_cannot_be_listed_starts_one_run_beside_those_for_other_corpora(
        self, location: Location
    ) -> None:
        gone = {"source": {"kind": "files", "root": "nowhere"}}
        location.cli.settings["corpora"] = {"gone": gone, **location.cli.settings["corpora"]}
        location.cli.configure()
        location.settle()

        location.index(corpora=["docs"])
        first, _, cursor = self.tick(location)
        second, reason, cursor = self.tick(location, cursor)
        location.cli.write("added.md", text_about("added"))
        third, _, _ = self.tick(location, cursor)

        assert first == [{"ops": {"discover": {"config": {"corpora": ["gone"]}}}}]
        assert second == []
        assert "no such directory" in (reason or "")
        assert third == [{"ops": {"discover": {"config": {"corpora": ["docs"]}}}}]


def test_a_corpus_with_a_schedule_has_one_that_indexes_it_alone(location: Location) -> None:
    assert list(location.definitions.schedules or ()) == []
    location.cli.settings["corpora"]["docs"]["schedule"] = "0 3 * * *"

    schedule = location.definitions.resolve_schedule_def("docs_schedule")
    with dg.build_schedule_context(location.instance) as context:
        (request,) = schedule.evaluate_tick(context).run_requests or ()

    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert schedule.job_name == "index"
    assert request.run_config == {"ops": {"discover": {"config": {"corpora": ["docs"]}}}}


def test_the_launchpad_of_the_job_begins_with_all_its_options() -> None:
    assert config_field(IndexConfig).default_value.keys() == IndexConfig.model_fields.keys()
