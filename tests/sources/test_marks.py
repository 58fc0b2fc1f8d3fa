"""Raised numbers and struck words do not read like the text around them, and words in angle brackets are words."""

from __future__ import annotations

import html
import io
from collections.abc import Callable

import matplotlib
import pptx
import pytest
import xlsxwriter
from fontTools import ttLib
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from findingaid.sources.converters.convert import convert
from findingaid.text.cleaning import MARKDOWN, Noise
from tests.support.documents import changed, epub, ods, opendocument, slides, word, word_file, workbook

LIMIT = 1_000_000
LINE = '<span style="color:red; text-decoration: line-through">nine</span>'


def deck() -> bytes:
    runs = b'Costs </a:t></a:r><a:r><a:rPr strike="sngStrike"/><a:t>nine</a:t></a:r><a:r><a:t> ten</a:t>'
    return changed(slides(("Head", "TEN")), "ppt/slides/slide1.xml", lambda xml: xml.replace(b"TEN</a:t>", runs))


def odt(kind: str, begin: str, end: str) -> bytes:
    style = f'<style:style style:name="x"><style:text-properties style:text-line-through-style="{kind}"/></style:style>'
    return opendocument(f"<office:text>{begin}nine{end}</office:text>", style)


def rich_cell() -> bytes:
    def write(book: xlsxwriter.Workbook) -> None:
        line = book.add_format({"font_strikeout": True})
        book.add_worksheet("A").write_rich_string(0, 0, "Costs ", line, "nine", " ten")

    return workbook(write)


def rich_ods() -> bytes:
    style = b'<style:style style:name="x"><style:text-properties style:text-line-through-style="solid"/></style:style>'
    span = b'Costs <text:span text:style-name="x">nine</text:span> ten'
    return changed(
        ods(("A", [["COSTS"]])),
        "content.xml",
        lambda xml: xml.replace(b"COSTS", span).replace(b"</office:auto", style + b"</office:auto"),
    )


@pytest.mark.parametrize(
    ("suffix", "make", "text"),
    [
        (".html", lambda: f"<p>Costs {LINE} ten</p>".encode(), "Costs ~~nine~~ ten"),
        (".html", lambda: b"<p style='text-decoration:line-through'>Costs <b>nine</b></p>", "~~Costs **nine**~~"),
        (".html", lambda: f"<p style='text-decoration:line-through'>Costs {LINE}</p>".encode(), "~~Costs nine~~"),
        (".html", lambda: b"<p>Costs <del style='text-decoration:line-through'>nine</del></p>", "Costs ~~nine~~"),
        (".html", lambda: b"<p style='text-decoration:line-through'>Costs <s>nine</s></p>", "Costs ~~nine~~"),
        (".html", lambda: b"<ul style='text-decoration:line-through'><li>nine</li></ul>", "nine"),
        (".epub", lambda: epub(f"<h1>Head</h1><p>Costs {LINE} ten</p>"), "Costs ~~nine~~ ten"),
        (".pptx", deck, "Costs ~~nine~~ ten"),
        (
            ".odt",
            lambda: odt("solid", '<text:p>Costs <text:span text:style-name="x">', "</text:span></text:p>"),
            "~~nine~~",
        ),
        (".odt", lambda: odt("solid", '<text:p text:style-name="x">', "</text:p>"), "~~nine~~"),
        (".odt", lambda: odt("none", '<text:p text:style-name="x">', "</text:p>"), "nine"),
        (".rtf", lambda: rb"{\rtf1 Costs {\strike nine} ten}", "Costs ~~nine~~ ten"),
        (".rtf", lambda: rb"{\rtf1 Costs \striked1 nine\striked0  ten}", "Costs ~~nine~~ ten"),
        (".rtf", lambda: rb"{\rtf1 Costs {\b\strike\f0 nine\plain  ten}}", "Costs ~~nine~~ ten"),
        (".rtf", lambda: rb"{\rtf1 Costs \strike0 nine ten}", "Costs nine ten"),
        (".xlsx", rich_cell, "Costs ~~nine~~ ten"),
        (".ods", rich_ods, "Costs ~~nine~~ ten"),
    ],
)
def test_struck_words_are_marked(suffix: str, make: Callable[[], bytes], text: str) -> None:
    found = convert(suffix, make(), LIMIT)

    assert text in found.text
    assert found.text.count("~~") == text.count("~~")


def test_cells_that_are_struck_out_are_counted() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet, line = book.add_worksheet("A"), book.add_format({"font_strikeout": True, "num_format": "0%"})
        sheet.write_row(0, 0, ["old", 0.5], line)
        sheet.write_row(1, 0, ["new", 0.6])
        sheet.write_blank(2, 0, None, line)

    found = convert(".xlsx", workbook(write), LIMIT)

    assert "| old | 50% |" in found.text
    assert [(note.words, note.count) for note in found.notes] == [("cells that are struck out, read like others", 2)]


TAGS = ("<script> is blocked", "a <due amount> & <!-- more", "</p>", "<?php", "5 < 6")


def tags_of_html() -> bytes:
    return "".join(f"<p>{html.escape(line)}</p>" for line in TAGS).encode()


