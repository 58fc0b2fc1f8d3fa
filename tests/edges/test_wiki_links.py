"""Wiki links between notes: found in the text, resolved by readers, the same after any history as in a clean build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from findingaid import Artifact, Corpus, FindingAid
from findingaid.edges import CombinedExtractor, LinkEdges
from findingaid.query.search.walks import ANY, Neighbours
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder


def linked(text: str, **fields: object) -> list[tuple[str, str]]:
    artifact = Artifact("guide/start.md", text, {"media_type": "text/markdown"})
    return [(edge.target_id, edge.section) for edge in LinkEdges().extract(artifact, fields)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[[Note]] and [[a/Note|label]]", [("[[Note]]", ""), ("[[a/Note]]", "")]),
        ("[[Note#A heading|x]] [[Note#^b7]]", [("[[Note]]", "A heading"), ("[[Note]]", "^b7")]),
        ("![[Note]] ![[scan.pdf#page=2]] ![[picture.png|100]]", [("[[Note]]", ""), ("[[scan.pdf]]", "page=2")]),
        ("| a |\n|---|\n| [[Note\\|green]] |", [("[[Note]]", "")]),
        (normalize("NFD", "[[Café]]"), [("[[Café]]", "")]),
        ("[[#here]] [[]] [[|x]] \\[[no]] `[[no]]`\n\n```\n[[no]]\n```\n\n<!-- [[no]] -->", []),
        ("[[1]](a.md) and [[2]]\n\n[2]: b.md", [("guide/a.md", ""), ("guide/b.md", "")]),
        ("[[B]] [a](a.md) [[C]]", [("[[B]]", ""), ("guide/a.md", ""), ("[[C]]", "")]),
    ],
)
def test_wiki_links_are_found_beside_those_of_markdown(text: str, found: list[tuple[str, str]]) -> None:
    assert linked(text) == found


def test_a_value_of_front_matter_may_be_a_wiki_link() -> None:
    assert linked("[[B]]", up="[[Home|x]]", related=["[[A#s]]", "no [[link]]"]) == [
        ("[[Home]]", ""), ("[[A]]", "s"), ("[[B]]", ""),
    ]  # fmt: skip


VAULT: Mapping[str, str] = {
    "Home.md": "[[Plan]] [[projects/ALPHA/plan]] [[Boss]] [[Café]] [[missing]] [[Home]]",
    "Projects/Alpha/Plan.md": "[[Plan]] [[../Beta/Plan]] [[/Home]]",
    "Projects/Beta/Plan.md": "",
    "Projects/Beta/Todo.md": "[[Plan]] [plan](Plan.md) [[Alpha/Plan.md]]",
    "People/Anna Schmidt.md": "---\naliases: [Boss, Chief]\n---\nAnna leads. [[Beta]]",
    normalize("NFD", "Café.md"): "Coffee.",
}


def vault(root: Path, store: Path, notes: Mapping[str, str] = VAULT) -> FindingAid:
    for old in root.rglob("*.md"):
        old.unlink()
    for name, text in notes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text or "Empty.")
    corpus = Corpus("notes", Files(root), Chunked(), edges=CombinedExtractor())
    aid = FindingAid(Store(str(store)), CountingEmbedder(), {"notes": corpus})
    assert aid.index().ok
    return aid


def links(aid: FindingAid, note: str, reverse: bool = False) -> list[str]:
    return [n.artifact_id for n in aid.neighbours(note, reverse=reverse)]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> FindingAid:
    folder = tmp_path_factory.mktemp("vault")
    return vault(folder / "notes", folder / "store")


def test_a_name_leads_to_a_path_its_end_or_an_alias_the_nearest_first(notes: FindingAid) -> None:
    assert links(notes, "Home.md") == [
        "Projects/Beta/Plan.md", "Projects/Alpha/Plan.md", "People/Anna Schmidt.md",
        normalize("NFD", "Café.md"), "[[missing]]",
    ]  # fmt: skip
    assert links(notes, "Projects/Alpha/Plan.md") == ["Projects/Beta/Plan.md", "Home.md"]
    assert links(notes, "Projects/Beta/Todo.md") == ["Projects/Beta/Plan.md"] * 2 + ["Projects/Alpha/Plan.md"]
    assert [n.title for n in notes.neighbours("Home.md") if n.link == "missing"] == [None]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_link_of_markdown_leads_to_a_name_in_any_form_of_unicode(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    cafe = normalize(form, "Café.md")
    text = f"[a]({normalize('NFC', 'Café.md')}) [b]({normalize('NFD', 'Café.md')}) [c](é.md)"
    notes = vault(tmp_path / "notes", tmp_path / "store", {"Home.md": text, cafe: "Coffee."})

    assert links(notes, "Home.md") == [cafe, cafe, "é.md"]
    assert links(notes, cafe, reverse=True) == ["Home.md"] * 2


def test_names_that_differ_in_case_alone_lead_to_the_note_that_is_written_so(tmp_path: Path) -> None:
    notes = vault(tmp_path / "notes", tmp_path / "store", {"Mars.md": "[[mars]]", "mars.md": "[[Mars]] [[MARS]]"})

    assert links(notes, "Mars.md") == ["mars.md"]
    assert links(notes, "mars.md") == ["Mars.md"] * 2
    assert links(notes, "mars.md", reverse=True) == ["Mars.md"]


def test_backlinks_are_those_that_lead_to_a_note(notes: FindingAid) -> None:
    assert links(notes, "Projects/Beta/Plan.md", reverse=True) == [
        "Home.md", "Projects/Alpha/Plan.md", *["Projects/Beta/Todo.md"] * 2,
    ]  # fmt: skip
    assert links(notes, "Projects/Alpha/Plan.md", reverse=True) == ["Home.md", "Projects/Beta/Todo.md"]
    assert links(notes, "People/Anna Schmidt.md", reverse=True) == ["Home.md"]
    assert links(notes, "[[missing]]", reverse=True) == ["Home.md"]
    assert [(r.artifact_id, r.references) for r in notes.most_referenced(2)] == [
        ("Projects/Beta/Plan.md", 3), ("Projects/Alpha/Plan.md", 2),
    ]  # fmt: skip


def test_a_route_and_impact_follow_wiki_links(notes: FindingAid) -> None:
    def reached(note: str, route: Neighbours) -> set[str]:
        found = notes.search("Anna coffee", 50, mode="lexical", route=route)
        return {hit.artifact_id for hit in found if hit.depth}

    assert reached("Anna", Neighbours(along=(), against=ANY)) == {"Home.md"}
    assert [n.artifact_id for n in notes.impact("Projects/Alpha/Plan.md").referred_by] == [
        "Home.md", "Projects/Beta/Todo.md",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {**VAULT, "missing.md": "It comes later. [[Chief]]"},
        {**VAULT, "Plan.md": "Another of this name."},
        {("Projects/Alpha/Scheme.md" if name == "Projects/Alpha/Plan.md" else name): VAULT[name] for name in VAULT},
        {name: VAULT[name] for name in VAULT if name != "Projects/Beta/Plan.md"},
        {**VAULT, "People/Anna Schmidt.md": "Without aliases."},
        {**VAULT, "Home.md": "[[Chief]]"},
    ],
    ids=["added", "one more of a name", "renamed", "deleted", "alias gone", "link edited"],
)
def test_links_after_a_change_are_those_of_a_clean_build(tmp_path: Path, changed: Mapping[str, str]) -> None:
    vault(tmp_path / "notes", tmp_path / "store")

    aid = vault(tmp_path / "notes", tmp_path / "store", changed)
    clean = vault(tmp_path / "notes", tmp_path / "clean", changed)

    for note in changed:
        for reverse in (False, True):
            assert aid.neighbours(note, reverse=reverse) == clean.neighbours(note, reverse=reverse)
    assert aid.most_referenced(50) == clean.most_referenced(50)
    assert aid.verify() == []


def test_a_target_that_comes_later_rebuilds_no_note_that_links_to_it(tmp_path: Path) -> None:
    aid = vault(tmp_path / "notes", tmp_path / "store")
    (tmp_path / "notes" / "missing.md").write_text("It comes later.")

    report = aid.index()

    assert (report.corpora["notes"].new, report.corpora["notes"].changed) == (1, 0)
    assert links(aid, "missing.md", reverse=True) == ["Home.md"]
    assert [n.title for n in aid.neighbours("Home.md") if n.link == "missing"] == ["missing.md"]
