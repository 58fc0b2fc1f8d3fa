"""Sections of an artifact: which statements are about another one than a question asks about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from findingaid.claims.extraction import media_type
from findingaid.model import Artifact
from findingaid.text.analyzer import Lexical
from findingaid.text.structure import Headings
from findingaid.text.words import stems

if TYPE_CHECKING:
    from findingaid.query.search.reader import Key


class Statement(NamedTuple):
    """Text of an artifact, and the headings above it."""

    artifact: Key
    text: str
    headings: Sequence[str]


def headings_of(artifacts: Mapping[Key, tuple[Artifact, str]]) -> Mapping[Key, Headings]:
    """Return the headings of artifacts, which tell what a text is about, where their format has any."""
    texts = {key: (artifact.raw, media_type(artifact.metadata)) for key, (artifact, _) in artifacts.items()}
    found = {key: Headings.of(text, kind) for key, (text, kind) in texts.items() if isinstance(text, str)}
    return {key: headings for key, headings in found.items() if headings.spans}


def about_other_sections(
    terms: Collection[str], statements: Sequence[Statement], others: Iterable[Statement], lexical: Lexical
) -> list[bool]:
    """Return for each statement whether it is about another section than a question with these stems.

    "It has 16 GB" below "Alpha" says nothing about beta, if a statement below "Beta" has the same words of the
    question. `others` are further statements that may be that one.
    """
    asked: dict[str, frozenset[str]] = {}

    def words(text: str) -> frozenset[str]:
        if text not in asked:
            asked[text] = stems([text], lexical) & frozenset(terms)
        return asked[text]

    def section(one: Statement) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
        return words(one.text), frozenset[str]().union(*map(words, one.headings)), tuple(one.headings)

    sections: dict[Key, set[tuple[frozenset[str], frozenset[str], tuple[str, ...]]]] = {}
    for one in (*statements, *others):
        sections.setdefault(one.artifact, set()).add(section(one))
    return [
        any(
            own <= other_own and above < other_above and path != other_path[: len(path)]
            for other_own, other_above, other_path in sections[one.artifact]
        )
        for one in statements
        for own, above, path in [section(one)]
    ]
