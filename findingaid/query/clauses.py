"""What of a claim goes into an answer: its first clause where that says the same, else all of it."""

from __future__ import annotations

import re
from collections.abc import Collection

from findingaid.query.terms import WORD, stems

QUALIFIERS = frozenset(
    """
    unless except excepting exception exceptions but however although though while whereas only if when whenever until
    till before after without otherwise instead despite provided providing assuming not no never neither nor none
    nothing nobody nowhere cannot without hardly rarely seldom barely except barring save apart excluding besides rather
    yet still conversely also too both either else then therefore thus so must may might can could should would
    formerly previously since this that these those such deprecated unlike contrary opposite false wrong untrue obsolete
    allegedly reportedly
    """.split()  # noqa: SIM905  # a paragraph is read more easily than a list
)
"""Words that may turn round, limit or go on with what stands before them: a clause that has one is not left out."""

FORWARD = re.compile(
    r"\b(?:following|below|either|both|neither|not only|namely|as follows|first(?:ly)?)\b", re.IGNORECASE
)
"""What is said before its other half."""

NEGATIONS = frozenset("not no never neither nor none nothing nobody nowhere cannot without".split())  # noqa: SIM905

CONTRACTED = re.compile(r"n['’]t\b", re.IGNORECASE)  # noqa: RUF001  # as it is typed

ABBREVIATED = re.compile(
    r"\b(?:\w|approx|ca|cf|vs|etc|no|nos|vol|ed|eds|fig|figs|eq|sec|ch|dept|inc|ltd|corp|co|jr|sr|st|mt|prof|dr|mr|mrs|ms"
    r"|gen|rep|sen|gov|pp|min|max|resp|al|est|incl|excl|ver|rev|e\.g|i\.e|u\.s|a\.m|p\.m)\.$",
    re.IGNORECASE,
)
"""A full stop that may not end a sentence."""

STOPS = ".!?…:;,"
PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"), ("«", "»"))
ALONE = ('"', "`", "*", "_", "$")

FEWEST_WORDS = 4
"""Of a clause that stands for itself."""


def clause_of(text: str, terms: Collection[str] = ()) -> str:
    """The first sentence of a text, or what stands before its semicolon, where nothing is lost; else all of it.

    Lost would be: the rest of an abbreviation, a decimal, a bracket or a list; an exception, a condition, a negation or
    a contrast, of which some word is left out; and any of the `terms`, stems that the text is cited for. White space is
    folded.
    """
    text = " ".join(text.split())
    head = _first(text)
    rest = text[len(head) :]
    if not rest.strip(f"{STOPS} ") or not _stands_alone(head) or _qualifies(rest):
        return text
    lost = set(terms) & stems([text]) - stems([head])
    return text if lost else head.rstrip("; ")


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, none of which begins within an abbreviation's."""
    from sentencex import segment

    found: list[str] = []
    for part in segment("en", text):
        if found and (ABBREVIATED.search(found[-1].rstrip()) or not part.lstrip()[:1].isupper()):
            found[-1] += part
        else:
            found.append(part)
    return found


def _first(text: str) -> str:
    """Up to the first semicolon or sentence's end, whichever comes first."""
    sentence = next(iter(sentences_of(text)), text)
    before, semicolon, _ = sentence.partition("; ")
    return (before + semicolon if semicolon else sentence).rstrip()


def negates(text: str) -> bool:
    """Whether a text says that something is not so."""
    return not NEGATIONS.isdisjoint(WORD.findall(text.casefold())) or bool(CONTRACTED.search(text))


def _stands_alone(head: str) -> bool:
    whole = all(head.count(a) == head.count(b) for a, b in PAIRS) and all(head.count(sign) % 2 == 0 for sign in ALONE)
    lists = head.endswith(";") and ":" in head
    ends = head.endswith((".", ";"))
    return whole and ends and not lists and len(head.split()) >= FEWEST_WORDS and not FORWARD.search(head)


def _qualifies(rest: str) -> bool:
    """Whether what is left out says more than a further fact, or is no clause of its own."""
    rest = rest.strip()
    words = set(WORD.findall(rest.casefold()))
    begins = rest[:1].isupper() or rest[:1].islower()
    return bool(words & QUALIFIERS) or bool(CONTRACTED.search(rest)) or not begins or len(rest.split()) < FEWEST_WORDS
