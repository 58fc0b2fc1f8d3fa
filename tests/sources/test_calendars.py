"""Calendars and contacts: their fields are read as words, and what cannot be is named."""

from __future__ import annotations

from base64 import b64encode

import pytest

from findingaid.sources.converters.calendars import BROKEN
from findingaid.sources.documents import ATTACHED, convert_document

LIMIT = 1_000_000
PICTURE = b64encode(b"picture" * 40).decode()


def calendar(*lines: str) -> bytes:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *lines, "END:VCALENDAR", ""]).encode()


def contact(*lines: str) -> bytes:
    return "\r\n".join(["BEGIN:VCARD", *lines, "END:VCARD", ""]).encode()


def test_an_appointment_is_a_section_with_a_line_for_each_field() -> None:
    found = convert_document(
        "a.ics",
        calendar(
            "X-WR-CALNAME:Practice",
            "BEGIN:VEVENT",
            "UID:1",
            "DTSTART;TZID=Europe/Vienna:20260101T100000",
            "DTEND:20260101T100000Z",
            "SUMMARY:Visit\\, first",
            'ATTENDEE;CN="Eva Adler":mailto:eva@example.org',
            "DESCRIPTION:Ms. Adler brings the inv",
            " oice\\nof May",
            "BEGIN:VALARM",
            "DESCRIPTION:Reminder",
            "END:VALARM",
            "END:VEVENT",
            "BEGIN:VTODO",
            "SUMMARY:Order vaccine",
            "DUE;VALUE=DATE:20260105",
            "CATEGORIES:Stock,Dogs\\, cats",
            "END:VTODO",
        ),
        LIMIT,
    )

    assert found.text.splitlines() == [
        "## Visit, first",
        "",
        "- Start: 2026-01-01 10:00 Europe/Vienna",
        "- End: 2026-01-01 10:00 UTC",
        "- Attendee: Eva Adler <eva@example.org>",
        "- Description: Ms. Adler brings the invoice",
        "of May",
        "",
        "## Order vaccine",
        "",
        "- Due: 2026-01-05",
        "- Categories: Stock, Dogs, cats",
    ]
    assert found.metadata == {"title": "Practice", "text_type": "text/markdown"}
    assert not found.notes


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("DTEND;VALUE=DATE:20260304", "2026-03-03"),
        ("DTEND:20260302", "2026-03-01"),
        ("DTEND;VALUE=DATE:20260301", "2026-03-01"),
        ("DTEND:20260399", "2026-03-99"),
    ],
)
def test_whole_days_end_on_the_last_of_them(end: str, shown: str) -> None:
    lines = ("BEGIN:VEVENT", "SUMMARY:Fair", "DTSTART;VALUE=DATE:20260301", end, "END:VEVENT")
    found = convert_document("a.ics", calendar(*lines), LIMIT)

    assert found is not None
    assert found.text.splitlines() == ["## Fair", "", "- Start: 2026-03-01", f"- End: {shown}"]


def test_what_is_cancelled_or_declined_says_so() -> None:
    lines = ("METHOD:CANCEL", "BEGIN:VEVENT", "SUMMARY:Fair", "ATTENDEE;PARTSTAT=DECLINED;CN=Bob:mailto:b@example.org")
    found = convert_document("a.ics", calendar(*lines, "END:VEVENT"), LIMIT)

    assert found is not None
    assert found.text.splitlines()[2:] == ["- Attendee (declined): Bob <b@example.org>", "- Status: CANCELLED"]


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (("VERSION:2.1", "FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:J=C3=BCrgen"), ["## Jürgen"]),
        (("VERSION:2.1", "FN:Eva", "NOTE;ENCODING=QUOTED-PRINTABLE:one =", "two"), ["## Eva", "", "- Note: one two"]),
        (("VERSION:2.1", "N:Adler;Eva", "TEL;WORK:+43 1"), ["## Adler, Eva", "", "- Telephone (work): +43 1"]),
        (
            ("VERSION:3.0", "FN:Eva Adler", "N:Adler;Eva;;;", "ADR;TYPE=HOME:;;Ring 1\\, left;Wien;;1010;"),
            ["## Eva Adler", "", "- Address (home): Ring 1, left, Wien, 1010"],
        ),
        (
            ("VERSION:3.0", "FN:Eva", "BDAY;VALUE=DATE;X-APPLE-OMIT-YEAR=1604:1604-04-15"),
            ["## Eva", "", "- Birthday: 04-15"],
        ),
        (("VERSION:4.0", "FN:Eva", "BDAY:19800102", "UID:urn:1"), ["## Eva", "", "- Birthday: 1980-01-02"]),
    ],
)
def test_a_contact_is_read_whatever_its_version(lines: tuple[str, ...], read: list[str]) -> None:
    assert convert_document("a.vcf", contact(*lines), LIMIT).text.splitlines() == read


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("a.vcf", contact("VERSION:3.0", "FN:Eva", f"PHOTO;ENCODING=b;TYPE=JPEG:{PICTURE}")),
        ("a.vcf", contact("VERSION:2.1", "FN:Eva", f"PHOTO;JPEG;ENCODING=BASE64:{PICTURE}", "")),
        ("a.vcf", contact("VERSION:4.0", "FN:Eva", f"PHOTO:data:image/jpeg;base64,{PICTURE}")),
        (
            "a.ics",
            calendar("BEGIN:VEVENT", "SUMMARY:Eva", f"ATTACH;ENCODING=BASE64;VALUE=BINARY:{PICTURE}", "END:VEVENT"),
        ),
    ],
)
def test_pictures_and_attached_files_are_counted(name: str, payload: bytes) -> None:
    found = convert_document(name, payload, LIMIT)

    assert found.text == "## Eva"
    assert [note.words for note in found.notes] == [ATTACHED]


@pytest.mark.parametrize(
    "payload",
    [
        calendar("BEGIN:VEVENT", "SUMMARY:Visit", "a line without a field", "END:VEVENT"),
        calendar("BEGIN:VEVENT", "SUMMARY:Visit"),
        b"BEGIN:VCALENDAR\nSUMMARY:Visit",
    ],
)
def test_broken_lines_are_named_and_lose_no_words(payload: bytes) -> None:
    found = convert_document("a.ics", payload, LIMIT)

    assert "Visit" in found.text
    assert [note.words for note in found.notes] == [BROKEN]


def test_a_heading_loses_no_words_of_its_field_nor_of_the_parts_of_a_name() -> None:
    long = "word " * 200 + "last"

    assert "last" in convert_document("a.ics", calendar("BEGIN:VEVENT", f"SUMMARY:{long}", "END:VEVENT"), LIMIT).text
    short = convert_document("a.vcf", contact("VERSION:3.0", "FN:Eva", "N:Adler;Eva;;;"), LIMIT).text
    assert short.splitlines() == ["## Eva", "", "- N: Adler, Eva"]


def test_a_text_under_the_name_of_a_calendar_is_a_text() -> None:
    assert convert_document("a.ics", b"Plain words.", LIMIT).text == "Plain words."
