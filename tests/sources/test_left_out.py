"""Notes of converters on what they leave out, and what they read although it is in no paragraph."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping

import pptx
import pytest
from PIL import Image
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.pdfgen.canvas import Canvas

from findingaid.errors import ReadError
from findingaid.sources.converters.convert import convert
from findingaid.sources.documents import OCR
from tests.support.documents import (
    changed,
    drawn,
    epub,
    notebook,
    pdf,
    pdf_without_letters,
    slides,
    with_part,
    word,
    zipped,
)

LIMIT = 20_000_000

BASE = word(("Head", "Of the ledger."))
MARK = "Of the ledger."

NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
    ' xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    ' xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:v="urn:schemas-microsoft-com:vml"'
)
PLAIN, STRICT = rb"http://schemas\.openxmlformats\.org/(\w+)/2006/", rb"http://purl.oclc.org/ooxml/\1/"
"""Beginning of the names of elements, and that in files that Office saves as strict."""

RUN = "<w:r><w:t>{}</w:t></w:r>".format
BOX = "<w:txbxContent><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:txbxContent>".format
DRAWN = "<w:drawing><wp:anchor><a:graphic>{}</a:graphic></wp:anchor></w:drawing>".format
PICTURE = (
    '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="x" descr="A heron"/><a:graphic><a:graphicData><pic:pic>'
    '<pic:blipFill><a:blip r:{}="rX"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing>'
    "</w:r>"
).format


def words_of(content: str) -> str:
    """Return a paragraph with this content, with its namespaces."""
    return f"<w:p {NAMES}>{content}</w:p>"


def document(content: str, relation: str = "", **parts: str | bytes) -> bytes:
    """Create a Word file with more elements behind its paragraph, and more parts, with `__` for the slash."""
    made = changed(BASE, "word/document.xml", lambda xml: xml.replace(b"<w:sectPr", content.encode() + b"<w:sectPr"))
    if relation:
        made = changed(
            made,
            "word/_rels/document.xml.rels",
            lambda xml: xml.replace(b"</Relationships>", relation.encode() + b"</Relationships>"),
        )
    for name, part in parts.items():
        made = with_part(made, name.replace("__", "/"), part)
    return made


def relation(kind: str, target: str, more: str = "") -> str:
    folder = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    return f'<Relationship Id="rX" Type="{folder}/{kind}" Target="{target}"{more}/>'


def counted(suffix: str, payload: bytes) -> Mapping[str, int]:
    return {note.words: note.count for note in convert(suffix, payload, LIMIT).notes}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f'<w:fldSimple w:instr="AUTHOR">{RUN("Ada wrote")}</w:fldSimple>', "Ada wrote"),
        (f"<w:moveFrom>{RUN('old')}</w:moveFrom><w:moveTo>{RUN('moved')}</w:moveTo>", "moved"),
        (f'<w:customXml w:element="x"><w:customXmlPr/>{RUN("tagged")}</w:customXml>', "tagged"),
        (f"<w:dir>{RUN('turned')}</w:dir>", "turned"),
        (f"<w:r><w:ruby><w:rt>{RUN('kan')}</w:rt><w:rubyBase>{RUN('漢字')}</w:rubyBase></w:ruby></w:r>", "漢字"),
        ("<w:r><w:t>one</w:t><w:ptab/><w:t>two</w:t><w:cr/><w:t>three</w:t></w:r>", "one two  \nthree"),
        (f"{RUN('before')}<w:r>{DRAWN(BOX('boxed'))}</w:r>", "before\n\nboxed"),
        (f"<w:r>{DRAWN(BOX('outer') + DRAWN(BOX('inner')))}</w:r>", "outer\n\ninner"),
        (
            f"<w:r><mc:AlternateContent><mc:Choice>{DRAWN(BOX('once'))}</mc:Choice><mc:Fallback><w:pict><v:shape>"
            f"<v:textbox>{BOX('once')}</v:textbox></v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r>",
            "once",
        ),
    ],
)
def test_words_in_wrappers_and_boxes_of_word_are_read_once(content: str, text: str) -> None:
    made = convert(".docx", document(words_of(content)), LIMIT)

    assert made.text == f"# Head\n\n{MARK}\n\n{text}"
    assert made.notes == []


def test_cells_of_word_beside_one_that_is_merged_downwards_stay_below_their_headers() -> None:
    def cell(words: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{RUN(words) if words else ''}</w:p></w:tc>"

    rows = (
        cell("Region") + cell("Item"),
        cell("North", '<w:vMerge w:val="restart"/>') + cell("Lamp"),
        cell("", "<w:vMerge/>") + cell("Rope"),
    )
    table = f"<w:tbl {NAMES}>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"

    assert convert(".docx", document(table), LIMIT).text.endswith(
        "| Region | Item |\n| North | Lamp |\n| North | Rope |"
    )


def test_a_table_within_a_table_stays_one_and_the_outer_one_is_layout() -> None:
    def table(*rows: list[str]) -> str:
        made = [f"<w:tr>{''.join(row)}</w:tr>" for row in rows]
        return f"<w:tbl>{''.join(made)}</w:tbl>"

    def cell(words: str, more: str = "") -> str:
        return f"<w:tc>{more}<w:p>{RUN(words)}</w:p></w:tc>"

    inner = table([cell("Item"), cell("Price")], [cell("Lamp"), cell("12")])
    outer = table([cell("Before", inner), cell("Behind")]).replace("<w:tbl>", f"<w:tbl {NAMES}>", 1)
    page = (
        "<table><tr><td><table><tr><th>Item<th>Price<tr><td>Lamp<td>12</table>Before<td>Behind</table>"
        "<table><tr><th>a<tr><td>b</table>"
    )

    read = convert(".docx", document(outer), LIMIT).text
    assert read.endswith("|  |  |\n| --- | --- |\n| Item | Price |\n| Lamp | 12 |\n\nBefore\n\nBehind")
    assert convert(".html", page.encode(), LIMIT).text == (
        "| Item | Price |\n| --- | --- |\n| Lamp | 12 |\n\nBefore\n\nBehind\n\n| a |\n| --- |\n| b |"
    )


def test_a_row_of_word_that_begins_further_right_stays_below_its_headers() -> None:
    def row(properties: str, *cells: str) -> str:
        return f"<w:tr>{properties}{''.join(f'<w:tc><w:p>{RUN(words)}</w:p></w:tc>' for words in cells)}</w:tr>"

    further = row('<w:trPr><w:gridBefore w:val="2"/></w:trPr>', "North")
    table = f"<w:tbl {NAMES}>{row('', 'Day', 'Item', 'Region')}{further}</w:tbl>"

    text = convert(".docx", document(table), LIMIT).text
    assert text.endswith("| Day | Item | Region |\n| --- | --- | --- |\n|  | | North |")


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ('<w:result w:val="1"/>', "Colour: blue"),
        ('<w:default w:val="1"/>', "Colour: blue"),
        ("", "Colour: red"),
        ('<w:result w:val="7"/>', "Colour:"),
    ],
)
def test_what_is_chosen_in_a_drop_down_field_of_word_is_read(chosen: str, text: str) -> None:
    entries = '<w:listEntry w:val="red"/><w:listEntry w:val="blue"/>'
    field = (
        f'{RUN("Colour:")}<w:r><w:t xml:space="preserve"> </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"><w:ffData>'
        f"<w:ddList>{chosen}{entries}</w:ddList></w:ffData></w:fldChar></w:r><w:r><w:instrText>FORMDROPDOWN"
        '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )

    assert convert(".docx", document(words_of(field)), LIMIT).text.strip().endswith(text)


def test_a_raised_number_of_word_does_not_become_part_of_the_number_before_it() -> None:
    def up(words: str) -> str:
        return f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{words}</w:t></w:r>'

    made = convert(".docx", document(words_of(f"{RUN('10')}{up('-6')}{RUN(' on the 1')}{up('st')}")), LIMIT)

    assert made.text.endswith("10⁻⁶ on the 1st")
    assert made.notes == []


def test_a_raised_number_of_a_slide_does_not_become_part_of_the_number_before_it() -> None:
    up = b'10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>7</a:t>'
    deck = changed(slides(("Head", "TEN")), "ppt/slides/slide1.xml", lambda xml: xml.replace(b"TEN</a:t>", up))

    assert "10⁶7" in convert(".pptx", deck, LIMIT).text


MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
FRACTION = "<m:f><m:num><m:r><m:t>{}</m:t></m:r></m:num><m:den><m:r><m:t>4</m:t></m:r></m:den></m:f>".format
FORMULA = f"<m:oMath {MATH}>{{}}</m:oMath>".format


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (FORMULA(FRACTION(3)), r"$\frac{3}{4}$"),
        (f"<m:oMathPara {MATH}>{FORMULA(FRACTION(3))}</m:oMathPara>", r"$$\frac{3}{4}$$"),
        (FORMULA("<m:borderBox><m:e><m:r><m:t>81</m:t></m:r></m:e></m:borderBox>"), "$81$"),
    ],
)
def test_a_formula_that_the_converter_does_not_know_costs_no_other(content: str, text: str) -> None:
    other = FORMULA("<m:r><m:t>a=7</m:t></m:r>")
    made = convert(".docx", document(words_of(content) + words_of(other)), LIMIT)

    assert made.text.endswith(f"\n\n{text}\n\n$a=7$")
    assert not made.notes


@pytest.mark.parametrize(("begin", "end", "text"), [("", "", "$"), (f"<m:oMathPara {MATH}>", "</m:oMathPara>", "$$")])
def test_a_formula_of_a_slide_is_read(begin: str, end: str, text: str) -> None:
    wrapper = "<a14:m xmlns:a14='http://schemas.microsoft.com/office/drawing/2010/main'>"
    formula = f"{wrapper}{begin}{FORMULA(FRACTION(3))}{end}</a14:m>".encode()
    deck = changed(
        slides(("Head", "TEN")),
        "ppt/slides/slide1.xml",
        lambda xml: xml.replace(b"TEN</a:t></a:r>", b"Half of </a:t></a:r>" + formula),
    )

    assert convert(".pptx", deck, LIMIT).text.endswith(f"Half of {text}\\frac{{3}}{{4}}{text}")


def test_a_bar_of_a_formula_does_not_end_its_cell() -> None:
    cells = "".join(f"<w:tc>{words_of(each)}</w:tc>" for each in (FORMULA("<m:r><m:t>|v|</m:t></m:r>"), RUN("4")))
    table = f"<w:tbl {NAMES}><w:tr>{cells}</w:tr></w:tbl>"

    assert r"| $\|v\|$ | 4 |" in convert(".docx", document(table), LIMIT).text


@pytest.mark.parametrize("kind", ["page", "column", "textWrapping"])
def test_words_before_and_behind_the_end_of_a_page_stay_apart(kind: str) -> None:
    made = document(words_of(f'{RUN("412")}<w:r><w:br w:type="{kind}"/></w:r>{RUN("300 EUR")}'))

    assert convert(".docx", made, LIMIT).text.split()[-3:] == ["412", "300", "EUR"]


def test_symbols_of_word_are_read_or_counted() -> None:
    symbols = "".join(
        f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'
        for font, code in (("Symbol", "F061"), ("Symbol", "62"), ("Icons", "F061"), ("Symbol", "F0FF1"))
    )
    payload = document(words_of(symbols))

    assert convert(".docx", payload, LIMIT).text.endswith("αβ")
    assert counted(".docx", payload) == {"symbols of a font that is not known, not read": 2}


def test_words_in_an_element_that_nobody_knows_are_counted() -> None:
    payload = document(words_of(f"<w:novel>{RUN('three lost words')}</w:novel>"))

    assert counted(".docx", payload) == {"words in elements that the converter does not know, not read": 3}


@pytest.mark.parametrize(
    ("root", "said"),
    [
        ("w:hdr", "headers and footers, not read"),
        ("w:ftr", "headers and footers, not read"),
        ("dgm:dataModel", "SmartArt, not read"),
        ("c:chartSpace", "charts, not read"),
        ("w:comments", "comments, not read"),
    ],
)
def test_parts_of_word_that_are_not_read_are_counted_unless_their_words_are_in_the_text(root: str, said: str) -> None:
    lost, there, number = (f"<{root} {NAMES}>{RUN(text)}</{root}>" for text in ("a lost word", MARK, "12"))

    assert counted(".docx", document("", part__1=lost)) == {}
    assert counted(".docx", document("", **{"part/1.xml": lost})) == {said: 1}
    assert counted(".docx", document("", **{"part/1.xml": there})) == {}
    assert counted(".docx", document("", **{"part/1.xml": number})) == {}


@pytest.mark.parametrize(
    "words",
    [
        "<p:cm><p:text>Fix this</p:text></p:cm>",
        "<p:cm><p:txBody><a:p><a:r><a:t>Fix</a:t></a:r></a:p></p:txBody></p:cm>",
    ],
)
def test_comments_of_old_and_new_powerpoint_are_counted(words: str) -> None:
    names = f'{NAMES} xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    deck = with_part(slides(("Head", "text")), "ppt/comments/comment1.xml", f"<p:cmLst {names}>{words}</p:cmLst>")

    assert counted(".pptx", deck) == {"comments, not read": 1}


def test_parts_of_a_users_own_xml_are_not_counted() -> None:
    own = '<x:comments xmlns:x="urn:own"><x:t>a word of mine</x:t></x:comments>'

    assert counted(".docx", document("", **{"customXml/item1.xml": own})) == {}


@pytest.mark.parametrize(("place", "text"), [("8", "10\u2076"), ("0", "106"), ("-8", "106")])
def test_a_digit_that_stands_higher_is_raised_in_another_way_of_word_to_say_so(place: str, text: str) -> None:
    up = f'{RUN("10")}<w:r><w:rPr><w:position w:val="{place}"/></w:rPr><w:t>6</w:t></w:r>'

    assert text in convert(".docx", document(words_of(up)), LIMIT).text


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"word/", b"text/"), (b"ppt/", b"deck/"), (b"slides/", b"pages/"), (PLAIN, STRICT)],
)
def test_a_document_is_read_whatever_its_program_calls_parts_and_elements(before: bytes, after: bytes) -> None:
    up = f'{RUN("10")}<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>6</w:t></w:r>'
    header = f"<w:hdr {NAMES}>{words_of(RUN('a lost word'))}</w:hdr>"
    text = document(words_of(f"<w:novel>{RUN('lost')}</w:novel>{up}"), **{"word/header1.xml": header})
    deck = changed(
        slides(("Head", "TEN")),
        "ppt/slides/slide1.xml",
        lambda xml: xml.replace(b"TEN</a:t>", b'10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t>'),
    )

    for suffix, payload in ((".docx", text), (".pptx", deck)):
        found, whole = convert(suffix, _renamed(payload, before, after), LIMIT), convert(suffix, payload, LIMIT)
        assert "10\u2076" in found.text
        assert found == whole
        assert len(found.notes) == (2 if suffix == ".docx" else 0)


def _renamed(payload: bytes, before: bytes, after: bytes) -> bytes:
    """Return a document with other names of parts and elements, in all parts that are text."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    kinds = (".xml", ".rels")
    return zipped(
        {
            re.sub(before, after, name.encode()).decode(): re.sub(before, after, part) if name.endswith(kinds) else part
            for name, part in parts.items()
        }
    )


