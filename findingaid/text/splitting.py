"""Splitting of texts into chunks in time linear in their length.

For each chunk, semantic-text-splitter scans the rest of the line and all trailing blank lines again, which takes time
quadratic in these lengths. Very long lines are therefore split in a moving window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

LONG_LINE = 50_000
"""A line of up to this many characters is split without a window, and a longer one if chunks are large.

The splitter takes half a second for a line of this length without a space."""

WINDOW = 10_000
CHUNKS = 5
"""Smallest window over a longer line, in characters and in chunks; the larger of the two counts."""

GROWTH = 8
"""Factor up to which a window grows until it contains a chunk that no longer depends on the window's end."""

UNSETTLED = 2
"""Number of chunks at the end of a window that may change when the line continues."""

BLANK_END = 200
"""Characters of trailing white space that are kept; the splitter takes a second for 5,000 blank lines."""

LINE = re.compile(r"[^\n\r]+")


class Splitter(Protocol):
    """Splitter from semantic-text-splitter."""

    def chunk_indices(self, text: str, /) -> list[tuple[int, str]]: ...


def chunk_indices(splitter: Splitter, text: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield (start, chunk) for the chunks of a text, as `splitter` cuts them; split very long lines separately.

    `size` is the chunk size of the splitter, in its own unit (characters or tokens).
    """
    text = text[: len(text.rstrip()) + BLANK_END]
    at = 0
    for start, end in _long_lines(text, max(LONG_LINE, GROWTH * CHUNKS * size)):
        yield from _moved(splitter, text[at:start], at)
        yield from _along(splitter, text, start, end, max(WINDOW, CHUNKS * size))
        at = end
    yield from _moved(splitter, text[at:], at)


def _long_lines(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the span of each line of over `longest` characters."""
    if len(text) > longest:
        spans = (found.span() for found in LINE.finditer(text))
        yield from ((start, end) for start, end in spans if end - start > longest)


def _moved(splitter: Splitter, text: str, by: int) -> Iterator[tuple[int, str]]:
    text = text[: len(text.rstrip()) + BLANK_END]
    yield from ((by + start, chunk) for start, chunk in splitter.chunk_indices(text))


def _along(splitter: Splitter, text: str, at: int, end: int, least: int) -> Iterator[tuple[int, str]]:
    """Split a long line in a moving window.

    The last two chunks in a window may change when the line continues, so the next window begins with the first of
    them. The chunks before these are nearly always the same as for the whole line.
    """
    size = least
    while at < end:
        window = text[at : min(at + size, end)]
        chunks = splitter.chunk_indices(window)
        settled = len(chunks) - UNSETTLED
        if at + size >= end or (settled < 1 and size >= GROWTH * least):
            settled = len(chunks)
        yield from ((at + start, chunk) for start, chunk in chunks[: max(settled, 0)])
        at += len(window) if settled == len(chunks) else chunks[settled][0] if settled > 0 else 0
        size = least if settled > 0 else 2 * size
