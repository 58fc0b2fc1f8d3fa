"""Spreadsheets: blocks of rows with their header and place, values as people read them, and what is not read."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter

from findingaid.errors import ReadError
from findingaid.sources.converters.number_formats import cell_text
from findingaid.sources.converters.process import MEMORY_BYTES
from findingaid.sources.converters.spreadsheets import BINARY, column_name
from findingaid.sources.documents import WORKBOOKS, convert_document
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from tests.conftest import Cli
from tests.paths import DATA
from tests.support.documents import changed, household, ods, with_part, workbook, zipped

LIMIT = 20_000_000


def read(payload: bytes, name: str = "a.xlsx", limit: int = LIMIT) -> tuple[str, list[str]]:
    """Return the text of a workbook, and the notes on it."""
    found = convert_document(name, payload, limit)
    assert found is not None
    return found.text, [str(note) for note in found.notes]


def test_a_chunk_is_a_block_of_rows_below_its_header_and_tells_sheet_and_rows(tmp_path: Path) -> None:
    (tmp_path / "household.xlsx").write_bytes(workbook(household))
    artifact = Files(tmp_path).read("household.xlsx")
    plan = Chunked().decompose("household.xlsx", artifact.raw, artifact.metadata)

    assert artifact.metadata["title"] == "household.xlsx"
    assert [str(note) for note in artifact.notes] == ["hidden sheets, not read"]
    assert {surface.metadata["sheet"] for surface in plan.surfaces} == {"Insurance"}
    rows = [surface.metadata["rows"] for surface in plan.surfaces]
    assert (rows[0][0], rows[-1][1]) == (2, 40)
    assert [first for first, _ in rows[1:]] == [last + 1 for _, last in rows[:-1]]
    for surface in plan.surfaces:
        assert surface.span is not None
        assert str(artifact.raw)[slice(*surface.span)] == surface.text
        assert "| Item | Premium | Due |" in surface.text
        first, last = surface.metadata["rows"]
        assert f"| Policy {first - 1} | {999.5 + first} | " in surface.text
        assert f"| Policy {last - 1} | " in surface.text
    assert "| Policy 1 | 1001.5 | 2026-03-01 |" in plan.surfaces[0].text


def test_the_place_is_told_by_search_servers_and_citations(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.write("household.xlsx", workbook(household))
    cli.run("index")

    found = cli.run("search", "premium of Policy 39", "--mode", "lexical").stdout
    assert "household.xlsx, sheet Insurance, rows " in found
    assert "to 40 " in found.splitlines()[0]
    answer = cli.json("answer", "premium of Policy 39")
    assert answer["quotes"][0]["place"].startswith("sheet Insurance, rows ")
    assert "Policy 39" in answer["quotes"][0]["text"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (46082.0, "46082"),
        (1250.5, "1250.5"),
        (0.1 + 0.2, "0.3"),
        (1.234567890123457e19, "12345678901234570000"),
        (1234567890123456.0, "1234567890123456"),
        (-3.0, "-3"),
        (True, "TRUE"),
        (datetime(2026, 3, 1), "2026-03-01"),
        (datetime(2026, 3, 1, 14, 30), "2026-03-01 14:30"),
        (datetime(2026, 3, 1, 14, 30, 5), "2026-03-01 14:30:05"),
        (datetime(2026, 3, 1, 14, 30).date(), "2026-03-01"),
        (time(9, 5), "09:05"),
        (timedelta(hours=25, minutes=5), "25:05"),
        (timedelta(hours=-1, minutes=-30), "-1:30"),
        (timedelta(seconds=-30), "-0:00:30"),
        (timedelta(seconds=-0.3), "0:00"),
        (" two\nlines\f", "two lines"),
    ],
)
def test_a_value_is_written_as_a_person_reads_it(value: Any, text: str) -> None:
    assert cell_text(value) == text


def test_columns_have_the_letters_of_their_program() -> None:
    assert [column_name(i) for i in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_titles_merged_cells_formulas_and_errors() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("Budget | 2026")
        sheet.merge_range("A1:C1", "Household 2026")
        sheet.write_row(2, 0, ["Group", "Name", "Sum"])
        sheet.merge_range("A4:A5", "Car")
        sheet.write_row(3, 1, ["tax | fee", 120])
        sheet.write_row(4, 1, ["fuel", 80])
        sheet.write_formula(5, 2, "=SUM(C4:C5)", None, 200)
        sheet.write_formula(6, 2, "=1/0", None, "#DIV/0!")
        sheet.write_formula(7, 2, "=A1", None, "")

    text, notes = read(workbook(write))

    assert text == (
        "## Sheet Budget | 2026, row 1\n\nHousehold 2026\n\n"
        "## Sheet Budget | 2026, rows 4 to 6\n\n| Group | Name | Sum |\n| --- | --- | --- |\n"
        "| Car | tax \\| fee | 120 |\n| Car | fuel | 80 |\n|  |  | 200 |"
    )
    assert notes == ["formulas without a stored value: open and save it in its program", "cells with an error"]


def test_what_stands_beside_the_cells_is_counted() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Item", "Price"])
        sheet.write_row(1, 0, ["House", 3])
        sheet.write_comment(1, 0, "To be sold")
        sheet.insert_textbox(4, 4, "Boxed words")
        chart = book.add_chart({"type": "column"})
        chart.add_series({"values": "=Sheet1!$B$2:$B$2"})
        sheet.insert_chart(9, 4, chart)

    _, notes = read(workbook(write))

    assert sorted(notes) == ["charts, not read", "comments, not read", "text boxes, not read"]


def test_what_is_not_read_is_counted_whatever_a_program_calls_its_parts_and_prefixes() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Item", "Price"])
        sheet.write_formula(1, 1, "=1+2", None, "")
        sheet.write_formula(2, 1, "=1/0", None, "#DIV/0!")
        sheet.write_row(3, 0, ["House"])

    def prefixed(xml: bytes) -> bytes:
        return re.sub(rb"<(/?)(?=[a-z])", rb"<\1x:", xml).replace(b"xmlns=", b"xmlns:x=", 1)

    of_openpyxl = "<comments><commentList><comment ref='A1'/></commentList></comments>"
    payload = changed(workbook(write), "xl/worksheets/sheet1.xml", prefixed)
    for name, part in {
        "xl/comments/comment1.xml": of_openpyxl,
        "xl/charts/chartEx1.xml": '<cx:chartSpace xmlns:cx="c"/>',
        "xl/diagrams/data1.xml": '<dgm:dataModel xmlns:dgm="d"/>',
        "xl/embeddings/a.docx": "PK",
    }.items():
        payload = with_part(payload, name, part)

    text, notes = read(payload)

    assert text.endswith("| Item | Price |\n| --- | --- |\n| House |  |")
    assert sorted(notes) == [
        "SmartArt, not read",
        "cells with an error",
        "charts, not read",
        "comments, not read",
        "embedded documents, not read",
        "formulas without a stored value: open and save it in its program",
    ]


def test_what_stands_beside_the_cells_of_an_ods_is_counted() -> None:
    names = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    box = f"<table:shapes><draw:frame {names}><draw:text-box><text:p>Boxed</text:p></draw:text-box></draw:frame>"
    payload = changed(
        ods(("A", [["Item"], ["House"]])),
        "content.xml",
        lambda xml: xml.replace(b"<table:table-row>", f"{box}</table:shapes><table:table-row>".encode(), 1),
    )
    chart = '<office:document-content xmlns:office="o" xmlns:chart="c"><chart:chart chart:class="bar"/>'
    payload = with_part(payload, "Object 1/content.xml", f"{chart}</office:document-content>")
    failed = (
        b'<table:table-cell xmlns:calcext="urn:c" calcext:value-type="error"><text:p>#N/A</text:p></table:table-cell>'
    )
    payload = changed(
        payload, "content.xml", lambda xml: xml.replace(b"</table:table-cell>", b"</table:table-cell>" + failed, 1)
    )

    assert sorted(read(payload, "a.ods")[1]) == ["cells with an error", "charts, not read", "text boxes, not read"]


def test_a_number_of_an_ods_is_read_with_its_unit_and_leading_zeros() -> None:
    def cell(kind: str, value: str, text: str) -> bytes:
        return f'<table:table-cell office:value-type="{kind}" office:{value}><text:p>{text}</text:p>'.encode()

    cells = (
        cell("float", 'value="1067"', "01067"),
        cell("float", 'value="12"', "12 km"),
        cell("float", 'value="1250.5"', "1.250,50"),
        cell("time", 'time-value="PT26H30M00S"', "26:30"),
        cell("float", 'value="1250.5"', "1,250.50 €"),
        cell("float", 'value="-2.5"', "<text:s/>($2.50)"),
        cell("float", 'value="1250.5"', "1\u202f250,50"),
        cell("float", 'value="2.5"', "2 1/2"),
        cell("float", 'value="20"', "20 °"),
    )
    payload = changed(
        ods(("A", [["NUMBERS"]])),
        "content.xml",
        lambda xml: xml.replace(
            b'<table:table-cell office:value-type="string"><text:p>NUMBERS</text:p>', b"</table:table-cell>".join(cells)
        ),
    )

    assert read(payload, "a.ods")[0].endswith(
        "| 01067 | 12 km | 1250.5 | 26:30 | 1,250.50 € | ($2.50) | 1250.5 | 2.5 | 20 ° |"
    )


def test_a_raised_number_of_a_cell_does_not_become_part_of_the_number_before_it() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        up, down = book.add_format({"font_script": 1}), book.add_format({"font_script": 2})
        book.add_worksheet("A").write_rich_string(0, 0, "10", up, "6", " on the 1", up, "st", " of H", down, "2")

    assert read(workbook(write))[0].endswith("| 10⁶ on the 1st of H2 |")


@pytest.mark.parametrize(
    ("position", "text"), [("super 58%", "10⁶"), ("33% 58%", "10⁶"), ("sub 58%", "106"), ("-33% 58%", "106")]
)
def test_a_raised_number_of_an_ods_does_not_become_part_of_the_number_before_it(position: str, text: str) -> None:
    style = f'<style:style style:name="up"><style:text-properties style:text-position="{position}"/></style:style>'
    payload = changed(
        ods(("A", [["10SIX"]])),
        "content.xml",
        lambda xml: xml.replace(b"SIX", b'<text:span text:style-name="up">6</text:span>').replace(
            b"</office:automatic-styles>", f"{style}</office:automatic-styles>".encode()
        ),
    )

    assert read(payload, "a.ods")[0].endswith(f"| {text} |")


def test_a_table_without_a_header_has_the_letters_of_its_columns() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        book.add_worksheet("Empty")
        sheet = book.add_worksheet("Numbers")
        sheet.write_row(4, 2, [1, 2.5])
        sheet.write_row(5, 2, [3, 4])

    assert read(workbook(write)) == (
        "## Sheet Numbers, rows 5 to 6\n\n| C | D |\n| --- | --- |\n| 1 | 2.5 |\n| 3 | 4 |",
        ["empty sheets"],
    )


def test_a_merged_cell_beside_all_values_costs_no_workbook() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("S")
        for number, row in enumerate([["Name", "City"], ["Ann", "Rome"], ["Bob", "Oslo"]]):
            sheet.write_row(number, 0, row)
        sheet.merge_range("H2:H3", "")

    assert read(workbook(write))[0].endswith("| Name | City |\n| --- | --- |\n| Ann | Rome |\n| Bob | Oslo |")


PEOPLE = [["Employee", "Salary"], ["Ann", 1000], ["Bob", 1100]]


@pytest.mark.parametrize(
    ("rows", "headers"),
    [
        ([*PEOPLE, [], ["Product", "Stock"], ["Pen", 2], ["Ink", 3]], ["| Employee | Salary |", "| Product | Stock |"]),
        (
            [*PEOPLE, [], ["Stores"], ["Product", "Place", "Stock"], ["Pen", "Rome", 2]],
            ["| Employee | Salary |", "| Product | Place | Stock |"],
        ),
        ([*PEOPLE, [], [], ["Product", "Colour"], ["Pen", "red"]], ["| Employee | Salary |", "| A | B |"]),
        ([*PEOPLE, [], ["Cid", 1200], ["Dan", 1300]], ["| Employee | Salary |"]),
        ([*PEOPLE, [], ["Total", 2100]], ["| Employee | Salary |"]),
        ([["Household"], [], ["Group", "Sum"], ["Car", 120]], ["| Group | Sum |"]),
        ([["Group", "Sum"], [], ["Car", 120], ["Fuel", 80]], ["| Group | Sum |"]),
        ([["Author", "Ann"], [], ["Item", "Price", "Due"], ["Pen", 2, "May"]], ["| A | B |", "| Item | Price | Due |"]),
    ],
)
def test_each_of_several_tables_of_a_sheet_has_its_own_header(rows: list[list[Any]], headers: list[str]) -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("S")
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)

    text, _ = read(workbook(write))

    assert re.findall(r"(.*)\n\| ---", text) == headers


def test_a_row_too_wide_for_a_table_names_the_column_of_each_cell() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("Wide")
        sheet.write_row(0, 0, [f"Measurement {i}" for i in range(60)])
        sheet.write_row(1, 0, [f"value {i}" for i in range(59)])

    text, _ = read(workbook(write))

    assert text.startswith("## Sheet Wide, row 2\n\n- Measurement 0: value 0\n- Measurement 1: value 1\n")
    assert "Measurement 59" not in text


def test_old_and_open_workbooks_are_read() -> None:
    rows = "| House | 1250.5 | 2026-03-01 |"
    old, notes = read((DATA / "insurance.xls").read_bytes(), "a.xls")
    opened, _ = read(ods(("Insurance", [["Item", "Premium", "Due"], ["House", "1250.5", "2026-03-01"]])), "a.ods")

    assert old.startswith("## Sheet Insurance, rows 2 to 3\n")
    assert opened.startswith("## Sheet Insurance, row 2\n")
    assert rows in old
    assert rows in opened
    assert notes == [BINARY, "hidden sheets, not read"]


def test_pages_and_tables_of_text_under_the_name_of_a_workbook_are_read() -> None:
    assert read(b"\xef\xbb\xbf<table><tr><th>Item<tr><td>House</table>", "a.xls")[0] == "| Item |\n| --- |\n| House |"
    assert read(b"Item\tDue\nHouse\t2026\n", "a.xls")[0] == "Item\tDue\nHouse\t2026\n"


def test_an_open_workbook_has_the_title_and_author_of_its_properties() -> None:
    author = "<meta:initial-creator>Ada</meta:initial-creator><creator>Bo</creator>"
    about = f"<m xmlns:meta='m'><title>Household</title>{author}</m>"
    payload = with_part(ods(("A", [["Item"], ["House"]])), "meta.xml", about)

    found = convert_document("a.ods", payload, LIMIT)

    assert found is not None
    said = found.metadata
    assert (said["title"], said["author"]) == ("Household", "Ada")


def test_a_workbook_with_damaged_properties_is_read_without_them() -> None:
    payload = changed(workbook(household), "docProps/core.xml", lambda part: part[:100])

    text, notes = read(payload)

    assert "| Item | Premium | Due |" in text
    assert "damaged parts, not read" in notes


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("empty.xlsx", b"", "an empty file, not a valid spreadsheet"),
        ("cut.xlsx", workbook(household)[:4000], "damaged, or not a valid spreadsheet"),
        ("cut.xls", (DATA / "insurance.xls").read_bytes()[:3000], "damaged, or not a valid spreadsheet"),
        ("other.xlsx", zipped({"a.txt": "text"}), "damaged, or not a valid spreadsheet"),
        ("noise.xls", bytes(range(256)) * 4, "not what its name says"),
        ("locked.ods", ods(("A", [["a"]]), encrypted=True), "with a password"),
        ("locked.xlsx", b"\xd0\xcf\x11\xe0" + bytes(600) + "EncryptedPackage".encode("utf-16-le"), "with a password"),
        ("blank.xlsx", workbook(lambda book: book.add_worksheet()), "no text in this spreadsheet"),
        ("bomb.xlsx", zipped({"xl/worksheets/sheet1.xml": bytes(201_000_000)}), "unpacks to 201,000,000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_workbook_that_cannot_be_read_fails_in_one_line(name: str, payload: bytes, words: str) -> None:
    with pytest.raises(ReadError, match=words) as raised:
        convert_document(name, payload, LIMIT)

    assert "\n" not in str(raised.value)


def test_a_sheet_of_more_text_than_the_limit_fails_by_name() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        for i in range(5_000):
            sheet.write_row(i, 0, [f"row {i}", i])

    with pytest.raises(ReadError, match=r"more than source\.max_bytes = 90,000") as raised:
        convert_document("a.xlsx", workbook(write), 90_000)

    assert raised.value.kind == "too_large"


@pytest.mark.skipif(MEMORY_BYTES > 2**37, reason="the memory of the process is not limited")
def test_a_cell_at_the_far_corner_fails_its_workbook_alone() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet()
        sheet.write(0, 0, "near")
        sheet.write(1_048_575, 16_383, "far")

    with pytest.raises(ReadError, match="out of memory"):
        convert_document("a.xlsx", workbook(write), LIMIT)
    assert read(workbook(household))[0]


@pytest.mark.parametrize("suffix", WORKBOOKS)
def test_every_suffix_of_a_workbook_has_its_converters_in_the_stamp(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a{suffix}").write_bytes(b"x")

    assert "python-calamine-" in Files(tmp_path).discover().listings[0].stamp