def test_a_document_whose_main_part_is_damaged_fails() -> None:
    for suffix, payload, part in (
        (".docx", BASE, "word/document.xml"),
        (".pptx", slides(("a", "b")), "ppt/presentation.xml"),
    ):
        with pytest.raises(ReadError, match="damaged, or not a valid"):
            convert(suffix, with_part(payload, part, b"<cut"), LIMIT)


def test_a_document_inserted_into_another_is_read_in_its_place_or_counted() -> None:
    page = "<h1>Minutes</h1><p>The heron landed.</p>"
    chunk = f'<w:altChunk {NAMES} r:id="rX"/>'
    read = convert(".docx", document(chunk, relation("aFChunk", "a.html"), word__a__html=page), LIMIT)
    within = document(chunk, relation("aFChunk", "a.html"), **{"word__a.html": page})
    nested = document(chunk, relation("aFChunk", "a.docx"), **{"word__a.docx": word(("Inner", "Of it."))})
    rich = document(chunk, relation("aFChunk", "a.rtf"), **{"word__a.rtf": r"{\rtf1 Rich text.}"})
    old = document(chunk, relation("aFChunk", "a.doc"), **{"word__a.doc": "lost"})

    assert convert(".docx", within, LIMIT).text == f"# Head\n\n{MARK}\n\n# Minutes\n\nThe heron landed."
    assert convert(".docx", nested, LIMIT).text == f"# Head\n\n{MARK}\n\n# Inner\n\nOf it."
    assert convert(".docx", rich, LIMIT).text == f"# Head\n\n{MARK}\n\nRich text."
    assert counted(".docx", old) == {"inserted documents (.doc), not read": 1}
    assert [note.words for note in read.notes] == ["inserted documents that are missing"]


