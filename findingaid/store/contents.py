"""Contents of a corpus as readers see them: a digest per artifact, to tell which artifacts a publish changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING

from findingaid.identity.hashes import DIGEST_BYTES, content_hash
from findingaid.store.sql import equals

if TYPE_CHECKING:
    import lance

COLUMNS = (
    "record_id",
    "readers",
    "title",
    "text",
    "metadata",
    "artifact_version",
    "producer_id",
    "evidence",
    "embedder_id",
)
"""Columns that identify a record; the others, such as its vector, follow from these."""


@dataclass(frozen=True)
class Changes:
    """Number of artifacts by which two contents of a corpus differ."""

    new: int
    changed: int
    deleted: int


@dataclass(frozen=True)
class Contents:
    """Contents of one corpus in one version of the records: the number of records, and a digest of each artifact's."""

    version: int
    records: int
    artifacts: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """The hash of all contents, equal for equal records whatever version they are in."""
        return content_hash(self.artifacts)

    def since(self, before: Contents) -> Changes:
        """Return the changes from earlier contents to these."""
        mine, theirs = self.artifacts, before.artifacts
        both = mine.keys() & theirs.keys()
        changed = sum(mine[i] != theirs[i] for i in both)
        return Changes(len(mine) - len(both), changed, len(theirs) - len(both))


def read_contents(records: lance.LanceDataset, corpus: str) -> Contents:
    """Read the contents of a corpus from one version of the records."""
    row = ", '\x1f', ".join(COLUMNS)
    columns = {"artifact_id": "artifact_id", "row": f"sha256(concat({row}))"}
    rows = records.to_table(columns, filter=equals("corpus", corpus)).sort_by(
        [("artifact_id", "ascending"), ("row", "ascending")]
    )
    pairs = zip(rows["artifact_id"].to_pylist(), rows["row"].to_pylist(), strict=True)
    artifacts = {
        artifact_id: blake2b(b"".join(digest for _, digest in group), digest_size=DIGEST_BYTES).hexdigest()
        for artifact_id, group in groupby(pairs, key=lambda pair: pair[0])
    }
    return Contents(int(records.version), rows.num_rows, artifacts)
