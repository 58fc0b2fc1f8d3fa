"""Indexes built by segments, each over a group of fragments, in place of one index over all records."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pytest

from findingaid import FindingAid
from findingaid.indexing import plan
from findingaid.store import Store, index_segments, indexes, vectors
from findingaid.store.index_segments import IndexSegment
from tests.paths import ROOT
from tests.store.test_indexes import Many

COUNT = 375
QUERIES = ("number 7", "number 260", "text 374")

KILLED_BEFORE_COMMIT = """
import os, signal, sys
from findingaid.store import Store, index_segments, indexes
index_segments.SEGMENTED_ROWS, indexes.UNINDEXED_ROWS = 250, 50
store = Store(sys.argv[1])
store.index(lambda segments: [store.build_segment(each) for each in segments] and os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.fixture
def by_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Many:
    """A folder in which few records have indexes, and these are built by segments."""
    monkeypatch.setattr(plan, "BATCH_ARTIFACTS", 128)
    monkeypatch.setattr(vectors, "INDEX_ROWS", 250)
    monkeypatch.setattr(index_segments, "SEGMENTED_ROWS", 250)
    monkeypatch.setattr(index_segments, "SEGMENT_ROWS", 200)
    monkeypatch.setattr(indexes, "UNINDEXED_ROWS", 50)
    return Many(tmp_path)


def segments(aid: FindingAid, column: str) -> dict[str, set[int]]:
    """Return the fragments of each segment of the newest index of a column, by the segment's id."""
    found = aid.store.dataset("records").describe_indices()
    (index,) = (index for index in found if index.field_names == [column])
    return {str(segment.uuid): set(segment.fragment_ids) for segment in index.segments}


def fragments(aid: FindingAid) -> set[int]:
    return {fragment.fragment_id for fragment in aid.store.dataset("records").get_fragments()}


def hits(aid: FindingAid) -> list[tuple[str, str, list[tuple[str, float]]]]:
    """Return the best hit of each query by words, and the nearest ten by vectors, with their scores."""
    found = []
    for query in QUERIES:
        for mode, limit in (("lexical", 1), ("dense", 10)):
            best = aid.search(query, limit, mode=mode)
            found.append((query, mode, [(hit.artifact_id, round(hit.score, 3)) for hit in best]))
    return found


def finds(aid: FindingAid, *numbers: int) -> bool:
    """Check that records are found by their number, and are the nearest to their own text."""
    wanted = [f"{i:05d}" for i in numbers]
    by_word = [aid.search(f"{i}", 1, mode="lexical")[0].artifact_id for i in numbers]
    nearest = [aid.search(f"text number {i}", 1, mode="dense")[0].artifact_id for i in numbers]
    return by_word == nearest == wanted


def test_segments_find_what_one_index_finds(by_segments: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    aid = by_segments.aid(COUNT)
    aid.index()
    with monkeypatch.context() as patch:
        patch.setattr(index_segments, "SEGMENTED_ROWS", COUNT + 1)
        other = Many(by_segments.folder / "other").aid(COUNT)
        other.index()

    for column in ("lexical", "vector"):
        assert len(segments(aid, column)) == 3  # of 128 records
        assert len(segments(other, column)) == 1
        assert set().union(*segments(aid, column).values()) == fragments(aid)
    assert hits(aid) == hits(other)
    assert aid.status()[0].vector_index == other.status()[0].vector_index == vectors.Measured(20, 1.0, COUNT)
    assert aid.verify() == []
    assert all(result.passed for result in aid.check())


def test_one_index_that_has_grown_is_extended_by_segments_for_new_fragments(by_segments: Many) -> None:
    aid = by_segments.aid(200)
    aid.index()
    before = segments(aid, "lexical")
    assert len(before) == 1

    aid = by_segments.aid(255)
    aid.index()
    after = segments(aid, "lexical")
    old = fragments(aid) & before.popitem()[1]

    assert len(after) == 2
    assert sorted(after.values(), key=min) == [old, fragments(aid) - old]
    assert finds(aid, 1, 240, 254)


@pytest.mark.slow
def test_few_new_records_are_found_without_an_index_and_more_get_a_segment(by_segments: Many) -> None:
    by_segments.aid(COUNT).index()
    aid = by_segments.aid(COUNT + 40)
    aid.index()
    before = {column: segments(aid, column) for column in ("lexical", "vector")}
    assert aid.store.unindexed()["vector"] == aid.store.unindexed()["full-text"] == (40, 50)
    assert finds(aid, 1, COUNT, COUNT + 39)

    aid = by_segments.aid(COUNT + 80)
    aid.index()

    for column, old in before.items():
        now = segments(aid, column)
        assert old.items() < now.items()
        (new,) = now.keys() - old.keys()
        assert now[new] == fragments(aid) - set().union(*old.values())
    assert aid.store.unindexed()["vector"] == aid.store.unindexed()["full-text"] == (0, 50)
    assert finds(aid, 1, COUNT, COUNT + 79)


@pytest.mark.slow
def test_many_small_segments_become_one(by_segments: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_segments, "SMALL_SEGMENTS", 1)
    counts = []
    for count in (COUNT, COUNT + 60, COUNT + 120, COUNT + 180):
        aid = by_segments.aid(count)
        aid.index()
        counts.append(tuple(len(segments(aid, column)) for column in ("lexical", "vector")))

    assert counts == [(3, 3), (4, 4), (5, 5), (4, 4)]  # the third run finds one small segment
    assert finds(aid, 1, COUNT, COUNT + 179)
    assert aid.verify() == []


def test_segments_of_removed_records_find_none_of_them(by_segments: Many) -> None:
    by_segments.aid(COUNT).index()
    aid = by_segments.aid(256)  # the last fragment is removed as a whole

    aid.index()

    assert {hit.artifact_id for hit in aid.search("text number 374", 10, mode="dense")} <= set(
        by_segments.source.payloads
    )
    assert aid.search("374", mode="lexical") == []
    for column in ("lexical", "vector"):
        assert len(segments(aid, column)) == 2


def test_settings_of_words_rebuild_all_segments(by_segments: Many) -> None:
    first = by_segments.aid(COUNT)
    first.index()
    vectors_before = segments(first, "vector")
    lexical = type(first.store.lexical)(stop_words=("7",))
    aid = FindingAid(Store(first.store.uri, lexical=lexical), first.embedder, first.corpora)

    aid.index()

    assert len(segments(aid, "lexical")) == 3
    assert not segments(aid, "lexical").keys() & segments(first, "vector").keys()
    assert segments(aid, "vector") == vectors_before
    assert aid.search("7", mode="lexical") == []
    assert finds(aid, 1, 260)


@pytest.mark.slow
def test_an_index_whose_segments_were_not_committed_stays_in_use(by_segments: Many) -> None:
    aid = by_segments.aid(COUNT)
    aid.index()
    before = {column: segments(aid, column) for column in ("lexical", "vector")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "UNINDEXED_ROWS", 1_000)
        aid = by_segments.aid(COUNT + 80)
        aid.index()
    folder = Path(aid.store.uri) / "records.lance" / "_indices"
    used = set(folder.iterdir())

    killed = subprocess.run([sys.executable, "-c", KILLED_BEFORE_COMMIT, aid.store.uri], cwd=ROOT, check=False)

    assert killed.returncode == -signal.SIGKILL
    (left,) = set(folder.iterdir()) - used
    assert {column: segments(aid, column) for column in before} == before
    assert finds(aid, 1, COUNT, COUNT + 79)
    aid.open_run().close(["many"])
    assert len(segments(aid, "lexical")) == len(before["lexical"]) + 1
    assert finds(aid, 1, COUNT, COUNT + 79)
    aid.purge()
    assert not left.exists()


@pytest.mark.slow
def test_segments_of_fragments_that_were_compacted_meanwhile_are_built_again(by_segments: Many) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "UNINDEXED_ROWS", 1_000)
        by_segments.aid(COUNT).index()
        for count in (COUNT + 40, COUNT + 80):
            aid = by_segments.aid(count)
            aid.index()
    built: list[Sequence[IndexSegment]] = []

    def build(wanted: Sequence[IndexSegment]) -> list[Any]:
        made = [aid.store.build_segment(each) for each in wanted]
        if not built:
            lance.dataset(f"{aid.store.uri}/records.lance").optimize.compact_files(target_rows_per_fragment=100)
        built.append(wanted)
        return made

    aid.store.index(build)
    aid.publish()

    assert [each.column for wanted in built for each in wanted] == ["lexical", "lexical", "vector"]
    assert built[0][0].fragments != built[1][0].fragments
    assert aid.store.unindexed()["vector"] == aid.store.unindexed()["full-text"] == (0, 50)
    assert finds(aid, 1, COUNT, COUNT + 79)