@pytest.mark.parametrize(
    ("attribute", "related"),
    [
        ("embed", relation("image", "media/gone.png")),
        ("link", relation("image", "file:///gone.png", ' TargetMode="External"')),
        ("embed", ""),
    ],
)
def test_a_picture_that_is_missing_costs_no_words(attribute: str, related: str) -> None:
    made = convert(".docx", document(words_of(RUN("words") + PICTURE(attribute)), related), LIMIT)

    assert made.text.endswith("words A heron")
    assert [note.kind for note in made.notes] == ["missing_picture"]


def test_a_damaged_picture_costs_no_words() -> None:
    made = document(words_of(RUN("words")), relation("image", "media/x.png"), word__media__x=b"")
    payload = with_part(made, "word/media/x.png", b"the bytes of a picture").replace(
        b"word/media/x.png", b"word/media/x.png"
    )
    broken = _with_wrong_checksum(payload, b"word/media/x.png")

    assert convert(".docx", broken, LIMIT).text.endswith("words")
    assert counted(".docx", broken) == {"damaged parts, not read": 1}


@pytest.mark.parametrize("part", ["word/styles.xml", "word/settings.xml", "docProps/core.xml", "word/theme/theme1.xml"])
def test_a_part_that_is_no_xml_costs_no_words(part: str) -> None:
    broken = with_part(word(("Install", "words")), part, b"<cut")

    made = convert(".docx", broken, LIMIT)

    assert "words" in made.text
    assert [(note.words, note.count) for note in made.notes] == [("damaged parts, not read", 1)]


