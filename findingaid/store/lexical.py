"""How full-text search takes words: the settings of its index, and what a query's words are by them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lance import LanceDataset

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
"""What becomes of some of them before Lance looks, which takes stems first and stop words after."""

WORD = re.compile(r"[^\W_]+")

KEY = "findingaid.full_text"
"""Where the configuration of the records table, which goes with each version, has what its index was made with."""

EDITION = 1
"""Part of what an index was made with: raise it when the words above change, and it is made again."""


@dataclass(frozen=True, slots=True)
class Lexical:
    """`language` says how words are stemmed; `stop_words` are left out: its own, none, or those listed.

    Listed ones are compared with stems, where stems are taken.
    """

    language: Language = "English"
    stem: bool = True
    stop_words: bool | tuple[str, ...] = True

    @property
    def listed(self) -> tuple[str, ...] | None:
        """The stop words as they are told to Lance; None for its own of the language."""
        if isinstance(self.stop_words, tuple):
            return tuple(word.lower() for word in self.stop_words)
        if not self.stop_words:
            return ()
        return (*ENGLISH.split(), *STEMS.split()) if self.language == "English" else None

    @property
    def index(self) -> Any:
        """The index to be made."""
        from lancedb.index import FTS

        listed = self.listed
        return FTS(language=self.language, stem=self.stem, custom_stop_words=None if listed is None else list(listed))

    def words(self, text: str) -> list[str]:
        """The words of a query that are looked for, each once."""
        stop = set(self.listed or ())
        return [word for word in dict.fromkeys(WORD.findall(text.lower())) if word not in stop]

    def to_json(self) -> str:
        return json.dumps([EDITION, self.language, self.stem, self.stop_words])


def made_with(records: LanceDataset) -> Lexical | None:
    """What the full-text index of a version was made with; None where that is not this edition's."""
    edition, *settings = json.loads(records.config().get(KEY, "[null]"))
    if edition != EDITION:
        return None
    language, stem, stop_words = settings
    return Lexical(language, stem, tuple(stop_words) if isinstance(stop_words, list) else stop_words)
