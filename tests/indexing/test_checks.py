"""A run publishes only if its checks pass; otherwise readers keep the previous version."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import lance
import numpy as np
import pyarrow as pa
import pytest

from findingaid import FindingAid, StoreError
from findingaid.errors import EmbedError
from findingaid.indexing.checks import CHECKS, Checker
from findingaid.model import Vectors
from findingaid.store import Ledger, Store, upkeep
from findingaid.testing import CountingEmbedder, MemorySource
from tests.conftest import text_about

Make = Callable[..., FindingAid]


class Stretched(CountingEmbedder):
    """Gives vectors that are twice as long as they should be, of texts about one topic."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        factors = np.array([[2.0] if "stretched" in text else [1.0] for text in texts])
        return (super().embed(texts) * factors).astype(np.float32)


class Deaf(CountingEmbedder):
    """Embeds every query as the same vector, so that no text finds itself."""

    def embed_query(self, text: str) -> Vectors:
        return super().embed_query("something else entirely")


class Silent(CountingEmbedder):
    """Embeds texts, but no query."""

    def embed_query(self, text: str) -> Vectors:
        raise EmbedError("no answer", "unavailable")


def problems(aid: FindingAid) -> dict[str, str]:
    """Map each failed check to its problems."""
    found = aid.check()
    return {result.check.name: "; ".join(result.problems) for result in found if not result.passed}


def append(aid: FindingAid, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write rows to the records behind the library's back."""
    records = aid.store.dataset("records")
    lance.write_dataset(change(records.to_table(limit=2)), records.uri, mode="append")


@pytest.mark.usefixtures("indexed")
def test_a_whole_index_passes_every_check(aid: FindingAid) -> None:
    results = aid.check()

    assert [result.check for result in results] == list(CHECKS)
    assert all(result.passed for result in results)
    assert {r.check.name: r.facts for r in results}["failures"] == {"artifacts": 3, "failed": 0, "failed again": 0}


def test_an_unsound_vector_fails_its_artifact_alone(make_aid: Make, source: MemorySource) -> None:
    source.payloads["new.md"] = text_about("stretched")

    report = make_aid(embedder=Stretched()).index()

    assert [(f.artifact_id, f.stage, f.kind) for f in report.corpora["docs"].failed] == [
        ("new.md", "embeddings", "parse")
    ]
    assert report.unpublished is None
    assert {hit.artifact_id for hit in make_aid(embedder=Stretched()).search("ledger", 50)} == {
        "ledger.md", "reader.md", "vector.md",
    }  # fmt: skip


@pytest.mark.usefixtures("indexed")
def test_unsound_vectors_are_not_published(aid: FindingAid) -> None:
    column = aid.store.dataset("records").schema.get_field_index("vector")
    kind = aid.store.dataset("records").schema.field("vector").type
    zeros = pa.array([[0.0] * kind.list_size] * 2, kind)
    append(aid, lambda rows: rows.set_column(column, "vector", zeros))

    assert problems(aid)["vectors_sound"].startswith("2 records whose vector is not finite and of length 1")


def test_a_check_is_not_failed_by_an_embedder_that_is_down(make_aid: Make, caplog: pytest.LogCaptureFixture) -> None:
    report = make_aid(embedder=Silent()).index()

    assert report.ok
    assert "check finds_itself: not made, as the embedder fails: no answer" in caplog.text


@pytest.mark.usefixtures("indexed")
def test_a_record_that_is_there_twice_is_noticed_and_healed(aid: FindingAid) -> None:
    append(aid, lambda rows: rows)

    found = problems(aid)

    assert "2 records with the same id" in found["ids_unique"]
    assert "do not have the number of records that the ledger states" in found["ledger_agrees"]
    with pytest.raises(StoreError, match="not published"):
        aid.publish()
    assert aid.index().ok
    assert aid.verify() == []


@pytest.mark.usefixtures("indexed")
def test_records_of_an_unknown_artifact_are_noticed(aid: FindingAid) -> None:
    column = aid.store.dataset("records").schema.get_field_index("artifact_id")
    append(aid, lambda rows: rows.set_column(column, "artifact_id", pa.array(["ghost.md"] * 2)))

    assert "1 artifacts have records but are not in the ledger: ghost.md" in problems(aid)["no_orphans"]


@pytest.mark.usefixtures("indexed")
def test_records_of_another_version_are_noticed(aid: FindingAid) -> None:
    column = aid.store.dataset("records").schema.get_field_index("artifact_version")
    append(aid, lambda rows: rows.set_column(column, "artifact_version", pa.array(["old"] * 2)))

    assert "another version than the ledger states" in problems(aid)["ledger_agrees"]


def test_an_index_that_does_not_find_its_own_texts_is_not_published_until_it_is_mended(make_aid: Make) -> None:
    source = MemorySource({f"{i}.md": text_about(f"topic{i}") for i in range(20)})

    report = make_aid(embedder=Deaf(), source=source).index()

    assert "check finds_itself" in str(report.unpublished)
    assert "is not among the 10 it finds" in str(report.unpublished)
    source.payloads["new.md"] = text_about("straight")
    aid = make_aid(embedder=CountingEmbedder(), source=source)
    assert aid.index().ok
    assert "new.md" in {hit.artifact_id for hit in aid.search("straight", 50)}


@pytest.mark.usefixtures("indexed")
def test_too_many_failures_keep_the_version_before(make_aid: Make, source: MemorySource) -> None:
    source.payloads |= dict.fromkeys(("ledger.md", "reader.md"), ValueError("broken"))  # type: ignore[arg-type]  # raised when read

    report = make_aid().index()

    assert "2 of 3 artifacts failed, more than max_failures 0.5" in str(report.unpublished)
    assert make_aid(max_failures=0.7).index().unpublished is None


@pytest.mark.usefixtures("indexed")
def test_checks_look_at_what_is_new_and_at_no_more(aid: FindingAid, source: MemorySource) -> None:
    source.payloads["new.md"] = text_about("new")
    aid.indexer("docs").build(aid.open_run().plan("docs").stale)

    checker = Checker(aid.store, aid.embedder)

    assert set(checker.rows["artifact_id"].to_pylist()) == {"new.md"}
    assert len(Checker(aid.store, aid.embedder, everything=True).rows) == Ledger(aid.store).rows_of("docs", "records")
    aid.open_run().close()
    assert len(Checker(aid.store, aid.embedder).rows) == 0


@pytest.mark.usefixtures("indexed")
def test_a_run_that_changes_nothing_checks_nothing(aid: FindingAid) -> None:
    assert aid.open_run().close().checks == []


def test_rows_outside_of_an_index_are_told_but_published(make_aid: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.store.upkeep._index_records", lambda *_: None)
    aid = make_aid()

    assert aid.index().ok

    (result,) = [r for r in aid.check() if r.check.name == "indexed"]
    assert result.problems == ["9 rows are not in the full-text index"]


@pytest.mark.usefixtures("indexed")
def test_what_another_run_writes_after_the_checks_is_checked_too(
    make_aid: Make, source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    aid = make_aid()
    served = aid.publisher.served()
    source.payloads["new.md"] = text_about("new")
    update_indexes = upkeep.update_indexes

    def meanwhile(store: Store) -> None:
        time.sleep(0.3)  # the checks are through by then
        append(aid, lambda rows: rows)
        update_indexes(store)

    monkeypatch.setattr(upkeep, "update_indexes", meanwhile)

    report = aid.index()

    assert report.unpublished is not None
    assert aid.publisher.served() == served