def _with_wrong_checksum(payload: bytes, name: bytes) -> bytes:
    """Change the checksum that the directory of a ZIP archive has of a file."""
    at = payload.rindex(name) - 46
    return payload[: at + 16] + b"\1\2\3\4" + payload[at + 20 :]


def test_slides_name_charts_and_pictures_and_survive_missing_parts() -> None:
    deck = pptx.Presentation()
    data = CategoryChartData()
    data.categories = ["herons"]
    data.add_series("sightings", [3])
    first = deck.slides.add_slide(deck.slide_layouts[5])
    first.shapes.title.text = "Birds"
    first.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(1), Inches(1), data)
    scan = io.BytesIO()
    Image.new("RGB", (9, 9)).save(scan, "PNG")
    deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_picture(scan, 0, 0)
    made = io.BytesIO()
    deck.save(made)

    whole = convert(".pptx", made.getvalue(), LIMIT)
    lacking = convert(".pptx", _without(made.getvalue(), "ppt/media/"), LIMIT)

    assert "# Birds" in whole.text
    assert "herons" in whole.text
    assert lacking.text == whole.text
    assert [note.words for note in whole.notes] == ["slides without text, only images"]


@pytest.mark.parametrize("kind", ["chart", "table"])
def test_text_above_and_below_a_table_of_a_slide_is_not_part_of_it(kind: str) -> None:
    deck = pptx.Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[6]).shapes
    if kind == "chart":
        data = CategoryChartData()
        data.categories = ["herons"]
        data.add_series("sightings", [3])
        shapes.add_chart(XL_CHART_TYPE.PIE, 0, Inches(2), Inches(1), Inches(1), data)
    else:
        shapes.add_table(2, 2, 0, Inches(2), Inches(1), Inches(1)).table.cell(1, 0).text = "herons"
    for at, words in enumerate(("Counted by Ada", "The pond was frozen")):
        shapes.add_textbox(0, Inches(1 + 3 * at), Inches(1), Inches(1)).text_frame.text = words
    made = io.BytesIO()
    deck.save(made)

    above, *table, below = convert(".pptx", made.getvalue(), LIMIT).text.split("\n\n")

    assert above == "Counted by Ada"
    assert "| herons |" in table[-1]
    assert below.strip() == "The pond was frozen"


