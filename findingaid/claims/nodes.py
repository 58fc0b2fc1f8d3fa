"""Summary nodes without a model: the most central claims of an artifact, unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from findingaid.claims.extraction import doubt
from findingaid.protocols import Bullet, Draft, Member, NodeProducer
from findingaid.registry import Registry, checked
from findingaid.synthesis.extractive import centrality
from findingaid.text.stop_words import ENGLISH_STOP_WORDS
from findingaid.text.words import LETTERS

FEWEST, MOST = 3, 7
"""Minimum and maximum bullets of a summary node; fewer only if there are fewer claims."""

THEMES = 5
"""Maximum themes of a summary node; the most common are kept."""

SHARED = 2
"""Minimum number of claims that share a theme."""

THEME_LETTERS = 4
"""Minimum letters of a word that is a theme."""


@checked
@dataclass(frozen=True)
class ExtractiveNodes:
    """The `bullets` most central claims, each unchanged and citing itself, in the order of the text.

    Centrality is computed as by the synthesizer "extractive", times the claim's confidence. Themes are the names, and
    then the words, that most claims share.
    """

    bullets: Annotated[int, Ge(FEWEST), Le(MOST)] = 5
    free: ClassVar[Literal[True]] = True
    version: ClassVar[int] = 1

    @property
    def id(self) -> str:
        return f"extractive-{self.bullets}-v{self.version}"

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        if not members:
            return None
        central = centrality([member.text for member in members])
        scores = [float(score) * member.confidence for score, member in zip(central, members, strict=True)]
        best = sorted(range(len(members)), key=lambda i: (-scores[i], i))[: self.bullets]
        chosen = [members[i] for i in sorted(best)]
        bullets = tuple(Bullet(member.text, (member.claim_id,)) for member in chosen)
        return Draft(bullets, themes_of(members), sum(member.confidence for member in chosen) / len(chosen))


def why_unfit(draft: Draft, members: int, least: float) -> str:
    """Return why a draft over so many claims is refused; "" if it is accepted. `least` is the lowest confidence."""
    fewest = min(FEWEST, members)
    if not fewest <= len(draft.bullets) <= MOST:
        return f"has {len(draft.bullets)} points, expected {fewest} to {MOST}"
    return doubt(draft.confidence, least)


def themes_of(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the themes of claims: names that several claims share, then words."""
    names = _shared(member.entities for member in members)
    found = [[word for word in LETTERS.findall(member.text) if len(word) >= THEME_LETTERS] for member in members]
    words = _shared([word for word in one if word.casefold() not in ENGLISH_STOP_WORDS] for one in found)
    themes: dict[str, str] = {}
    for theme in (*names, *words):
        if not any(theme.casefold() in known for known in themes):
            themes[theme.casefold()] = theme
    return tuple(themes.values())[:THEMES]


def _shared(each: Iterable[Iterable[str]]) -> Iterator[str]:
    """Return the items that several lists share, most common first, each in the spelling of its first occurrence."""
    written: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one in each:
        listed = list(one)
        for name in listed:
            written.setdefault(name.casefold(), name)
        counts.update({name.casefold() for name in listed})
    places = {name: place for place, name in enumerate(written)}
    ranked = sorted(counts, key=lambda name: (-counts[name], places[name]))
    return (written[name] for name in ranked if counts[name] >= SHARED)


NODE_PRODUCERS: Registry[NodeProducer] = Registry(
    "node producer",
    "kind",
    NodeProducer,
    "findingaid.node_producers",
    {"extractive": "findingaid.claims.nodes:ExtractiveNodes", "openai": "findingaid.claims.openai_nodes:OpenAINodes"},
)
