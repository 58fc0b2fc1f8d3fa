"""A lock is waited for while its owner works, is free when its owner dies, and ends in an error when it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from findingaid import StoreError
from findingaid.store import locks
from findingaid.store.locks import locked

HOLDER = """
import sys, threading
from pathlib import Path
from findingaid.store.locks import locked

with locked(Path(sys.argv[1]), "records"):
    print("held", flush=True)
    threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(locks, "TELL_SECONDS", 0.05)
    monkeypatch.setattr(locks, "STALLED_SECONDS", 0.3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".locks" / "records"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped by SIGSTOP, and their state is in /proc")
def test_a_process_that_was_stopped_with_a_lock_is_named_and_ends_the_wait(
    path: Path, holder: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)

    with (
        caplog.at_level(logging.WARNING, "findingaid"),
        pytest.raises(StoreError, match=f"process {holder.pid} .* holds records and has made no progress"),
        locked(path, "records"),
    ):
        pass

    assert f"waiting for process {holder.pid} (stopped)" in caplog.text


def test_a_lock_whose_owner_was_killed_is_free(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()

    with locked(path, "records"):
        assert (path.with_name("records.owner")).read_text().startswith(f"{os.getpid()} ")


def test_an_owner_that_works_is_waited_for_however_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(locks, "_HELD", locks._Held())
    begun = threading.Event()

    def work() -> None:
        with locked(path, "records"):
            begun.set()
            time.sleep(3 * locks.STALLED_SECONDS)

    worker = threading.Thread(target=work)
    worker.start()
    begun.wait()
    with locked(path, "records"):
        pass
    worker.join()


def test_an_owner_that_cannot_be_named_is_another_process(path: Path) -> None:
    path.parent.mkdir(parents=True)

    assert locks._describe(path.with_name("records.owner")) == "another process"


def test_a_process_of_another_container_is_named_without_its_state(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.with_name("records.owner").write_text("1 web-7f/boot/pid:[402]")

    assert locks._describe(path.with_name("records.owner")) == "process 1 on host web-7f"
