"""Limits of the memory that the C library and pyarrow keep for later use."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache

import pyarrow as pa

M_ARENA_MAX = -8
"""Number of this option in glibc's malloc.h."""

MOST_ARENAS = 4


@cache
def limit_arenas() -> None:
    """Give the threads of this process an arena per core, and at most MOST_ARENAS, in place of eight per core.

    Memory that is freed stays in its arena. With the many threads of Lance a run held half as much again. This has to
    come before Lance starts them. It leaves the setting MALLOC_ARENA_MAX alone, and C libraries other than glibc.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        _call_glibc("mallopt", M_ARENA_MAX, min(os.cpu_count() or 1, MOST_ARENAS))


def return_freed_memory() -> None:
    """Return memory that Lance and pyarrow have freed to the operating system, after a step that took much."""
    pa.default_memory_pool().release_unused()
    _call_glibc("malloc_trim", 0)


def _call_glibc(function: str, *arguments: int) -> None:
    """Call a function that only glibc has; do nothing with another C library."""
    with suppress(AttributeError, OSError, TypeError):
        getattr(ctypes.CDLL(None), function)(*arguments)
