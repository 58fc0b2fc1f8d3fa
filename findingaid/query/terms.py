"""The words of a question that an answer must speak of, and whether a text does, by their stems."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Protocol

from findingaid.store.lexical import ENGLISH, Lexical

ASKING = (
    "tell explain describe summarize summarise please let us say said says happens mean means also may might must shall"
)
"""Words that say how to answer, not of what."""

WORD = re.compile(
    r"""
    v?\d+(?:[.,]\d+)+           # 3.11, v1.2.3, 1,000
  | [^\W\d_]\+\+ | [^\W\d_]\#   # C++, C#
  | (?<!\w)\.NET\b
  | [^\W_]+                     # all else ends at punctuation, also at _
    """,
    re.VERBOSE | re.IGNORECASE,
)
APOSTROPHE = re.compile(r"(?<=\w)['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)  # noqa: RUF001  # as it is typed
OPERATORS = frozenset({"AND", "OR", "NOT"})
STEMS_KEPT = 1 << 16


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802  # the library's name


def salient(text: str, lexical: Lexical | None = None) -> dict[str, str]:
    """Stem -> word as it was written first, of the words that say what a text is about; all where none does.

    Split at punctuation: "auth/jwt" is two. Short names count, such as C++, UI and Go; and IT, where not all is
    written in capitals.
    """
    lexical = lexical or Lexical()
    words = _words(text)
    shouted = text.upper() == text
    said = [word for word in words if not _is_stop(word, lexical) or (not shouted and _is_name(word))]
    found: dict[str, str] = {}
    for word in said or words:
        found.setdefault(stem(word, lexical), word)
    return found


def stems(texts: Iterable[str], lexical: Lexical | None = None) -> frozenset[str]:
    """The stems of all words of texts; a stem that is among them is covered by the texts."""
    lexical = lexical or Lexical()
    return frozenset(stem(word, lexical) for text in texts for word in _words(text))


def stem(word: str, lexical: Lexical) -> str:
    """What a word shares with its other forms: "token" for "tokens". "Start" and "art" share none, nor IT and "it"."""
    if _is_name(word) and _is_stop(word, lexical):
        return word
    plain = word.casefold()
    return _stem(lexical.language.lower(), plain) if lexical.stem and plain.isalpha() else plain


@lru_cache(STEMS_KEPT)
def _stem(language: str, word: str) -> str:
    return _stemmer(language).stemWord(word)


@cache
def _stemmer(language: str) -> _Stemmer:
    import snowballstemmer

    made: _Stemmer = snowballstemmer.stemmer(language)
    return made


def _words(text: str) -> list[str]:
    return WORD.findall(APOSTROPHE.sub("", text))


def _is_stop(word: str, lexical: Lexical) -> bool:
    return word.casefold() in _stop_words(lexical)


@cache
def _stop_words(lexical: Lexical) -> frozenset[str]:
    """Also where the index keeps them: nobody asks for "the"."""
    shipped = f"{ENGLISH} {ASKING}".split() if lexical.language == "English" else []
    return frozenset([*shipped, *(lexical.listed or ())])


def _is_name(word: str) -> bool:
    return len(word) > 1 and word.isupper() and word not in OPERATORS
