"""Synopses through the command line, with a server that counts requests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from findingaid.cli import main
from findingaid.cli.indexing import INTERRUPTED
from findingaid.indexing.calls import GROUP
from findingaid.model import Outcome
from findingaid.testing import OpenAIServer, faults
from tests.conftest import PARAGRAPH
from tests.paths import ROOT

CALLS = 200
"""Of the builds that are killed: at 1 % four may be made twice, beside a group and those under way."""


def text(topic: str, sections: int = 2) -> str:
    """A text whose first words name its topic, a chunk of 150 characters a section."""
    return "\n\n".join(f"# {topic} {i}\n\n{PARAGRAPH.format(topic=topic)}" for i in range(sections))


class Project:
    """A folder with documents and a findingaid.yaml, and findingaid run on it in this process or in one of its own."""

    def __init__(self, folder: Path, server: OpenAIServer) -> None:
        self.folder = folder
        self.server = server
        self.docs = folder / "docs"
        self.docs.mkdir()
        self.synthesizer: dict[str, Any] = {"kind": "openai", "model": "small", "base_url": server.base_url}
        self.corpus: dict[str, Any] = {
            "source": {"kind": "files", "root": "docs"},
            "strategy": {"name": "Chunked", "chunk_size": 150, "overlap": 0},
            "synopsis": {},
        }
        self.prices = {"small": {"input": 1000.0, "output": 2000.0}}
        self.environment: dict[str, str] = {}
        self.command = [sys.executable, "-m", "findingaid"]

    def write(self, *topics: str) -> None:
        for topic in topics:
            (self.docs / f"{topic}.md").write_text(text(topic))

    def configure(self) -> Path:
        settings = {
            "store": "index",
            "embedder": {"kind": "hash"},
            "synthesizer": self.synthesizer,
            "prices": self.prices,
            "corpora": {"docs": self.corpus},
        }
        file = self.folder / "findingaid.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.configure()
        own = ("FINDINGAID", "DAGSTER", "OPENAI", "PYTHONPATH")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=environment | {"PYTHONPATH": str(ROOT)} | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0) -> str:
        config = self.configure()
        done = CliRunner().invoke(main, [*arguments, "--config", str(config)])
        assert done.exit_code == status, done.output
        return done.stdout + done.stderr

    def json(self, *arguments: str, status: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", status=status))

    @property
    def asked(self) -> list[str]:
        """The topic of each request, in the order of their coming."""
        found = [re.search(r"^# (\S+) 0$", request.content, re.MULTILINE) for request in self.server.completions]
        return [topic[1] if topic else "" for topic in found]

    def asks(self, *arguments: str, status: int = 0) -> Counter[str]:
        """Return the requests of one more run of `index`."""
        before = len(self.asked)
        self.run("index", *arguments, status=status)
        return Counter(self.asked[before:])


@pytest.fixture
def project(tmp_path: Path, server: OpenAIServer) -> Project:
    project = Project(tmp_path, server)
    project.write("ledger", "vector", "reader")
    return project


def test_two_lines_give_synopses_with_a_price_told_beforehand(project: Project) -> None:
    plan = project.json("plan")["corpora"]["docs"]
    before = len(project.server.requests)
    report = project.json("index")["corpora"]["docs"]
    status = project.json("status")[0]
    hits = project.json("search", "ledger", "--surfaces", "synopsis", "--mode", "lexical")

    assert before == 0
    assert (plan["calls"], plan["records"]) == (report["calls"], report["records"])
    assert plan["cost"] >= report["cost"] > 0
    assert sorted(project.asked) == ["ledger", "reader", "vector"]
    assert status["synopses"] == {"ok": 3}
    assert status["usage"][0]["usage"] == report["usage"]
    assert [(hit["artifact_id"], hit["text"][:10]) for hit in hits] == [("ledger.md", "ledger 0 T")]


@pytest.mark.slow
def test_a_change_asks_again_for_exactly_what_it_touches(project: Project) -> None:
    (project.docs / "short.md").write_text("# short 0\n\nOne chunk alone.")
    everything = ["ledger", "reader", "short", "vector"]
    project.asks()
    asked = []

    for change in (
        {"prompt": "prompt.md"},
        {"prompt": "prompt.md", "model": "large"},
        {"prompt": "prompt.md", "model": "large", "concurrency": 2, "api_key": "another"},
        {"prompt": "prompt.md", "model": "large", "temperature": 0.5},
    ):
        (project.folder / "prompt.md").write_text("Write one sentence.")
        project.synthesizer |= change
        asked.append(sorted(project.asks()))
    (project.folder / "prompt.md").write_text("Write two sentences.")
    edited_prompt = sorted(project.asks())
    project.corpus["synopsis"]["when"] = "thin"
    closed = sorted(project.asks())
    after_closing = project.json("status")[0]["synopses"]
    project.synthesizer["seed"] = 7
    of_the_thin = sorted(project.asks())
    project.corpus["synopsis"]["when"] = "always"
    opened = sorted(project.asks())

    assert asked == [everything, everything, [], everything]
    assert edited_prompt == everything
    assert closed == []
    assert after_closing == {"ok": 3, "skipped": 1}
    assert of_the_thin == ["ledger", "reader", "vector"]
    assert opened == ["short"]
    assert project.run("verify").splitlines()[0] == "ok"


FAULTS = {
    "hang": (faults.hang(), "timeout"),
    "drip": (faults.drip(30), "timeout"),
    "cut": (faults.cut(), "transport"),
    "error": (faults.server_error(), "transport"),
    "limit": (faults.rate_limited(0.01), "transport"),
    "json": (faults.bad_json(), "parse"),
    "choices": (faults.no_choices(), "parse"),
    "schema": (faults.off_schema(), "parse"),
    "refusal": (faults.refusal(), "refused"),
    "filter": (faults.content_filter(), "refused"),
    "length": (faults.truncated(), "truncated"),
    "context": (faults.context_length_exceeded(), "other"),
    "forbidden": (faults.forbidden(), "auth"),
}


@pytest.mark.slow
def test_each_fault_is_listed_as_what_it_is_and_mended_by_the_next_run(project: Project) -> None:
    """With a good answer between any two, so that the endpoint does not count as down."""
    project.synthesizer |= {"retries": 0, "concurrency": 1, "timeout": 2}
    for name, (fault, _) in FAULTS.items():
        project.write(f"{name}-1", f"{name}-2-good")
        project.server.when(lambda request, topic=f"# {name}-1": topic in request.content, fault)  # type: ignore[misc]  # bound now

    project.run("index", status=1)
    listed = project.run("status", "--failed")
    project.server.recover()
    project.synthesizer["timeout"] = 60
    again = project.asks()

    failed = dict(re.findall(r"^docs: (\w+)-1\.md: .* \[synopses: (\w+)\]$", listed, re.MULTILINE))
    assert failed == {name: kind for name, (_, kind) in FAULTS.items()}
    assert len(listed.splitlines()) == len(FAULTS)
    assert sorted(again.elements()) == sorted(f"{name}-1" for name in FAULTS)
    assert project.run("status", "--failed") == ""


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "concurrency"), [(signal.SIGINT, 8), (signal.SIGKILL, 32)])
def test_a_build_ended_half_way_and_resumed_asks_twice_for_next_to_nothing(
    project: Project, ending: signal.Signals, concurrency: int, record_property: Callable[[str, object], None]
) -> None:
    project.write(*(f"topic{i:03d}" for i in range(CALLS - 3)))
    project.synthesizer["concurrency"] = concurrency
    project.server.delay = 0.1
    run = project.start("index")
    while len(project.asked) < CALLS // 2:
        assert run.poll() is None, run.communicate()
        time.sleep(0.002)

    run.send_signal(ending)
    run.communicate(timeout=60)
    cut_off = len(project.asked)
    project.run("index")

    twice = len(project.asked) - CALLS
    record_property("asked twice", f"{twice} of {CALLS} at concurrency {concurrency}, {ending.name}")
    assert run.returncode in {INTERRUPTED, -ending}
    assert CALLS // 2 <= cut_off < CALLS
    assert set(project.asked) == set(project.asked[:cut_off]) | set(project.asked[cut_off:])
    assert len(set(project.asked)) == CALLS
    # The group being collected, and results that arrive while the previous group is written.
    assert 0 <= twice <= 0.01 * CALLS + 2 * GROUP + concurrency
    assert project.json("status")[0]["synopses"] == {Outcome.OK.value: CALLS}
    assert project.run("verify").splitlines()[0] == "ok"
