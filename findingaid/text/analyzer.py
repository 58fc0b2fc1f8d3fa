"""Analyzer of full-text search: language, stemming and stop words, and the words of a query under these settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Language = Literal[
    "Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian",
    "Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish",
]  # fmt: skip

ENGLISH = (
    "i me my myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself"
    " it its itself they them their theirs themselves what which who whom this that these those am is are was were be"
    " been being have has had having do does did doing would should could ought a an the and but if or because as until"
    " while of at by for with about against between into through during before after above below to from up down in out"
    " on off over under again further then once here there when where why how all any both each few more most other"
    " some such no nor not only own same so than too very s t can cannot will just don now m re ve ll d isn aren wasn"
    " weren hasn haven hadn doesn didn won wouldn shouldn couldn"
)
"""The stop words of the Snowball project, https://snowballstem.org/algorithms/english/stop.txt, cut at apostrophes."""

STEMS = "ourselv yourselv themselv doe becaus dure befor abov onc whi ani onli veri"
"""Stems of some of the stop words, needed because Lance stems words before it removes stop words."""

ALPHANUMERIC = re.compile(r"[^\W_]+")
"""Run of letters and digits, which the full-text index counts as a word."""


@dataclass(frozen=True, slots=True)
class Lexical:
    """Settings of full-text search: `language` for stemming, and `stop_words`: those of the language, none, or a list.

    With stemming, listed stop words are compared with stems.
    """

    language: Language = "English"
    stem: bool = True
    stop_words: bool | tuple[str, ...] = True

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The stop words passed to Lance; None for Lance's own list of the language."""
        if isinstance(self.stop_words, tuple):
            return tuple(word.lower() for word in self.stop_words)
        if not self.stop_words:
            return ()
        return (*ENGLISH.split(), *STEMS.split()) if self.language == "English" else None

    def words(self, text: str) -> list[str]:
        """Return the distinct words of a query, in lower case and without stop words."""
        stop = set(self.listed or ())
        return [word for word in dict.fromkeys(ALPHANUMERIC.findall(text.lower())) if word not in stop]
