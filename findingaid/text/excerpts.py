"""Excerpts of texts around the words of a query."""

from __future__ import annotations

from collections.abc import Iterable

from findingaid.text.analyzer import Lexical, split_identifiers
from findingaid.text.words import find_words, salient

LEAD = 4
"""An excerpt begins 1/4 of its length before the words that it shows."""


def excerpt(text: str, queries: Iterable[str], most: int, lexical: Lexical) -> str:
    """Return at most about `most` characters of a text, around the place with most words of the queries.

    The characters are those of the text; "…" marks an end that is cut. Without any of the words it is the beginning.
    """
    if len(text) <= most:
        return text
    stems = frozenset(stem for query in queries for stem in salient(split_identifiers(query), lexical))
    places = [(start, stem) for start, _, stem in find_words(stems, text, lexical)]
    start = max(0, _densest(places, most - most // LEAD) - most // LEAD)
    start = start if start == 0 else text.find(" ", start, start + most // LEAD) + 1 or start
    end = start + most
    end = len(text) if end >= len(text) else max(text.rfind(" ", end - most // LEAD, end), 0) or end
    return "…" * (start > 0) + text[start:end].strip() + "…" * (end < len(text))


def _densest(places: list[tuple[int, str]], most: int) -> int:
    """Return the place from which `most` characters have most different words, then most words; the first of equals."""
    best, found = (0, 0), 0
    for start, _ in places:
        within = [stem for place, stem in places if start <= place < start + most]
        if (score := (len(set(within)), len(within))) > best:
            best, found = score, start
    return found
