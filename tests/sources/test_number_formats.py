"""A number of a workbook has the unit that its program shows with it."""

from __future__ import annotations

import pytest
import xlsxwriter

from findingaid.sources.converters.convert import convert
from findingaid.sources.converters.number_formats import number_format
from tests.support.documents import changed, ods, workbook

ACCOUNTING = '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)'


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("0%", 0.07, "7%"),
        ("0.0%;[Red](0.0%)", -0.125, "-12.5%"),
        ('0.00%" p.a."', 0.5, "50% p.a."),
        ('0"%"', 50.0, "50%"),
        ('#,##0.00 "EUR"', 1250.0, "1250 EUR"),
        ("[$EUR] #,##0", 1250.5, "EUR 1250.5"),
        ("_-* #,##0.00\\ €_-;\\-* #,##0.00\\ €_-", -3.0, "-3 €"),
        (ACCOUNTING, -3.0, "-$3"),
        ('\\$#,##0.00;"($"#,##0.00\\)', -3.0, "-$3"),
        ('0" (net)"', 3.0, "3 (net)"),
        ('0" days"', 3.0, "3 days"),
        ('"Q"0', 3.0, "Q3"),
        ("00000", 1067.0, "01067"),
        ('"a;b "0', 1.0, "a;b 1"),
    ],
)
def test_a_number_is_shown_with_what_its_format_adds(code: str, number: float, text: str) -> None:
    found = number_format(code)

    assert found is not None
    assert found.shown(number) == text


@pytest.mark.parametrize(
    "code",
    [
        *("General", "0", "#,##0.00", "#,##0;(#,##0)", "0.00E+00", "# ?/?", "000-00-0000", "yyyy-mm-dd", "[h]:mm"),
        *("@", "", ";;;", '0.0,,"M"', '[>=1000]0"k";0', '0" up";0" down"'),
    ],
)
def test_a_format_that_adds_nothing_or_changes_the_digits_leaves_the_number(code: str) -> None:
    assert number_format(code) is None


def test_cells_of_excel_have_their_units() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        percent, money = (book.add_format({"num_format": code}) for code in ("0%", '0" <€>"'))
        sheet = book.add_worksheet("A")
        sheet.write_row(0, 0, ["What", "Value"])
        sheet.write_row(1, 0, ["rent", 1250], money)
        sheet.write(2, 0, "rate")
        sheet.write_formula(2, 1, "=B2/2", percent, 0.25)
        sheet.write_formula(3, 1, '="x"&"y"', percent, "xy")
        sheet.write(4, 0, True, percent)
        sheet.write(4, 1, 0.5)

    assert convert(".xlsx", workbook(write), 1_000_000).text.endswith(
        "| What | Value |\n| --- | --- |\n| rent | 1250 <€> |\n| rate | 25% |\n|  | xy |\n| TRUE | 0.5 |"
    )


@pytest.mark.parametrize(("mac", "day"), [(False, "1850-05-01"), (True, "1854-05-02")])
def test_dates_before_the_first_day_and_negative_times_are_those_that_a_program_shows(mac: bool, day: str) -> None:
    codes = ["yyyy-mm-dd", "h:mm", "[$-409]d/m/yy", "mm:ss", '0.0 "d"']

    def write(book: xlsxwriter.Workbook) -> None:
        book.date_1904 = mac
        sheet = book.add_worksheet("A")
        sheet.write_row(0, 0, ["B", "C", "D", "E", "F"])
        for column, code in enumerate(codes):
            sheet.write(1, column, -18140 if "y" in code else -0.1, book.add_format({"num_format": code}))

    text = convert(".xlsx", workbook(write), 1_000_000).text

    assert text.endswith(f"| {day} | -2:24 | {day} | -2:24 | -0.1 d |")


def test_a_sheet_with_units_keeps_its_raised_digits() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("A")
        sheet.write_row(0, 0, ["What", "Value"])
        sheet.write_row(1, 0, [1, 0.25], book.add_format({"num_format": "0%"}))

    power = b"<is><r><t>10</t></r><r><rPr><vertAlign val='superscript'/></rPr><t>6</t></r></is>"
    payload = changed(
        workbook(write),
        "xl/worksheets/sheet1.xml",
        lambda xml: xml.replace(b'<c r="A2" s="1"><v>1</v>', b'<c r="A2" t="inlineStr">' + power),
    )

    assert convert(".xlsx", payload, 1_000_000).text.endswith("| 10⁶ | 25% |")


def test_amounts_alone_are_no_names_of_columns() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        money = book.add_format({"num_format": '0.00 "EUR"'})
        book.add_worksheet("A").write_row(0, 0, [1250, 80], money)

    assert convert(".xlsx", workbook(write), 1_000_000).text.endswith("| A | B |\n| --- | --- |\n| 1250 EUR | 80 EUR |")


def test_a_unit_alone_is_a_name_of_a_column() -> None:
    def write(book: xlsxwriter.Workbook) -> None:
        sheet = book.add_worksheet("A")
        sheet.write_row(0, 0, ["Item", "€"])
        sheet.write_row(1, 0, ["Rent", 1250])

    assert convert(".xlsx", workbook(write), 1_000_000).text.endswith("| Item | € |\n| --- | --- |\n| Rent | 1250 |")


@pytest.mark.parametrize(("kind", "text"), [("percentage", "12,5 %"), ("currency", "1.250,00 €"), ("float", "0.125")])
def test_cells_of_open_document_have_their_units(kind: str, text: str) -> None:
    cell = f'office:value-type="{kind}" office:value="0.125"><text:p>{text}'
    payload = changed(
        ods(("A", [["VALUE"]])),
        "content.xml",
        lambda xml: xml.replace(b'office:value-type="string"><text:p>VALUE', cell.encode()),
    )

    assert convert(".ods", payload, 1_000_000).text.endswith(f"| {text} |")
