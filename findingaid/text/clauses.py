"""Clauses of claims in answers: which of them may be left out without a change of meaning."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from findingaid.text.analyzer import Lexical
from findingaid.text.sentences import whole_sentences
from findingaid.text.words import WORD, negates, salient_words, stem, stems

QUALIFIERS = frozenset(
    """
    unless except excepting exception exceptions but however although though while whereas only if when whenever
    until till before after otherwise instead despite provided providing assuming hardly rarely seldom barely
    barring save apart excluding besides rather yet still conversely also too both either else then therefore thus
    so must may might can could should would formerly previously since this that these those such deprecated unlike
    contrary opposite false wrong untrue obsolete allegedly reportedly
    sauf excepté hormis salvo excepto tranne eccetto exceto behalve utom unntatt undtagen кроме
    seulement uniquement solamente únicamente soltanto somente alleen slechts endast kun только
    außer nur lediglich ausschließlich wenn sofern soweit solange sobald bevor bis nachdem obwohl jedoch kaum selten
    vielleicht möglicherweise angeblich ehemals früher veraltet
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Words that may limit or continue the clause before them. A clause with such a word is not dropped."""

EXCEPTIONS = (
    frozenset(
        """
        unless except excepting exception exceptions excluding barring otherwise unlike außer
        sauf excepté hormis salvo excepto tranne eccetto exceto behalve utom unntatt undtagen кроме
        """.split()  # noqa: SIM905
    ),
    frozenset(
        """
        only solely exclusively alone nur lediglich ausschließlich
        seulement uniquement solamente únicamente soltanto somente alleen slechts endast kun только
        """.split()  # noqa: SIM905
    ),
)
"""Words of which a rephrased claim keeps one of the same group, with the words after it."""

CONDITIONS = frozenset(
    """
    if when whenever until till before after since while whereas but however although though despite provided providing
    assuming instead besides apart save wenn sofern soweit solange sobald bevor bis nachdem obwohl
    """.split()  # noqa: SIM905
)
"""Words whose clause a rephrased claim keeps, also if it begins in another way."""

DOUBTS = (
    frozenset("may might could possibly perhaps potentially sometimes likely vielleicht möglicherweise".split()),  # noqa: SIM905
    frozenset("hardly rarely seldom barely few little almost kaum selten".split()),  # noqa: SIM905
    frozenset("allegedly reportedly alleged reported said says claims claimed angeblich".split()),  # noqa: SIM905
    frozenset("formerly previously former previous once was were earlier ehemals früher".split()),  # noqa: SIM905
    frozenset("deprecated obsolete deprecation legacy veraltet".split()),  # noqa: SIM905
    frozenset("false wrong untrue".split()),  # noqa: SIM905
)
"""Words that weaken a statement, in groups. For a word that is one of the `QUALIFIERS` too, a rephrased claim keeps one
of its group."""

LIMITING = CONDITIONS | (QUALIFIERS & frozenset[str]().union(*EXCEPTIONS, *DOUBTS))
"""Qualifiers that may not be lost when a claim is rephrased. The others only continue a clause."""

PHRASE_END = re.compile(r"[,;:.!?()]")

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


def lost_qualifier(claim: str, sentence: str, lexical: Lexical | None = None) -> str:
    """Return the first word by which a claim limits its statement and that a sentence drops; "" if there is none.

    The sentence may rephrase the claim. Of an exception or a condition, it must keep at least half of the words.
    """
    lexical = lexical or Lexical()
    words, kept = frozenset(WORD.findall(sentence.casefold())), stems([sentence], lexical)
    for word, phrase in _qualified(claim):
        group = next((group for group in (*EXCEPTIONS, *DOUBTS) if word in group), None)
        if group and words.isdisjoint(group):
            return word
        wanted = {stem(each, lexical) for each in salient_words(phrase, lexical)}
        if group not in DOUBTS and 2 * len(wanted & kept) < len(wanted):
            return word
    return ""


def added_exception(sentence: str, claims: Collection[str]) -> str:
    """Return the first exception, such as "only", that a sentence states and no claim does; "" if there is none."""
    stated = frozenset(WORD.findall(" ".join(claims).casefold()))
    words: list[str] = WORD.findall(sentence.casefold())
    added = (word for word in words if any(word in group and stated.isdisjoint(group) for group in EXCEPTIONS))
    return next(added, "")


def _qualified(claim: str) -> Iterator[tuple[str, str]]:
    """Yield each qualifier of a claim that `lost_qualifier` looks for, and the words it is about."""
    found = [match for match in WORD.finditer(claim) if match[0].casefold() in LIMITING and match[0] != "May"]
    ends = [match.start() for match in found[1:]]
    for match, end in zip(found, [*ends, len(claim)], strict=False):
        rest = claim[match.end() : end]
        yield match[0].casefold(), PHRASE_END.split(rest)[0]
