"""A summary over the claims of an artifact without a model: the most central of them, as they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from findingaid.model import Bullet, Draft, Member
from findingaid.registry import STRICT
from findingaid.synthesis.extractive import centrality

FEWEST, MOST = 3, 7
"""Bullets of a summary node; fewer only where there are fewer claims."""

THEMES = 5
"""Themes of a summary node, the most common."""

SHARED = 2
"""Claims that must name something for it to be a theme."""

WORD = re.compile(r"[^\W\d_]{4,}")


@dataclass(frozen=True)
class ExtractiveNodes:
    """The `bullets` most central claims, each as it is and citing itself, in the order of the text.

    Central is what the synthesizer "extractive" takes for it, times the claim's confidence. Themes are the names and
    then the words that most claims share.
    """

    bullets: Annotated[int, Ge(FEWEST), Le(MOST)] = 5
    free: ClassVar[Literal[True]] = True
    version: ClassVar[int] = 1
    __pydantic_config__: ClassVar = STRICT

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


def themes_of(members: Sequence[Member]) -> tuple[str, ...]:
    """What most claims are about: names that several of them have, then words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    names = _shared(member.entities for member in members)
    found = [WORD.findall(member.text) for member in members]
    words = _shared([word for word in one if word.casefold() not in ENGLISH_STOP_WORDS] for one in found)
    themes: dict[str, str] = {}
    for theme in (*names, *words):
        if not any(theme.casefold() in known for known in themes):
            themes[theme.casefold()] = theme
    return tuple(themes.values())[:THEMES]


def _shared(each: Iterable[Iterable[str]]) -> Iterator[str]:
    """What several have, what most have first; as it is written first, whatever its case elsewhere."""
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
