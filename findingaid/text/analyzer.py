"""Analyzer of full-text search: what is indexed of a text, and what a query looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Literal, NamedTuple, Protocol

from findingaid.text.folding import (
    DASHES,
    HAS_SPELLED_OUT,
    HYPHENS,
    RAISED,
    RAISED_DIGIT,
    SPELLED_OUT,
    TERMINAL,
    folded,
    normalized,
    word_with,
)

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

ALPHANUMERIC = re.compile(r"[^\W_]+")
"""Run of letters and digits, which the full-text index counts as a word."""

IDENTIFIER = re.compile(
    r"\b(?![A-Za-z]?[a-z0-9]*+(?!\w))\w*?(?:[a-z0-9][A-Z][A-Za-z]|[A-Z][A-Z][a-z]{2}|[^\W_]_+[^\W_])\w*", re.ASCII
)
"""Name of several parts, such as getUserName, HTTPServer or get_user_name.

The lookahead only passes over plain words quickly: four times as fast in prose.
"""

HAS_IDENTIFIER = re.compile(
    r"[A-Z_](?:(?<=[a-z0-9][A-Z])[A-Za-z]|(?<=[A-Z][A-Z])[a-z]{2}|(?<=[^\W_]_)_*+[^\W_])", re.ASCII
)
"""Sign of an identifier. Looking for one first is four times as fast again in a text without any."""

BORDER = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z][A-Za-z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
"""Border between two parts of an identifier. An end of one capital or of s, as in PhD and RNAs, is no part."""

LONGEST = 100
"""Characters of an identifier that is split. Longer runs are mostly encoded data."""


def identifiers(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Yield each identifier of a text with its parts."""
    for found in IDENTIFIER.finditer(text) if HAS_IDENTIFIER.search(text) else ():
        parts = [part for part in BORDER.split(found[0]) if part]
        if len(parts) > 1 and len(found[0]) <= LONGEST:
            yield found, parts


def split_identifiers(text: str) -> str:
    """Replace each identifier by the whole, without underscores, and its parts: "getUserName get User Name".

    Names then find each other in every style, and by some of their parts.
    """
    pieces, last = [], 0
    for found, parts in identifiers(text):
        pieces += [text[last : found.start()], " ".join(["".join(parts), *parts])]
        last = found.end()
    return "".join([*pieces, text[last:]])


class Signed(NamedTuple):
    """Pattern `whole` of words that a sign connects or ends. Looking for the sign first is ten times as fast."""

    sign: re.Pattern[str]
    whole: re.Pattern[str]

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield what `whole` finds, as `re.finditer` does."""
        last = 0
        for found in self.sign.finditer(text):
            begin = found.start()
            while begin > last and (text[begin - 1].isalnum() or text[begin - 1] == "_"):
                begin -= 1
            if begin < last:
                continue
            match = self.whole.match(text, begin)
            last = match.end() if match else found.end()
            if match:
                yield match


COMPOUND = Signed(re.compile(rf"[{HYPHENS}](?<=\w.)(?=\w)"), re.compile(rf"\b\w++(?>(?:[{HYPHENS}]\w++)+)"))
"""Word with hyphens, such as e-mail or TX-4021-B."""

ABBREVIATION = Signed(
    re.compile(r"\.(?<=\b[^\W\d_].)(?=[^\W\d_])"), re.compile(r"\b[^\W\d_]\.(?:[^\W\d_]\.)*[^\W\d_]\b")
)
"""Letters with full stops between, as in U.S.A."""

GROUPS = rf"[{HYPHENS}{DASHES} .,/'’()]"  # noqa: RUF001
NUMBER = Signed(
    re.compile(rf"{GROUPS}(?<=\d.)(?={GROUPS}{{0,2}}\d)"),
    re.compile(rf"(?<!\w)\d++(?>(?:{GROUPS}{{1,3}}\d++)+)(?:[{HYPHENS} ]?[Xx])?(?!\w)"),
)
"""Digits in groups: an amount, a phone number, an ISBN."""

THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,(?:\d\d,)*\d{3}(?:,\d{3})*|([ .'’])\d{3}(?:\1\d{3})*)(?!\d)")  # noqa: RUF001
"""Amount with its digits in groups, as in 1,250,000 or 1.250.000 or 12,50,000."""

NUMBERED = re.compile(r"[A-Z](?<!\w.)[A-Z]{1,8} \d++\b", re.ASCII)
"""Name with a number, as in RFC 2119 and PEP 8, which people write without the blank, too."""

PREFIXED = re.compile(r"[.#@$](?<![^\s([{<\"'`].)[^\W_]\w*+")
DUNDER = re.compile(r"__(?<!\w__)[^\W_]\w*?__\b")
SUFFIXED = Signed(re.compile(r"[+#%](?<=\w.)(?:(?<!\+)|\+)(?!\w)"), re.compile(r"\b\w++(?:\+\+|[#%])(?!\w)"))
"""Word of which a sign is a part: .NET, __init__, and C++, C#, 50%."""

