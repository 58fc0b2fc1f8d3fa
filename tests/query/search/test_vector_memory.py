"""Vectors in memory: exact, within the filters and the bound, and of the version that is published."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from findingaid import Corpus, FindingAid
from findingaid.model import Vectors
from findingaid.query.search import vector_memory
from findingaid.query.search.components import SearchDefaults
from findingaid.query.search.vector_memory import LoadedVectors, Rounded, VectorMemory
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource

COUNT = 600


@dataclass(frozen=True)
class Random:
    """Embedder whose vectors are random; equal texts have equal vectors."""

    dim: int = 48
    id: ClassVar = "random-48"
    max_tokens: ClassVar = None

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        seed = int.from_bytes(text.encode()[-6:])
        vector: Vectors = np.random.default_rng(seed).standard_normal(self.dim).astype(np.float32)
        return vector / np.float32(np.linalg.norm(vector))


def make(folder: Path, memory: int = 512, count: int = COUNT) -> FindingAid:
    """An aid of two corpora. Each third text of the first is there twice, so that records tie."""
    texts = {f"{i:05d}": f"text {i - (i % 3 == 1)}" for i in range(count)}
    sources = {
        "one": MemorySource(texts, {i: {"shelf": int(i) % 10} for i in texts}),
        "two": MemorySource({f"{i:05d}": f"other {i}" for i in range(count // 10)}),
    }
    corpora = {name: Corpus(name, source, WholeText()) for name, source in sources.items()}
    return FindingAid(Store(str(folder / "index")), Random(), corpora, search_defaults=SearchDefaults(memory=memory))


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    aid = make(tmp_path_factory.mktemp("memory"))
    assert aid.index().ok
    return aid


@pytest.fixture
def rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few records be compared exactly, so that rounded vectors choose them."""
    monkeypatch.setattr(vector_memory, "FEW", 20)


def memory_of(aid: FindingAid) -> VectorMemory:
    memory = aid.searcher.reader().memory
    assert memory
    return memory


def load(aid: FindingAid) -> LoadedVectors:
    memory = memory_of(aid)
    memory.load()
    assert memory.loaded
    return memory.loaded


def brute_force(aid: FindingAid, query: str, depth: int, condition: str | None) -> dict[str, float]:
    """Record ids and cosines of the nearest records, best first, ties by id, from all vectors of the table."""
    rows = aid.store.published().to_table(columns=["record_id", "vector"], filter=condition)
    vectors = np.array(rows["vector"].to_pylist(), np.float64).reshape(-1, Random().dim)
    vector = Random().embed_query(query).astype(np.float16).astype(np.float64)
    cosines = vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector)
    found = zip(np.round(cosines, 12).tolist(), rows["record_id"].to_pylist(), strict=True)
    return {record: cosine for cosine, record in sorted(found, key=lambda f: (-f[0], f[1]))[:depth]}


def search(aid: FindingAid, query: str, depth: int, **how: Any) -> dict[str, float]:
    return {hit.record_id: hit.score for hit in aid.search(query, depth, mode="dense", **how)}


def same(found: dict[str, float], wanted: dict[str, float]) -> None:
    """Compare two rankings. Records whose cosines differ by less than float32 can tell may change places."""
    assert found.keys() == wanted.keys()
    assert all(abs(wanted[mine] - wanted[other]) < 1e-6 for mine, other in zip(found, wanted, strict=True))
    assert list(found.items()) == sorted(found.items(), key=lambda hit: (-hit[1], hit[0]))
    assert list(found.values()) == pytest.approx(list(wanted.values()), abs=1e-6)


@pytest.mark.usefixtures("rounding")
@pytest.mark.parametrize("depth", [1, 150, COUNT * 2])
@pytest.mark.parametrize(
    ("how", "condition"),
    [
        ({}, None),
        ({"where": "shelf < 4"}, "shelf < 4"),
        ({"where": "artifact_id = '00017'"}, "artifact_id = '00017'"),
        ({"corpora": ["two"]}, "corpus = 'two'"),
        ({"where": "artifact_id = 'none'"}, "artifact_id = 'none'"),
    ],
)
def test_a_search_in_memory_equals_a_comparison_with_every_vector(
    aid: FindingAid, depth: int, how: dict[str, Any], condition: str | None
) -> None:
    load(aid)
    for query in ("text 3", "text 0", "elsewhere"):
        same(search(aid, query, depth, **how), brute_force(aid, query, depth, condition))


@pytest.mark.parametrize(
    ("mode", "how"),
    [("dense", {}), ("hybrid", {"route": "collapsed"}), ("dense", {"per_artifact": True}),
     ("hybrid", {"weights": {"document": 2.0}})],
)  # fmt: skip
def test_hits_from_memory_equal_those_from_the_table(aid: FindingAid, mode: Any, how: dict[str, Any]) -> None:
    load(aid)
    table = make(Path(aid.store.uri).parent, memory=0)

    for query in ("text 3", "other 7"):
        mine, theirs = (a.search(query, 20, mode=mode, explain=True, **how) for a in (aid, table))
        assert [(h.record_id, h.text, h.metadata, h.weak) for h in mine] == [
            (h.record_id, h.text, h.metadata, h.weak) for h in theirs
        ]
        assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-6)
    assert memory_of(table).loaded is None


