"""Conversion of one document to text by the converter of its suffix, with its defects as one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from findingaid.errors import ReadError
from findingaid.sources.converters.calendars import convert_calendar
from findingaid.sources.converters.captions import convert_captions
from findingaid.sources.converters.common import NO_TEXT, defects_of, has_words
from findingaid.sources.converters.epub import convert_epub
from findingaid.sources.converters.mail import convert_mail, convert_outlook
from findingaid.sources.converters.notebooks import convert_notebook
from findingaid.sources.converters.office import convert_slides, convert_word
from findingaid.sources.converters.opendocument import convert_odt
from findingaid.sources.converters.pdf import convert_pdf
from findingaid.sources.converters.rtf import convert_rtf
from findingaid.sources.converters.scans import convert_picture, convert_scan
from findingaid.sources.converters.spreadsheets import convert_workbook
from findingaid.sources.converters.web import convert_html, convert_web_page
from findingaid.sources.documents import FORMATS, PICTURE, SCAN, WORKBOOKS, Converted

RULE = re.compile(r"\A---(?=[ \t]*$)", re.MULTILINE)
"""Line at the beginning of a text, which would open front matter; a document has none."""


def convert(suffix: str, payload: bytes, max_bytes: int) -> Converted:
    """Return a document's text and metadata. Raises ReadError for any defect of the document, and MemoryError."""
    name, _, is_text, _ = FORMATS[suffix]
    if not payload and not is_text:
        raise ReadError(f"an empty file, not a valid {name}: exclude it", "parse")
    with defects_of(name):
        text, metadata, notes = CONVERTERS[suffix](payload, max_bytes)
    if metadata.get("text_type") == "text/markdown":
        text = RULE.sub("***", text)
    # Two halves of a surrogate pair are joined; a lone one is not valid Unicode text.
    text = text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text.encode()) > max_bytes:
        raise ReadError(
            f"its text has {len(text.encode()):,} bytes, more than source.max_bytes = {max_bytes:,}:"
            " exclude it or raise the limit",
            "too_large",
        )
    if payload.strip() and not has_words(text):
        left_out = "".join(f"; {note}" for note in notes)
        raise ReadError(f"no text in this {name}, only images or nothing{left_out}: {NO_TEXT}", "no_text")
    return Converted(text, {key: value for key, value in metadata.items() if value}, notes)


def _convert_inserted(suffix: str, payload: bytes, max_bytes: int) -> Converted:
    return CONVERTERS[suffix](payload, max_bytes)


CONVERTERS: Mapping[str, Callable[[bytes, int], Converted]] = {
    ".pdf": convert_pdf,
    ".docx": partial(convert_word, convert_inserted=_convert_inserted),
    ".pptx": convert_slides,
    ".epub": convert_epub,
    ".html": convert_html,
    ".htm": convert_html,
    ".xhtml": convert_html,
    ".web-page": convert_web_page,
    ".ipynb": convert_notebook,
    ".eml": convert_mail,
    ".msg": convert_outlook,
    ".mht": convert_mail,
    ".mhtml": convert_mail,
    ".ics": convert_calendar,
    ".vcf": convert_calendar,
    ".vtt": convert_captions,
    ".srt": convert_captions,
    ".odt": convert_odt,
    ".rtf": convert_rtf,
    SCAN: convert_scan,
    PICTURE: convert_picture,
    **dict.fromkeys(WORKBOOKS, convert_workbook),
}
