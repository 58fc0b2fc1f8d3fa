"""PDF, Word, PowerPoint, EPUB, HTML and notebooks: extracted text, positions, and errors."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pptx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from findingaid import FindingAid
from findingaid.config.loading import load
from findingaid.errors import ReadError
from findingaid.model import Artifact
from findingaid.request_limits import CALLER, within
from findingaid.serve.session import Session
from findingaid.sources import documents
from findingaid.sources.converters import process
from findingaid.sources.documents import (
    A_CALLER,
    AT_ONCE,
    FORMATS,
    Converter,
    Converters,
    convert_document,
    converter_id,
)
from findingaid.sources.files import Files
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.whole_text import WholeText
from findingaid.synthesis.extractive import Extractive
from findingaid.text.markdown import blocks
from tests.conftest import Cli
from tests.paths import ROOT
from tests.support.documents import (
    changed,
    epub,
    notebook,
    opendocument,
    pdf,
    scanned_pdf,
    slides,
    with_password,
    word,
    word_file,
    zipped,
)

LIMIT = 20_000_000

BIRDS = ("heron", "kestrel", "ledger", "osprey")

SENTENCE = "The {} is described here in a sentence that stands for itself."

MADE: dict[str, bytes] = {
    "report.pdf": pdf("Of the ledger", "Of the vector\nand more", title="Annual report", author="Ada"),
    "plan.docx": word(("Install", "Of the ledger."), ("Use", "Of the vector."), title="The plan", author="Ada"),
    "deck.pptx": slides(("Install", "Of the ledger"), ("Use", "Of the vector"), notes="Say it slowly"),
    "book.epub": epub("<h1>Install</h1><p>Of the ledger.</p>", "<h1>Use</h1>", title="The book", author="Ada"),
    "page.html": b"<title>The page</title><h1>Install</h1><p>Of the <b>ledger</b><script>no()</script>",
    "study.ipynb": notebook(("markdown", "# Install\n\nOf the ledger."), ("code", "print(1)")),
    "table.csv": b"name,about\nledger,of the ledger\n",
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Artifact]:
    """Reads one file by the files source."""

    def read(name: str, payload: bytes, **settings: Any) -> Artifact:
        (tmp_path / name).write_bytes(payload)
        return Files(tmp_path, **settings).read(name)

    return read


@pytest.mark.parametrize(
    ("name", "text", "metadata"),
    [
        (
            "report.pdf",
            "Of the ledger\n\n␌\n\nOf the vector\nand more",
            {"title": "Annual report", "author": "Ada", "media_type": "application/pdf", "n_pages": 2},
        ),
        (
            "plan.docx",
            "# Install\n\nOf the ledger.\n\n# Use\n\nOf the vector.",
            {
                "title": "The plan",
                "author": "Ada",
                "media_type": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                "text_type": "text/markdown",
            },
        ),
        (
            "deck.pptx",
            "# Install\nOf the ledger\n\n␌\n\n# Use\nOf the vector\n\n### Notes:\nSay it slowly",
            {
                "title": "Install",
                "media_type": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
                "n_pages": 2,
                "text_type": "text/markdown",
            },
        ),
        (
            "book.epub",
            "**Title:** The book\n**Authors:** Ada\n\n# Install\n\nOf the ledger.\n\n# Use",
            {
                "title": "The book",
                "author": "Ada",
                "media_type": "application/epub+zip",
                "text_type": "text/markdown",
            },
        ),
        (
            "page.html",
            "# Install\n\nOf the **ledger**",
            {"title": "The page", "media_type": "text/html", "text_type": "text/markdown"},
        ),
        (
            "study.ipynb",
            "# Install\n\nOf the ledger.\n\n```python\nprint(1)\n```",
            {"title": "Install", "media_type": "application/x-ipynb+json", "text_type": "text/markdown"},
        ),
        (
            "table.csv",
            "name,about\nledger,of the ledger\n",
            {"title": "table.csv", "media_type": "text/csv", "encoding": "utf-8"},
        ),
    ],
)
def test_a_document_becomes_text_with_what_it_says_of_itself(
    read: Callable[..., Artifact], name: str, text: str, metadata: dict[str, Any]
) -> None:
    assert read(name, MADE[name]) == Artifact(name, text, {"path": name} | metadata)


def test_a_title_that_nobody_gave_is_none(read: Callable[..., Artifact]) -> None:
    for written in ("untitled", "(anonymous)", "PowerPoint-Präsentation", "Microsoft Word - Lease.doc"):
        assert read("a.pdf", pdf("text", title=written)).metadata["title"] == "a.pdf", written
    assert read("a.docx", word(("Install", "text"))).metadata["title"] == "Install"
    assert read("a.html", b"<title>Document</title><h1>Install</h1>").metadata["title"] == "Install"


def test_entities_in_the_properties_of_a_document_are_read_unless_they_expand_to_too_much(
    read: Callable[..., Artifact],
) -> None:
    def named(title: str, *entities: str) -> bytes:
        declared = "".join(f"<!ENTITY e{n} '{entity}'>" for n, entity in enumerate(entities))
        plan = word(("Install", "text"), title="Title")
        return changed(
            plan,
            "docProps/core.xml",
            lambda xml: xml.replace(b"?>", f"?><!DOCTYPE x [{declared}]>".encode(), 1).replace(
                b"Title", title.encode()
            ),
        )

    assert read("a.docx", named("&e0; plan", "Annual")).metadata["title"] == "Annual plan"
    swollen = read("a.docx", named("&e9;", "ha" * 10, *(f"&e{n};" * 10 for n in range(9))))
    assert swollen.metadata["title"] == "Install"
    assert [note.words for note in swollen.notes] == ["damaged parts, not read"]


def test_the_name_of_an_icon_is_not_the_title_of_its_page(read: Callable[..., Artifact]) -> None:
    icon = "<svg><title>Menu</title></svg>"

    assert read("a.html", f"<body>{icon}<h1>Annual report</h1>".encode()).metadata["title"] == "Annual report"
    assert read("a.html", f"<title>Report</title><body>{icon}".encode()).metadata["title"] == "Report"


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("a.html", b"<hr><p>author: Bob #call<hr><p>The deposit is 900 euros."),
        ("a.docx", word(("Notes", "author: Bob #call"), ("Lease", "The deposit is 900 euros."))),
        ("a.ipynb", notebook(("markdown", "---\nauthor: Bob #call\n---\nThe deposit is 900 euros."))),
    ],
    ids=["html", "docx", "ipynb"],
)
def test_words_of_a_document_are_not_taken_for_front_matter_or_tags(
    read: Callable[..., Artifact], name: str, payload: bytes
) -> None:
    found = read(name, payload)

    assert not {"author", "tags", "front_matter"} & found.metadata.keys()
    assert any("Bob" in block.words for block in blocks(found.raw))


@pytest.mark.parametrize("suffix", ["vcf", "html", "md"])
def test_a_file_is_not_called_after_the_first_of_its_sections(read: Callable[..., Artifact], suffix: str) -> None:
    def written(*names: str) -> bytes:
        form = {
            "vcf": "BEGIN:VCARD\r\nFN:{}\r\nTEL:1\r\nEND:VCARD\r\n",
            "html": "<h2>{}</h2><p>words</p>",
            "md": "## {}\n\nwords\n\n",
        }[suffix]
        return "".join(form.format(name) for name in names).encode()

    assert read(f"a.{suffix}", written("Anna Alt", "Bob Berg")).metadata["title"] == f"a.{suffix}"
    assert read(f"a.{suffix}", written("Anna Alt")).metadata["title"] == "Anna Alt"


def test_a_word_parted_at_the_end_of_a_line_is_joined(read: Callable[..., Artifact]) -> None:
    assert read("a.pdf", pdf("an exam-\nple of COVID-\n19")).raw == "an example of COVID-19"


@pytest.mark.parametrize(
    "payload",
    [
        "<p>Größe, naïve façade".encode("latin-1"),
        '<meta charset="latin-1"><p>Größe, naïve façade'.encode("latin-1"),
        '<meta charset="latin-1"><p>Größe, naïve façade'.encode(),
        "<p>Größe, naïve façade".encode("utf-16"),
    ],
)
def test_a_page_is_decoded_whatever_its_encoding(read: Callable[..., Artifact], payload: bytes) -> None:
    assert read("a.html", payload).raw == "Größe, naïve façade"


def test_a_page_may_leave_open_what_html_lets_it(read: Callable[..., Artifact]) -> None:
    """An unclosed paragraph would be nested in the one before it, too deep for a converter that recurses."""
    artifact = read("a.html", b"<h1>Head</h1>" + b"<p>A paragraph." * 5000)

    assert str(artifact.raw).startswith("# Head\n\nA paragraph.\n\nA paragraph.")


@pytest.mark.parametrize("name", ["a.html", "a.epub"])
@pytest.mark.parametrize("tag", ["a", "a href='#x'", "b", "sup"])
@pytest.mark.parametrize(
    "words",
    [
        "one{} {}two",
        "{}one {}two",
        "one{} two{}",
        "one{}&#160;{}two",
        "{}one\n{}two",
        "{}one<br/>{}two",
        "one{}<br/>two{}",
    ],
)
def test_a_space_at_the_edge_of_marked_words_stays(
    read: Callable[..., Artifact], name: str, tag: str, words: str
) -> None:
    page = f"<html><body><p>{words.format(f'<{tag}>', f'</{tag.split()[0]}>')}</p></body></html>"

    text = str(read(name, epub(page) if name == "a.epub" else page.encode()).raw)

    assert re.search(r"one\W*?\s+\W*two", text.replace("(#x)", "")), text


@pytest.mark.parametrize("style", ["bold", "superscript"])
@pytest.mark.parametrize("space", [" ", "\t", "\N{NO-BREAK SPACE}", "\n"])
def test_a_space_of_another_look_stays_between_words_of_a_word_document(
    read: Callable[..., Artifact], style: str, space: str
) -> None:
    made = word_file()
    paragraph = made.add_paragraph("one")
    setattr(paragraph.add_run(space).font, style, True)
    paragraph.add_run("two")
    made.save(file := io.BytesIO())

    assert re.fullmatch(r"one\s+two", str(read("a.docx", file.getvalue()).raw))


XML = '<?xml version="1.0" encoding="utf-8"?>\n'
NAMESPACE = '<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml">'
CHARACTER_DATA = (
    "<script>//<![CDATA[\nif (a < b) {}\n//]]></script><p>One <![CDATA[a < b & c]]> two.</p>"
    "<pre><![CDATA[if (a && b)\n  <tag/>]]></pre><p>Three <![CDATA[is open.</p>"
)


@pytest.mark.parametrize("begin", [f"{XML}<html>", NAMESPACE, f"\n{XML}{NAMESPACE}"])
@pytest.mark.parametrize("name", ["a.xhtml", "a.html", "a.epub"])
def test_character_data_of_a_page_in_xml_is_text(read: Callable[..., Artifact], name: str, begin: str) -> None:
    page = f"{begin}<head><title>t</title></head><body>{CHARACTER_DATA}</body></html>"

    text = str(read(name, epub(page) if name == "a.epub" else page.encode()).raw)

    assert re.search(r"One a \\?< b & c two\.\n\n```\nif \(a && b\)\n  <tag/>\n```\n\nThree", text), text
    assert "{}" not in text


def test_character_data_of_a_page_in_html_is_a_comment_as_browsers_take_it(read: Callable[..., Artifact]) -> None:
    page = b"<html><p>One <![CDATA[hidden]]> two.</p><script>a = '<![CDATA[';</script><p>Three.</p>]]></html>"

    assert str(read("a.html", page).raw).startswith("One  two.\n\nThree.")


MERGED = (
    '<tr><th rowspan="2">Region</th><th colspan="2">Prices</th></tr><tr><th>Item</th><th>Euro</th></tr>'
    '<tr><td rowspan=" 2">North</td><td>Lamp</td><td rowspan="0">5</td></tr><tr><td>Rope</td></tr>'
    '<tr><td colspan="2">Sum</td></tr>'
)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.html", lambda: f"<h1>Head</h1><table>{MERGED}</table>".encode()),
        ("a.epub", lambda: epub(f"<h1>Head</h1><table>{MERGED}</table>")),
    ],
)
def test_cells_beside_one_that_is_merged_downwards_stay_below_their_headers(
    read: Callable[..., Artifact], name: str, make: Callable[[], bytes]
) -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in str(read(name, make()).raw).splitlines()]

    assert [row for row in rows if row and "---" not in row][-5:] == [
        ["Region", "Prices", ""],
        ["Region", "Item", "Euro"],
        ["North", "Lamp", "5"],
        ["North", "Rope", "5"],
        ["Sum", "", "5"],
    ]


@pytest.mark.parametrize("groups", [("<thead>", "</thead>"), ("<tbody>", "</tbody>")], ids=["thead", "tbody"])
def test_a_merged_cell_ends_with_its_part_of_the_table(read: Callable[..., Artifact], groups: tuple[str, str]) -> None:
    begin, end = groups
    page = f"<table>{begin}<tr><th rowspan='9'>a</th><th>b</th></tr>{end}<tbody><tr><td>c</td><td>d</td></tr></tbody>"

    assert str(read("a.html", page.encode()).raw).endswith("| c | d |")


def test_a_cell_over_no_columns_is_one_over_one(read: Callable[..., Artifact]) -> None:
    page = "<table><tr><th colspan='0' rowspan='2'>a</th><th>b</th></tr><tr><td>c</td></tr></table>"

    assert str(read("a.html", page.encode()).raw).endswith("| a | c |")


RAISED = (
    '<p>10<sup>6</sup> cells of 5 m<sup class="x"> 2 </sup>, 3 times 10<sup>&minus;3</sup>, Ca<SUP>2+</SUP>, the '
    '1<sup>st</sup> of 2024<sup><a href="#f">1</a></sup>, a<sup>&lt;b</sup>.</p>'
)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.html", lambda: f"<h1>Head</h1>{RAISED}".encode()),
        ("a.epub", lambda: epub(f"<h1>Head</h1>{RAISED}")),
    ],
)
def test_a_raised_number_does_not_become_part_of_the_number_before_it(name: str, make: Callable[[], bytes]) -> None:
    made = convert_document(name, make(), LIMIT)

    assert made is not None
    assert "10⁶ cells of 5 m², 3 times 10⁻³, Ca²⁺, the 1st of 2024[1](#f), a\\<b." in made.text


TEX = "<semantics><mn>106</mn><annotation encoding='application/x-tex'>10^{6}</annotation></semantics>"


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("<msup><mn>10</mn><mn>6</mn></msup>", "10⁶"),
        ("<mi>m</mi><msup><mi>c</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>", "mc^(n+1)"),
        ("<mfrac><mn>1</mn><msqrt><mi>a</mi><mo>+</mo><mn>2</mn></msqrt></mfrac>", "1/(√(a+2))"),
        ("<mn>10</mn><msup><mrow></mrow><mn>6</mn></msup>", "10⁶"),
        ("<msup><mn>10</mn></msup>", "10"),
        (TEX, "$10^{6}$"),
    ],
)
@pytest.mark.parametrize("name", ["a.html", "a.web-page", "a.epub"])
def test_a_formula_is_written_on_a_line(name: str, formula: str, text: str) -> None:
    page = f"<p>There are <math>{formula}</math> cells.</p>"

    made = convert_document(name, epub(page) if name == "a.epub" else page.encode(), LIMIT)

    assert made is not None
    assert made.text.endswith(f"There are {text} cells.")


def test_a_formula_that_a_page_shows_twice_is_read_once() -> None:
    shown = '<span class="katex-html"><span>1</span><span>0</span><span>6</span></span>'
    page = f'There are <span class="katex"><span class="katex-mathml"><math>{TEX}</math></span>{shown}</span> cells.'

    made = convert_document("a.html", page.encode(), LIMIT)

    assert made is not None
    assert made.text == "There are $10^{6}$ cells."


def test_a_page_is_without_what_only_leads_elsewhere(read: Callable[..., Artifact]) -> None:
    page = b'<nav><a href="/">Home</a></nav>before<nav/> <h1>Head<a class="headerlink" href="#head">#</a></h1>text'

    assert read("a.html", page).raw == "before\n\n# Head\n\ntext"


@pytest.mark.parametrize("payload", [b"", b" \n"])
def test_an_empty_page_is_an_empty_text(read: Callable[..., Artifact], payload: bytes) -> None:
    assert read("a.html", payload).raw == ""


def test_a_chunk_says_on_which_pages_it_stands(read: Callable[..., Artifact]) -> None:
    artifact = read("a.pdf", pdf(*(f"{SENTENCE.format('ledger')}\n{i} is the last word" for i in range(1, 5))))
    text = str(artifact.raw)

    chunks = Chunked(chunk_size=100, overlap=0).decompose("a.pdf", text, artifact.metadata).surfaces
    (whole,) = Chunked(chunk_size=1000).decompose("a.pdf", text, artifact.metadata).surfaces

    assert [(c.metadata["page"], c.metadata.get("pages"), c.text[-18:]) for c in chunks] == [
        (i, None, f"{i} is the last word") for i in range(1, 5)
    ]
    assert all(c.span and text[slice(*c.span)] == c.text for c in chunks)
    assert (whole.metadata["page"], whole.metadata["pages"]) == (1, [1, 4])


def test_a_hit_and_a_citation_name_the_page_of_their_sentence(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    pages = [f"The {bird} stands on page {n} of the handbook.\nIt is a bird." for n, bird in enumerate(BIRDS, 1)]
    cli.write("birds.pdf", pdf(*pages))
    cli.run("index")

    for n, bird in enumerate(BIRDS, 1):
        (hit,) = cli.json("search", f"where does the {bird} stand")
        assert (hit["metadata"]["page"], hit["metadata"]["pages"], hit["place"]) == (n, [1, len(BIRDS)], f"p. {n}")
        assert f"birds.pdf, p. {n} " in cli.run("search", f"where does the {bird} stand").stdout
        answer = cli.json("answer", f"where does the {bird} stand")
        assert answer["quotes"][0]["place"] == f"p. {n}"
        assert f"birds.pdf, p. {n} [" in cli.run("answer", f"where does the {bird} stand").stdout
    for shown in (cli.run("show", "birds.pdf").stdout, cli.run("search", "bird").stdout):
        assert "\f" not in shown
        assert "x0c" not in shown
    session = Session.of(FindingAid.of(load(cli.config)))
    for detail in ("full", "snippet", "id"):
        (found,) = session.call("search", {"query": "the osprey stands", "detail": detail})["hits"]
        assert found["place"] == "p. 4"
        assert found["url"].endswith("/docs/birds.pdf#page=4")


def test_a_chunk_neither_begins_nor_ends_with_the_end_of_a_page() -> None:
    text = "One.\n\n␌\n\n␌\n\nTwo words.\n\n␌\n\nThree."
    chunks = Chunked(chunk_size=11, overlap=0).decompose("a.pdf", text, {"n_pages": 4}).surfaces

    assert [(chunk.text, chunk.metadata["page"], "pages" in chunk.metadata) for chunk in chunks] == [
        ("One.", 1, False),
        ("Two words.", 3, False),
        ("Three.", 4, False),
    ]
    assert all(chunk.span and text[slice(*chunk.span)] == chunk.text for chunk in chunks)


def test_form_feeds_of_a_text_without_pages_are_none() -> None:
    plan = Chunked(chunk_size=100).decompose("a.txt", "one\n\f\ntwo", {"media_type": "text/plain"})

    assert "page" not in plan.surfaces[0].metadata


def test_a_slide_has_both_its_number_and_its_headings(read: Callable[..., Artifact]) -> None:
    artifact = read("a.pptx", slides(("Install", SENTENCE.format("ledger")), ("", ""), ("Use", "of it"), notes="Note"))

    chunks = Chunked(chunk_size=70, overlap=0).decompose("a.pptx", artifact.raw, artifact.metadata).surfaces

    assert [(c.metadata["page"], c.metadata["headings"]) for c in chunks][::2] == [
        (1, ["Install"]),
        (3, ["Use"]),
    ]


def test_what_stands_above_the_title_of_a_slide_belongs_to_that_slide(read: Callable[..., Artifact]) -> None:
    deck = pptx.Presentation()
    for title in ("Budget", "Hiring"):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = title
        slide.shapes.add_textbox(0, 0, 900_000, 9_000).text_frame.text = SENTENCE.format(f"line above {title}")
        slide.shapes.add_textbox(0, 5_000_000, 900_000, 9_000).text_frame.text = SENTENCE.format(f"body of {title}")
    deck.save(made := io.BytesIO())
    artifact = read("a.pptx", made.getvalue())

    chunks = Chunked(chunk_size=90, overlap=0).decompose("a.pptx", artifact.raw, artifact.metadata).surfaces
    of = {
        title: [c.metadata["headings"] for c in chunks if f"line above {title}" in c.text]
        for title in ("Budget", "Hiring")
    }

    assert of == {"Budget": [["Budget"]], "Hiring": [["Hiring"]]}


def test_an_extract_of_a_document_holds_no_markup(read: Callable[..., Artifact]) -> None:
    sections = [(topic, SENTENCE.format(topic)) for topic in ("ledger", "vector")]
    artifact = read("a.docx", word(*sections))

    synopsis = Extractive().synthesize(str(artifact.raw), artifact.metadata)

    assert synopsis == " ".join(text for _, text in sections)


def test_one_of_each_is_found_with_its_page_and_headings(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"].pop("include")
    cli.settings["corpora"]["docs"]["strategy"] = {"name": "Chunked", "chunk_size": 60, "overlap": 0}
    for name, payload in MADE.items():
        cli.write(name, payload)

    assert cli.run("index").exit_code == 0
    hits = {hit["artifact_id"]: hit for hit in cli.json("search", "ledger", "--mode", "lexical", "-k", "50")}

    assert set(hits) == set(MADE)
    assert {name: hit["metadata"].get("page") for name, hit in hits.items() if "n_pages" in hit["metadata"]} == {
        "report.pdf": 1,
        "deck.pptx": 1,
    }
    assert {name for name, hit in hits.items() if hit["metadata"].get("headings") == ["Install"]} == {
        "plan.docx",
        "deck.pptx",
        "book.epub",
        "page.html",
        "study.ipynb",
    }
    for name, hit in hits.items():
        text = str(Files(cli.docs).read(name).raw)
        assert text[slice(*hit["span"])] == hit["text"]


@pytest.mark.parametrize(
    ("name", "payload", "kind", "said"),
    [
        ("a.pdf", b"", "parse", "an empty file, not a valid PDF"),
        ("a.html", b"<!-- nothing -->", "no_text", "no text in this HTML page"),
        ("a.html", b"<div id=app></div><script>start()</script>", "no_text", "no text in this HTML page"),
        ("a.html", b'<img src="data:image/png;base64,AAAA">', "no_text", "no text in this HTML page"),
        ("a.docx", word(), "no_text", "no text in this Word document"),
        ("a.epub", epub("<img src='a.png'/>", title="T"), "no_text", "no text in the chapters"),
        ("a.ipynb", notebook(), "no_text", "no text in this Jupyter notebook"),
        ("a.eml", b"Content-Type: text/plain\n\n", "no_text", "no text in this mail"),
        ("a.docx", b"", "parse", "an empty file, not a valid Word document"),
        ("a.pdf", pdf(""), "no_text", r"no text on its pages \(1\)"),
        ("a.pdf", scanned_pdf(), "no_text", "set ocr: true"),
        ("a.pdf", pdf("text")[:-300], "parse", "cut short"),
        ("a.pdf", pdf("text", password="secret"), "encrypted", "with a password: save it without"),
        ("a.pdf", b"<html>Please log in</html>", "parse", "not a PDF despite its name"),
        ("a.pdf", b"%PDF-1.7\nnothing\n%%EOF", "parse", "damaged, or not a valid PDF"),
        ("a.docx", MADE["plan.docx"][:-500], "parse", "damaged, or not a valid Word document"),
        ("a.docx", MADE["deck.pptx"], "parse", "not a valid Word document"),
        ("a.docx", zipped({"a.txt": "text"}), "parse", "not a valid Word document"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"), "encrypted", "with a password"),
        ("a.pptx", b"no slides", "parse", "not a valid PowerPoint file"),
        ("a.pptx", MADE["plan.docx"], "parse", "not a valid PowerPoint file"),
        ("a.epub", zipped({"mimetype": "application/epub+zip"}), "parse", "not a valid EPUB"),
        ("a.epub", epub("<p>text</p>", locked=True), "encrypted", "DRM"),
        ("a.epub", epub("<p>text</p>", "\u5db3\u2bb7", encrypted=["OEBPS/1.xhtml"]), "encrypted", "DRM"),
        ("a.epub", with_password(epub("<p>text</p>")), "encrypted", "with a password"),
        ("a.docx", with_password(MADE["plan.docx"]), "encrypted", "with a password"),
        ("a.pptx", with_password(MADE["deck.pptx"]), "encrypted", "with a password"),
        ("a.html", b"\x7fELF\x00\x01\x02\x00", "binary", "binary, not text"),
        ("a.ipynb", MADE["study.ipynb"][:-9], "parse", "not a valid Jupyter notebook"),
        ("a.ipynb", b"[]", "parse", "no list of cells"),
        ("a.ipynb", b'{"worksheets": [], "nbformat": 3}', "parse", "no list of cells"),
        ("a.ipynb", b'{"cells": [1]}', "no_text", "damaged cells, not read"),
    ],
)
def test_what_is_wrong_with_a_document_is_said_in_one_line(
    read: Callable[..., Artifact], name: str, payload: bytes, kind: str, said: str
) -> None:
    with pytest.raises(ReadError, match=said) as raised:
        read(name, payload)

    assert raised.value.kind == kind
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_an_epub_whose_fonts_alone_are_encrypted_is_read(read: Callable[..., Artifact]) -> None:
    assert "Of herons." in str(read("a.epub", epub("<p>Of herons.</p>", encrypted=["OEBPS/a.otf"])).raw)


def test_a_document_of_more_text_than_the_limit_is_refused(read: Callable[..., Artifact]) -> None:
    long = word(*(("Head", SENTENCE.format(i) * 20) for i in range(100)))
    assert len(long) < 100_000

    with pytest.raises(ReadError, match=r"its text has 1\d\d,\d{3} bytes, more than source\.max_bytes = 100,000"):
        read("a.docx", long, max_bytes=100_000)


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.epub"])
def test_a_zip_bomb_is_not_unpacked(read: Callable[..., Artifact], name: str) -> None:
    bomb = zipped({"word/document.xml": bytes(30_000_000)})
    assert len(bomb) < 40_000

    with pytest.raises(ReadError, match=r"unpacks to 30,000,000 bytes, more than 10 times source\.max_bytes"):
        read(name, bomb, max_bytes=2_000_000)


def test_documents_that_fail_fail_alone_and_by_name(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"].pop("include")
    cli.write("good.pdf", pdf("A text that is fine."))
    cli.write("bad.pdf", pdf("text", password="secret"))

    result = cli.run("index")

    assert result.exit_code == 1
    assert "docs: bad.pdf: a PDF with a password" in result.stderr
    assert [hit["artifact_id"] for hit in cli.json("search", "fine")] == ["good.pdf"]


def test_odd_names_of_documents_go_all_the_way(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"].pop("include")
    names = {"new\nline.pdf", "quote'\".pdf", "emoji 🗂.pdf", "dots...pdf", "UPPER.PDF"}
    for number, name in enumerate(names):
        cli.write(name, pdf(f"A text that is found, number {number}."))

    assert cli.run("index").exit_code == 0
    assert {hit["artifact_id"] for hit in cli.json("search", "text that is found", "-k", "10")} == names


def test_a_document_without_permission_fails_alone(unprivileged: Path) -> None:
    uid = os.geteuid()
    os.seteuid(os.getuid())
    (unprivileged / "a.pdf").write_bytes(pdf("text"))
    (unprivileged / "a.pdf").chmod(0)
    os.seteuid(uid)

    with pytest.raises(ReadError, match="cannot be read: Permission denied"):
        Files(unprivileged).read("a.pdf")


# -- the process in which converters work -----------------------------------------------------------------


def test_a_converter_that_is_not_done_in_time_is_ended_and_the_next_document_gets_another() -> None:
    converter = Converter(seconds=0.01)  # less than any process takes to start

    with pytest.raises(ReadError, match="did not finish within 0 s") as raised:
        converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    converter.seconds = 60
    answer = converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    converter.end()

    assert raised.value.kind == "timeout"
    assert answer["metadata"]["n_pages"] == 2


def test_a_converter_that_crashes_fails_one_document_and_the_next_gets_another() -> None:
    converter = Converter()
    thread = threading.Thread(target=lambda: _wait_for(lambda: converter._process) and _kill(converter))
    thread.start()

    with pytest.raises(ReadError, match="crashed"):
        converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    thread.join()
    answer = converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    converter.end()

    assert answer["metadata"]["n_pages"] == 2


def _kill(converter: Converter) -> None:
    with suppress(ProcessLookupError, AttributeError):  # it has ended
        os.kill(converter._process.pid, signal.SIGKILL)  # type: ignore[union-attr]


def test_a_converter_that_died_between_documents_costs_none() -> None:
    converter = Converter()
    converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    assert converter._process
    converter._process.kill()
    converter._process.wait()

    answer = converter.convert(".pdf", MADE["report.pdf"], LIMIT)
    converter.end()

    assert answer["metadata"]["n_pages"] == 2


def odt_of_lines(count: int) -> bytes:
    return opendocument(f"<office:text><text:p>Of the ledger{'<text:line-break/>' * count}</text:p></office:text>")


LONG = {
    ".docx": changed(
        MADE["plan.docx"], "word/document.xml", lambda xml: xml.replace(b"Of the ledger", b"<w:br/>" * 300_000)
    ),
    ".odt": odt_of_lines(300_000),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by what Linux has for it")
@pytest.mark.parametrize("spare", [10_000_000, 20_000_000, 35_000_000])
@pytest.mark.parametrize(("suffix", "short"), [(".docx", MADE["plan.docx"]), (".odt", odt_of_lines(1))], ids=[*LONG])
def test_a_document_that_takes_too_much_memory_fails_alone(suffix: str, short: bytes, spare: int) -> None:
    import resource

    converter = Converter()
    before = converter.convert(suffix, short, LIMIT)
    assert converter._process
    (held,) = re.findall(r"VmData:\s+(\d+) kB", Path(f"/proc/{converter._process.pid}/status").read_text())
    limit = int(held) * 1024 + spare  # how much decides which library runs out of it
    resource.prlimit(converter._process.pid, resource.RLIMIT_DATA, (limit, limit))

    answer = converter.convert(suffix, LONG[suffix], LIMIT)
    again = converter.convert(suffix, short, LIMIT)
    converter.end()

    assert answer["kind"] == "too_large"
    assert "of memory" in answer["error"]
    assert again == before
    assert "the ledger" in again["text"]
    assert suffix != ".docx" or again["metadata"]["title"] == "The plan"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell which process it would end")
def test_the_system_ends_a_converter_before_its_parent_when_memory_is_short() -> None:
    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score").read_text())

    converter = Converter()
    converter.convert(".docx", MADE["plan.docx"], LIMIT)
    assert converter._process
    scores = score(converter._process.pid), score(os.getpid())
    converter.end()

    assert scores[0] > scores[1]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by what Linux has for it")
def test_the_limit_of_memory_that_is_told_is_the_one_that_holds() -> None:
    given = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2 * 10**9, 2 * 10**9)); "
    code = given + "from findingaid.sources.converters import process; print(process.NO_MEMORY.decode())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "more than 2.0 GB of memory" in run.stdout


SLOW = "".join(f"<tr><td>{i}</td><td><b>bold</b> <a href='#{i}'>to</a></td></tr>" for i in range(60_000)).encode()
"""Page that takes more than ten seconds."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_converter_ends_with_its_parent_in_the_middle_of_a_document(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "slow.html").write_bytes(b"<table>" + SLOW)
    code = "import sys; from pathlib import Path; from findingaid.sources.files import Files; "
    read = "Files(Path(sys.argv[1])).read('slow.html')"
    parent = subprocess.Popen([sys.executable, "-c", code + read, tmp_path])
    child = _wait_for(lambda: next(iter(_children(parent.pid)), None))
    _wait_for(lambda: _ticks(child) > 2 * os.sysconf("SC_CLK_TCK"))  # longer than it takes to start

    parent.send_signal(number)
    assert parent.wait() == -number
    _wait_for(lambda: _ticks(child) == 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the system has no limit of processor time")
def test_a_converter_limits_its_own_processor_time() -> None:
    """An expression that holds the interpreter keeps the process from seeing that its parent has ended."""
    limit = "from findingaid.sources.converters import process; process._limit_time(0.5)"
    code = f"import re; {limit}; re.match('(a*)*b', 'a' * 40)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGXCPU


def _wait_for(condition: Callable[[], Any]) -> Any:
    """Return the first true value of a condition. Fail after a minute."""
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def _children(pid: int) -> list[int]:
    return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _ticks(pid: int) -> int:
    """Return the processor time of a process; 0 if it has ended."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if found[0] == "Z" else int(found[11])


# -- requests with a deadline -----------------------------------------------------------------------------


@pytest.fixture
def converters() -> Iterator[Converters]:
    made = Converters()
    yield made
    for converter in made.idle:
        converter.end()


def _convert(converters: Converters, caller: str, seconds: float, name: str, payload: bytes) -> Any:
    """Return the answer for one document, or the kind of the error."""
    CALLER.set(caller)
    with within(seconds):
        try:
            return converters.convert(Path(name).suffix, payload, LIMIT)
        except ReadError as error:
            return error.kind


def test_nothing_is_converted_after_the_deadline_of_a_request(converters: Converters) -> None:
    start = time.monotonic()
    assert _convert(converters, "a", 0.1, "report.pdf", MADE["report.pdf"]) == "timeout"
    assert time.monotonic() - start < 1
    assert not any(converter._process for converter in converters.idle)

    answer = _convert(converters, "a", 60, "report.pdf", MADE["report.pdf"])
    assert answer["metadata"]["n_pages"] == 2


def test_equal_requests_share_one_conversion_whose_answer_is_kept(converters: Converters) -> None:
    with ThreadPoolExecutor(3) as pool:
        each = partial(_convert, converters, seconds=60, name="report.pdf", payload=MADE["report.pdf"])
        one, two, three = pool.map(each, "abc")

    assert one == two == three
    used = [converter for converter in converters.idle if converter._process]
    assert len(used) == 1
    used[0].end()
    assert _convert(converters, "d", 1, "report.pdf", MADE["report.pdf"]) == one
    assert not used[0]._process


def test_a_caller_with_slow_documents_keeps_no_other_caller_from_an_answer(converters: Converters) -> None:
    every = list(converters.idle)
    with ThreadPoolExecutor(4) as pool:
        pages = [b"<table><caption>%d" % i + SLOW for i in (1, 1, 2)]
        slow = [pool.submit(_convert, converters, "a", 60, "slow.html", page) for page in pages]
        _wait_for(lambda: len(converters.idle) == AT_ONCE - A_CALLER)
        (other,) = pool.map(partial(_convert, converters, seconds=60, name="a.pdf", payload=MADE["report.pdf"]), "b")
        assert other["metadata"]["n_pages"] == 2
        assert not any(future.done() for future in slow)
        _wait_for(lambda: [_kill(each) for each in every if each._process] and all(future.done() for future in slow))


def test_nothing_of_a_converter_is_imported_by_whoever_reads(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(MADE["report.pdf"])
    code = f"""
import sys
from pathlib import Path
from findingaid.sources.files import Files
files = Files(Path({str(tmp_path)!r}))
files.discover()
print([m for m in ("findingaid.sources.converters.process", "multiprocessing") if m in sys.modules])
files.read("a.pdf")
print([m for m in ("markitdown", "pypdfium2", "lxml", "onnxruntime") if m in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["[]", "[]"]


def test_a_converter_imports_nothing_from_the_folder_that_is_indexed(root: Path) -> None:
    for module in ("orjson", "lxml", "signal"):
        (root / f"{module}.py").write_text("raise SystemExit('run from a folder of documents')")
    code = """
from pathlib import Path
from findingaid.sources.files import Files
print(Files(Path()).read("page.html").raw)
"""
    said = subprocess.check_output([sys.executable, "-P", "-c", code], cwd=root, text=True)

    assert said == "# Install\n\nOf the **ledger**\n"


# -- installed distributions --------------------------------------------------------------------------------


def without(folder: Path, *distributions: str) -> dict[str, str]:
    """An environment of everything that is installed except these distributions."""
    folder.mkdir()
    installed = Path(sysconfig.get_path("purelib"))
    for entry in installed.iterdir():
        if not entry.name.lower().startswith(distributions) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    checkout = ROOT
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (checkout, folder)))}


