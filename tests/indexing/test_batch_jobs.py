"""Builds with synopses from a batch API, over several runs, killed at every step."""

from __future__ import annotations

import copy
import itertools
import operator
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from findingaid import Corpus, FindingAid
from findingaid.indexing.batch_jobs import LOST_AFTER, choose_for_batch
from findingaid.indexing.budget import Budget, Price
from findingaid.model import SynthesizerInput, Usage
from findingaid.reports import CorpusReport
from findingaid.store import OpenBatch, OpenBatches, Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis.extractive import Extractive
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, Request, faults
from tests.conftest import Cli, ReadyMade, openai, text_about
from tests.support.programs import Program, run_program

NAMES = [f"{i}.md" for i in range(6)]
KEY = "sk-a-secret-key"
DOWN = faults.server_error(retry_after=0.01)

Make = Callable[..., FindingAid]


def payloads() -> dict[str, Any]:
    return {name: text_about(f"topic {name}") for name in NAMES}


def writer(base_url: str, **parameters: Any) -> OpenAISynthesizer:
    given = {"batch_from": 3, "timeout": 5.0, "retries": 0} | parameters
    return OpenAISynthesizer("small", base_url, KEY, **given)


def aid_of(store: str, base_url: str, source: MemorySource | None = None, **changed: Any) -> FindingAid:
    """The aid anew, as another process would have it; the store stays."""
    of_aid = {name: changed.pop(name) for name in ("budget", "prices") if name in changed}
    synopsis = changed.pop("synopsis", {})
    strategy = with_synopsis(Chunked(chunk_size=200, overlap=0), writer(base_url, **changed), **synopsis)
    corpora = {"docs": Corpus("docs", source or MemorySource(payloads()), strategy)}
    return FindingAid(Store(store), CountingEmbedder(), corpora, **of_aid)


@pytest.fixture
def source() -> MemorySource:
    return MemorySource(payloads())


@pytest.fixture
def make(tmp_path: Path, server: OpenAIServer, source: MemorySource) -> Make:
    return lambda **changed: aid_of(
        str(tmp_path / "index"), changed.pop("base_url", server.base_url), source, **changed
    )


AT_ENDPOINT: dict[str, Any] = {}
"""The batch and the file that the endpoint of the ready-made store has."""


@pytest.fixture
def sent(make: Make, server: OpenAIServer, ready_made: ReadyMade) -> None:
    """A store that has sent a batch of all synopses, and the endpoint that has it."""
    parts = ("batches.objects", "files.objects", "files.contents")

    def send() -> None:
        make().index()
        AT_ENDPOINT.update({part: copy.deepcopy(operator.attrgetter(part)(server)) for part in parts})

    ready_made("batch sent", send)
    for part in parts:
        operator.attrgetter(part)(server).update(copy.deepcopy(AT_ENDPOINT[part]))
    server.batches._numbers = server.files._numbers = itertools.count(2)


@pytest.fixture
def ended(sent: None, server: OpenAIServer) -> None:
    """The same, once the batch has ended."""
    finish(server)


def docs(aid: FindingAid, **how: Any) -> CorpusReport:
    report = aid.index(**how)
    return report.corpora["docs"]


def synopses(aid: FindingAid) -> set[str]:
    """The artifacts that have a published synopsis."""
    rows = aid.store.published().to_table(columns=["artifact_id", "surface_kind"]).to_pylist()
    return {row["artifact_id"] for row in rows if row["surface_kind"] == "synopsis"}


def open_batches(aid: FindingAid) -> list[OpenBatch]:
    return OpenBatches(aid.store).of()


def created(server: OpenAIServer) -> int:
    return len(server.batches.objects)


def finish(server: OpenAIServer) -> None:
    """Let every batch come to its end, as hours do."""
    for batch_id in list(server.batches.objects):
        for _ in range(4):
            server.reply(Request("GET", f"/v1/batches/{batch_id}", headers={"authorization": f"Bearer {KEY}"}))


