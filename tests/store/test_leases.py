"""Concurrent runs over one corpus take turns, a dead run holds nothing, and a purge excludes both."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from lance import LanceDataset

from findingaid import Corpus, FindingAid
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.model import Action
from findingaid.errors import ConfigError, StoreError
from findingaid.indexing.checks import Checker
from findingaid.indexing.release import Release
from findingaid.model import Vectors
from findingaid.reports import NO_CALLS, Report
from findingaid.store import Lease, Leases, Store, repair
from findingaid.store.leases import WHOLE_STORE, LeaseRow, this_host
from findingaid.store.tables import LOCKS
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.indexing.test_incremental import docs, records
from tests.support.programs import Program

ARTIFACTS = 96

RUN = """
import sys, time
from pathlib import Path
from findingaid.indexing import plan
from tests.store.test_leases import local, slow_aid

plan.BATCH_ARTIFACTS = 16
store, name, runs = sys.argv[1:]
aid = slow_aid(store, name)
ready = Path(f"{local(store)}.{name}.ready")
ready.touch()
while len(list(ready.parent.glob("*.ready"))) < int(runs):
    time.sleep(0.005)
report = aid.index()
assert report.ok, list(report.problems())
print(report.corpora["docs"].new)
"""


SCHEMES = ["", pytest.param("file://", marks=pytest.mark.slow)]
"""With the file locks of one machine, and without them, as on object storage."""


def local(store: str) -> str:
    return store.removeprefix("file://")


class Paid:
    """Calls to the models, in a file that outlives the process."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a")  # noqa: SIM115  # open as long as the process

    def add(self, what: str) -> None:
        time.sleep(0.002)
        self._file.write(f"{' '.join(what.split())}\n")
        self._file.flush()


@dataclass
class PaidEmbedder(CountingEmbedder):
    paid: Paid | None = None

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]  # lists are all it gets
        for text in texts:
            self.paid.add(f"embed {text}")  # type: ignore[union-attr]  # always given
        return super().embed(texts)


@dataclass
class PaidSynthesizer(ScriptedSynthesizer):
    paid: Paid | None = None

    def synthesize(self, text: str, metadata: object) -> str:  # type: ignore[override]  # not looked at
        self.paid.add(f"synthesize {text}")  # type: ignore[union-attr]  # always given
        return f"Synopsis of {' '.join(text.split())}"


def slow_aid(store: str, name: str) -> FindingAid:
    paid = Paid(f"{local(store)}.{name}.paid")
    texts = {f"{i}.md": text_about(f"topic {i}", f"more of {i}") for i in range(100, 100 + ARTIFACTS)}
    strategy = with_synopsis(Chunked(chunk_size=200, overlap=0), PaidSynthesizer(paid=paid))
    corpus = Corpus("docs", MemorySource(texts), strategy)
    return FindingAid(Store(store), PaidEmbedder(paid=paid), {"docs": corpus})


def start(store: str, name: str, runs: int = 1) -> Program:
    return Program(RUN, store, name, str(runs))


def paid(store: str, name: str = "*") -> list[str]:
    path = Path(local(store))
    return [line for file in path.parent.glob(f"{path.name}.{name}.paid") for line in file.read_text().splitlines()]


def edit(store: Store, *rows: LeaseRow) -> None:
    """Let the leases be exactly these."""
    Leases(store).edit(lambda _: list(rows))


def elsewhere(name: str = "docs", seconds: float = 300) -> LeaseRow:
    """A lease of a process on another host."""
    return LeaseRow("them", "elsewhere", 1, name, "", "", "", datetime.now(UTC) + timedelta(seconds=seconds))


@pytest.fixture
def store(aid: FindingAid, ready_made: ReadyMade) -> Store:
    ready_made("prepared", aid.open_run().prepare)
    return aid.store


# -- runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_runs_at_once_pay_for_everything_once(tmp_path: Path, scheme: str) -> None:
    store = f"{scheme}{tmp_path}/index"

    runs = [start(store, name, runs=2) for name in ("one", "two")]
    ended = [run.ended() for run in runs]

    assert [each.returncode for each in ended] == [0, 0], ended
    calls = Counter(paid(store))
    assert {what for what, times in calls.items() if times > 1} == set()
    assert len(calls) == ARTIFACTS * (1 + 2 + 1)  # a synopsis; two chunks and it to embed
    assert sum(int(each.stdout) for each in ended) == ARTIFACTS
    assert slow_aid(store, "check").verify() == []
    assert Leases(Store(store)).held() == []


