"""Marks by which models cite numbered evidence within a sentence: [1], 【1†source】, (1), ¹ or a bare number."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

NAMED = r"(?:(?:see\s+)?(?:evidence|sources?|ref(?:erence)?s?|passages?|doc(?:ument)?s?)\b\.?\s{0,3})?[#^]?"
NUMBERS = rf"{NAMED}\d{{1,3}}(?:\s{{0,3}}(?:,|;|&|and|[-\u2010-\u2014])\s{{0,3}}{NAMED}\d{{1,3}}){{0,20}}"

BRACKETED = re.compile(
    rf"\s{{0,3}}(?:<sup>)?[\[({{\u3010\u3014\u27e6\uff08\uff3b]\s{{0,3}}({NUMBERS})(?:\u2020[^\]\u3011]{{0,40}})?\s{{0,3}}"
    r"[\])}\u3011\u3015\u27e7\uff09\uff3d](?:</sup>)?|\s{0,3}<sup>(\d{1,3})</sup>",
    re.IGNORECASE,
)
SUPERSCRIPT = re.compile("\\s{0,3}([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3})(?=\\W|\\Z)")
BARE = re.compile(r"(?:(?<=[.!?])\s{0,3}|\s)(\d{1,3})(?=[.!?]?\s{0,3}\Z)")
"""Number behind a sentence, or its last word."""

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
        if not set(listed) <= evidence.keys() or any(mark in evidence[n] for n in {*listed, *cited} & evidence.keys()):
            return found[0]
        numbers.extend(listed)
        return ""

    def bare(found: re.Match[str]) -> str:
        number = int(found[1])
        said = any(found[1] in DIGITS.findall(evidence[n]) for n in cited if n in evidence)
        return found[0] if number not in cited or said else ""

    text = SUPERSCRIPT.sub(removed, BRACKETED.sub(removed, text))
    return BARE.sub(bare, text), numbers


def _listed(text: str) -> Sequence[int]:
    """Return the numbers in a mark, with those between the ends of a range."""
    numbers = [int(number) for number in DIGITS.findall(unicodedata.normalize("NFKC", text))]
    if len(numbers) == 2 and re.search(r"\d\s*[-\u2010-\u2014]", text):
        return range(numbers[0], numbers[1] + 1)
    return numbers
