"""A time of change is trusted once no further change can have the same one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from functools import partial

import pytest

from findingaid.sources.change_times import may_repeat

JAPAN = timezone(timedelta(hours=9))
IN_OTHER_FORMS = ("%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d%m%Y", "%Y%m%d%H%M%S", "%Y-%m", "%B %d, %Y", "%Y")


@pytest.mark.parametrize(
    "of",
    [
        lambda now: now,
        lambda now: now.replace(tzinfo=None),
        lambda now: now.astimezone(JAPAN).replace(tzinfo=None),
        lambda now: now + timedelta(seconds=20),
        lambda now: now.date(),
        lambda now: datetime.combine(now.date(), datetime.min.time()),
        lambda now: now.isoformat(),
        lambda now: str(now.replace(tzinfo=None)),
        lambda now: str(now.date()),
        lambda now: format_datetime(now, usegmt=True),
        lambda now: f"{now.date()}Z",
        lambda now: f"{now.date()}+01:00",
        lambda now: int(now.timestamp()),
        lambda now: Decimal(int(now.timestamp()) * 1000),
        lambda now: now.timestamp(),
        lambda now: str(int(now.timestamp())),
        *(partial(datetime.strftime, format=form) for form in IN_OTHER_FORMS),
        lambda now: int(now.strftime("%Y%m%d")),
    ],
)
def test_a_second_just_now_and_a_day_that_is_not_over_may_repeat(of: Callable[[datetime], object]) -> None:
    assert may_repeat(of(datetime.now(UTC).replace(microsecond=0)))


@pytest.mark.parametrize(
    "of",
    [
        lambda now: now.replace(microsecond=1),
        lambda now: now - timedelta(minutes=5),
        lambda now: (now.astimezone(JAPAN) - timedelta(minutes=5)).replace(tzinfo=None),
        lambda now: now - timedelta(days=3),
        lambda now: (now - timedelta(days=3)).date(),
        lambda now: str((now - timedelta(days=3)).date()),
        lambda now: format_datetime(now - timedelta(minutes=5), usegmt=True),
        lambda _: None,
        lambda now: int(now.timestamp()) - 300,
        lambda now: int(now.timestamp() * 1000) + 1,
        lambda _: 7,
        lambda _: float("nan"),
        lambda _: True,
        lambda _: "v7",
        lambda _: "",
        lambda _: "27.11.1999",
        lambda _: 19991127,
        lambda now: f"8{now.year}5",
        lambda _: Decimal("sNaN"),
        lambda _: 10**400,
        lambda _: f"1 Mar {9**30} 10:00:00",
    ],
)
def test_any_other_time_and_a_version_may_not(of: Callable[[datetime], object]) -> None:
    assert not may_repeat(of(datetime.now(UTC).replace(microsecond=0)))
