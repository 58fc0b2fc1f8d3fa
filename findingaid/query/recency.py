"""How much a record counts by its age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

SECONDS_A_DAY = 86_400

LEAST = 2.0**-100
"""Of what is older than a hundred half-lives, so that no score becomes 0."""

UNKNOWN = 0.5
"""Of what has no time: as of a record that is one half-life old."""


def factors(times: Sequence[Any], half_life: float, now: datetime | None = None) -> list[float]:
    """What the scores of records of these times are multiplied by: 1 now, half as much for every `half_life` days."""
    today = now or datetime.now(UTC)
    return [_factor(_time(value), half_life, today) for value in times]


def _factor(time: datetime | None, half_life: float, now: datetime) -> float:
    if time is None:
        return UNKNOWN
    age = max(0.0, (now - time).total_seconds() / SECONDS_A_DAY)
    return max(LEAST, math.pow(0.5, age / half_life))


def _time(value: Any) -> datetime | None:
    """A timestamp, or a text that is a date or a time by ISO 8601; one without a zone is of UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