COMMIT = Signed(re.compile(r"[0-9](?:(?<=[a-f].)|(?=[a-f]))"), re.compile(r"(?<!\w)[0-9a-f]{8,64}+(?!\w)"))
"""Hash in hexadecimal digits, such as the name of a commit, of which people give the first digits."""

SHORT_COMMIT = 7
"""Digits of a commit that people give at least, as git shows them."""

DIGITS = range(7, 21)
"""Digits of a number that is also found without its separators. With fewer it is a date, a version, a decimal."""

SIGN = r"[-.,/@:+~#=&%\\]"
SIGNS = rf"{SIGN}{{1,3}}"
VERBATIM = re.compile(rf"\b\w++(?>(?:{SIGNS}\w++)+)|\b[^\W_]++(?>(?:_++[^\W_]++)+)")
"""Words that only signs separate: a version, an address, a part number."""

ADDRESS = Signed(
    re.compile(rf"{SIGN}(?<=\w.)(?={SIGN}{{0,2}}+\w++{SIGNS}\w)"),
    re.compile(rf"\b\w++(?>(?:{SIGNS}\w++){{2,}})"),
)
"""Words with several signs between, which are the same with the same signs only: a.b@c is not a@b.c."""

ACCENT = "\u00c0-\u024f\u1e00-\u1eff"
ACCENTED = word_with(ACCENT)
"""Word of Latin letters with accents. Stemmers know endings only with their accents, as in información."""

NAME = re.compile(r"[A-Z](?<!\w.)[A-Z]{1,8}(?!\w)", re.ASCII)

NAMED = "\ua78f"
"""Letter that is in no text. At the end of a word it marks a name in capitals, such as IT."""

NAMES = frozenset(ENGLISH.split()) - {"and", "or", "not"} | {"us"}
"""Words that are a name in capitals."""

LONGEST_PHRASE = 16
"""Most words of a query that is looked for as it is. A text with all the words of a longer one comes first anyway."""

MOST_VERBATIM = 4
"""Most versions, addresses, numbers and names of a query that are looked for as they are."""

WHOLE_WEIGHT, VERBATIM_WEIGHT = 2, 3
"""Weights of a whole query, and of a version or the like, beside their words.

For the same word, a short text scores up to 3.5 times as much as a long one.
"""


class Searchable(NamedTuple):
    """Words by which a text is found: its own, in order, and others by which people look for them."""

    text: str
    others: tuple[str, ...]

    @property
    def column(self) -> str:
        """All words, as they are indexed. The others come last, so that phrases are found in the text."""
        return f"{self.text}\n{' '.join(self.others)}" if self.others else self.text


class LexicalQuery(NamedTuple):
    """What a query looks for: a text for the full-text index, its words one by one, and phrases.

    `others` are further forms of words, which a record need not have. `phrases` are texts that a record may have as
    they are, and then comes before records that have their words only; one that is repeated has more weight.
    """

    text: str
    words: Sequence[str]
    others: Sequence[str]
    phrases: Sequence[str]


def searchable(text: str) -> Searchable:
    """Return the words by which a text is found, and by which a query finds it.

    Names of several parts count by their parts and whole, hyphenated words and grouped digits also without separators.
    """
    others: list[str] = []
    text = TERMINAL.sub("", text) if "\x1b" in text or "\b" in text else text
    if not text.isascii():
        if RAISED_DIGIT.search(text):
            others += (normalized(part) for found in RAISED.finditer(text) for part in found.groups())
        plain = normalized(text)
        text = folded(plain)
        others += ACCENTED.findall(plain) if text != plain else ()
        others += (word.translate(SPELLED_OUT) for word in HAS_SPELLED_OUT.findall(plain))
    joined = [_joined(found[0]) for form in (COMPOUND, ABBREVIATION, NUMBERED) for found in form.finditer(text)]
    others += (word for word in joined if len(word) <= LONGEST and not word.isdigit())
    others += (number for found in NUMBER.finditer(text) for number in _numbers(found[0]))
    exact = [found[0] for found in ADDRESS.finditer(text) if _is_mixed(found[0])]
    exact += (found[0] for form in (PREFIXED, DUNDER, SUFFIXED) for found in form.finditer(text))
    others += (_exact(each) for each in exact if len(each) <= LONGEST)
    others += (found[0][:SHORT_COMMIT] for found in COMMIT.finditer(text))
    others += (f"{name}{NAMED}" for name in NAME.findall(text) if name.lower() in NAMES)
    pieces, last = [], 0
    for found, parts in identifiers(text):
        others.append("".join(parts))
        pieces += [text[last : found.start()], " ".join(parts)]
        last = found.end()
    return Searchable("".join([*pieces, text[last:]]), tuple(dict.fromkeys(map(str.lower, others))))


