"""Text of pictures by optical character recognition (OCR), with the place and the confidence of each line.

The models are in the package rapidocr, so that nothing is downloaded. They know Latin letters with all their accents,
Chinese and Japanese. Runs in the converters' process.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.text.structure import LAYOUT, PAGE_SIGN

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PAGES = 1_000
"""Most pages of a document whose text is recognized, at some seconds each."""

MOST_PIXELS = 100_000_000
"""Most pixels of a picture, which takes three bytes for each; a page of A4 at 600 dpi has 35 million."""

SEEN_PIXELS = 3_000_000
"""Pixels to which a picture is reduced. A page of A4 then has 175 dpi, enough for letters of 6 points."""

SEEN_SCALE = 200 / 72
"""Most pixels that a point of a smaller page has."""

NARROWEST = 10
"""Most times that a picture may be longer than wide. The edge of a narrower one is filled up."""

THREADS = 4
"""Most threads, so that the processor time of a page stays within its limit."""

LEAST_CONFIDENCE = 0.85
"""Lines below are left out: about that share of their letters is right. A page below is turned to look for more."""

LONGEST_LINE = 100
"""Length of a line, in heights, from which on it is a rule or an edge. It would take gigabytes of memory."""

COLUMN_LINES, COLUMN_CHARACTERS = 3, 20
"""Least lines of a column, and least characters of most of them. Shorter ones are cells of a table, read by rows."""

PARAGRAPH = 0.8
"""Gap between two rows, in heights of a row, from which on they are of two paragraphs."""

WORD = re.compile(r"\w")

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")

Pixels = npt.NDArray[np.uint8]
Corners = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class Line(NamedTuple):
    """Recognized line: its box in the picture, and its place in the upright picture without skew, for the order."""

    text: str
    confidence: float
    box: Box
    place: Box


def open_picture(payload: bytes) -> Image:
    """Open a picture. Raises OSError if it is not one. Its pages are not decoded, and may have too many pixels."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # `picture_page` counts them, for each page
    return Image.open(io.BytesIO(payload), formats=FORMATS)


def picture_page(picture: Image, i: int) -> tuple[Image, float]:
    """Return a page of a TIFF, or a picture, on white and as its camera or scanner says that it is upright.

    Its boxes are in its own pixels, the unit is 1. Raises ReadError for too many pixels.
    """
    from PIL import Image, ImageOps

    picture.seek(i)
    width, height = picture.size
    if width * height > MOST_PIXELS:
        most = f"more than {MOST_PIXELS / 1e6:.0f} million"
        raise ReadError(f"a picture of {width:,} by {height:,} pixels, {most}: reduce or exclude it", "too_large")
    page: Image.Image = ImageOps.exif_transpose(picture)
    if page.mode.startswith("I;16"):  # Pillow would cut off all but the darkest grey
        page = page.point(lambda grey: grey / 256).convert("L")
    if page.has_transparency_data:
        page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page.convert("RGBA"))
    return page.convert("RGB"), 1.0


def recognize(page: Image) -> list[list[Line]]:
    """Return the lines of a page in reading order, by rows; boxes are in pixels from its top left corner."""
    longest = max(page.size)
    height, width = (max(side, longest // NARROWEST) for side in (page.height, page.width))
    scale = min(1.0, (SEEN_PIXELS / (height * width)) ** 0.5)
    if scale < 1:
        page = page.resize((max(1, int(page.width * scale)), max(1, int(page.height * scale))))
    shown = np.full((round(height * scale), round(width * scale), 3), 255, np.uint8)
    shown[: page.height, : page.width] = np.asarray(page)[..., ::-1]
    return reading_order(_recognize_upright(shown, scale))


def _recognize_upright(shown: Pixels, scale: float) -> list[Line]:
    """Return the lines of a page. One that does not look upright is turned, and read as its lines are surest."""
    best: list[Line] = []
    for turns in (0, 1, 3, 2):
        found = _recognize(np.ascontiguousarray(np.rot90(shown, turns)), turns, shown.shape, scale)
        best = max(best, found, key=_sureness)
        letters = sum(len(line.text) for line in found)
        if _sureness(found) >= LEAST_CONFIDENCE * letters:
            break
    return best


def _sureness(lines: Sequence[Line]) -> float:
    """Return the sum of the confidences of all letters, without those in lines that run upwards or downwards."""
    return sum(line.confidence * len(line.text) for line in lines if _width(line.place) >= _height(line.place))


def _recognize(shown: Pixels, turns: int, original: Sequence[int], scale: float) -> list[Line]:
    """Return the lines of a picture that was turned to the left a number of times, with boxes in the original one."""
    from rapidocr.main import RapidOCRError

    try:
        pieces, found = _engine().detect_and_crop(shown, {})
    except RapidOCRError:  # it has no text
        return []
    recognized = _engine().recognize_txt([p if p.shape[1] < LONGEST_LINE * p.shape[0] else p[:, :1] for p in pieces])
    corners: Corners = np.asarray(found.boxes, np.float64)
    height, width = original[:2]
    x, y = corners[..., 0], corners[..., 1]
    x, y = ((x, y), (width - y, x), (width - x, height - y), (y, height - x))[turns]
    boxes = np.stack([x.min(1), y.min(1), x.max(1), y.max(1)], axis=1) / scale
    places = _without_skew(corners)
    return [
        Line(" ".join(text.replace(PAGE_SIGN, " ").split()), float(score), tuple(box), tuple(place))
        for text, score, box, place in zip(
            recognized.txts, recognized.scores, boxes.tolist(), places.tolist(), strict=True
        )
    ]


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_vertical_padding": False,  # the picture is not too narrow
            "Det.max_candidates": 10_000,
            "EngineConfig.onnxruntime.intra_op_num_threads": THREADS,
        }
    )


