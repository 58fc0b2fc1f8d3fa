"""Calls of the library within bounds: so many at once, so many that wait, and an answer in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from findingaid.serve.problems import BusyError, TimedOutError

T = TypeVar("T")


class Work:
    """Threads that call the library. What is late goes on and keeps its thread, since nothing can stop it."""

    def __init__(self, at_once: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(at_once, "findingaid-serve")
        self._most = at_once + waiting
        self._seconds = seconds
        self._lock = threading.Lock()
        self._held = 0

    @property
    def under_way(self) -> int:
        """Calls that were begun or wait."""
        return self._held

    async def run(self, call: Callable[[], T]) -> T:
        """What a call gives. Raises BusyError where too many wait, TimedOutError where it takes too long."""
        future = self._begun(call)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self._seconds)
        except TimeoutError:
            future.cancel()
            raise self._late() from None

    def wait(self, call: Callable[[], T]) -> T:
        """The same without a loop."""
        future = self._begun(call)
        try:
            return future.result(self._seconds)
        except FutureTimeoutError:
            future.cancel()
            raise self._late() from None

    def _late(self) -> TimedOutError:
        return TimedOutError(f"no answer within {self._seconds:g} s: ask for less, or later")

    def close(self) -> None:
        """Take no more calls; those under way go on."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begun(self, call: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._held >= self._most:
                raise BusyError(f"{self._most} requests are under way or waiting: ask again in a moment")
            self._held += 1
        future = self._pool.submit(_tame, call)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        with self._lock:
            self._held -= 1


def _tame(call: Callable[[], T]) -> T:
    """What a call gives; a panic of Lance, which is no Exception, must not end the server."""
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
