"""A run killed at any moment and repeated equals a clean build, and pays almost nothing twice."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.testing import CountingEmbedder, MemorySource, ScriptedSynthesizer
from tests.conftest import ReadyMade, text_about
from tests.indexing.test_incremental import docs, records
from tests.support.programs import Program, run_program

ARTIFACTS = 24
BATCH = 4

# Runs in a process of its own; dies at the Nth of the steps that change something on disk, before or after it.
CHILD = """
from findingaid.indexing import group_commit, plan
from lance.dataset import Tags
from findingaid.store import Leases, Publisher, Store, upkeep
from findingaid.testing import CountingEmbedder
from tests.indexing.test_crash import aid_of, payloads
from tests.support.kills import Kill

plan.BATCH_ARTIFACTS = {batch}
group_commit.GROUP_ARTIFACTS = 4 * {batch}
kill = Kill({die_at}, {after})
paid = open({store!r} + ".paid", "w")
embed = CountingEmbedder.embed

def paying(self, texts):
    paid.writelines("text\\n" for _ in texts)
    paid.flush()
    return embed(self, texts)

CountingEmbedder.embed = paying
kill.watch(Store, "_replace", "_files_of", "append")
kill.watch(upkeep, "drop_old_versions")
kill.watch(Leases, "edit")
kill.watch(Publisher, "_serve", "_tag")
kill.watch(Tags, "create", "update", "delete")
aid_of({store!r}, payloads({edition})).index()
print("steps", kill.steps)
"""


def payloads(edition: int) -> dict[str, str]:
    """Edition 1 edits some, drops some and adds some of edition 0."""
    first = {f"{i:03d}.md": text_about(f"topic {i}", f"more of {i}") for i in range(ARTIFACTS)}
    if edition == 0:
        return first
    edited = {
        name: text + "\n\n# An edit\n\nwith a sentence." if i % 3 == 0 else text
        for i, (name, text) in enumerate(first.items())
    }
    return {name: text for i, (name, text) in enumerate(edited.items()) if i % 7} | {"new.md": text_about("new")}


def aid_of(store: str, texts: dict[str, str], embedder: CountingEmbedder | None = None) -> FindingAid:
    strategy = with_synopsis(Chunked(chunk_size=200, overlap=0), ScriptedSynthesizer())
    corpus = Corpus("docs", MemorySource(dict(texts)), strategy)
    return FindingAid(Store(store), embedder or CountingEmbedder(), {"docs": corpus})


def run_child(store: Path, edition: int, die_at: int, after: bool) -> subprocess.CompletedProcess[str]:
    code = CHILD.format(batch=BATCH, die_at=die_at, after=after, store=str(store), edition=edition)
    return run_program(code)


def clean_build(folder: Path, edition: int) -> dict[str, tuple[object, ...]]:
    aid = aid_of(str(folder), payloads(edition))
    aid.index()
    return records(aid)


Clean = Callable[[int], dict[str, tuple[object, ...]]]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Clean:
    """Return a function from an edition to what readers of a clean build of it see."""
    return cache(lambda edition: clean_build(tmp_path_factory.mktemp("clean"), edition))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_a_killed_run_done_again_equals_a_clean_build(
    tmp_path: Path, ready_made: ReadyMade, clean: Clean, seed: int
) -> None:
    rng = random.Random(seed)
    store = tmp_path / "index"
    ready_made("first edition", aid_of(str(store), payloads(0)).index)

    killed = run_child(store, 1, die_at=rng.randint(1, 74), after=rng.random() < 0.5)
    # What the source holds now may be either edition: an edit reverted after the crash must not look current.
    edition = rng.randint(0, 1)
    aid = aid_of(str(store), payloads(edition))
    report = aid.index()

    assert killed.returncode in {0, -signal.SIGKILL}, killed.stderr
    assert report.ok
    assert records(aid) == clean(edition)
    assert aid.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("die_at", range(1, 110, 12))
def test_killed_at_any_step_of_a_first_build(tmp_path: Path, clean: Clean, die_at: int) -> None:
    store = tmp_path / "index"
    killed = run_child(store, 0, die_at, after=die_at % 2 == 1)

    aid = aid_of(str(store), payloads(0))
    report = aid.index()

    assert killed.returncode in {0, -signal.SIGKILL}, killed.stderr
    assert report.ok
    assert records(aid) == clean(0)
    assert aid.verify() == []


def test_a_killed_run_pays_at_most_one_batch_again(tmp_path: Path) -> None:
    store = tmp_path / "index"
    run_child(store, 0, die_at=45, after=False)
    before = len(Path(f"{store}.paid").read_text().splitlines())
    embedder = CountingEmbedder()

    aid_of(str(store), payloads(0), embedder).index()

    distinct = Store(str(store)).count("embeddings")
    assert 0 < before < distinct
    assert before + len(embedder.seen) <= distinct + 3 * BATCH


def test_a_reader_sees_whole_artifacts_of_finished_runs_only(tmp_path: Path) -> None:
    """While runs replace every artifact, each read shows one edition of everything, never a mix or a gap."""
    store = str(tmp_path / "index")
    editions = [
        {f"{i}.md": text_about(*[f"{word} {i} {n}" for n in range(3)]) for i in range(8)}
        for word in ("first", "second")
    ]
    aid_of(store, editions[0]).index()
    reader = aid_of(store, {})
    seen: list[set[str]] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            hits = [hit for hit in reader.search("sentence", 200, mode="lexical") if hit.surface_kind == "chunk"]
            assert len(hits) == 24
            seen.append({hit.text.split()[1] for hit in hits})

    failures: list[BaseException] = []
    thread = threading.Thread(target=lambda: failures.extend(_raised(read)))
    thread.start()
    for edition in (1, 0):
        aid_of(store, editions[edition]).index()
        time.sleep(0.05)
    stop.set()
    thread.join()

    assert failures == []
    assert len(seen) > 4
    assert all(len(words) == 1 for words in seen)


def _raised(call: object) -> list[BaseException]:
    try:
        call()  # type: ignore[operator]  # a function of this test
    except BaseException as error:  # noqa: BLE001  # shown by the test
        return [error]
    return []


TWO_AT_ONCE = """
import sys
from tests.indexing.test_crash import aid_of, payloads
print(aid_of(sys.argv[1], payloads(0)).index().ok)
"""


@pytest.mark.slow
def test_two_runs_at_once_leave_one_of_everything(tmp_path: Path, clean: Clean) -> None:
    runs = [Program(TWO_AT_ONCE, str(tmp_path / "index")) for _ in range(2)]
    ended = [run.ended() for run in runs]

    aid = aid_of(str(tmp_path / "index"), payloads(0))

    assert [run.returncode for run in ended] == [0, 0], ended
    assert aid.verify() == []
    assert records(aid) == clean(0)
    assert docs(aid.index()).unchanged == ARTIFACTS
