"""Sending of requests to one endpoint: concurrency and rate limits, retries, and a stop while the endpoint is down.

The client's own retries are switched off. They know of one request only, so each of many requests would find out for
itself that the endpoint is full. They also ignore the x-ratelimit headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from random import uniform
from time import monotonic
from typing import TypeVar

from findingaid.errors import SynthesisError
from findingaid.llm.api_errors import APIError, interpret_exception

T = TypeVar("T")

StillWanted = Callable[[], bool]
"""Function that returns whether the answer to a request is still wanted."""

FAILURES = 5
"""Subjects whose requests fail without a success in between, after which the endpoint counts as down.

Failures caused by the request itself do not count.
"""

DOWN_SECONDS = 60.0
"""Seconds during which nothing is sent to an endpoint that is down. After that, one more failure is enough."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first retry, doubled up to the longest wait, unless the endpoint says how long to wait."""

PATIENCE = 120.0
"""Longest wait in seconds that an endpoint may ask for; one that asks for more counts as down."""

RATE_LIMITED_SHARE = 4
"""Factor for the retries of a rate-limited request: its endpoint works, and says when to come again."""


SUBJECT: ContextVar[str | None] = ContextVar("subject", default=None)
"""What requests are about, such as one document. One whose requests all fail says nothing about the endpoint."""

Probe = Callable[[], Awaitable[object]]
"""Coroutine function that sends a request which only an endpoint that is down fails."""


class NotWantedError(Exception):
    """The answer is no longer wanted, so the request was not sent."""


def always() -> bool:
    """Return True: the answer to the request stays wanted."""
    return True


class RateLimiter:
    """Rate limit per minute, spread evenly: each request delays the next one by its share of the minute."""

    def __init__(self, per_minute: int | None) -> None:
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._free = 0.0

    def take(self, amount: int) -> float:
        """Take `amount` from the rate; return the seconds to wait before it may go."""
        now = monotonic()
        start = max(self._free, now)
        self._free = start + amount * self._seconds
        return start - now


class Rates:
    """Rate limits of one endpoint, in requests and in tokens."""

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        self._requests = RateLimiter(requests_per_minute)
        self._tokens = RateLimiter(tokens_per_minute)

    def take(self, tokens: int) -> float:
        """Take a request of so many tokens; return the seconds to wait before it may go."""
        return max(self._requests.take(1), self._tokens.take(tokens))


TakeShared = Callable[[str, int | None, int | None, int], Awaitable[float]]
"""Coroutine function that takes from the rates that several processes share: host, both limits, and tokens."""

_shared: TakeShared | None = None


def share_rates(take: TakeShared | None) -> None:
    """Have all requests of this process take from rates that it shares with others; None ends that."""
    global _shared  # senders are made within components, out of reach of the caller
    _shared = take