def test_a_run_takes_over_at_once_from_one_that_was_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = str(tmp_path / "index")
    killed = start(store, "killed")
    while len(paid(store)) < 130:
        assert killed.running, killed.ended()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.ended()
    kept = {key for table in ("calls", "embeddings") for key in Store(store).rows(table, ["key"])["key"].to_pylist()}
    left = [row for row in orjson.loads((Path(store) / LOCKS / "leases.json").read_bytes()) if row["name"] == "docs"]

    aid = slow_aid(store, "next")
    report = aid.index()

    assert len(left) == 1
    assert report.ok
    assert "waiting" not in caplog.text
    assert kept
    assert len(paid(store, "next")) == ARTIFACTS * 4 - len(kept)
    assert aid.verify() == []
    assert Leases(aid.store).held() == []


@pytest.mark.usefixtures("indexed")
def test_runs_that_plan_the_same_removal_both_finish(aid: FindingAid, make_aid: Callable[..., FindingAid]) -> None:
    both = [make_aid(source=MemorySource({"reader.md": text_about("reader")})) for _ in range(2)]

    plans = [each.open_run().plan("docs", allow_loss=True) for each in both]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each, plan: each.indexer("docs").remove(plan.deleted), both, plans))

    assert [list(plan.deleted) for plan in plans] == [["ledger.md", "vector.md"]] * 2
    assert docs(both[0].index()).artifacts == 1
    assert both[0].verify() == []


@pytest.mark.parametrize("left", [timedelta(seconds=-1), timedelta(days=365)], ids=["ran-out", "clock-was-ahead"])
def test_a_dead_lease_of_another_host_is_taken_over(aid: FindingAid, store: Store, left: timedelta) -> None:
    """A machine that was started again counts as another host."""
    edit(store, elsewhere(seconds=left.total_seconds()))

    report = aid.index()

    assert docs(report).new == 3
    assert Leases(store).held() == []


def test_a_run_waits_for_another_run_over_its_corpus_and_finds_the_work_done(
    make_aid: Callable[..., FindingAid], store: Store, synthesizer: ScriptedSynthesizer
) -> None:
    told: list[str] = []

    def wait_for_a_second_run() -> None:
        second.append(pool.submit(partial(make_aid(embedder=late).open_run(tell=told.append).index, ["docs"])))
        while not told:
            assert not second[0].done(), second[0].result()
            time.sleep(0.01)

    second: list[Future[Report]] = []
    early, late = Suspended(meanwhile=[wait_for_a_second_run]), CountingEmbedder()
    with ThreadPoolExecutor(1) as pool:
        report = make_aid(embedder=early).index()
        found = second[0].result()

    assert told == [f"waiting for process {os.getpid()} on host {this_host().split('/')[0]}, which works on docs"]
    assert docs(report).new == 3
    assert (docs(found).unchanged, docs(found).new, docs(found).calls) == (3, 0, NO_CALLS)
    assert (len(early.seen), late.seen, len(synthesizer.seen)) == (9, [], 3)
    assert Leases(store).held() == []


def test_a_run_that_waits_holds_no_corpus_and_goes_on_when_it_is_free(
    aid: FindingAid, store: Store, embedder: CountingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    edit(store, elsewhere())

    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING, "findingaid"):
        run = pool.submit(aid.index)
        while "waiting" not in caplog.text:
            assert not run.done(), run.result()
            time.sleep(0.01)
        before, held = list(embedder.seen), Leases(store).held()
        edit(store)
        report = run.result()

    assert "waiting for process 1 on host elsewhere, which works on docs" in caplog.text
    assert [row.host for row in held if row.of_corpus] == ["elsewhere"]
    assert before == []
    assert docs(report).new == 3
    assert aid.verify() == []


def test_a_run_over_another_corpus_goes_on_beside_it(aid: FindingAid, store: Store) -> None:
    edit(store, elsewhere("other"))

    assert docs(aid.index()).new == 3
    assert [row.name for row in Leases(store).held()] == ["other"]


def test_runs_that_want_each_others_corpora_never_deadlock(store: Store) -> None:
    first, second = (Leases(store).of_run("", "model", lambda _: None) for _ in range(2))
    both = threading.Barrier(2)

    def work(lease: Lease, *corpora: str) -> None:
        with lease:
            lease.take(corpora[0])
            both.wait()
            lease.take(corpora[1])
            lease.check()

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(work, first, "a", "b"), pool.submit(work, second, "b", "a")]
        for run in runs:
            run.result(timeout=60)

    assert Leases(store).held() == []


