"""Browsing: artifacts, newest first, and counts of them, within the scope and filters of a caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid, QueryError
from findingaid.model import Listing
from findingaid.query.lookup.browsing import FacetValue, ListedArtifact, suffix_of
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource
from tests.support.deployment import until

DOCS = ("a.md", "guide/b.md", "guide/c.md", "guide/deep/d.txt", "data/e.csv", "README")
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
CODE = ("guide/run.py", "guide/deep/walk.py")


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    def corpus(name: str, ids: Sequence[str]) -> Corpus:
        texts = {i: f"# {i}\n\nOne.\n\nTwo words of {i}." for i in ids}
        return Corpus(name, MemorySource(texts), Chunked(chunk_size=20))

    corpora = {name: corpus(name, ids) for name, ids in (("docs", DOCS), ("code", CODE))}
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("browse") / "index")), HashEmbedder(), corpora)
    aid.index()
    return aid


def counted(values: Sequence[FacetValue]) -> dict[str, int]:
    return {value.value: value.artifacts for value in values}


def test_artifacts_are_counted_once_however_many_records_they_have(aid: FindingAid) -> None:
    found = aid.browse()

    assert found.artifacts == 8
    assert counted(found.corpora) == {"docs": 6, "code": 2}
    assert counted(found.suffixes) == {".md": 3, ".py": 2, ".csv": 1, ".txt": 1}
    assert counted(found.folders) == {"guide/": 5, "data/": 1}


def test_a_facet_counts_what_the_filters_of_the_others_leave(aid: FindingAid) -> None:
    found = aid.browse(["docs"], suffixes=[".md"], folder="guide/")

    assert found.artifacts == 2
    assert counted(found.corpora) == {"docs": 2}
    assert counted(found.suffixes) == {".md": 2, ".txt": 1}
    assert found.folders == []
    assert aid.browse(["docs"], suffixes=[".MD"], folder="guide/") == found
    assert counted(aid.browse(folder="guide/").folders) == {"guide/deep/": 2}


def test_a_filter_narrows_every_count(aid: FindingAid) -> None:
    found = aid.browse(where="NOT starts_with(artifact_id, 'guide/')")

    assert found.artifacts == 3
    assert counted(found.corpora) == {"docs": 3}
    assert counted(found.folders) == {"data/": 1}
    with pytest.raises(QueryError, match="no field 'colour'"):
        aid.browse(where="colour = 1")


def test_a_limited_caller_counts_nothing_of_other_corpora(aid: FindingAid) -> None:
    found = aid.within(["code"]).browse(where="true OR corpus = 'docs'")

    assert found.artifacts == 2
    assert counted(found.corpora) == {"code": 2}
    assert counted(found.suffixes) == {".py": 2}


def test_the_filter_of_a_suffix_and_a_folder_finds_what_was_counted(aid: FindingAid) -> None:
    hits = aid.search("words", 100, where="ends_with(artifact_id, '.md') AND starts_with(artifact_id, 'guide/')")

    assert {hit.artifact_id for hit in hits} == {"guide/b.md", "guide/c.md"}


@pytest.mark.parametrize(
    ("artifact_id", "suffix"),
    [("a/b.tar.gz", ".gz"), ("a.b/c", ""), ("v1.2", ""), (".md", ".md"), ("x.", ""), ("SCAN.PDF", ".pdf")],
)
def test_a_suffix_is_that_of_a_file_name(artifact_id: str, suffix: str) -> None:
    assert suffix_of(artifact_id) == suffix


def test_a_facet_keeps_the_values_with_the_most_artifacts(tmp_path: Path) -> None:
    corpus = Corpus("docs", MemorySource({f"{n % 60}/{n}.md": "One." for n in range(90)}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()

    folders = aid.browse(k=0).folders

    assert len(folders) == 50
    assert {value.artifacts for value in folders[:30]} == {2}


def files_of(folder: Path, changed: Mapping[str, int]) -> FindingAid:
    """Write a file for each name, last changed so many days after 1 January 2020, and return an index of them."""
    for name, days in changed.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# The {name}\n\nIt is about {name}.\n")
        at = (FIRST + timedelta(days=days)).timestamp()
        os.utime(folder / name, (at, at))
    corpus = Corpus("notes", Files(str(folder)), Chunked())
    aid = FindingAid(Store(str(folder.parent / "index")), HashEmbedder(), {"notes": corpus})
    aid.index()
    return aid


def test_files_are_listed_by_the_time_of_their_last_change(tmp_path: Path) -> None:
    aid = files_of(tmp_path / "notes", {"a.md": 1, "b/c.md": 3, "d.md": 2, "e.md": 2})

    first, second = aid.browse(k=3).newest, aid.browse(k=3, offset=3).newest

    assert [artifact.artifact_id for artifact in (*first, *second)] == ["b/c.md", "d.md", "e.md", "a.md"]
    assert (first[0].title, first[0].changed) == ("The b/c.md", "2020-01-04T00:00:00+00:00")
    assert [artifact.artifact_id for artifact in aid.browse(folder="b/").newest] == ["b/c.md"]
    assert aid.browse(k=0).newest == aid.browse(offset=4).newest == []


def test_a_file_that_changes_comes_first_and_a_touched_one_has_its_new_time(tmp_path: Path) -> None:
    aid = files_of(tmp_path / "notes", {"a.md": 1, "b.md": 2, "c.md": 3})
    (tmp_path / "notes" / "a.md").write_text("# Another text\n")
    os.utime(tmp_path / "notes" / "b.md", (FIRST.timestamp(), FIRST.timestamp()))

    aid.index()

    newest = aid.browse().newest
    assert [artifact.artifact_id for artifact in newest] == ["a.md", "c.md", "b.md"]
    assert newest[2].changed == FIRST.isoformat()


@pytest.mark.parametrize("days", [-9_000_000, 9_000_000])
def test_a_time_beyond_any_year_is_no_time(tmp_path: Path, days: int) -> None:
    listing = Listing("a.md", "1", changed=days * 86_400.0)

    assert listing.changed_at is None


def test_an_artifact_without_a_time_keeps_that_of_the_run_that_first_read_it_so(tmp_path: Path) -> None:
    source = MemorySource({"a.md": "One.", "b.md": "Two."})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    before = {artifact.artifact_id: at(artifact) for artifact in aid.browse().newest}
    source.payloads["b.md"] = "Three."

    until(lambda: datetime.now(UTC) > max(before.values()) + timedelta(seconds=1), "the clock stands still")
    aid.index(force=True)

    newest = aid.browse().newest
    assert [artifact.artifact_id for artifact in newest] == ["b.md", "a.md"]
    assert at(newest[0]) > before["b.md"]
    assert at(newest[1]) == before["a.md"]


def at(artifact: ListedArtifact) -> datetime:
    return datetime.fromisoformat(artifact.changed)


@pytest.mark.parametrize("given", [{"k": -1}, {"offset": -1}])
def test_a_list_begins_and_ends_where_it_can(aid: FindingAid, given: dict[str, int]) -> None:
    with pytest.raises(QueryError, match=r"must be at least 0, got -1"):
        aid.browse(**given)
