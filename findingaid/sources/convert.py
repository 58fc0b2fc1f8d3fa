"""Converter process that turns documents into text; findingaid.sources.documents starts and watches it.

It reads a line of JSON, [suffix, bytes, max_bytes, seconds], then the document. It answers with a line of JSON, and
before it with an empty line for each page whose text it recognized, since the next one has as much time.

It limits its own memory and processor time. It ends with the process that started it, also in the middle of a document.
"""

from __future__ import annotations

import codecs
import gc
import io
import json
import math
import os
import posixpath
import re
import signal
import sys
import threading
import time
import zipfile
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC
from email import message_from_bytes, policy
from email.errors import CloseBoundaryNotFoundDefect
from email.utils import formataddr, getaddresses, parsedate_to_datetime
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple, NoReturn
from urllib.parse import unquote

import orjson

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.documents import ATTACHED, FORMATS, OCR, PAGE, PAGE_DONE, PICTURE, SCAN, WORKBOOKS, Converted
from findingaid.sources.marks import STRUCK, raised, strike_out
from findingaid.sources.ocr import SEEN_PIXELS, SEEN_SCALE, Recognition, open_picture, picture_page
from findingaid.sources.office import lacks_memory, make_readable
from findingaid.sources.opendocument import read_opendocument
from findingaid.sources.spreadsheets import read_workbook
from findingaid.text.decoding import decode
from findingaid.text.structure import PAGE_BREAK, PAGE_SIGN
from findingaid.text.titles import as_title

MOST_MEMORY = 4_000_000_000
"""Memory limit of the process, on systems that support one. Half of the machine's memory is the limit if it is less."""