def is_done(make: Make, server: OpenAIServer) -> bool:
    """Whether all synopses are there, each asked for once, and nothing is left anywhere."""
    aid = make()
    assert synopses(aid) == set(NAMES)
    assert aid.store.count("calls") == len(NAMES)
    assert open_batches(aid) == []
    assert server.files.objects == {}
    assert created(server) == 1
    assert server.completions == []
    assert [usage.usage.calls for usage in aid.status()[0].usage] == [len(NAMES)]
    assert aid.verify() == []
    return docs(aid).unchanged == len(NAMES)


class TestBuild:
    def test_all_is_published_at_once_and_the_synopses_when_the_batch_is_done(
        self, make: Make, server: OpenAIServer
    ) -> None:
        prices = {"small": Price(1e6, 2e6)}
        foreseen = make(prices=prices).plan().corpora["docs"]
        report = make(prices=prices).index()
        sent = report.corpora["docs"]

        assert foreseen.cost == (foreseen.usage.input_tokens + 2 * foreseen.usage.output_tokens) / 2
        assert report.ok
        assert (sent.pending, sent.calls.synthesize, sent.usage) == (6, 0, Usage())
        assert sent.left.startswith("6 synopses are left to the next run: batch batch_000001 of 6 synopses, sent 20")
        assert {hit.artifact_id for hit in make().search("described", 20)} == set(NAMES)
        (status,) = make().status()
        assert (status.synopses, list(status.usage)) == ({"pending": 6}, [])

        waits = docs(make())

        assert (waits.pending, waits.left, waits.changed) == (6, sent.left, 0)

        finish(server)
        done = docs(make(prices=prices))

        assert (done.pending, done.calls.synthesize, done.changed) == (0, 6, 6)
        (usage,) = make().status()[0].usage
        assert (usage.model, usage.usage.calls) == ("small (batch)", 6)
        assert usage.cost == (usage.usage.input_tokens + 2 * usage.usage.output_tokens) / 2
        assert is_done(make, server)

    def test_a_batch_is_of_enough_texts_that_take_one_call_each(self) -> None:
        url = "http://127.0.0.1:1/v1"
        shown = {name: SynthesizerInput(name, text) for name, text in payloads().items()}
        long = {"long.md": SynthesizerInput("long.md", "A long text that goes on and on. " * 400)}

        assert choose_for_batch(writer(url, batch_from=6, context_tokens=2_000), shown | long) == shown
        assert choose_for_batch(writer(url, batch_from=7, context_tokens=2_000), shown | long) == {}
        assert choose_for_batch(writer(url, batch_from=None), shown) == {}

    def test_a_fallback_stands_in_until_it_is_done(self, make: Make, server: OpenAIServer) -> None:
        fallback = {"fallback": Extractive(1)}
        make(synopsis=fallback).index()
        assert {row.producer_id for row in make().show("0.md").records[:1]} == {"extractive-1-v6"}

        finish(server)
        make(synopsis=fallback).index()

        assert make().show("0.md").records[0].producer_id == writer(server.base_url).id

    @pytest.mark.usefixtures("sent")
    def test_an_edit_meanwhile_is_asked_for_by_itself(
        self, make: Make, server: OpenAIServer, source: MemorySource
    ) -> None:
        source.payloads["0.md"] = text_about("something else")

        report = docs(make())

        assert (report.pending, report.calls.synthesize) == (5, 1)
        finish(server)
        assert (docs(make()).calls.synthesize, created(server)) == (5, 1)
        assert open_batches(make()) == []

    @pytest.mark.usefixtures("ended")
    def test_a_batch_of_deleted_artifacts_is_taken_in_all_the_same(
        self, make: Make, server: OpenAIServer, source: MemorySource
    ) -> None:
        source.payloads.clear()
        source.payloads["new.md"] = text_about("something new")

        make().index(allow_loss=True)

        assert open_batches(make()) == []
        assert server.files.objects == {}
        assert make().store.count("calls") == 7


