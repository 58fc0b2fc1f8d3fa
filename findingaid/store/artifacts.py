"""Artifacts as the index has them: as last indexed, or as published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import orjson

from findingaid.identity import hashes as identity
from findingaid.model import Artifact
from findingaid.store import Store
from findingaid.store.tables import select_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

COLUMNS = ("corpus", "artifact_id", "version", "payload", "is_text", "metadata")

Key = tuple[str, str]
"""(corpus, artifact id)."""


def artifact_version(artifact: Artifact) -> str:
    """Return the version of an artifact: a hash of its payload and of the metadata that may become filter fields."""
    return identity.artifact_version(artifact.raw, artifact.metadata)


def stored(store: Store, artifact_ids: Iterable[str], where: str | None = None) -> dict[Key, tuple[Artifact, str]]:
    """Map (corpus, artifact id) to the artifact as last indexed and its version; missing artifacts are left out."""
    return by_key(store.lookup("artifacts", "artifact_id", artifact_ids, COLUMNS, where))


def read_artifacts(
    artifacts: LanceDataset, artifact_ids: Iterable[str], where: str | None = None
) -> dict[Key, tuple[Artifact, str]]:
    """Map (corpus, artifact id) to the artifact in one version of the table and its version, as `stored` does."""
    return by_key(select_rows(artifacts, "artifact_id", sorted(set(artifact_ids)), COLUMNS, where))


def by_key(rows: pa.Table) -> dict[Key, tuple[Artifact, str]]:
    """Map (corpus, artifact id) to the artifact and its version, from rows with COLUMNS."""
    return {(row["corpus"], row["artifact_id"]): (_artifact_of(row), row["version"]) for row in rows.to_pylist()}


def _artifact_of(row: Mapping[str, object]) -> Artifact:
    """Convert a row of the artifacts table to the artifact."""
    payload = str(row["payload"])
    raw = payload if row["is_text"] else orjson.loads(payload)
    return Artifact(str(row["artifact_id"]), raw, orjson.loads(str(row["metadata"])))
