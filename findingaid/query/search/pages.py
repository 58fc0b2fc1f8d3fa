"""Page of a hit whose text covers several: the one with most words of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from findingaid.model import Hit
from findingaid.text.analyzer import Lexical, split_identifiers
from findingaid.text.structure import PAGE_ENDS, page_in_words
from findingaid.text.words import find_words, salient


def at_matched_page(hit: Hit, queries: Sequence[str], lexical: Lexical) -> Hit:
    """Return a hit with the page on which most words of the queries are; the first of equals."""
    if "pages" not in hit.metadata or len(parts := PAGE_ENDS.split(hit.text)) < 2:
        return hit
    stems = frozenset(stem for query in queries for stem in salient(split_identifiers(query), lexical))
    found = [[stem for _, _, stem in find_words(stems, part, lexical)] for part in parts]
    best = max(range(len(parts)), key=lambda i: (len(set(found[i])), len(found[i])))
    page = hit.metadata["pages"][0] + best
    return replace(hit, metadata={**hit.metadata, "page": page}, place=page_in_words(page))