def _is_mixed(text: str) -> bool:
    """Return whether different signs separate the words of an address."""
    return len({sign for sign in text if not sign.isalnum()}) > 1


def _exact(text: str) -> str:
    """Return one word for an address: its signs as numbers, between letters that no text has."""
    return "".join(sign if sign.isalnum() else f"{NAMED}{ord(sign)}{NAMED}" for sign in text)


def _numbers(text: str) -> Iterator[str]:
    """Yield numbers without separators: all the groups together, those without a blank between, and amounts."""
    for run in dict.fromkeys((text, *text.split())):
        if len(number := _joined(run)) in DIGITS:
            yield number
    yield from (_joined(found[0]) for found in THOUSANDS.finditer(text))


def _joined(text: str) -> str:
    return "".join(ALPHANUMERIC.findall(text))


def phrases(text: str) -> list[str]:
    """Return what a text may have as it is, with repeats for weight: the whole query, and its numbers and addresses.

    A hyphenated word or a name is left to its whole, which is a word: as phrases they would outweigh all other words.
    """
    plain = folded(normalized(text))
    named = dict.fromkeys(found[0] for form in (VERBATIM, NUMBER) for found in form.finditer(plain))
    numbers = [each for each in named if _is_mixed(each) or any(map(str.isdigit, each))]
    found = [phrase for each in numbers[:MOST_VERBATIM] for phrase in _weighted(each)]
    if plain.strip() not in numbers and 1 < len(ALPHANUMERIC.findall(plain)) <= LONGEST_PHRASE:
        found += [searchable(plain).text] * WHOLE_WEIGHT
    return found


def _weighted(named: str) -> list[str]:
    """Return the phrases for a version or the like.

    An address is also looked for with its signs, which a phrase leaves out, and a long number without its separators.
    """
    phrase = searchable(named).text
    whole = [_exact(named)] if _is_mixed(named) else [*_numbers(named)][:1] or [phrase]
    return [phrase, *whole * VERBATIM_WEIGHT]


@dataclass(frozen=True, slots=True)
class Lexical:
    """Settings of full-text search: `language` for stemming, and `stop_words`: those of the language, none, or a list.

    With stemming, listed stop words are compared with stems.
    """

    language: Language = "English"
    stem: bool = True
    stop_words: bool | tuple[str, ...] = True

    @property
    def listed(self) -> frozenset[str] | None:
        """Stop words that queries leave out; None for those of Lance for the language, which the index leaves out."""
        if isinstance(self.stop_words, tuple):
            return frozenset(word.lower() for word in self.stop_words)
        if not self.stop_words:
            return frozenset()
        return frozenset(ENGLISH.split()) if self.language == "English" else None

    def query(self, text: str) -> LexicalQuery:
        """Return what to look for, without stop words unless there are no other words.

        In `words`, those that no blank separates, as in Chinese, count as one.
        """
        found = searchable(text)
        every = dict.fromkeys(ALPHANUMERIC.findall(found.text.lower()))
        words = [word for word in every if not self._is_stop(word)] or [*every]
        asked = ALPHANUMERIC.sub(lambda word: word[0] if word[0].lower() in words else "", found.text)
        others = [word for word in found.others if word not in every and self._differs(word)]
        return LexicalQuery(" ".join([asked, *others]), words, others, phrases(text))

    def _is_stop(self, word: str) -> bool:
        """Return whether a word is a stop word. Listed ones are compared with stems, too."""
        listed = self.listed or ()
        return word in listed or (isinstance(self.stop_words, tuple) and self.stem and self.stemmed(word) in listed)

    def _differs(self, word: str) -> bool:
        """Return whether a word has another stem than the same word without accents."""
        return not ACCENTED.fullmatch(word) or folded(self.stemmed(word)) != self.stemmed(folded(word))

    def stemmed(self, word: str) -> str:
        """Return the stem of a word in lower case; the word itself without stemming."""
        return _stemmer(self.language, get_ident()).stemWord(word) if self.stem else word


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802  # the library's name


@cache
def _stemmer(language: str, _thread: int) -> _Stemmer:
    """Return the stemmer of a thread: it has a state, so that two threads must not use it at the same time."""
    from Stemmer import Stemmer

    made: _Stemmer = Stemmer(language.lower())
    return made