def _without(payload: bytes, start: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        return zipped({each: archive.read(each) for each in archive.namelist() if not each.startswith(start)})


def test_the_points_of_a_chart_are_read_whatever_its_kind() -> None:
    def on_slide(kind: XL_CHART_TYPE, data: CategoryChartData | XyChartData) -> str:
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[6])
        slide.shapes.add_chart(kind, 0, 0, Inches(4), Inches(3), data)
        packed = io.BytesIO()
        deck.save(packed)
        return convert(".pptx", packed.getvalue(), LIMIT).text

    places = XyChartData()
    heat, cold = places.add_series("Heat | wet"), places.add_series("Cold")
    for x, y in ((1, 2.5), (3, 4)):
        heat.add_data_point(x, y)
    cold.add_data_point(7, 8)
    assert on_slide(XL_CHART_TYPE.XY_SCATTER, places) == (
        "### Chart\n\n| Category | Heat \\| wet |\n| --- | --- |\n| 1 | 2.5 |\n| 3 | 4 |\n\n"
        "| Category | Cold |\n| --- | --- |\n| 7 | 8 |"
    )
    sums = CategoryChartData()
    sums.categories = ["Q1", "Q2"]
    sums.add_series("North", (0.25, None))
    assert on_slide(XL_CHART_TYPE.RADAR, sums).endswith("| Category | North |\n| --- | --- |\n| Q1 | 0.25 |\n| Q2 |  |")


