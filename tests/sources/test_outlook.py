"""Mails that Outlook saves (.msg): their fields, text and attached files, and what is no such mail despite its name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from findingaid.errors import ReadError
from findingaid.model import Note
from findingaid.sources.documents import convert_document
from findingaid.sources.files import Files
from findingaid.sources.outlook import NOT_STORED, OTHER_FIELDS
from tests.support.documents import pdf
from tests.support.outlook import ole, outlook

LIMIT = 1_000_000
CLASS, SUBJECT, BODY, HTML, RTF, SENT, HEADERS = 0x001A, 0x0037, 0x1000, 0x1013, 0x1009, 0x0039, 0x007D
SENDER, SENDER_ADDRESS, EXCHANGE_ADDRESS, CODE_PAGE_OF_TEXT = 0x0C1A, 0x5D01, 0x0C1F, 0x3FDE
NAME, TYPE, IDENTIFIER, CONTENT, MESSAGE = 0x3707, 0x370E, 0x3712, 0x3701, 0

COMPRESSED_RTF = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)
"""The example of [MS-OXRTFCP], section 4.1: {\\rtf1\\ansi\\ansicpg1252\\pard hello world}."""


def test_a_message_has_the_fields_and_the_text_of_a_mail(tmp_path: Path) -> None:
    said = {
        SUBJECT: "Pläne — März",
        SENDER: "Löwe, Ada",
        SENDER_ADDRESS: "ada@example.org",
        SENT: datetime(2026, 3, 2, 8, tzinfo=UTC),
        BODY: "Größe: 5 €\n",
    }
    (tmp_path / "a.msg").write_bytes(outlook(said, ("Bob Böhm bob@example.org", "jürgen@münchen.example")))

    found = Files(tmp_path).read("a.msg")

    assert found.raw == (
        'From: "Löwe, Ada" <ada@example.org>\nTo: Bob Böhm <bob@example.org>, jürgen@münchen.example\n'
        "Date: Mon, 02 Mar 2026 08:00:00 +0000\nSubject: Pläne — März\n\nGröße: 5 €\n"
    )
    assert {name: found.metadata[name] for name in ("title", "from", "to", "date", "media_type")} == {
        "title": "Pläne — März",
        "from": '"Löwe, Ada" <ada@example.org>',
        "to": ["Bob Böhm <bob@example.org>", "jürgen@münchen.example"],
        "date": "2026-03-02T08:00:00+00:00",
        "media_type": "application/vnd.ms-outlook",
    }


@pytest.mark.parametrize(
    ("said", "code_page", "words"),
    [
        ({BODY: "Größe: 5 Дней"}, "", "Größe: 5 Дней"),
        ({BODY: "Дней: 5", CODE_PAGE_OF_TEXT: 1251}, "cp1251", "Дней: 5"),
        ({BODY: "Дней: 5"}, "cp1251", "Дней: 5"),
        ({HTML: "<p>Дней: <b>5</b></p>".encode(), CODE_PAGE_OF_TEXT: 65001}, "", "Дней: **5**"),
        ({HTML: "<p>Größe: <b>5</b></p>".encode("latin-1"), CODE_PAGE_OF_TEXT: 28591}, "", "Größe: **5**"),
        (
            {BODY: "See below.", HTML: b"<p>Twelve herons by the canal at noon.</p>"},
            "",
            "Twelve herons by the canal at noon.",
        ),
        ({RTF: COMPRESSED_RTF}, "", "hello world"),
    ],
)
def test_its_text_is_read_in_each_form(said: dict[int, str | bytes | int], code_page: str, words: str) -> None:
    found = convert_document("a.msg", outlook({SENDER: "Ada", **said}, code_page=code_page), LIMIT)

    assert found
    assert found.text.partition("\n\n")[2].strip() == words
    assert not found.notes


def test_its_heads_may_be_those_with_which_it_came() -> None:
    came = "From: Ada <ada@example.org>\r\nDate: Mon, 02 Mar 2026 10:00:00 +0200\r\n"

    found = convert_document("a.msg", outlook({EXCHANGE_ADDRESS: "/O=X/CN=ADA", HEADERS: came, BODY: "Text."}), LIMIT)

    assert found
    assert (found.metadata["from"], found.metadata["date"]) == ("Ada <ada@example.org>", "2026-03-02T10:00:00+02:00")


def test_its_date_is_as_on_the_clock_of_its_sender() -> None:
    said = {SENDER: "Ada", SENT: datetime(2026, 3, 2, 7, 30, tzinfo=UTC), BODY: "Text."}
    came = "Date: Sun, 01 Mar 2026 23:30:00 -0800\r\n"

    found = convert_document("a.msg", outlook({**said, HEADERS: came}), LIMIT)

    assert found
    assert found.metadata["date"] == "2026-03-01T23:30:00-08:00"


def test_a_draft_without_a_sender_names_whom_it_is_for() -> None:
    found = convert_document("a.msg", outlook({SUBJECT: "Plan", BODY: "Text."}, ("Bob bob@example.org",)), LIMIT)

    assert found
    assert found.text == "To: Bob <bob@example.org>\nSubject: Plan\n\nText."


def test_its_attached_files_and_messages_are_artifacts(tmp_path: Path) -> None:
    attached = (
        {NAME: "отчёт.pdf", CONTENT: pdf("The report of the boiler.")},
        {TYPE: "text/plain", CONTENT: b"Notes."},
        {NAME: "logo.png", TYPE: "image/png", IDENTIFIER: "logo@1", CONTENT: b"\x89PNG"},
        {MESSAGE: {SUBJECT: "Inner", SENDER: "Carl", BODY: "Of ducks."}},
    )
    (tmp_path / "a.msg").write_bytes(outlook({SUBJECT: "Outer", SENDER: "Ada", BODY: "See below."}, (), attached))
    source = Files(tmp_path)

    assert {found.artifact_id for found in source.discover().listings} == {
        "a.msg",
        "a.msg/отчёт.pdf",
        "a.msg/attachment",
        "a.msg/Inner.eml",
    }
    assert "The report of the boiler." in source.read("a.msg/отчёт.pdf").raw
    assert source.read("a.msg/Inner.eml").raw == "From: Carl\nSubject: Inner\n\nOf ducks."
    assert source.read("a.msg/Inner.eml").metadata["parent"] == "a.msg"
    assert not source.read("a.msg").notes


def test_what_a_message_has_besides_text_and_files_is_counted() -> None:
    contact = outlook(
        {CLASS: "IPM.Contact", SUBJECT: "Ada", BODY: "Calls on Mondays."}, ("Ada a@b",), ({NAME: "link"},)
    )

    found = convert_document("a.msg", contact, LIMIT)

    assert found
    assert found.notes == (Note("left_out", OTHER_FIELDS, 1), Note("left_out", NOT_STORED, 1))


def test_a_text_of_another_program_under_its_suffix_is_that_text(tmp_path: Path) -> None:
    (tmp_path / "Imu.msg").write_text("# Orientation of the robot\nfloat64[9] covariance\n")

    found = Files(tmp_path).read("Imu.msg")

    assert found.raw.startswith("# Orientation")
    assert found.metadata["media_type"] == "text/plain"


def test_a_damaged_message_fails_and_keeps_its_attached_files(tmp_path: Path) -> None:
    whole = outlook({SUBJECT: "s", SENDER: "Ada", BODY: "Text."}, (), ({NAME: "a.txt", CONTENT: b"Notes."},))
    source = Files(tmp_path)
    (tmp_path / "a.msg").write_bytes(whole[:2000])

    assert source.discover().unknown == ["a.msg/"]
    with pytest.raises(ReadError, match="damaged, or not a valid Outlook message"):
        source.read("a.msg")


def test_a_message_whose_parts_overlap_is_refused() -> None:
    """Each of many streams may name the whole file as its content, which would be the square of its size in memory."""
    bomb = ole({f"stream{n:03}": bytes(5000) for n in range(50)})
    first = bomb.index("stream000".encode("utf-16-le")) + 116
    for n in range(1, 50):
        at = bomb.index(f"stream{n:03}".encode("utf-16-le")) + 116
        bomb = bomb[:at] + bomb[first : first + 4] + (200_000).to_bytes(8, "little") + bomb[at + 12 :]

    with pytest.raises(ReadError, match="its parts overlap"):
        convert_document("a.msg", bomb, LIMIT)


def test_a_date_line_that_is_none_leaves_the_date_of_the_message() -> None:
    made = {SENDER: "Ada", SENT: datetime(2026, 3, 2, 7, 30, tzinfo=UTC), BODY: "Text.", HEADERS: "Date: on Monday\r\n"}

    found = convert_document("a.msg", outlook(made), LIMIT)

    assert found
    assert found.metadata["date"] == "2026-03-02T07:30:00+00:00"
