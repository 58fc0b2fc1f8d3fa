"""OpenDocument texts, RTF and compressed files, and formats that are named as not read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from findingaid.errors import ReadError, SkippedError
from findingaid.sources.documents import NOT_READ, convert_document
from findingaid.sources.files import Files
from tests.conftest import Cli
from tests.support.documents import opendocument, pdf, with_part

LIMIT = 1_000_000
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)

BODY = (
    "<office:text><text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    '<text:h text:outline-level="2">Install</text:h>'
    '<text:p>Of the<text:s text:c="2"/>ledger<text:note><text:note-citation>1</text:note-citation>'
    "<text:note-body><text:p>A footnote.</text:p></text:note-body></text:note>."
    "<office:annotation><text:p>remark</text:p></office:annotation> Its tail.</text:p>"
    "<text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>"
    "<table:table><table:table-column/><table:table-header-rows><table:table-row>"
    "<table:table-cell><text:p>Item</text:p></table:table-cell></table:table-row></table:table-header-rows>"
    "<table:table-row><table:table-cell><text:p>House</text:p></table:table-cell></table:table-row></table:table>"
    "</office:text>"
)


def test_an_opendocument_text_is_markdown_without_deleted_text_and_comments() -> None:
    found = convert_document("a.odt", opendocument(BODY), LIMIT)

    assert found is not None
    assert found.text == (
        "## Install\n\nOf the ledger (A footnote.). Its tail.\n\n* one\n\n| Item |\n| --- |\n| House |"
    )
    assert [str(note) for note in found.notes] == ["comments, not read"]


@pytest.mark.parametrize(
    ("style", "heading"), [("Title", "# "), ("Own", "# "), ("Third", "### "), ("Loop", ""), ("Unknown", "")]
)
def test_a_paragraph_in_the_style_of_a_heading_is_one(style: str, heading: str) -> None:
    styles = (
        '<style:style style:name="Own" style:family="paragraph" style:parent-style-name="Title"/>'
        '<style:style style:name="Third" style:family="paragraph" style:parent-style-name="Of_20_Third"/>'
        '<style:style style:name="Of_20_Third" style:family="paragraph" style:default-outline-level="3"/>'
        '<style:style style:name="Loop" style:family="paragraph" style:parent-style-name="Loop"/>'
    )
    body = f'<office:text><text:p text:style-name="{style}">House rules</text:p></office:text>'

    found = convert_document("a.odt", opendocument(body, styles), LIMIT)

    assert found is not None
    assert found.text == f"{heading}House rules"


def test_words_of_an_opendocument_that_only_touch_in_its_file_stay_apart() -> None:
    names = (
        'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
        ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
    )
    note = "<text:note><text:note-body><text:p>First.</text:p><text:p>Second.</text:p></text:note-body></text:note>"
    picture = "<draw:frame><svg:title>Heron</svg:title><svg:desc>grey</svg:desc></draw:frame>"
    shape = "<draw:custom-shape><text:p>drawn</text:p></draw:custom-shape>"
    shapes = "<draw:rect><text:p>one</text:p></draw:rect><draw:ellipse><text:p>two</text:p></draw:ellipse>"
    inside = f"<text:p>Before{note}{picture}behind{shape}middle{shapes}end</text:p>"
    body = f"<office:text {names}>{inside}{shapes}</office:text>"

    found = convert_document("a.odt", opendocument(body), LIMIT)

    assert found is not None
    words = "Before (First. Second.) Heron grey behind drawn middle one two end one two"
    assert found.text.split() == words.split()


def test_a_table_of_contents_of_an_opendocument_is_read_by_lines_and_its_pattern_is_not() -> None:
    pattern = "<text:index-title-template>Contents</text:index-title-template>"
    lines = "<text:p>One<text:tab/>1</text:p><text:p>Two<text:tab/>2</text:p>"
    title = "<text:index-title><text:p>Contents</text:p></text:index-title>"
    source = f"<text:table-of-content-source>{pattern}</text:table-of-content-source>"
    index = f"<text:table-of-content>{source}<text:index-body>{title}{lines}</text:index-body></text:table-of-content>"

    found = convert_document("a.odt", opendocument(f"<office:text>{index}</office:text>"), LIMIT)

    assert found is not None
    assert found.text == "Contents\n\nOne 1\n\nTwo 2"


def test_what_an_opendocument_holds_beside_its_words_is_no_text_and_objects_are_counted() -> None:
    names = 'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    picture = "<draw:frame><draw:image><office:binary-data>QUJDREVG</office:binary-data></draw:image></draw:frame>"
    inside = f"Words{picture}<draw:object-ole/><text:script>alert(1)</text:script>end"

    found = convert_document(
        "a.odt", opendocument(f"<office:text {names}><text:p>{inside}</text:p></office:text>"), LIMIT
    )

    assert found is not None
    assert found.text.split() == ["Words", "end"]
    assert [str(note) for note in found.notes] == ["embedded documents, not read"]


def test_filled_fields_of_a_form_in_an_opendocument_are_counted() -> None:
    names = 'xmlns:form="urn:oasis:names:tc:opendocument:xmlns:form:1.0"'
    options = "<form:option form:label='A'/><form:option form:label='B' form:current-selected='true'/>"
    fields = f"<form:text form:current-value='x'/><form:text/><form:listbox>{options}</form:listbox>"
    form = f"<office:forms {names}><form:form>{fields}</form:form></office:forms>"

    found = convert_document("a.odt", opendocument(f"<office:text>{form}<text:p>Words</text:p></office:text>"), LIMIT)

    assert found is not None
    assert found.text == "Words"
    assert [str(note) for note in found.notes] == ["filled fields of a form, not read: 2"]


@pytest.mark.parametrize("position", ["super 58%", "33% 58%"])
def test_a_raised_number_of_an_opendocument_does_not_become_part_of_the_number_before_it(position: str) -> None:
    style = (
        f'<style:style style:name="T1" style:family="text"><style:text-properties style:text-position="{position}"/>'
    )
    spans = (f'<text:span text:style-name="{name}">{words}</text:span>' for name, words in (("T1", "6"), ("T2", "7")))
    body = f"<office:text><text:p>10{''.join(spans)}</text:p></office:text>"

    found = convert_document("a.odt", opendocument(body, f"{style}</style:style>"), LIMIT)

    assert found is not None
    assert found.text == "10⁶7"


def test_headers_and_footers_of_an_opendocument_with_words_are_counted() -> None:
    def headed(words: str) -> bytes:
        names = ("office", "style", "text")
        said = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
        page = f"<style:master-page><style:header><text:p>{words}</text:p></style:header></style:master-page>"
        return with_part(
            opendocument(BODY), "styles.xml", f"<office:document-styles {said}>{page}</office:document-styles>"
        )

    noted = [found for words in ("Of the harbour", "12") if (found := convert_document("a.odt", headed(words), LIMIT))]

    assert [sorted(map(str, found.notes)) for found in noted] == [
        ["comments, not read", "headers and footers, not read"],
        ["comments, not read"],
    ]


def test_rtf_is_decoded_by_its_code_page_and_names_its_title() -> None:
    rich = (
        rb"{\rtf1\ansi\ansicpg1252{\info{\title The \'fcber plan}{\author J\'fcrgen}{\operator Bo}}"
        rb"Gr\'f6\'dfe und \u220?bermut\par"
        rb"{\b bold} text\page next{\pict\pngblip 89504e47}\par}"
    )
    found = convert_document("a.rtf", rich, LIMIT)

    assert found is not None
    assert found.text == "Größe und Übermut\nbold text\n\nnext"
    assert (found.metadata["title"], found.metadata["author"]) == ("The über plan", "Jürgen")

    cyrillic = convert_document(
        "a.rtf", rb"{\rtf1\ansi\ansicpg1251{\info{\title \'cf\'f0\'e8\'e2\'e5\'f2 \{1\}}}text}", LIMIT
    )
    assert cyrillic is not None
    assert cyrillic.metadata["title"] == "Привет {1}"


@pytest.mark.parametrize(
    ("characters", "text"),
    [
        (rb"\mac caf\'8e", "café"),
        (rb"\mac\ansicpg10000 caf\'8e", "café"),
        (rb"\pc caf\'82", "café"),
        (rb"\pca caf\'82", "café"),
        (rb"\ansi\ansicpg0 caf\'e9", "café"),
        (rb"\ansi\ansicpg65001 caf\'c3\'a9", "café"),
    ],
)
def test_rtf_is_decoded_by_the_character_set_that_it_names(characters: bytes, text: str) -> None:
    found = convert_document("a.rtf", rb"{\rtf1" + characters + b"}", LIMIT)

    assert found is not None
    assert found.text == text


@pytest.mark.parametrize(
    ("body", "text", "notes"),
    [
        (rb"It rose.{\footnote By 3 metres.} End.}", "It rose. By 3 metres. End.", []),
        (rb"It rose{\super\chftn{\*\footnote\chftn{By 3 metres.}}} again.}", "It rose By 3 metres. again.", []),
        (b"{\\pard Pump\\par}\n\\cell{\\pard 12\\par}\\cell\\row Next.}", "Pump|12|\nNext.", []),
        (rb"Body {\*\annotation Remark} end.}", "Body  end.", ["comments, not read"]),
        (rb"10{\super 6} of 10\super -3\nosupersub  on the 1{\super st}.}", "10⁶ of 10⁻³ on the 1st.", []),
        (
            rb"10{\super\f0\fs24 6} of 10\up8\loch 3\up0  and 1{\super\plain 2}{\up0 3}{\updnprop1 4}.}",
            "10⁶ of 10³ and 1234.",
            [],
        ),
        (rb"{\uc0 10\super 6\nosupersub\column two\softline three}}", "10⁶\ntwo\nthree", []),
        (
            rb"Fee {\b\deleted\revauthdel1 2 {\i or} \{3\} }\deleted 4 \deleted0 5 \deleted1 6\plain  EUR.}",
            "Fee 5  EUR.",
            [],
        ),
        (rb"Fee {\deleted 2\par }\mvf 3\mvf0 {\deleted0 4} EUR.}", "Fee 4 EUR.", []),
        (
            rb"Plan {\field{\*\fldinst FORMDROPDOWN{\*\formfield{\fftype2\ffres1{\*\ffl A}}}}{\fldrslt }}.}",
            "Plan .",
            ["filled fields of a form, not read"],
        ),
        (
            rb"{\field{\*\fldinst FORMTEXT{\*\formfield{\fftype0{\*\ffname A}}}}{\fldrslt Typed}} end.}",
            "Typed end.",
            [],
        ),
        (rb"{\header Head}{\footer Foot}Body.}", "Body.", ["headers and footers, not read: 2"]),
        (rb"Body {\shp{\*\shpinst{\shptxt Boxed}}}.}", "Body .", ["text boxes, not read"]),
        (rb"Whole. {\b Hal", "Whole. Hal", ["no end, as of a document that was cut short"]),
        (rb"{\pntext\f0 2.\tab}Second.}", "2.\tSecond.", []),
        (rb"{\upr{Plain ?}{\*\ud{Plain \u1234 ?}}} end.}", "Plain \u04d2 end.", []),
        (rb"{\*\shppict{\pict\bin5 {}}}{}} Behind C:\\bin9 it.}", "Behind C:\\bin9 it.", []),
        (rb"Whole. {\*\shppict{\pict\bin99 {}", "Whole.", ["no end, as of a document that was cut short"]),
        (rb"Sum {\mmath{\*\moMath{\mr x+y}}} end.}", "Sum  end.", ["formulas, not read"]),
        (rb"{\object\objlink{\result Shown}} end.}", "end.", ["embedded documents, not read"]),
        (rb"Hi \{ \\\} \u-10179?\u-8704?}", "Hi { \\} \U0001f600", []),
    ],
)
def test_what_rtf_has_beside_its_text_is_read_or_counted(body: bytes, text: str, notes: list[str]) -> None:
    found = convert_document("a.rtf", rb"{\rtf1\ansi\uc1 " + body, LIMIT)

    assert found is not None
    assert (found.text, [str(note) for note in found.notes]) == (text, notes)


def test_plain_text_under_the_name_of_rtf_is_read() -> None:
    found = convert_document("a.rtf", b"Plain words.", LIMIT)

    assert found is not None
    assert found.text == "Plain words."


@pytest.mark.parametrize(
    ("name", "payload", "words"),
    [
        ("a.odt", b"", "an empty file"),
        ("a.odt", opendocument(BODY)[:500], "damaged, or not a valid OpenDocument text"),
        ("a.odt", opendocument("<office:spreadsheet/>"), "it has no text"),
        ("a.odt", opendocument(BODY, encrypted=True), "with a password"),
        (
            "a.odt",
            opendocument("<office:text>" + "<text:p>" * 5_000 + "</text:p>" * 5_000 + "</office:text>"),
            "damaged",
        ),
        ("a.rtf", b"{\\rtf1", "no text in this RTF document"),
        ("a.rtf", bytes(99), "not what its name says"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_ones_fail_in_one_line(name: str, payload: bytes, words: str) -> None:
    with pytest.raises(ReadError, match=words) as raised:
        convert_document(name, payload, LIMIT)

    assert "\n" not in str(raised.value)


def test_a_compressed_text_or_document_is_read_as_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "app.log.gz").write_bytes(gzip.compress(b"The heron ", mtime=0) + gzip.compress(b"landed.", mtime=0))
    (tmp_path / "a.md.gz").write_bytes(gzip.compress(b"# Of herons\n\nText.", mtime=0))
    (tmp_path / "a.pdf.gz").write_bytes(gzip.compress(pdf("Of the ledger"), mtime=0))
    source = Files(tmp_path)

    log, note, document = (source.read(name) for name in ("app.log.gz", "a.md.gz", "a.pdf.gz"))

    assert (log.artifact_id, log.raw) == ("app.log.gz", "The heron landed.")
    assert (note.metadata["title"], note.metadata["media_type"]) == ("Of herons", "text/markdown")
    assert (document.raw, document.metadata["n_pages"]) == ("Of the ledger", 1)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (gzip.compress(b"text" * 1_000, mtime=0)[:20], "damaged, or not a gzip file"),
        (b"plain", "damaged, or not a gzip file"),
        (gzip.compress(b"line of text\n" * 100_000, mtime=0), "unpacks to more than source.max_bytes = 1,000,000"),
    ],
)
def test_a_damaged_or_endless_compressed_file_fails_alone(tmp_path: Path, payload: bytes, words: str) -> None:
    (tmp_path / "a.log.gz").write_bytes(payload)

    with pytest.raises(ReadError, match=words):
        Files(tmp_path, max_bytes=LIMIT).read("a.log.gz")


@pytest.mark.parametrize("payload", [gzip.compress(bytes(99), mtime=0), gzip.compress(bytes(2 * LIMIT), mtime=0)])
def test_a_compressed_file_that_is_not_text_is_skipped(tmp_path: Path, payload: bytes) -> None:
    (tmp_path / "a.img.gz").write_bytes(payload)

    with pytest.raises(SkippedError, match="not text"):
        Files(tmp_path, max_bytes=LIMIT).read("a.img.gz")


@pytest.mark.parametrize("suffix", NOT_READ)
def test_a_format_that_is_not_read_says_what_to_do_unless_the_file_is_text(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(OLE)
    (tmp_path / f"b{suffix}").write_bytes(b"Plain words.")

    with pytest.raises(SkippedError, match="not read: ") as raised:
        Files(tmp_path).read(f"a{suffix}")
    assert str(raised.value) == NOT_READ[suffix]
    assert Files(tmp_path).read(f"b{suffix}").raw == "Plain words."


def test_a_run_counts_what_is_not_read_and_ends_well(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.write("a.doc", OLE)
    cli.write("b.doc", OLE)
    cli.write("c.md", "The heron landed.")

    done = cli.run("index")

    assert done.exit_code == 0, done.output
    for printed in (done.stdout, cli.run("status").stdout):
        assert "docs: skipped 2 .doc: not read: save it as DOCX\n" in printed
    assert "save it as DOCX" in cli.run("why", "a.doc").stderr


def test_stamps_name_the_converter_of_what_is_in_a_compressed_file(tmp_path: Path) -> None:
    for name in ("a.log.gz", "a.pdf.gz", "a.doc"):
        (tmp_path / name).write_bytes(b"x")

    stamps = {found.artifact_id: found.stamp for found in Files(tmp_path).discover().listings}

    assert "gzip-" in stamps["a.log.gz"]
    assert "pypdfium2-" in stamps["a.pdf.gz"]
    assert "not-read-" in stamps["a.doc"]