def test_words_of_a_slide_for_a_newer_version_are_read() -> None:
    def newer(xml: bytes) -> bytes:
        names = b'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
        shape = xml[xml.index(b"<p:sp>") : xml.index(b"</p:sp>") + 7]
        return xml.replace(
            shape,
            b"<mc:AlternateContent %s><mc:Choice Requires='x'>%s</mc:Choice></mc:AlternateContent>" % (names, shape),
        )

    made = convert(".pptx", changed(slides(("Install", "Of it")), "ppt/slides/slide1.xml", newer), LIMIT)

    assert made.text == "# Install\nOf it"


def test_an_epub_names_chapters_that_are_missing_or_images() -> None:
    book = epub("<p>One.</p>", "<p>Two.</p>", "<img src='a.png'/>")

    assert counted(".epub", book) == {"chapters without text, only images": 1}
    assert counted(".epub", _without(book, "OEBPS/1")) == {
        "chapters that are missing or damaged": 1,
        "chapters without text, only images": 1,
    }


def test_a_notebook_and_a_page_name_outputs_and_frames() -> None:
    cell = notebook(("code", "print(1)")).replace(b'"cell_type"', b'"outputs": [{"text": "1"}], "cell_type"')

    assert counted(".ipynb", cell) == {"cells with outputs, which are not read": 1}
    assert counted(".html", b"<p>text</p><iframe src='b.html'></iframe>") == {
        "pages within the page (frames), not read": 1
    }


