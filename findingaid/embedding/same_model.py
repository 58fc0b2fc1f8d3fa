"""Whether the model that answers is the one that made the vectors of a store."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np

from findingaid.embedding.validation import another_model, query_vector
from findingaid.errors import EmbedError, StoreError
from findingaid.identity.hashes import call_key, text_hash
from findingaid.model import Vectors
from findingaid.protocols import CostsNothing, Embedder, Local
from findingaid.store import Store
from findingaid.store.schemas import KNOWN_TEXT

ALIKE = 0.95
"""Least cosine of two vectors of one text by one model. Precisions and servers make less of a difference."""


class SameModel:
    """Comparison of an embedder with the one of its id that made the vectors of a store, by the vector of a known text.

    The name of a model at an endpoint proves nothing: an alias may lead to another model, and some servers embed with
    whatever they have loaded. Models that run in this process are told apart by their ids.
    """

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self._embedder = embedder
        self._store = store
        self._learned = False

    def learn(self) -> Vectors | None:
        """Return the vector of the known text, of length 1, for the store to keep; None if it has one or needs none."""
        if self._learned or self._runs_here or self._kept is not None:
            return None
        self._learned = True
        return self._made

    @cached_property
    def problem(self) -> str | None:
        """Message if another model answers now, else None. An embedder that fails, or an empty store, tells nothing."""
        if self._kept is None or self._made is None or len(self._made) != len(self._kept):
            return None
        alike = float(self._made @ self._kept)
        if alike >= ALIKE:
            return None
        return another_model(self._embedder.id, f"gives a known text another vector than before (cosine {alike:.2f})")

    @property
    def _runs_here(self) -> bool:
        return isinstance(self._embedder, Local | CostsNothing)

    @cached_property
    def _kept(self) -> Vectors | None:
        if self._runs_here:
            return None
        keys = [call_key(self._embedder.id, text_hash(KNOWN_TEXT))]
        with suppress(StoreError, OSError, ValueError, RuntimeError, EmbedError):  # no table yet, or a damaged one
            found = self._store.lookup("embeddings", "key", keys, ("vector",))["vector"].to_pylist()
            return _unit(found[0]) if found else None
        return None

    @cached_property
    def _made(self) -> Vectors | None:
        try:
            return _unit(self._embedder.embed([KNOWN_TEXT])[0])
        except Exception:  # noqa: BLE001  # the texts of the caller then fail, too, and say why
            return None


def _unit(vector: object) -> Vectors:
    found = query_vector(vector)
    unit: Vectors = found / np.linalg.norm(found)
    return unit