@pytest.mark.parametrize(
    ("suffix", "make"),
    [
        (".html", tags_of_html),
        (".web-page", lambda: b"<main>" + tags_of_html() + b"</main>"),
        (".epub", lambda: epub(tags_of_html().decode())),
        (".docx", lambda: word(*((line, line) for line in TAGS))),
        (".pptx", lambda: slides(*((line, line) for line in TAGS), notes="<script> is blocked")),
        (".xlsx", lambda: workbook(lambda book: book.add_worksheet("A").write_column(0, 0, TAGS))),
        (
            ".odt",
            lambda: opendocument(
                f"<office:text>{''.join(f'<text:p>{html.escape(line)}</text:p>' for line in TAGS)}</office:text>"
            ),
        ),
    ],
)
def test_words_in_angle_brackets_are_searched_and_hide_none_behind_them(suffix: str, make: Callable[[], bytes]) -> None:
    text = convert(suffix, make(), LIMIT).text

    noise = Noise.of(text, MARKDOWN)
    seen = noise.removed(0, len(text))
    assert all(line in (text if seen is None else seen).replace("\\<", "<") for line in TAGS)


def test_code_of_a_page_has_its_angle_brackets_as_they_are() -> None:
    page = b"<title>&lt;u&gt;</title><p><code>&lt;b&gt;</code></p><pre>&lt;i&gt;</pre>"

    found = convert(".html", page, LIMIT)

    assert found.text == "`<b>`\n\n```\n<i>\n```"
    assert found.metadata["title"] == "<u>"


@pytest.mark.parametrize("kind", ["page", "Word", "slide"])
def test_a_bar_within_a_cell_does_not_end_it(kind: str) -> None:
    if kind == "slide":
        deck = pptx.Presentation()
        table = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_table(1, 2, 0, 0, 9, 9).table
        table.cell(0, 0).text, table.cell(0, 1).text = "a|b", "c"
        deck.save(made := io.BytesIO())
    elif kind == "Word":
        document = word_file()
        cells = document.add_table(1, 2).rows[0].cells
        cells[0].text, cells[1].text = "a|b", "c"
        document.save(made := io.BytesIO())
    else:
        made = io.BytesIO(b"<table><tr><td>a|b<td><code>c</code></table>")

    found = convert({"page": ".html", "Word": ".docx", "slide": ".pptx"}[kind], made.getvalue(), LIMIT).text

    assert r"| a\|b | " in found


def page(*parts: tuple[str, float, float], turned: int = 0) -> bytes:
    """Return a PDF with a line of parts, each with its size and its rise, turned by so many degrees."""
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.translate(300, 400)
    canvas.rotate(turned)
    line = canvas.beginText(0, 0)
    for words, size, rise in parts:
        line.setFont("Helvetica", size)
        line.setRise(rise)
        line.textOut(words)
    canvas.drawText(line)
    canvas.save()
    return made.getvalue()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("about 10", 12, 0), ("6", 8, 5), (" cells", 12, 0)], "about 10⁶ cells"),
        ([("10", 12, 0), ("-6", 8, 5), (" m", 12, 0), ("2", 8, 5)], "10⁻⁶ m²"),
        ([("a mark", 12, 0), ("12", 7, 5), (" and more", 12, 0)], "a mark¹² and more"),
        ([("H", 12, 0), ("2", 8, -3), ("O and x", 12, 0), ("2", 12, 0)], "H2O and x2"),
        ([("No. ", 12, 0), ("106", 8, 5), (" of 2020-2021", 12, 0)], "No. 106 of 2020-2021"),
        ([("the 1", 12, 0), ("st", 8, 5), (" of 5", 12, 0), ("678", 9, 0)], "the 1st of 5678"),
        ([("🙂 10", 12, 0), ("6", 8, 5)], "10⁶"),
    ],
)
def test_raised_digits_of_a_pdf_are_raised_characters(parts: list[tuple[str, float, float]], text: str) -> None:
    assert text in " ".join(convert(".pdf", page(*parts), LIMIT).text.split())


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_turned_line_of_a_pdf_has_no_raised_digits(turned: int) -> None:
    text = convert(".pdf", page(("WW12 WW", 12, 0), ("11", 10, 0), turned=turned), LIMIT).text

    assert "WW12 WW" in text
    assert not set(text) & set("¹²")


def test_a_number_behind_a_comma_is_not_raised_in_a_font_without_heights() -> None:
    """LibreOffice embeds such fonts, and each character is as low as its own lines."""
    font = ttLib.TTFont(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSerif.ttf")
    heights, metrics = font["hhea"], font["OS/2"]
    heights.ascent = metrics.sTypoAscender = metrics.usWinAscent = 1500
    heights.descent = metrics.sTypoDescender = metrics.usWinDescent = 0
    written = io.BytesIO()
    font.save(written)
    written.seek(0)
    pdfmetrics.registerFont(TTFont("DejaVuSerif", written))
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.setFont("DejaVuSerif", 12)
    canvas.drawString(50, 400, "12,50 EUR; g22")
    canvas.setFont("DejaVuSerif", 7)
    canvas.drawString(50 + pdfmetrics.stringWidth("12,50 EUR; g22", "DejaVuSerif", 12), 405, "3")
    canvas.save()
    assert convert(".pdf", made.getvalue(), LIMIT).text == "12,50 EUR; g22³"


@pytest.mark.parametrize("shown", [0, 90, 180, 270])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_lines_of_a_turned_page_are_read_from_the_first_to_the_last(turned: int, shown: int) -> None:
    made = io.BytesIO()
    canvas = Canvas(made)
    canvas.setPageRotation(shown)
    canvas.translate(300, 400)
    canvas.rotate(turned)
    for i, line in enumerate(["The pump", "is serviced", "every June."]):
        canvas.drawString(0, -20 * i, line)
    canvas.rotate(90)
    canvas.drawString(0, 250, "a stamp")
    canvas.save()

    text = convert(".pdf", made.getvalue(), LIMIT).text

    assert "The pump is serviced every June." in " ".join(text.split())