def test_what_the_other_run_finished_counts_as_unchanged(
    aid: FindingAid, make_aid: Callable[..., FindingAid], embedder: CountingEmbedder, synthesizer: ScriptedSynthesizer
) -> None:
    aid.open_run().prepare()
    late = make_aid()
    planned = late.open_run().plan("docs")
    aid.index()
    embedder.seen.clear()
    synthesizer.seen.clear()

    late.indexer("docs").begin(planned)
    report = late.indexer("docs").build(planned.stale)

    assert len(planned.stale) == 3
    assert (report.new, report.changed, report.calls) == (0, 0, NO_CALLS)
    assert (embedder.seen, synthesizer.seen) == ([], [])


@pytest.mark.usefixtures("indexed")
def test_what_another_run_was_writing_is_not_taken_for_lost(
    aid: FindingAid, make_aid: Callable[..., FindingAid]
) -> None:
    ledger = aid.indexer("docs").ledger
    row = ledger.rows("docs")["ledger.md"]
    ledger.put("docs", [replace(row, n_records=99)])
    planned = make_aid().open_run().plan("docs")
    ledger.put("docs", [row])

    make_aid().indexer("docs").begin(planned)

    assert list(planned.lost) == ["ledger.md"]
    assert ledger.rows("docs")["ledger.md"].recipe == row.recipe


@dataclass
class Suspended(CountingEmbedder):
    """Embeds only after `meanwhile`, once: as on a laptop that was closed."""

    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]  # lists are all it gets
        while self.meanwhile:
            self.meanwhile.pop()()
        return super().embed(texts)


