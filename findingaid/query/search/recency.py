"""Recency weights: factors by which the scores of records are multiplied, by age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

SECONDS_A_DAY = 86_400

LEAST = 2.0**-100
"""Factor of records older than a hundred half-lives, so that no score becomes 0."""

UNKNOWN = 0.5
"""Factor of records without a time: the same as at an age of one half-life."""


def recency_factors(times: Sequence[Any], half_life: float, now: datetime | None = None) -> list[float]:
    """Return a score factor for each time: 1 now, halved for every `half_life` days of age."""
    today = now or datetime.now(UTC)
    return [_factor(_time(value), half_life, today) for value in times]


def _factor(time: datetime | None, half_life: float, now: datetime) -> float:
    if time is None:
        return UNKNOWN
    age = max(0.0, (now - time).total_seconds() / SECONDS_A_DAY)
    return max(LEAST, math.pow(0.5, age / half_life))


def _time(value: Any) -> datetime | None:
    """Convert a timestamp, or a text in ISO 8601 format, to a datetime; without a time zone, assume UTC.

    Returns None for anything else.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
