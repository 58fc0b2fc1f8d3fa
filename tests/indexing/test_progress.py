"""Long runs say how far they are, in lines of a log."""

from __future__ import annotations

import logging
from collections import Counter
from threading import Thread
from typing import Any

import pytest

from findingaid import FindingAid
from findingaid.indexing import progress
from findingaid.indexing.budget import BudgetTracker, Price
from findingaid.indexing.progress import ProgressLog
from findingaid.model import Usage
from findingaid.testing import ScriptedSynthesizer
from tests.conftest import Cli, text_about


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(progress, "time", found := Clock())
    return found


@pytest.mark.usefixtures("indexed")
def test_a_line_has_counts_rate_time_left_and_spending(aid: FindingAid, clock: Clock) -> None:
    spending = BudgetTracker(aid.store, prices={"small": Price(1_000_000, 0)})
    spending.usage, spending.cost = Usage(3, 40, 2), 0.5
    said: list[str] = []
    log = ProgressLog(said.append, "docs", spending)

    log("artifacts", 100, 0)
    log("embeddings", 400, 0)
    clock.now = 20
    log("embeddings", 0, 200)
    log("artifacts", 0, 20)
    clock.now = 40
    log("artifacts", 0, 20)

    assert said == [
        "docs: artifacts 0 of 100, embeddings 200 of 400; 10.0 embeddings/s, about 20 seconds left;"
        " 3 calls, 42 tokens, 0.50 spent",
        "docs: artifacts 40 of 100, embeddings 200 of 400; 1.0 artifacts/s, about 60 seconds left;"
        " 3 calls, 42 tokens, 0.50 spent",
    ]


@pytest.mark.usefixtures("indexed")
def test_spending_of_other_processes_of_a_run_is_in_the_line(aid: FindingAid, clock: Clock) -> None:
    here, there = (BudgetTracker(aid.store, run="one", shared=True) for _ in range(2))
    there.spend("docs", ScriptedSynthesizer(), Usage(2, 30, 5))
    said: list[str] = []
    log = ProgressLog(said.append, "docs", here)

    log("artifacts", 10, 0)
    clock.now = 10
    log("artifacts", 0, 5)

    assert said == ["docs: artifacts 5 of 10; 0.5 artifacts/s, about 10 seconds left; 2 calls, 35 tokens"]


def test_threads_report_at_once_while_a_line_is_made(aid: FindingAid, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tallying(Counter[str]):
        """Counter of which another thread reports a new stage while it is read for a line."""

        def items(self) -> Any:
            for item in super().items():
                others.append(Thread(target=log, args=(f"stage {len(others)}", 1, 0)))
                others[-1].start()
                others[-1].join(0.1)
                yield item

    others: list[Thread] = []
    said: list[str] = []
    monkeypatch.setattr(progress, "EVERY", 0)
    monkeypatch.setattr(progress, "Counter", Tallying)
    log = ProgressLog(said.append, "docs", BudgetTracker(aid.store))

    log("artifacts", 10, 0)
    log("artifacts", 0, 5)
    for other in others:
        other.join()
    monkeypatch.undo()

    assert [line.partition(";")[0] for line in said] == ["docs: artifacts 5 of 10"]


def test_a_run_without_a_progress_callback_logs_its_progress(
    aid: FindingAid, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0)

    with caplog.at_level(logging.INFO, "findingaid"):
        aid.index()

    assert any("synopses 1 of 3; " in line for line in caplog.messages)


def test_index_without_a_terminal_prints_progress_on_stderr(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0)
    cli.settings["corpora"]["docs"]["synopsis"] = True
    for topic in ("ledger", "vector"):
        cli.write(f"{topic}.md", text_about(topic))

    done = cli.run("index", "--json")

    assert "synopses 1 of 2; " in done.stderr
    assert done.stdout.startswith("{")
