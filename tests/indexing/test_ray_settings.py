"""Settings of Ray workers, and what they share, without a cluster."""

from __future__ import annotations

import asyncio
import sys

import pytest

from findingaid.config.building import Config
from findingaid.config.loading import read_settings
from findingaid.embedding import minilm
from findingaid.indexing.ray_workers import Coordinator
from findingaid.llm import rate_limits
from findingaid.testing import OpenAIServer
from tests.conftest import Cli, error_of, openai, text_about


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ({"actors": 0}, "executor.actors: must be greater than or equal to 1, got 0"),
        ({"workers": 2}, "executor.workers: unknown key. Known: kind, address, cpus, gpus, actors"),
        ({"address": "127.0.0.1:1"}, "executor.address: no Ray cluster at 127.0.0.1:1: "),
        ({"address": "http://here"}, "executor.address: expected auto, local, HOST:PORT or ray://HOST:PORT, got"),
    ],
)
def test_a_wrong_setting_is_one_line(cli: Cli, executor: dict[str, object], message: str) -> None:
    cli.write("a.md", text_about("a"))
    cli.settings["executor"] = {"kind": "ray", **executor}

    done = cli.run("index")

    assert done.exit_code == 1
    assert message in error_of(done)


def test_without_ray_the_message_names_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("a.md", text_about("a"))
    monkeypatch.setitem(sys.modules, "ray", None)

    done = cli.run("index", "--executor", "ray")

    assert error_of(done) == "executor.kind: ray is not installed: pip install 'findingaid[ray]'"


def test_nothing_connects_to_ray_when_nothing_is_stale(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.sources.files.RACY_NANOSECONDS", 0)  # the file is settled at once
    cli.write("a.md", text_about("a"))
    cli.run("index")
    monkeypatch.setitem(sys.modules, "ray", None)

    done = cli.run("index", "--executor", "ray")

    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(("device", "gpus"), [("cuda:0", 1), ("cpu", 0)])
def test_an_actor_takes_a_gpu_if_the_embedder_uses_one(device: str, gpus: int, cli: Cli) -> None:
    cli.settings |= {"embedder": {"kind": "sentence-transformers", "device": device}, "executor": {"kind": "ray"}}
    cli.configure()

    settings = Config(read_settings(cli.config), cli.folder).ray

    assert settings is not None
    assert settings.gpus == gpus


def test_the_coordinator_spreads_the_requests_of_all_workers_over_a_minute() -> None:
    coordinator = Coordinator()

    async def take(where: str) -> float:
        return await coordinator.take(where, 60, None, 100)

    waits = [asyncio.run(take("host")) for _ in range(3)]

    assert waits[0] == 0
    assert waits[1] == pytest.approx(1, abs=0.2)
    assert waits[2] == pytest.approx(2, abs=0.2)
    assert asyncio.run(take("another")) == 0


def test_requests_take_from_the_shared_rates(cli: Cli, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[object, ...]] = []

    async def take(*what: object) -> float:
        taken.append(what)
        return 0.0

    monkeypatch.setattr(rate_limits, "_shared", take)
    cli.settings |= {"synthesizer": openai(server, requests_per_minute=60)}
    cli.settings["corpora"]["docs"]["synopsis"] = True
    cli.write("a.md", text_about("a"))

    assert cli.run("index").exit_code == 0

    ((where, requests, tokens, amount),) = taken
    assert where in server.base_url
    assert (requests, tokens) == (60, None)
    assert amount > 0


@pytest.mark.parametrize(("given", "limited"), [("1", True), ("0", False), ("4,2", False), ("", False)])
def test_the_default_embedder_uses_no_more_threads_than_an_actor_has_cpus(
    given: str, limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = minilm._cores()
    monkeypatch.setenv("OMP_NUM_THREADS", given)

    assert minilm._cores() == (1 if limited else cores)
