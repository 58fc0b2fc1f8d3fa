"""Partitions of a corpus, each with the ledger rows of its artifacts: one artifact, or the artifacts of a hash bucket.

The data version of an artifact's partition at a stage is the version in the ledger. That of a bucket is a hash of the
versions of its artifacts, in which a failed artifact counts as another version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from findingaid.identity.hashes import content_hash
from findingaid.indexing.indexer import Indexer
from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.store import LedgerRow
from findingaid_dagster.assets.keys import Keys, artifact_id_of, keys_of

FAILED_INPUT = "failed"
"""Data version recorded for a failed input, such as a synopsis. Once the input exists, Dagster sees it as new."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and the ledger rows of its artifacts, sorted by artifact id; there is at least one."""

    key: str
    rows: Sequence[LedgerRow]
    is_bucket: bool

    @property
    def row(self) -> LedgerRow:
        """The row of the only artifact of a partition that is not a bucket."""
        (row,) = self.rows
        return row

    def version(self, stage: Stage) -> str | None:
        """Return the data version of a stage; None if an artifact's partition has no output of it."""
        if not self.is_bucket:
            return _version(self.row, stage)
        return content_hash([[row.artifact_id, _version(row, stage), has_failed(row, stage)] for row in self.rows])

    def has_output(self, stage: Stage) -> bool:
        """Check whether any of the artifacts has an output of this stage, and none that a failure left behind."""
        return any(row.version(stage) is not None and not has_failed(row, stage) for row in self.rows)

    def input_version(self, dep: Stage) -> str:
        """Return the data version of the output of `dep` that the outputs of later stages were made from."""
        return self.version(dep) or FAILED_INPUT

    def is_complete(self, stage: Stage) -> bool:
        """Check whether all artifacts have an output of this stage."""
        return all(row.version(stage) is not None and not has_failed(row, stage) for row in self.rows)

    def counts_failures(self, stage: Stage) -> bool:
        """Check whether some artifacts have an output of this stage, and others do not."""
        return self.has_output(stage) and not self.is_complete(stage)

    def stamp_version(self) -> str:
        """Return the data version of the source that the artifacts were made from."""
        if not self.is_bucket:
            return observed_version(self.row.stamp)
        return stamps_version({row.artifact_id: row.stamp for row in self.rows})

    @property
    def was_read(self) -> bool:
        """Whether the last reading of all its artifacts succeeded: after a failed one, a row has the stamp before."""
        return all(row.artifacts is not None and not has_failed(row) for row in self.rows)

    def is_outdated(self, recipe_id: str) -> bool:
        """Check whether any of its artifacts was made by another recipe, that of an earlier configuration."""
        return any(row.recipe not in {"", recipe_id} for row in self.rows)

    def failed(self, stage: Stage) -> list[LedgerRow]:
        """Return the rows of artifacts that failed as a whole, or at this stage."""
        return [row for row in self.rows if has_failed(row, stage)]


def _version(row: LedgerRow, stage: Stage) -> str | None:
    """Return the version of a stage of an artifact, that of the artifact with the rules of access it was read by.

    They are its code version, and Dagster shows a partition as stale until that is logged.
    """
    version = row.version(stage)
    return content_hash(version, row.access) if stage is Stage.ARTIFACTS and version and row.access else version


def read_partitions(indexer: Indexer, keys: Keys) -> dict[str, Partition]:
    """Return all partitions of a corpus, by key."""
    return _group(indexer, keys, indexer.ledger.rows(indexer.name))


def read_selected(indexer: Indexer, keys: Collection[str]) -> dict[str, Partition]:
    """Return the partitions that have these keys and any artifact in the ledger, by key."""
    found: dict[str, Partition] = {}
    for division in {keys_of(key) for key in keys}:
        wanted = {key for key in keys if keys_of(key) == division}
        rows = indexer.ledger.rows(indexer.name, None if division.buckets else [artifact_id_of(key) for key in wanted])
        found |= {key: partition for key, partition in _group(indexer, division, rows).items() if key in wanted}
    return found


def _group(indexer: Indexer, keys: Keys, rows: Mapping[str, LedgerRow]) -> dict[str, Partition]:
    """Return the partitions of these rows.

    An artifact that the source skips now counts as failed: what was read of it before stays in the tables until the end
    of a run of the whole corpus.
    """
    skipped = {i: reason for i, (_, reason) in indexer.skipped.of(indexer.name).items() if i in rows}
    rows = {**rows, **{i: _skipped(rows[i], reason) for i, reason in skipped.items()}}
    groups = keys.group(rows)
    return {key: Partition(key, [rows[i] for i in ids], bool(keys.buckets)) for key, ids in groups.items()}


def _skipped(row: LedgerRow, reason: str) -> LedgerRow:
    return replace(row, failed_stage=Stage.ARTIFACTS.value, failed_kind="skipped", failed_message=reason)


def stamps_version(stamps: Mapping[str, str]) -> str:
    """Return the data version of a bucket of the source, from the stamps of its artifacts."""
    return content_hash([[i, observed_version(stamps[i])] for i in sorted(stamps)])


def observed_version(stamp: str) -> str:
    """Return a stamp as a data version, without the "?" that marks it as uncertain: Dagster compares only versions."""
    return stamp.rstrip("?")


def has_failed(row: LedgerRow, stage: Stage | None = None) -> bool:
    """Check whether an artifact failed as a whole, or in the output that a model writes for this stage."""
    return row.failed_stage not in {"", *WRITTEN} or (stage in WRITTEN and row.outcome(stage) == Outcome.FAILED)
