"""Artifacts that their source skips, with their stamps, so that they are read again only when they change.

The table also keeps why the whole source of a corpus could not be listed in the last run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from findingaid.errors import StoreError
from findingaid.model import Failure, Listing, Skipped, Stage
from findingaid.store import schemas
from findingaid.store.sql import equals
from findingaid.store.store import Store

TABLE = "skipped"

SOURCE = "(source)"
"""Name of the source itself among failed artifacts; its row has no artifact id, and the kind of error as its stamp."""


class SkippedArtifacts:
    """The table of skipped artifacts. None of them is in the ledger, or in any other table, after a finished run."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, corpus: str) -> dict[str, tuple[str, str]]:
        """Map each skipped artifact of a corpus to (stamp, reason).

        Without the table nothing counts as skipped: the next run makes it, and reads such artifacts again.
        """
        return {artifact_id: told for artifact_id, told in self.rows(corpus).items() if artifact_id}

    def rows(self, corpus: str) -> dict[str, tuple[str, str]]:
        """Return the same as `of`, and under "" the kind of error and the reason if the source could not be listed."""
        try:
            found = self._store.rows(TABLE, ("artifact_id", "stamp", "reason"), equals("corpus", corpus)).to_pylist()
        except StoreError:
            return {}
        return {row["artifact_id"]: (row["stamp"], row["reason"]) for row in found}

    def unlisted(self, corpus: str) -> list[Failure]:
        """Return the failure of the whole source, if it was not listed in the last run, or its listing was refused.

        Its words may name any artifact, so a caller is not told.
        """
        found = self.rows(corpus).get("") if self._store.caller is None else None
        return [Failure(SOURCE, Stage.ARTIFACTS.value, *found)] if found else []

    def note_unlisted(self, corpus: str, kind: str, reason: str) -> None:
        """Record why the source of a corpus could not be listed, until the row is forgotten as any other."""
        if self.rows(corpus).get("") != (kind, reason):
            self._store.replace(TABLE, corpus, [""], skipped_rows(corpus, {"": (kind, reason)}))

    def named(self, corpus: str) -> list[Skipped]:
        """Return the skipped artifacts of a corpus, sorted by id."""
        return [Skipped(artifact_id, reason) for artifact_id, (_, reason) in sorted(self.of(corpus).items())]

    def why(self, artifact_id: str, corpora: Sequence[str] | None = None) -> str:
        """Return a line on the artifact of this id if it is skipped in one of these corpora, else "".

        Without an id, it is on the source.
        """
        if not artifact_id:
            failed = ((corpus, failure) for corpus in corpora or () for failure in self.unlisted(corpus))
            return next((f"{corpus} was not listed in the last run: {each.message}" for corpus, each in failed), "")
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
