"""What the converters share: zipped documents and their properties, markitdown, and notes on what was left out."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.converters.office_parts import lacks_memory
from findingaid.sources.documents import Converted
from findingaid.sources.outlook import OLE
from findingaid.text.decoding import decode
from findingaid.text.titles import as_title

UNPACKED_SHARE = 10
"""Multiple of `max_bytes` that a zipped document may unpack to: XML takes several bytes per character of text."""

NO_TITLES = frozenset(
    {
        *("untitled", "(unspecified)", "(anonymous)", "word document", "no slide title"),
        *("document", "untitled document"),
        *("powerpoint presentation", "powerpoint-präsentation", "présentation powerpoint"),
        *("presentación de powerpoint", "presentazione standard di powerpoint", "apresentação do powerpoint"),
        *("powerpoint-presentatie", "prezentacja programu powerpoint"),
    }
)
"""Placeholder titles that programs write, in their user's language, when nobody gave a title."""

FILE_TITLE = re.compile(r"Microsoft (?:Word|Excel|PowerPoint) - ", re.IGNORECASE)
"""Beginning of a title that a printer made of the name that the file once had."""

NO_AUTHORS = frozenset({"anonymous", "(anonymous)", "(unspecified)", "python-docx"})

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the encrypted part in an OLE file."""

MANIFEST = "META-INF/manifest.xml"
"""Part of an OpenDocument file that says how its other parts are encrypted."""

ENTRY_ENCRYPTED = 1
"""Flag of a file in a ZIP archive."""

MARKS = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first tag of a page: a byte order mark and white space."""

LOCKED = "with a password: save it without, or exclude it"

BROKEN = "broken lines, so that it is read as it is stored"
"""Words of the note on a calendar, contacts or captions whose lines cannot be told apart."""

NO_TEXT = "run OCR on it, or exclude it"
FILLED = "filled fields of a form, not read"
CUT_SHORT = "no end, as of a document that was cut short"

WORD = re.compile(r"\w")
IMAGE_NAME = re.compile(r"\.(png|jpe?g|gif|bmp|tiff?|svg|emf|wmf|webp)\Z", re.IGNORECASE)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")


@contextmanager
def defects_of(name: str) -> Iterator[None]:
    """Raise ReadError for what a converter raises, which may be anything; it fails this document alone."""
    try:
        yield
    except (ReadError, MemoryError):
        raise
    except Exception as error:
        if lacks_memory(error):
            raise MemoryError from error
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ReadError(f"damaged, or not a valid {name} ({said}): repair or exclude it", "parse") from error


def unpacked(payload: bytes, max_bytes: int) -> zipfile.ZipFile:
    """Open a zipped document. Raises ReadError if it is encrypted or would unpack to too much.

    zipfile reads no more of a file than the size that the archive declares, so the check is reliable.
    """
    if payload.startswith(OLE) and ENCRYPTED in payload:
        raise ReadError(LOCKED, "encrypted")
    archive = zipfile.ZipFile(io.BytesIO(payload))
    if any(file.flag_bits & ENTRY_ENCRYPTED for file in archive.infolist()):
        raise ReadError(LOCKED, "encrypted")
    if MANIFEST in archive.namelist() and b"encryption-data" in archive.read(MANIFEST):
        raise ReadError(LOCKED, "encrypted")
    size = sum(file.file_size for file in archive.infolist())
    if size > UNPACKED_SHARE * max_bytes:
        raise ReadError(
            f"unpacks to {size:,} bytes, more than {UNPACKED_SHARE} times source.max_bytes = {max_bytes:,}:"
            " exclude it or raise the limit",
            "too_large",
        )
    return archive


def core_properties(payload: bytes) -> dict[str, Any]:
    """Return the title and author of a document of Office or OpenDocument. Its text type is Markdown."""
    from defusedxml.ElementTree import fromstring

    found: dict[str, str] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        for part in {"docProps/core.xml", "meta.xml"}.intersection(archive.namelist()):
            # expat itself ends entities that expand to too much, and none from outside is read.
            root = fromstring(archive.read(part), forbid_entities=False)
            found = {element.tag.rpartition("}")[2]: element.text or "" for element in root.iter()}
    return {
        "title": property_text(found.get("title"), NO_TITLES),
        "author": property_text(found.get("initial-creator") or found.get("creator"), NO_AUTHORS),
        "text_type": "text/markdown",
    }


def property_text(value: str | None, placeholders: frozenset[str]) -> str:
    """Return the text of a document's property, such as its title; "" for a placeholder."""
    value = as_title((value or "").replace("\0", ""))
    return "" if value.lower() in placeholders or FILE_TITLE.match(value) else value


def to_markdown(converter: Any, payload: bytes, suffix: str, **options: Any) -> tuple[str, str]:
    """Convert a document with one of markitdown's converters, or its name; return the text and the title it found."""
    import markitdown

    made = getattr(markitdown.converters, converter)() if isinstance(converter, str) else converter
    result = made.convert(io.BytesIO(payload), markitdown.StreamInfo(extension=suffix), **options)
    return result.markdown, as_title(str(result.title or ""))


def plain_text(payload: bytes) -> Converted:
    """Return a text that a program wrote under the name of another format."""
    try:
        text, _, notes = decode(payload)
    except ReadError:
        raise ReadError("not what its name says, nor text: exclude it", "parse") from None
    return Converted(text, {}, notes)


def left_out_notes(counts: Mapping[str, int]) -> list[Note]:
    """Return a note for each thing that was left out, from words -> number."""
    return [Note("left_out", words, int(count)) for words, count in counts.items() if count]


def has_words(text: str) -> bool:
    """Return whether a text has words, besides the addresses of images and the names that programs gave to these."""
    return WORD.search(IMAGE.sub(_alternative, text)) is not None


def _alternative(image: re.Match[str]) -> str:
    named = re.sub(r"\W", "", image[1])  # markitdown makes such an address of a shape's name
    return "" if image[2] == f"{named}.jpg" or IMAGE_NAME.search(image[1]) else image[1]
