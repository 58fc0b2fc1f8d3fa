"""Word and PowerPoint: made readable by `office_parts`, and converted by markitdown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.common import core_properties, has_words, left_out_notes, to_markdown, unpacked
from findingaid.sources.converters.office_parts import make_readable
from findingaid.sources.converters.pdf import page_text
from findingaid.sources.documents import Converted
from findingaid.text.decoding import decode
from findingaid.text.structure import PAGE_BREAK

TITLE_STYLE = "p[style-name='Title'] => h1:fresh"
"""Style map that makes Word's Title style a heading; by default it is not one."""

SLIDE = re.compile(r"<!-- Slide number: \d+ -->")

ConvertInserted = Callable[[str, bytes, int], Converted]
"""Converts a document by its suffix, as `convert` does. Raises KeyError for an unknown suffix, and ReadError."""


def convert_word(payload: bytes, max_bytes: int, convert_inserted: ConvertInserted) -> Converted:
    """Convert a Word document; `convert_inserted` converts documents that were inserted into it."""
    with unpacked(payload, max_bytes) as archive:
        made = make_readable(archive)
    said = core_properties(made.payload)
    text = to_markdown("DocxConverter", made.payload, ".docx", style_map=TITLE_STYLE)[0]
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


def _slides() -> Any:
    """Return a converter of slides that ends a table or chart by an empty line, so that no text joins its last row."""
    import markitdown

    converter: Any = markitdown.converters.PptxConverter

    class Slides(converter):  # type: ignore[misc]
        def _convert_table_to_markdown(self, table: Any, **options: Any) -> str:
            return f"\n{super()._convert_table_to_markdown(table, **options)}\n"

        def _convert_chart_to_markdown(self, chart: Any) -> str:
            return f"{super()._convert_chart_to_markdown(chart)}\n\n"

    return Slides()
