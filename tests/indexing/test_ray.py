"""Batches on a real Ray cluster on loopback, whose actors, nodes and drivers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

import findingaid
from findingaid import ConfigError, FindingAid
from findingaid.indexing import plan
from findingaid.indexing.ray_workers import RayExecutor
from findingaid.indexing.run import Run
from findingaid.testing import OpenAIServer
from tests.conftest import Cli, openai, text_about
from tests.indexing.test_incremental import docs, records
from tests.paths import ROOT
from tests.support.buckets import Bucket
from tests.support.deployment import until
from tests.support.ray_parts import die, lack_a_module

COUNT, BATCH = 24, 4
POISONED = "13.md"
WITH_IT = {f"{number:02d}.md" for number in range(12, 16)}
"""The artifacts in the batch of POISONED."""

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
"""Ray's way to keep a node at 127.0.0.1, and to tell nobody of it."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of a head without CPUs and two nodes with one CPU each; this process is connected to it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LOOPBACK.items():
            patch.setenv(name, value)
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def many(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A corpus of several small batches, with a synopsis of each artifact."""
    monkeypatch.setattr(plan, "BATCH_ARTIFACTS", BATCH)
    monkeypatch.setattr(plan, "BATCHES", COUNT)
    cli.settings["embedder"] = {"kind": "tests.support.ray_parts:Scripted", "folder": str(cli.folder)}
    cli.settings["corpora"]["docs"]["synopsis"] = True
    for number in range(COUNT):
        cli.write(f"{number:02d}.md", text_about(f"topic {number}" + " poison" * (f"{number:02d}.md" == POISONED)))
    return cli


def on_ray(cli: Cli, cluster: Any, **more: object) -> FindingAid:
    cli.settings["executor"] = {"kind": "ray", "address": cluster.address, "actors": 2, **more}
    return opened(cli)


def opened(cli: Cli) -> FindingAid:
    cli.configure()
    return findingaid.open(cli.config)


def built_here(cli: Cli) -> dict[str, tuple[object, ...]]:
    """Return the records of a build of the same corpus in this process, in a store of its own."""
    aid = findingaid.open(cli.config, {"store": str(cli.folder / "here"), "executor.kind": "in_process"})
    assert aid.index().ok
    return records(aid)


@pytest.mark.slow
def test_a_build_on_ray_equals_one_in_a_single_process(many: Cli, cluster: Any) -> None:
    told: Counter[str] = Counter()
    aid = on_ray(many, cluster)

    report = aid.index(progress=lambda _: lambda stage, _, done: told.update({stage: done}))

    assert report.ok
    assert (docs(report).new, docs(report).calls.synthesize) == (COUNT, COUNT)
    assert told["artifacts"] == COUNT
    assert told["embeddings"] == docs(report).calls.embed
    assert aid.verify() == []
    assert records(aid) == built_here(many)
    assert docs(aid.index()).unchanged == COUNT


@pytest.mark.slow
def test_a_killed_actor_is_replaced_and_its_batch_built_again(many: Cli, cluster: Any) -> None:
    (many.folder / "deadly").touch()
    (many.folder / "once").touch()
    aid = on_ray(many, cluster)

    assert aid.index().ok

    assert not (many.folder / "deadly").exists()
    assert aid.verify() == []
    assert records(aid) == built_here(many)


@pytest.mark.release
@pytest.mark.slow
def test_a_batch_that_kills_every_actor_is_named_and_the_rest_is_published(many: Cli, cluster: Any) -> None:
    (many.folder / "deadly").touch()
    aid = on_ray(many, cluster)

    report = aid.index()
    published = {row["artifact_id"] for row in aid.store.published().to_table(["artifact_id"]).to_pylist()}
    (many.folder / "deadly").unlink()
    healed = aid.index()

    assert {failure.artifact_id for failure in docs(report).failed} == WITH_IT
    assert {(failure.kind, failure.message) for failure in docs(report).failed} == {
        ("lost", "its batch failed 2 times, or its worker was killed")
    }
    assert published == {path.name for path in many.docs.iterdir()} - WITH_IT
    assert healed.ok
    assert docs(healed).new == len(WITH_IT)


@pytest.mark.release
@pytest.mark.slow
def test_the_batch_of_a_killed_node_is_built_on_another(many: Cli, cluster: Any) -> None:
    (many.folder / "hold").touch()
    aid, reports = on_ray(many, cluster, actors=1), []
    run = Thread(target=lambda: reports.append(aid.index()))
    run.start()
    node = until((many.folder / "held").exists, "no actor works") and (many.folder / "held").read_text()
    (victim,) = (each for each in cluster.list_all_nodes() if each.node_id == node)

    cluster.remove_node(victim, allow_graceful=False)
    (many.folder / "hold").unlink()
    run.join(120)
    cluster.add_node(num_cpus=1)  # for the other tests

    (report,) = reports
    assert report.ok
    assert aid.verify() == []
    assert records(aid) == built_here(many)


@pytest.mark.release
@pytest.mark.slow
def test_the_work_of_a_killed_driver_is_finished_by_the_next_run(many: Cli, cluster: Any) -> None:
    (many.folder / "hold").touch()
    aid = on_ray(many, cluster)
    driver = subprocess.Popen(
        [sys.executable, "-m", "findingaid", "index", "--config", str(many.config)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
    until(lambda: (many.folder / "held").exists() or driver.poll() is not None, "no actor works")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    (many.folder / "hold").unlink()

    assert aid.index().ok

    assert aid.verify() == []
    assert records(aid) == built_here(many)


@pytest.mark.release
@pytest.mark.slow
def test_a_store_on_s3_is_written_by_all_workers(many: Cli, cluster: Any, bucket: Bucket) -> None:
    many.settings |= {"store": bucket.uri, "storage_options": bucket.options}
    aid = on_ray(many, cluster)

    assert aid.index().ok

    assert aid.verify() == []
    many.settings |= {"storage_options": {}}
    many.configure()
    assert records(aid) == built_here(many)


@pytest.mark.release
@pytest.mark.slow
def test_a_budget_holds_over_all_workers(many: Cli, cluster: Any, server: OpenAIServer) -> None:
    many.settings |= {"synthesizer": openai(server), "budget": {"calls": 10}}
    aid = on_ray(many, cluster)

    report = aid.index()

    assert len(server.completions) == docs(report).calls.synthesize == 10
    assert docs(report).pending == COUNT - 10


@pytest.mark.release
@pytest.mark.slow
def test_a_rate_limit_holds_over_all_workers(many: Cli, cluster: Any, server: OpenAIServer) -> None:
    many.settings["synthesizer"] = openai(server, requests_per_minute=600, concurrency=8)
    aid, began = on_ray(many, cluster), time.monotonic()

    assert aid.index().ok

    assert len(server.completions) == COUNT
    assert time.monotonic() - began >= (COUNT - 1) * 60 / 600  # each worker by itself would take half of that


@pytest.mark.release
@pytest.mark.slow
def test_the_index_job_of_dagster_builds_on_ray(many: Cli, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.location import open_location

    many.settings["executor"] = {"kind": "ray", "address": cluster.address, "actors": 2}
    for location in open_location(many, monkeypatch):
        done = location.index()
        (many.docs / "00.md").write_text(text_about("another topic"))
        again = location.materialize(["artifacts", "surfaces", "synopses", "embeddings", "records"], "00.md")

        assert done.success
        assert again.success
        assert set(location.instance.get_dynamic_partitions("docs")) == {path.name for path in many.docs.iterdir()}
        assert {status for status, _ in location.staleness(every=6).values()} == {"FRESH"}
        assert records(location.aid) == built_here(many)


@pytest.mark.slow
def test_a_node_with_another_configuration_is_refused(many: Cli, cluster: Any) -> None:
    aid, other = on_ray(many, cluster), findingaid.open(many.config, {"store": str(many.folder / "other")})
    assert isinstance(other.executor, RayExecutor)

    with pytest.raises(ConfigError, match="another store, other code or models for docs than this run"):
        replace(aid, executor=other.executor).index()


@pytest.mark.slow
def test_more_than_any_node_has_is_one_line(many: Cli, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.indexing.ray_workers.START_SECONDS", 3)

    with pytest.raises(ConfigError, match=r"no node of the Ray cluster had 64 CPUs and 0 GPUs free for 3 s"):
        on_ray(many, cluster, cpus=64).index()


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.parametrize(
    ("open_run", "message"),
    [
        (die, r"5 actors in a row did not start: .{1,160}: give every node of the Ray cluster enough memory"),
        (lack_a_module, r"an actor did not start: .*No module named 'lacking' .*: install the same versions on"),
    ],
)
def test_nodes_on_which_no_actor_starts_are_one_line(
    many: Cli, cluster: Any, open_run: Callable[[str], Run], message: str
) -> None:
    aid = on_ray(many, cluster)
    assert isinstance(aid.executor, RayExecutor)

    with pytest.raises(ConfigError, match=message):
        replace(aid, executor=replace(aid.executor, open_run=open_run)).index()