def much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time on a laptop that was closed for a while."""
    monkeypatch.setattr("findingaid.store.leases._now", lambda: datetime.now(UTC) + timedelta(seconds=45))


@pytest.mark.parametrize("jump", [timedelta(seconds=45), timedelta(hours=-1)], ids=["ahead", "back"])
def test_a_lost_lease_stops_the_commit_before_anything_is_written(
    make_aid: Callable[..., FindingAid],
    store: Store,
    synthesizer: ScriptedSynthesizer,
    monkeypatch: pytest.MonkeyPatch,
    jump: timedelta,
) -> None:
    def lose() -> None:
        edit(store)
        monkeypatch.setattr("findingaid.store.leases._now", lambda: datetime.now(UTC) + jump)

    embedder = Suspended(meanwhile=[lose])

    with pytest.raises(StoreError, match="docs: the lease of this run expired and was removed by another run"):
        make_aid(embedder=embedder).index()

    assert [store.count(table) for table in ("ledger", "artifacts", "surfaces", "synopses", "records")] == [0] * 5
    aid = make_aid(embedder=embedder)
    assert docs(aid.index()).new == 3
    assert len(embedder.seen) == 9
    assert len(synthesizer.seen) == 3
    assert aid.verify() == []


def test_a_lease_that_ran_out_but_that_nobody_took_is_good(
    make_aid: Callable[..., FindingAid], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late() -> None:
        Leases(store).edit(lambda rows: [replace(row, expires=datetime.now(UTC)) for row in rows])
        much_later(monkeypatch)

    report = make_aid(embedder=Suspended(meanwhile=[late])).index()

    assert docs(report).new == 3


def test_an_error_releases(make_aid: Callable[..., FindingAid], store: Store) -> None:
    def fail() -> None:
        raise ConfigError("no model")

    aid = make_aid(embedder=Suspended(meanwhile=[fail, fail]))

    with pytest.raises(ConfigError):
        aid.index()
    with pytest.raises(ConfigError):
        aid.indexer("docs").build(aid.open_run().plan("docs").stale)

    assert Leases(store).held() == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_run_takes_one_lease_and_one_of_nothing_none(
    make_aid: Callable[..., FindingAid], store: Store, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    edits: list[str] = []
    edit = Leases.edit

    def count(self: Leases, change: Callable[[list[LeaseRow]], list[LeaseRow] | None]) -> None:
        edits.append("")
        edit(self, change)

    monkeypatch.setattr(Leases, "edit", count)
    aid = replace(make_aid(), store=Store(f"{scheme}{store.uri}"))
    aid.open_run().prepare()
    edits.clear()

    aid.index()
    first = len(edits)
    aid.index()

    # On object storage a second one is for publishing, where no lock of a machine is enough.
    assert (first, len(edits)) == ((2, 2) if not scheme else (4, 4))


def test_purge_refuses_while_another_run_works(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.run("index")
    store = Store(str(cli.folder / "index"))
    edit(store, elsewhere())

    refused = cli.run("purge")
    edit(store)

    assert refused.exit_code == 1
    assert error_of(refused) == "not purged: process 1 on host elsewhere works on docs: wait until it ends"
    assert cli.run("purge").exit_code == 0


def test_runs_and_decisions_wait_for_a_purge_of_another_host(
    aid: FindingAid, make_aid: Callable[..., FindingAid], store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    edit(store, elsewhere(WHOLE_STORE))

    with ThreadPoolExecutor(3) as pool, caplog.at_level(logging.WARNING, "findingaid"):
        run = pool.submit(aid.index)
        decision = pool.submit(
            DecisionLog(make_aid().store).decide, lambda _: [Verdict(Action.ARCHIVE, "docs", "1", "a.md")], "ann"
        )
        with pytest.raises(StoreError, match="not purged: process 1 on host elsewhere purges: wait until it ends"):
            make_aid().purge()
        time.sleep(0.5)
        early = run.done(), decision.done(), store.count("ledger"), store.count("decisions")
        edit(store)
        report = run.result()
        decision.result()

    assert early == (False, False, 0, 0)
    assert "waiting for process 1 on host elsewhere, which purges" in caplog.text
    assert docs(report).new == 3
    assert store.count("decisions") == 1
    assert Leases(store).held() == []


@pytest.mark.usefixtures("indexed")
def test_a_purge_waits_for_a_decision_that_is_being_written(
    aid: FindingAid, make_aid: Callable[..., FindingAid]
) -> None:
    """The file of the decision is there and its commit is not; a purge must not take it for a leftover."""
    purges = []
    commit = LanceDataset.commit

    def slow_commit(*arguments: Any, **named: Any) -> Any:
        purges.append(pool.submit(make_aid().purge))
        time.sleep(0.5)
        assert not purges[0].done()
        return commit(*arguments, **named)

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        written = make_aid()
        decide = partial(DecisionLog(written.store).decide, actor="ann")
        decide(lambda _: [Verdict(Action.ARCHIVE, "docs", "1", "a.md")])
        revise = Store._revise

        def revise_slowly(*arguments: Any) -> None:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(LanceDataset, "commit", staticmethod(slow_commit))
                revise(*arguments)

        patch.setattr(Store, "_revise", revise_slowly)
        decide(lambda _: [Verdict(Action.ARCHIVE, "docs", "2", "a.md")])
        purges[0].result()

    assert [decision.claim_id for decision in DecisionLog(aid.store).all()] == ["1", "2"]
    assert aid.verify() == []


@pytest.mark.usefixtures("indexed")
def test_a_purge_that_lost_its_lease_stops(
    aid: FindingAid, make_aid: Callable[..., FindingAid], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = Release.require_fit

    def lose(self: Release, what: str) -> None:
        fit(self, what)
        edit(self.store)
        much_later(monkeypatch)

    monkeypatch.setattr(Release, "require_fit", lose)
    before = {table: aid.store.dataset(table).version for table in aid.store.tables}

    with pytest.raises(StoreError, match="the lease of this process expired and was removed by another"):
        make_aid().purge()

    assert {table: aid.store.dataset(table).version for table in aid.store.tables} == before


@pytest.mark.usefixtures("store")
def test_a_purge_waits_for_the_end_of_a_run_that_only_publishes(
    aid: FindingAid, make_aid: Callable[..., FindingAid]
) -> None:
    """Neither waits for the other: the run was there first, and may publish."""
    publish = Release._publish
    purges: list[Future[object]] = []

    def publish_late(self: Release, *arguments: Any) -> Any:
        purges.append(pool.submit(make_aid().purge))
        while not Leases(self.store).held(WHOLE_STORE):
            time.sleep(0.01)
        return publish(self, *arguments)

    aid.indexer("docs").build(aid.open_run().plan("docs").stale)
    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "_publish", publish_late)
        closed = aid.open_run().close(["docs"])
        purges[0].result()

    assert closed.unpublished is None
    assert aid.verify() == []


def test_two_runs_that_check_at_the_same_time_do_not_wait_for_each_other(
    make_aid: Callable[..., FindingAid], store: Store
) -> None:
    """Each looks whether the other is writing, and each has its lease until it has published."""
    ready = threading.Barrier(2)
    check = Release._check_new

    def check_together(self: Release, *arguments: Any) -> Any:
        ready.wait(60)
        return check(self, *arguments)

    corpora = [replace(make_aid().corpora["docs"], name=name) for name in ("one", "two")]
    aids = [replace(make_aid(), corpora={corpus.name: corpus}) for corpus in corpora]
    with ThreadPoolExecutor(2) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "_check_new", check_together)
        patch.setattr(Checker, "agrees", lambda _: False)  # as in the middle of a commit of several tables
        reports = list(pool.map(FindingAid.index, aids))

    assert [report.unpublished for report in reports] == ["some corpora are not rebuilt yet: index all of them"] * 2
    assert Leases(store).held() == []


def test_publishing_waits_for_a_batch_that_another_run_is_writing(aid: FindingAid, store: Store) -> None:
    aid.index()
    ledger = aid.indexer("docs").ledger
    row = ledger.rows("docs")["ledger.md"]
    ledger.put("docs", [replace(row, n_records=99)])
    edit(store, elsewhere())

    with ThreadPoolExecutor(1) as pool:
        finish = pool.submit(aid.open_run().close, ["docs"])
        time.sleep(0.2)
        done = finish.done()
        ledger.put("docs", [row])
        end = finish.result()

    assert not done
    assert end.unpublished is None


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_a_leases_table_that_is_lost_or_damaged_is_made_anew(
    make_aid: Callable[..., FindingAid], tmp_path: Path, harm: str
) -> None:
    aid = replace(make_aid(), store=Store(f"file://{tmp_path}/index"))
    aid.index()
    before = records(aid)
    versions = next((tmp_path / "index" / "leases.lance").glob("_versions"))
    for manifest in versions.glob("*.manifest"):
        if harm == "lost":
            manifest.unlink()
        else:
            manifest.write_bytes(b"not a manifest")

    problems = aid.verify()
    report = aid.index()

    assert len(problems) == 1
    assert problems[0].startswith(f"table leases is {harm}")
    assert report.repaired == [f"table leases was {harm} and was rebuilt"]
    assert docs(report).unchanged == 3
    assert records(aid) == before
    assert aid.verify() == []


def test_a_file_of_leases_that_was_cut_off_holds_nothing(aid: FindingAid, store: Store) -> None:
    edit(store, elsewhere())
    file = Path(store.uri) / LOCKS / "leases.json"
    file.write_bytes(file.read_bytes()[:-10])

    assert docs(aid.index()).new == 3
    assert Leases(store).held() == []


# -- leases --------------------------------------------------------------------------------------------


def of_run(store: Store, run: str = "") -> Lease:
    """The lease of a run that tells nobody for whom it waits."""
    return Leases(store).of_run(run, "model", lambda _: None)


def test_processes_of_a_run_share_a_corpus_for_different_parts_of_it(store: Store) -> None:
    with of_run(store, "a").on("docs", "1.md"), of_run(store, "a").on("docs", "2.md"), of_run(store, "b") as other:
        same, another = of_run(store, "a").try_take("docs", "1.md"), other.try_take("docs", "3.md")
        beside = other.try_take("notes")

    assert (len(same), len(another), beside) == (1, 2, [])
    assert Leases(store).held() == []


def test_a_step_that_is_tried_again_takes_over_at_once_from_its_killed_process(store: Store) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    edit(store, replace(elsewhere(), host=this_host(), pid=gone.pid, run="a", part="1.md"))

    with of_run(store, "a") as lease:
        assert lease.try_take("docs", "1.md") == []


def test_a_lease_is_held_until_the_end_of_the_outermost_with(store: Store) -> None:
    with of_run(store) as lease:
        with lease.on("docs"), lease.on("docs"):
            pass
        within = [row.name for row in Leases(store).held()]
        with lease.on("notes"):
            moved = [row.name for row in Leases(store).held()]

    assert (within, moved, Leases(store).held()) == (["docs"], ["notes"], [])


def test_a_lease_lives_longer_than_its_time_while_its_process_does(store: Store) -> None:
    leases = Leases(store, ttl=timedelta(seconds=1.5))

    with leases.alone("docs") as lease:
        first = leases.held()[0].expires
        while datetime.now(UTC) < first + leases.ttl:
            time.sleep(0.1)
        taken = of_run(store).try_take("docs") == []
        lease.check()

    assert not taken


def test_no_thread_renews_a_lease_after_its_release(store: Store) -> None:
    """A process that ended while one was inside Lance was aborted by the system, with its work done."""

    class SlowLeases(Leases):
        def edit(self, change: Callable[[list[LeaseRow]], list[LeaseRow] | None]) -> None:
            renewing.set()
            time.sleep(0.2)
            super().edit(change)

    renewing, before = threading.Event(), threading.enumerate()
    with SlowLeases(store, ttl=timedelta(seconds=0.9)).alone("docs"):
        renewing.clear()
        assert renewing.wait(10)

    new = [thread.name for thread in threading.enumerate() if thread not in before]
    assert [name for name in new if name.startswith("lease ")] == []
    assert Leases(store).held() == []


def test_a_process_that_is_gone_holds_nothing(store: Store) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = replace(elsewhere(), host=this_host())

    assert not replace(here, pid=gone.pid).live
    assert replace(here, pid=os.getppid()).live
    assert not replace(here, pid=os.getpid()).live, "an earlier process of the same number"
    assert replace(elsewhere(), pid=gone.pid).live, "another host has its own numbers"


def test_a_claim_that_others_always_come_before_is_tried_until_patience_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the locks of one machine, where each of many writers may lose many times in a row."""
    mine, theirs = (Leases(Store(f"file://{tmp_path}/index")) for _ in range(2))
    repair.prepare(Store(f"file://{tmp_path}/index"), 8)
    before = iter(range(8))

    def late(rows: list[LeaseRow]) -> list[LeaseRow]:
        if (i := next(before, None)) is not None:
            theirs.edit(lambda rows: [*rows, elsewhere(f"{i}")])
        return [*rows, elsewhere("mine")]

    mine.edit(late)

    assert [row.name for row in mine.held()] == [*(f"{i}" for i in range(8)), "mine"]

    monkeypatch.setattr("findingaid.store.store.PATIENCE_SECONDS", 0.0)
    before = iter(range(1))
    with pytest.raises(StoreError, match=r"leases of .*: 1 commits in a row conflicted with other writers: run again"):
        mine.edit(late)


