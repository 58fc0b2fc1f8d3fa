"""Progress of a run, as lines of a log."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from findingaid.indexing.budget import BudgetTracker
from findingaid.model import Stage
from findingaid.reports import duration

EVERY = 10.0
"""Seconds from one line to the next."""


class ProgressLog:
    """Callback that logs the counts, rate, time left and cost of the stages of a corpus, every EVERY seconds.

    It may be called from several threads: texts are embedded while a model writes synopses.
    """

    def __init__(self, say: Callable[[str], object], corpus: str, spending: BudgetTracker) -> None:
        self._say, self._corpus, self._spending = say, corpus, spending
        self._told = time.monotonic()
        self._started: dict[str, float] = {}
        self._totals: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, stage: str, more: int, newly: int) -> None:
        with self._lock:
            self._advance(stage, more, newly)

    def _advance(self, stage: str, more: int, newly: int) -> None:
        now = time.monotonic()
        self._started.setdefault(stage, now)
        self._totals[stage] += more
        self._done[stage] += newly
        if now - self._told >= EVERY and 0 < self._done[stage] < self._totals[stage]:
            self._told = now
            self._say(self._line(stage, now))

    def _line(self, stage: str, now: float) -> str:
        counts = ", ".join(f"{name} {self._done[name]:,} of {total:,}" for name, total in self._totals.items())
        rate = self._done[stage] / (now - self._started[stage])
        return f"{self._corpus}: {counts}; {rate:,.1f} {stage}/s, about {self._left(stage, now)} left{self._spent()}"

    def _left(self, stage: str, now: float) -> str:
        """Return the time left for all artifacts. While no artifact is done, it is that of the stage in this batch."""
        by = Stage.ARTIFACTS.value if self._done[Stage.ARTIFACTS.value] else stage
        seconds = (now - self._started[by]) / self._done[by]
        return duration((self._totals[by] - self._done[by]) * seconds)

    def _spent(self) -> str:
        usage, cost = self._spending.so_far()
        if not usage.tokens:  # extractive synopses count as calls too, and cost nothing
            return ""
        return f"; {usage.calls:,} calls, {usage.tokens:,} tokens" + (f", {cost:,.2f} spent" if cost else "")
