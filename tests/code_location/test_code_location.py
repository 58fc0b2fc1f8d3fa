"""Code location on a real instance: the job, materializations from the UI, and the resulting staleness."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from alembic.script import ScriptDirectory
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from sqlalchemy.engine import Engine

import findingaid
from findingaid import FindingAid
from findingaid.sources.files import RACY_NANOSECONDS
from findingaid_dagster.assets import artifact_id_of, checks, partition_key, plots
from findingaid_dagster.internals.events import logged_data_versions
from findingaid_dagster.internals.sqlite import BatchingSqliteEventLog
from findingaid_dagster.resources import FindingAidResource
from tests.conftest import PLAIN, Cli, text_about
from tests.paths import ROOT

STAGES = [stage.value for stage in PLAIN]


@pytest.fixture
def location(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    yield from open_location(cli, monkeypatch)


DAGSTER_YAML = (ROOT / ".dagster" / "dagster.yaml").read_text()

RUN = "history/runs/run.db"
"""Database of a run, of which each has its own."""

read_migrations = functools.cache(ScriptDirectory.from_config)
"""The scripts of Dagster's migrations, which it reads again for each database that it opens."""


def open_location(cli: Cli, monkeypatch: pytest.MonkeyPatch, dagster_yaml: str = DAGSTER_YAML) -> Iterator[Location]:
    home = cli.folder / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_text(dagster_yaml)
    if dagster_yaml == DAGSTER_YAML:
        for name in empty_databases().keys() - {RUN}:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(empty_databases()[name])
    monkeypatch.setattr(ScriptDirectory, "from_config", read_migrations)
    monkeypatch.setattr(BatchingSqliteEventLog, "_initdb", copy_tables)
    for name in ("bars", "histogram"):
        monkeypatch.setattr(checks, name, drawn_once(name))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("FINDINGAID_CONFIG", str(cli.config))
    for topic in ("ledger", "vector", "reader", "writer"):
        cli.write(f"{topic}.md", text_about(topic))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.configure()
    with dg.DagsterInstance.get() as instance:
        yield Location(cli, instance)


@functools.cache
def drawn_once(name: str) -> Callable[..., dg.MarkdownMetadataValue]:
    """Return a function of plots that draws each picture once: most tests have the same four documents."""
    pictures: dict[str, dg.MarkdownMetadataValue] = {}

    def draw(*arguments: object) -> dg.MarkdownMetadataValue:
        shown = repr(arguments)
        if shown not in pictures:
            pictures[shown] = getattr(plots, name)(*arguments)
        return pictures[shown]

    return draw