def _memory_limit() -> int:
    try:
        return min(MOST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except (AttributeError, OSError, ValueError):  # the system does not tell
        return MOST_MEMORY


MEMORY_BYTES = _memory_limit()

NO_MEMORY = orjson.dumps(
    {"error": f"converting it takes more than {MEMORY_BYTES / 1e9:.1f} GB of memory: exclude it", "kind": "too_large"}
)

UNPACKED_SHARE = 10
"""Multiple of `max_bytes` that a zipped document may unpack to: XML takes several bytes per character of text."""

END_BYTES = 1024
"""Maximum distance, as in Acrobat, of a PDF's start mark from the file's start, and of its end mark from the end."""

NO_TITLES = frozenset(
    {
        *("untitled", "(unspecified)", "(anonymous)", "word document", "no slide title"),
        *("powerpoint presentation", "powerpoint-präsentation", "présentation powerpoint"),
        *("presentación de powerpoint", "presentazione standard di powerpoint", "apresentação do powerpoint"),
        *("powerpoint-presentatie", "prezentacja programu powerpoint"),
    }
)
"""Placeholder titles that programs write, in their user's language, when nobody gave a title."""

NO_AUTHORS = frozenset({"anonymous", "(anonymous)", "(unspecified)", "python-docx"})

TITLE_STYLE = "p[style-name='Title'] => h1:fresh"
"""Style map that makes Word's Title style a heading; by default it is not one."""

HYPHEN = re.compile("\ufffe(.?)", re.DOTALL)
"""PDFium's sign for a hyphen at the end of a line, and the first character of the next line."""

ASIDE = "//nav | //a[contains(@class, 'headerlink')]"
"""Parts of a page that are not content: lists of links, and the permalinks that Sphinx and MkDocs write."""

FRAMES = "//iframe | //frame | //object | //embed"

BLOCKS = (
    "address", "aside", "button", "center", "details", "dialog", "dir", "fieldset", "figure", "footer", "form",
    "header", "hgroup", "legend", "main", "menu", "noscript", "optgroup", "option", "search", "select", "summary",
    "textarea",
)  # fmt: skip
"""Elements that a browser sets off from the words before and behind, and markitdown does not."""

TYPED = (
    "//input[@value != '' and (not(@type) or contains(' text email number tel url date ', concat(' ', @type, ' ')))]"
)

FORMULAS = {
    "mfrac": "{}/{}",
    "mroot": "{1}\N{SQUARE ROOT}{0}",
    "msqrt": "\N{SQUARE ROOT}{}",
    "msubsup": "{}_{}^{}",
    "msup": "{}^{}",
    "munderover": "{}_{}^{}",
}
"""Elements of MathML whose parts do not stand beside each other, and how they are written on a line."""

DIGITS = re.compile(r"[0-9]{1,9}")
MOST_SPANNED = 1_000
"""Most rows or columns of a merged cell."""

SLIDE = re.compile(r"<!-- Slide number: \d+ -->")
EPUB_AUTHORS = re.compile(r"\*\*Authors:\*\* (.+)")
QUOTED_MAIL = re.compile(
    r"^(-{2,} ?(Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original) ?-{2,}\s*$"
    r"|\**(From|Von|De):\**[ \t]\S.*\n+\**(Sent|Date|Gesendet|Datum|Envoyé|Enviado):\**[ \t])",
    re.IGNORECASE | re.MULTILINE,
)
"""Beginning of a mail that a program quotes below the answer, without ">" before its lines."""

SIGNATURE = "-- "
"""Line of a mail before the signature."""

OTHER_PARTS = "forwarded mails and other parts without a file name, not read"
CUT_SHORT = "no end, as of a document that was cut short"
"""Words of notes."""

RTF_ESCAPED = re.compile(r"\\[\\{}]")
RTF_SPAN = r"\\(?:(?:{})(\d*)(?![a-z\d])|(plain)(?![a-z])|[\\{{}}])|([{{}}])"
RTF_TRACKED = re.compile(RTF_SPAN.format("deleted|mvf"))
RTF_STRUCK = re.compile(RTF_SPAN.format("striked?"))
"""Begin and end of words that a change removed but that still have to be accepted, of struck words, and of groups."""

RTF_FOOTNOTE = re.compile(r"\\footnote\b ?")
RTF_RAISED = re.compile(r"\\super ([-+]?[0-9]{1,9})(?=[}\\])")
RTF_NOT_READ = {
    "comments, not read": re.compile(r"\\annotation\b"),
    "embedded documents, not read": re.compile(r"\\objdata\b"),
    "headers and footers, not read": re.compile(r"\\(?:header|footer)[lrf]?\b"),
    "text boxes, not read": re.compile(r"\\(?:shptxt|dptxbxtext)\b"),
}
"""Groups of an RTF document that its converter leaves out, by what notes call them."""

RTF_TITLE = re.compile(r"\{\\title ([^{}]*)\}")
EPUB_LOCKS = ("META-INF/rights.xml", "META-INF/sinf.xml", "META-INF/license.lcpl")
EPUB_ENCRYPTION = "META-INF/encryption.xml"
"""Part of an EPUB that lists its encrypted files, which may be its fonts alone."""

DRM = "an EPUB locked by its shop (DRM): exclude it"
OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of Office files from before 2007, and of today's files with a password."""

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the encrypted part in such a file."""

MANIFEST = "META-INF/manifest.xml"
"""Part of an OpenDocument file that says how its other parts are encrypted."""

ENTRY_ENCRYPTED = 1
"""Flag of a file in a ZIP archive."""

OLD_XLS = b"\x09"
"""First byte of Excel files from before 1997: the record that begins a sheet."""

MARKS = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first tag of a page: a byte order mark and white space."""

LOCKED = "with a password: save it without, or exclude it"

PDF_OBJECT = re.compile(rb"\d+[ \t]+\d+[ \t]+obj\b")
"""Beginning of an object of a PDF, which shows that the document goes on."""

MOST_SHOWN = 1_600
"""Most pixels of a side of the picture of a page that is shown."""

FEW_CHARACTERS = 50
WITH_RAISED = re.compile(r"\S[0-9]*[-+\u2212\u2013]?[0-9]+")
SMALLER, HIGHER = 0.9, 0.15
"""What may end with raised digits, and by how much these are smaller and higher than its first sign, in sizes of it."""

IMAGE_SHARE = 0.5
"""A page with fewer characters, and with images on more than this share of it, is a scan with a stamp or a number."""

WORD = re.compile(r"\w")
WORDS = re.compile(r"\w+")
ADDRESS = re.compile(r"\b(?:https?|mailto):[^\s()<>]+")
IMAGE_NAME = re.compile(r"\.(png|jpe?g|gif|bmp|tiff?|svg|emf|wmf|webp)\Z", re.IGNORECASE)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")

NO_TEXT = "run OCR on it, or exclude it"


def convert(suffix: str, payload: bytes, max_bytes: int) -> Converted:
    """Return a document's text and metadata. Raises ReadError for any defect of the document, and MemoryError."""
    name, _, is_text, _ = FORMATS[suffix]
    if not payload and not is_text:
        raise ReadError(f"an empty file, not a valid {name}: exclude it", "parse")
    with _defects_of(name):
        text, metadata, notes = CONVERTERS[suffix](payload, max_bytes)
    # Two halves of a surrogate pair are joined; a lone one is not valid Unicode text.
    text = text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text.encode()) > max_bytes:
        raise ReadError(
            f"its text has {len(text.encode()):,} bytes, more than source.max_bytes = {max_bytes:,}:"
            " exclude it or raise the limit",
            "too_large",
        )
    if payload.strip() and not _has_words(text):
        left_out = "".join(f"; {note}" for note in notes)
        raise ReadError(f"no text in this {name}, only images or nothing{left_out}: {NO_TEXT}", "no_text")
    return Converted(text, {key: value for key, value in metadata.items() if value}, notes)


@contextmanager
def _defects_of(name: str) -> Iterator[None]:
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


def page_picture(payload: bytes, number: int) -> Converted:
    """Return a page, from 1, of a PDF or picture as a JPEG in base64, with its size in the unit of the boxes."""
    with _defects_of("scan"):
        if b"%PDF-" in payload[:END_BYTES]:
            import pypdfium2

            with closing(pypdfium2.PdfDocument(payload)) as document:
                document.init_forms()
                with closing(document[number - 1]) as page:
                    picture, scale = _show(page)
        else:
            with open_picture(payload) as opened:
                picture, scale = picture_page(opened, number - 1)
        size = {"width": picture.width / scale, "height": picture.height / scale}
        picture.thumbnail((MOST_SHOWN, MOST_SHOWN))
        made = io.BytesIO()
        picture.save(made, "JPEG", quality=80)
    return Converted(b64encode(made.getvalue()).decode(), size)


def _has_words(text: str) -> bool:
    """Return whether a text has words, besides the addresses of images and the names that programs gave to these."""
    return WORD.search(IMAGE.sub(_alternative, text)) is not None


