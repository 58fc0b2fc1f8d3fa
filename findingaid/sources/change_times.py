"""Times of a last change, of which a further change soon after may have the same one."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime

DAY_IS_OVER = timedelta(days=2)
"""Time from the beginning of a day until it is over in every time zone."""

QUARTER_HOUR = 900
RACY_SECONDS = 120
"""Age in seconds up to which there may be a further change at the same time.

The limit is generous because some servers report times in minutes, and clocks differ.
"""


DAY_WITH_ZONE = re.compile(r"(\d{4}-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d)")

UNITS = (1, 1_000, 1_000_000)
"""Numbers in a second, by which times are counted since 1970."""


def time_of(text: str) -> datetime | None:
    """Return the time that a text states; None if it states none, or no more than a month."""
    if day := DAY_WITH_ZONE.fullmatch(text):
        text = day[1]
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            return parse(text)
    return None


def seconds_of(changed: object) -> float | None:
    """Return a time, or a text that states one, in seconds since 1970; None for another value. No zone means UTC."""
    at = time_of(changed) if isinstance(changed, str) else changed
    if not isinstance(at, datetime):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def may_repeat(changed: object) -> bool:
    """Return whether a further change may have the same time: a day that is not over, or a second just now.

    Times without a zone may be of any, and all are full quarter hours apart. A number may count seconds since 1970, or
    parts of them. A text with the number of this year, but in no known form of a time, may be a day in another
    form.
    """
    said = str(changed)
    if isinstance(changed, str):
        changed = time_of(changed) or _number(changed)
    if not isinstance(changed, date):
        return _counts_seconds_until_now(changed) or _has_this_year(said)
    at = changed if isinstance(changed, datetime) else datetime.combine(changed, datetime.min.time())
    age = datetime.now(UTC) - (at if at.tzinfo else at.replace(tzinfo=UTC))
    if at.time() == datetime.min.time():
        return age < DAY_IS_OVER
    late = (age.total_seconds() + RACY_SECONDS) % QUARTER_HOUR  # its clock may be ahead
    return not at.microsecond and abs(age) < DAY_IS_OVER and late < 2 * RACY_SECONDS


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _counts_seconds_until_now(number: object) -> bool:
    if not isinstance(number, int | float | Decimal):
        return False
    with suppress(ValueError, OverflowError):  # a signalling NaN, and an integer beyond all floats
        seconds = (float(number) / unit for unit in UNITS)
        return any(each.is_integer() and abs(each - time.time()) < RACY_SECONDS for each in seconds)
    return False


def _has_this_year(text: str) -> bool:
    now = datetime.now(UTC)
    years = {(now - DAY_IS_OVER).year, (now + DAY_IS_OVER).year}
    return any(re.search(rf"(?<!\d){year}|{year}(?!\d)", text) for year in years)
