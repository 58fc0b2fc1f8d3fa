"""Documents of every format from which something is left out, and the words that name it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path

import pptx
from PIL import Image

from findingaid.sources.converters.common import BROKEN
from findingaid.sources.converters.spreadsheets import BINARY
from findingaid.sources.documents import ATTACHED, OCR
from findingaid.sources.outlook import NOT_STORED
from tests.conftest import Cli
from tests.paths import DATA
from tests.support.documents import (
    drawn,
    epub,
    household,
    lettered,
    notebook,
    ods,
    opendocument,
    saved,
    scanned_pdf,
    scans,
    with_part,
    word,
    workbook,
    zipped,
)
from tests.support.outlook import outlook

HEADER = (
    '<w:hdr xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    "<w:p><w:r><w:t>a lost word</w:t></w:r></w:p></w:hdr>"
)
FOOTED = b"<main><h1>Text</h1><p>The text of the page.</p></main><footer>Colophon</footer>"
FRAMED = b"<p>text</p><iframe src='b.html'></iframe>"
MAIL = b"From: Ada <ada@example.org>\nSubject: Plan\nContent-Type: text/html\n\n<p>text</p><input value='typed'>"
SAVED = (
    b"From: <saved>\nSubject: Page\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=q\n\n"
    b"--q\nContent-Type: text/html\n\n%s\n--q--\n" % FRAMED
)


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (9, 9)).save(made, "PNG")
    return made.getvalue()


def deck_with_a_picture() -> bytes:
    """Create slides of which the second is only a picture."""
    made, deck = io.BytesIO(), pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "Birds"
    deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_picture(io.BytesIO(picture()), 0, 0)
    deck.save(made)
    return made.getvalue()


CAPTIONS = b"WEBVTT\n\nNOTE Draft\n\n00:01.000 --> 00:02.000\n<v Ada>Text.</v>\n"
FRAMES = "pages within the page (frames), not read"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
NOTES_OF_ODT = (
    "<office:text><text:p>Text.<office:annotation><text:p>remark</text:p></office:annotation></text:p></office:text>"
)
RECOGNIZED = "pages whose text was recognized (OCR)"
HIDDEN = "hidden sheets, not read"
ALSO_NOTED = {"old.xls": [BINARY]}
"""Notes on a document of `NOTED` besides that one; they come before it."""

NOTED: Mapping[str, tuple[bytes, str]] = {
    "scan.pdf": (drawn("cover", "scan"), f"pages without text, only images ({OCR})"),
    "head.docx": (with_part(word(("Head", "Text.")), "word/header1.xml", HEADER), "headers and footers, not read"),
    "deck.pptx": (deck_with_a_picture(), "slides without text, only images"),
    "book.epub": (epub("<p>One.</p>", "<img src='a.png'/>"), "chapters without text, only images"),
    "cells.ipynb": (
        notebook(("code", "print(1)")).replace(b'"cell_type"', b'"outputs": [{"text": "1"}], "cell_type"'),
        "cells with outputs, which are not read",
    ),
    **{f"page{suffix}": (FRAMED, FRAMES) for suffix in (".html", ".htm", ".xhtml")},
    "site.web-page": (FOOTED, "words beside the main text of a page, as in its footer, not read"),
    "mail.eml": (MAIL, "filled fields of a form, not read"),
    "outlook.msg": (outlook({0x0037: "Plan", 0x1000: "Text."}, ("Bob b@c",), ({0x3707: "link"},)), NOT_STORED),
    **{f"saved{suffix}": (SAVED, FRAMES) for suffix in (".mht", ".mhtml")},
    "dates.ics": (
        b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Visit\nATTACH;ENCODING=BASE64:YQ==\nEND:VEVENT\nEND:VCALENDAR\n",
        ATTACHED,
    ),
    "people.vcf": (b"BEGIN:VCARD\nVERSION:3.0\nFN:Eva\nPHOTO;ENCODING=b:YQ==\nEND:VCARD\n", ATTACHED),
    "talk.vtt": (CAPTIONS, "comments, not read"),
    "talk.srt": (b"1\n00:00:01,000 --> 00:00:02,000\nText.\n\n--> Broken.\n", BROKEN),
    **{f"book{suffix}": (workbook(household), HIDDEN) for suffix in (".xlsx", ".xlsm", ".xlsb")},
    "old.xls": ((DATA / "insurance.xls").read_bytes(), HIDDEN),
    "open.ods": (ods(("A", [["a", "b"], ["c", "d"]]), ("B", [["e"]]), hidden=["B"]), HIDDEN),
    "text.odt": (opendocument(NOTES_OF_ODT), "comments, not read"),
    "rich.rtf": (rb"{\rtf1 Text.{\object{\*\objdata 00}}}", "embedded documents, not read"),
    "typed.scanned-pdf": (scans("Typed.", lettered("A heron.")), RECOGNIZED),
    "photo.scanned-picture": (saved(lettered("A heron.")), RECOGNIZED),
    "guessed.txt": ("Gr\u00f6\u00dfe und \u00dcbermut".encode("cp1252"), "encoding: cp1252 (guessed)"),
    "damaged.md": (("M\u00fcller " * 50).encode() + b"\xff", "damaged UTF-8, shown as \ufffd"),
    "twice.md": (b"---\nowner: a\nowner: b\n---\nText.", "front matter repeats owner: the last counts"),
}
"""Name -> its bytes, and the note on it."""

FAILED: Mapping[str, tuple[bytes, str]] = {
    "only.pdf": (scanned_pdf(), f"no text on its pages (1), only images or nothing: {OCR}, or exclude it"),
    "locked.epub": (epub("<p>One.</p>", locked=True), "an EPUB locked by its shop (DRM): exclude it"),
}
"""Name -> its bytes, and words of the failure."""

SKIPPED: Mapping[str, tuple[bytes, str]] = {
    "old.doc": (OLE, "not read: save it as DOCX"),
    "deck.ppt": (OLE, "not read: save it as PPTX"),
    "files.zip": (zipped({"a.txt": "text"}), "an archive, not read: unpack it, or make it the root of a source"),
    "picture.png": (picture(), f"pictures, not read: {OCR}"),
    "noise.bin.gz": (gzip.compress(bytes(99), mtime=0), "not text"),
}
"""Name -> its bytes, of which no text is made, and the reason."""


def write_every_format(folder: Path) -> Cli:
    """Write all these documents into a folder, and return the CLI that indexes them."""
    cli = Cli(folder)
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    for name, (payload, _) in {**NOTED, **FAILED, **SKIPPED}.items():
        cli.write(name, payload)
    return cli