def _without_skew(corners: Corners) -> Corners:
    """Return the boxes of quadrangles after turning them so that most of their upper edges are level."""
    edges = corners[:, 1] - corners[:, 0]
    wide = edges[np.abs(edges[:, 0]) > np.abs(edges[:, 1])]
    angle = -np.median(np.arctan2(wide[:, 1], wide[:, 0])) if len(wide) else 0.0
    level = corners @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.concatenate([level.min(1), level.max(1)], axis=1)


def reading_order(lines: Sequence[Line]) -> list[list[Line]]:
    """Return rows of lines in reading order, by a recursive XY cut.

    A region is cut between columns of prose, or else at its widest gap between rows.
    """
    rows: list[list[Line]] = []
    regions = [list(lines)] if lines else []
    while regions:
        region = regions.pop()
        columns = _cut(region, [(line.place[0], line.place[2]) for line in region])
        if columns and all(map(_is_prose, columns)):
            regions += reversed(columns)
        elif parts := _cut(region, [_middle(line.place) for line in region]):
            regions += reversed(parts)
        else:
            rows.append(sorted(region, key=lambda line: line.place[0]))
    return rows


def _cut(region: Sequence[Line], extents: Sequence[tuple[float, float]]) -> list[list[Line]]:
    """Return the two parts of a region beside the widest gap between the extents of its lines; [] without a gap."""
    order = sorted(range(len(region)), key=extents.__getitem__)
    widest, at, reached = 0.0, 0, extents[order[0]][1]
    for i, n in enumerate(order):
        begin, end = extents[n]
        if begin - reached > widest:
            widest, at = begin - reached, i
        reached = max(reached, end)
    return [[region[n] for n in part] for part in (order[:at], order[at:])] if at else []


def _is_prose(column: Sequence[Line]) -> bool:
    return len(column) >= COLUMN_LINES and median(len(line.text) for line in column) >= COLUMN_CHARACTERS


def _middle(place: Box) -> tuple[float, float]:
    """Return where the middle half of a line begins and ends, since the boxes of neighbouring rows may overlap."""
    _, top, _, bottom = place
    return top + (bottom - top) / 4, bottom - (bottom - top) / 4


def _width(box: Box) -> float:
    return box[2] - box[0]


def _height(box: Box) -> float:
    return box[3] - box[1]


page_done: ContextVar[Callable[[], None]] = ContextVar("page_done", default=lambda: None)
"""Gives the next page of a document as much time as the last; the process of the converters tells its parent so."""


@dataclass
class Recognition:
    """Recognition of the scanned pages of one document, with counts of all that was left out.

    `page_done` is called after each page.
    """

    page_done: Callable[[], None]
    layout: list[list[float]] = field(default_factory=list)
    """A line each: page, start and end in the text of the page, left, top, right, bottom, and confidence."""

    found: int = 0
    without_text: list[int] = field(default_factory=list)
    uncertain: int = 0
    too_many: int = 0

    def read(self, number: int, show: Callable[[], tuple[Image, float]], known: str = "") -> str:
        """Return the text of a page below its `known` text, whose lines are not repeated.

        `show` returns the picture, and its pixels in a unit of the boxes.
        """
        if self.found + len(self.without_text) >= MOST_PAGES:
            self.too_many += 1
            return known
        picture, scale = show()
        rows = recognize(picture)
        lines = [line for row in rows for line in row]
        there = Counter(" ".join(line.split()) for line in known.splitlines())  # a cell may have the page's number, too
        certain: list[Line] = []
        for line in lines:
            if there[line.text]:
                there[line.text] -= 1
            elif line.confidence >= LEAST_CONFIDENCE:
                certain.append(line)
        self.uncertain += sum(line.confidence < LEAST_CONFIDENCE or not line.text for line in lines)
        self.page_done()
        if not any(WORD.search(line.text) for line in certain):
            self.without_text.append(number)
            return known
        self.found += 1
        return self._join(number, [[line for line in row if line in certain] for row in rows], known, scale)

    def _join(self, number: int, rows: Sequence[Sequence[Line]], text: str, scale: float) -> str:
        above: Box | None = None
        for row in rows:
            for i, line in enumerate(row):
                apart = above and not -_height(above) < line.place[1] - above[3] < PARAGRAPH * _height(line.place)
                text += (" " if i else "\n\n" if apart else "\n") if text else ""
                box = [round(side / scale, 1) for side in line.box]
                self.layout.append([number, len(text), len(text) + len(line.text), *box, round(line.confidence, 3)])
                text += line.text
                above = line.place
        return text

    @property
    def metadata(self) -> dict[str, Any]:
        """Places of the lines, and the numbers of pages without text."""
        return {LAYOUT: self.layout, "not_recognized": self.without_text}

    @property
    def notes(self) -> list[Note]:
        """Notes with the counts of pages that were recognized, and of all that was left out."""
        counts = {
            "lines not recognized well enough, not read": self.uncertain,
            "scanned pages on which no text was recognized": len(self.without_text),
            f"scanned pages after the first {MOST_PAGES:,}, not read": self.too_many,
        }
        recognized = [Note("recognized", "pages whose text was recognized (OCR)", self.found)] if self.found else []
        return recognized + [Note("left_out", words, count) for words, count in counts.items() if count]
