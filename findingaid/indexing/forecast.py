"""Forecast of the texts that a run embeds, and of the time for that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from findingaid.embedding.speed import TIMED, seconds_a_text, thin
from findingaid.errors import FindingAidError
from findingaid.protocols import Embedder, Local

WORTH_MEASURING = 100
"""Fewest texts for which a plan measures the embedder, which loads its model."""


@dataclass
class Forecast:
    """Texts that a run would embed: their hashes, so that each counts once, and a sample of them."""

    seen: set[str] = field(default_factory=set)
    sample: list[str] = field(default_factory=list)

    def add(self, missing: Mapping[str, str]) -> Collection[str]:
        """Add texts by hash; return the hashes that are new."""
        fresh = missing.keys() - self.seen
        self.seen |= fresh
        self.sample += thin([missing[h] for h in sorted(fresh)])
        if len(self.sample) > TIMED**2:
            self.sample = thin(self.sample)
        return fresh

    def seconds(self, embedder: Embedder, texts: int) -> float | None:
        """Return the time to embed so many texts; None if they are few, or the embedder does not run here."""
        if texts < WORTH_MEASURING or not self.sample or not isinstance(embedder, Local):
            return None
        try:
            return texts * seconds_a_text(embedder, self.sample)
        except FindingAidError:  # the run itself will report it
            return None
