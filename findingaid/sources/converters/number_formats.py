"""Numbers of an Excel workbook with what their formats add: 0.125, 1250 and 1067 may be 12.5%, 1250 € and 01067.

Section 18.8.31 of ECMA-376 (part 1) defines the codes of formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from html import escape
from typing import Any, NamedTuple

from findingaid.sources.converters.marks import escape_tags

EXCEL_DAYS = datetime(1899, 12, 30)
MAC_DAYS = datetime(1904, 1, 1)
"""The days that are number 0 in workbooks that count from 1900, and in those that count from 1904."""

NEGATIVE = re.compile(rb"v>-")
"""Beginning of a negative value, such as that of a date before these days."""

DATES = {
    **dict.fromkeys(("14", "15", "16", "17", "22"), "d"),
    **dict.fromkeys(("18", "19", "20", "21", "45", "47"), "h"),
}
"""Codes of formats of dates and of times that workbooks do not spell out, each by one of its letters."""

PERCENT = {"9": "0%", "10": "0.00%"}
"""Codes of formats that workbooks do not spell out. What others of these show depends on the language."""

TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^]-]*)[^]]*\]|\[[^]]*\]|[_*].'
    r"|(?P<digits>[0#?][0#?,.]*)|(?P<sign>[-+(): $€£¥%])|(?P<other>.)",
    re.DOTALL,
)
"""Part of a code: words, currency, colour, padding, the digits, a sign, or what belongs to a date or a power."""

SECTION = re.compile(r'(?:"[^"]*"|\\.|[^;"\\])*', re.DOTALL)
"""Section of a code: that of positive, negative numbers, zero, and texts, with semicolons between them."""

CONDITION = re.compile(r"\[[<>=]")

CELL = (
    rb"(<(?:[\w.-]+:)?c(?=\s)(?=[^<>]*\ss=[\"'](?:%b)[\"'])[^<>]*>"
    rb"(?:<(?:[\w.-]+:)?f[\s>/][^<]*(?:</(?:[\w.-]+:)?f>)?)?<(?:[\w.-]+:)?v>)([^<]*)"
)
"""Cell in one of some styles up to its value, and the value."""

STYLE = re.compile(rb"\ss=[\"'](\d+)")
TYPE = re.compile(rb"\st=[\"'](\w+)[\"']")


class NumberFormat(NamedTuple):
    """What a format adds to a number: words before and after it, per cent, leading zeros up to a width."""

    before: str
    after: str
    percent: bool
    width: int

    def shown(self, number: float) -> str:
        """Return a number with all its digits, also those that its program rounds away."""
        whole, point, rest = number_text(abs(100 * number if self.percent else number)).partition(".")
        return f"{'-' * (number < 0)}{self.before}{whole.zfill(self.width)}{point}{rest}{self.after}"


class DateFormat(NamedTuple):
    """Format of dates, counted in days from `first`; without `first`, of times alone."""

    first: datetime | None

    def shown(self, number: float) -> str | None:
        """Return a date before the first day, or a negative time; None for any other, which calamine reads."""
        if number >= 0:
            return None
        try:
            since = timedelta(seconds=round(number * 86_400))
            return cell_text(self.first + since if self.first else since)
        except OverflowError:
            return number_text(number)


def cell_text(value: Any) -> str:
    """Return the value of a cell as a person reads it: 2026-03-01, 14:30, 1250.5."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return number_text(value)
        case datetime():
            return str(value.date()) if value.time() == time() else value.isoformat(" ", "auto").removesuffix(":00")
        case time():
            return value.isoformat("auto").removesuffix(":00")
        case timedelta():
            total = round(value.total_seconds())
            minutes, seconds = divmod(abs(total), 60)
            sign = "-" * (total < 0)
            return f"{sign}{minutes // 60}:{minutes % 60:02}" + f":{seconds:02}" * (seconds > 0)
        case date() | int():
            return str(value)
        case _:
            return escape_tags(" ".join(str(value).split()))


def number_text(number: float) -> str:
    """Return a number as it was typed in, with 15 digits, of a larger one those that tell it from others.

    The digits after them are of its binary form.
    """
    return f"{number:.15g}" if abs(number) < 1e15 else f"{Decimal(repr(number)):.0f}"


