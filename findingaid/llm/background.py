"""Event loop in a thread of its own, on which the requests to an endpoint run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

CLOSE_SECONDS = 1.0
"""Longest wait for the thread to end at close."""


class BackgroundLoop:
    """Event loop in its own thread, for callers that are synchronous or run within another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="findingaid-synthesis", daemon=True)
        self._thread.start()
        self.at_close: Callable[[], Awaitable[object]] | None = None
        """Awaited on the loop at close, after all other tasks have ended."""

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        """Call `do` on the loop after so many seconds, unless the loop has closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, do)

    def close(self) -> None:
        """Cancel all tasks on the loop, and end its thread."""
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
