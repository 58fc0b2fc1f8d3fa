"""Shortening of claims for answers: the first clause if it says the same as the whole, else the whole claim."""

from __future__ import annotations

import re
from collections.abc import Collection

from findingaid.text.sentences import whole_sentences
from findingaid.text.words import WORD, negates, stems

QUALIFIERS = frozenset(
    """
    unless except excepting exception exceptions but however although though while whereas only if when whenever
    until till before after otherwise instead despite provided providing assuming hardly rarely seldom barely
    barring save apart excluding besides rather yet still conversely also too both either else then therefore thus
    so must may might can could should would formerly previously since this that these those such deprecated unlike
    contrary opposite false wrong untrue obsolete allegedly reportedly
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Words that may limit or continue the clause before them. A clause with such a word is not dropped."""

FORWARD = re.compile(
    r"\b(?:following|below|either|both|neither|not only|namely|as follows|first(?:ly)?)\b", re.IGNORECASE
)
"""Words that announce a second half of the statement."""

STOPS = ".!?…:;,"
PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"), ("«", "»"))
ALONE = ('"', "`", "*", "_", "$")

FEWEST_WORDS = 4
"""Fewest words of a clause that can be understood alone."""


def first_clause(text: str, terms: Collection[str] = ()) -> str:
    """Return the first sentence of a text, or its part before a semicolon, if no meaning is lost; else the whole text.

    The whole text is returned if the cut would

    - fall within an abbreviation, a decimal, a bracket or a list,
    - drop a word that marks an exception, a condition, a negation or a contrast, or
    - drop any of `terms`, the stems that the text is cited for.

    White space is folded.
    """
    text = " ".join(text.split())
    head = _first(text)
    rest = text[len(head) :]
    if not rest.strip(f"{STOPS} ") or not _stands_alone(head) or _qualifies(rest):
        return text
    lost = set(terms) & stems([text]) - stems([head])
    return text if lost else head.rstrip("; ")


def _first(text: str) -> str:
    """Return the text up to the first semicolon or the end of the first sentence, whichever comes first."""
    sentence = next(iter(whole_sentences(text)), text)
    before, semicolon, _ = sentence.partition("; ")
    return (before + semicolon if semicolon else sentence).rstrip()


def _stands_alone(head: str) -> bool:
    whole = all(head.count(a) == head.count(b) for a, b in PAIRS) and all(head.count(sign) % 2 == 0 for sign in ALONE)
    lists = head.endswith(";") and ":" in head
    ends = head.endswith((".", ";"))
    return whole and ends and not lists and len(head.split()) >= FEWEST_WORDS and not FORWARD.search(head)


def _qualifies(rest: str) -> bool:
    """Return whether the dropped rest may qualify the head, or is not a clause of its own."""
    rest = rest.strip()
    begins = rest[:1].isupper() or rest[:1].islower()
    if not begins or len(rest.split()) < FEWEST_WORDS:
        return True
    return not QUALIFIERS.isdisjoint(WORD.findall(rest.casefold())) or negates(rest)