@functools.cache
def empty_databases() -> dict[str, bytes]:
    """Map each database of a new instance to its content: making the tables takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", folder)
        Path(folder, "dagster.yaml").write_text(DAGSTER_YAML)
        with dg.DagsterInstance.get() as instance, instance.event_log_storage.run_connection("run"):
            pass
        return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*.db")}


make_tables = BatchingSqliteEventLog._initdb


def copy_tables(storage: BatchingSqliteEventLog, engine: Engine, for_index_shard: bool = False) -> None:
    """Start the database of a run as a copy of an empty one."""
    database = Path(str(engine.url.database))
    if database.exists():
        make_tables(storage, engine, for_index_shard)
    else:
        database.write_bytes(empty_databases()[RUN])


class Location:
    """The code location of a configuration, loaded anew for every run as a new process would."""

    def __init__(self, cli: Cli, instance: dg.DagsterInstance) -> None:
        self.cli = cli
        self.instance = instance

    @property
    def definitions(self) -> dg.Definitions:
        from findingaid_dagster.pipelines.code_location import build_definitions

        self.cli.configure()
        return build_definitions(self.cli.config)

    @property
    def aid(self) -> FindingAid:
        return findingaid.open(self.cli.config)

    def index(self, tags: dict[str, str] | None = None, **config: object) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_job_def("index")
        run_config = {"ops": {"discover": {"config": config}}}
        return job.execute_in_process(run_config=run_config, instance=self.instance, tags=tags, raise_on_error=False)

    def materialize(
        self, stages: list[str], start: str, end: str | None = None, config: dict[str, bool] | None = None
    ) -> dg.ExecuteInProcessResult:
        """Run the job that the UI launches for one partition or a range: the implicit asset job, tagged."""
        keys = [dg.AssetKey(["docs", stage]) for stage in stages]
        tags = (
            {"dagster/partition": start}
            if end is None
            else {"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end}
        )
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            run_config={"ops": {"docs_index": {"config": config}}} if config else None,
            instance=self.instance,
            asset_selection=keys,
            tags=tags,
            raise_on_error=False,
        )

    def staleness(self, every: int = 1) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
        """(stage, partition) -> (status, reasons), by Dagster's own resolver, of all or of one partition in so many."""
        graph = self.definitions.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        found = {}
        for stage in STAGES:
            for key in self.instance.get_dynamic_partitions("docs")[::every]:
                asset = dg.AssetKey(["docs", stage])
                causes = resolver.get_stale_causes(asset, key)
                found[stage, key] = (resolver.get_status(asset, key).value, tuple(cause.reason for cause in causes))
        return found

    def staleness_of(
        self, asset: dg.AssetKey, partition: str | None = None, definitions: dg.Definitions | None = None
    ) -> tuple[str, tuple[str, ...]]:
        """(status, reasons) of one asset or partition."""
        graph = (definitions or self.definitions).resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        causes = resolver.get_stale_causes(asset, partition)
        return resolver.get_status(asset, partition).value, tuple(cause.reason for cause in causes)

    def events(self) -> Counter[tuple[str, str | None]]:
        """(stage, partition) -> materializations ever logged."""
        counted: Counter[tuple[str, str | None]] = Counter()
        for stage in STAGES:
            found = self.instance.fetch_materializations(dg.AssetKey(["docs", stage]), limit=1000).records
            counted.update((stage, record.partition_key) for record in found)
        return counted

    def all_fresh(self) -> bool:
        return set(self.staleness().values()) == {("FRESH", ())}


@pytest.mark.dagster_versions
def test_the_job_logs_every_partition_of_every_asset_once_with_its_own_version(location: Location) -> None:
    assert location.index().success

    keys = ["ledger.md", "reader.md", "vector.md", "writer.md"]
    rows = location.aid.indexer("docs").ledger.rows("docs")
    assert location.instance.get_dynamic_partitions("docs") == keys
    assert location.events() == {(stage, key): 1 for stage in STAGES for key in keys}
    for stage in PLAIN:
        logged = logged_data_versions(location.instance, dg.AssetKey(["docs", stage.value]))
        assert logged == {key: rows[key].version(stage) for key in keys}
        assert len(set(logged.values())) == 4
    assert location.all_fresh()
    assert location.aid.verify() == []


def test_the_job_builds_named_artifacts_and_stages_alone(location: Location) -> None:
    location.index()
    before = location.aid.indexer("docs").ledger.rows("docs")

    assert location.index(artifacts=["ledger.md"], stages=["synopses"], force=True, pay_again=True).success
    unknown = location.index(artifacts=["gone.md"])

    after = location.aid.indexer("docs").ledger.rows("docs")
    assert {key for key, row in after.items() if row.updated != before[key].updated} == {"ledger.md"}
    (failed,) = [event for event in unknown.all_events if event.is_step_failure]
    assert "artifact 'gone.md': in none of the sources of docs" in str(failed.step_failure_data)


def test_a_partition_tag_limits_the_job_to_that_artifact(location: Location) -> None:
    location.index()
    before = location.events()
    for name in ("ledger.md", "reader.md"):
        location.cli.write(name, text_about(f"another {name}"))

    assert location.index({"dagster/partition": "ledger.md"}).success

    assert location.events() - before == Counter({(stage, "ledger.md"): 1 for stage in STAGES})


