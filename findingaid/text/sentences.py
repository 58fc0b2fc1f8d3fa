"""Splitting of texts into sentences, in time linear in their length, by the rules of English and a few of German.

For each sentence, sentencex scans the rest of the text for marks such as brackets, so that its time is quadratic in the
length. Long texts are therefore split in a moving window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from findingaid.text.words import MONTHS

LONG_TEXT = 20_000
"""Most characters of a text that is split without a window."""

WINDOW = 10_000

ENDS_INSIDE = re.compile(
    r"\b(?:incl|excl|approx|cf|vs|e\.g|i\.e|resp|inkl|exkl|zzgl|bzw|ggf|evtl|vgl|(?-i:[Cc]a|[Aa]bb|[Nn]r"
    r"|Ms|Mx|Hrn|Fam|Fa|Dipl|Ing|Dres))\.\s*$",
    re.IGNORECASE,
)
"""An English or German abbreviation at the end of a text that ends no sentence, as the names CA and ABB may."""

BEFORE_NUMBER = re.compile(
    r"\b(?:Abs|Abschn|Art|Bd|Bl|Fax|Hs|Kap|Mobil|Pos|Rn|Rz|Str|Tel|Tz|Zi|Ziff|[Ss]|[Nn]rn?|[Tt]el)\.\s*$"
)
"""An abbreviation at the end of a text that ends no sentence before a number, as in "§ 5 Abs. 2"."""

ORDINAL = re.compile(r"(?P<article>\b(?i:im|vom|zum|zur|der|dem|den)\s)?\b\d{1,3}\.\s*$")
"""A number at the end of a text that may be an ordinal, as in "am 12. Mai", and is one as in "im 2. Stock"."""

MONTH = re.compile(rf"(?:{'|'.join(MONTHS['German'].split())}|Jänner)\b")

ABBREVIATED = re.compile(
    r"\b(?:\w|ca|etc|no|nos|vol|ed|eds|fig|figs|eq|sec|ch|dept|inc|ltd|corp|co|jr|sr|st|mt|prof|dr|mr|mrs|ms"
    r"|gen|rep|sen|gov|pp|min|max|al|est|ver|rev|u\.s|a\.m|p\.m)\.$",
    re.IGNORECASE,
)
"""A further abbreviation at the end of a text, whose full stop may not end the sentence."""

MAY_END = re.compile(r"\b(?i:inc|ltd|corp|co|llc|plc|etc|jr|sr|u\.s|a\.m|p\.m)\.$")
"""An abbreviation at the end of a text that may also end a sentence, which the word that follows decides."""

VERB = r"(?:[a-z]{2,}(?:s|ed)|is|was|are|were|has|had|can|will|must|may|should|would)"
"""A lower-case word that is probably a verb."""

STATES = re.compile(rf"\b{VERB}\b")

NEXT_SENTENCE = re.compile(rf"{MAY_END.pattern.removesuffix('$')}\s+(?=(?:[A-Z][a-z]+\s{VERB}|A\s[a-z]+)\b)")
"""Such an abbreviation before a capital and a verb, as in "Corp. Frank writes"."""

INNER_STOP = re.compile(r"\.\s+[A-Z]")
"""What `NEXT_SENTENCE` needs; few sentences have it."""

LONGEST_END = 100
"""Characters at the end of a sentence that are searched for an abbreviation."""


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; joined, they are the text."""
    parts: list[str] = []
    for part in _split(text):
        if parts and not _goes_on(parts[-1][-LONGEST_END:], part):
            yield "".join(parts)
            parts = []
        parts.append(part)
    if parts:
        yield "".join(parts)


def _goes_on(end: str, part: str) -> bool:
    """Return whether a part continues the sentence whose end so far is given."""
    if part[:1].isdigit() and BEFORE_NUMBER.search(end):
        return True
    number = ORDINAL.search(end)
    return bool(ENDS_INSIDE.search(end) or (number and (number["article"] or part[:1].islower() or MONTH.match(part))))


def _split(text: str) -> Iterator[str]:
    from sentencex import segment

    at = 0
    while len(text) - at > LONG_TEXT:
        window = text[at : at + WINDOW]
        settled = segment("en", window)[:-1] or [window]  # the last may continue beyond the window
        yield from settled
        at += sum(map(len, settled))
    yield from segment("en", text[at:])


def split_statements(text: str) -> Iterator[str]:
    """Yield the sentences of a text as `split_sentences` does, but separate more after abbreviations.

    "She works for Acme Corp. Frank writes texts." has two sentences, "The Acme Corp. Board met." has one: the words
    before the abbreviation must contain a verb, and those after it must begin with a subject and a verb.
    """
    for sentence in split_sentences(text):
        at = 0
        for found in NEXT_SENTENCE.finditer(sentence) if INNER_STOP.search(sentence) else ():
            if STATES.search(sentence, at, found.start()):
                yield sentence[at : found.end()]
                at = found.end()
        yield sentence[at:]


def whole_sentences(text: str) -> list[str]:
    """Split a text into sentences, but not within a name such as "Dr. Smith" or before a part without a capital."""
    found: list[list[str]] = []
    end = ""
    for part in split_statements(text):
        before = end.rstrip()
        abbreviated = ABBREVIATED.search(before) and not MAY_END.search(before)
        if found and (abbreviated or not part.lstrip()[:1].isupper()):
            found[-1].append(part)
        else:
            found.append([part])
            end = ""
        end = (end + part)[-LONGEST_END:]
    return ["".join(parts) for parts in found]