def test_a_page_names_what_was_typed_into_it_and_keeps_the_words_of_neighbouring_blocks_apart() -> None:
    page = b"<form><input value='Ada'><input type='hidden' value='x'><input type='submit' value='Send'></form><p>a</p>"
    assert counted(".html", page) == {"filled fields of a form, not read": 1}
    for name in ("details", "header", "main", "aside", "fieldset", "option", "textarea", "address"):
        text = f"<body>alpha<{name}>beta</{name}>gamma</body>"
        assert convert(".html", text.encode(), LIMIT).text.split() == ["alpha", "beta", "gamma"], name
        assert convert(".epub", epub(text), LIMIT).text.split()[-3:] == ["alpha", "beta", "gamma"], name


def test_a_page_marks_what_is_chosen_in_a_form() -> None:
    page = (
        b"<p><input type=RADIO checked>tea <input type=radio>milk <input type=Checkbox checked>ice</p>"
        b"<select><option>red<option selected>blue</select>"
    )

    assert " ".join(convert(".html", page, LIMIT).text.split()) == "[x] tea [ ] milk [x] ice red [x] blue"


def test_a_damaged_cell_of_a_notebook_is_counted_and_the_others_are_read() -> None:
    cells = ["junk", {"cell_type": "code"}, {"cell_type": "markdown", "source": 5}]
    cells += [{"cell_type": "markdown", "source": "# Title"}, {"cell_type": "code", "source": ["x <- '```'\n", "y"]}]
    made = {"cells": cells, "metadata": {"kernelspec": {"language": "R"}}, "nbformat": 4}

    read = convert(".ipynb", json.dumps(made).encode(), LIMIT)

    assert read.text == "# Title\n\n````R\nx <- '```'\ny\n````"
    assert [(note.words, note.count) for note in read.notes] == [("damaged cells, not read", 3)]


# -- PDF ---------------------------------------------------------------------------------------------------


def test_scanned_pages_are_counted_also_with_a_number_on_them_and_blank_ones_are_not() -> None:
    made = convert(".pdf", drawn("cover", "scan", "stamped", "blank"), LIMIT)

    assert [(note.words, note.count) for note in made.notes] == [(f"pages without text, only images ({OCR})", 2)]


@pytest.mark.parametrize(
    ("text", "known", "pages"),
    [
        ("The contract ends in March.", "", 1),
        ("The contract ends in March.", "A heading in another font", 1),
        ("o", "Known words beside one sign", 0),
        ("", "Known words", 0),
    ],
)
def test_pages_whose_fonts_do_not_say_what_their_signs_mean_are_counted(text: str, known: str, pages: int) -> None:
    """PDFium gives the numbers of the signs in place of letters."""
    words = "pages whose fonts do not say what their signs mean, perhaps read wrong"

    assert counted(".pdf", pdf_without_letters(text, known)).get(words, 0) == pages


def test_a_filled_form_is_read_even_if_the_page_has_nothing_else() -> None:
    text = convert(".pdf", drawn("form"), LIMIT).text

    assert "Name: Heron" in text
    assert "Paid: " in text
    assert "Late" not in text


