"""Why there is nothing to search, as the last runs left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from findingaid.errors import StoreError
from findingaid.model import WRITTEN, Failure
from findingaid.reports import group_failures, skipped_lines
from findingaid.store.ledger import Ledger
from findingaid.store.skipped import SkippedArtifacts
from findingaid.store.sql import equals
from findingaid.store.store import Store

REASONS = 3
"""Number of reasons for failures that are named, most frequent first."""


def why_empty(store: Store, corpora: Sequence[str]) -> str:
    """Return one line on why nothing of these corpora is published; "" if no run has looked at them, or all is well."""
    try:
        return "; ".join(line for corpus in corpora for line in _reasons(store, corpus))
    except StoreError:
        return ""


def _reasons(store: Store, corpus: str) -> Iterator[str]:
    rows, skipped = Ledger(store).rows(corpus), SkippedArtifacts(store).named(corpus)
    yield from (f"{corpus}: {failure.message}" for failure in SkippedArtifacts(store).unlisted(corpus))
    failed = [row.failure for row in rows.values() if row.failure and row.failed_stage not in WRITTEN]
    if failed:
        yield f"{corpus}: {len(failed):,} of {len(rows):,} artifacts failed: {'; '.join(_most_frequent(failed))}"
    elif count := store.count("records", equals("corpus", corpus)):
        yield f"{corpus}: {count:,} records were made, but not published: `findingaid index` says why"
    yield from (f"{corpus}: {line}" for line in skipped_lines(skipped))


def _most_frequent(failed: Sequence[Failure]) -> list[str]:
    """Return the most frequent reasons for failures, each with the artifacts that failed for it."""
    alike = Counter(replace(failure, artifact_id="", runs=1) for failure in failed)
    named = {reason for reason, _ in alike.most_common(REASONS)}
    return group_failures(
        each for each in (replace(failure, runs=1) for failure in failed) if replace(each, artifact_id="") in named
    )
