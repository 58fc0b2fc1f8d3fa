"""Time limit of a search, and the threads that are still at work when it has passed."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

from findingaid.errors import QueryError
from findingaid.telemetry import in_context

T = TypeVar("T")

EXIT_SECONDS = 10.0
"""Longest time that the end of the process waits for these threads, all together."""

_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def run_with_timeout(seconds: float | None, answer: Callable[[], T]) -> T:
    """Return the answer if it arrives in time, else raise QueryError. The work continues in a background thread."""
    if seconds is None:
        return answer()
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(answer())
        except BaseException as error:  # noqa: BLE001  # raised again in the calling thread
            raised.append(error)

    start_thread(in_context(run)).join(min(seconds, threading.TIMEOUT_MAX))
    if raised:
        raise raised[0]
    if not given:
        raise QueryError(f"no answer within {seconds:g} s: allow more time, or narrow the search by corpus or filter")
    return given[0]


def start_thread(work: Callable[[], object]) -> threading.Thread:
    """Start a daemon thread that may read tables.

    The process waits for it at its end, for at most EXIT_SECONDS: an interpreter that ends while a thread is inside
    Lance aborts.
    """
    thread = threading.Thread(target=work, daemon=True)
    _started.add(thread)
    thread.start()
    return thread


@atexit.register
def _join_all() -> None:
    until = time.monotonic() + EXIT_SECONDS
    for thread in list(_started):
        thread.join(max(0.0, until - time.monotonic()))
