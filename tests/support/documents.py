"""Documents for the tests, most of them made by real libraries."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import docx
import matplotlib
import pptx
import reportlab
import xlsxwriter
from docx.document import Document
from docx.enum.style import WD_STYLE_TYPE
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.ttfonts import TTFontFile
from reportlab.pdfgen.canvas import Canvas


def pdf(*pages: str, title: str = "", author: str = "", password: str | None = None) -> bytes:
    """Create a PDF with one page per text; an empty text gives a blank page."""
    made = io.BytesIO()
    canvas = Canvas(made, encrypt=password, invariant=True)
    canvas.setTitle(title)
    canvas.setAuthor(author)
    for page in pages:
        for i, line in enumerate(page.splitlines()):
            canvas.drawString(50, 800 - 15 * i, line)
        canvas.showPage()
    canvas.save()
    return made.getvalue()


def pdf_without_letters(text: str, known: str = "") -> bytes:
    """Create a PDF with a text in a font that has no table of what its glyphs mean, and a `known` text."""
    font = Path(reportlab.__file__).with_name("fonts").joinpath("Vera.ttf").read_bytes()
    glyphs = TTFontFile(io.BytesIO(font)).charToGlyph
    numbers = "".join(f"{glyphs[ord(letter)]:04x}" for letter in text)
    drawn = f"BT /F1 9 Tf 9 90 Td <{numbers}> Tj ET BT /F2 9 Tf 9 9 Td ({known}) Tj ET".encode()
    system = "<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 900 99]/Contents 4 0 R/Resources<</Font<</F1 5 0 R/F2 9 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[6 0 R]>>",
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo{system}/FontDescriptor 7 0 R/DW 600>>".encode(),
        b"<</Type/FontDescriptor/FontName/X/Flags 4/FontFile2 8 0 R/ItalicAngle 0/Ascent 9/Descent 0/StemV 9>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(font), font),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"".join(b"%d 0 obj\n%b\nendobj\n" % (number, each) for number, each in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF"


def scanned_pdf() -> bytes:
    """Create a PDF with a single page that is an image."""
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.drawImage(ImageReader(Image.new("RGB", (40, 40), "red")), 50, 500)
    canvas.save()
    return made.getvalue()


def word_file() -> Document:
    """Create an empty Word file with few styles: reading the 99 styles of tables in the template takes a second."""
    return docx.Document(io.BytesIO(_word_template()))


@cache
def _word_template() -> bytes:
    document, made = docx.Document(), io.BytesIO()
    plain = document.styles.default(WD_STYLE_TYPE.TABLE)
    for style in document.styles:
        if style.type == WD_STYLE_TYPE.TABLE and style != plain:
            style.delete()
    for name, relation in list(document.part.rels.items()):
        if relation.reltype.endswith("/stylesWithEffects"):  # all of the styles once more
            del document.part.rels[name]
    document.save(made)
    return made.getvalue()


def word(*sections: tuple[str, str], title: str = "", author: str = "") -> bytes:
    """Create a DOCX with a heading and a paragraph per section."""
    document = word_file()
    if title:
        document.core_properties.title = title
    if author:
        document.core_properties.author = author
    for heading, text in sections:
        document.add_heading(heading, 1)
        document.add_paragraph(text)
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def slides(*pages: tuple[str, str], notes: str = "") -> bytes:
    """Create a PPTX with a title and a text per slide, and notes on the last slide."""
    deck = pptx.Presentation()
    for title, text in pages:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    made = io.BytesIO()
    deck.save(made)
    return made.getvalue()


def notebook(*cells: tuple[str, str]) -> bytes:
    """Create a notebook from (cell type, source) pairs."""
    made = [{"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)} for kind, source in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def epub(
    *chapters: str, title: str = "", author: str = "", locked: bool = False, encrypted: Sequence[str] = ()
) -> bytes:
    """Create a minimal EPUB of XHTML chapters.

    `locked` adds the rights file that marks copy protection. `encrypted` are the files that are named as encrypted.
    """
    files = {f"OEBPS/{i}.xhtml": f"<html><body>{chapter}</body></html>" for i, chapter in enumerate(chapters)}
    items = "".join(f'<item id="c{i}" href="{i}.xhtml"/>' for i in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    files["OEBPS/content.opf"] = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>{title}</dc:title><dc:creator>{author}</dc:creator></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    files["META-INF/container.xml"] = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>'
    )
    if encrypted:
        named = "".join(f'<CipherData><CipherReference URI="{each}"/></CipherData>' for each in encrypted)
        files["META-INF/encryption.xml"] = f'<encryption xmlns="http://www.w3.org/2001/04/xmlenc#">{named}</encryption>'
    return zipped(files | ({"META-INF/rights.xml": ""} if locked else {}))


def workbook(write: Callable[[xlsxwriter.Workbook], object]) -> bytes:
    """Create an XLSX file by the calls that `write` makes."""
    made = io.BytesIO()
    with xlsxwriter.Workbook(made, {"default_date_format": "yyyy-mm-dd"}) as book:
        write(book)
    return made.getvalue()


def household(book: xlsxwriter.Workbook) -> None:
    """Write an insurance sheet of 40 rows, and a hidden sheet."""
    sheet = book.add_worksheet("Insurance")
    sheet.write_row(0, 0, ["Item", "Premium", "Due"])
    for i in range(1, 40):
        sheet.write_row(i, 0, [f"Policy {i}", 1000.5 + i, date(2026, 3, 1) + timedelta(i - 1)])
    hidden = book.add_worksheet("Lists")
    hidden.write(0, 0, "secret")
    hidden.hide()


def opendocument(body: str, styles: str = "", encrypted: bool = False) -> bytes:
    """Create an OpenDocument file with this body, and automatic styles."""
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "style")
    )
    content = (
        f"<office:document-content{names}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body>{body}</office:body></office:document-content>"
    )
    lock = '<file-entry full-path="content.xml"><encryption-data/></file-entry>' if encrypted else ""
    kind = "spreadsheet" if "office:spreadsheet" in body else "text"
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": content,
            "META-INF/manifest.xml": f"<manifest>{lock}</manifest>",
        }
    )


def ods(*sheets: tuple[str, Sequence[Sequence[str]]], hidden: Sequence[str] = (), encrypted: bool = False) -> bytes:
    """Create an ODS file of sheets, each a name and its rows. A cell of the form of a date is one."""

    def cell(value: str) -> str:
        kind = f'date" office:date-value="{value}' if value[:2] == "20" and value[4:5] == "-" else "string"
        return f'<table:table-cell office:value-type="{kind}"><text:p>{value}</text:p></table:table-cell>'

    tables = "".join(
        f'<table:table table:name="{name}"{" table:style-name=" + chr(34) + "h" + chr(34) if name in hidden else ""}>'
        + "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets
    )
    style = (
        '<style:style style:name="h" style:family="table"><style:table-properties table:display="false"/></style:style>'
    )
    return opendocument(f"<office:spreadsheet>{tables}</office:spreadsheet>", style, encrypted)


def zipped(files: dict[str, str | bytes]) -> bytes:
    """Create a ZIP archive of these files: name -> content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def with_password(archive: bytes) -> bytes:
    """Return a ZIP archive whose files are marked as encrypted."""
    marked = bytearray(archive)
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for found in re.finditer(re.escape(header), archive):
            marked[found.start() + flags] |= 1
    return bytes(marked)


