"""Vectors from a hash of the text: instant, identical on every machine, and without meaning."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Gt, Le

from findingaid.model import MAX_DIM, Vectors
from findingaid.registry import checked


@checked
@dataclass(frozen=True)
class HashEmbedder:
    """For tests and benchmarks: SHAKE-128 of the text as `dim` 16-bit numbers, scaled to unit length."""

    dim: Annotated[int, Gt(0), Le(MAX_DIM)] = 384
    max_tokens: ClassVar[int | None] = None
    free: ClassVar[Literal[True]] = True

    @property
    def id(self) -> str:
        return f"hash-{self.dim}"

    def count_tokens(self, text: str) -> int:
        return text.count(" ") + 1

    def embed(self, texts: Sequence[str]) -> Vectors:
        size = 2 * self.dim
        digests = b"".join(hashlib.shake_128(t.encode("utf-8", "surrogatepass")).digest(size) for t in texts)
        # Adding one half keeps every number away from zero, so that no vector has zero length.
        numbers = np.frombuffer(digests, "<i2").reshape(len(texts), self.dim).astype(np.float32) + 0.5
        unit: Vectors = numbers / np.linalg.norm(numbers, axis=1, keepdims=True)
        return unit

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector
