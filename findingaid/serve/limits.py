"""Limits on library calls: concurrency, queue length, a share for each caller, and a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from findingaid.config.settings import ServeSettings
from findingaid.request_limits import CALLER, within
from findingaid.serve.errors import BusyError, TimedOutError

T = TypeVar("T")

SPARE = 2
"""Threads for each concurrent call. A timed-out call frees its slot for another call, but occupies its thread."""


@dataclass(eq=False)
class _Call:
    """Library call that is waiting or running."""

    call: Callable[[], Any]
    caller: _Caller
    future: Future[Any] = field(default_factory=Future)
    begun: bool = False
    late: bool = False
    ended: bool = False


@dataclass(eq=False)
class _Caller:
    """Calls of one caller: the waiting ones, and the number of running ones, including timed-out ones."""

    waiting: deque[_Call] = field(default_factory=deque)
    under_way: int = 0


class WorkerPool:
    """Thread pool that calls the library for several callers.

    Callers take turns, and no caller has more than its share of running and waiting calls. A call cannot be stopped: a
    timed-out call continues in its thread and counts towards its caller's share until it ends. Other calls take its
    slot meanwhile.
    """

    def __init__(self, at_once: int, waiting: int, seconds: float, share: tuple[int, int] | None = None) -> None:
        """Create the pool.

        `at_once` calls run and `waiting` calls wait at most; each has `seconds` to return. `share` is the number of
        running and of waiting calls that one caller may have, by default all.
        """
        self._pool = ThreadPoolExecutor(SPARE * at_once, "findingaid-serve")
        self._at_once, self._waiting, self._seconds = at_once, waiting, seconds
        self._share = share or (SPARE * at_once, waiting)
        self._lock = threading.Lock()
        self._callers: dict[str, _Caller] = {}
        self._begun = self._late = 0

    @classmethod
    def shared(cls, settings: ServeSettings) -> WorkerPool:
        """Create the pool of a server with many callers."""
        share = min(settings.caller_at_once, settings.at_once), min(settings.caller_waiting, settings.waiting)
        return cls(settings.at_once, settings.waiting, settings.timeout, share)

    @classmethod
    def of_one(cls, settings: ServeSettings) -> WorkerPool:
        """Create the pool of a server with a single caller, its parent process."""
        return cls(settings.at_once, settings.waiting, settings.timeout)

    @property
    def under_way(self) -> int:
        """Number of running and waiting calls."""
        with self._lock:
            return self._begun + self._queued

    async def run(self, call: Callable[[], T], caller: str | None = None) -> T:
        """Run a call in the pool and return its result; `caller` defaults to that of the context.

        Raises BusyError when too many calls are waiting, and TimedOutError when the call takes too long.
        """
        begun = self._accept(call, CALLER.get() if caller is None else caller)
        future: asyncio.Future[T] = asyncio.wrap_future(begun.future)
        try:
            await asyncio.wait({future}, timeout=self._seconds)
            if future.done():
                return future.result()
            raise self._too_late()
        finally:
            self._leave(begun)
            future.cancel()

    def wait(self, call: Callable[[], T]) -> T:
        """Run a call in the pool and block until its result, without an event loop. Raises the same errors as `run`."""
        begun = self._accept(call, CALLER.get())
        try:
            return begun.future.result(self._seconds)  # type: ignore[no-any-return]
        except FutureTimeoutError:
            if begun.future.done():
                raise
            raise self._too_late() from None
        finally:
            self._leave(begun)

    def close(self) -> None:
        """Accept no more calls and cancel waiting ones; running calls continue."""
        with self._lock:
            for caller in self._callers.values():
                while caller.waiting:
                    caller.waiting.popleft().future.cancel()
        self._pool.shutdown(wait=False)

    def _too_late(self) -> TimedOutError:
        return TimedOutError(f"no answer within {self._seconds:g} s: reduce the request, or try again later")

    @property
    def _queued(self) -> int:
        return sum(len(caller.waiting) for caller in self._callers.values())

    def _accept(self, call: Callable[[], Any], name: str) -> _Call:
        with within(self._seconds):
            context = copy_context()
        with self._lock:
            caller = self._callers.setdefault(name, _Caller())
            accepted = _Call(partial(context.run, call), caller)
            caller.waiting.append(accepted)
            self._begin()
            refused, problem = self._too_many(accepted)
            if refused:
                refused.caller.waiting.remove(refused)
                self._forget()
        if refused is accepted:
            raise problem
        if refused and refused.future.set_running_or_notify_cancel():
            refused.future.set_exception(problem)
        return accepted

    def _too_many(self, newest: _Call) -> tuple[_Call | None, BusyError]:
        """Return the call to reject, or None, and the error for it.

        A caller that exceeds its own share loses `newest`, its newest call. When the whole queue is too long, the
        caller with the most waiting calls loses its last one.
        """
        share = len(newest.caller.waiting) > self._share[1]
        if newest.begun or not (share or self._queued > self._waiting):
            return None, BusyError()
        if share:
            problem = f"{sum(self._share)} of your requests are running or waiting: try again in a moment"
            return newest, BusyError(problem)
        most = max(self._callers.values(), key=lambda caller: len(caller.waiting))
        alike = len(most.waiting) <= len(newest.caller.waiting)
        problem = f"{self._at_once + self._waiting} requests are running or waiting: try again in a moment"
        return newest if alike else most.waiting[-1], BusyError(problem)

    def _begin(self) -> None:
        """Start as many waiting calls as the limits allow, taking callers in turn."""
        while self._begun - self._late < self._at_once and self._begun < SPARE * self._at_once:
            turns = self._callers.items()
            name = next((n for n, c in turns if c.waiting and c.under_way < self._share[0]), None)
            if name is None:
                return
            caller = self._callers[name] = self._callers.pop(name)  # move the caller to the end of the order
            call = caller.waiting.popleft()
            call.begun = call.future.set_running_or_notify_cancel()
            caller.under_way += 1
            self._begun += 1
            self._pool.submit(self._do, call)

    def _do(self, call: _Call) -> None:
        """Run a call in its thread; its slot is freed before its result is set."""
        try:
            result = _call_safely(call.call)
        except Exception as error:  # noqa: BLE001  # raised again in the waiting caller
            self._end(call)
            call.future.set_exception(error)
        else:
            self._end(call)
            call.future.set_result(result)

    def _end(self, call: _Call) -> None:
        with self._lock:
            call.ended = True
            call.caller.under_way -= 1
            self._begun -= 1
            self._late -= call.late
            self._forget()
            self._begin()

    def _leave(self, call: _Call) -> None:
        """Stop waiting for a call: remove it from the queue, or mark it as late if it is running."""
        with self._lock:
            if call in call.caller.waiting:
                call.caller.waiting.remove(call)
            elif call.begun and not call.ended:
                call.late = True
                self._late += 1
                self._begin()
            self._forget()

    def _forget(self) -> None:
        """Remove callers without waiting or running calls."""
        for name in [n for n, c in self._callers.items() if not (c.waiting or c.under_way)]:
            del self._callers[name]


def _call_safely(call: Callable[[], T]) -> T:
    """Return the result of a call, and convert a BaseException to RuntimeError.

    A Rust panic in Lance is not an Exception and would otherwise end the server's thread.
    """
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
