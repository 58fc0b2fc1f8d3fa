"""Rules for when a failed artifact is tried again.

A document that takes long to fail would otherwise be converted again in each run, and `watch` would wait for it.
"""

from __future__ import annotations

from importlib.metadata import version

from findingaid.identity.hashes import content_hash
from findingaid.model import Failure, Listing, Stage
from findingaid.protocols import Source

FINAL = frozenset({"parse", "no_text", "encrypted", "too_large"})
"""Kinds of failures that come again as long as the artifact and its settings are the same."""

GROWING = frozenset({"timeout", "crash", "memory"})
"""Kinds of failures that may depend on the machine: they are tried again after 1, 2, 4, and then every 8 runs."""

LONGEST = 8

NEVER, NEXT_RUN = 0, 1
"""Values of `runs_until_retry` for a failure that only a change can heal, and for one that each run tries again."""


def runs_until_retry(failure: Failure, runs: int, listing: Listing | None) -> int:
    """Return how many runs later an artifact that failed in so many runs in a row is tried again.

    Only failures of reading and cutting wait, since those of models cost nothing to find again.
    """
    if listing is None or not listing.stamp or failure.stage not in {Stage.ARTIFACTS, Stage.SURFACES}:
        return NEXT_RUN
    if failure.kind in FINAL:
        return NEVER if listing.settled else LONGEST  # an unsettled stamp may belong to a later payload too
    if failure.kind in GROWING or (failure.stage == Stage.SURFACES and failure.kind == "other"):
        return min(1 << (runs - 1), LONGEST)
    return NEXT_RUN


def failure_key(listing: Listing, source: Source, recipe_id: str) -> str:
    """Return what a failure depends on, as a hash: the stamp, the settings of source and stages, and this program."""
    return content_hash(listing.stamp.removesuffix("?"), repr(source), recipe_id, version("findingaid"))
