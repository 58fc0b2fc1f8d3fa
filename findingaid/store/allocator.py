"""Limit of the memory that the C library keeps for the threads of Lance."""

from __future__ import annotations

import ctypes
import os
from functools import cache

M_ARENA_MAX = -8
"""Number of this option in glibc's malloc.h."""

MOST_ARENAS = 4


@cache
def limit_arenas() -> None:
    """Give the threads of this process an arena per core, and at most MOST_ARENAS, in place of eight per core.

    Memory that is freed stays in its arena. With the many threads of Lance a run held half as much again. This has to
    come before Lance starts them. It leaves the setting MALLOC_ARENA_MAX alone, and C libraries other than glibc.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(M_ARENA_MAX, min(os.cpu_count() or 1, MOST_ARENAS))
