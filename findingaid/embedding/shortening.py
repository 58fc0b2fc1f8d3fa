"""Shortening of vectors to their first numbers, for models trained so that these suffice (Matryoshka)."""

from __future__ import annotations

import numpy as np

from findingaid.errors import ConfigError
from findingaid.model import Vectors


def shorten(vectors: Vectors, dimensions: int | None) -> Vectors:
    """Return the first `dimensions` numbers of vectors of any length, or all for None, scaled to length 1."""
    if dimensions and dimensions > vectors.shape[-1]:
        raise ConfigError(f"embedder.dimensions: {dimensions}, but the model's vectors have {vectors.shape[-1]}")
    kept = np.asarray(vectors[..., :dimensions], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # such vectors are not of length 1, and refused
        scaled: Vectors = kept / np.maximum(np.linalg.norm(kept, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    return scaled
