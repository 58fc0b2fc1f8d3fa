"""Near-duplicate detection: one text repeats another in nearly the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from findingaid.text.words import CONTRACTED_NOT, NEGATIONS, ngrams

WORD = re.compile(r"[\w'\u2019]+")
"""Word with its apostrophes: "don't" is one word."""

RUN = 5
"""Number of consecutive words that are compared at a time (the n of n-grams)."""

ALIKE = 0.8
"""Share of a text's runs that the other text must contain for the first to repeat the other."""

REVERSING = NEGATIONS | {"except", "unless"}
"""Words that reverse a statement. If two texts differ in one of them or in a number, neither repeats the other."""


@dataclass(frozen=True)
class WordSequence:
    """Text as a sequence of words, regardless of case, punctuation and white space."""

    text: str

    def repeats(self, other: WordSequence) -> bool:
        """Return whether nearly all of this text is in the other, which may have more text around it.

        Returns False if they differ in a number or a negation: such a word changes the meaning, but only a few runs.
        """
        if not self.words:
            return self.text.strip() == other.text.strip()
        run = min(RUN, len(self.words))
        own = ngrams(self.words, run)
        shared = sum(words in other.runs(run) for words in own)
        return shared >= ALIKE * len(own) and not any(map(_tells, self._differences(other)))

    def runs(self, length: int) -> frozenset[tuple[str, ...]]:
        """Return every run of `length` consecutive words."""
        if length not in self._kept:
            self._kept[length] = frozenset(ngrams(self.words, length))
        return self._kept[length]

    @cached_property
    def words(self) -> Sequence[str]:
        """Words in their order, in lower case."""
        return WORD.findall(self.text.casefold())

    @cached_property
    def _kept(self) -> dict[int, frozenset[tuple[str, ...]]]:
        return {}

    def _differences(self, other: WordSequence) -> list[str]:
        """Return the words that differ, except those of `other` before the first and after the last common run."""
        steps = SequenceMatcher(None, other.words, self.words, autojunk=False).get_opcodes()
        same = [place for place, step in enumerate(steps) if step[0] == "equal"]
        if not same:
            return []
        found: list[str] = []
        for place, (tag, start, stop, own_start, own_stop) in enumerate(steps):
            if tag != "equal":
                found += self.words[own_start:own_stop]
                if same[0] < place < same[-1]:  # text of the other before and after is not a difference
                    found += other.words[start:stop]
        return found


def _tells(word: str) -> bool:
    return word in REVERSING or bool(CONTRACTED_NOT.search(word)) or any(map(str.isdigit, word))
