"""Many batches are committed at once: built here or in other processes, and whatever is killed."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid, StoreError
from findingaid.indexing import group_commit, plan
from findingaid.indexing.group_commit import BuiltBatch, commit_group
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import ALL_STALE
from findingaid.model import Listing, Raw
from findingaid.store import Store
from findingaid.store.schemas import PER_ARTIFACT
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import text_about
from tests.indexing.test_incremental import docs, records

ARTIFACTS = 30


def aid_of(store: Path | str, count: int = ARTIFACTS) -> FindingAid:
    """Return an aid over artifacts of which the later ones widen the field `year` from numbers to text."""
    texts: dict[str, Raw] = {f"{n:03d}.md": text_about(f"topic {n}", f"more of {n}") for n in range(count)}
    years = {i: {"year": 2000 + n if n < count // 2 else "last"} for n, i in enumerate(texts)}
    corpus = Corpus("docs", MemorySource(texts, years), Chunked(chunk_size=200, overlap=0))
    return FindingAid(Store(str(store)), CountingEmbedder(), {"docs": corpus})


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, ...]]:
    """What a reader of a clean build sees."""
    aid = aid_of(tmp_path_factory.mktemp("clean"))
    aid.index()
    return records(aid)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BATCH_ARTIFACTS", 4)


def prepared(aid: FindingAid) -> tuple[Indexer, list[Sequence[Listing]]]:
    run = aid.open_run()
    run.prepare()
    return run.indexer("docs"), list(run.plan("docs").batches())


def built_of(indexer: Indexer, batches: Iterable[Sequence[Listing]]) -> list[BuiltBatch]:
    """Compute batches, and write their rows to files."""
    return [indexer._write(indexer.pipeline.compute(batch, ALL_STALE)) for batch in batches]


def commit(indexer: Indexer, built: Sequence[BuiltBatch]) -> None:
    with indexer.lease.on("docs") as lease:
        commit_group(indexer.store, "docs", built, lease)


def leftovers(store: Path) -> set[str]:
    """Return the files of artifacts that the newest version of no table refers to."""
    found = set()
    for table in PER_ARTIFACT:
        fragments = Store(str(store)).dataset(table).get_fragments()
        used = {file.path for fragment in fragments for file in fragment.metadata.files}
        found |= {path.name for path in (store / f"{table}.lance" / "data").glob("*.lance")} - used
    return found


@pytest.mark.usefixtures("small_batches")
def test_each_table_gets_one_commit_for_a_group_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million artifacts take 62 groups."""
    assert 1_000_000 / group_commit.GROUP_ARTIFACTS < 62
    monkeypatch.setattr(group_commit, "GROUP_ARTIFACTS", 40)
    aid = aid_of(tmp_path / "index", 128)
    indexer, batches = prepared(aid)
    before = {table: aid.store.dataset(table).version for table in ("artifacts", "surfaces", "ledger")}

    list(indexer.build_each(batches))

    assert len(batches) == 32
    assert {table: aid.store.dataset(table).version - version for table, version in before.items()} == {
        "artifacts": 4,
        "surfaces": 4,
        "ledger": 2 * 4,
    }


@pytest.mark.usefixtures("small_batches")
def test_a_slow_group_is_committed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "GROUP_SECONDS", 0)
    aid = aid_of(tmp_path / "index", 12)
    indexer, batches = prepared(aid)
    before = aid.store.dataset("artifacts").version

    reports = list(indexer.build_each(batches))

    assert aid.store.dataset("artifacts").version - before == len(batches) == len(reports) == 3


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_batches_built_before_a_field_was_widened_are_committed_with_their_values(
    tmp_path: Path, clean: dict[str, tuple[object, ...]], scheme: str
) -> None:
    aid = aid_of(f"{scheme}{tmp_path}/index")
    indexer, batches = prepared(aid)
    built = built_of(indexer, batches)

    commit(indexer, built)
    aid.index()

    assert records(aid) == clean
    years = aid.store.rows("records", ["artifact_id", "year"]).to_pylist()
    assert {row["year"] for row in years if row["artifact_id"] == "003.md"} == {"2003"}
    assert {row["year"] for row in years if row["artifact_id"] == "029.md"} == {"last"}


def test_files_that_are_gone_are_not_committed(tmp_path: Path) -> None:
    aid = aid_of(tmp_path / "index", 4)
    indexer, batches = prepared(aid)
    built = built_of(indexer, batches)
    for name in leftovers(tmp_path / "index"):
        next(tmp_path.rglob(name)).unlink()

    with pytest.raises(StoreError, match="was rebuilt by another run"):
        commit(indexer, built)

    assert aid.store.count("records") == 0
    assert docs(aid.index()).changed == 4  # the intents were recorded
    assert aid.verify() == []


def build_elsewhere(store: Path, count: int = ARTIFACTS) -> bytes:
    """Build all batches as another process would, which sends them to the one that commits."""
    indexer, batches = prepared(aid_of(store, count))
    return pickle.dumps(built_of(indexer, batches))


@pytest.mark.usefixtures("small_batches")
def test_batches_of_another_process_are_committed_by_this_one(
    tmp_path: Path, clean: dict[str, tuple[object, ...]]
) -> None:
    aid = aid_of(tmp_path / "index")
    indexer, _ = prepared(aid)
    built = pickle.loads(build_elsewhere(tmp_path / "index"))
    assert aid.store.count("records") == 0

    commit(indexer, built)

    report = docs(aid.index())
    assert (report.unchanged, report.calls.embed) == (ARTIFACTS, 0)
    assert records(aid) == clean
    assert aid.verify() == []


def test_purge_removes_the_files_of_a_killed_worker(tmp_path: Path) -> None:
    aid = aid_of(tmp_path / "index")
    aid.index()
    before = records(aid)
    build_elsewhere(tmp_path / "index", ARTIFACTS + 10)  # and nobody commits them
    assert leftovers(tmp_path / "index")

    aid_of(tmp_path / "index").purge()

    assert leftovers(tmp_path / "index") == set()
    assert [row[:-1] for row in records(aid).values()] == [row[:-1] for row in before.values()]  # `year` is text now
    assert aid.verify() == []
