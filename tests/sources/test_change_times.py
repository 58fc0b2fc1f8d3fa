"""A time of change is trusted once no further change can have the same one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from findingaid.sources.change_times import may_repeat

NOW = datetime.now(UTC).replace(microsecond=0)
TOKYO = NOW.astimezone(timezone(timedelta(hours=9)))


@pytest.mark.parametrize(
    "changed",
    [
        NOW,
        NOW.replace(tzinfo=None),
        TOKYO.replace(tzinfo=None),
        NOW + timedelta(seconds=20),
        NOW.date(),
        datetime.combine(NOW.date(), datetime.min.time()),
        NOW.isoformat(),
        f"{NOW.replace(tzinfo=None)}",
        str(NOW.date()),
        format_datetime(NOW, usegmt=True),
    ],
    ids=str,
)
def test_a_second_just_now_and_a_day_that_is_not_over_may_repeat(changed: object) -> None:
    assert may_repeat(changed)


@pytest.mark.parametrize(
    "changed",
    [
        NOW.replace(microsecond=1),
        NOW - timedelta(minutes=5),
        (TOKYO - timedelta(minutes=5)).replace(tzinfo=None),
        NOW - timedelta(days=3),
        (NOW - timedelta(days=3)).date(),
        str((NOW - timedelta(days=3)).date()),
        format_datetime(NOW - timedelta(minutes=5), usegmt=True),
        None,
        7,
        "v7",
        "",
    ],
    ids=str,
)
def test_any_other_time_and_a_version_may_not(changed: object) -> None:
    assert not may_repeat(changed)
