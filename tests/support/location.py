"""The code location of a configuration on a real Dagster instance, and what tests ask of it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from click.testing import CliRunner, Result
from dagster._cli import create_dagster_cli
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from sqlalchemy.engine import Engine

import findingaid
from findingaid import FindingAid
from findingaid.identity.hashes import text_hash
from findingaid.sources import files
from findingaid_dagster.assets import FAILED_TAG, checks, partitions_of, plots
from findingaid_dagster.internals.sqlite import BatchingSqliteEventLog
from findingaid_dagster.pipelines import sensors
from findingaid_dagster.pipelines.code_location import build_definitions
from tests.conftest import PLAIN, Cli, text_about
from tests.paths import ROOT
from tests.support.listings import listing_by_time

STAGES = [stage.value for stage in PLAIN]

HOUR_AGO = SimpleNamespace(time=lambda: time.time() - 3600)
"""In place of `time`, for a module that sees the clock after it was set back."""

DAGSTER_YAML = (ROOT / ".dagster" / "dagster.yaml").read_text()

QUIET = f"""{DAGSTER_YAML}
compute_logs:  # else each run starts four processes that copy its output
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""

RUN = "history/runs/run.db"
"""Database of a run, of which each has its own."""

SETTLED = 1_700_000_000
"""Time of the files of an index that was copied: long ago, so that their stamps are certain."""

read_migrations = functools.cache(ScriptDirectory.from_config)
"""The scripts of Dagster's migrations, which it reads again for each database that it opens."""


def open_location(cli: Cli, monkeypatch: pytest.MonkeyPatch, dagster_yaml: str = QUIET) -> Iterator[Location]:
    """Yield the location of a corpus of four documents on an empty instance, by default without its compute logs."""
    home = cli.folder / "dagster_home"
    home.mkdir()
    (home / "dagster.yaml").write_text(dagster_yaml)
    own = dagster_yaml in {DAGSTER_YAML, QUIET}
    if own:
        for name in empty_databases().keys() - {RUN}:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(empty_databases()[name])
    monkeypatch.setattr(ScriptDirectory, "from_config", read_migrations)
    monkeypatch.setattr(BatchingSqliteEventLog, "_initdb", copy_tables)
    monkeypatch.setattr(files, "_listing", listing_by_time)
    monkeypatch.setattr(sensors, "JUST_NOW", 0)  # as if automation had looked since the last run
    for name in ("bars", "histogram"):
        monkeypatch.setattr(checks, name, drawn_once(name))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("FINDINGAID_CONFIG", str(cli.config))
    for topic in ("ledger", "vector", "reader", "writer"):
        cli.write(f"{topic}.md", text_about(topic))
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.configure()
    with dg.DagsterInstance.get() as instance:
        yield Location(cli, instance, templates() if own else None)


