"""Configured executor: allowed settings, and workers in separate processes that share one store."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dagster as dg
import pytest

from findingaid.errors import ConfigError
from findingaid.model import Raw, SurfacePlan
from findingaid.strategies.chunked import Chunked
from findingaid.testing import OpenAIServer, faults
from findingaid_dagster.internals.events import logged_data_versions
from findingaid_dagster.pipelines.code_location import build_definitions
from findingaid_dagster.pipelines.index import TRIES
from tests.conftest import PLAIN, Cli, openai, text_about
from tests.indexing.test_incremental import records
from tests.support.location import Location, open_location, run_cli


def definitions(cli: Cli, executor: object) -> dg.Definitions:
    cli.settings["executor"] = executor
    cli.run("status")
    return build_definitions(cli.config)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (
            {},
            "executor.kind: unknown kind None. Known: in_process, multiprocess, ray, or the import path of an executor",
        ),
        ({"kind": "threads"}, "executor.kind: unknown kind 'threads'. Known: in_process"),
        ({"kind": "dagster_moon.moon_executor"}, "executor.kind: 'dagster_moon.moon_executor' cannot be imported"),
        ({"kind": "dagster.job"}, "executor.kind: 'dagster.job' is not a Dagster executor"),
        (
            {"kind": "multiprocess", "max_concurrency": 4},
            'executor: Received unexpected config entry "max_concurrency"',
        ),
        ({"kind": "multiprocess", "max_concurrent": "four"}, 'Value "four" of type'),
        ({"kind": "multiprocess", "start_method": {"fork": {}}}, 'executor: Received unexpected config entry "fork"'),
        ({"kind": "in_process", "scratch": ["a"]}, "executor.scratch: expected a folder or an address"),
    ],
)
def test_a_wrong_executor_is_one_line_that_names_the_key(cli: Cli, executor: object, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        definitions(cli, executor)

    assert message in str(raised.value)
    assert str(cli.config) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("executor", "name"),
    [
        ({"kind": "in_process"}, "in_process"),
        ({"kind": "multiprocess", "max_concurrent": 4}, "multiprocess"),
        ({"kind": "dagster.multiprocess_executor", "max_concurrent": 4}, "multiprocess"),
        ({"kind": "ray", "actors": 2}, "in_process"),
    ],
)
def test_job_and_materializations_use_the_configured_executor(cli: Cli, executor: object, name: str) -> None:
    found = definitions(cli, executor)

    assert found.resolve_job_def("index").executor_def.name == name
    assert found.resolve_implicit_global_asset_job_def().executor_def.name == name


def test_definitions_without_an_executor_can_be_merged_with_those_of_a_team(cli: Cli) -> None:
    cli.run("status")

    merged = dg.Definitions.merge(build_definitions(cli.config), dg.Definitions(executor=dg.multiprocess_executor))

    assert merged.resolve_job_def("index").executor_def.name == "in_process"
    assert merged.resolve_implicit_global_asset_job_def().executor_def is dg.multiprocess_executor


class TablesOnly(dg.ConfigurableIOManager):
    """An IO manager as a team may have it, which takes nothing of ours."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        raise TypeError(f"{type(obj)} is no table")

    def load_input(self, context: dg.InputContext) -> Any:
        raise TypeError


def test_steps_hand_their_work_on_in_the_scratch_folder(cli: Cli) -> None:
    cli.write("ledger.md", text_about("ledger"))
    ours = definitions(cli, {"kind": "in_process", "scratch": f"file://{cli.folder}/scratch"})
    merged = dg.Definitions.merge(ours, dg.Definitions(resources={"io_manager": TablesOnly()}))

    result = merged.resolve_job_def("index").execute_in_process()

    assert result.success
    handed_on = {path.parent.name for path in (cli.folder / "scratch" / result.run_id).rglob("*") if path.is_file()}
    assert {"discover", "batches"} <= handed_on


@dataclass(frozen=True)
class Stops(Chunked):
    """Has the run terminated while it cuts an artifact, as by the UI."""

    tries = 0

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        type(self).tries += 1
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("not terminated")


def test_a_run_that_is_terminated_ends_in_the_middle_of_a_batch(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stops, "tries", 0)
    cli.settings["corpora"]["docs"]["strategy"] = {"name": f"{__name__}:{Stops.__name__}"}
    cli.write("ledger.md", text_about("ledger"))
    job = definitions(cli, {"kind": "in_process"}).resolve_job_def("index")

    done = job.execute_in_process(raise_on_error=False)

    (ended,) = [event for event in done.all_events if event.is_job_failure]
    assert "interrupted" in str(ended.message)
    assert Stops.tries == 1


BATCHES, BATCH_ARTIFACTS = 4, 60
COUNT = (BATCHES - 1) * BATCH_ARTIFACTS + 10
DEADLY = 3 * BATCH_ARTIFACTS - 5
"""Is in the third of the batches, behind a group of texts that is paid before it."""
LOST = [f"{number:05d}.md" for number in range(2 * BATCH_ARTIFACTS, 3 * BATCH_ARTIFACTS)]


