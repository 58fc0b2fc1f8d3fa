"""Artifacts as they were last indexed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from findingaid.identity import hashes as identity
from findingaid.model import Artifact
from findingaid.store import Store


def artifact_version(artifact: Artifact) -> str:
    """Return the version of an artifact: a hash of its payload and of the metadata that may become filter fields."""
    return identity.artifact_version(artifact.raw, artifact.metadata)


def stored(
    store: Store, artifact_ids: Iterable[str], where: str | None = None
) -> dict[tuple[str, str], tuple[Artifact, str]]:
    """Map (corpus, artifact id) to the artifact as last indexed and its version; missing artifacts are left out."""
    columns = ("corpus", "artifact_id", "version", "payload", "is_text", "metadata")
    rows = store.lookup("artifacts", "artifact_id", artifact_ids, columns, where).to_pylist()
    return {(row["corpus"], row["artifact_id"]): (_artifact_of(row), row["version"]) for row in rows}


def _artifact_of(row: Mapping[str, object]) -> Artifact:
    """Convert a row of the artifacts table to the artifact."""
    payload = str(row["payload"])
    raw = payload if row["is_text"] else orjson.loads(payload)
    return Artifact(str(row["artifact_id"]), raw, orjson.loads(str(row["metadata"])))
