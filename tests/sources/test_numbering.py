"""Numbers of lists are those that a reader sees, and signs of Markdown in a text make no headings."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pptx
import pytest
from docx.oxml import parse_xml

from findingaid.sources.converters.convert import convert
from findingaid.sources.converters.numbering import as_label
from findingaid.text.markdown import headings
from tests.support.documents import opendocument, word_file

LIMIT = 1_000_000
NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SLIDE_NAMESPACE = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def word(write: Callable[[Any], None], *levels: tuple[str, str, str], override: str = "") -> str:
    """Return the text of a document that has a list 90, with a list 91 that counts with it."""
    document = word_file()
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


def test_a_box_before_an_item_of_word_is_kept() -> None:
    def write(document: Any) -> None:
        item(document, "done")
        item(document, "open", 1)

    assert lines(word(write, ("bullet", "\u2612", ""), ("bullet", "\u2610", ""))) == ["\u2612 done", "\u2610 open"]


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


NUMBERED = (
    '<text:list-style style:name="L1">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="(" style:num-suffix=")"/>'
    '<text:list-level-style-number text:level="3" style:num-format="1" text:display-levels="3"/>'
    '</text:list-style><text:list-style style:name="L2">'
    '<text:list-level-style-bullet text:level="1" text:bullet-char="-"/></text:list-style>'
    '<text:list-style style:name="L3">'
    '<text:list-level-style-number text:level="1" style:num-format="I" text:start-value="4"/></text:list-style>'
    '<text:list-style style:name="L4"><text:list-level-style-bullet text:level="1" text:bullet-char="\u2612"/>'
    "</text:list-style>"
    '<style:style style:name="Plain" style:family="paragraph" style:list-style-name=""/>'
    '<style:style style:name="Own" style:family="paragraph" style:parent-style-name="Plain"/>'
    '<text:outline-style style:name="Outline">'
    '<text:outline-level-style text:level="1" style:num-format="1"/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2" style:num-suffix="."/>'
    '<text:outline-level-style text:level="3" style:num-format=""/></text:outline-style>'
)


def items(*words: str, style: str = "L1", said: str = "") -> str:
    """Return a list of OpenDocument. An item that begins with a sign of XML is what is in it, as it is."""
    made = "".join(f"<text:list-item>{w if w[0] == '<' else f'<text:p>{w}</text:p>'}</text:list-item>" for w in words)
    return f'<text:list text:style-name="{style}" {said}>{made}</text:list>'


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (items("one", "two"), ["1. one", "2. two"]),
        (items("one") + "<text:p>x</text:p>" + items("two"), ["1. one", "x", "1. two"]),
        (
            items("one") + "<text:p>x</text:p>" + items("two", said='text:continue-numbering="true"'),
            ["1. one", "x", "2. two"],
        ),
        (
            items("one", said='xml:id="a"') + items("IV", style="L3") + items("two", said='text:continue-list="a"'),
            ["1. one", "IV IV", "2. two"],
        ),
        (
            items("<text:p>one</text:p>" + items("red", "<text:p>blue</text:p>" + items("deep")), "two"),
            ["1. one", "(a) red", "(b) blue", "1.b.1 deep", "2. two"],
        ),
        (
            items("one") + items("<text:p/>", f"{items('red')}", said='text:continue-numbering="true"'),
            ["1. one", "2.", "(a) red"],
        ),
        (items("one", "two", style="L2"), ["* one", "* two"]),
        (items("one", style="unknown"), ["* one"]),
        (items("one", "two", style="L4"), ["\u2612 one", "\u2612 two"]),
        (
            '<text:list text:style-name="L1"><text:list-header><text:p>Head</text:p></text:list-header>'
            '<text:list-item text:start-value="7"><text:p>seven<text:number>7</text:number></text:p></text:list-item>'
            "</text:list>",
            ["Head", "7. seven"],
        ),
        (
            '<text:h text:outline-level="1">A</text:h><text:h text:outline-level="2">B</text:h>'
            '<text:h text:outline-level="3">C</text:h><text:h text:outline-level="2" text:style-name="Own">D</text:h>'
            '<text:h text:outline-level="2">E</text:h>'
            '<text:h text:outline-level="1" text:is-list-header="true">F</text:h>'
            + items(
                '<text:h text:outline-level="1">G</text:h>', style="Outline", said='text:continue-numbering="true"'
            ),
            ["# 1 A", "## 1.1. B", "### C", "## D", "## 1.2. E", "# F", "# 2 G"],
        ),
    ],
)
def test_numbers_of_lists_and_headings_of_an_opendocument_are_shown(body: str, shown: list[str]) -> None:
    text = convert(".odt", opendocument(f"<office:text>{body}</office:text>", NUMBERED), LIMIT).text

    assert lines(text) == shown


def test_numbered_lines_of_a_slide_have_the_numbers_that_are_shown() -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    for text, level, kind, start in [
        ("one", 0, "arabicPeriod", 1),
        ("deep", 1, "alphaLcParenR", 1),
        ("deeper", 1, "alphaLcParenR", 1),
        ("two", 0, "arabicPeriod", 1),
        ("", 0, "arabicPeriod", 1),
        ("three", 0, "arabicPeriod", 1),
        ("deep again", 1, "alphaLcParenR", 1),
        ("plain", 0, "", 1),
        ("anew", 0, "arabicPeriod", 1),
        ("four", 0, "romanUcParenBoth", 4),
        ("five", 0, "romanUcParenBoth", 4),
        ("unknown", 0, "thaiNumPeriod", 1),
        ("done", 0, "\u2612", 1),
        ("mere", 0, "\u2022", 1),
    ]:
        paragraph = slide.placeholders[1].text_frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
        if kind:
            number = f'<a:buAutoNum {SLIDE_NAMESPACE} type="{kind}" startAt="{start}"/>'
            number = f'<a:buChar {SLIDE_NAMESPACE} char="{kind}"/>' if len(kind) == 1 else number
            paragraph._p.get_or_add_pPr().append(parse_xml(number))
    made = io.BytesIO()
    deck.save(made)

    found = convert(".pptx", made.getvalue(), LIMIT)

    assert lines(found.text) == [
        *("1. one", "a) deep", "b) deeper", "2. two", "3. three", "a) deep again", "plain"),
        *("1. anew", "(IV) four", "(V) five", "1. unknown", "\u2612 done", "mere"),
    ]
    assert not found.notes