class ConcurrencyLimiter:
    """Limit on concurrent requests: at most `most`, halved each time the endpoint is full, then rising again.

    This is additive increase, multiplicative decrease (Chiu and Jain 1989). It ends near the endpoint's capacity
    without being told it. If all requests were sent at once after each pause, most would be turned away again, and
    counted.
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
            self._changed.notify(2)  # the one that takes this place, and one more if the limit has risen

    def succeeded(self) -> None:
        """Raise the limit a little after a request got through."""
        self._allowed = min(float(self._most), self._allowed + 1 / self._allowed)

    def rejected(self, sent: float) -> None:
        """Halve the limit after a request, sent at `sent`, was turned away.

        Requests sent before the last halving are ignored: they tell nothing new.
        """
        if sent > self._halved:
            self._halved = monotonic()
            self._allowed = max(1.0, self._allowed / 2)


@dataclass(frozen=True)
class Limits:
    """Limits on the requests to one endpoint; `timeout` is in seconds."""

    concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    timeout: float
    retries: int


class Sender:
    """Sender of requests to one endpoint, within its limits; belongs to one event loop."""

    def __init__(self, limits: Limits, where: str, secrets: Iterable[str] = (), too_long: str = "") -> None:
        self._limits = limits
        self._where = where
        self._secrets = list(secrets)
        self._too_long = too_long
        self._concurrency = ConcurrencyLimiter(limits.concurrency)
        self._rates = Rates(limits.requests_per_minute, limits.tokens_per_minute)
        self._paused_until = 0.0
        self._failed: set[object] = set()
        self._down = asyncio.Event()
        self._down_until = 0.0
        self._reason = ""

    async def send(
        self, request: Callable[[], Awaitable[T]], tokens: int, wanted: StillWanted, probe: Probe | None = None
    ) -> T:
        """Return the result of `request`, with retries while they may help. Raises SynthesisError, NotWantedError.

        With a `probe`, the endpoint counts as down only if that fails, too.
        """
        failures = rejected = 0
        sent = 0.0
        while True:
            try:
                async with self._concurrency:
                    await self._turn(tokens, wanted)
                    sent = monotonic()
                    async with asyncio.timeout(self._limits.timeout):
                        answer = await request()
            except (SynthesisError, NotWantedError):
                raise
            except Exception as raised:  # noqa: BLE001  # a client may raise anything; this request fails, not the run
                error = interpret_exception(raised, self._where, self._too_long).without(self._secrets)
            else:
                self._failed.clear()
                self._concurrency.succeeded()
                return answer
            if error.pause:
                self._concurrency.rejected(sent)
            failures, rejected = failures + (not error.pause), rejected + error.pause
            worthwhile = failures <= self._limits.retries and rejected <= self._limits.retries * RATE_LIMITED_SHARE
            if not (error.retryable and worthwhile and await self._wait_again(error, failures + rejected)):
                await self._count(error, probe)
                raise SynthesisError(error.message, error.kind) from None

    async def _turn(self, tokens: int, wanted: StillWanted) -> None:
        """Wait until this request may go.

        Raises SynthesisError if the endpoint is down, NotWantedError if `wanted` returns False.
        """
        while True:
            self._check(wanted)
            pause = self._paused_until - monotonic()
            if pause <= 0:
                break
            await self._sleep(pause + uniform(0, min(1.0, pause / 10)))  # noqa: S311  # so that not all come at once
        if wait := await self._take(tokens):
            await self._sleep(wait)
            self._check(wanted)

    async def _take(self, tokens: int) -> float:
        """Take a request from the rates, shared or not; return the seconds to wait before it may go."""
        limits = self._limits.requests_per_minute, self._limits.tokens_per_minute
        if _shared is None or limits == (None, None):
            return self._rates.take(tokens)
        return await _shared(self._where, *limits, tokens)

    def _check(self, wanted: StillWanted) -> None:
        if not wanted():
            raise NotWantedError
        if self._down.is_set():
            if monotonic() < self._down_until:
                raise SynthesisError(f"not tried: {self._reason}", "unavailable")
            self._down.clear()
            self._failed = set(range(FAILURES - 1))

    async def _wait_again(self, error: APIError, tried: int) -> bool:
        """Wait before a request is sent again; return whether it is worth sending."""
        growing = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tried - 1)) * uniform(0.75, 1)  # noqa: S311  # jitter
        wait = growing if error.retry_after is None else error.retry_after
        if wait > PATIENCE:
            self._stop(f"{error.message} (asks to wait {wait:.0f} s)")
        elif error.pause:
            self._paused_until = max(self._paused_until, monotonic() + wait)
        else:
            await self._sleep(wait)
        return not self._down.is_set()

    async def _count(self, error: APIError, probe: Probe | None) -> None:
        """Count the final failure of a request, and stop sending if the endpoint is down."""
        if error.request_only:
            return
        self._failed.add(SUBJECT.get() or object())
        if error.stop:
            self._stop(error.message)
        elif len(self._failed) >= FAILURES:
            if probe and await self._answers(probe):
                self._failed.clear()
            else:
                self._stop(f"{len(self._failed)} requests failed in a row, the last: {error.message}")

    async def _answers(self, probe: Probe) -> bool:
        """Return whether the endpoint answers a request that only one that is down fails."""
        try:
            async with asyncio.timeout(self._limits.timeout):
                await probe()
        except Exception:  # noqa: BLE001  # a client may raise anything
            return False
        return True

    def _stop(self, reason: str) -> None:
        if not self._down.is_set():
            self._reason = reason
        self._down_until = monotonic() + DOWN_SECONDS
        self._down.set()

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but end early if the endpoint goes down."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._down.wait()
