"""A program of `tests.support.programs` ends, prints and sees its surroundings as one of a new interpreter does."""

from __future__ import annotations

import signal

import pytest

from tests.paths import ROOT
from tests.support.programs import Program, run_program

LOOK = """
import os, sys, threading
print(os.getcwd(), os.environ["SAID"], sys.argv[1:], threading.active_count())
sys.exit(sys.argv[1])
"""


def test_it_has_its_arguments_the_environment_of_now_and_an_output_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAID", "now")
    running = [Program(LOOK, word) for word in ("one", "two")]

    ended = [program.ended() for program in running]

    assert [(each.returncode, each.stderr) for each in ended] == [(1, "one\n"), (1, "two\n")]
    assert [each.stdout for each in ended] == [f"{ROOT} now ['one'] 1\n", f"{ROOT} now ['two'] 1\n"]


@pytest.mark.parametrize(
    ("code", "returned", "told"),
    [
        ("print(__name__)", 0, ""),
        ("raise ValueError('spoiled')", 1, "ValueError: spoiled"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
    ],
)
def test_it_ends_by_its_status_or_a_signal(code: str, returned: int, told: str) -> None:
    ended = run_program(code)

    assert ended.returncode == returned
    assert told in ended.stderr
