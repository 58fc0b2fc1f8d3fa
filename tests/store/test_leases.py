"""Concurrent runs share the work: one run processes each artifact, and a dead run holds nothing."""

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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

from findingaid import Corpus, FindingAid
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.model import Action
from findingaid.errors import ConfigError, StoreError
from findingaid.indexing.release import Release
from findingaid.model import Vectors
from findingaid.reports import NO_CALLS
from findingaid.store import Leases, Store
from findingaid.store.leases import BRIEF, WHOLE_STORE, Held, this_host
from findingaid.store.leases import RUN as OF_A_RUN
from findingaid.store.store import TABLES
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.indexing.test_incremental import docs, records
from tests.paths import ROOT

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


def start(store: str, name: str, runs: int = 1) -> subprocess.Popen[str]:
    root = ROOT
    return subprocess.Popen(
        [sys.executable, "-c", RUN, store, name, str(runs)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def paid(store: str, name: str = "*") -> list[str]:
    path = Path(local(store))
    return [line for file in path.parent.glob(f"{path.name}.{name}.paid") for line in file.read_text().splitlines()]


def edit(store: Store, *rows: Held) -> None:
    """Let the leases be exactly these."""
    Leases(store).edit(lambda _: list(rows))


def elsewhere(*artifact_ids: str, seconds: float = 3600) -> Held:
    return Held("them", "elsewhere", 1, "docs", artifact_ids, datetime.now(UTC) + timedelta(seconds=seconds))


@pytest.fixture
def store(aid: FindingAid, ready_made: ReadyMade) -> Store:
    ready_made("prepared", aid.open_run().prepare)
    return aid.store


# -- runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_runs_at_once_pay_for_everything_once(tmp_path: Path, scheme: str) -> None:
    store = f"{scheme}{tmp_path}/index"

    runs = [start(store, name, runs=2) for name in ("one", "two")]
    outputs = [run.communicate() for run in runs]

    assert [run.returncode for run in runs] == [0, 0], outputs
    calls = Counter(paid(store))
    assert {what for what, times in calls.items() if times > 1} == set()
    assert len(calls) == ARTIFACTS * (1 + 2 + 1)  # a synopsis; two chunks and it to embed
    assert sum(int(out) for out, _ in outputs) == ARTIFACTS
    assert slow_aid(store, "check").verify() == []
    assert Leases(Store(store)).held() == []


def test_a_run_takes_over_at_once_from_one_that_was_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = str(tmp_path / "index")
    killed = start(store, "killed")
    while len(paid(store)) < 130:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    kept = {key for table in ("calls", "embeddings") for key in Store(store).rows(table, ["key"])["key"].to_pylist()}
    left = Store(store).count("leases")

    aid = slow_aid(store, "next")
    report = aid.index()

    assert left > 1
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


def test_a_lease_of_another_host_that_ran_out_is_taken_over(aid: FindingAid, store: Store) -> None:
    edit(store, elsewhere("ledger.md", seconds=-1))

    report = aid.index()

    assert docs(report).new == 3
    assert store.count("leases") == 1


def test_a_run_waits_for_what_another_host_works_on_and_then_goes_on(
    aid: FindingAid, store: Store, embedder: CountingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    edit(store, elsewhere("ledger.md"))

    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING, "findingaid"):
        run = pool.submit(aid.index)
        while "waiting" not in caplog.text:
            assert not run.done(), run.result()
            time.sleep(0.01)
        before, held = list(embedder.seen), Leases(store).held()
        edit(store)
        report = run.result()

    assert "waiting for 1 artifacts of docs that process 1 on host elsewhere works on" in caplog.text
    assert [row.host for row in held] == ["elsewhere"]  # it holds nothing itself while it waits
    assert len(before) == 6
    assert not any("ledger" in text for text in before)
    assert docs(report).new == 3
    assert aid.verify() == []


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
    reports = late.indexer("docs").build_all(planned.batches())

    assert len(planned.stale) == 3
    assert [(r.new, r.changed, r.calls) for r in reports] == [(0, 0, NO_CALLS)]
    assert (embedder.seen, synthesizer.seen) == ([], [])


@pytest.mark.usefixtures("indexed")
def test_what_another_run_is_writing_is_not_taken_for_lost(
    aid: FindingAid, make_aid: Callable[..., FindingAid]
) -> None:
    row = aid.indexer("docs").ledger.rows("docs")["ledger.md"]
    aid.indexer("docs").ledger.put("docs", [replace(row, n_records=99)])
    planned = make_aid().open_run().plan("docs")

    with Leases(aid.store).claim("docs", ["ledger.md"]):
        make_aid().indexer("docs").begin(planned)
        during = aid.indexer("docs").ledger.rows("docs")["ledger.md"].recipe
    make_aid().indexer("docs").begin(planned)

    assert list(planned.lost) == ["ledger.md"]
    assert during == row.recipe
    assert aid.indexer("docs").ledger.rows("docs")["ledger.md"].recipe == ""
    assert aid.index().ok
    assert aid.verify() == []


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


def test_a_lost_lease_stops_the_commit_before_anything_is_written(
    make_aid: Callable[..., FindingAid],
    store: Store,
    synthesizer: ScriptedSynthesizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose() -> None:
        edit(store)
        much_later(monkeypatch)

    embedder = Suspended(meanwhile=[lose])

    with pytest.raises(StoreError, match=r"docs: the lease on 3 artifacts expired and was removed by another run"):
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


def test_a_run_of_one_batch_makes_ten_commits_of_leases_and_one_of_nothing_none(aid: FindingAid, store: Store) -> None:
    """Two each for artifacts, calls, vectors of surfaces and of synopses, and keeping purges out."""
    edit(store)
    before = store.dataset("leases").version

    aid.indexer("docs").build_all(aid.open_run().plan("docs").batches())
    built = store.dataset("leases").version
    aid.index()
    published = store.dataset("leases").version
    aid.index()

    assert built == before + 4 * 2
    assert published == built + 2
    assert store.dataset("leases").version == published
    assert len(store.dataset("leases").versions()) == 1


def test_purge_refuses_while_another_run_works(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.run("index")
    store = Store(str(cli.folder / "index"))
    edit(store, elsewhere("a.md"))

    refused = cli.run("purge")
    edit(store)

    assert refused.exit_code == 1
    assert error_of(refused) == "not purged: process 1 on host elsewhere works on docs: wait until it ends"
    assert cli.run("purge").exit_code == 0


def test_runs_and_decisions_wait_for_a_purge_of_another_host(
    aid: FindingAid, make_aid: Callable[..., FindingAid], store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    edit(store, replace(elsewhere(WHOLE_STORE), corpus=WHOLE_STORE))

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
    before = {table: aid.store.dataset(table).version for table in TABLES if table != "leases"}

    with pytest.raises(StoreError, match="the lease of this process expired and was removed by another"):
        make_aid().purge()

    assert {table: aid.store.dataset(table).version for table in TABLES if table != "leases"} == before


def test_a_purge_waits_for_the_end_of_a_run_that_waits_to_publish(
    aid: FindingAid, make_aid: Callable[..., FindingAid], store: Store
) -> None:
    """Neither waits for the other: the run was there first, and may publish."""
    publish = Release._publish
    purges: list[Future[object]] = []
    waits: list[Held] = []
    await_end = Leases._await_end

    def publish_late(self: Release, *arguments: Any) -> Any:
        purges.append(pool.submit(make_aid().purge))
        while not waits:
            time.sleep(0.01)
        return publish(self, *arguments)

    def wait(self: Leases, row: Held, until: float) -> None:
        waits.append(row)
        await_end(self, row, until)

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Release, "_publish", publish_late)
        patch.setattr(Leases, "_await_end", wait)
        report = aid.index()
        purges[0].result()

    assert {row.corpus for row in waits} <= {OF_A_RUN, *BRIEF}

    assert report.ok
    assert aid.verify() == []


def test_publishing_waits_for_a_batch_that_another_run_is_writing(aid: FindingAid, store: Store) -> None:
    aid.index()
    ledger = aid.indexer("docs").ledger
    row = ledger.rows("docs")["ledger.md"]
    ledger.put("docs", [replace(row, n_records=99)])
    edit(store, elsewhere("ledger.md"))

    with ThreadPoolExecutor(1) as pool:
        finish = pool.submit(aid.open_run().close, ["docs"])
        time.sleep(0.2)
        done = finish.done()
        ledger.put("docs", [row])
        end = finish.result()

    assert not done
    assert end.unpublished is None


@pytest.mark.parametrize("harm", ["lost", "damaged"])
@pytest.mark.usefixtures("indexed")
def test_a_leases_table_that_is_lost_or_damaged_is_made_anew(aid: FindingAid, harm: str) -> None:
    before = records(aid)
    versions = next((Path(aid.store.uri) / "leases.lance").glob("_versions"))
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


# -- leases --------------------------------------------------------------------------------------------


def test_a_claim_takes_what_is_free(store: Store) -> None:
    leases = Leases(store)

    with leases.claim("docs", ["a", "b"]) as first, leases.claim("docs", ["b", "c"]) as second:
        with leases.claim("other", ["a"]) as other:
            taken = first.artifact_ids, second.artifact_ids, other.artifact_ids
        with leases.claim("docs", ["a", "b", "c"]) as third:
            assert third.artifact_ids == ()
            third.check()

    assert taken == (("a", "b"), ("c",), ("a",))
    assert leases.held() == []


def test_a_lease_lives_longer_than_its_time_while_its_process_does(store: Store) -> None:
    leases = Leases(store, ttl=timedelta(seconds=1.5))

    with leases.claim("docs", ["a"]) as lease:
        first = leases.held()[0].expires
        while datetime.now(UTC) < first + leases.ttl:
            time.sleep(0.1)
        with leases.claim("docs", ["a"]) as other:
            taken = other.artifact_ids
        lease.check()

    assert taken == ()


def test_no_thread_renews_a_lease_after_its_release(store: Store) -> None:
    """A process that ended while one was inside Lance was aborted by the system, with its work done."""

    class SlowLeases(Leases):
        def edit(self, change: Callable[[list[Held]], list[Held] | None]) -> None:
            renewing.set()
            time.sleep(0.2)
            super().edit(change)

    renewing = threading.Event()
    with SlowLeases(store, ttl=timedelta(seconds=0.9)).claim("docs", ["a"]):
        renewing.clear()
        assert renewing.wait(10)

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lease ")] == []
    assert Leases(store).held() == []


def test_a_process_that_is_gone_holds_nothing(store: Store) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = replace(elsewhere("a"), host=this_host())

    assert not replace(here, pid=gone.pid).live
    assert replace(here, pid=os.getppid()).live
    assert not replace(here, pid=os.getpid()).live, "an earlier process of the same number"
    assert replace(elsewhere("a"), pid=gone.pid).live, "another host has its own numbers"


def test_a_claim_that_others_always_come_before_is_tried_until_patience_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the locks of one machine, where each of many writers may lose many times in a row."""
    mine, theirs = Leases(Store(f"file://{store.uri}")), Leases(Store(f"file://{store.uri}"))
    before = iter(range(8))

    def late(rows: list[Held]) -> list[Held]:
        if (i := next(before, None)) is not None:
            theirs.edit(lambda rows: [*rows, elsewhere(f"{i}")])
        return [*rows, elsewhere("mine")]

    mine.edit(late)

    assert [i for row in mine.held() for i in row.artifact_ids] == [*(f"{i}" for i in range(8)), "mine"]

    monkeypatch.setattr("findingaid.store.store.PATIENCE_SECONDS", 0.0)
    before = iter(range(1))
    with pytest.raises(StoreError, match=r"leases of .*: 1 commits in a row conflicted with other writers: run again"):
        mine.edit(late)


CLAIM = """
import sys
from tests.store.test_leases import claim_and_claim
claim_and_claim(sys.argv[1], sys.argv[2])
"""


def claim_and_claim(uri: str, folder: str) -> None:
    """Two threads claim repeatedly, and mark held artifacts by files that must not exist yet."""

    def work(seed: int) -> None:
        rng = random.Random(seed)
        store = Store(uri)
        store.prepare(8)
        for _ in range(12):
            with Leases(store).claim("docs", rng.sample("abcdefgh", 4)) as lease, _marked(folder, lease.artifact_ids):
                time.sleep(rng.random() * 0.01)
                lease.check()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (os.getpid(), -os.getpid())))


@contextmanager
def _marked(folder: str, artifact_ids: tuple[str, ...]) -> Iterator[None]:
    for artifact_id in artifact_ids:
        Path(folder, artifact_id).touch(exist_ok=False)
    yield
    for artifact_id in artifact_ids:
        Path(folder, artifact_id).unlink()
        Path(folder, f"{artifact_id}.held").touch()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_no_artifact_is_ever_held_by_two(tmp_path: Path, scheme: str) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    root = ROOT
    command = [sys.executable, "-c", CLAIM, f"{scheme}{tmp_path}/index", str(marks)]
    claimers = [
        subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stderr=subprocess.PIPE)
        for _ in range(4)
    ]

    errors = [claimer.communicate()[1] for claimer in claimers]

    assert [claimer.returncode for claimer in claimers] == [0] * 4, errors
    assert sorted(path.name for path in marks.iterdir()) == [f"{i}.held" for i in "abcdefgh"]
    assert Leases(Store(f"{scheme}{tmp_path}/index")).held() == []


def test_tables_that_several_make_at_once_are_made_once(tmp_path: Path) -> None:
    """Without the locks of one machine: rows that the first writes are still there after the last."""
    stores = [Store(f"file://{tmp_path}/index") for _ in range(6)]
    ready = threading.Barrier(len(stores))

    def make(store: Store) -> tuple[str, ...]:
        ready.wait()
        store.prepare(8)
        return Leases(store).claim("docs", ["a", "b"]).artifact_ids

    with ThreadPoolExecutor(len(stores)) as pool:
        taken = list(pool.map(make, stores))

    assert sorted(taken) == [()] * 5 + [("a", "b")]
    assert stores[0].dataset("ledger").version == 1
