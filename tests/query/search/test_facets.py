"""Facets: counts of artifacts by corpus, kind of file and folder, within the scope and filters of a caller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from findingaid import Corpus, FindingAid, QueryError
from findingaid.query.search.facets import FacetValue, count_facets, suffix_of
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource

DOCS = ("a.md", "guide/b.md", "guide/c.md", "guide/deep/d.txt", "data/e.csv", "README")
CODE = ("guide/run.py", "guide/deep/walk.py")


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    def corpus(name: str, ids: Sequence[str]) -> Corpus:
        texts = {i: f"# {i}\n\nOne.\n\nTwo words of {i}." for i in ids}
        return Corpus(name, MemorySource(texts), Chunked(chunk_size=20))

    corpora = {name: corpus(name, ids) for name, ids in (("docs", DOCS), ("code", CODE))}
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("facets") / "index")), HashEmbedder(), corpora)
    aid.index()
    return aid


def counted(values: Sequence[FacetValue]) -> dict[str, int]:
    return {value.value: value.artifacts for value in values}


def test_artifacts_are_counted_once_however_many_records_they_have(aid: FindingAid) -> None:
    facets = aid.facets()

    assert facets.artifacts == 8
    assert counted(facets.corpora) == {"docs": 6, "code": 2}
    assert counted(facets.suffixes) == {".md": 3, ".py": 2, ".csv": 1, ".txt": 1}
    assert counted(facets.folders) == {"guide/": 5, "data/": 1}


def test_a_facet_counts_what_the_filters_of_the_others_leave(aid: FindingAid) -> None:
    facets = aid.facets(["docs"], suffixes=[".md"], folder="guide/")

    assert facets.artifacts == 2
    assert counted(facets.corpora) == {"docs": 2}
    assert counted(facets.suffixes) == {".md": 2, ".txt": 1}
    assert facets.folders == []
    assert counted(aid.facets(folder="guide/").folders) == {"guide/deep/": 2}


def test_a_filter_narrows_every_count(aid: FindingAid) -> None:
    facets = aid.facets(where="NOT starts_with(artifact_id, 'guide/')")

    assert facets.artifacts == 3
    assert counted(facets.corpora) == {"docs": 3}
    assert counted(facets.folders) == {"data/": 1}
    with pytest.raises(QueryError, match="no field 'colour'"):
        aid.facets(where="colour = 1")


def test_a_limited_caller_counts_nothing_of_other_corpora(aid: FindingAid) -> None:
    facets = aid.within(["code"]).facets(where="true OR corpus = 'docs'")

    assert facets.artifacts == 2
    assert counted(facets.corpora) == {"code": 2}
    assert counted(facets.suffixes) == {".py": 2}


def test_the_filter_of_a_suffix_and_a_folder_finds_what_was_counted(aid: FindingAid) -> None:
    hits = aid.search("words", 100, where="ends_with(artifact_id, '.md') AND starts_with(artifact_id, 'guide/')")

    assert {hit.artifact_id for hit in hits} == {"guide/b.md", "guide/c.md"}


@pytest.mark.parametrize(
    ("artifact_id", "suffix"), [("a/b.tar.gz", ".gz"), ("a.b/c", ""), ("v1.2", ""), (".md", ".md"), ("x.", "")]
)
def test_a_suffix_is_that_of_a_file_name(artifact_id: str, suffix: str) -> None:
    assert suffix_of(artifact_id) == suffix


def test_a_facet_keeps_the_values_with_the_most_artifacts() -> None:
    facets = count_facets([("docs", f"{n % 60}/{n}.md") for n in range(90)])

    assert len(facets.folders) == 50
    assert {value.artifacts for value in facets.folders[:30]} == {2}