@pytest.mark.usefixtures("sent")
class TestPartialResults:
    def test_what_came_is_used_and_what_was_not_tried_is_asked_for_again(
        self, make: Make, server: OpenAIServer
    ) -> None:
        server.batch_end, server.batch_answers = "expired", 2
        finish(server)

        report = docs(make())

        assert (report.calls.synthesize, report.pending, len(report.failed)) == (2, 4, 0)
        assert (created(server), len(open_batches(make())[0].keys)) == (2, 4)

    def test_one_that_failed_is_reported_once_with_its_reason_and_asked_for_by_the_next_run(
        self, make: Make, server: OpenAIServer
    ) -> None:
        server.when(lambda r: r.method == "POST" and b"topic 3.md" in r.body and b"custom_id" not in r.body,
                    faults.refusal(), times=1)  # fmt: skip
        finish(server)

        report = make().index()

        assert [str(f) for f in report.corpora["docs"].failed] == [
            "3.md: the model or a filter refused to write about this text [synopses: refused]"
        ]
        assert synopses(make()) == {name for name in NAMES if name != "3.md"}
        again = make().index()
        assert again.ok
        assert (again.corpora["docs"].calls.synthesize, len(server.completions)) == (1, 1)
        assert synopses(make()) == set(NAMES)

    def test_a_batch_that_is_refused_is_a_failure_with_its_reason_and_sent_again_by_the_next_run(
        self, make: Make, server: OpenAIServer
    ) -> None:
        server.batch_end = "failed"
        finish(server)

        report = docs(make())

        assert {f.message for f in report.failed} == {
            "the batch batch_000001 is failed: token_limit_exceeded: Enqueued token limit reached for this model."
        }
        assert (len(report.failed), created(server), open_batches(make())) == (6, 1, [])
        assert (docs(make()).pending, created(server)) == (6, 2)


class TestEndpoint:
    def test_one_that_is_down_leaves_all_pending_and_is_asked_once_and_the_key_is_not_kept(
        self, make: Make, server: OpenAIServer, tmp_path: Path
    ) -> None:
        server.when(lambda _: True, DOWN)

        report = make().index()

        assert report.ok
        assert report.corpora["docs"].pending == 6
        assert "no batch was sent: 500" in report.corpora["docs"].left
        assert len(server.requests) == 4  # with the retries of the client

        server.recover()
        server.when(lambda _: True, faults.unauthorized(KEY))
        assert "the endpoint does not know the API key" in docs(make()).left
        server.recover()
        assert (docs(make()).pending, created(server)) == (6, 1)
        assert not [p for p in (tmp_path / "index").rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]

    @pytest.mark.usefixtures("ended")
    def test_one_that_goes_down_while_a_batch_is_under_way_loses_nothing(
        self, make: Make, server: OpenAIServer, source: MemorySource
    ) -> None:
        server.when(lambda _: True, DOWN)
        source.payloads["new.md"] = text_about("something new")

        report = docs(make())

        assert report.pending == 7
        assert "cannot be inspected: 500" in report.left
        server.recover()
        assert docs(make()).calls.synthesize == 7
        assert synopses(make()) == {*NAMES, "new.md"}

    @pytest.mark.usefixtures("sent")
    @pytest.mark.parametrize("age", [LOST_AFTER, -2 * LOST_AFTER], ids=["old", "of-a-clock-that-was-ahead"])
    def test_a_batch_that_it_does_not_know_waits_for_two_days_and_is_then_asked_for_again(
        self, make: Make, server: OpenAIServer, age: timedelta
    ) -> None:
        server.batches.objects.clear()

        assert "which the endpoint does not know" in docs(make()).left
        (batch,) = open_batches(make())
        OpenBatches(make().store).close(batch)
        OpenBatches(make().store).intend(replace(batch, at=batch.at - age))
        report = docs(make())

        assert (report.pending, created(server)) == (6, 1)
        assert abs(open_batches(make())[0].at - datetime.now(UTC)) < timedelta(hours=1)


