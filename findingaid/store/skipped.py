"""Artifacts that their source skips, with their stamps, so that they are read again only when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from findingaid.errors import StoreError
from findingaid.model import Listing, Skipped
from findingaid.store import schemas
from findingaid.store.sql import equals
from findingaid.store.store import Store

TABLE = "skipped"


class SkippedArtifacts:
    """The table of skipped artifacts. None of them is in the ledger, or in any other table, after a finished run."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, corpus: str) -> dict[str, tuple[str, str]]:
        """Map each skipped artifact of a corpus to (stamp, reason).

        Without the table nothing counts as skipped: the next run makes it, and reads such artifacts again.
        """
        try:
            found = self._store.rows(TABLE, ("artifact_id", "stamp", "reason"), equals("corpus", corpus)).to_pylist()
        except StoreError:
            return {}
        return {row["artifact_id"]: (row["stamp"], row["reason"]) for row in found}

    def named(self, corpus: str) -> list[Skipped]:
        """Return the skipped artifacts of a corpus, sorted by id."""
        return [Skipped(artifact_id, reason) for artifact_id, (_, reason) in sorted(self.of(corpus).items())]

    def why(self, artifact_id: str, corpora: Sequence[str] | None = None) -> str:
        """Return a line on the artifact of this id if it is skipped in one of these corpora, else ""."""
        try:
            found = self._store.rows(TABLE, ("corpus", "reason"), equals("artifact_id", artifact_id)).to_pylist()
        except StoreError:
            return ""
        shown = (row for row in found if corpora is None or row["corpus"] in corpora)
        return next((f"{row['corpus']}/{artifact_id} is skipped: {row['reason']}" for row in shown), "")

    def forget(self, corpus: str, artifact_ids: Iterable[str]) -> None:
        """Remove the rows of these artifacts."""
        self._store.replace(TABLE, corpus, sorted(artifact_ids), schemas.SKIPPED.empty_table())


def skipped_rows(corpus: str, skipped: Mapping[str, tuple[str, str]]) -> pa.Table:
    """Return the rows of artifacts, given by id with (stamp, reason)."""
    columns = {
        "corpus": [corpus] * len(skipped),
        "artifact_id": list(skipped),
        "stamp": [stamp for stamp, _ in skipped.values()],
        "reason": [reason for _, reason in skipped.values()],
    }
    return pa.table(columns, schema=schemas.SKIPPED)


def unchanged(listings: Sequence[Listing], skipped: Mapping[str, tuple[str, str]]) -> list[Skipped]:
    """Return the listed artifacts that were skipped at the same stamp, and cannot have changed since."""
    return [
        Skipped(listing.artifact_id, skipped[listing.artifact_id][1])
        for listing in listings
        if listing.artifact_id in skipped and listing.settled and listing.stamp == skipped[listing.artifact_id][0]
    ]
