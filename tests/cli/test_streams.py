"""Standard streams that programs read: no print of other code comes between, whatever writes it and when."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from findingaid.cli import main
from findingaid.cli.options import csv_option, json_option
from findingaid.cli.printing import say_json
from findingaid.cli.streams import keep_output, output
from tests.conftest import Cli, text_about
from tests.support.commands import subcommands

PRINTS = """
import atexit, ctypes, logging, os, subprocess, sys, threading
def prints(by):
    print("noise:", by)
    os.write(1, b"noise: descriptor\\n")
    ctypes.CDLL(None).write(1, b"noise: a C library\\n", 19)
    subprocess.run(["echo", "noise: a child process"])
    threading.Thread(target=print, args=("noise: a thread",)).start()
    sys.__stdout__.write("noise: the first stdout\\n")
atexit.register(prints, "at exit")
logging.basicConfig(stream=sys.stdout)
"""

COMMAND = f"""
import click
from findingaid.cli.options import json_option
from findingaid.cli.printing import say_json
@click.command()
@json_option
def shown(as_json):
    exec({PRINTS!r}, globals())
    prints("as it runs")
    logging.warning("noise: a log")
    say_json({{"span": [0, 24]}})
shown()
"""

OWN = f"""
import numpy as np
{PRINTS}
prints("as it is imported")
class Own:
    id, dim, max_tokens = "mine", 8, 256
    def __init__(self):
        prints("as it is made")
    def embed(self, texts):
        return np.stack([np.eye(8, dtype="float32")[int("ledger" in text)] for text in texts])
    def embed_query(self, text):
        prints("as it is asked")
        print("read:", sys.stdin.read())
        return np.eye(8, dtype="float32")[1]
    def count_tokens(self, text):
        return len(text) // 3
"""

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
REQUESTS = {
    "jsonl": [{"id": 1, "method": "search", "params": {"query": "ledger"}}],
    "mcp": [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "it"}}},
    ],
}


def test_output_for_programs_has_no_prints_of_python_c_children_threads_or_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND, "--json"], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == {"span": [0, 24]}
    assert done.stderr.count("noise:") == 13


@pytest.mark.parametrize("closed", ["1>&-", "2>&-"])
def test_a_closed_stream_does_not_bring_prints_into_the_other(closed: str) -> None:
    command = f'"$0" -c "$1" --json {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable, COMMAND], capture_output=True, text=True)

    assert "noise" not in done.stdout
    assert (done.stdout == "") == closed.startswith("1")


def test_a_command_whose_output_is_closed_does_its_work(cli: Cli) -> None:
    cli.write("a.md", text_about("alpha"))
    cli.configure()
    command = ["sh", "-c", '"$0" "$@" >&-', sys.executable, "-m", "findingaid", "index", "--config", str(cli.config)]

    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert cli.run("search", "alpha").exit_code == 0


def test_a_reader_that_leaves_is_no_error_of_the_program() -> None:
    much = COMMAND.replace("[0, 24]", "[0] * 99_999")
    piped = ["sh", "-c", '"$0" -c "$1" --json | true', sys.executable, much]
    done = subprocess.run(piped, capture_output=True, text=True)

    # A line is empty where another print comes between the words of a thread and its line end.
    assert {line.partition(":")[0] for line in done.stderr.splitlines()} <= {"noise", "WARNING", ""}


def test_no_character_ends_a_command_in_a_locale_that_lacks_it(cli: Cli) -> None:
    encoding = "cp1250"
    text = "The ferry \U0001f6a2 to Øland leaves at 9 → noon."
    cli.write("a.md", text)
    cli.run("index")

    def run(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "findingaid", *arguments, "--config", str(cli.config)]
        kept = {**os.environ, "PYTHONIOENCODING": encoding}
        return subprocess.run(command, capture_output=True, check=True, env=kept).stdout

    shown = run("show", "a.md").decode(encoding)
    (hit,) = json.loads(run("search", "ferry", "--json"))

    assert text.encode(encoding, "backslashreplace").decode(encoding) in shown
    assert hit["text"] == text
    assert text in run("search", "ferry", "--csv").decode()


def test_every_command_keeps_its_output_for_programs() -> None:
    def options(command: click.Command) -> Any:
        if isinstance(command, click.Group):
            return [option for each in subcommands(command).values() for option in options(each)]
        return [option for option in command.params if {"--json", "--csv"} & {*option.opts}]

    found = options(main)

    assert len(found) > 30
    assert all(option.callback is keep_output for option in found)


def test_a_shell_that_asks_for_completions_gets_them_on_standard_output() -> None:
    search = subcommands(main)["search"]

    with search.make_context("search", ["--json", "ledger"], resilient_parsing=True):
        assert output() is None
    with search.make_context("search", ["--json", "ledger"]):
        assert output() is not None


def test_a_program_that_runs_a_command_has_its_output_back_afterwards() -> None:
    @click.command()
    @json_option
    @csv_option
    def command(as_json: bool, as_csv: bool) -> None:
        print("noise")
        say_json({"csv": as_csv})

    @click.command()
    def program() -> None:
        command.main(["--json", "--csv"], standalone_mode=False)
        print("the program goes on")

    done = CliRunner().invoke(program)

    assert done.stdout == '{\n  "csv": true\n}\nthe program goes on\n'
    assert done.stderr == "noise\n"


@pytest.fixture
def own(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A folder whose embedder prints whenever it can, and reads standard input."""
    cli.write("a.md", text_about("ledger"))
    cli.settings["embedder"] = {"kind": "mine:Own"}
    (cli.folder / "mine.py").write_text(OWN)
    monkeypatch.setenv("PYTHONPATH", str(cli.folder), prepend=":")
    cli.configure()
    return cli