@pytest.mark.parametrize(
    ("tags", "artifacts", "why"),
    [
        ({"dagster/partition": "gone.md"}, [], "artifact 'gone.md': in none of the sources of docs"),
        ({"dagster/partition": "ledger.md"}, ["reader.md"], "dagster/partition=ledger.md contradicts `artifacts`"),
        ({"dagster/asset_partition_range_start": "ledger.md"}, [], "the job takes no range of partitions"),
    ],
)
def test_the_job_refuses_partition_tags_that_it_cannot_follow(
    location: Location, tags: dict[str, str], artifacts: list[str], why: str
) -> None:
    found = location.index(tags, artifacts=artifacts)

    (failed,) = [event for event in found.all_events if event.is_step_failure]
    assert why in str(failed.step_failure_data)
    assert location.aid.status()[0].artifacts == 0


def test_a_run_over_unchanged_sources_logs_nothing(location: Location) -> None:
    location.index()
    before = location.events()

    assert location.index().success

    assert location.events() == before


def test_an_edit_logs_that_partition_alone(location: Location) -> None:
    location.index()
    before = location.events()
    location.cli.write("ledger.md", text_about("another ledger"))

    assert location.index().success

    assert location.events() - before == Counter({(stage, "ledger.md"): 1 for stage in STAGES})
    assert location.all_fresh()


def test_a_changed_strategy_makes_surfaces_stale_and_a_run_makes_all_fresh(location: Location) -> None:
    location.index()
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}

    stale = {key for key, (status, _) in location.staleness().items() if status == "STALE"}
    assert location.index().success

    assert {stage for stage, _ in stale} == {"surfaces"}
    assert len(stale) == 4
    assert location.all_fresh()


def observe(location: Location) -> set[str]:
    """Observe the source as the UI does; returns the partitions it reported."""
    before = len(location.instance.fetch_observations(dg.AssetKey(["docs", "source"]), limit=1000).records)
    job = location.definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=location.instance, asset_selection=[dg.AssetKey(["docs", "source"])]).success
    records = location.instance.fetch_observations(dg.AssetKey(["docs", "source"]), limit=1000).records
    return {str(record.partition_key) for record in records[: len(records) - before]}


def stale(location: Location) -> dict[str, set[str]]:
    """partition -> stages that Dagster does not call fresh."""
    found: dict[str, set[str]] = {}
    for (stage, key), (status, _) in location.staleness().items():
        if status != "FRESH":
            found.setdefault(key, set()).add(stage)
    return found


@pytest.mark.dagster_versions
def test_an_observed_change_makes_exactly_its_partition_stale_until_the_next_run(location: Location) -> None:
    location.index()
    unchanged = observe(location)
    location.cli.write("ledger.md", text_about("another ledger"))

    reported = observe(location)
    before = stale(location)
    assert location.index().success

    assert unchanged == set()
    assert reported == {"ledger.md"}
    assert before == {"ledger.md": {"artifacts"}}
    assert location.all_fresh()
    assert observe(location) == set()


def test_a_touched_file_is_fresh_after_a_run_that_finds_it_unchanged(location: Location) -> None:
    location.index()
    before = location.events()
    os.utime(location.cli.docs / "ledger.md", (1_700_000_000, 1_700_000_000))

    reported = observe(location)
    touched = stale(location)
    assert location.index().success

    assert reported == {"ledger.md"}
    assert touched == {"ledger.md": {"artifacts"}}
    assert location.events() - before == Counter({("artifacts", "ledger.md"): 1})
    assert location.all_fresh()


def test_an_observed_new_file_has_a_partition_that_is_missing(location: Location) -> None:
    location.index()
    location.cli.write("added.md", text_about("added"))

    assert observe(location) == {"added.md"}
    assert stale(location) == {"added.md": set(STAGES)}
    assert location.index().success
    assert location.all_fresh()


def test_materializing_an_observed_change_makes_it_fresh(location: Location) -> None:
    location.index()
    location.cli.write("ledger.md", text_about("another ledger"))
    observe(location)

    assert location.materialize(STAGES, "ledger.md").success

    assert location.all_fresh()