TAKE = """
import sys
from tests.store.test_leases import take_turns
take_turns(sys.argv[1], sys.argv[2])
"""


def take_turns(uri: str, folder: str) -> None:
    """Two threads take corpora repeatedly, and mark them by files that must not exist yet."""

    def work(seed: int) -> None:
        rng = random.Random(seed)
        store = Store(uri)
        repair.prepare(store, 8)
        for _ in range(6):
            with of_run(store) as lease:
                for corpus in rng.sample("abcd", 2):
                    lease.take(corpus)
                    Path(folder, corpus).touch(exist_ok=False)
                    time.sleep(rng.random() * 0.01)
                    lease.check()
                    Path(folder, corpus).unlink()
                    Path(folder, f"{corpus}.held").touch()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (os.getpid(), -os.getpid())))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_no_corpus_is_ever_held_by_two(tmp_path: Path, scheme: str) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    takers = [Program(TAKE, f"{scheme}{tmp_path}/index", str(marks)) for _ in range(4)]

    ended = [taker.ended() for taker in takers]

    assert [each.returncode for each in ended] == [0] * 4, ended
    assert sorted(path.name for path in marks.iterdir()) == [f"{i}.held" for i in "abcd"]
    assert Leases(Store(f"{scheme}{tmp_path}/index")).held() == []


def test_tables_that_several_make_at_once_are_made_once(tmp_path: Path) -> None:
    """Without the locks of one machine: rows that the first writes are still there after the last."""
    stores = [Store(f"file://{tmp_path}/index") for _ in range(6)]
    ready = threading.Barrier(len(stores))

    def make(lease: Lease, store: Store) -> bool:
        ready.wait()
        repair.prepare(store, 8)
        return lease.try_take("docs") == []

    with ExitStack() as held, ThreadPoolExecutor(len(stores)) as pool:
        leases = [held.enter_context(of_run(store)) for store in stores]
        taken = list(pool.map(make, leases, stores))

    assert sorted(taken) == [False] * 5 + [True]
    assert stores[0].dataset("ledger").version == 1
