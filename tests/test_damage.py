"""Lost and damaged tables are noticed, and the next run heals them without paying a model again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from findingaid import FindingAid, QueryError, StoreError, TornError
from findingaid.model import NO_CALLS
from findingaid.store import Store
from findingaid.testing import MemorySource
from tests.test_incremental import docs, records

TABLES = ("artifacts", "surfaces", "synopses", "records", "ledger")


def lose(folder: Path) -> None:
    shutil.rmtree(folder)


def lose_data(folder: Path) -> None:
    next((folder / "data").iterdir()).unlink()


def cut_data(folder: Path) -> None:
    path = next((folder / "data").iterdir())
    path.write_bytes(path.read_bytes()[:20])


def cut_manifest(folder: Path) -> None:
    for path in (folder / "_versions").glob("*.manifest"):
        path.write_bytes(path.read_bytes()[:10])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("harm", [lose, lose_data, cut_data, cut_manifest])
def test_a_harmed_table_is_noticed_and_healed(
    make_aid: Callable[..., FindingAid], tmp_path: Path, table: str, harm: Callable[[Path], None]
) -> None:
    make_aid().index()
    before = records(make_aid())
    harm(tmp_path / "index" / f"{table}.lance")

    noticed = make_aid().verify()
    report = make_aid().index()

    assert any(table in problem for problem in noticed)
    assert any(table in line for line in report.repaired)
    assert report.ok
    assert docs(report).calls == NO_CALLS
    assert records(make_aid()) == before
    assert make_aid().verify() == []


@pytest.mark.parametrize("table", ["artifacts", "surfaces", "synopses", "records"])
def test_lost_rows_are_noticed_and_healed(aid: FindingAid, table: str) -> None:
    aid.index()
    before = records(aid)
    aid.store.dataset(table).delete("artifact_id = 'ledger.md'")

    noticed = aid.verify()
    report = aid.index()

    assert any("docs/ledger.md" in problem for problem in noticed)
    assert docs(report).changed == 1
    assert docs(report).calls == NO_CALLS
    assert records(aid) == before
    assert aid.verify() == []


def test_a_lost_ledger_leaves_no_ghosts(
    make_aid: Callable[..., FindingAid], source: MemorySource, tmp_path: Path
) -> None:
    make_aid().index()
    lose(tmp_path / "index" / "ledger.lance")
    del source.payloads["ledger.md"]

    make_aid().index()

    assert {hit.artifact_id for hit in make_aid().search("ledger", 50)} == {"reader.md", "vector.md"}
    assert make_aid().verify() == []


def test_a_damaged_table_is_kept_aside(aid: FindingAid, tmp_path: Path) -> None:
    aid.index()
    cut_data(tmp_path / "index" / "surfaces.lance")

    aid.index()

    assert (tmp_path / "index" / "surfaces.damaged-1").is_dir()


def test_searching_before_indexing_says_what_to_do(aid: FindingAid, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `findingaid index`"):
        aid.search("anything")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_torn_artifact_is_told_from_an_unknown_one(make_aid: Callable[..., FindingAid], lost: int) -> None:
    aid = make_aid()
    aid.index()
    aid.store.dataset("records").delete(f"artifact_id = 'ledger.md' AND surface_index = {lost}")
    aid.publisher.publish(aid.store.dataset("records").version)

    with pytest.raises(TornError, match=r"docs/ledger\.md: some of its records are lost: run `findingaid index`"):
        aid.show("ledger.md")
    with pytest.raises(QueryError, match="no published artifact or record 'nothing': `findingaid search` shows ids"):
        aid.show("nothing")

    make_aid().index()
    assert [record.surface_index for record in aid.show("ledger.md").records] == [0, 1, 2]


def test_a_store_with_a_long_path_is_not_taken_for_damaged(aid: FindingAid, tmp_path: Path) -> None:
    far = replace(aid, store=Store(str(tmp_path.joinpath(*["a folder with a long name"] * 12))))

    with pytest.raises(StoreError, match=r"nothing is published in .*: run `findingaid index`$"):
        far.search("ledger")
    assert far.index().repaired == []
