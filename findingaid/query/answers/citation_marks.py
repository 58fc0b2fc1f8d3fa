"""Marks by which models cite numbered evidence within a sentence: [1], 【1†source】, (1), ¹ or a bare number."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

NAMED = r"(?:(?:see\s+)?(?:evidence|sources?|ref(?:erence)?s?|passages?|doc(?:ument)?s?)\b\.?\s{0,3})?[#^]?"
NUMBERS = rf"{NAMED}\d{{1,3}}(?:\s{{0,3}}(?:,|;|&|and|[-\u2010-\u2014])\s{{0,3}}{NAMED}\d{{1,3}}){{0,20}}"

BRACKETED = re.compile(
    rf"\s{{0,3}}(?:<sup>)?[\[({{\u3010\u3014\u27e6\uff08\uff3b]\s{{0,3}}({NUMBERS})(?:\u2020[^\]\u3011]{{0,40}})?\s{{0,3}}"
    r"[\])}\u3011\u3015\u27e7\uff09\uff3d](?:\(https?://[^\s()]{1,300}\))?(?:</sup>)?|\s{0,3}<sup>(\d{1,3})</sup>",
    re.IGNORECASE,
)
SUPERSCRIPT = re.compile(
    '(?:(?<=[^\\W\\d_]{3})|(?<=[.!?,;:)"\u2019\u201d]))([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3})(?=\\W|\\Z)'
)
ROUND_END = re.compile(r"[\s\])}\u3011]{0,3}(?:[.,;:!?\[({\u3010]|\Z|\b(?:and|but|or|which|while)\b)")
"""What follows a mark in round brackets: the end of a clause, or another mark."""

BOUND = re.compile(
    r"\b(?:about|above|and|are|article|at|below|by|chapter|class|clause|day|equals?|figure|from|had|has|have|in|into|is"
    r"|item|level|line|note|number|of|on|or|over|page|paragraph|part|phase|point|room|rule|section|stage|step|table|than"
    r"|to|under|until|version|was|were|with|year)\s{0,3}\Z",
    re.IGNORECASE,
)
"""Word before a number that belongs to the sentence, as in "at 9", "is (2)" or "step (1)"."""

BARE = re.compile(r"(?:(?<=[.!?])\s{0,3}|\s)(\d{1,3})(?=[.!?]?\s{0,3}\Z)")
"""Number behind a sentence, or its last word."""

LONGEST_RANGE = 20
"""Most pieces of evidence that a range such as 2-4 stands for; a longer one is only its two ends."""

DIGITS = re.compile(r"\d{1,3}")
MARK = re.compile(
    rf"[\[(\u3010]?\s{{0,3}}({NUMBERS})(?:\u2020[^\]\u3011]{{0,40}})?\s{{0,3}}[\])\u3011]?", re.IGNORECASE
)


def cited_numbers(said: object) -> list[int]:
    """Return the numbers in a list of evidence, which may be numbers, texts or marks. Raises ValueError."""
    numbers: list[int] = []
    for item in said if isinstance(said, list) else [said]:
        if isinstance(item, int) and not isinstance(item, bool):
            numbers.append(item)
        elif isinstance(item, float) and item.is_integer():
            numbers.append(int(item))
        elif isinstance(item, str) and (found := MARK.fullmatch(item.strip())):
            numbers += _listed(found[1])
        else:
            raise ValueError("expected the numbers of the evidence")
    return numbers


def split_marks(text: str, cited: Collection[int], evidence: Mapping[int, str]) -> tuple[str, list[int]]:
    """Return a sentence without its marks of evidence, and their numbers.

    `cited` are the numbers cited beside it, and `evidence` are the texts by number. A number that is none of evidence
    is no mark, nor is one that the evidence itself has.
    """
    numbers: list[int] = []

    def removed(found: re.Match[str]) -> str:
        listed = _listed(next(filter(None, found.groups())))
        mark = found[0].strip()
        if mark.startswith(("(", "\uff08")) and not _is_at_end(found):
            return found[0]
        if not set(listed) <= evidence.keys() or any(mark in evidence[n] for n in {*listed, *cited} & evidence.keys()):
            return found[0]
        numbers.extend(listed)
        return ""

    def bare(found: re.Match[str]) -> str:
        number = int(found[1])
        said = any(found[1] in DIGITS.findall(evidence[n]) for n in cited if n in evidence)
        return found[0] if number not in cited or said or BOUND.search(found.string, 0, found.start()) else ""

    text = SUPERSCRIPT.sub(removed, BRACKETED.sub(removed, text))
    return BARE.sub(bare, text), numbers


def _is_at_end(found: re.Match[str]) -> bool:
    """Return whether a mark in round brackets ends a clause, apart from its words: not in "f(1)" or "by rule (2)"."""
    before = found.string[max(0, found.start() - 20) : found.start()]
    spaced = found[0][:1].isspace() or found[0][:1] == "\uff08" or before[-1:] in ".!?])"
    return spaced and ROUND_END.match(found.string, found.end()) is not None and not BOUND.search(before)


def _listed(text: str) -> Sequence[int]:
    """Return the numbers in a mark, with those between the ends of a range."""
    numbers = [int(number) for number in DIGITS.findall(unicodedata.normalize("NFKC", text))]
    if len(numbers) == 2 and re.search(r"\d\s*[-\u2010-\u2014]", text):
        first, last = numbers
        return range(first, last + 1) if last - first < LONGEST_RANGE else numbers
    return numbers