READ_ALL = """
import json, sys
from pathlib import Path
from findingaid.errors import ReadError
from findingaid.sources.files import Files
files = Files(Path(sys.argv[1]))
found = {}
for listing in files.discover().listings:
    try:
        artifact = files.read(listing.artifact_id)
        found[listing.artifact_id] = [listing.stamp, artifact.raw, artifact.metadata]
    except ReadError as error:
        found[listing.artifact_id] = [listing.stamp, error.kind, str(error)]
print(json.dumps(found))
"""


def read_all(root: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Convert the files below a folder in another process that has other distributions."""
    command = [sys.executable, "-S", "-c", READ_ALL, str(root)]
    return dict(json.loads(subprocess.check_output(command, env=environment, text=True)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for name, payload in MADE.items():
        (folder / name).write_bytes(payload)
    return folder


def test_without_the_extra_a_binary_document_says_what_to_install_and_text_is_read_as_it_is(
    root: Path, tmp_path: Path
) -> None:
    found = read_all(root, without(tmp_path / "bare", "markitdown", "pypdfium2"))

    for name in ("report.pdf", "plan.docx", "deck.pptx", "book.epub"):
        assert found[name][1] == "no_converter"
        assert "pip install 'findingaid[documents]', or exclude it" in found[name][2]
    for name in ("page.html", "study.ipynb", "table.csv"):
        assert found[name][1].encode() == MADE[name]
        assert found[name][2]["encoding"] == "utf-8"
        assert "text_type" not in found[name][2]


def test_a_source_that_asks_for_recognition_says_what_to_install(tmp_path: Path) -> None:
    code = "from findingaid.sources.files import Files; Files('.', ocr=True).discover()"
    environment = without(tmp_path / "bare", "rapidocr")

    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True)

    assert "SourceError: source.ocr: needs rapidocr: pip install 'findingaid[ocr]'" in done.stderr


def test_another_version_of_a_converter_changes_the_stamps_of_what_it_converts(root: Path, tmp_path: Path) -> None:
    environment = without(tmp_path / "older", "markitdown-")
    older = tmp_path / "older" / "markitdown-0.0.1.dist-info"
    older.mkdir()
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: markitdown\nVersion: 0.0.1\n")

    now = {listing.artifact_id: listing.stamp.rstrip("?") for listing in Files(root).discover().listings}
    before = {name: stamp.rstrip("?") for name, (stamp, *_) in read_all(root, environment).items()}

    assert {name for name in now if now[name] != before[name]} == set(MADE) - {"report.pdf", "table.csv"}
    assert "markitdown-0.0.1" in before["plan.docx"]


def test_another_reading_of_plain_text_changes_the_stamps_of_text_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ("a.md", "b.txt", "c", "d.json", "table.csv")
    for name in plain:
        (root / name).write_text("text")
    before = {listing.artifact_id: listing.stamp.rstrip("?") for listing in Files(root).discover().listings}

    monkeypatch.setattr(documents, "PLAIN_REVISION", "next")
    now = {listing.artifact_id: listing.stamp.rstrip("?") for listing in Files(root).discover().listings}

    assert {name for name in now if now[name] != before[name]} == {*plain}


def test_escaped_characters_of_json_are_read_and_those_of_other_texts_are_not(root: Path) -> None:
    written = json.dumps({"text": "Der Schlüssel"})
    (root / "a.json").write_text(written)
    (root / "a.jsonl").write_text(written)
    (root / "a.ndjson").write_text(written)
    (root / "a.json.gz").write_bytes(gzip.compress(written.encode()))
    (root / "a.txt").write_text(written)

    read = {name: Files(root).read(name).raw for name in ("a.json", "a.jsonl", "a.ndjson", "a.json.gz", "a.txt")}

    assert read == dict.fromkeys(read, '{"text": "Der Schlüssel"}') | {"a.txt": written}


def test_what_is_read_as_it_is_has_no_converter() -> None:
    assert converter_id("a.md") == converter_id("pdf") == ""
    assert convert_document("a.md", b"\x00", LIMIT) is None
    assert all(converter_id(f"a{suffix}") for suffix in FORMATS)


# -- anything at all ------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.sampled_from(sorted(FORMATS)), st.binary(max_size=2000))
def test_random_bytes_fail_with_a_word_or_are_text(suffix: str, payload: bytes) -> None:
    answer = json.loads(process.answer(suffix, payload, LIMIT))

    assert set(answer) in ({"text", "metadata", "notes"}, {"error", "kind"})


@pytest.mark.slow
def test_damaged_documents_never_stop_a_run(make_aid: Callable[..., FindingAid], tmp_path: Path) -> None:
    """Every damaged document is either converted or named."""
    root, chance = tmp_path / "root", random.Random(20260101)
    root.mkdir()
    for name, payload in MADE.items():
        for i in range(40):
            damaged = bytearray(payload)
            for _ in range(chance.choice((1, 5, 50))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            (root / f"{i} {name}").write_bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
    (root / "good.pdf").write_bytes(pdf("A text that is fine."))

    aid = make_aid(source=Files(root), synthesizer=None, max_failures=1.0)
    report = aid.index().corpora["docs"]

    assert report.error is None
    assert report.artifacts + len(report.skipped) == 40 * len(MADE) + 1
    assert report.new + len(report.failed) == report.artifacts
    assert "good.pdf" in {hit.artifact_id for hit in aid.search("fine", mode="lexical")}


# -- while it is read -------------------------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_not_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content that was read may mix two editions."""
    path = tmp_path / "a.txt"
    path.write_text("one edition")
    look = os.fstat

    def look_and_write(descriptor: int) -> os.stat_result:
        state = look(descriptor)
        os.utime(path, ns=(0, state.st_mtime_ns + 1))
        return state

    monkeypatch.setattr(os, "fstat", look_and_write)
    with pytest.raises(ReadError, match="changed each of 3 times that it was read") as raised:
        Files(tmp_path).payload("a.txt")
    monkeypatch.undo()

    assert raised.value.kind == "changed"
    assert Files(tmp_path).payload("a.txt") == b"one edition"


@pytest.mark.release
@pytest.mark.slow
def test_a_large_file_is_refused_or_indexed_as_the_limit_says(
    make_aid: Callable[..., FindingAid], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    line = SENTENCE.format("ledger") + "\n\n"
    (root / "large.txt").write_text(line * (100_000_000 // len(line) + 1))

    refused = make_aid(source=Files(root), strategy=WholeText(), synthesizer=None).index().corpora["docs"]
    raised = make_aid(source=Files(root, max_bytes=200_000_000), strategy=WholeText(), synthesizer=None)
    indexed = raised.index().corpora["docs"]

    (failure,) = refused.failed
    assert (failure.artifact_id, failure.kind) == ("large.txt", "too_large")
    assert "more than source.max_bytes = 20,000,000: exclude it or raise the limit" in failure.message
    assert (indexed.records, list(indexed.failed)) == (1, [])


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("```sh\nls", "```sh\nls\n```"),
        ("~~~~\n~~~\nls", "~~~~\n~~~\nls\n~~~~"),
        ("```\nls\n````\nthen", "```\nls\n````\nthen"),
        ("``` a ``` b", "``` a ``` b"),
    ],
)
def test_a_block_of_code_that_a_cell_leaves_open_ends_with_the_cell(cell: str, shown: str) -> None:
    made = notebook(("markdown", cell), ("markdown", "# Next"))

    found = convert_document("a.ipynb", made, LIMIT)

    assert found is not None
    assert found.text == f"{shown}\n\n# Next"