@pytest.mark.slow
def test_a_refused_command_takes_no_output_from_a_later_one() -> None:
    """The context of a command whose options are refused ends when its garbage is collected."""
    gc.disable()
    try:
        refused = CliRunner().invoke(main, ["search", "ledger", "--json", "-k", "many"])
        with CliRunner().isolation():
            mine = sys.stdout
            del refused
            gc.collect()
            assert sys.stdout is mine
    finally:
        gc.enable()


def test_prints_of_an_own_component_reach_no_client_and_it_reads_no_requests(own: Cli) -> None:
    def run(*command: str, sent: list[Any] | None = None, answers: int = 0) -> list[Any]:
        call = [sys.executable, "-m", "findingaid", *command, "--config", str(own.config)]
        with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write("".join(json.dumps(each) + "\n" for each in sent or ()))
            process.stdin.flush()
            lines = [process.stdout.readline() for _ in range(answers)]
            process.stdin.close()
            return [json.loads(each) for each in (lines or [""]) + [process.stdout.read()] if each]

    indexed = run("index", "--json")
    by_lines = run("serve", "jsonl", sent=REQUESTS["jsonl"], answers=1)
    by_mcp = run("serve", "mcp", sent=REQUESTS["mcp"], answers=2)

    assert indexed[0]["corpora"]["docs"]["artifacts"] == 1
    assert [answer["result"]["hits"][0]["artifact_id"] for answer in by_lines] == ["a.md"]
    assert [answer["id"] for answer in by_mcp] == [0, 1]
    assert by_mcp[1]["result"]["structuredContent"]["hits"]


def test_numbers_that_json_does_not_have_are_null_and_spans_are_on_one_line() -> None:
    @click.command()
    def shown() -> None:
        say_json({"score": float("nan"), "most": [float("inf"), 1.5], "span": [0, -24], "text": "[\n1, 2]\u2028 NaN"})

    text = CliRunner().invoke(shown).stdout

    assert json.loads(text, parse_constant=pytest.fail) == {
        "score": None, "most": [None, 1.5], "span": [0, -24], "text": "[\n1, 2]\u2028 NaN",
    }  # fmt: skip
    assert '"span": [0, -24]' in text
    assert "\u2028" not in text


def test_a_name_with_line_ends_forges_no_line_of_output(cli: Cli, tmp_path: Path) -> None:
    cli.write("a\nError: docs: all is lost.md", text_about("ledger") + "\n\n[b](b.md)")
    cli.write("b.md", text_about("vector"))
    cli.write("c\u2028Error: docs: forged.md", b"\0\1\2")
    told = [cli.run("index")]
    told += [cli.run(*command) for command in (
        ["search", "ledger"], ["answer", "what is described here"], ["impact", "b.md"],
        ["neighbours", "b.md", "--reverse"],
        ["show", "a\nError: docs: all is lost.md"], ["why", "a\nError: docs: all is lost.md"], ["status"], ["plan"],
        ["show", "nothing\nError: docs: forged"],
    )]  # fmt: skip

    lines = [line for each in told for line in (each.stdout + each.stderr).splitlines()]

    assert sum("all is lost" in line for line in lines) >= 6
    assert [line for line in lines if line.startswith(("Error: docs: all", "Error: docs: forged"))] == []
