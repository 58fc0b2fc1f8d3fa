"""Whether one text says again what another says, in nearly the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

WORD = re.compile(r"[\w'\u2019]+")

RUN = 5
"""Words in a row that two texts must share to count as alike there."""

ALIKE = 0.8
"""The share of a text's runs that another must have, for the one to repeat the other."""

NEGATIONS = frozenset(
    {"no", "not", "never", "none", "nor", "neither", "nothing", "nobody", "without", "cannot", "except", "unless"}
)
"""Words that turn a statement round, as numbers do: where texts differ in one of these, neither repeats the other."""


@dataclass(frozen=True)
class Said:
    """A text by its words, whatever their case and what stands between them."""

    text: str

    def repeats(self, other: Said) -> bool:
        """Whether nearly all of this is in the other, which may say more around it.

        Never where they differ in a number or a negation, which few other words may be enough to hide.
        """
        if not self.words:
            return self.text.strip() == other.text.strip()
        run = min(RUN, len(self.words))
        own = _runs(self.words, run)
        shared = sum(words in other.runs(run) for words in own)
        return shared >= ALIKE * len(own) and not any(map(_tells, self._differences(other)))

    def runs(self, length: int) -> frozenset[tuple[str, ...]]:
        """Every so many words in a row."""
        if length not in self._kept:
            self._kept[length] = frozenset(_runs(self.words, length))
        return self._kept[length]

    @cached_property
    def words(self) -> Sequence[str]:
        """The words in their order."""
        return WORD.findall(self.text.casefold())

    @cached_property
    def _kept(self) -> dict[int, frozenset[tuple[str, ...]]]:
        return {}

    def _differences(self, other: Said) -> list[str]:
        """Words of either that the other lacks, as far as both go."""
        steps = SequenceMatcher(None, other.words, self.words, autojunk=False).get_opcodes()
        same = [place for place, step in enumerate(steps) if step[0] == "equal"]
        if not same:
            return []
        found: list[str] = []
        for place, (tag, start, stop, own_start, own_stop) in enumerate(steps):
            if tag != "equal":
                found += self.words[own_start:own_stop]
                if same[0] < place < same[-1]:  # what the other says before and after is no difference
                    found += other.words[start:stop]
        return found


def _runs(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def _tells(word: str) -> bool:
    return word in NEGATIONS or word.replace("\u2019", "'").endswith("n't") or any(map(str.isdigit, word))
