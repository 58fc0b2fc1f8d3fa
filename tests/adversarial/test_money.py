"""Budgets hold against hostile endpoints, killed processes, and concurrent runs."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid
from findingaid.indexing.budget import Budget, Price
from findingaid.store import Leases, Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, faults
from findingaid.testing.faults import Fault
from tests.conftest import text_about
from tests.indexing.test_budget import PRICE, Bill, model
from tests.support.programs import Program

pytestmark = pytest.mark.slow


TEXTS = 24

CONCURRENCY = 4

RUN = """
import sys
from tests.adversarial.test_money import run_alone, run_shared
(run_shared if len(sys.argv) > 3 else run_alone)(*sys.argv[1:])
"""


class _At:
    """An endpoint that runs in another process."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url


def aid_of(store: str, base_url: str, **given: Any) -> FindingAid:
    payloads = {f"{i:02d}.md": text_about(f"topic {i}") for i in range(TEXTS)}
    writer = model(_At(base_url), concurrency=CONCURRENCY)  # type: ignore[arg-type]  # its address is all that is asked for
    corpus = Corpus("docs", MemorySource(payloads), with_synopsis(Chunked(), writer))
    return FindingAid(Store(store), CountingEmbedder(), {"docs": corpus}, **given)


def run_alone(store: str, base_url: str) -> None:
    report = aid_of(store, base_url).index()
    assert report.ok, list(report.problems())


def run_shared(store: str, base_url: str, first: str, last: str, tokens: str) -> None:
    """One process of a run that has others, for some of the artifacts."""
    aid = aid_of(store, base_url, budget=Budget(tokens=int(tokens)))
    listings = [each for batch in aid.open_run().plan("docs").batches() for each in batch][int(first) : int(last)]
    aid.open_run("run 1").indexer("docs").build(listings)


def start(*arguments: object) -> Program:
    return Program(RUN, *map(str, arguments))


def done(*programs: Program) -> None:
    for program in programs:
        ended = program.ended()
        assert ended.returncode == 0, ended.stderr


@pytest.fixture
def store(tmp_path: Path) -> str:
    aid_of(str(tmp_path / "index"), "http://localhost").open_run().prepare()
    return str(tmp_path / "index")


FAULTS = (
    faults.server_error(),
    faults.rate_limited(0),
    faults.cut(),
    faults.bad_json(),
    faults.no_choices(),
    faults.refusal(),
    Fault("no usage", change=lambda completion: completion.pop("usage")),
    Fault("usage of nothing", change=lambda completion: completion.update(usage={"prompt_tokens": None})),
)


@pytest.mark.parametrize("case", range(4))
def test_no_run_costs_more_than_its_budget_whatever_the_endpoint_does(tmp_path: Path, seed: int, case: int) -> None:
    """Random sizes, faults, concurrency, budgets and batches; the server bills all that it began to answer."""
    rng = random.Random(seed * 100 + case)
    bill = Bill(lambda i: "word " * rng.choice([0, 1, 50, 200, 5000]))
    kind, bound = rng.choice([("tokens", rng.randint(2_000, 40_000)), ("money", rng.random() * 0.1)])
    budget = Budget(tokens=int(bound)) if kind == "tokens" else Budget(money=bound)
    batches = rng.choice([None, None, 3])
    with OpenAIServer(answer=bill) as server:
        server.script(*(rng.choice([None, None, rng.choice(FAULTS)]) for _ in range(60)))
        writer = model(
            server,
            concurrency=rng.choice([1, 4, 16]),
            retries=rng.choice([0, 2]),
            batch_from=batches,
            context_tokens=2_000,
        )
        payloads = {f"{i}.md": f"Topic {i} is described here. " * rng.choice([1, 20, 700]) for i in range(15)}
        corpus = Corpus("docs", MemorySource(payloads), with_synopsis(Chunked(), writer))
        prices = {"small": Price(PRICE.input, PRICE.output)}
        aid = FindingAid(
            Store(str(tmp_path / "index")), CountingEmbedder(), {"docs": corpus}, budget=budget, prices=prices
        )
        aid.index()
        at_once = bill.money
        for batch in server.batches.objects.values():  # is billed when it is answered
            for line in server.batches.lines(batch):
                server.batches.answer(line["body"])

    assert bill.total <= bound if kind == "tokens" else at_once + (bill.money - at_once) / 2 <= bound


def test_processes_of_a_run_stay_within_its_budget_together_also_when_one_is_killed(store: str, seed: int) -> None:
    rng = random.Random(seed)
    bill = Bill(lambda i: "word " * (i * 31 % 400))
    tokens = 9_000
    with OpenAIServer(answer=bill, delay=0.1) as server:
        shared = (store, server.base_url)
        killed = start(*shared, 0, 8, tokens)
        waited = time.monotonic()
        while len(bill.tokens) < rng.randint(1, 3) and killed.running and time.monotonic() - waited < 120:
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        killed.ended()
        done(start(*shared, 0, 12, tokens), start(*shared, 12, TEXTS, tokens))

    assert 0 < bill.total <= tokens


def test_a_run_that_waits_for_another_goes_on_at_once_when_that_is_killed_and_pays_what_it_had_not_cached(
    store: str,
) -> None:
    with OpenAIServer(delay=0.5) as server:
        killed = start(store, server.base_url)
        while len(server.completions) < 2 * CONCURRENCY and killed.running:
            time.sleep(0.01)
        other = start(store, server.base_url)
        time.sleep(1)
        killed.send_signal(signal.SIGKILL)
        killed.ended()
        done(other)
        asked = Counter(request.content for request in server.completions)

    # Only calls that the killed process had under way or not yet cached are paid again.
    assert len(asked) == TEXTS
    assert max(asked.values()) <= 2
    assert Leases(Store(store)).held() == []
    assert Store(store).count("calls") == TEXTS
