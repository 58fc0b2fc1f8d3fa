"""Places of hits: the file and the line, as far as the source has files."""

from __future__ import annotations

from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.query.lookup.places import Location, line_of, span_of_line
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource
from tests.conftest import ReadyMade, text_about

TEXT = text_about("ledger", "vector")


@pytest.fixture
def aid(tmp_path: Path, ready_made: ReadyMade) -> FindingAid:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("---\ntitle: A\n---\n" + TEXT)
    corpora = {
        "docs": Corpus("docs", Files(tmp_path / "docs"), Chunked(chunk_size=120, overlap=0)),
        "memory": Corpus("memory", MemorySource({"m.md": TEXT}), Chunked(chunk_size=120, overlap=0)),
    }
    store = str(tmp_path / "index")
    ready_made("places", lambda: FindingAid(Store(store), HashEmbedder(), corpora).index())
    return FindingAid(Store(store), HashEmbedder(), corpora)


def test_a_hit_is_at_the_line_of_its_file_where_its_text_begins(aid: FindingAid, tmp_path: Path) -> None:
    (hit,) = aid.search("vector", 1, mode="lexical", corpora=["docs"])
    (place,) = aid.locate([hit])

    lines = (tmp_path / "docs" / "a.md").read_text().splitlines()
    assert place.path == str(tmp_path / "docs" / "a.md")
    assert place.line is not None
    assert lines[place.line - 1] == hit.text.splitlines()[0] == "# vector"


def test_a_path_is_relative_to_the_working_folder_where_that_is_shorter(
    aid: FindingAid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place,) = aid.locate(aid.search("ledger", 1, mode="lexical", corpora=["docs"]))

    monkeypatch.chdir(tmp_path)
    assert str(place) == f"docs/a.md:{place.line}"
    monkeypatch.chdir("/")
    assert str(place) == f"{tmp_path}/docs/a.md:{place.line}".removeprefix("/")


def test_a_path_is_whole_where_the_working_folder_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert str(Location("docs", "a.md", "/srv/docs/a.md", 3)) == "/srv/docs/a.md:3"


def test_an_artifact_without_a_file_has_corpus_id_and_line(aid: FindingAid) -> None:
    (place,) = aid.locate(aid.search("vector", 1, mode="lexical", corpora=["memory"]))

    assert place == Location("memory", "m.md", "", 5)
    assert str(place) == "memory/m.md:5"


def test_a_file_that_was_indexed_again_since_the_search_has_no_line(aid: FindingAid, tmp_path: Path) -> None:
    hits = aid.search("vector", 1, mode="lexical", corpora=["docs"])
    (tmp_path / "docs" / "a.md").write_text("Something else.")
    aid.index()

    (place,) = aid.locate(hits)
    assert (place.path, place.line) == (str(tmp_path / "docs" / "a.md"), None)
    assert aid.locate([]) == []


@pytest.mark.parametrize("line", [1, 2, 3])
def test_the_span_of_a_line_begins_in_that_line(line: int) -> None:
    span = span_of_line("one\n\nthree", line)

    assert span is not None
    assert line_of("one\n\nthree", span[0]) == line
    assert "one\n\nthree"[slice(*span)] == ["one", "", "three"][line - 1]


def test_a_text_has_no_line_beyond_its_last() -> None:
    assert span_of_line("one\n", 3) is None
    assert span_of_line("one\n", 0) is None