@pytest.mark.parametrize("dim", [1, 3, 48, 1_536])
def test_rounded_vectors_choose_all_of_the_nearest(dim: int) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3_000, dim)).astype(np.float32) ** 3
    vectors[0] = 0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    unit = vectors * inverse
    rounded = Rounded.of(vectors.astype(np.float16), inverse[:, 0])
    for query in (unit[3], -unit[4], unit[5] + unit[6], np.zeros(dim, np.float32)):
        query /= np.linalg.norm(query) or 1
        exact = unit.astype(np.float64) @ query
        for depth in (1, 10, 90):
            for places in (None, np.arange(5, 3_000, 7)):
                among = np.arange(3_000) if places is None else places
                last = np.sort(exact[among])[-depth]
                assert set(among[exact[among] > last + 1e-3]) <= set(rounded.candidates(query, depth, places))


def test_rounded_vectors_choose_few() -> None:
    vectors = np.random.default_rng(0).standard_normal((20_000, 384)).astype(np.float32)
    inverse = 1 / np.linalg.norm(vectors, axis=1)
    rounded = Rounded.of(vectors.astype(np.float16), inverse)

    assert len(rounded.candidates(vectors[7] * inverse[7], 10, None)) < 2_000


def test_each_caller_finds_its_own_corpora_only(aid: FindingAid) -> None:
    load(aid)
    narrow = aid.within(["two"])
    load(narrow)

    for query in ("text 3", "other 7"):
        same(search(narrow, query, 20), brute_force(aid, query, 20, "corpus = 'two'"))
        assert {hit.corpus for hit in narrow.search(query, 50, mode="hybrid", where="title != 'x' OR true")} == {"two"}


def test_the_second_search_loads_the_vectors_unless_it_reads_on(tmp_path: Path) -> None:
    aid = make(tmp_path, count=100)
    aid.index()

    aid.search("text 3", mode="dense")
    aid.search("text 3", mode="lexical")
    aid.search("text 3", mode="dense", offset=10)
    assert memory_of(aid).loaded is None
    aid.search("text 3")
    assert memory_of(aid).loaded


def test_deleted_changed_and_new_records_follow_a_publish(tmp_path: Path) -> None:
    aid = make(tmp_path, count=100)
    aid.index()
    first = load(aid)
    source: Any = aid.corpora["one"].source
    del source.payloads["00017"]
    source.payloads |= {"00040": "text 77777", "new": "text 88888"}
    aid.index()

    gone = {hit.artifact_id for hit in aid.search("text 17", 5, mode="dense")}  # perhaps before the version is loaded
    assert "00017" not in gone
    assert aid.search("text 88888", 1, mode="dense")[0].artifact_id == "new"
    assert load(aid) is not first
    for query in ("text 17", "text 39", "text 77777", "text 88888"):
        same(search(aid, query, 20), brute_force(aid, query, 20, None))
        same(search(aid, query, 20, where="shelf = 7"), brute_force(aid, query, 20, "shelf = 7"))
        assert all(hit.text for hit in aid.search(query, 300, mode="dense"))


def test_a_new_version_is_loaded_in_the_background(tmp_path: Path) -> None:
    aid = make(tmp_path, count=100)
    aid.index()
    load(aid)
    aid.corpora["one"].source.payloads["new"] = "text 88888"  # type: ignore[attr-defined]  # a MemorySource
    aid.index()
    assert memory_of(aid).loaded is None

    aid.search("text 88888")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
        if memory_of(aid).loaded:
            break
    assert memory_of(aid).loaded


@pytest.mark.parametrize("limit", [0, 1, -1])
def test_vectors_that_do_not_fit_stay_in_the_table(
    aid: FindingAid, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    needed = memory_of(aid).needed
    memory = VectorMemory(aid.store.published(), limit if limit >= 0 else needed + limit)

    for _ in range(3):
        memory.on_search()
    assert memory.loaded is None
    assert len([message for message in caplog.messages if "search.memory" in message]) == (limit != 0)


def test_the_estimate_is_what_the_vectors_take(aid: FindingAid) -> None:
    loaded, memory = load(aid), memory_of(aid)
    assert loaded.rounded
    held = loaded.vectors.nbytes + loaded.rounded.vectors.nbytes + loaded.rows.nbytes + 20 * len(loaded.rowids)

    assert held <= memory.needed <= 2 * held


@pytest.mark.slow
def test_searches_during_publishes_see_one_version_each(tmp_path: Path) -> None:
    """Each version has the same text in all artifacts, so that an answer of two versions would show."""
    source = MemorySource({f"{i:03d}": "edition 0" for i in range(300)})
    aid = FindingAid(Store(str(tmp_path / "index")), Random(), {"one": Corpus("one", source, WholeText())})
    aid.index()
    load(aid)
    stop, seen, wrong = threading.Event(), set(), []

    def ask() -> None:
        while not stop.is_set():
            hits = aid.search("edition 1", 300, mode="dense")
            texts = {hit.text for hit in hits}
            seen.update(texts)
            if len(hits) != 300 or len(texts) != 1:
                wrong.append(texts)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for edition in range(1, 4):
        source.payloads = dict.fromkeys(source.payloads, f"edition {edition}")
        FindingAid(Store(aid.store.uri), aid.embedder, aid.corpora).index()
    stop.set()
    for thread in threads:
        thread.join()

    assert not wrong
    assert len(seen) > 1
    same(search(aid, "edition 3", 10), brute_force(aid, "edition 3", 10, None))
