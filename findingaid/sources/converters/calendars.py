"""Calendars and contacts: a section for each appointment, task or person, with a line for each of its fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from findingaid.model import Note
from findingaid.sources.converters.common import BROKEN, left_out_notes, plain_text
from findingaid.sources.documents import ATTACHED, Converted
from findingaid.text.titles import as_title

FIELDS = {
    "DTSTART": "Start",
    "DTEND": "End",
    "RRULE": "Repeats",
    "EXDATE": "Except",
    "TEL": "Telephone",
    "ADR": "Address",
    "ORG": "Organization",
    "BDAY": "Birthday",
}
"""Names of fields in plain words; the others are written as they are."""

FOR_PROGRAMS = frozenset(
    "CALSCALE CREATED DTSTAMP LAST-MODIFIED METHOD PRODID REV SEQUENCE TRANSP TZID UID VALARM VERSION VTIMEZONE".split()  # noqa: SIM905
)
"""Fields and components that only programs read, beside those whose name begins with "X-"."""

HEADINGS = ("SUMMARY", "FN", "N", "ORG")
DATES = frozenset({"DTSTART", "DTEND", "DUE", "COMPLETED", "EXDATE", "RECURRENCE-ID", "BDAY", "ANNIVERSARY"})
DATE = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})\d{2}(Z)?)?")
DAY = re.compile(r"\d{8}")
NO_YEAR = "X-APPLE-OMIT-YEAR"
"""Parameter with the year that a program writes for a birthday without one."""

OF_PARTS = frozenset({"ADR", "N", "ORG"})
PART_END = re.compile(r"(?<!\\);")
ESCAPED = re.compile(r"\\([,;\\])")
WORD = re.compile(r"\w+")
BASE64 = frozenset({"B", "BASE64"})

ANSWERS = frozenset({"ACCEPTED", "DECLINED", "TENTATIVE", "DELEGATED"})
"""Answers to an invitation."""


def convert_calendar(payload: bytes, max_bytes: int) -> Converted:
    """Convert a calendar (iCalendar) or contacts (vCard); a text under their name stays as it is."""
    from vobject.base import VObjectError, readComponents

    stored = plain_text(payload)
    if not stored.text.lstrip().upper().startswith("BEGIN:"):
        return stored
    try:
        components = list(readComponents(stored.text, allowQP=True, transform=False))
    except (VObjectError, ValueError):
        return stored._replace(notes=[*stored.notes, Note("as_stored", BROKEN)])
    left_out: Counter[str] = Counter()
    for component in components:
        _make_readable(component)
    sections = [section for each in components for section in _sections(each, left_out)]
    names = [name for each in components if (name := each.contents.get("x-wr-calname"))]
    title = as_title(names[0][0].value) if len(names) == 1 else ""
    metadata = {"title": title, "text_type": "text/markdown"}
    return Converted("\n\n".join(sections), metadata, [*stored.notes, *left_out_notes(left_out)])


def _make_readable(component: Any, cancelled: bool = False) -> None:
    """Write what a calendar says only to programs: the last day of an appointment, and that it is cancelled."""
    cancelled = cancelled or any(each.value.upper() == "CANCEL" for each in component.contents.get("method", ()))
    for child in component.components():
        _make_readable(child, cancelled)
    if component.name == "VEVENT":
        _end_on_last_day(component.contents.get("dtstart", ()), component.contents.get("dtend", ()))
        if cancelled and "status" not in component.contents:
            component.add("status").value = "CANCELLED"


def _end_on_last_day(starts: Sequence[Any], ends: Sequence[Any]) -> None:
    """Replace the end of whole days, which is the day after the last one."""
    for start, end in zip(starts, ends, strict=False):
        if DAY.fullmatch(end.value) and start.value < end.value:
            with suppress(ValueError):
                end.value = f"{date.fromisoformat(end.value) - timedelta(days=1):%Y%m%d}"


def _sections(component: Any, left_out: Counter[str]) -> Iterator[str]:
    """Yield the section of a component, and those of the components within it."""
    children = [child for child in component.getChildren() if not _is_for_programs(child.name)]
    fields = [child for child in children if hasattr(child, "value")]
    heading = next((field for name in HEADINGS for field in fields if field.name == name), None)
    named = _value(heading) if heading else component.name.removeprefix("V").capitalize()
    title = as_title(named)
    told = {*WORD.findall(title)}  # a heading may be cut, and be less than the parts of a name
    lines = [
        line
        for field in fields
        if field.name not in ("N", heading and heading.name) or not told.issuperset(WORD.findall(_value(field)))
        for line in _line(field, left_out)
    ]
    if heading or lines:
        yield "\n".join([f"## {title}", "", *lines]).rstrip()
    for child in children:
        if not hasattr(child, "value"):
            yield from _sections(child, left_out)


def _is_for_programs(name: str) -> bool:
    return name in FOR_PROGRAMS or name.startswith("X-")


def _line(field: Any, left_out: Counter[str]) -> Iterator[str]:
    """Yield the line of a field, unless it is a file or empty."""
    if _is_file(field):
        left_out[ATTACHED] += 1
    elif value := _value(field):
        answers = ANSWERS.intersection(field.params.get("PARTSTAT", []))
        kinds = [*field.params.get("TYPE", []), *getattr(field, "singletonparams", []), *answers]
        of_kind = f" ({', '.join(map(str.lower, kinds))})" if kinds else ""
        yield f"- {FIELDS.get(field.name, field.name.capitalize())}{of_kind}: {value}"


def _is_file(field: Any) -> bool:
    encodings = {encoding.upper() for encoding in field.params.get("ENCODING", [])}
    return isinstance(field.value, bytes) or bool(encodings & BASE64) or str(field.value).startswith("data:")


def _value(field: Any) -> str:
    values = field.value if isinstance(field.value, list) else [field.value]  # a list of categories
    value = "\n".join(", ".join(values).splitlines()).strip()
    if field.name in OF_PARTS:
        return ESCAPED.sub(r"\1", ", ".join(filter(None, map(str.strip, PART_END.split(value)))))
    if field.name in DATES:
        zone = "".join(f" {name}" for name in field.params.get("TZID", []))
        shown = DATE.sub(_date, value) + zone
        return shown.removeprefix(f"{year[0]}-") if (year := field.params.get(NO_YEAR)) else shown
    if names := field.params.get("CN"):
        return f"{names[0]} <{value.removeprefix('mailto:').removeprefix('MAILTO:')}>"
    return value


def _date(found: re.Match[str]) -> str:
    year, month, day, hour, minute, utc = found.groups()
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}" if hour else "") + (" UTC" if utc else "")