class TestBudget:
    def test_it_counts_what_a_batch_will_take(self, make: Make, server: OpenAIServer) -> None:
        one = writer(server.base_url).most(payloads()["0.md"])
        assert one
        price = Price(1e3, 1e3)

        def budget(synopses: float) -> dict[str, Any]:
            return {"budget": Budget(money=synopses * price.of(one)), "prices": {"small": price}}

        report = docs(make(**budget(2.01)))  # four at half the price

        assert len(open_batches(make())[0].keys) == 4
        assert (report.pending, report.calls.synthesize) == (6, 0)
        assert report.left.startswith("6 synopses are left to the next run: batch batch_000001 of 4 synopses")

        report = docs(make(**budget(2.01)))

        assert report.calls.synthesize == 2  # too few for a batch
        finish(server)
        assert docs(make(**budget(0))).calls.synthesize == 4  # were paid from the budget of the run that sent them
        assert synopses(make()) == set(NAMES)

    def test_processes_of_one_run_count_what_others_have_sent(self, make: Make, server: OpenAIServer) -> None:
        aid = make(budget=Budget(calls=4), batch_from=1)
        aid.open_run().prepare()
        listings = next(iter(aid.open_run().plan("docs").batches()))

        first = aid.open_run("run 1").indexer("docs").build(listings[:3])
        second = aid.open_run("run 1").indexer("docs").build(listings[3:])
        finish(server)
        third = aid.open_run("run 1").indexer("docs").build(listings)

        assert [len(batch.keys) for batch in open_batches(aid)] == []
        assert (first.pending, second.pending) == (3, 3)
        assert (third.calls.synthesize, third.pending) == (4, 2)


@pytest.mark.usefixtures("sent")
class TestAskedOtherwise:
    def test_a_plan_says_what_waits_and_what_else_will_cost(
        self, make: Make, server: OpenAIServer, source: MemorySource
    ) -> None:
        source.payloads["new.md"] = text_about("something new")

        report = make(prices={"small": Price(1e6, 1e6)}).plan().corpora["docs"]

        assert (report.pending, report.calls.synthesize, report.usage.calls) == (6, 1, 1)
        assert report.cost == report.usage.tokens
        assert "batch batch_000001 of 6 synopses, sent" in report.left
        assert server.requests == []

    def test_pay_again_sends_what_was_written_again_and_what_waits_once(self, make: Make, server: OpenAIServer) -> None:
        assert docs(make(), force=True, pay_again=True).pending == 6
        finish(server)
        assert docs(make(), force=True).calls.synthesize == 6
        assert is_done(make, server)

        report = docs(make(), force=True, pay_again=True)

        assert (report.pending, created(server)) == (6, 2)

    def test_without_batches_from_now_on_the_open_one_is_still_taken_in(self, make: Make, server: OpenAIServer) -> None:
        finish(server)

        assert docs(make(batch_from=None)).calls.synthesize == 6
        assert server.completions == []

    def test_another_synthesizer_leaves_the_old_batch_open_until_the_old_one_is_back(
        self, make: Make, server: OpenAIServer
    ) -> None:
        finish(server)

        report = docs(make(temperature=0.5))

        assert (report.pending, created(server)) == (6, 2)
        assert len(open_batches(make())) == 2
        assert docs(make()).calls.synthesize == 6
        assert len(open_batches(make())) == 1

    def test_purge_keeps_a_batch_under_way_and_forgets_one_that_nobody_can_take_in(
        self, make: Make, server: OpenAIServer
    ) -> None:
        make().purge()
        assert len(open_batches(make())) == 1

        make(temperature=0.7).index()
        make(temperature=0.7).purge()

        assert [batch.producer_id for batch in open_batches(make())] == [writer(server.base_url, temperature=0.7).id]


class TestStatus:
    def test_it_shows_open_batches_without_asking_the_endpoint(self, cli: Cli, server: OpenAIServer) -> None:
        for name, text in payloads().items():
            cli.write(name, text)
        cli.settings["synthesizer"] = openai(server, batch_from=3)
        cli.settings["corpora"]["docs"]["synopsis"] = True
        assert cli.run("index").exit_code == 0
        looks = len(server.requests)

        shown, (told,) = cli.run("status").stdout, cli.json("status")

        assert "docs: waits for batch batch_000001 of 6 synopses, sent 20" in shown
        (batch,) = told["batches"]
        assert (batch["batch_id"], batch["synopses"], batch["calls"]) == ("batch_000001", 6, 6)
        assert "keys" not in batch
        assert len(server.requests) == looks