def changed(payload: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """Return a zipped document with one of its files changed."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        files: dict[str, str | bytes] = {each: archive.read(each) for each in archive.namelist()}
        return zipped(files | {name: change(archive.read(name))})


def with_part(payload: bytes, name: str, content: str | bytes) -> bytes:
    """Return a zipped document with one more part."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        files: dict[str, str | bytes] = {each: archive.read(each) for each in archive.namelist()}
    return zipped(files | {name: content})


def drawn(*pages: str) -> bytes:
    """Create a PDF with a page for each word: scan, stamped, form, blank or a text."""
    made = io.BytesIO()
    canvas = Canvas(made, invariant=True)
    for page in pages:
        if page in {"scan", "stamped"}:
            canvas.drawImage(ImageReader(Image.new("RGB", (40, 40), "red")), 0, 0, 595, 842)
        if page == "form":
            canvas.acroForm.textfield(name="name", tooltip="Name", value="Heron", x=50, y=700)
            canvas.acroForm.checkbox(name="paid", tooltip="Paid", checked=True, x=50, y=600)
            canvas.acroForm.checkbox(name="late", tooltip="Late", checked=False, x=50, y=500)
        if page not in {"scan", "form", "blank"}:
            canvas.drawString(50, 800, "page 3" if page == "stamped" else page)
        canvas.showPage()
    canvas.save()
    return made.getvalue()


def lettered(*lines: str, size: int = 30, width: int = 700) -> Image.Image:
    """Draw lines of text, the first at (50, 50) and each 40 pixels below the one before; " | " goes to the middle."""
    made = Image.new("RGB", (width, 700), "white")
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), size)
    for i, line in enumerate(lines):
        for part, left in zip(line.split(" | "), (50, 50 + width // 2), strict=False):
            ImageDraw.Draw(made).text((left, 50 + 40 * i), part, "black", font)
    return made


def saved(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return the file of a picture."""
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def scans(*pages: Image.Image | str, stamp: str = "") -> bytes:
    """Create a PDF of 350 by 350 points with a picture, below a stamp, or a text on each page."""
    made = io.BytesIO()
    canvas = Canvas(made, pagesize=(350, 350), invariant=True)
    for page in pages:
        if isinstance(page, str):
            canvas.drawString(50, 300, page)
        else:
            canvas.drawImage(ImageReader(page), 0, 0, 350, 350)
            canvas.drawString(25, 10, stamp)
        canvas.showPage()
    canvas.save()
    return made.getvalue()