def _alternative(image: re.Match[str]) -> str:
    named = re.sub(r"\W", "", image[1])  # markitdown makes such an address of a shape's name
    return "" if image[2] == f"{named}.jpg" or IMAGE_NAME.search(image[1]) else image[1]


def _pdf(payload: bytes, max_bytes: int, scans: Recognition | None = None) -> Converted:
    import pypdfium2

    if b"%PDF-" not in payload[:END_BYTES]:
        raise ReadError("not a PDF despite its name: exclude it", "parse")
    _, end, behind = payload.rpartition(b"%%EOF")
    if not end or PDF_OBJECT.search(behind):
        raise ReadError("a PDF that was cut short, without an end (%%EOF): get it again or exclude it", "parse")
    try:
        document = pypdfium2.PdfDocument(payload)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise ReadError("a PDF with a password: save it without, or exclude it", "encrypted") from None
        raise
    with closing(document):
        with suppress(pypdfium2.PdfiumError):  # a form that cannot be read leaves the text of the pages
            document.init_forms()
        pages = [_read_page(document, i, scans) for i in range(len(document))]
        said = document.get_metadata_dict()
        notes = {
            f"pages without text, only images ({OCR})": sum(page.scanned for page in pages),
            "comments, not read": sum(page.comments for page in pages),
            ATTACHED: max(0, pypdfium2.raw.FPDFDoc_GetAttachmentCount(document)),
            "an XFA form, whose fields are not read": document.get_formtype() in XFA_FORMS,
        }
    if not any(page.text for page in pages):
        remedy = "exclude it" if scans else f"{OCR}, or exclude it"
        raise ReadError(f"no text on its pages ({len(pages)}), only images or nothing: {remedy}", "no_text")
    return Converted(
        PAGE_BREAK.join(page.text for page in pages),
        {
            "title": _said(said.get("Title"), NO_TITLES),
            "author": _said(said.get("Author"), NO_AUTHORS),
            "n_pages": len(pages),
            **(scans.metadata if scans else {}),
        },
        [*_left_out(notes), *(scans.notes if scans else ())],
    )


def _scan(payload: bytes, max_bytes: int) -> Converted:
    """Convert a PDF, and recognize the text of its scanned pages."""
    return _pdf(payload, max_bytes, Recognition(page_done.get()))


def _picture(payload: bytes, _: int) -> Converted:
    """Recognize the text of a picture, and of each page of a TIFF."""
    try:
        picture = open_picture(payload)
    except OSError:
        return _plain_text(payload)
    with picture:
        n_frames = getattr(picture, "n_frames", 1)
        n_pages = n_frames if picture.format == "TIFF" else 1
        scans = Recognition(page_done.get())
        pages = [scans.read(i + 1, partial(picture_page, picture, i)) for i in range(n_pages)]
        moving = n_frames - 1 if picture.format in {"PNG", "WEBP"} else 0
    if not any(pages):
        raise ReadError("pictures in which no text was recognized", "no_text")
    own = {"n_pages": n_pages if n_pages > 1 else 0, "text_type": "text/plain"}
    notes = [*scans.notes, *_left_out({"further pictures of an animation, not read": moving})]
    return Converted(PAGE_BREAK.join(pages), own | scans.metadata, notes)


XFA_FORMS = (2, 3)
"""Types of forms that PDFium tells of, and does not read."""


def _left_out(counts: Mapping[str, int]) -> list[Note]:
    """Return a note for each thing that was left out, from words -> number."""
    return [Note("left_out", words, int(count)) for words, count in counts.items() if count]


class _Page(NamedTuple):
    text: str
    scanned: bool
    comments: int


