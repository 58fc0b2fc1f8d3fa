"""The way to one endpoint: how many requests go at once and a minute, which are sent again, when none is sent.

The client's own retries are switched off: they know of one request only, so that with a full endpoint every one of
many would find out for itself, and they pass over the x-ratelimit headers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from random import uniform
from time import monotonic
from typing import Any, TypeVar

from findingaid.errors import SynthesisError
from findingaid.synthesis.answers import Trouble, trouble_of

T = TypeVar("T")

FAILURES = 5
"""So many in a row, none of which lies in the request itself, and the endpoint counts as down."""

DOWN_SECONDS = 60.0
"""How long nothing is sent to an endpoint that is down; then one more failure is enough."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before a request is sent again, doubled each time, where the endpoint does not say."""

PATIENCE = 120.0
"""An endpoint that asks to wait longer is down."""

RATE_LIMITED_SHARE = 4
"""A full endpoint is asked so many times as often as one that fails: it is sound, and says when to come again."""

CLOSE_SECONDS = 1.0


class NotWantedError(Exception):
    """Nobody waits for the answer any more, so the request was not sent."""


class Pace:
    """At most so many a minute, evenly: each takes its share of the minute, and the next one waits for its end."""

    def __init__(self, per_minute: int | None) -> None:
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._free = 0.0

    def take(self, amount: int) -> float:
        """Seconds to wait before `amount` may go."""
        now = monotonic()
        start = max(self._free, now)
        self._free = start + amount * self._seconds
        return start - now


class Slots:
    """How many requests may be under way: at most `most`, half as many each time the endpoint is full, then more again.

    Additive increase, multiplicative decrease (Chiu and Jain 1989), which ends near what an endpoint takes without
    its saying so; sent all at once after each pause, most of them would be turned away again, and counted.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = float(most)
        self._busy = 0
        self._halved = 0.0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._busy < int(self._allowed))
            self._busy += 1

    async def __aexit__(self, *_: object) -> None:
        self._busy -= 1
        async with self._changed:
            self._changed.notify(2)  # the one that takes this place, and one more where there is room now

    def went(self) -> None:
        """A request got through."""
        self._allowed = min(float(self._most), self._allowed + 1 / self._allowed)

    def full(self, sent: float) -> None:
        """A request sent then was turned away; those sent before the last halving say nothing new."""
        if sent > self._halved:
            self._halved = monotonic()
            self._allowed = max(1.0, self._allowed / 2)


@dataclass(frozen=True)
class Limits:
    """What the line keeps to."""

    concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    timeout: float
    retries: int


class Line:
    """Sends requests to one endpoint; lives on one event loop."""

    def __init__(self, limits: Limits, where: str, secrets: Iterable[str] = ()) -> None:
        self._limits = limits
        self._where = where
        self._secrets = list(secrets)
        self._slots = Slots(limits.concurrency)
        self._requests = Pace(limits.requests_per_minute)
        self._tokens = Pace(limits.tokens_per_minute)
        self._paused_until = 0.0
        self._failures = 0
        self._down = asyncio.Event()
        self._down_until = 0.0
        self._reason = ""

    async def ask(self, send: Callable[[], Awaitable[T]], tokens: int, wanted: Callable[[], bool]) -> T:
        """What `send` gives, tried again as long as there is hope. Raises SynthesisError, NotWantedError."""
        failures = full = 0
        sent = 0.0
        while True:
            try:
                async with self._slots:
                    await self._turn(tokens, wanted)
                    sent = monotonic()
                    async with asyncio.timeout(self._limits.timeout):
                        answer = await send()
            except (SynthesisError, NotWantedError):
                raise
            except Exception as error:  # noqa: BLE001  # whatever a client may raise; this request fails, not the run
                trouble = trouble_of(error, self._where).without(self._secrets)
            else:
                self._failures = 0
                self._slots.went()
                return answer
            if trouble.pause:
                self._slots.full(sent)
            failures, full = failures + (not trouble.pause), full + trouble.pause
            hope = failures <= self._limits.retries and full <= self._limits.retries * RATE_LIMITED_SHARE
            if not (trouble.again and hope and await self._wait_again(trouble, failures + full)):
                self._count(trouble)
                raise SynthesisError(trouble.message, trouble.kind) from None

    async def _turn(self, tokens: int, wanted: Callable[[], bool]) -> None:
        """Wait until this request may go. Raises SynthesisError where none may."""
        while True:
            self._check(wanted)
            pause = self._paused_until - monotonic()
            if pause <= 0:
                break
            await self._sleep(pause + uniform(0, min(1.0, pause / 10)))  # noqa: S311  # so that not all come at once
        if wait := max(self._requests.take(1), self._tokens.take(tokens)):
            await self._sleep(wait)
            self._check(wanted)

    def _check(self, wanted: Callable[[], bool]) -> None:
        if not wanted():
            raise NotWantedError
        if self._down.is_set():
            if monotonic() < self._down_until:
                raise SynthesisError(f"not tried: {self._reason}", "unavailable")
            self._down.clear()
            self._failures = FAILURES - 1

    async def _wait_again(self, trouble: Trouble, tried: int) -> bool:
        """Wait before a request is sent again; whether it is worth that."""
        growing = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tried - 1)) * uniform(0.75, 1)  # noqa: S311  # jitter
        wait = growing if trouble.after is None else trouble.after
        if wait > PATIENCE:
            self._stop(f"{trouble.message} (asks to wait {wait:.0f} s)")
        elif trouble.pause:
            self._paused_until = max(self._paused_until, monotonic() + wait)
        else:
            await self._sleep(wait)
        return not self._down.is_set()

    def _count(self, trouble: Trouble) -> None:
        """Note what became of a request in the end; the endpoint may be down by that."""
        if trouble.ours or trouble.kind == "parse":
            return
        self._failures += 1
        if trouble.stop:
            self._stop(trouble.message)
        elif self._failures >= FAILURES:
            self._stop(f"{self._failures} requests failed in a row, the last: {trouble.message}")

    def _stop(self, reason: str) -> None:
        if not self._down.is_set():
            self._reason = reason
        self._down_until = monotonic() + DOWN_SECONDS
        self._down.set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but no longer than there is hope."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._down.wait()


class BackgroundLoop:
    """An event loop in a thread of its own, so that callers may be plain code, or run within another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="findingaid-synthesis", daemon=True)
        self._thread.start()
        self.at_close: Callable[[], Awaitable[object]] | None = None
        """Awaited there when all else has ended."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        """Call `do` there after so many seconds, unless all has ended before."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, do)

    def close(self) -> None:
        """End all that runs there, and the thread."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        self.later(0, lambda: self._loop.create_task(self._finish()))
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self.at_close:
            await self.at_close()
        self._loop.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()
