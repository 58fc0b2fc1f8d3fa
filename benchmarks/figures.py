"""Measurement and presentation of figures."""

import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import lance

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


RESULTS = Path(__file__).parent / "RESULTS.md"


def write_table(name: str, lines: Iterable[str], page: Path = RESULTS) -> None:
    """Write a table into a page, between the comments `name` and "end of `name`". Raises ValueError without these."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text("utf-8")
    start, stop = text.index(begin) + len(begin), text.index(end)
    page.write_text("\n\n".join([text[:start], "\n".join(lines), text[stop:]]), "utf-8")


def machine() -> str:
    """Return what a table depends on beside the programs."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, Lance {lance.__version__}"


def settle() -> None:
    """Wait until newly written files are old enough for their modification times to be trusted."""
    time.sleep(RACY_NANOSECONDS / 1e9)
