"""Vectors of texts, from the cache or from the model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from findingaid.errors import ArtifactError, ConfigError
from findingaid.identity.hashes import call_key
from findingaid.indexing.calls import Progress
from findingaid.model import Stage, Vectors
from findingaid.protocols import Embedder, Free
from findingaid.store import Lease, Leases, Store, schemas

GROUP_SECONDS = 5.0
"""Vectors are stored at least this often: the most embedding work that a crash loses, in seconds."""


EMBED_GROUP = 64
"""Texts sent to the embedder at once. Progress is shown between groups."""


class Embeddings:
    """Vectors by text hash, from the cache or from the model."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self.embedder = embedder
        self._store = store
        self._vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.float16]]] = {}
        self.failures: dict[str, BaseException] = {}
        self._stopped = False

    def load(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Load cached vectors; return the texts that are not cached."""
        keys = {call_key(self.embedder.id, h): h for h in texts if h not in self._vectors}
        found = self._store.lookup("embeddings", "key", keys, ("key", "vector"))
        vectors = found["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1) if len(found) else ()
        self._vectors |= {keys[key]: vector for key, vector in zip(found["key"].to_pylist(), matrix, strict=True)}
        return {h: text for h, text in texts.items() if h not in self._vectors}

    def make(self, texts: Mapping[str, str], progress: Progress | None = None) -> int:
        """Embed hash -> text, each once, storing the vectors as they arrive; return the number of texts embedded.

        Texts that another run is embedding are waited for, and taken from the cache.
        """
        if progress and texts:
            progress(Stage.EMBEDDINGS.value, len(texts), 0)
        if isinstance(self.embedder, Free):
            return self._make(texts, progress)
        counts: list[int] = []

        def make(lease: Lease) -> None:
            mine = {h: texts[h] for h in lease.artifact_ids}
            missing = self.load(mine)
            if progress and len(missing) < len(mine):
                progress(Stage.EMBEDDINGS.value, 0, len(mine) - len(missing))
            counts.append(self._make(missing, progress))

        Leases(self._store).in_turn(f"vectors of {self.embedder.id}", texts, make)
        return sum(counts)

    @contextmanager
    def making(self, texts: Mapping[str, str], progress: Progress | None = None) -> Iterator[Future[int]]:
        """Call `make` in another thread meanwhile. If the body raises, stop after the group of texts under way."""
        with ThreadPoolExecutor(1, "embeddings") as worker:
            made = worker.submit(self.make, texts, progress)
            try:
                yield made
            except BaseException:
                self._stopped = True
                raise

    def _make(self, texts: Mapping[str, str], progress: Progress | None) -> int:
        hashes = list(texts)
        kept = 0
        last = time.monotonic()
        for start in range(0, len(hashes), EMBED_GROUP):
            if self._stopped:
                self._keep(hashes[kept:start])
                return start
            group = hashes[start : start + EMBED_GROUP]
            self._embed({h: texts[h] for h in group})
            done = start + len(group)
            if time.monotonic() - last > GROUP_SECONDS or done == len(hashes):
                self._keep(hashes[kept:done])
                kept, last = done, time.monotonic()
            if progress:
                progress(Stage.EMBEDDINGS.value, 0, len(group))
        return len(hashes)

    @property
    def vectors(self) -> Mapping[str, Any]:
        """The vectors loaded or made so far, by the hashes of their texts."""
        return self._vectors

    def matrix(self, hashes: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        """Return the vectors of these texts, shape (len(hashes), dim), float16."""
        return np.stack([self._vectors[h] for h in hashes]) if hashes else np.empty((0, self.embedder.dim), np.float16)

    def _embed(self, texts: Mapping[str, str]) -> None:
        try:
            vectors = validate_vectors(self.embedder.embed(list(texts.values())), len(texts), self.embedder.dim)
        except ConfigError:  # no text can be embedded at all
            raise
        except Exception as error:  # noqa: BLE001  # one bad text must not fail its whole group
            if len(texts) == 1:
                self.failures[next(iter(texts))] = error
                return
            for h, text in texts.items():
                self._embed({h: text})
        else:
            self._vectors |= dict(zip(texts, vectors.astype(np.float16), strict=True))

    def _keep(self, hashes: Sequence[str]) -> None:
        done = [h for h in hashes if h in self._vectors]
        if not done:
            return
        dim = self.embedder.dim
        flat = pa.array(np.concatenate([self._vectors[h] for h in done]), pa.float16())
        offsets = pa.array(np.arange(0, dim * len(done) + 1, dim, dtype=np.int32))
        columns = {
            "key": [call_key(self.embedder.id, h) for h in done],
            "producer_id": [self.embedder.id] * len(done),
            "vector": pa.ListArray.from_arrays(offsets, flat),
        }
        self._store.append("embeddings", pa.table(columns, schema=schemas.EMBEDDINGS))


def validate_vectors(vectors: Vectors, count: int, dim: int) -> Vectors:
    """Return the vectors. Raises ArtifactError unless they are `count` finite vectors of `dim` numbers."""
    if vectors.shape != (count, dim):
        raise ArtifactError(f"the embedder returned shape {vectors.shape}, expected {(count, dim)}")
    if not np.isfinite(vectors).all():
        raise ArtifactError("the embedder returned a vector that is not finite")
    return vectors
