"""Speed of an embedder, measured on a few texts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from findingaid.protocols import Embedder

TIMED = 32
"""Texts that are embedded to measure the embedder."""


def thin(texts: Sequence[str], most: int = TIMED) -> list[str]:
    """Return at most this many of the texts, evenly spread."""
    return list(texts[:: max(1, -(-len(texts) // most))])


def seconds_a_text(embedder: Embedder, texts: Sequence[str]) -> float:
    """Return the seconds that an embedder needs for one of these texts, without the time to load its model."""
    timed = thin(texts)
    embedder.embed(timed[:1])  # loads the model
    start = time.perf_counter()
    embedder.embed(timed)
    return (time.perf_counter() - start) / max(1, len(timed))
