"""The first row of a table names its columns if the document says so, or if nothing else can be meant."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.util import Inches

from findingaid.sources.converters.convert import convert
from findingaid.text.entries import entries
from tests.support.documents import opendocument, word_file

LIMIT = 1_000_000
Rows = Sequence[Sequence[str]]

PRICES = [["Name", "Price", "Since"], ["Pump", "12", "2024"], ["Pipe", "13", "2025"]]
FORM = [["Tenant", "Ann Berg"], ["City", "Oslo"], ["Rent", "9500"]]
TWO_COLUMNS = [["Name", "Price"], ["Pump", "12"], ["Pipe", "13"]]


def word(rows: Rows, mark: str = "") -> str:
    document = word_file()
    table = document.add_table(len(rows), len(rows[0]))
    for i, row in enumerate(rows):
        for cell, words in zip(table.rows[i].cells, row, strict=True):
            cell.paragraphs[0].add_run(words).bold = mark == "bold" and i == 0
    if mark == "style":
        style = document.styles["Normal Table"]
        style._element.append(parse_xml(f'<w:tblStylePr {NAMESPACE} w:type="firstRow"/>'))
        table.style = style
        table._tbl.tblPr.append(parse_xml(f'<w:tblStyle {NAMESPACE} w:val="{style.style_id}"/>'))
    if mark == "repeated":
        table.rows[0]._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {NAMESPACE}/>"))
    made = io.BytesIO()
    document.save(made)
    return convert(".docx", made.getvalue(), LIMIT).text


NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def page(rows: Rows, mark: str = "") -> str:
    def cell(words: str, first: bool) -> str:
        tag = "th" if first and mark == "th" else "td"
        return f"<{tag}>{f'<b>{words}</b>' if first and mark == 'bold' else html.escape(words)}</{tag}>"

    lines = "".join(f"<tr>{''.join(cell(words, i == 0) for words in row)}</tr>" for i, row in enumerate(rows))
    return convert(".html", f"<table>{lines}</table>".encode(), LIMIT).text


def text_document(rows: Rows, mark: str = "") -> str:
    style = f' text:style-name="{"Table_20_Heading" if mark == "style" else "P1"}"'
    lines = [
        "".join(f"<table:table-cell><text:p{style * (i == 0)}>{words}</text:p></table:table-cell>" for words in row)
        for i, row in enumerate(rows)
    ]
    first, *others = (f"<table:table-row>{line}</table:table-row>" for line in lines)
    first = f"<table:table-header-rows>{first}</table:table-header-rows>" if mark == "rows" else first
    body = f"<table:table><table:table-column/>{first}{''.join(others)}</table:table>"
    return convert(
        ".odt", opendocument(f"<office:text>{body}</office:text>", DERIVED if mark == "derived" else ""), LIMIT
    ).text


DERIVED = '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Table_20_Heading"/>'


def slide(rows: Rows, mark: str = "") -> str:
    deck = pptx.Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[5]).shapes
    table = shapes.add_table(len(rows), len(rows[0]), *map(Inches, (1, 1, 6, 2))).table
    table.first_row = mark == "first row"
    for i, row in enumerate(rows):
        for cell, words in zip(table.rows[i].cells, row, strict=True):
            cell.text = words
    made = io.BytesIO()
    deck.save(made)
    return convert(".pptx", made.getvalue(), LIMIT).text


Made = Callable[..., str]


def statements(text: str) -> list[str]:
    return [statement for statement, *_ in entries(text, "text/markdown")]


@pytest.mark.parametrize(
    ("made", "mark"),
    [
        *((word, mark) for mark in ("bold", "style", "repeated")),
        *((page, mark) for mark in ("bold", "th")),
        *((text_document, mark) for mark in ("style", "rows", "derived")),
        (slide, "first row"),
    ],
)
def test_a_row_that_is_marked_as_a_header_names_the_columns(made: Made, mark: str) -> None:
    text = made(TWO_COLUMNS, mark).replace("**", "")

    assert statements(text) == ["Name: Pump; Price: 12", "Name: Pipe; Price: 13"]


def test_a_bold_title_over_all_columns_names_none() -> None:
    title = "<tr><td colspan=2><b>Prices of 2024</b></td></tr><tr><td>Pump</td><td>12</td></tr>"
    document = docx.Document()
    table = document.add_table(2, 2)
    merged = table.cell(0, 0).merge(table.cell(0, 1))
    merged.paragraphs[0].add_run("Prices of 2024").bold = True
    table.cell(1, 0).text, table.cell(1, 1).text = "Pump", "12"
    made = io.BytesIO()
    document.save(made)

    for text in (
        convert(".html", f"<table>{title}</table>".encode(), LIMIT).text,
        convert(".docx", made.getvalue(), LIMIT).text,
        page([["Prices of 2024", ""], ["Pump", "12"]], "bold"),
    ):
        assert [found.replace("**", "") for found in statements(text)] == ["Prices of 2024", "Pump; 12"]


@pytest.mark.parametrize("made", [word, page, text_document, slide])
def test_the_first_row_of_a_form_names_no_columns(made: Made) -> None:
    assert statements(made(FORM)) == ["Tenant; Ann Berg", "City; Oslo", "Rent; 9500"]


@pytest.mark.parametrize("made", [word, page, text_document, slide])
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (PRICES, True),
        (PRICES[:1], False),
        ([["", "Mon", "Tue"], ["Ann", "1", "2"]], True),
        ([["Ann", "", "Tue"], ["Bo", "1", "2"]], False),
        ([["2023", "Mon", "Tue"], ["2024", "1", "2"]], False),
        ([["Name", "Price", "Price"], ["Pump", "12", "13"]], False),
        (
            [
                ["Name", "Price", "A sentence of a page that uses tables to set its words beside each other."],
                list("abc"),
            ],
            False,
        ),
    ],
)
def test_a_first_row_of_three_names_or_more_names_the_columns(made: Made, rows: Rows, named: bool) -> None:
    found = statements(made(rows))

    assert len(found) == len(rows) - named
    assert all(": " in statement for statement in found) == named


LONG = "A cell that is merged beside all the rows of a page sets words, and names none of the rows."


def merged_word(name: str) -> str:
    document = word_file()
    table = document.add_table(3, 3)
    table.cell(1, 0).merge(table.cell(2, 1)).text = name
    for at, words in ((0, "Group"), (1, "Item"), (2, "Price")):
        table.cell(0, at).text = words
    table.cell(1, 2).text, table.cell(2, 2).text = "1", "2"
    made = io.BytesIO()
    document.save(made)
    return convert(".docx", made.getvalue(), LIMIT).text


def merged_slide(name: str) -> str:
    deck = pptx.Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[5]).shapes
    table = shapes.add_table(3, 3, *map(Inches, (1, 1, 6, 2))).table
    for at, words in ((0, "Group"), (1, "Item"), (2, "Price")):
        table.cell(0, at).text = words
    table.cell(1, 0).merge(table.cell(2, 1))
    table.cell(1, 0).text, table.cell(1, 2).text, table.cell(2, 2).text = name, "1", "2"
    made = io.BytesIO()
    deck.save(made)
    return convert(".pptx", made.getvalue(), LIMIT).text


OPEN = (
    "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Group</text:p></table:table-cell>"
    "<table:table-cell><text:p>Item</text:p></table:table-cell><table:table-cell><text:p>Price</text:p>"
    "</table:table-cell></table:table-row></table:table-header-rows>"
    '<table:table-row><table:table-cell table:number-columns-spanned="2" table:number-rows-spanned="2"><text:p>NAME'
    "</text:p></table:table-cell><table:covered-table-cell/><table:table-cell><text:p>1</text:p></table:table-cell>"
    '</table:table-row><table:table-row><table:covered-table-cell table:number-columns-repeated="2"/>'
    "<table:table-cell><text:p>2</text:p></table:table-cell></table:table-row></table:table>"
)


def merged_text_document(name: str) -> str:
    payload = opendocument(f"<office:text>{OPEN.replace('NAME', name)}</office:text>")
    return convert(".odt", payload, LIMIT).text


def merged_page(name: str) -> str:
    rows = f"<tr><td rowspan=2 colspan=2>{name}<td>1<tr><td>2"
    return convert(".html", f"<table><tr><th>Group<th>Item<th>Price{rows}</table>".encode(), LIMIT).text


@pytest.mark.parametrize("made", [merged_word, merged_slide, merged_text_document, merged_page])
def test_the_name_in_a_cell_that_is_merged_downwards_is_that_of_each_row(made: Callable[[str], str]) -> None:
    assert statements(made("North")) == ["Group: North; Price: 1", "Group: North; Price: 2"]
    assert statements(made(LONG)) == [f"Group: {LONG}; Price: 1", "Price: 2"]


def test_a_cell_of_an_open_workbook_that_is_merged_over_all_rows_fills_none() -> None:
    below = '<table:table-row table:number-rows-repeated="1048575"><table:covered-table-cell/></table:table-row>'
    cell = (
        '<table:table-cell office:value-type="string" table:number-rows-spanned="1048576"><text:p>x</text:p>'
        "</table:table-cell>"
    )
    sheet = f'<table:table table:name="A"><table:table-row>{cell}</table:table-row>{below}</table:table>'

    text = convert(".ods", opendocument(f"<office:spreadsheet>{sheet}</office:spreadsheet>"), LIMIT).text

    assert text == "## Sheet A, row 1\n\n| A |\n| --- |\n| x |"


def test_rows_of_a_table_within_a_table_do_not_count_for_the_outer_one() -> None:
    inner = "<table:table>" + "<table:table-row><table:table-cell/></table:table-row>" * 3 + "</table:table>"
    body = OPEN.replace("NAME", "North").replace("<text:p>1</text:p>", f"<text:p>1</text:p>{inner}")

    text = convert(".odt", opendocument(f"<office:text>{body}</office:text>"), LIMIT).text

    assert text.split().count("North") == 2


def test_a_cell_of_an_open_workbook_that_is_merged_downwards_repeats_its_value() -> None:
    sheet = OPEN.replace("<table:table>", '<table:table table:name="Sales">').replace("NAME", LONG)
    typed = sheet.replace("<table:table-cell", '<table:table-cell office:value-type="string"')

    text = convert(".ods", opendocument(f"<office:spreadsheet>{typed}</office:spreadsheet>"), LIMIT).text

    assert statements(text) == [f"Group: {LONG}; Price: 1", f"Group: {LONG}; Price: 2"]
