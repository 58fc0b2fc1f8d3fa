"""Programs that tests run in a process of their own, which has imported findingaid before it starts.

A new interpreter takes five times as long to import as such a program to run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.paths import ROOT

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["lance", "tests.conftest"])
UNUSED = "ignore:lance is not fork-safe:UserWarning"
"""Lance is imported before the fork, and begins its threads when it is first used, after it."""

COMMAND = "from findingaid.__main__ import main; main()"
"""The program that takes the arguments of the command line; for tests that need its process and not its start."""


class Program:
    """Program that runs in a process of its own, in the folder of the checkout."""

    def __init__(self, code: str, *arguments: str) -> None:
        self._output = tempfile.TemporaryDirectory()
        self._arguments = arguments
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            patch.setenv("PYTHONPATH", str(ROOT))
            environment = dict(os.environ)
            patch.setenv("PYTHONWARNINGS", UNUSED)
            forkserver.ensure_running()
            given = (code, arguments, environment, Path(self._output.name))
            self._process = FORKS.Process(target=_execute, args=given)
            self._process.start()

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def until_stopped(self) -> None:
        """Wait until the program has stopped itself by SIGSTOP."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        while self.running and stat.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        assert self.running, self.ended()

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end of the program; a negative return code is the number of the signal that killed it."""
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        with self._output as folder:
            out, err = (Path(folder, name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(self._arguments, code, out, err)


def run_program(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program until it ends."""
    return Program(code, *arguments).ended()


def _execute(code: str, arguments: tuple[str, ...], environment: Mapping[str, str], output: Path) -> None:
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(output / name, os.O_CREAT | os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