def test_a_deleted_file_loses_its_partition(location: Location) -> None:
    location.index()
    (location.cli.docs / "ledger.md").unlink()

    assert location.index().success

    assert location.instance.get_dynamic_partitions("docs") == ["reader.md", "vector.md", "writer.md"]
    assert location.all_fresh()


def test_a_text_that_is_skipped_from_now_on_loses_its_partition_and_is_not_observed_again(location: Location) -> None:
    location.cli.settings["corpora"]["docs"]["source"]["unreadable"] = "skip"
    location.index()
    for name in ("ledger.md", "picture.md"):
        location.cli.write(name, b"\x00binary")

    assert location.index().success

    assert location.instance.get_dynamic_partitions("docs") == ["reader.md", "vector.md", "writer.md"]
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == {"reader.md", "vector.md", "writer.md"}
    observe(location)
    assert location.instance.get_dynamic_partitions("docs") == ["reader.md", "vector.md", "writer.md"]
    assert location.all_fresh()


def test_a_failed_artifact_fails_the_job_by_name_after_the_rest_is_published(location: Location) -> None:
    location.cli.write("bad.md", b"\x00binary")

    result = location.index()

    assert not result.success
    failure = result.filter_events(lambda event: event.is_step_failure)[0].step_failure_data
    assert "[artifacts: binary]" in failure.error.message + str(failure.user_failure_data)  # type: ignore[union-attr]
    assert {hit.artifact_id for hit in location.aid.search("sentence", 50)} == {
        "ledger.md",
        "reader.md",
        "vector.md",
        "writer.md",
    }
    assert location.staleness()["records", "bad.md"] == ("MISSING", ())


def test_a_source_that_is_gone_fails_the_job_and_not_the_other_corpus(location: Location) -> None:
    location.cli.settings["corpora"]["gone"] = {"source": {"kind": "files", "root": "nowhere"}}

    result = location.index()

    assert not result.success
    assert len(location.aid.search("sentence", 50)) == 8


def test_what_the_cli_did_is_shown_after_the_next_run(location: Location) -> None:
    assert location.cli.run("index").exit_code == 0

    assert location.index().success

    assert location.events() == {
        (stage, f"{name}.md"): 1 for stage in STAGES for name in ("ledger", "vector", "reader", "writer")
    }
    assert location.all_fresh()


@pytest.mark.dagster_versions
@pytest.mark.parametrize(("start", "end", "count"), [("ledger.md", None, 1), ("ledger.md", "vector.md", 3)])
def test_one_partition_and_a_range_can_be_materialized(
    location: Location, start: str, end: str | None, count: int
) -> None:
    location.instance.add_dynamic_partitions("docs", ["ledger.md", "reader.md", "vector.md", "writer.md"])

    result = location.materialize(STAGES, start, end)

    assert result.success
    assert sum(location.events().values()) == 5 * count
    assert len({hit.artifact_id for hit in location.aid.search("sentence", 50)}) == count
    fresh = [key for key, status in location.staleness().items() if status == ("FRESH", ())]
    assert len(fresh) == 5 * count


def test_one_stage_can_be_materialized_after_those_before_it(location: Location) -> None:
    location.index()
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}
    alone = location.materialize(["records"], "ledger.md")

    for stage in STAGES[1:]:
        assert location.materialize([stage], "ledger.md").success, stage

    assert not alone.success
    assert {key: status for key, status in location.staleness().items() if key[1] == "ledger.md"} == {
        (stage, "ledger.md"): ("FRESH", ()) for stage in STAGES
    }
    hits = location.aid.search("ledger", 50, where="artifact_id = 'ledger.md'")
    assert {hit.surface_kind for hit in hits} == {"document", "synopsis"}


