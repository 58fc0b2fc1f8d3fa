"""Context variables that limit work far below a request, such as the conversion of a document."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CALLER: ContextVar[str] = ContextVar("caller", default="")
"""Caller whose share the work of this context counts towards."""

DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)
"""Time by `time.monotonic` at which nobody waits for the work of this context any more; None without a limit."""


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Have the work of this block end in so many seconds, or at the deadline that it already has."""
    if seconds is None:
        yield
        return
    before, new = DEADLINE.get(), time.monotonic() + min(seconds, threading.TIMEOUT_MAX)
    token = DEADLINE.set(new if before is None else min(before, new))
    try:
        yield
    finally:
        DEADLINE.reset(token)


def seconds_left() -> float | None:
    """Return the seconds until the deadline, 0 if it has passed; None without one."""
    deadline = DEADLINE.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())
