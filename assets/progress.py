"""Progress of a batch, as lines in the log of its run."""

import time
from collections import Counter
from logging import Logger

from findingaid.indexing.calls import Progress
from findingaid.reports import duration

EVERY = 10.0
"""Seconds from one line to the next."""


def logged(log: Logger, corpus: str) -> Progress:
    """Return a callback that logs how far a stage of a batch is, how fast, and how long it will take.

    It logs nothing about a stage that ends within EVERY seconds.
    """
    told = time.monotonic()
    started: dict[str, float] = {}
    totals: Counter[str] = Counter()
    done: Counter[str] = Counter()

    def advance(stage: str, more: int, newly: int) -> None:
        nonlocal told
        now = time.monotonic()
        seconds = now - started.setdefault(stage, now)
        totals[stage] += more
        done[stage] += newly
        if now - told < EVERY or not seconds or not 0 < done[stage] < totals[stage]:
            return
        told = now
        rate = done[stage] / seconds
        left = duration((totals[stage] - done[stage]) / rate)
        log.info(
            f"{corpus}: {stage} {done[stage]:,} of {totals[stage]:,} in this batch, {rate:,.1f}/s, about {left} left"
        )

    return advance
