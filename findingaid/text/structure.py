"""Structure of texts: headings, pages of a document, rows of a workbook.

Spans are in characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import whitespace
from typing import Any

from findingaid.text.headings import headings_in
from findingaid.text.markdown import Span
from findingaid.text.titles import as_title


@dataclass(frozen=True)
class Headings:
    """Headings of a text, each with its span and the path of titles from the top level."""

    text: str
    spans: Sequence[Span]
    paths: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, text: str, media_type: str) -> Headings:
        """Parse the headings of the document itself; skip those in quotes, lists, code and front matter."""
        spans: list[Span] = []
        paths: list[tuple[str, ...]] = []
        above: list[tuple[int, str]] = []
        for level, title, span in headings_in(text, media_type):
            above = [*((n, t) for n, t in above if n < level), (level, as_title(title))]
            spans.append(span)
            paths.append(tuple(t for _, t in above if t))
        return cls(text, spans, paths)

    def above(self, start: int, end: int) -> tuple[str, ...]:
        """Return the heading path at a chunk's start; if it begins with headings, the path of the last of these."""
        i = bisect_right(self.spans, start, key=lambda span: span[0]) - 1
        while i + 1 < len(self.spans) and self.spans[i + 1][0] < end:
            body = max(start, self.spans[i][1]) if i >= 0 else start
            if self.text[body : self.spans[i + 1][0]].strip():
                break
            i += 1
        return self.paths[i] if i >= 0 else ()


PAGE_SIGN = "\u240c"
"""Sign between the pages of a converted document: the symbol for a form feed, which can be shown as it is."""

PAGE_BREAK = f"\n\n{PAGE_SIGN}\n\n"
"""Separator between pages, set off by blank lines so that strategies see the end of a paragraph."""

PAGE_ENDS = re.compile(f"[\f{PAGE_SIGN}]")
"""Ends of pages: that sign, or a form feed in the text of another source."""


@dataclass(frozen=True)
class Pages:
    """Pages of a text, counted from 1. `ends` are the offsets of the signs that separate them."""

    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Pages:
        return cls([found.start() for found in PAGE_ENDS.finditer(text)])

    def fields(self, start: int, end: int) -> dict[str, Any]:
        """Return the `page` on which a span begins; if it covers several pages, also [first, last] as `pages`."""
        first, last = (bisect_right(self.ends, at) + 1 for at in (start, end - 1))
        return {"page": first} | ({"pages": [first, last]} if last > first else {})


LAYOUT = "layout"
"""Field of an artifact with the places of its recognized lines, see `Layout`. It is no field of its surfaces."""


@dataclass(frozen=True)
class Layout:
    """Recognized lines of scanned pages, by the offset at which they begin.

    Boxes are [page, left, top, right, bottom] from the top left corner of the page as it is shown: of a PDF in points,
    of a picture in pixels.
    """

    lines: Sequence[tuple[int, int, list[float], float]]

    @classmethod
    def of(cls, text: str, layout: Sequence[Sequence[float]]) -> Layout:
        """Place lines, each with its page, start and end in the text of the page, box and confidence, in the text."""
        begins = [0, *(found.end() for found in re.finditer(PAGE_BREAK, text))]
        at = [begins[int(line[0]) - 1] for line in layout]
        lines = zip(at, layout, strict=True)
        return cls([(n + int(line[1]), n + int(line[2]), [line[0], *line[3:7]], line[7]) for n, line in lines])

    def fields(self, start: int, end: int) -> dict[str, Any]:
        """Return the `boxes` of the lines that a span covers, one a page, and the least `confidence` of these lines."""
        first = bisect_right(self.lines, start, key=lambda line: line[1])
        covered = self.lines[first : bisect_left(self.lines, end, key=lambda line: line[0])]
        if not covered:
            return {}
        boxes: dict[float, list[float]] = {}
        for _, _, (page, *box), _ in covered:
            known = boxes.setdefault(page, box)
            boxes[page] = [*map(min, known[:2], box[:2]), *map(max, known[2:], box[2:])]
        return {
            "boxes": [[page, *box] for page, box in boxes.items()],
            "confidence": min(confidence for *_, confidence in covered),
        }


def trim_page_ends(start: int, text: str) -> tuple[int, str]:
    """Return a text that begins at `start` without the ends of pages, and the white space, around it."""
    trimmed = text.lstrip(f"{PAGE_SIGN}{whitespace}")
    return start + len(text) - len(trimmed), trimmed.rstrip(f"{PAGE_SIGN}{whitespace}")


def page_at(metadata: Mapping[str, Any], text: str, position: int) -> int | None:
    """Return the page of a position in the text of a surface with these fields; None if it has no pages."""
    match metadata:
        case {"pages": [int(first), *_]} | {"page": int(first)}:
            return first + len(PAGE_ENDS.findall(text, 0, position))
        case _:
            return None


def page_in_words(page: int) -> str:
    """Return the number of a page in words."""
    return f"p. {page}"


def place_of_span(text: str, metadata: Mapping[str, Any], span: Span) -> str:
    """Return the place of a span in the text of an artifact with these fields, as `place_in_words` does."""
    if metadata.get("n_sheets"):
        return place_in_words(Rows.of(text).fields(*span))
    return place_in_words(Pages.of(text).fields(*span)) if metadata.get("n_pages") else ""


ROWS_HEADING = re.compile(r"## Sheet (.+), rows? (\d+)(?: to (\d+))?$", re.MULTILINE)


def rows_heading(sheet: str, first: int, last: int) -> str:
    """Return the heading of a block of rows of a sheet."""
    return f"## Sheet {sheet}, {rows_place(first, last)}"


def rows_place(first: int, last: int) -> str:
    """Return the rows of a sheet in words."""
    return f"rows {first} to {last}" if last > first else f"row {first}"


@dataclass(frozen=True)
class Rows:
    """Blocks of rows of a workbook's text, each of which begins with its heading."""

    spans: Sequence[Span]
    places: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, text: str) -> Rows:
        found = [*ROWS_HEADING.finditer(text)]
        starts = [0, *(heading.start() for heading in found[1:]), len(text)]
        return cls([*pairwise(starts)], [_rows_fields(heading) for heading in found] or [{}])

    def fields(self, start: int, _end: int) -> dict[str, Any]:
        """Return the `sheet` and the `rows` [first, last] of the block in which a span begins."""
        return self.places[max(0, bisect_right(self.spans, start, key=lambda span: span[0]) - 1)]


def place_in_words(metadata: Mapping[str, Any]) -> str:
    """Return the place of a surface in its document: "sheet Insurance, rows 2 to 40" or "p. 3"; "" without one."""
    match metadata:
        case {"sheet": sheet, "rows": [int(first), int(last)]}:
            return f"sheet {sheet}, {rows_place(first, last)}"
        case {"page": int(page)}:
            return page_in_words(page)
        case _:
            return ""


def _rows_fields(heading: re.Match[str]) -> dict[str, Any]:
    return {"sheet": heading[1], "rows": [int(heading[2]), int(heading[3] or heading[2])]}
