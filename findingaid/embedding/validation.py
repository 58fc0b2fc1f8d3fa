"""Validation of vectors, before they are stored, cached or compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from findingaid.errors import EmbedError
from findingaid.model import Vectors
from findingaid.store.verify import UNIT_TOLERANCE

UNSOUND = "the embedder returned a vector that is not finite and of length 1, such as one of zeros"


SAME = 1e-3
"""Largest difference between the numbers of two vectors that count as one vector."""


def sound_rows(vectors: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row of a matrix whether it is finite and of length 1, shape (rows,)."""
    rows = np.asarray(vectors, np.float32)
    found: NDArray[np.bool_] = np.abs(np.sqrt(np.einsum("ij,ij->i", rows, rows)) - 1) <= UNIT_TOLERANCE  # not NaN
    return found


def query_vector(vector: Any) -> Vectors:
    """Return the vector of a query as float32, shape (dim,). Raises EmbedError unless it is finite and not of zeros."""
    found = np.asarray(vector, np.float32)
    if found.ndim != 1 or not np.isfinite(found).all() or not found.any():
        raise EmbedError("the embedder returned for the query a vector that is not finite or of zeros", "parse")
    return found


def require_shape(vectors: Any, count: int, dim: int) -> Vectors:
    """Return the vectors as float32. Raises EmbedError unless their shape is (count, dim)."""
    found = np.asarray(vectors, np.float32)
    if found.shape != (count, dim):
        raise EmbedError(f"the embedder returned shape {found.shape}, expected {(count, dim)}", "parse")
    return found


def same_rows(vectors: NDArray[Any], vector: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row of a matrix whether it is this vector, shape (rows,)."""
    apart = np.abs(np.asarray(vectors, np.float32) - np.asarray(vector, np.float32)).max(axis=1, initial=0)
    found: NDArray[np.bool_] = apart <= SAME
    return found


def changed_dimensions(embedder_id: str, gives: int, stored: int) -> str:
    """Return the message for an embedder whose model was replaced by one of other dimensions under the same name."""
    return another_model(embedder_id, f"gives vectors of {gives} dimensions, those of the index have {stored}")


def another_model(embedder_id: str, sign: str) -> str:
    """Return the message for an embedder whose model was replaced under the same name, as the `sign` shows."""
    return (
        f"{embedder_id} {sign}: another model answers under this name. Set `embedder.revision` to any new name and run"
        " `findingaid index` to embed everything with it, or bring back the model of before"
    )
