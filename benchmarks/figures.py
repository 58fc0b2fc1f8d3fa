"""Measurement and presentation of figures."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from findingaid.sources.files import RACY_NANOSECONDS

T = TypeVar("T")
ROUNDS = 5
STAGES = 5


@dataclass(frozen=True)
class Row:
    """One figure: its subject, the measured value, the target, and whether the target was met."""

    what: str
    measured: str
    wanted: str
    met: bool


def timed(do: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = do()
    return time.perf_counter() - start, result


def settle() -> None:
    """Wait until newly written files are old enough for their modification times to be trusted."""
    time.sleep(RACY_NANOSECONDS / 1e9)
