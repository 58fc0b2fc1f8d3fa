"""Places of hits: the file and the line, as far as the source has files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from findingaid import Corpus, FindingAid, QueryError
from findingaid.embedding.hashing import HashEmbedder
from findingaid.query.lookup.places import Location, line_of, span_of_line
from findingaid.query.search.expand import Extent
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.claude import ClaudeSession
from findingaid.strategies.package import Package
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


TURNS = [
    {"user_prompt": f"Which lamp has number {n}?", "assistant_summary": f"Lamp {n} hangs in hall {n}."}
    for n in range(4)
]
TALK = {"session": "talk", "turns": TURNS}
FIELDS = {
    "sessions": Corpus("sessions", MemorySource({"talk": TALK}), ClaudeSession(cut=Chunked(chunk_size=120))),
    "packages": Corpus(
        "packages",
        MemorySource({"lamp": {"name": "lamp", "description": "Hangs lamps in halls.", "readme": TEXT, "deps": []}}),
        Package(chunk_size=120),
    ),
}
"""Corpora whose passages are of fields of their artifacts."""


@pytest.mark.parametrize("expand", [False, 1, "artifact"])
@pytest.mark.parametrize("corpus", FIELDS)
def test_a_hit_in_a_field_opens_its_own_words_by_its_span_and_by_its_record_or_is_refused(
    tmp_path: Path, corpus: str, expand: Extent | Literal[False]
) -> None:
    aid = FindingAid(Store(str(tmp_path)), HashEmbedder(), FIELDS)
    aid.index()
    hits = [hit for hit in aid.search("lamp hall ledger", 20, corpora=[corpus], expand=expand) if hit.span]

    for hit in hits:
        by_record = aid.read(hit.record_id, corpus)
        assert by_record.passage
        assert by_record.text[slice(*by_record.passage)] in hit.text
        try:
            by_span = aid.read(hit.artifact_id, corpus, span=hit.span, artifact_version=hit.artifact_version)
        except QueryError as error:
            assert "of one of its fields: give the id of the record" in str(error)  # noqa: PT017  # one of two ways
        else:
            assert by_span.text == hit.text
    assert hits or expand
