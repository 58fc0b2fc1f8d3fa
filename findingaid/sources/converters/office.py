"""Word and PowerPoint: made readable by `office_parts`, and converted by markitdown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.common import core_properties, has_words, left_out_notes, to_markdown, unpacked
from findingaid.sources.converters.marks import escape_cell, escape_tags
from findingaid.sources.converters.office_parts import make_readable, parsed_part
from findingaid.sources.converters.pdf import page_text
from findingaid.sources.converters.tables import is_header
from findingaid.sources.converters.web import as_bytes, free_spaces
from findingaid.sources.documents import Converted
from findingaid.text.decoding import decode
from findingaid.text.structure import PAGE_BREAK

TITLE_STYLE = "p[style-name='Title'] => h1:fresh"
"""Style map that makes Word's Title style a heading; by default it is not one."""

CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"

SLIDE = re.compile(r"<!-- Slide number: \d+ -->")

ConvertInserted = Callable[[str, bytes, int], Converted]
"""Converts a document by its suffix, as `convert` does. Raises KeyError for an unknown suffix, and ReadError."""


def convert_word(payload: bytes, max_bytes: int, convert_inserted: ConvertInserted) -> Converted:
    """Convert a Word document; `convert_inserted` converts documents that were inserted into it."""
    with unpacked(payload, max_bytes) as archive:
        made = make_readable(archive)
    said = core_properties(made.payload)
    text = to_markdown(_pages(), made.payload, ".docx", style_map=TITLE_STYLE)[0]
    for word, (name, content) in made.chunks.items():
        text = text.replace(word, _chunk(name, content, max_bytes, made.notes, convert_inserted))
    return Converted(text, said, made.left_out(text + "".join(made.chunks)))


def _chunk(name: str, content: bytes, max_bytes: int, notes: list[Note], convert_inserted: ConvertInserted) -> str:
    """Return the text of a document that was inserted into another, or note that it is not read."""
    suffix = os.path.splitext(name)[1].lower()
    try:
        if suffix in {".txt", ".text"}:
            return decode(content).text
        text, _, also = convert_inserted(suffix, content, max_bytes)
    except (KeyError, ReadError):
        notes.append(Note("left_out", f"inserted documents ({suffix or 'of unknown type'}), not read"))
        return ""
    notes += also
    return text


def convert_slides(payload: bytes, max_bytes: int) -> Converted:
    """Convert a presentation; each slide is a page."""
    with unpacked(payload, max_bytes) as archive:
        made = make_readable(archive)
    said = core_properties(made.payload)
    text = to_markdown(_slides(), made.payload, ".pptx")[0]
    slides = [slide.strip() for slide in SLIDE.split(text)[1:]]
    scanned = sum(bool(slide) and not has_words(slide) for slide in slides)
    notes = [*made.left_out(text), *left_out_notes({"slides without text, only images": scanned})]
    return Converted(PAGE_BREAK.join(map(page_text, slides)), said | {"n_pages": len(slides)}, notes)


def _pages() -> Any:
    """Return a converter of Word documents that keeps the spaces at the edges of marked words."""
    import markitdown
    from lxml import html

    class Page(markitdown.converters.HtmlConverter):
        def convert_string(self, html_content: str, **options: Any) -> Any:
            parser = html.HTMLParser(huge_tree=True)
            root = html.fragment_fromstring(html_content, create_parent="body", parser=parser)
            free_spaces(root)
            return super().convert_string(as_bytes(root).decode(), **options)

    converters: Any = markitdown.converters
    made = converters.DocxConverter()
    made._html_converter = Page()
    return made


def _slides() -> Any:
    """Return a converter of slides that reads tables without a header too, and the points of charts of any kind."""
    import markitdown

    converter: Any = markitdown.converters.PptxConverter

    class Slides(converter):  # type: ignore[misc]
        def _convert_table_to_markdown(self, table: Any, **options: Any) -> str:
            first, rule, *others = super()._convert_table_to_markdown(table, **options).strip().splitlines()
            cells = [" ".join(cell.text.split()) for cell in table.rows[0].cells]
            named = table.first_row or is_header(cells, len(cells) if others else 0)
            header = [first, rule] if named else [f"|{'  |' * len(table.columns)}", rule, first]
            return "\n".join(["", *header, *others, "", ""])

        def _convert_chart_to_markdown(self, chart: Any) -> str:
            title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
            tables = "\n\n".join(_tables_of(chart.part.blob))
            return f"\n\n### Chart{': ' * bool(title)}{' '.join(title.split())}\n\n{tables}\n\n"

    return Slides()


def _tables_of(chart: bytes) -> Iterator[str]:
    """Yield the points of a chart, in a table for all series that have the same categories or places."""
    tables: dict[tuple[tuple[int, str], ...], list[tuple[str, Mapping[int, str]]]] = {}
    all_series = list(parsed_part(chart).iter(f"{CHART}ser"))
    categories = next((found for series in all_series if (found := _points(series, "cat"))), {})
    for series in all_series:
        name = " ".join(" ".join(each.text or "" for each in series.findall(f"{CHART}tx//{CHART}v")).split())
        values = _points(series, "val", "yVal")
        places = _points(series, "cat", "xVal") or categories or {at: str(at + 1) for at in values}
        columns = tables.setdefault(tuple(places.items()), [])
        columns.append((name, values))
        if sizes := _points(series, "bubbleSize"):
            columns.append((f"{name} (size)", sizes))
    for key, columns in tables.items():
        labels = dict(key)
        points = sorted({*labels, *(at for _, values in columns for at in values)})
        rows = [["Category", *(name for name, _ in columns)], ["---"] * (1 + len(columns))]
        rows += [[labels.get(at, ""), *(values.get(at, "") for _, values in columns)] for at in points]
        yield "\n".join(f"| {' | '.join(escape_cell(escape_tags(cell)) for cell in row)} |" for row in rows)


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return the values of a series of points by their numbers; levels of a category, the outermost first, in one."""
    found: dict[int, str] = {}
    for name in names:
        levels = series.findall(f"{CHART}{name}//{CHART}lvl") or series.findall(f"{CHART}{name}")
        for point in (each for level in levels for each in level.iter(f"{CHART}pt")):
            at, value = int(point.get("idx") or 0), " ".join((point.findtext(f"{CHART}v") or "").split())
            found[at] = f"{value} {found[at]}" if at in found else value
    return found
