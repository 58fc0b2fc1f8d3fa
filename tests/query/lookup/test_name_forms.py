"""Names of files are found as people type them, whether the disk has them composed (NFC) or decomposed (NFD)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid, NotFoundError
from findingaid.embedding.hashing import HashEmbedder
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


STORED = (decomposed("Öl/Übergabe.md"), composed("Fährplan.md"), "plain.md")
SECRET = decomposed("Privé/Gehälter.md")
NAMES = [form(name) for name in STORED[:2] for form in (composed, decomposed)]


@pytest.fixture(scope="module")
def aid(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    folder = tmp_path_factory.mktemp("forms")
    for name in (*STORED, SECRET):
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / name).write_text("A walrus.")
    source = Files(str(folder / "docs"), exclude=[composed("privé/"), composed("Privé/Gehälter.md")])
    corpora = {"docs": Corpus("docs", source, WholeText())}
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), corpora)
    aid.index()
    return aid


def test_of_two_forms_of_a_name_side_by_side_each_is_found_as_it_is_written(tmp_path: Path) -> None:
    payloads = {form("Résumé.md"): f"A walrus, {form.__name__}." for form in (composed, decomposed)}
    aid = FindingAid(
        Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", MemorySource(payloads), WholeText())}
    )
    aid.index()

    for artifact_id, text in payloads.items():
        assert aid.show(artifact_id).records[0].text == text
        assert aid.show(f"docs/{artifact_id}").records[0].text == text


def test_a_pattern_excludes_a_file_in_either_form(aid: FindingAid) -> None:
    assert {artifact for (_, artifact), _ in aid.artifacts()} == set(STORED)


@pytest.mark.parametrize("typed", NAMES)
def test_an_artifact_is_looked_up_by_either_form_of_its_name(aid: FindingAid, typed: str) -> None:
    (stored,) = (name for name in STORED if composed(name) == composed(typed))

    assert aid.show(typed).artifact_id == stored
    assert aid.read(f"docs/{typed}:1").artifact_id == stored
    assert aid.why(typed)
    assert aid.impact(typed).artifact_id == stored
    assert aid.resolve(typed.partition("/")[2] or typed) == ("docs", stored)


def test_one_artifact_is_indexed_by_either_form_of_its_name(aid: FindingAid) -> None:
    for typed in NAMES:
        assert aid.index(artifacts=[typed], force=True).corpora["docs"].artifacts == 1
    with pytest.raises(NotFoundError, match="Ubergabe"):
        aid.index(artifacts=["Öl/Ubergabe.md"])


@pytest.mark.parametrize("form", [composed, decomposed])
@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("path = 'Öl/Übergabe.md'", {STORED[0]}),
        ("artifact_id IN ('Fährplan.md', 'plain.md')", {*STORED[1:]}),
        ("path <> 'Fährplan.md' AND path <> 'Öl/Übergabe.md'", {"plain.md"}),
        ("NOT (path = ('Fährplan.md') OR path LIKE 'Öl/%')", {"plain.md"}),
        ("path NOT IN ('Fährplan.md')", {STORED[0], "plain.md"}),
        ("starts_with(`path`, 'Öl') OR \"title\" = 'ä'", {STORED[0]}),
    ],
)
def test_a_filter_finds_values_in_either_form(aid: FindingAid, form: type[str], where: str, wanted: set[str]) -> None:
    assert {hit.artifact_id for hit in aid.search("walrus", where=form(where))} == wanted
