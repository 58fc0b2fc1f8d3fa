"""Forms of characters: one spelling for all that a reader takes for the same word."""

# ruff: noqa: RUF001  # letters of other scripts are the subject

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

HYPHENS, DASHES = "-\u2010\u2011", "\u2012\u2013\u2212"
"""Hyphens, and dashes and the minus sign, as they are used in numbers. Parts of a set in a pattern, hyphens first."""

IGNORED = re.compile(
    "\u00ad(?:[ \t]*\r?\n[ \t]*)?"
    "|[\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff]"
    "|[\uffa0\U000e0000-\U000e0fff]"
)
"""Characters without a glyph (Default_Ignorable_Code_Point), and a soft hyphen with the line end after it."""

INVISIBLE = re.compile("\u00ad(?:[ \t]*\r?\n[ \t]*)?|[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
"""Those of `IGNORED` that change nothing of what a reader sees; joiners shape letters and emoji."""

TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[^\n]\x08")
"""Sequence that colours a terminal, or a character that the next one is printed over, as in pages of man."""

VOWEL_MARKS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
"""Vowels and accents of Hebrew and Arabic, which most texts leave out, and the stroke that stretches a word."""

RAISED_DIGIT = re.compile("[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]")
RAISED = re.compile(rf"([^\W_]+)({RAISED_DIGIT.pattern}+)")
"""Word with digits above or below the line: a formula, a power or the number of a footnote."""

ZEROS = "٠۰߀०০੦૦୦௦౦೦൦෦๐໐༠၀႐០᠐"  # digits, not letters

ALIKE = str.maketrans(
    {chr(ord(zero) + digit): str(digit) for zero in ZEROS for digit in range(10)}
    # A sign behind a name would become part of it.
    | {"™": " ", "℠": " "}
    # Alef with its signs, final forms, and the letters that Persian writes in another way.
    | {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه"}
)
"""Character -> its usual form, in scripts whose stemmers take both for the same."""

HAS_ALIKE = re.compile(f"[{''.join(map(chr, ALIKE))}]")
"""Any of them. Looking for one first is ten times as fast as translating a text without any."""

MARKED = re.compile(
    "([A-Za-z\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff])[\u0300-\u036f]+|([\u0400-\u052f])[\u0300\u0301]+"
)
"""Decomposed letter with accents: Latin or Greek with any, Cyrillic with that of stress. Й is a letter of its own."""

FOLDED = re.compile("[\u00c0-\u024f\u0300-\u036f\u0370-\u052f\u1e00-\u1fff]")

LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "Th"}
    | dict(zip("øØłŁđĐðÐħĦŧŦıςёЁ", "oOlLdDdDhHtTiσеЕ", strict=True))
)
"""Letter that has no accent to remove -> its plain form."""


def word_with(letters: str) -> re.Pattern[str]:
    """Return a pattern of words that have one of these letters, given as in a set. It takes linear time."""
    return re.compile(rf"(?<![^\W\d_])[^\W\d_]*[{letters}][^\W\d_]*")


SPELLED_OUT = str.maketrans(
    dict(zip("äöüåøÄÖÜÅØ", ("ae", "oe", "ue", "aa", "oe", "Ae", "Oe", "Ue", "Aa", "Oe"), strict=True))
    | {"ß": "ss", "ẞ": "SS"}
)
"""Letter -> two plain letters, by which German and Danish names are written on a keyboard without the letter."""

HAS_SPELLED_OUT = word_with("äöüåøÄÖÜÅØ")


def composed(text: str) -> str:
    """Return a text in the Unicode form that people type (NFC): one character for a letter and its accents."""
    return unicodedata.normalize("NFC", text)


def both_forms(text: str) -> tuple[str, ...]:
    """Return a text as it is, composed and decomposed, without repeats: macOS and zip files have decomposed names."""
    return tuple(dict.fromkeys((text, composed(text), unicodedata.normalize("NFD", text))))


def normalized(text: str) -> str:
    """Return a text in one Unicode form (NFKC), without characters that nobody sees and vowels that few write.

    Accents stay, since stemmers need them; `folded` removes them.
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _alike(IGNORED.sub("", text)))
    return _alike(VOWEL_MARKS.sub("", text))


def _alike(text: str) -> str:
    return text.translate(ALIKE) if HAS_ALIKE.search(text) else text


def folded(text: str) -> str:
    """Return a normalized text without accents. Those that make another letter stay, as in й, が and Indic scripts."""
    if text.isascii() or not FOLDED.search(text):
        return text
    marked = MARKED.sub(lambda found: found[1] or found[2], unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", marked).translate(LETTERS)


def normalized_places(text: str) -> tuple[str, Sequence[int]]:
    """Return the normalized text, and the offset in the text of each of its characters and of its end."""
    made = normalized(text)
    if made == text:
        return text, range(len(text) + 1)
    pieces: list[str] = []
    places: list[int] = []
    for start, end in _clusters(text):
        piece = normalized(text[start:end])
        pieces.append(piece)
        places += range(start, end) if piece == text[start:end] else [start] * len(piece)
    return "".join(pieces), [*places, len(text)]


NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+(?:[ \t]*\r?\n[ \t]*)?")


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that cover a text and can be normalized one by one: each begins with a character of its own."""
    last = 0
    for found in NOT_ASCII.finditer(text):
        yield last, found.start()
        last = found.start()
        for place in range(found.start() + 1, found.end()):
            if not _continues(text, place):
                yield last, place
                last = place
        yield last, found.end()
        last = found.end()
    yield last, len(text)


def _continues(text: str, place: int) -> bool:
    """Return whether a character combines with the one before it: marks, vowels of Korean, and what is ignored."""
    character = text[place]
    if character < "\x80":
        return text[place - 1] == "\u00ad" or (character in " \t\r\n" and _continues(text, place - 1))
    return (
        unicodedata.category(character)[0] == "M"
        or "\u1160" <= character <= "\u11ff"
        or character in "\uff9e\uff9f"  # voiced marks of half-width katakana
        or IGNORED.match(character) is not None
    )
