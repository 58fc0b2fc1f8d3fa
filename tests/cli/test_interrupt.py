"""Ctrl-C during `findingaid index`: one line, and the next run goes on from what is done."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.conftest import Cli, text_about
from tests.support.deployment import until

SLOW = """
import time
from pathlib import Path

def write(text, metadata):
    with open(Path(__file__).with_name("calls"), "a") as calls:
        calls.write(text.split()[1] + "\\n")
    time.sleep(0.05)
    return text[:20]
"""


def test_a_stopped_run_says_so_in_one_line_and_the_next_goes_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.folder / "slow_for_ctrl_c.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(cli.folder), prepend=":")
    for n in range(60):
        cli.write(f"{n}.md", text_about(f"note{n}"))
    own = {"kind": "custom", "function": "slow_for_ctrl_c:write"}
    cli.settings["corpora"]["docs"]["synopsis"] = {"synthesizer": own}
    cli.configure()
    calls = cli.folder / "calls"
    command = [sys.executable, "-m", "findingaid", "index", "--config", str(cli.config)]

    def made() -> int:
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: made() >= 10, "no synopsis is written")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    before = made()
    again = subprocess.run(command, capture_output=True, text=True, check=False)

    assert process.returncode == 130
    assert said.splitlines()[-1] == "stopped: what is done is kept; run `findingaid index` to go on"
    assert "Traceback" not in said
    assert again.returncode == 0, again.stderr
    assert made() < before + 60
    assert len(set(calls.read_text().splitlines())) == 60
