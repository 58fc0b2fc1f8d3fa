"""A table that was put back from a backup is noticed, named with what heals it, and healed by the next run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from findingaid import FindingAid
from findingaid.store import Ledger, repair, upkeep
from findingaid.store.schemas import PER_ARTIFACT
from findingaid.testing import MemorySource
from tests.conftest import ReadyMade, text_about

MakeAid = Callable[..., FindingAid]


@pytest.fixture
def backup(make_aid: MakeAid, source: MemorySource, tmp_path: Path, ready_made: ReadyMade) -> Path:
    """A copy of a store before a run that deleted one artifact and added another of as many records."""
    ready_made("backup", lambda: make_aid().index())
    older = (tmp_path / "index").rename(tmp_path / "backup")
    del source.payloads["vector.md"]
    source.payloads["vortex.md"] = text_about("vortex")

    def build() -> None:
        shutil.copytree(older, tmp_path / "index")
        make_aid().index()

    ready_made("after the backup", build)
    return older


def put_back(backup: Path, table: str) -> None:
    there = backup.parent / "index" / f"{table}.lance"
    shutil.rmtree(there)
    shutil.copytree(backup / f"{table}.lance", there)


def artifacts(aid: FindingAid) -> set[str]:
    return {hit.artifact_id for hit in aid.search("sentence", 50)}


@pytest.mark.parametrize("table", ["records", "surfaces"])
def test_an_older_copy_of_one_table_is_named_and_made_anew(
    make_aid: MakeAid, backup: Path, source: MemorySource, table: str
) -> None:
    put_back(backup, table)

    assert make_aid().verify() == [f"table {table} is an older copy than the ledger names: run `findingaid index`"]
    report = make_aid().index()

    assert report.repaired == [f"table {table} was an older copy than the ledger names and was rebuilt"]
    assert artifacts(make_aid()) == {"ledger.md", "reader.md", "vortex.md"}
    assert "vortex" in make_aid().read("vortex.md").text
    assert make_aid().verify() == []
    source.payloads["more.md"] = text_about("more")
    assert make_aid().index().repaired == []
    assert "more.md" in artifacts(make_aid())


def test_an_older_copy_of_the_ledger_is_brought_up_to_date(make_aid: MakeAid, backup: Path) -> None:
    put_back(backup, "ledger")

    make_aid().index()

    assert artifacts(make_aid()) == {"ledger.md", "reader.md", "vortex.md"}
    assert make_aid().verify() == []


@pytest.mark.parametrize("compacted", [False, True])
def test_a_ledger_put_back_with_its_source_does_not_serve_what_was_indexed_after_them(
    make_aid: MakeAid, source: MemorySource, tmp_path: Path, compacted: bool
) -> None:
    make_aid().index()
    shutil.copytree(tmp_path / "index", tmp_path / "backup")
    older = source.payloads["vector.md"]
    source.payloads["vector.md"] = str(older).replace("vector", "vortex")
    make_aid().index()
    source.payloads["vector.md"] = older
    put_back(tmp_path / "backup", "ledger")
    if compacted:
        upkeep.compact(make_aid().store)

    assert any("another version than the ledger states" in line for line in make_aid().verify())
    report = make_aid().index().corpora["docs"]

    assert report.changed == 1
    assert "vortex" not in make_aid().read("vector.md").text
    assert all("vortex" not in hit.text for hit in make_aid().search("vortex", 50))
    assert make_aid().verify() == []
    assert not make_aid().index().corpora["docs"].active


def test_a_whole_store_put_back_is_as_it_was(make_aid: MakeAid, backup: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "index")
    shutil.copytree(backup, tmp_path / "index")

    assert artifacts(make_aid()) == {"ledger.md", "reader.md", "vector.md"}
    assert make_aid().verify() == []
    assert make_aid().index().repaired == []
    assert artifacts(make_aid()) == {"ledger.md", "reader.md", "vortex.md"}


def test_maintenance_and_a_purge_make_no_table_an_older_copy(make_aid: MakeAid, backup: Path) -> None:
    aid = make_aid()
    aid.purge()
    upkeep.compact(aid.store)

    assert repair.inspect(aid.store, aid.embedder.dim) == {}
    known = Ledger(aid.store).rows("docs").values()
    assert all(row.v_records <= aid.store.dataset("records").version for row in known)
    assert {f"v_{table}" for table in PER_ARTIFACT} <= {*aid.store.dataset("ledger").schema.names}