def number_format(code: str) -> NumberFormat | None:
    """Return what a code adds to each number, None if nothing.

    It also is None for codes that depend on the number, and for those of scaled numbers, fractions, powers, dates and
    numbers in parts.
    """
    sections = [_of_section(section) for section in SECTION.findall(code) if section][:2]
    if CONDITION.search(code) or len(set(sections)) != 1:
        return None
    found = sections[0]
    return found if found and (found.before or found.after or found.width > 1) else None


def _of_section(section: str) -> NumberFormat | None:
    around = ["", ""]
    digits = ""
    percent = False
    for token in TOKEN.finditer(section):
        if token["other"] or (token["digits"] and digits):
            return None
        digits = digits or token["digits"] or ""
        percent |= token["sign"] == "%"
        sign = token["escaped"] or token["sign"] or ""
        quoted = token["quoted"] or ""
        quoted = quoted if quoted.count("(") == quoted.count(")") else quoted.strip("-+()")
        around[bool(digits)] += quoted or token["currency"] or (sign if sign not in "-+()" else "")
    if not digits or digits.endswith(","):
        return None
    before, after = (" ".join(f"|{text}|".split()).strip("|") for text in around)
    whole = digits.partition(".")[0].replace(",", "")
    return NumberFormat(before.lstrip(), after.rstrip(), percent, 1 if whole.strip("0") else len(whole))


def formats_of(styles: Any) -> Mapping[bytes, NumberFormat]:
    """Map the cell styles that add to a number to what they add. `styles` is the root of their part."""
    found = {at: number_format(code) for at, code in _codes(styles, PERCENT).items()}
    return {at: each for at, each in found.items() if each}


def dates_of(styles: Any, first: datetime) -> Mapping[bytes, DateFormat]:
    """Map the cell styles of dates and times to what they are. `first` is the day that is number 0."""
    letters = {
        at: {(token["other"] or "").lower() for token in TOKEN.finditer(code)}
        for at, code in _codes(styles, DATES).items()
    }
    return {at: DateFormat(first if each & set("yd") else None) for at, each in letters.items() if each & set("ydhs")}


def _codes(styles: Any, known: Mapping[str, str]) -> Mapping[bytes, str]:
    """Map each cell style to the code of its format, of those that are spelled out or known."""
    spelled = {each.get("numFmtId"): each.get("formatCode", "") for each in styles.iterfind("{*}numFmts/{*}numFmt")}
    codes = {**known, **spelled}
    used = [each.get("numFmtId") for each in styles.iterfind("{*}cellXfs/{*}xf")]
    return {b"%d" % at: codes[of] for at, of in enumerate(used) if codes.get(of)}


def struck_styles(styles: Any) -> list[bytes]:
    """Return the cell styles that strike out. `styles` is the root of their part."""
    fonts = [font.find("{*}strike") for font in styles.iterfind("{*}fonts/{*}font")]
    struck = {str(at) for at, each in enumerate(fonts) if each is not None and each.get("val") not in {"0", "false"}}
    return [b"%d" % at for at, xf in enumerate(styles.iterfind("{*}cellXfs/{*}xf")) if xf.get("fontId") in struck]


def cells_in(sheet: bytes, styles: Sequence[bytes]) -> int:
    """Return the number of filled cells in one of these styles."""
    return sum(1 for _ in re.finditer(CELL % b"|".join(styles), sheet)) if styles else 0


def with_formats(sheet: bytes, formats: Mapping[bytes, NumberFormat | DateFormat]) -> bytes:
    """Return the part of a sheet with the numbers in these styles replaced by texts of what is shown."""

    def shown(cell: re.Match[bytes]) -> bytes:
        begin, value = cell.groups()
        kind, style = TYPE.search(begin), STYLE.search(begin)
        if style is None or (kind and kind[1] != b"n"):
            return cell[0]
        try:
            text = formats[style[1]].shown(float(value))
        except ValueError:
            return cell[0]
        if text is None:
            return cell[0]
        return STYLE.sub(lambda found: b' t="str"' + found[0], TYPE.sub(b"", begin), count=1) + escape(text).encode()

    return re.sub(CELL % b"|".join(formats), shown, sheet)