# -- killed, and at once ----------------------------------------------------------------------------------

STEPS = (
    "OpenBatches.intend",
    "Files.create",
    "Batches.create",
    "OpenBatches.sent",
    "keep_synopses",
    "BudgetTracker.settle",
    "Files.delete",
    "OpenBatches.close",
)
"""Everything that changes something, in the order in which it is done: the first four to send, the rest to take in."""

# Runs in a process of its own, which is killed before or after the step named.
CHILD = """
import os, signal, sys
import findingaid.indexing.batch_jobs
from findingaid.indexing.budget import BudgetTracker
from findingaid.store import OpenBatches
from openai.resources import Batches, Files
from tests.indexing.test_batch_jobs import aid_of

store, base_url, die_at, when = sys.argv[1:]
owner, _, name = die_at.rpartition(".")
where = globals().get(owner) or findingaid.indexing.batch_jobs
step = getattr(where, name)

def dying(*arguments, **named):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    step(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(where, name, dying)
aid_of(store, base_url).index()
"""


@pytest.mark.parametrize(
    ("step", "when"),
    [
        ("keep_synopses", "before"),
        *(pytest.param(step, "before", marks=pytest.mark.slow) for step in STEPS if step != "keep_synopses"),
        pytest.param("Batches.create", "after", marks=pytest.mark.slow),  # the batch is paid, and not yet recorded
        pytest.param(STEPS[-1], "after", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_step_one_batch_is_made_and_paid_and_nothing_is_lost(
    make: Make, server: OpenAIServer, tmp_path: Path, request: pytest.FixtureRequest, step: str, when: str
) -> None:
    if STEPS.index(step) >= STEPS.index("keep_synopses"):
        request.getfixturevalue("ended")

    killed = run_program(CHILD, str(tmp_path / "index"), server.base_url, step, when)
    make().index()
    finish(server)
    make().index()

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert is_done(make, server)


RUN = """
import sys
from tests.indexing.test_batch_jobs import aid_of
print(aid_of(*sys.argv[1:]).index().ok)
"""


@pytest.mark.slow
def test_two_runs_at_once_send_one_batch_and_take_it_in_once(make: Make, server: OpenAIServer, tmp_path: Path) -> None:
    def twice() -> None:
        runs = [Program(RUN, str(tmp_path / "index"), server.base_url) for _ in range(2)]
        ended = [run.ended() for run in runs]
        assert [run.returncode for run in ended] == [0, 0], ended

    twice()
    assert len(open_batches(make())) == 1
    finish(server)
    twice()

    assert is_done(make, server)


def test_a_run_that_meets_a_batch_which_another_is_sending_waits_for_it(make: Make, server: OpenAIServer) -> None:
    """The same texts are in another corpus, so that no lease on a corpus keeps the two apart."""
    aid = make()
    other = replace(aid, corpora={"other": replace(aid.corpora["docs"], name="other")})
    aid.open_run().prepare()
    uploading, go_on = threading.Event(), threading.Event()
    reply = server.files.reply

    def slow(request: Request, rest: Any) -> Any:
        if request.method == "POST":
            uploading.set()
            return reply(request, rest) if go_on.is_set() else faults.server_error(503, retry_after=0.5).reply({})
        return reply(request, rest)

    server.files.reply = slow  # type: ignore[method-assign]  # an upload that takes its time
    sending = threading.Thread(target=aid.index)
    sending.start()
    assert uploading.wait(30)
    meeting = threading.Thread(target=other.index)
    meeting.start()
    meeting.join(0.7)
    go_on.set()
    sending.join()
    meeting.join()

    assert created(server) == 1
    assert {row.synopses["pending"] for row in [*aid.status(), *other.status()]} == {6}