def test_materializing_one_stage_leaves_those_after_it_stale(location: Location) -> None:
    location.index()
    location.cli.settings["corpora"]["docs"]["strategy"] = {"name": "WholeText"}

    assert location.materialize(["surfaces"], "ledger.md").success

    status = {stage: found for (stage, key), (found, _) in location.staleness().items() if key == "ledger.md"}
    assert status == {
        "artifacts": "FRESH",
        "surfaces": "FRESH",
        "synopses": "STALE",
        "embeddings": "STALE",
        "records": "STALE",
    }
    assert location.index().success
    assert location.all_fresh()


def test_materializing_a_later_stage_does_not_hide_a_changed_source(location: Location) -> None:
    location.index()
    location.cli.write("ledger.md", text_about("something else entirely"))

    assert location.materialize(STAGES[1:], "ledger.md").success
    assert location.index().success

    assert "something else entirely" in location.aid.search("something else", 1, mode="lexical")[0].text
    assert location.all_fresh()


def test_a_change_that_was_observed_stays_stale_when_a_later_stage_is_materialized(location: Location) -> None:
    location.index()
    location.cli.write("ledger.md", text_about("something else entirely"))
    observe(location)

    assert location.materialize(STAGES[1:], "ledger.md").success

    assert stale(location) == {"ledger.md": {"artifacts"}}


def test_a_change_that_was_observed_stays_stale_when_it_cannot_be_read(location: Location) -> None:
    location.index()
    location.cli.write("ledger.md", b"\x00binary now")
    observe(location)

    assert not location.index().success

    assert stale(location) == {"ledger.md": {"artifacts"}}


def test_materializing_what_the_source_no_longer_has_says_so(location: Location) -> None:
    location.index()
    (location.cli.docs / "ledger.md").unlink()

    result = location.materialize(STAGES, "ledger.md")

    assert not result.success
    assert any("no longer in the source" in str(event) for event in result.all_events if event.is_step_failure)


@pytest.mark.parametrize("artifact_id", ["a/b.md", "new\nline", "three...dots", "50%", "%0A", "ünï 🗂", "quote'\""])
def test_a_partition_key_gives_its_artifact_back(artifact_id: str) -> None:
    assert artifact_id_of(partition_key(artifact_id)) == artifact_id


def test_files_with_odd_names_have_partitions_like_any_other(location: Location) -> None:
    names = ["new\nline.md", "three...dots.md", "50%.md", "ünï 🗂.md", "sub/quote'\".md"]
    for name in names:
        location.cli.write(name, text_about(repr(name)))

    assert location.index().success

    assert {partition_key(name) for name in names} < set(location.instance.get_dynamic_partitions("docs"))
    assert location.all_fresh()
    for name in names:
        assert location.materialize(STAGES, partition_key(name)).success, name
    assert location.all_fresh()


@pytest.mark.dagster_versions
def test_the_instance_of_dagster_yaml_batches_events(location: Location) -> None:
    storage = location.instance.event_log_storage
    batches: list[int] = []
    stored = storage.store_event_batch
    storage.store_event_batch = lambda events: (batches.append(len(events)), stored(events))[1]  # type: ignore[method-assign,func-returns-value]

    location.index()

    assert isinstance(storage, BatchingSqliteEventLog)
    assert batches == [4] * 6 + [1]  # the five assets, the observed source, and the published records