def files_of_dagster(folder: Path) -> list[Path]:
    """Return the files in a folder: among them are the databases of an instance and the output of its runs."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert any("compute_logs" in path.parts for path in files)
    return files


@functools.cache
def drawn_once(name: str) -> Callable[..., dg.MarkdownMetadataValue]:
    """Return a function of plots that draws one picture; tests/code_location/test_plots.py draws the others."""
    pictures: list[dg.MarkdownMetadataValue] = []

    def draw(*arguments: object) -> dg.MarkdownMetadataValue:
        if not pictures:
            pictures.append(getattr(plots, name)(*arguments))
        return pictures[0]

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


@functools.cache
def templates() -> tempfile.TemporaryDirectory[str]:
    """Return the folder in which this process keeps what runs left."""
    return tempfile.TemporaryDirectory(prefix="findingaid-locations-")


make_tables = BatchingSqliteEventLog._initdb


def copy_tables(storage: BatchingSqliteEventLog, engine: Engine, for_index_shard: bool = False) -> None:
    """Start the database of a run as a copy of an empty one."""
    database = Path(str(engine.url.database))
    if database.exists():
        make_tables(storage, engine, for_index_shard)
    else:
        database.write_bytes(empty_databases()[RUN])


class Location:
    """The code location of a configuration, loaded anew whenever the configuration has changed."""

    def __init__(
        self, cli: Cli, instance: dg.DagsterInstance, kept: tempfile.TemporaryDirectory[str] | None = None
    ) -> None:
        self.cli = cli
        self.instance = instance
        self._kept = kept
        self._loaded: dict[str, dg.Definitions] = {}

    @property
    def definitions(self) -> dg.Definitions:
        self.cli.configure()
        settings = self.cli.config.read_text()
        if settings not in self._loaded:
            self._loaded = {settings: build_definitions(self.cli.config)}
        return self._loaded[settings]

    @property
    def aid(self) -> FindingAid:
        return findingaid.open(self.cli.config)

    def index(self, tags: dict[str, str] | None = None, **config: object) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_job_def("index")
        run_config = {"ops": {"discover": {"config": config}}}
        return job.execute_in_process(run_config=run_config, instance=self.instance, tags=tags, raise_on_error=False)

    def settle(self) -> None:
        """Give the documents a time long ago, so that no later run reads them again."""
        for path in self._documents():
            os.utime(path, (SETTLED, SETTLED))

    def begin(self, by: Callable[[], dg.ExecuteInProcessResult] | None = None) -> None:
        """Index the settled documents, or copy what was left where they and the configuration were the same.

        The job does it, or else `by`.
        """
        self.cli.configure()
        self.settle()
        contents = [(path.name, path.read_bytes()) for path in self._documents()]
        run = by or self.index
        if self._kept is None:
            assert run().success
            return
        key = text_hash(repr([run.__qualname__, self.cli.settings, contents]))
        kept, parts = Path(self._kept.name) / key, ("index", "dagster_home")
        if not kept.exists():
            assert run().success
            self.instance.event_log_storage.dispose()
            for part in parts:
                shutil.copytree(self.cli.folder / part, kept / part)
            return
        self.instance.event_log_storage.dispose()
        for part in parts:
            shutil.copytree(kept / part, self.cli.folder / part, dirs_exist_ok=True)

    def _documents(self) -> list[Path]:
        return sorted(path for path in self.cli.docs.rglob("*") if path.is_file())

    def materialize(
        self,
        stages: list[str],
        start: str,
        end: str | None = None,
        config: dict[str, bool] | None = None,
        tags: dict[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Run the job that the UI launches for one partition or a range: the implicit asset job, tagged."""
        keys = [dg.AssetKey(["docs", stage]) for stage in stages]
        partitions = (
            {"dagster/partition": start}
            if end is None
            else {"dagster/asset_partition_range_start": start, "dagster/asset_partition_range_end": end}
        )
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            run_config={"ops": {"docs_index": {"config": config}}} if config else None,
            instance=self.instance,
            asset_selection=keys,
            tags={**partitions, **(tags or {})},
            raise_on_error=False,
        )

    def materialize_published(self) -> dg.ExecuteInProcessResult:
        """Index the whole corpus as a run of assets."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        published = [dg.AssetKey(["docs", "published"])]
        return job.execute_in_process(instance=self.instance, asset_selection=published, raise_on_error=False)

    def end_runs(
        self,
        requests: Sequence[dg.RunRequest] | None,
        status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE,
        failed: str = "what failed, by name",
    ) -> None:
        """Store the runs that a tick requested, as the daemon does, as ended ones: by their work if it `failed`."""
        job = self.definitions.resolve_job_def("index")
        for request in requests or ():
            tags = {**job.run_tags, **request.tags, FAILED_TAG: failed}
            self.instance.create_run_for_job(job, status=status, tags=tags)

    def observe(self) -> set[str]:
        """Observe the source as the UI does; return the partitions it reported."""
        source = dg.AssetKey(["docs", "source"])
        before = len(self.instance.fetch_observations(source, limit=1000).records)
        job = self.definitions.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=self.instance, asset_selection=[source]).success
        records = self.instance.fetch_observations(source, limit=1000).records
        return {str(record.partition_key) for record in records[: len(records) - before]}

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

    def failed(self) -> set[tuple[str, str]]:
        """(stage, partition) that Dagster shows as failed."""
        partitions = partitions_of("docs")
        found = {
            stage: get_and_update_asset_status_cache_value(self.instance, dg.AssetKey(["docs", stage]), partitions)
            for stage in STAGES
        }
        return {
            (stage, key)
            for stage, status in found.items()
            if status
            for key in status.deserialize_failed_partition_subsets(partitions).get_partition_keys()
        }

    def all_fresh(self) -> bool:
        return set(self.staleness().values()) == {("FRESH", ())}

    def stale(self) -> dict[str, set[str]]:
        """partition -> stages that Dagster does not call fresh."""
        found: dict[str, set[str]] = {}
        for (stage, key), (status, _) in self.staleness().items():
            if status != "FRESH":
                found.setdefault(key, set()).add(stage)
        return found


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Dagster in a process of its own."""
    program = Path(sys.executable).parent / "dagster"
    return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def dagster(*arguments: str) -> Result:
    """Run a command of Dagster in this process, which loads the code location anew."""
    sys.modules.pop("definitions", None)
    return CliRunner().invoke(create_dagster_cli(), arguments)


def defined(location: Location) -> tuple[str, ...]:
    """Return the options that name the code location; Dagster keeps what it loads by the file and the folder."""
    return ("-d", str(location.cli.folder), "-f", str(ROOT / "pipelines" / "definitions.py"))