def _read_page(document: Any, i: int, scans: Recognition | None) -> _Page:
    import pypdfium2

    with closing(document[i]) as page, closing(page.get_textpage()) as textpage:
        text = _page(_with_raised(textpage))
        fields, comments = _annotations(document, page)
        added = [line for line in fields if line not in text.split("\n")]
        scanned = False
        if len(text) < FEW_CHARACTERS:
            images = list(page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            area = sum(_area(image) for image in images)
            large = area > IMAGE_SHARE * page.get_width() * page.get_height()
            if text or added or images:
                scanned = bool(images) and (large or not (text or added))
            else:
                scanned = pypdfium2.raw.FPDFPage_CountObjects(page) > 0  # letters that are drawn as lines
        text = "\n".join(filter(None, [text, *added]))
        if scanned and scans:
            return _Page(scans.read(i + 1, partial(_show, page), text), False, comments)
        return _Page(text, scanned, comments)


def _with_raised(textpage: Any) -> str:
    """Return the text of a page, with digits in raised characters that are smaller and higher than the sign before."""
    from pypdfium2 import raw

    def box(at: int) -> tuple[float, float, float, float]:
        index = raw.FPDFText_GetCharIndexFromTextIndex(textpage, at)
        found: tuple[float, float, float, float] = textpage.get_charbox(index, loose=True) if index >= 0 else (0,) * 4
        return found

    def shown(found: re.Match[str]) -> str:
        _, bottom, right, top = box(found.start())
        size = top - bottom

        def is_raised(at: int) -> bool:
            x, low, _, high = box(at)
            return high - low < SMALLER * size and low > bottom + HIGHER * size and x > right - HIGHER * size

        if not is_raised(found.end() - 1):
            return found[0]
        first = next(at for at in range(found.start() + 1, found.end()) if is_raised(at))
        return found[0][: first - found.start()] + raised(found[0][first - found.start() :])

    return WITH_RAISED.sub(shown, textpage.get_text_range())


def _show(page: Any) -> tuple[Any, float]:
    """Return a page as a picture, and how many of its pixels are a point."""
    scale = min(SEEN_SCALE, (SEEN_PIXELS / max(1.0, page.get_width() * page.get_height())) ** 0.5)
    return page.render(scale=scale).to_pil().convert("RGB"), scale


def _area(image: Any) -> float:
    left, bottom, right, top = image.get_bounds()
    return float(abs(right - left) * abs(top - bottom))


def _annotations(document: Any, page: Any) -> tuple[list[str], int]:
    """Return the filled fields of a page and the words written on it, and how many comments it has."""
    from pypdfium2 import raw

    found: list[str] = []
    comments = 0
    for i in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, i)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind == raw.FPDF_ANNOT_WIDGET and document.formenv:
            found += _field(document.formenv, annotation)
        elif kind != raw.FPDF_ANNOT_LINK and (said := _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")):
            if kind == raw.FPDF_ANNOT_FREETEXT:
                found.append(_page(said))
            else:
                comments += kind != raw.FPDF_ANNOT_POPUP
        raw.FPDFPage_CloseAnnot(annotation)
    return found, comments


def _field(form: Any, annotation: Any) -> Iterator[str]:
    """Yield a filled or checked field of a form."""
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    label = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    label = label or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    if kind in {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}:
        if raw.FPDFAnnot_IsChecked(form, annotation):
            value = _string(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation)
            yield f"{label}: {value}"
        return
    value = _page(_string(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
    if value and kind not in {raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE}:
        yield f"{label}: {value}" if label else value


def _string(get: Callable[..., int], *given: Any) -> str:
    """Return a string of PDFium: its functions tell the size in bytes, and fill a buffer with UTF-16."""
    import ctypes

    from pypdfium2 import raw

    size = get(*given, None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(*given, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[:size].decode("utf-16-le", "replace").rstrip("\0")


def _page(text: str) -> str:
    """Return a page's text with uniform line ends, words hyphenated across lines joined, and page ends replaced."""
    text = HYPHEN.sub(lambda found: found[1] if found[1].islower() else f"-{found[1]}", text)
    return re.sub(rf"\r\n?|\v|\f|{PAGE_SIGN}", "\n", text).strip()


def _docx(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        made = make_readable(archive)
    said = _core_properties(made.payload)
    text = _markdown("DocxConverter", made.payload, ".docx", style_map=TITLE_STYLE)[0]
    for word, (name, content) in made.chunks.items():
        text = text.replace(word, _chunk(name, content, max_bytes, made.notes))
    return Converted(text, said, made.left_out(text + "".join(made.chunks)))


def _chunk(name: str, content: bytes, max_bytes: int, notes: list[Note]) -> str:
    """Return the text of a document that was inserted into another, or note that it is not read."""
    suffix = os.path.splitext(name)[1].lower()
    try:
        if suffix in {".txt", ".text"}:
            return decode(content).text
        text, _, also = CONVERTERS[suffix](content, max_bytes)
    except (KeyError, ReadError):
        notes.append(Note("left_out", f"inserted documents ({suffix or 'of unknown type'}), not read"))
        return ""
    notes += also
    return text


def _pptx(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        made = make_readable(archive)
    said = _core_properties(made.payload)
    text = _markdown(_slides(), made.payload, ".pptx")[0]
    slides = [slide.strip() for slide in SLIDE.split(text)[1:]]
    scanned = sum(bool(slide) and not _has_words(slide) for slide in slides)
    notes = [*made.left_out(text), *_left_out({"slides without text, only images": scanned})]
    return Converted(PAGE_BREAK.join(map(_page, slides)), said | {"n_pages": len(slides)}, notes)


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


def _epub(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        if any(lock in archive.namelist() for lock in EPUB_LOCKS):
            raise ReadError(DRM, "encrypted")
        readable, notes, has_text = _chapters(archive)
    text, title = _markdown("EpubConverter", readable, ".epub")
    if not has_text:
        raise ReadError(f"no text in the chapters of this EPUB, only images or nothing: {NO_TEXT}", "no_text")
    authors = EPUB_AUTHORS.search(text[: text.find("\n\n")])
    own = {"title": title, "author": authors and as_title(authors.group(1)), "text_type": "text/markdown"}
    return Converted(text, own, notes)


def _chapters(archive: zipfile.ZipFile) -> tuple[bytes, list[Note], bool]:
    """Return an EPUB without damaged files, notes on the chapters that are not read, and whether any has words.

    Raises ReadError if a chapter is encrypted.
    """
    from defusedxml.ElementTree import fromstring

    files: dict[str, bytes] = {}
    for name in archive.namelist():
        with suppress(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            files[name] = archive.read(name)
    container = fromstring(files["META-INF/container.xml"])
    place = next(each.get("full-path") for each in container.iter() if each.tag.endswith("rootfile"))
    package = fromstring(files[place])
    items = {each.get("id"): each.get("href", "") for each in package.iter() if each.tag.endswith("}item")}
    order = [each.get("idref") for each in package.iter() if each.tag.endswith("}itemref")]
    listed = fromstring(files[EPUB_ENCRYPTION]).iter() if EPUB_ENCRYPTION in files else ()
    encrypted = {unquote(each.get("URI", "")) for each in listed if each.tag.endswith("}CipherReference")}
    missing = images = words = 0
    for at, item in enumerate(order):
        href = posixpath.normpath(posixpath.join(posixpath.dirname(place), items.get(item, "")))
        if unquote(href) in encrypted:
            raise ReadError(DRM, "encrypted")
        found = files.get(unquote(href), files.get(href))
        if found is None or item not in items:
            missing += 1
            continue
        page = _tree(decode(found)[0])
        body = None if page is None else page.find("body")
        if body is not None and WORD.search(str(body.text_content())):
            words += 1
            files[unquote(href) if unquote(href) in files else href] = _as_bytes(page)
        else:
            images += at > 0  # the first is the cover
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, content in files.items():
            into.writestr(name, content)
    notes = {"chapters that are missing or damaged": missing, "chapters without text, only images": images}
    return packed.getvalue(), _left_out(notes), bool(words)


def _parsed(text: str) -> Any | None:
    """Return the tree of a page, in which no number runs into the one before it; None without any element."""
    from lxml import etree, html

    try:
        root = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8", huge_tree=True))
    except etree.ParserError:
        return None
    for element in list(root.iter("sup")):  # the converter leaves out that it is raised: 10 to the 6th would be 106
        number = (element.text or "").strip()
        if not len(element) and raised(number) != number:
            _write(element, raised(number))
    for element in list(root.iter("math")):
        _write_formula(element)
    for element in root.xpath("//*[contains(@style, 'line-through')]"):
        strike_out(element)
    return root


def _write_formula(math: Any) -> None:
    """Put a formula on one line: as TeX if the page has that too, or else with signs for places above and below."""
    tex = math.xpath("string(.//annotation[contains(@encoding, 'tex')])").strip()
    for element in [] if tex else reversed(list(math.iter(*FORMULAS))):  # inner ones first
        parts = ["".join(part.itertext()).strip() for part in ([element] if element.tag == "msqrt" else element)]
        up = raised(parts[-1]) if parts else ""
        form = f"{{}}{up}" if element.tag == "msup" and up != parts[-1] else FORMULAS[element.tag]
        if len(parts) == FORMULAS[element.tag].count("{"):
            _write(element, form.format(*(x if x.isalpha() or x.isdecimal() else x and f"({x})" for x in parts)))
    for shown in math.xpath("ancestor::*[@class='katex']/*[@class='katex-html']"):  # the same again
        shown.drop_tree()
    _write(math, f"${tex}$" if tex else " ".join("".join(math.itertext()).split()))


def _write(element: Any, text: str) -> None:
    """Replace an element by a text."""
    for child in list(element):
        element.remove(child)
    element.tag, element.text = "span", text


def _tree(text: str) -> Any | None:
    """Return the tree of a page, in which `BLOCKS` are elements that markitdown sets off; None without any element."""
    root = _parsed(text)
    if root is None:
        return None
    for element in root.iter(*BLOCKS):
        element.tag = "div"
    for table in list(root.iter("table")):
        _fill_merged(table)
    return root


def _fill_merged(table: Any) -> None:
    """Put an empty cell into each row below a cell that is merged downwards.

    Markdown has no merged cells: without it, the other cells of these rows would stand below the wrong headers.
    """
    group, below = None, dict[int, int]()  # the rows that are left of cells that are merged downwards, by column
    for row in table.xpath("./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr"):
        cells, column = [cell for cell in row if cell.tag in {"td", "th"}], 0
        now = below if row.getparent() is group else {}
        group, below = row.getparent(), {at: rows - 1 for at, rows in now.items() if rows > 1}
        for cell in [*cells, None]:
            while column in now:
                filler = row.makeelement("td", {})
                if cell is None:
                    row.append(filler)
                else:
                    cell.addprevious(filler)
                column += 1
            if cell is not None:
                rows, columns = _span(cell, "rowspan", MOST_SPANNED), _span(cell, "colspan", 1)
                below |= dict.fromkeys(range(column, column + columns), rows - 1) if rows > 1 else {}
                column += columns


def _span(cell: Any, name: str, of_zero: int) -> int:
    """Return over how many rows or columns a cell goes: `of_zero` if its attribute says 0."""
    found = DIGITS.match(cell.get(name, "").strip())
    return min(int(found[0]) or of_zero, MOST_SPANNED) if found else 1


def _as_bytes(page: Any) -> bytes:
    from lxml import html

    return bytes(html.tostring(page, encoding="utf-8"))


def _html(payload: bytes, max_bytes: int) -> Converted:
    text, _, notes = decode(payload)
    page = _tree(text)
    if page is None:
        return Converted("", {})
    for element in page.xpath(ASIDE):
        element.drop_tree()
    left_out = {
        "pages within the page (frames), not read": len(page.xpath(FRAMES)),
        "filled fields of a form, not read": len(page.xpath(TYPED)),
    }
    # The parser has closed the tags that HTML lets stay open (p, li, td). markitdown would nest them, too deep for a
    # long page.
    text, title = _markdown("HtmlConverter", _as_bytes(page), ".html")
    return Converted(text, {"title": title, "text_type": "text/markdown"}, [*notes, *_left_out(left_out)])


def _web_page(payload: bytes, max_bytes: int) -> Converted:
    """Convert the main text of a page, without menus and footers; or all of it, if none is found."""
    import trafilatura

    parsed = _parsed(decode(payload)[0])
    page = "" if parsed is None else _as_bytes(parsed).decode()
    whole = _html(payload, max_bytes)
    config = trafilatura.settings.use_config()
    config["DEFAULT"].update({"MIN_EXTRACTED_SIZE": "1", "MIN_OUTPUT_SIZE": "1"})  # a short page, too, has a menu
    text = trafilatura.extract(
        page, config=config, output_format="markdown", include_links=True, include_formatting=True, favor_recall=True
    )
    if not text:
        return whole._replace(notes=[*whole.notes, Note("guessed", "no main text found: the whole page is read")])
    beside = len(whole.text.split()) - len(text.split())
    notes = _left_out({"words beside the main text of a page, as in its footer, not read": max(0, beside)})
    found = trafilatura.extract_metadata(page)
    said = {"title": as_title(found.title or ""), "author": found.author, "date": found.date}
    metadata = whole.metadata | {name: value for name, value in said.items() if value}
    return Converted(text, metadata, [*whole.notes, *notes])


def _mail(payload: bytes, max_bytes: int) -> Converted:
    """Convert a saved mail, or a page saved with its images, which is stored like one."""
    message = message_from_bytes(payload, policy=policy.default)
    if not message.keys():
        raise ReadError("no mail despite its name: it has no header", "parse")
    notes: list[Note] = []
    said = {name: _header(message, name) for name in ("From", "To", "Cc", "Date", "Subject")}
    title = {"title": as_title(said["Subject"])}
    if not said["From"] or message["Snapshot-Content-Location"]:
        text = _fullest_text([message.get_body((kind,)) for kind in ("plain", "html")], max_bytes, notes)
        attached = [part for part in message.iter_attachments() if part.get_content_maintype() != "image"]
        return Converted(text, title, [*notes, *_left_out({ATTACHED: len(attached)})])
    left_out: Counter[str] = Counter()
    text = "\n\n".join(filter(None, _texts_of(message, max_bytes, notes, left_out)))
    left_out[CUT_SHORT] += any(isinstance(d, CloseBoundaryNotFoundDefect) for p in message.walk() for d in p.defects)
    notes += _left_out(left_out)
    if _has_words(f"{said['Subject']}{text}"):
        heads = "\n".join(f"{name}: {value}" for name, value in said.items() if value)
        text = "\n\n".join(filter(None, [heads, _mark_quoted(text)]))
    return Converted(text, title | {"author": as_title(said["From"])} | _mail_fields(said), notes)


def _texts_of(part: Any, max_bytes: int, notes: list[Note], left_out: Counter[str]) -> Iterator[str]:
    """Yield the texts of a mail in order, also those behind an attached file; count the parts that are not read."""
    kind, subtype = part.get_content_maintype(), part.get_content_subtype()
    if kind == "multipart" and part.is_multipart():
        inner = [*part.iter_parts()]
        if subtype == "alternative":
            bodies = [part.get_body((wanted,)) for wanted in ("plain", "html")]
            left_out[OTHER_PARTS] += not any(bodies)
            yield _fullest_text(bodies, max_bytes, notes)
            within = (leaf for each in inner for leaf in each.walk())
            inner = [leaf for leaf in within if leaf.get_filename() or leaf.is_attachment()]
        for each in inner:
            yield from _texts_of(each, max_bytes, notes, left_out)
    elif part.get_filename() or part.is_attachment():
        left_out[ATTACHED] += kind != "image"
    elif kind == "text" and subtype in {"plain", "html"}:
        yield _mail_text(part, max_bytes, notes)
    elif kind != "image" and not subtype.endswith("signature"):
        left_out[OTHER_PARTS] += 1


def _fullest_text(bodies: Iterable[Any], max_bytes: int, notes: list[Note]) -> str:
    """Return the first of several forms of a text, or a later one if the first lacks most of its words.

    Programs write a plain form that says only that the other one cannot be shown.
    """
    found = ""
    for body in bodies:
        also: list[Note] = []
        text = _mail_text(body, max_bytes, also) if body is not None else ""
        words = set(WORDS.findall(ADDRESS.sub("", text)))
        if not found.strip() or len(words.difference(WORDS.findall(found))) > len(words) / 2:
            found = text
            notes += also
    return found


def _header(message: Any, name: str) -> str:
    """Return a header on one line. One that the parser does not understand is returned as it is written."""
    try:
        value = message[name]
    except Exception:  # noqa: BLE001  # the parser may raise anything for a damaged header
        value = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(str(value or "").split())


def _mail_fields(said: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a mail by which it can be filtered; the date in UTC."""
    date = ""
    with suppress(ValueError, TypeError, OverflowError):
        sent = parsedate_to_datetime(said["Date"])
        date = (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    to = [formataddr(each) for each in getaddresses([said["To"]]) if any(each)]
    return {"subject": said["Subject"], "from": said["From"], "to": to, "date": date}


def _mark_quoted(text: str) -> str:
    """Mark the lines of a mail that is quoted below the answer to it, as programs do that write ">" themselves."""
    found = QUOTED_MAIL.search(text)
    if found is None:
        return text
    quoted = "\n".join(
        line if line.startswith(">") else f"> {line}".rstrip() for line in text[found.start() :].split("\n")
    )
    return text[: found.start()] + quoted


def _mail_text(body: Any, max_bytes: int, notes: list[Note]) -> str:
    content = body.get_payload(decode=True) or b""
    charset = body.get_content_charset()
    if charset:
        with suppress(LookupError, UnicodeError):
            name = codecs.lookup(charset).name
            content = content.decode("cp1252" if name == "iso8859-1" else name).encode()  # as in HTML
    if body.get_content_subtype() == "html":
        text, _, also = _html(content, max_bytes)
    else:
        text, _, also = decode(content)
        if str(body.get_param("format", "")).lower() == "flowed":
            text = _unwrapped(text, str(body.get_param("delsp", "")).lower() == "yes")
    notes += also
    return str(text)


def _unwrapped(text: str, delete_space: bool) -> str:
    """Join the lines of each paragraph of a text that is `format=flowed` (RFC 3676), where a space ends a wrapped line.

    With `delete_space` that space is not part of the text, and a word may go on in the next line.
    """
    lines: list[str] = []
    wrapped: str | None = None
    for line in text.splitlines():
        own = line.lstrip(">")
        quote = line[: len(line) - len(own)]
        own = own.removeprefix(" ")
        signature = own == SIGNATURE
        if wrapped == quote and own and not signature:
            lines[-1] += own
        else:
            lines.append(f"{quote} {own}" if quote and own else f"{quote}{own}")
        wrapped = quote if own.endswith(" ") and not signature else None
        if wrapped is not None and delete_space:
            lines[-1] = lines[-1][:-1]
    return "\n".join(lines)


def _ipynb(payload: bytes, max_bytes: int) -> Converted:
    """Join the cells of a notebook. markitdown would refuse all of it for one that is damaged."""
    text, _, notes = decode(payload)
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ReadError("not a Jupyter notebook of format 4 or later: it has no list of cells", "parse")
    match said := notebook.get("metadata"):
        case {"kernelspec": {"language": str(language)}} | {"language_info": {"name": str(language)}}:
            pass
        case _:
            language = "python"
    cells = [_cell(cell, language) for cell in notebook["cells"]]
    left_out = {
        "cells with outputs, which are not read": sum(
            isinstance(cell, dict) and bool(cell.get("outputs")) for cell in notebook["cells"]
        ),
        "damaged cells, not read": cells.count(None),
    }
    title = as_title(str(said.get("title") or "")) if isinstance(said, dict) else ""
    read = "\n\n".join(cell for cell in cells if cell)
    return Converted(read, {"title": title, "text_type": "text/markdown"}, [*notes, *_left_out(left_out)])


def _cell(cell: Any, language: str) -> str | None:
    """Return a cell as Markdown, a code cell as a block of code; None for a damaged one."""
    match cell:
        case {"cell_type": str(kind), "source": str() | list() as source} if all(isinstance(s, str) for s in source):
            text = "".join(source)
        case _:
            return None
    if kind == "markdown" or not text.strip():
        return text
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language if kind == 'code' else ''}\n{text}\n{fence}"


def _odt(payload: bytes, max_bytes: int) -> Converted:
    with _unpacked(payload, max_bytes) as archive:
        page, said, left_out = read_opendocument(archive)
    text = _html(page, max_bytes).text
    own = {"title": _said(said.get("title"), NO_TITLES), "author": _said(said.get("author"), NO_AUTHORS)}
    return Converted(text, own | {"text_type": "text/markdown"}, _left_out(left_out))


def _rtf(payload: bytes, max_bytes: int) -> Converted:
    from striprtf.striprtf import rtf_to_text

    if not payload.lstrip(MARKS).startswith(b"{\\rtf"):
        return _plain_text(payload)
    source = payload.decode("latin-1")
    up = RTF_RAISED.sub(lambda found: "".join(f"\\u{ord(sign)}?" for sign in raised(found[1])), source)
    up = _around(RTF_STRUCK, STRUCK, STRUCK, up)
    up = _around(RTF_TRACKED, r"{\*", "}", up)  # a group that the converter leaves out
    read = RTF_FOOTNOTE.sub(" ", up)  # the converter leaves out a group of this name; so it stays in its sentence
    text = re.sub(r"[\f\v]", "\n", rtf_to_text(read, errors="replace")).strip()
    found = RTF_TITLE.search(source)
    braces = RTF_ESCAPED.sub("", source)
    left_out = {words: len(group.findall(source)) for words, group in RTF_NOT_READ.items()}
    left_out[CUT_SHORT] = braces.count("{") > braces.count("}") and "\\bin" not in source
    return Converted(
        text, {"title": _said(found and rtf_to_text(f"{{\\rtf1{found[1]}}}"), NO_TITLES)}, _left_out(left_out)
    )


def _around(span: re.Pattern[str], begin: str, close: str, source: str) -> str:
    """Put signs before and after words of RTF in a format. They end where their own group ends, or the format does."""
    ends = [""]

    def replace(found: re.Match[str]) -> str:
        end = ""
        if found[3] == "{":
            ends.append("")
        elif found[3] == "}":
            end = ends.pop() if len(ends) > 1 else ""
        elif found[1] == "0" or found[2]:
            end, ends[-1] = ends[-1], ""
        elif found[1] is not None and not ends[-1]:
            ends[-1] = close
            return begin + found[0]
        return end + found[0]

    return span.sub(replace, source)


def _plain_text(payload: bytes) -> Converted:
    """Return a text that a program wrote under the name of another format."""
    try:
        text, _, notes = decode(payload)
    except ReadError:
        raise ReadError("not what its name says, nor text: exclude it", "parse") from None
    return Converted(text, {}, notes)


def _workbook(payload: bytes, max_bytes: int) -> Converted:
    """Convert a workbook, or a page or table of text that a program exported under its name."""
    said: dict[str, Any] = {}
    if payload.lstrip(MARKS)[:1] == b"<":
        return _html(payload, max_bytes)
    if payload.startswith(b"PK"):
        with _unpacked(payload, max_bytes):
            said = _core_properties(payload)
    elif payload.startswith(OLE) and ENCRYPTED in payload:
        raise ReadError(LOCKED, "encrypted")
    elif not payload.startswith((OLE, OLD_XLS)):
        return _plain_text(payload)
    text, n_sheets, left_out = read_workbook(payload, max_bytes)
    own = {"text_type": "text/markdown", "n_sheets": n_sheets}
    return Converted(text, said | own, _left_out(left_out))


CONVERTERS: Mapping[str, Callable[[bytes, int], Converted]] = {
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".epub": _epub,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".web-page": _web_page,
    ".ipynb": _ipynb,
    ".eml": _mail,
    ".mht": _mail,
    ".mhtml": _mail,
    ".odt": _odt,
    ".rtf": _rtf,
    SCAN: _scan,
    PICTURE: _picture,
    **dict.fromkeys(WORKBOOKS, _workbook),
}


def _markdown(converter: Any, payload: bytes, suffix: str, **options: Any) -> tuple[str, str]:
    """Convert a document with one of markitdown's converters, or its name; return the text and the title it found."""
    import markitdown

    made = getattr(markitdown.converters, converter)() if isinstance(converter, str) else converter
    result = made.convert(io.BytesIO(payload), markitdown.StreamInfo(extension=suffix), **options)
    return result.markdown, as_title(str(result.title or ""))


def _unpacked(payload: bytes, max_bytes: int) -> zipfile.ZipFile:
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


def _core_properties(payload: bytes) -> dict[str, Any]:
    """Return the title and author of an Office document. Its text type is Markdown."""
    from defusedxml.ElementTree import fromstring

    found: dict[str, str] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        if "docProps/core.xml" in archive.namelist():
            root = fromstring(archive.read("docProps/core.xml"))
            found = {child.tag.rpartition("}")[2]: child.text or "" for child in root}
    return {
        "title": _said(found.get("title"), NO_TITLES),
        "author": _said(found.get("creator"), NO_AUTHORS),
        "text_type": "text/markdown",
    }


def _said(value: str | None, nothing: frozenset[str]) -> str:
    value = as_title((value or "").replace("\0", ""))
    return "" if value.lower() in nothing else value


def answer(suffix: str, payload: bytes, max_bytes: int) -> bytes:
    """Return the answer for one document: its text and metadata, or an error and its kind."""
    try:
        page = suffix.removeprefix(PAGE)
        made = page_picture(payload, int(page)) if page != suffix else convert(suffix, payload, max_bytes)
        return orjson.dumps(made._asdict())
    except ReadError as error:
        return orjson.dumps({"error": str(error), "kind": error.kind})
    except MemoryError:
        pass  # the error holds the memory until here
    gc.collect()
    return NO_MEMORY


Request = tuple[str, bytes, int, float]
"""A document's suffix, its payload, the most bytes of its text, and the seconds that it may take."""


page_done: ContextVar[Callable[[], None]] = ContextVar("page_done", default=lambda: None)
"""Gives the next page of a document as much time as the last; `serve` tells the parent process so."""


def serve(requests: BinaryIO, answers: BinaryIO) -> NoReturn:
    """Answer requests one after the other, until the process ends with their end."""
    received: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received), daemon=True).start()
    while True:
        suffix, payload, max_bytes, seconds = received.get()

        def renew_time(seconds: float = seconds) -> None:
            _limit_time(seconds)
            answers.write(PAGE_DONE)
            answers.flush()

        page_done.set(renew_time)
        _limit_time(seconds)
        answers.write(answer(suffix, payload, max_bytes) + b"\n")
        answers.flush()


def _receive(requests: BinaryIO, received: SimpleQueue[Request]) -> None:
    """Receive requests, and end the process when there are no more, that is, when the parent process has ended."""
    with suppress(OSError, ValueError):
        while line := requests.readline():
            suffix, size, max_bytes, seconds = orjson.loads(line)
            payload = requests.read(size)
            if len(payload) < size:
                break
            received.put((suffix, payload, max_bytes, seconds))
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that a converter may have started
    os._exit(0)


def _limit_time(seconds: float) -> None:
    """Limit the processor time from now on, for a converter that lets no other thread of this process run."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        until = math.ceil(time.process_time() + seconds) + 1
        with suppress(ValueError):  # the limit of this process is lower
            resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _limit_memory() -> None:
    """Limit the memory of this process, and have it leave no image of its memory behind."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        soft = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Serve on the original standard input and output, which are hidden from the converters."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "r+b") as nothing:
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
    _limit_memory()
    serve(requests, answers)


if __name__ == "__main__":
    main()