def run_cli(folder: Path, home: Path | None, config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"} | {"FINDINGAID_CONFIG": str(config)}
    if home:
        environment["DAGSTER_HOME"] = str(home)
    dagster = Path(sys.executable).parent / "dagster"
    return subprocess.run(
        [dagster, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("with_home", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_job_runs_from_the_command_line_and_is_incremental(location: Location, with_home: bool) -> None:
    home = location.cli.folder / "dagster_home" if with_home else None
    arguments = ("job", "execute", "-f", "pipelines/definitions.py", "-j", "index")

    first = run_cli(ROOT, home, location.cli.config, *arguments)
    made = location.aid.store.dataset("records").version
    second = run_cli(ROOT, home, location.cli.config, *arguments)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    # Not the last lines of its output: Dagster may end before it has printed those.
    assert "docs: 4 artifacts, 4 stale" in first.stderr
    assert "docs: 4 artifacts, 0 stale" in second.stderr
    assert location.aid.store.dataset("records").version == made
    assert location.events().total() == (20 if with_home else 0)
    assert len(location.aid.search("sentence", 50)) == 8


@pytest.mark.dagster_versions
def test_a_failed_artifact_is_the_exit_status_of_the_command_line(location: Location) -> None:
    location.cli.write("bad.md", b"\x00binary")

    done = run_cli(ROOT, None, location.cli.config, "job", "execute", "-f", "pipelines/definitions.py", "-j", "index")

    assert done.returncode != 0
    assert "bad.md: run `findingaid status --failed` for the reason [artifacts: binary]" in done.stderr


def test_the_workspace_loads_from_elsewhere(location: Location) -> None:
    done = run_cli(Path("/"), None, location.cli.config, "definitions", "validate", "-w", str(ROOT / "workspace.yaml"))

    assert done.returncode == 0, done.stderr
    assert "All code locations passed validation" in done.stderr + done.stdout


def test_a_broken_configuration_is_named_by_the_code_location(location: Location) -> None:
    location.cli.config.write_text(yaml.safe_dump({**location.cli.settings, "stoer": "x"}))

    done = run_cli(ROOT, None, location.cli.config, "definitions", "validate", "-w", "workspace.yaml")

    assert done.returncode != 0
    assert "stoer: unknown key" in done.stderr + done.stdout


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
            requests = [dict(request.run_config) for request in data.run_requests or ()]
            return requests, data.skip_message, data.cursor

    def test_a_change_starts_one_run_for_its_corpus(self, location: Location) -> None:
        first, _, cursor = self.tick(location)
        location.index()
        second, _, cursor = self.tick(location, cursor)
        time.sleep(RACY_NANOSECONDS / 1e9)
        location.index()
        location.cli.write("ledger.md", text_about("another"))
        third, _, _ = self.tick(location, cursor)

        assert first == third == [{"ops": {"discover": {"config": {"corpora": ["docs"]}}}}]
        assert second in ([], first)  # files just written are looked at once more

    def test_what_keeps_failing_starts_one_run(self, location: Location) -> None:
        location.cli.write("bad.md", b"\x00binary")
        location.index()
        time.sleep(RACY_NANOSECONDS / 1e9)
        location.index()

        first, _, cursor = self.tick(location)
        location.index()
        second, reason, _ = self.tick(location, cursor)

        assert len(first) == 1
        assert second == []
        assert "tried them" in (reason or "")

    def test_a_source_that_cannot_be_listed_is_the_reason(self, location: Location) -> None:
        location.cli.settings["corpora"] = {"gone": {"source": {"kind": "files", "root": "nowhere"}}}

        requests, reason, _ = self.tick(location)

        assert requests == []
        assert "no such directory" in (reason or "")

    def test_a_run_under_way_is_waited_for(self, location: Location) -> None:
        location.instance.create_run_for_job(
            location.definitions.resolve_job_def("index"), status=dg.DagsterRunStatus.STARTED
        )

        assert self.tick(location)[:2] == ([], "a run of the index job is under way")


def test_a_corpus_with_a_schedule_has_one_that_indexes_it_alone(location: Location) -> None:
    assert list(location.definitions.schedules or ()) == []
    location.cli.settings["corpora"]["docs"]["schedule"] = "0 3 * * *"

    schedule = location.definitions.resolve_schedule_def("docs_schedule")
    with dg.build_schedule_context(location.instance) as context:
        (request,) = schedule.evaluate_tick(context).run_requests or ()

    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    job = location.definitions.resolve_job_def("index")
    assert job.execute_in_process(run_config=request.run_config, instance=location.instance).success
    assert location.all_fresh()


def test_an_unknown_corpus_in_the_configuration_of_a_run_fails_it_in_one_line(location: Location) -> None:
    result = location.index(corpora=["nope"])

    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert failed.step_failure_data.user_failure_data is not None
    assert failed.step_failure_data.user_failure_data.description == "unknown corpus 'nope'. Known: docs"
