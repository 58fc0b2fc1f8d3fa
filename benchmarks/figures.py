"""How a figure is taken and shown."""

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
    """One figure: what was measured, beside what, and what is wanted of it."""

    what: str
    measured: str
    wanted: str
    met: bool


def timed(do: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = do()
    return time.perf_counter() - start, result


def settle() -> None:
    """Wait until the files just written are old enough for their stamps to be trusted."""
    time.sleep(RACY_NANOSECONDS / 1e9)
