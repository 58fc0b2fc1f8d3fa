"""Scanned pages and pictures become text with its place if a source asks for it; the rest is counted and named."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from findingaid.errors import ReadError
from findingaid.sources.converters import ocr
from findingaid.sources.converters.convert import convert
from findingaid.sources.documents import (
    OCR,
    PAGE_DONE,
    PICTURE,
    SCAN,
    Converted,
    Converter,
    _start,
    as_scan,
    converter_id,
)
from findingaid.sources.files import Files
from findingaid.text.structure import PAGE_BREAK, Layout
from tests.conftest import Cli
from tests.support.documents import lettered, saved, scans

LIMIT = 10_000_000
HERON = "The heron waits."
EURO = "Prämie: 240,50 €"


def picture(made: Image.Image, kind: str = "PNG", **options: object) -> Converted:
    return convert(PICTURE, saved(made, kind, **options), LIMIT)


def noted(converted: Converted) -> dict[str, int]:
    return {note.words: note.count for note in converted.notes}


def near(box: Sequence[float], left: float, top: float, right: float, bottom: float, by: float) -> bool:
    return all(abs(side - wanted) <= by for side, wanted in zip(box, (left, top, right, bottom), strict=True))


# -- pages of a PDF ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scanned() -> Converted:
    pages = ("Typed letters.", lettered(HERON, EURO), lettered(), lettered("Third scan").rotate(90))
    return convert(SCAN, scans(*pages), LIMIT)


def test_scanned_pages_become_text_and_a_page_with_text_keeps_it(scanned: Converted) -> None:
    assert scanned.text.split(PAGE_BREAK) == ["Typed letters.", f"{HERON}\n{EURO}", "", "Third scan"]
    assert scanned.metadata["n_pages"] == 4


def test_what_was_and_what_was_not_recognized_is_counted_and_the_pages_are_named(scanned: Converted) -> None:
    assert noted(scanned) == {
        "pages whose text was recognized (OCR)": 2,
        "scanned pages on which no text was recognized": 1,
    }
    assert scanned.metadata["not_recognized"] == [3]


def test_a_box_is_in_points_of_the_page_as_it_is_shown_and_has_the_confidence_of_its_lines(scanned: Converted) -> None:
    layout = Layout.of(scanned.text, scanned.metadata["layout"])
    (found,) = (layout.fields(at, at + 9) for at in [scanned.text.index("heron")])
    turned = layout.fields(scanned.text.index("Third"), len(scanned.text))

    assert found["boxes"][0][0] == 2
    assert near(found["boxes"][0][1:], 25, 25, 150, 40, by=8)
    assert turned["boxes"][0][0] == 4
    assert near(turned["boxes"][0][1:], 25, 250, 40, 325, by=12)
    assert 0.85 <= found["confidence"] <= 1
    assert layout.fields(0, 5) == {}


def test_a_chunk_over_two_pages_has_a_box_on_each() -> None:
    layout = Layout.of(
        f"a b{PAGE_BREAK}c", [[1, 0, 1, 5, 5, 9, 9, 0.9], [1, 2, 3, 5, 11, 30, 15, 0.95], [2, 0, 1, 1, 2, 3, 4, 1.0]]
    )

    assert layout.fields(0, 9) == {"boxes": [[1, 5, 5, 30, 15], [2, 1, 2, 3, 4]], "confidence": 0.9}
    assert layout.fields(2, 3) == {"boxes": [[1, 5, 11, 30, 15]], "confidence": 0.95}


def test_a_number_on_a_scanned_page_stays_and_is_not_repeated() -> None:
    read = convert(SCAN, scans(lettered(HERON), stamp="page 5"), LIMIT)

    assert read.text == f"page 5\n{HERON}"
    assert read.text[slice(*read.metadata["layout"][0][1:3])] == HERON


def test_numbers_of_a_scanned_table_stay_though_the_number_of_the_page_has_them() -> None:
    read = convert(SCAN, scans(lettered("40 seats | 12 cows", "40 | 12"), stamp="page 12 of 40"), LIMIT)

    assert read.text == "page 12 of 40\n40 seats 12 cows\n40 12"


def test_a_scanned_form_with_a_filled_field_is_read_too() -> None:
    made = io.BytesIO()
    canvas = Canvas(made, pagesize=(350, 350), invariant=True)
    canvas.drawImage(ImageReader(lettered(HERON)), 0, 0, 350, 350)
    canvas.acroForm.textfield(name="town", value="Aarhus", x=50, y=50)
    canvas.save()

    assert convert(SCAN, made.getvalue(), LIMIT).text.splitlines()[:2] == ["town: Aarhus", HERON]
    unread = convert(".pdf", made.getvalue(), LIMIT)
    assert (unread.text, noted(unread)) == ("town: Aarhus", {f"pages without text, only images ({OCR})": 1})


def test_pages_beyond_the_most_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "MOST_PAGES", 1)

    read = convert(SCAN, scans(lettered(HERON), lettered("lost"), lettered("lost")), LIMIT)

    assert read.text.split(PAGE_BREAK) == [HERON, "", ""]
    assert noted(read)["scanned pages after the first 1, not read"] == 2


@pytest.mark.slow
def test_each_page_of_a_scan_has_the_time_of_a_document() -> None:
    payload = scans(*[lettered(HERON)] * 3)
    process = _start()
    assert process.stdin
    assert process.stdout
    process.stdin.write(orjson.dumps([SCAN, len(payload), LIMIT, 60]) + b"\n" + payload)
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(4)]
    process.stdin.close()
    process.wait()
    process.stdout.close()

    assert lines[:3] == [PAGE_DONE] * 3
    assert orjson.loads(lines[3])["metadata"]["n_pages"] == 3
    converter = Converter()
    assert converter.convert(SCAN, payload, LIMIT) == orjson.loads(lines[3])
    converter.end()


# -- pictures ----------------------------------------------------------------------------------------------


def upside_down(made: Image.Image) -> Image.Image:
    return made.transpose(Image.Transpose.ROTATE_180)


def test_a_picture_that_lies_on_its_head_is_turned_and_its_boxes_are_in_pixels_of_the_picture() -> None:
    read = picture(upside_down(lettered(HERON, EURO)))

    assert read.text == f"{HERON}\n{EURO}"
    assert near(read.metadata["layout"][0][3:7], 400, 620, 650, 650, by=12)
    assert "n_pages" not in read.metadata


def test_a_photo_is_shown_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[274] = 3

    read = picture(upside_down(lettered(HERON)), "JPEG", exif=exif)

    assert read.text == HERON
    assert near(read.metadata["layout"][0][3:7], 50, 50, 300, 80, by=12)


def test_each_page_of_a_tiff_is_a_page_and_further_pictures_of_an_animation_are_counted() -> None:
    more = {"save_all": True, "append_images": [lettered("Second")]}

    pages, animation = picture(lettered(HERON), "TIFF", **more), picture(lettered(HERON), "WEBP", lossless=True, **more)

    assert pages.text.split(PAGE_BREAK) == [HERON, "Second"]
    assert pages.metadata["n_pages"] == 2
    assert animation.text == HERON
    assert noted(animation)["further pictures of an animation, not read"] == 1


def test_letters_on_a_transparent_or_a_16_bit_picture_are_read() -> None:
    black = lettered(HERON).convert("L")
    transparent = Image.new("RGBA", black.size, (0, 0, 0, 0))
    transparent.paste((0, 0, 0, 255), mask=black.point(lambda grey: 255 - grey))
    deep = Image.frombytes("I;16", black.size, b"".join(struct.pack("<H", 200 * grey) for grey in black.tobytes()))

    assert picture(transparent).text == HERON
    assert picture(deep).text == HERON


def test_columns_of_prose_are_read_one_after_the_other_and_a_table_by_its_rows() -> None:
    columns = [f"left line {word} of a column | right line {word} of a column" for word in ("one", "two", "six")]
    table = ["Damage | Limit", "Water | 20,000", "Fire | 5,000"]

    read = picture(lettered("The heading is above both of the columns", *columns, "", "", *table, size=22, width=900))

    assert [line.split(" of ")[0] for line in read.text.splitlines() if line] == [
        "The heading is above both",
        *(f"{side} line {word}" for side in ("left", "right") for word in ("one", "two", "six")),
        "Damage Limit",
        "Water 20,000",
        "Fire 5,000",
    ]


def test_a_crooked_scan_keeps_its_lines_in_order() -> None:
    lines = ["Water damage | 20,000 EUR", "Fire and smoke | 100,000 EUR", "Theft of bicycles | 5,000 EUR"]

    read = picture(lettered(*lines, size=24, width=1000).rotate(2, fillcolor="white"))

    assert read.text.splitlines() == [line.replace(" | ", " ") for line in lines]


def test_lines_in_an_unknown_script_are_counted_instead_of_indexed() -> None:
    read = picture(lettered(HERON, "Цапля стоит на одной ноге", "Größe: 3 m²"))

    assert read.text.split("\n")[0] == HERON
    assert "Größe" in read.text
    assert noted(read)["lines not recognized well enough, not read"] == 1


@pytest.mark.parametrize(
    ("suffix", "payload", "kind", "said"),
    [
        (PICTURE, b"", "parse", "an empty file, not a valid picture"),
        (PICTURE, saved(lettered())[:40] + bytes(99), "parse", "not what its name says, nor text|damaged"),
        (PICTURE, saved(lettered(HERON))[:1500], "parse", "damaged, or not a valid picture"),
        (
            PICTURE,
            saved(Image.new("1", (20_000, 20_000))),
            "too_large",
            "20,000 by 20,000 pixels, more than 100 mill",
        ),
        (PICTURE, saved(lettered()), "no_text", "pictures in which no text was recognized"),
        (PICTURE, saved(Image.new("L", (1, 1))), "no_text", "pictures in which no text was recognized"),
        (
            SCAN,
            scans(lettered(), lettered()),
            "no_text",
            r"no text on its pages \(2\), only images or nothing: excl",
        ),
    ],
    ids=["empty", "damaged", "cut", "bomb", "blank", "pixel", "scan"],
)
def test_what_is_wrong_with_a_picture_is_said_in_one_line(suffix: str, payload: bytes, kind: str, said: str) -> None:
    with pytest.raises(ReadError, match=said) as raised:
        convert(suffix, payload, LIMIT)

    assert raised.value.kind == kind
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_a_text_under_the_name_of_a_picture_is_that_text() -> None:
    assert convert(PICTURE, b"only words", LIMIT).text == "only words"


# -- sources -----------------------------------------------------------------------------------------------


def test_the_setting_and_the_version_of_the_library_change_the_stamps_of_scans_and_pictures_alone(
    tmp_path: Path,
) -> None:
    for name in ("a.pdf", "b.PNG", "c.tif.gz", "d.md", "e.docx"):
        (tmp_path / name).write_bytes(b"x")

    def stamps(ocr: bool) -> dict[str, str]:
        found = Files(tmp_path, ocr=ocr).discover().listings
        return {listing.artifact_id: listing.stamp.removesuffix("?") for listing in found}

    without, asked = stamps(False), stamps(True)
    assert {name for name in without if without[name] != asked[name]} == {"a.pdf", "b.PNG", "c.tif.gz"}
    assert "rapidocr-" in converter_id(as_scan("a.pdf"))
    assert all(("rapidocr-" in stamp) == (name[0] in "abc") for name, stamp in asked.items())


@pytest.mark.slow
def test_scans_are_named_with_the_remedy_and_read_once_the_source_asks_for_it(cli: Cli) -> None:
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "docs"}
    cli.settings["corpora"]["docs"]["strategy"] = {"chunk_size": 60, "overlap": 0}
    files = {"scan.pdf": scans("Typed.", lettered(HERON)), "photo.png": saved(lettered("A kingfisher dives."))}
    for name, payload in {**files, "sky.jpg": saved(lettered(), "JPEG"), "a.md": b"# Herons\n\ntext"}.items():
        cli.write(name, payload)

    without = cli.run("index")
    assert f"skipped 1 .png, 1 .jpg: pictures, not read: {OCR}" in without.output.replace(
        "1 .jpg, 1 .png", "1 .png, 1 .jpg"
    )
    assert f"pages without text, only images ({OCR}): scan.pdf" in without.output
    cli.settings["corpora"]["docs"]["source"]["ocr"] = True
    report = cli.json("index")["corpora"]["docs"]
    assert (report["new"], report["changed"], report["calls"]["embed"]) == (1, 1, 2)
    hits = {hit["artifact_id"]: hit for hit in cli.json("search", "heron kingfisher", "--mode", "lexical")}
    assert hits["scan.pdf"]["place"] == "p. 2"
    for name in files:
        own = hits[name]["metadata"]
        assert own["boxes"][0][0] == own.get("page", 1)
        assert own["confidence"] > 0.85
        assert "layout" not in own
    assert "1 .jpg: pictures in which no text was recognized" in cli.run("status").output
    assert cli.json("index")["corpora"]["docs"]["changed"] == 0
