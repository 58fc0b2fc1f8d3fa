"""Splitting of texts into chunks in time linear in their length.

For each chunk, semantic-text-splitter scans the rest of the line, all trailing blank lines and all structure of the
text again, which takes time quadratic in the length. Long texts are therefore split in a moving window.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Protocol

WINDOW = 12_000
CHUNKS = 5
"""Smallest window over a longer text, in characters and in chunks; the larger of the two counts."""

GROWTH = 8
"""Factor up to which a window grows until it contains a chunk that no longer depends on the window's end."""

UNSETTLED = 2
"""Number of chunks at the end of a window that may change when the text continues."""

BLANK = re.compile(r"\n\s{200,}")
"""Blank lines that chunks never cross; the splitter takes a second for 5,000 of them."""

FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
"""Line that begins or ends a code block in Markdown."""


class Splitter(Protocol):
    """Splitter from semantic-text-splitter."""

    def chunk_indices(self, text: str, /) -> list[tuple[int, str]]: ...


def chunk_indices(splitter: Splitter, text: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield (start, chunk) for the chunks of a text, cut by `splitter` in a window that moves along the text.

    `size` is the chunk size of the splitter, in its own unit (characters or tokens). A text shorter than the window is
    cut as by the splitter alone, and a longer one nearly so.
    """
    least = max(WINDOW, CHUNKS * size)
    fences = [found.start() for found in FENCE.finditer(text)]
    at = 0
    for blank in BLANK.finditer(text):
        yield from _windows(splitter, text, (at, blank.start()), least, fences)
        at = blank.end()
    yield from _windows(splitter, text, (at, len(text)), least, fences)


def _windows(
    splitter: Splitter, text: str, span: tuple[int, int], least: int, fences: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """Split a span of a text. Each window begins with a chunk that depended on the end of the window before."""
    at, end = span
    size = least
    while at < end:
        chunks = [(at + start, chunk) for start, chunk in splitter.chunk_indices(text[at : min(at + size, end)])]
        settled = _settled([start for start, _ in chunks], fences)
        if at + size >= end or (not settled and size >= GROWTH * least):
            yield from chunks
            at += size
        elif settled:
            yield from chunks[:settled]
            at = chunks[settled][0]
        size = least if settled else 2 * size


def _settled(starts: Sequence[int], fences: Sequence[int]) -> int:
    """Return how many chunks do not depend on the window's end, such that the next begins outside a code block.

    A window that begins within one takes the rest of the code for text. It does so only if the block is very long.
    """
    settled = max(len(starts) - UNSETTLED, 0)
    outside = (i for i in range(settled, 0, -1) if bisect_left(fences, starts[i]) % 2 == 0)
    return next(outside, settled)
