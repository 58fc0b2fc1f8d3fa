"""Limits of the rows that are made from artifacts, checked before any is made.

Every row of an artifact repeats its id, title and filter fields, so that a small artifact could take any memory.
"""

from __future__ import annotations

from collections.abc import Collection

from findingaid.errors import DecomposeError
from findingaid.identity.hashes import payload_bytes, to_json
from findingaid.model import Artifact, SurfacePlan

ARTIFACT_BYTES = 32_000_000
PAYLOAD_SHARE = 10
"""Limits of the rows of one artifact: the first, or this multiple of the size of its payload."""

BATCH_BYTES = 256_000_000
"""Limit of the rows of a batch of several artifacts. A batch with more is built in halves."""


def check_rows(artifact: Artifact, plan: SurfacePlan) -> int:
    """Return about how many bytes the rows of an artifact take. Raises DecomposeError if they are too many."""
    repeated = {str(name): len(to_json(value)) for name, value in plan.filter_fields.items()}
    own = sum(2 * len(s.text) + len(s.searched or "") + len(to_json(s.metadata)) for s in plan.surfaces)
    size = own + len(plan.surfaces) * (sum(repeated.values()) + len(artifact.artifact_id))
    if size > ARTIFACT_BYTES and size > PAYLOAD_SHARE * payload_bytes(artifact.raw):
        raise DecomposeError(_problem(len(plan.surfaces), size, own, repeated), "too_large")
    return size


def _problem(surfaces: int, size: int, own: int, repeated: dict[str, int]) -> str:
    told = f"its {surfaces:,} surfaces would take {size:,} bytes"
    if own > size // 2 or not repeated:
        return f"{told}, most of it in their own texts and metadata: have the strategy make less of it, or exclude it"
    name = max(repeated, key=lambda name: repeated[name])
    return f"{told}, since each repeats {name!r} with {repeated[name]:,}: leave that field out, or exclude it"


def check_batch(sizes: Collection[int]) -> None:
    """Raise MemoryError if the rows of several artifacts together are too many."""
    if len(sizes) > 1 and sum(sizes) > BATCH_BYTES:
        raise MemoryError(f"{len(sizes):,} artifacts would take {sum(sizes):,} bytes at once")
