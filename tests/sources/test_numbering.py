"""Numbers of lists are those that a reader sees, and signs of Markdown in a text make no headings."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml

from findingaid.sources.converters.convert import convert
from findingaid.sources.converters.numbering import as_label
from findingaid.text.markdown import headings

LIMIT = 1_000_000
NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def word(write: Callable[[Any], None], *levels: tuple[str, str, str], override: str = "") -> str:
    """Return the text of a document that has a list 90, with a list 91 that counts with it."""
    document = docx.Document()
    numbering = document.part.numbering_part.element
    made = "".join(
        f'<w:lvl w:ilvl="{i}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
        for i, (kind, text, more) in enumerate(levels)
    )
    first = numbering.find(f"{{{NAMESPACE[9:-1]}}}num")
    first.addprevious(parse_xml(f'<w:abstractNum {NAMESPACE} w:abstractNumId="90">{made}</w:abstractNum>'))
    for number, more in (("90", ""), ("91", override)):
        numbering.append(
            parse_xml(f'<w:num {NAMESPACE} w:numId="{number}"><w:abstractNumId w:val="90"/>{more}</w:num>')
        )
    write(document)
    packed = io.BytesIO()
    document.save(packed)
    return convert(".docx", packed.getvalue(), LIMIT).text


def item(document: Any, text: str, level: int = 0, number: str = "90", style: str = "", removed: bool = False) -> None:
    properties = document.add_paragraph(text, style=style or None)._p.get_or_add_pPr()
    properties.append(parse_xml(f'<w:numPr {NAMESPACE}><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'))
    if removed:
        properties.append(parse_xml(f"<w:rPr {NAMESPACE}><w:del/></w:rPr>"))


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_a_list_of_word_goes_on_behind_a_paragraph() -> None:
    def write(document: Any) -> None:
        for text in ("first", "second"):
            document.add_paragraph(text, style="List Number")
        document.add_paragraph("between")
        document.add_paragraph("third", style="List Number")
        document.add_paragraph("point", style="List Bullet")

    assert lines(word(write)) == ["1. first", "2. second", "between", "3. third", "* point"]


def test_levels_of_word_are_numbered_as_their_labels_say() -> None:
    def write(document: Any) -> None:
        item(document, "Liability")
        item(document, "of the seller", 1)
        item(document, "of the buyer", 1)
        item(document, "at home", 2)
        item(document, "Term")
        item(document, "of a year", 1)
        item(document, "renewed", 2)
        item(document, "without a number", 3)

    levels = (
        ("upperRoman", "Article %1", ""),
        ("decimal", "%1.%2", "<w:isLgl/>"),
        ("lowerLetter", "(%3)", ""),
        ("none", "", ""),
    )
    assert lines(word(write, *levels)) == [
        "Article I Liability",
        "1.1 of the seller",
        "1.2 of the buyer",
        "(a) at home",
        "Article II Term",
        "2.1 of a year",
        "(a) renewed",
        "without a number",
    ]


def test_a_list_of_word_begins_anew_where_it_says_so_and_removed_paragraphs_do_not_count() -> None:
    def write(document: Any) -> None:
        item(document, "one")
        item(document, "", removed=True)
        item(document, "two")
        item(document, "five", number="91")
        item(document, "six", number="91")

    override = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride>'
    read = lines(word(write, ("decimal", "%1.", ""), override=override))
    assert read == ["1. one", "2. two", "5. five", "6. six"]


def test_headings_of_word_have_their_numbers() -> None:
    def write(document: Any) -> None:
        for level, text in ((1, "Scope"), (2, "Parties"), (1, "Price")):
            properties = document.add_heading(text, level)._p.get_or_add_pPr()
            numbered = f'<w:numPr {NAMESPACE}><w:ilvl w:val="{level - 1}"/><w:numId w:val="90"/></w:numPr>'
            properties.append(parse_xml(numbered))

    text = word(write, ("decimal", "%1", '<w:pStyle w:val="Heading1"/>'), ("decimal", "%1.%2", ""))
    assert [title for _, title, _ in headings(text)] == ["1 Scope", "1.1 Parties", "2 Price"]


@pytest.mark.parametrize(
    ("number", "kind", "label"),
    [
        (28, "lowerLetter", "bb"),
        (4, "upperRoman", "IV"),
        (7, "decimalZero", "07"),
        (0, "lowerRoman", "0"),
        (3, "chicago", "3"),
        (3, "none", ""),
    ],
)
def test_a_number_is_written_as_its_list_shows_it(number: int, kind: str, label: str) -> None:
    assert as_label(number, kind) == label


@pytest.mark.parametrize(
    ("page", "read"),
    [
        ("<ol start=5><li>five<li>six</ol>", ["5. five", "6. six"]),
        ("<ol><li>one<li value=9>nine<li>ten</ol>", ["1. one", "9. nine", "10. ten"]),
        ("<ol reversed><li>two<li><p>one</p></ol>", ["2. two", "1. one"]),
        ("<ol type=a><li>alpha<ol type=i><li>roman</ol></ol>", ["a. alpha", "i. roman"]),
        ('<ol style="list-style-type: upper-alpha" start=3><li>C</ol>', ["C. C"]),
        ("<p># no heading</p><p>Sum<br>---<br>end</p>", [r"\# no heading", "Sum  ", r"\---  ", "end"]),
        ("<pre># a comment</pre>", ["```", "# a comment", "```"]),
        (
            "<table><tfoot><tr><td>Sum<td>3</tfoot><thead><tr><th>Item<th>Price</thead><tr><td>Pen<td>3</table>",
            ["| Item | Price |", "| --- | --- |", "| Pen | 3 |", "| Sum | 3 |"],
        ),
        (
            "<table><tr><th>Year<th>Sum</tr><tr><td><h4>2024</h4>15 units<td>3</table>",
            ["| Year | Sum |", "| --- | --- |", "| 2024 15 units | 3 |"],
        ),
        (
            '<table><tr><th>Page<th>Sum</tr><tr><td><a href="/a|b">l</a><img src=i alt="x|y"><td>3</table>',
            ["| Page | Sum |", "| --- | --- |", r"| [l](/a%7Cb)![x\|y](i) | 3 |"],
        ),
        ("<p>3 of <meter>5</meter><progress>70%</progress></p>", ["3 of", "5", "70%"]),
    ],
)
def test_a_page_is_read_as_it_is_shown(page: str, read: list[str]) -> None:
    made = convert(".html", f"<html><body>{page}</body></html>".encode(), LIMIT).text

    assert lines(made) == read
    assert not [*headings(made)]


def test_a_line_of_word_or_a_slide_that_begins_as_a_heading_of_markdown_is_none() -> None:
    from pptx import Presentation

    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_textbox(0, 0, 999999, 999999).text_frame.text = "# pip install this"
    packed = io.BytesIO()
    deck.save(packed)

    assert not [*headings(convert(".pptx", packed.getvalue(), LIMIT).text)]
    assert not [*headings(word(lambda document: document.add_paragraph("# pip install this")))]
