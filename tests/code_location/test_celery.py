"""The index job on a Celery worker, with Redis as its broker, all on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import Cli, text_about
from tests.paths import ROOT
from tests.support.deployment import until
from tests.support.location import Location, open_location, run_cli

BATCHES, BATCH = 2, 6
"""Steps of the runs of tests/support/small_batches_location.py, and artifacts in each."""

LOCATION = "tests/support/small_batches_location.py"
BIN = Path(sys.executable).parent


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """Address of a Redis of its own."""
    if not os.environ.get("CI") and shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "Redis does not listen")
    yield f"redis://127.0.0.1:{port}/0"
    redis.kill()
    redis.wait()


@pytest.fixture
def queued(cli: Cli, broker: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    """A corpus of several batches, whose steps go through the broker to one worker with two processes."""
    settings = {"broker": broker, "backend": broker}
    cli.settings["executor"] = {"kind": "dagster_celery.celery_executor", **settings}
    for location in open_location(cli, monkeypatch):
        for number in range(BATCHES * BATCH - len(list(cli.docs.iterdir()))):
            cli.write(f"{number:02d}.md", text_about(f"topic {number}"))
        (cli.folder / "celery.yaml").write_text(yaml.safe_dump({"execution": {"config": settings}}))
        options = ["-y", str(cli.folder / "celery.yaml"), "-A", "dagster_celery.app", "--", "--concurrency=2"]
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        with (cli.folder / "worker.log").open("w") as log:
            worker = subprocess.Popen(
                [BIN / "dagster-celery", "worker", "start", *options],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        yield location
        os.killpg(worker.pid, 9)
        worker.wait()


@pytest.mark.release
@pytest.mark.slow
def test_batches_on_a_celery_worker_write_one_store(queued: Location) -> None:
    done = run_cli("job", "execute", "-f", LOCATION, "-j", "index")

    log = (queued.cli.folder / "worker.log").read_text()
    assert done.returncode == 0, f"{done.stderr}\n{log}"
    assert log.count("succeeded") == BATCHES + 2  # and the steps that discover and finish
    assert queued.aid.verify() == []
    artifacts = {row["artifact_id"] for row in queued.aid.store.published().to_table(["artifact_id"]).to_pylist()}
    assert (
        artifacts
        == {path.name for path in queued.cli.docs.iterdir()}
        == set(queued.instance.get_dynamic_partitions("docs"))
    )