@pytest.fixture
def many(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """Artifacts of several batches, and an executor that gives each of the batches to a worker."""
    monkeypatch.setenv("BATCH_ARTIFACTS", str(BATCH_ARTIFACTS))
    for number in range(COUNT):
        cli.write(f"{number:05d}.md", text_about(f"topic {number} of many" + " poison" * (number == DEADLY)))
    cli.settings["executor"] = {"kind": "multiprocess", "max_concurrent": 2}
    for location in open_location(cli, monkeypatch):
        for path in cli.docs.glob("[a-z]*.md"):
            path.unlink()
        yield location


def execute(file: str = "tests/support/dying_location.py") -> subprocess.CompletedProcess[str]:
    return run_cli("job", "execute", "-f", file, "-j", "index")


def paid(location: Location) -> Counter[str]:
    """Text hash -> how often a worker embedded it."""
    return Counter(text for path in location.cli.folder.glob("*.paid") for text in path.read_text().split())


def batch_steps(location: Location) -> list[tuple[float, float]]:
    """(start, end) of the batches of the last run."""
    (run,) = location.instance.get_run_records(limit=1)
    steps = location.instance.get_run_step_stats(run.dagster_run.run_id)
    return [(s.start_time or 0, s.end_time or 0) for s in steps if s.step_key.startswith("batch")]


def everything_is_there(location: Location) -> bool:
    rows = location.aid.indexer("docs").ledger.rows("docs")
    logged = [logged_data_versions(location.instance, dg.AssetKey(["docs", stage.value])) for stage in PLAIN]
    assert logged == [{i: row.version(stage) for i, row in rows.items()} for stage in PLAIN]
    assert len(location.instance.get_dynamic_partitions("docs")) == COUNT
    return location.aid.verify() == [] and len(records(location.aid)) == 2 * COUNT  # a chunk and a synopsis each


@pytest.mark.slow
def test_workers_in_their_own_processes_write_one_store(many: Location) -> None:
    done = execute()

    assert done.returncode == 0, done.stderr
    assert "Falling back to storing" not in done.stderr
    assert everything_is_there(many)
    steps = sorted(batch_steps(many))
    assert len(steps) == BATCHES
    assert any(later[0] < earlier[1] for earlier, later in pairwise(steps))
    assert set(paid(many).values()) == {1}


@pytest.mark.release
@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_at_most_its_batch_is_paid_again(many: Location) -> None:
    (many.cli.folder / "deadly").write_text("poison")

    done = execute()

    assert done.returncode == 0, done.stderr
    assert not (many.cli.folder / "deadly").exists()
    assert everything_is_there(many)
    twice = [text for text, count in paid(many).items() if count > 1]
    assert set(paid(many).values()) == {1, 2}
    assert 0 < len(twice) <= 2 * BATCH_ARTIFACTS


@pytest.mark.release
@pytest.mark.slow
def test_a_batch_that_kills_every_worker_is_named_and_the_rest_is_published(many: Location) -> None:
    (many.cli.folder / "deadly").write_text("poison")
    (many.cli.folder / "again").touch()

    done = execute()
    published = set(many.aid.store.published().to_table(["artifact_id"])["artifact_id"].to_pylist())
    (many.cli.folder / "again").unlink()
    (many.cli.folder / "deadly").unlink()
    healed = execute()

    assert done.returncode != 0
    assert f"{len(LOST)} artifacts ({LOST[0]}, " in done.stderr
    assert f"): its batch failed {TRIES} times" in done.stderr
    assert published == {path.name for path in many.cli.docs.iterdir()}.difference(LOST)
    assert healed.returncode == 0, healed.stderr
    assert f"docs: {COUNT} artifacts, {len(LOST)} stale" in healed.stderr
    assert everything_is_there(many)


STEPS, BATCH = 3, 6
"""Steps of the runs of tests/support/small_batches_location.py, and artifacts in each."""


@pytest.fixture
def asking(cli: Cli, monkeypatch: pytest.MonkeyPatch, server: OpenAIServer) -> Iterator[Location]:
    """Artifacts of several steps, each in its own process, whose synopses a server writes."""
    cli.settings["executor"] = {"kind": "multiprocess", "max_concurrent": 2}
    cli.settings["synthesizer"] = openai(server, concurrency=2)
    for location in open_location(cli, monkeypatch):
        for number in range(STEPS * BATCH - 4):
            cli.write(f"{number:02d}.md", text_about(f"topic {number}"))
        yield location


def steps(location: Location) -> int:
    (run,) = location.instance.get_run_records(limit=1)
    found = location.instance.get_run_step_stats(run.dagster_run.run_id)
    return sum(step.step_key.startswith("batch") for step in found)


@pytest.mark.release
@pytest.mark.slow
def test_a_budget_holds_over_all_steps_of_a_run(asking: Location, server: OpenAIServer) -> None:
    calls = 8
    asking.cli.settings["budget"] = {"calls": calls}
    asking.cli.run("status")
    server.delay = 0.2

    done = execute("tests/support/small_batches_location.py")

    assert done.returncode == 0, done.stderr
    assert steps(asking) == STEPS
    assert len(server.completions) == calls
    assert server.most_at_once <= 2 * 2  # of two steps at once, two calls each
    assert asking.aid.status()[0].synopses == {"ok": calls, "pending": STEPS * BATCH - calls}


@pytest.mark.release
@pytest.mark.slow
def test_an_endpoint_that_is_down_costs_few_tries_in_all_steps_of_a_run(asking: Location, server: OpenAIServer) -> None:
    asking.cli.settings["synthesizer"]["concurrency"] = 1
    asking.cli.run("status")
    server.when(lambda _: True, faults.server_error())

    done = execute("tests/support/small_batches_location.py")

    assert done.returncode != 0
    assert steps(asking) == STEPS
    # At most two steps begin before one of them has said that it is down.
    assert 5 <= len(server.completions) <= 10
    assert asking.aid.status()[0].synopses["pending"] >= STEPS * BATCH - 10
    assert {row["artifact_id"] for row in asking.aid.store.published().to_table(["artifact_id"]).to_pylist()} == {
        path.name for path in asking.cli.docs.iterdir()
    }
