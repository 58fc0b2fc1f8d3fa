"""Lost and damaged tables are detected, and the next run repairs them without paying a model again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from findingaid import FindingAid, QueryError, StoreError, TornError
from findingaid.indexing import pipeline, writer
from findingaid.reports import NO_CALLS
from findingaid.store import Publisher, Store, lexical, repair, upkeep
from findingaid.store.skipped import skipped_rows
from findingaid.store.verify import REBUILD
from findingaid.testing import MemorySource
from findingaid.text.analyzer import Lexical
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.indexing.test_incremental import docs, records


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


def zero_manifest(folder: Path) -> None:
    path = min((folder / "_versions").glob("*.manifest"))
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("table", "harm"),
    [
        ("artifacts", lose),
        ("surfaces", lose_data),
        ("ledger", cut_manifest),
        ("records", lose),
        ("records", cut_data),
        ("records", zero_manifest),
        ("synopses", zero_manifest),
    ],
)
def test_a_harmed_table_is_noticed_and_healed(
    indexed: FindingAid, make_aid: Callable[..., FindingAid], tmp_path: Path, table: str, harm: Callable[[Path], None]
) -> None:
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


@pytest.mark.parametrize("rolled_back", [False, True])
@pytest.mark.parametrize("content", [b"", bytes(100), b'{"version": 1, "bra'])
def test_tags_that_a_power_cut_left_are_named_and_set_anew(
    indexed: FindingAid, make_aid: Callable[..., FindingAid], tmp_path: Path, content: bytes, rolled_back: bool
) -> None:
    before = records(make_aid())
    tags = [*(tmp_path / "index").glob("*.lance/_refs/tags/*.json")]
    if rolled_back:
        Publisher(indexed.store).hold()
        tags = [*(tmp_path / "index" / "records.lance" / "_refs" / "tags").glob("rolled-back.json")]
    for tag in tags:
        tag.write_bytes(content)

    noticed = make_aid().verify()
    report = make_aid().index()

    assert tags
    assert noticed == [f"a tag of {tmp_path}/index/records.lance is damaged: run `findingaid index`"]
    assert "a damaged tag of table records was removed" in report.repaired
    assert records(make_aid()) == before
    assert make_aid().verify() == []
    assert (Publisher(indexed.store).rolled_back() is not None) == rolled_back


@pytest.mark.usefixtures("indexed")
def test_rows_of_a_cache_that_cannot_be_read_are_named_with_what_heals_them(
    make_aid: Callable[..., FindingAid], tmp_path: Path
) -> None:
    cache = tmp_path / "index" / "embeddings.lance"
    for path in (cache / "data").iterdir():
        whole = path.read_bytes()
        path.write_bytes(bytes(len(whole) // 2) + whole[len(whole) // 2 :])

    (noticed,) = make_aid().verify()
    shutil.rmtree(cache)

    assert noticed.startswith("table embeddings is damaged")
    assert noticed.endswith("delete the folder embeddings.lance of the store, and run `findingaid index`")
    assert make_aid().index().ok
    assert make_aid().verify() == []


@pytest.mark.usefixtures("indexed")
def test_harm_between_two_runs_of_a_process_is_noticed_and_healed(aid: FindingAid, tmp_path: Path) -> None:
    """No run trusts what an earlier one keeps in memory of the files."""
    before = records(aid)
    cut_data(tmp_path / "index" / "surfaces.lance")

    report = aid.index()

    assert any("surfaces" in line for line in report.repaired)
    assert (tmp_path / "index" / "surfaces.damaged-1").is_dir()
    assert records(aid) == before
    assert aid.verify() == []


def test_a_caching_view_opens_all_tables_in_one_session_and_reads_one_that_is_made_anew(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "index"))
    repair.prepare(store, 8)
    view = store.caching()
    repair.inspect(view, 8)
    store.append("skipped", skipped_rows("docs", {"old.md": ("1", "binary")}))
    before = view.rows("skipped", ["artifact_id"])["artifact_id"].to_pylist()
    version = view.dataset("skipped").version

    lose(Path(store.uri) / "skipped.lance")
    repair.prepare(store, 8)
    store.append("skipped", skipped_rows("docs", {"new.md": ("1", "binary")}))
    after = view.rows("skipped", ["artifact_id"])["artifact_id"].to_pylist()

    assert _share_session(view)
    assert not _share_session(store)
    assert before == ["old.md"]
    assert after == ["new.md"]
    assert view.dataset("skipped").version == version


def _share_session(store: Store) -> bool:
    one, other = (store.dataset(table).session() for table in ("skipped", "ledger"))
    return bool(one.is_same_as(other))  # type: ignore[attr-defined]  # not in Lance's stubs


@pytest.mark.parametrize("table", ["surfaces", "records"])
def test_lost_rows_are_noticed_and_healed(indexed: FindingAid, table: str) -> None:
    aid = indexed
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
    indexed: FindingAid, make_aid: Callable[..., FindingAid], source: MemorySource, tmp_path: Path
) -> None:
    lose(tmp_path / "index" / "ledger.lance")
    del source.payloads["ledger.md"]

    make_aid().index()

    assert {hit.artifact_id for hit in make_aid().search("ledger", 50)} == {"reader.md", "vector.md"}
    assert make_aid().verify() == []


def test_searching_before_indexing_says_what_to_do(aid: FindingAid, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `findingaid index`"):
        aid.search("anything")
    assert not (tmp_path / "index").exists()


def test_a_torn_artifact_is_told_from_an_unknown_one(indexed: FindingAid, make_aid: Callable[..., FindingAid]) -> None:
    aid = indexed
    aid.store.dataset("records").delete("artifact_id = 'ledger.md' AND surface_index = 1")
    aid.publisher.publish()

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


# -- altered bytes -----------------------------------------------------------------------------------------


def alter(folder: Path, old: bytes, new: bytes) -> None:
    """Put other bytes of the same length into the data files of a table."""
    assert len(old) == len(new)
    files = [path for path in (folder / "data").iterdir() if old in path.read_bytes()]
    assert files, f"{old!r} is in no file of {folder.name}"
    for path in files:
        path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("artifacts", "1 artifacts whose payload or metadata was altered: docs/ledger.md"),
        ("surfaces", "surfaces whose text was altered: docs/ledger.md/0"),
        ("synopses", "1 artifacts whose synopsis is not the one in their records: docs/ledger.md"),
        ("records", "1 artifacts with an altered text in their records: docs/ledger.md"),
    ],
)
def test_an_altered_word_on_disk_is_noticed(indexed: FindingAid, tmp_path: Path, table: str, problem: str) -> None:
    alter(tmp_path / "index" / f"{table}.lance", b"The ledger", b"The lodger")

    (found,) = indexed.verify()
    assert problem in found
    assert found.endswith(": run `findingaid index --force`")
    indexed.index(force=True)
    assert indexed.verify() == []


def test_records_of_another_version_name_what_writes_them_anew(indexed: FindingAid) -> None:
    indexed.store.dataset("records").update({"artifact_version": "'x'"}, "artifact_id = 'ledger.md'")

    assert f"ledger.md: {REBUILD}" in str(indexed.index().unpublished)
    assert any(f"docs/ledger.md: {REBUILD}" in line for line in indexed.verify())
    indexed.index(force=True)
    assert indexed.verify() == []


def test_an_altered_place_of_a_record_is_noticed(indexed: FindingAid) -> None:
    aid = indexed
    assert aid.verify() == []
    aid.store.dataset("records").update({"surface_index": "7"}, "artifact_id = 'ledger.md' AND surface_index = 1")
    aid.publisher.publish()

    (found,) = aid.verify()

    assert "1 records whose id does not match their position" in found


def test_texts_in_context_and_claims_are_compared_too(cli: Cli, tmp_path: Path) -> None:
    cli.settings["corpora"]["docs"] |= {"synopsis": {"context": True}, "claims": True, "summary_nodes": True}
    cli.write("ledger.md", text_about("ledger", "vector"))
    cli.write("empty.md", "")
    cli.run("index")
    assert cli.json("verify")["ok"]

    alter(tmp_path / "index" / "records.lance", b"The vector", b"The victor")

    assert "with an altered text in their records: docs/ledger.md" in cli.run("verify").stdout


@pytest.fixture
def of_one(cli: Cli, ready_made: ReadyMade) -> Cli:
    """The command line over an index of one document."""
    cli.write("a.md", text_about("ledger"))
    cli.configure()
    ready_made("of one document", lambda: cli.run("index"))
    return cli


def test_a_damaged_index_is_one_line_to_searches_and_is_named_and_healed(of_one: Cli, tmp_path: Path) -> None:
    cli = of_one
    (path,) = (tmp_path / "index" / "records.lance" / "_indices").rglob("*metadata.lance")
    path.write_bytes(path.read_bytes()[:50])

    searched = cli.run("search", "ledger")
    noticed = cli.run("verify")
    purged = cli.run("purge")

    assert "is damaged: " in error_of(searched)
    assert "an index of the records is damaged (lexical_idx): run `findingaid purge`" in noticed.stdout
    assert purged.exit_code == 0, purged.output
    assert len(cli.json("search", "ledger")) == 1
    assert cli.json("verify")["ok"]


def test_damaged_records_are_one_line_to_whoever_reads_them(of_one: Cli, tmp_path: Path) -> None:
    cut_data(tmp_path / "index" / "records.lance")

    for command in (["search", "ledger"], ["show", "a.md"]):
        assert "is damaged: " in error_of(of_one.run(*command))


@pytest.mark.parametrize("table", ["surfaces", "ledger"])
def test_bytes_altered_within_a_table_are_named_with_a_remedy_that_heals(
    of_one: Cli, tmp_path: Path, table: str
) -> None:
    cli, folder = of_one, tmp_path / "index" / f"{table}.lance"
    for number in range(20):
        cli.write(f"{number}.md", text_about(f"ledger number {number}") * 20)
    cli.run("index")
    for file in (folder / "data").iterdir():
        content = bytearray(file.read_bytes())
        content[:400] = (byte ^ 255 for byte in content[:400])
        file.write_bytes(content)

    problems = cli.json("verify")["problems"]
    shutil.rmtree(folder)
    indexed = cli.run("index")

    (problem,) = problems
    assert problem.startswith(f"table {table} is damaged (")
    assert problem.endswith(f"delete the folder {table}.lance of the store, and run `findingaid index`")
    assert indexed.exit_code == 0, indexed.output
    assert cli.json("verify")["ok"]


def test_a_damaged_tag_is_a_problem_and_not_a_traceback(of_one: Cli, tmp_path: Path) -> None:
    cli = of_one
    (tmp_path / "index" / "records.lance" / "_refs" / "tags" / "published.json").write_bytes(b"{")

    for command in (["search", "ledger"], ["versions"], ["status"]):
        assert error_of(cli.run(*command))
    assert "is damaged" in cli.run("verify").stdout


@pytest.mark.parametrize("step", [(pipeline, "cut_artifacts"), (writer, "record_rows"), (upkeep, "compact")])
def test_a_store_that_is_deleted_under_a_run_is_one_line_and_the_next_run_makes_it_anew(
    cli: Cli, step: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of, name = step
    does = getattr(of, name)

    def delete_and_do(*given: object, **named: object) -> object:
        shutil.rmtree(cli.folder / "index")
        return does(*given, **named)

    cli.write("ledger.md", text_about("ledger"))
    with monkeypatch.context() as patch:
        patch.setattr(of, name, delete_and_do)
        done = cli.run("index")

    assert done.exit_code == 1
    assert str(cli.folder / "index") in error_of(done)
    assert cli.run("index").exit_code == 0
    assert cli.run("verify").exit_code == 0


def test_records_that_are_deleted_before_their_index_is_made_are_a_damaged_store(
    indexed: FindingAid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = lexical.make_index

    def delete_and_make(*given: Any) -> None:
        lose(tmp_path / "index" / "records.lance")
        make(*given)

    monkeypatch.setattr(lexical, "make_index", delete_and_make)
    with pytest.raises(StoreError, match=r"is damaged: .*records\.lance.*: run `findingaid verify`"):
        upkeep.update_indexes(Store(indexed.store.uri, lexical=Lexical(language="German")))
