"""Times of a last change, of which a further change soon after may have the same one."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime

DAY_IS_OVER = timedelta(days=2)
"""Time from the beginning of a day until it is over in every time zone."""

QUARTER_HOUR = 900
RACY_SECONDS = 120
"""Age in seconds up to which there may be a further change at the same time.

The limit is generous because some servers report times in minutes, and clocks differ.
"""


def may_repeat(changed: object) -> bool:
    """Return whether a further change may have the same time: a day that is not over, or a second just now.

    Times without a zone may be of any, and all are full quarter hours apart.
    """
    if isinstance(changed, str):
        for parse in (datetime.fromisoformat, parsedate_to_datetime):
            with suppress(ValueError):
                return may_repeat(parse(changed))
        return False
    if not isinstance(changed, date):
        return False
    time = changed if isinstance(changed, datetime) else datetime.combine(changed, datetime.min.time())
    age = datetime.now(UTC) - (time if time.tzinfo else time.replace(tzinfo=UTC))
    if time.time() == datetime.min.time():
        return age < DAY_IS_OVER
    seconds = (age.total_seconds() + RACY_SECONDS) % QUARTER_HOUR  # its clock may be ahead
    return not time.microsecond and abs(age) < DAY_IS_OVER and seconds < 2 * RACY_SECONDS
