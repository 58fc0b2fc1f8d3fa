"""PDF: the text of its pages, with filled fields and raised digits, and the pictures of scanned pages."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any, NamedTuple

from findingaid.errors import ReadError
from findingaid.sources.converters.common import NO_AUTHORS, NO_TITLES, left_out_notes, property_text
from findingaid.sources.converters.marks import raised
from findingaid.sources.converters.ocr import SEEN_PIXELS, SEEN_SCALE, Recognition
from findingaid.sources.documents import ATTACHED, OCR, Converted
from findingaid.text.structure import PAGE_BREAK, PAGE_SIGN

END_BYTES = 1024
"""Maximum distance, as in Acrobat, of a PDF's start mark from the file's start, and of its end mark from the end."""

HYPHEN = re.compile("\ufffe(.?)", re.DOTALL)
"""PDFium's sign for a hyphen at the end of a line, and the first character of the next line."""

PDF_OBJECT = re.compile(rb"\d+[ \t]+\d+[ \t]+obj\b")
"""Beginning of an object of a PDF, which shows that the document goes on."""

WITH_RAISED = re.compile(r"\S[0-9]*[-+\u2212\u2013]?[0-9]+")
SMALLER, HIGHER = 0.9, 0.15
"""What may end with raised digits, and by how much these are smaller and higher than its first sign, in sizes of it."""

FEW_CHARACTERS = 50
IMAGE_SHARE = 0.5
"""A page with fewer characters, and with images on more than this share of it, is a scan with a stamp or a number."""

UNKNOWN_SHARE = 0.1
"""Share of the signs of a page that are read by their codes, since their font does not say what they mean."""

SAMPLE_SIGNS = 500
"""Signs of a page (where it has as many) that are looked at for that, and for which way up its text is."""

XFA_FORMS = (2, 3)
"""Types of forms that PDFium tells of, and does not read."""


def is_pdf(payload: bytes) -> bool:
    """Return whether a payload begins as a PDF does."""
    return b"%PDF-" in payload[:END_BYTES]


def convert_pdf(payload: bytes, max_bytes: int, scans: Recognition | None = None) -> Converted:
    """Convert a PDF; with `scans`, the text of pages that are only images is recognized."""
    import pypdfium2

    if not is_pdf(payload):
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
            "pages whose fonts do not say what their signs mean, perhaps read wrong": sum(
                page.unknown for page in pages
            ),
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
            "title": property_text(said.get("Title"), NO_TITLES),
            "author": property_text(said.get("Author"), NO_AUTHORS),
            "n_pages": len(pages),
            **(scans.metadata if scans else {}),
        },
        [*left_out_notes(notes), *(scans.notes if scans else ())],
    )


class _Page(NamedTuple):
    text: str
    scanned: bool
    unknown: bool
    comments: int


def _read_page(document: Any, i: int, scans: Recognition | None) -> _Page:
    import pypdfium2

    with closing(document[i]) as page:
        text, unknown = _text_of(page)
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
            return _Page(scans.read(i + 1, partial(show_page, page), text), False, unknown, comments)
        return _Page(text, scanned, unknown, comments)


def _text_of(page: Any) -> tuple[str, bool]:
    """Return the text of a page as it is read when most of its signs stand upright, and whether they may be wrong.

    Fonts may lack the table of what their signs mean; "The" is then read as "7KH".
    """
    from pypdfium2 import raw

    with closing(page.get_textpage()) as textpage:
        signs = textpage.count_chars()
        sample = range(0, signs, max(1, signs // SAMPLE_SIGNS))
        n_unknown = sum(raw.FPDFText_HasUnicodeMapError(textpage, at) == 1 for at in sample)
        angles = [raw.FPDFText_GetCharAngle(textpage, at) for at in sample]
        quarters = Counter(round(2 * angle / math.pi) % 4 for angle in angles if angle >= 0)
        shown = page.get_rotation()
        upright = 90 * quarters.most_common(1)[0][0] if quarters else shown
        text = _with_raised(textpage) if upright == shown else ""
    if upright != shown:  # PDFium reads lines that run downwards from the left to the right, the last one first
        page.set_rotation(upright)
        with closing(page.get_textpage()) as textpage:
            text = _with_raised(textpage)
        page.set_rotation(shown)
    return page_text(text), n_unknown > UNKNOWN_SHARE * len(sample)


def _with_raised(textpage: Any) -> str:
    """Return the text of a page, with digits in raised characters that are smaller and higher than the sign before."""
    import ctypes

    from pypdfium2 import raw

    def box(at: int) -> tuple[float, float, float, float]:
        index = raw.FPDFText_GetCharIndexFromTextIndex(textpage, at)
        found: tuple[float, float, float, float] = textpage.get_charbox(index, loose=True) if index >= 0 else (0,) * 4
        return found

    def base_line(at: int) -> float:
        x, y = ctypes.c_double(), ctypes.c_double()
        raw.FPDFText_GetCharOrigin(textpage, raw.FPDFText_GetCharIndexFromTextIndex(textpage, at), x, y)
        return y.value

    def shown(found: re.Match[str]) -> str:
        _, bottom, right, top = box(found.start())
        size = top - bottom

        def is_raised(at: int) -> bool:
            x, low, _, high = box(at)
            if high - low >= SMALLER * size or x <= right - HIGHER * size:
                return False
            return base_line(at) > base_line(found.start()) + HIGHER * size

        if not is_raised(found.end() - 1):
            return found[0]
        first = next(at for at in range(found.start() + 1, found.end()) if is_raised(at))
        return found[0][: first - found.start()] + raised(found[0][first - found.start() :])

    return WITH_RAISED.sub(shown, textpage.get_text_range())


def show_page(page: Any) -> tuple[Any, float]:
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
                found.append(page_text(said))
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
    value = page_text(_string(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
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


def page_text(text: str) -> str:
    """Return a page's text with uniform line ends, words hyphenated across lines joined, and page ends replaced."""
    text = HYPHEN.sub(lambda found: found[1] if found[1].islower() else f"-{found[1]}", text)
    return re.sub(rf"\r\n?|\v|\f|{PAGE_SIGN}", "\n", text).strip()