def test_the_value_of_a_field_is_read_though_it_is_among_the_words_of_the_page() -> None:
    made = io.BytesIO()
    canvas = Canvas(made, invariant=True)
    canvas.drawString(50, 800, "Form 5 of 2025")
    canvas.acroForm.textfield(name="children", value="5", x=50, y=700)
    canvas.save()

    assert convert(".pdf", made.getvalue(), LIMIT).text == "Form 5 of 2025\nchildren: 5"


def test_bytes_behind_the_end_of_a_pdf_do_no_harm_and_a_pdf_that_goes_on_is_cut_short() -> None:
    whole = pdf("text")

    assert convert(".pdf", whole + b"<html>junk</html>" * 400, LIMIT).text == "text"
    with pytest.raises(ReadError, match="cut short"):
        convert(".pdf", whole + b"\n12 0 obj\n<<" + b"x" * 2000, LIMIT)


# -- mail --------------------------------------------------------------------------------------------------


def test_a_mail_is_decoded_and_its_attachments_are_counted() -> None:
    payload = (
        b"From: Ada <ada@example.org>\nSubject: =?utf-8?q?Pl=C3=A4ne?=\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Type: text/html; charset=iso-8859-1\n"
        b"Content-Transfer-Encoding: quoted-printable\n\n<p>Gr=F6=DFe</p>\n--q\n"
        b"Content-Type: application/pdf\nContent-Disposition: attachment; filename=a.pdf\n\nx\n--q--\n"
    )

    made = convert(".eml", payload, LIMIT)

    assert made.text == "From: Ada <ada@example.org>\nSubject: Pläne\n\nGröße"
    assert made.metadata == {
        "title": "Pläne",
        "author": "Ada <ada@example.org>",
        "subject": "Pläne",
        "from": "Ada <ada@example.org>",
    }
    assert [note.words for note in made.notes] == ["attached files, not read"]


def test_a_text_behind_a_file_in_one_of_several_forms_of_a_mail_is_read() -> None:
    payload = (
        b"From: ada@example.org\nMIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=q\n\n"
        b"--q\nContent-Type: text/plain\n\nSee the page.\n--q\nContent-Type: multipart/mixed; boundary=r\n\n"
        b"--r\nContent-Type: text/html\n\n<p>Heron</p>\n--r\nContent-Type: application/pdf; name=a.pdf\n\nx\n"
        b"--r\nContent-Type: text/html\n\n<p>Ferry of Monday</p>\n--r--\n--q--\n"
    )

    made = convert(".eml", payload, LIMIT)

    assert made.text.endswith("Heron\n\nFerry of Monday")
    assert [str(note) for note in made.notes] == ["attached files, not read"]


def test_a_mail_says_that_its_base64_is_damaged_and_may_begin_with_a_byte_order_mark() -> None:
    payload = (
        b"\xef\xbb\xbfFrom: ada@example.org\nContent-Type: text/plain; charset=utf-8\n"
        b"Content-Transfer-Encoding: base64\n\nSGVyb25zIGFuZA==\nRmVycmllcyBvbiBNb25kYXk=\n"
    )

    made = convert(".eml", payload, LIMIT)

    assert made.text == "From: ada@example.org\n\nHerons and"
    assert [str(note) for note in made.notes] == ["texts whose base64 is damaged, read in part"]


def test_a_saved_page_is_its_text() -> None:
    payload = (
        b"From: <Saved by Blink>\nSnapshot-Content-Location: https://example.org\nSubject: Page\nMIME-Version: 1.0\n"
        b'Content-Type: multipart/related; type="text/html"; boundary=q\n\n--q\nContent-Type: text/html\n\n'
        b"<h1>Herons</h1>\n--q\nContent-Type: image/png\n\nx\n--q--\n"
    )

    assert convert(".mhtml", payload, LIMIT).text == "# Herons"
