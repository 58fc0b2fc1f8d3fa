"""Vectors of texts, from the cache or from the model."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from findingaid.embedding.same_model import SameModel
from findingaid.embedding.validation import (
    UNSOUND,
    changed_dimensions,
    require_shape,
    same_rows,
    sound_rows,
)
from findingaid.errors import ConfigError, EmbedError, StoreError, failure_kind
from findingaid.identity.hashes import call_key, text_hash
from findingaid.indexing.batch_jobs import UNAVAILABLE
from findingaid.indexing.options import Progress
from findingaid.model import Stage, Vectors
from findingaid.protocols import Embedder
from findingaid.store import Store, schemas
from findingaid.store.schemas import KNOWN_TEXT
from findingaid.store.sql import equals

GROUP_SECONDS = 5.0
"""Vectors are stored at least this often: the most embedding work that a crash loses, in seconds."""


EMBED_GROUP = 64
"""Texts sent to the embedder at once. Progress is shown between groups."""

PROBES = (KNOWN_TEXT, "Rust is a chemical reaction of iron, water and oxygen.")
"""Texts that no sound model gives one vector."""

SPLIT = 8
"""Parts into which a group is divided that the embedder fails."""


def dimensions_of(embedder: Embedder, store: Store) -> int:
    """Return the dimensions of an embedder's vectors: of those in the cache, or else as the embedder says.

    So an endpoint is asked once for each store, and a model that another one replaced is noticed.
    """
    return len(_cached_vector(embedder, store)) or embedder.dim


def _cached_vector(embedder: Embedder, store: Store) -> Sequence[float]:
    """Return one vector of an embedder from the cache, empty if the cache has none."""
    where = equals("producer_id", embedder.id)
    with suppress(StoreError, OSError, ValueError, RuntimeError):  # no table yet, or a damaged one
        found = store.dataset("embeddings").to_table(columns=["vector"], filter=where, limit=1)["vector"]
        return found[0].as_py() if len(found) else ()
    return ()


class Embeddings:
    """Vectors by text hash, from the cache or from the model; each has `dim` numbers and length 1."""

    def __init__(
        self, embedder: Embedder, store: Store, dim: int | None = None, same_model: SameModel | None = None
    ) -> None:
        self.embedder = embedder
        self._store = store
        self._dim = dim
        self._same_model = same_model or SameModel(embedder, store)
        self._vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.float16]]] = {}
        self.failures: dict[str, BaseException] = {}
        self._stopped = False

    def load(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Load cached vectors; return the texts that are not cached. One that is not sound counts as not cached."""
        keys = {call_key(self.embedder.id, h): h for h in texts if h not in self._vectors}
        found = self._store.lookup("embeddings", "key", keys, ("key", "vector"))
        if len(found):
            found = found.filter(pc.equal(pc.list_value_length(found["vector"]), self.dim))
            matrix = found["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dim)
            rows = zip(found["key"].to_pylist(), matrix, sound_rows(matrix), strict=True)
            self._vectors |= {keys[key]: vector for key, vector, sound in rows if sound}
        return {h: text for h, text in texts.items() if h not in self._vectors}

    def make(self, texts: Mapping[str, str], progress: Progress | None = None) -> int:
        """Embed hash -> text, each once, storing the vectors as they arrive; return the number of texts embedded.

        Raises ConfigError, with nothing stored, if another model answers under the embedder's id.
        """
        if texts:
            self._require_same_model()
        if progress and texts:
            progress(Stage.EMBEDDINGS.value, len(texts), 0)
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

    def _require_same_model(self) -> None:
        if problem := self._same_model.problem:
            raise ConfigError(f"embedder: {problem}")
        known = self._same_model.learn()
        if known is not None and len(known) == self.dim:
            self._store_vectors([text_hash(KNOWN_TEXT)], known.astype(np.float16))

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

    @cached_property
    def dim(self) -> int:
        """Dimensions of the vectors."""
        return self._dim or dimensions_of(self.embedder, self._store)

    @property
    def vectors(self) -> Mapping[str, Any]:
        """The vectors loaded or made so far, by the hashes of their texts."""
        return self._vectors

    def matrix(self, hashes: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        """Return the vectors of these texts, shape (len(hashes), dim), float16."""
        return np.stack([self._vectors[h] for h in hashes]) if hashes else np.empty((0, self.dim), np.float16)

    def _embed(self, texts: Mapping[str, str]) -> None:
        """Embed texts in one call. Those that fail, or get no sound vector, are tried again in smaller groups."""
        try:
            vectors = self._require_dim(self.embedder.embed(list(texts.values())), len(texts))
            self._require_different(texts.values(), vectors)
        except ConfigError:  # no text can be embedded at all
            raise
        except Exception as error:  # noqa: BLE001  # one bad text must not fail its whole group
            self._again(texts, error, len(texts))
            return
        with np.errstate(over="ignore"):  # such a vector is not of length 1
            halved = vectors.astype(np.float16)
        rows = list(zip(texts, halved, sound_rows(halved), strict=True))
        self._vectors |= {h: vector for h, vector, sound in rows if sound}
        if bad := {h: texts[h] for h, _, sound in rows if not sound}:
            self._again(bad, EmbedError(UNSOUND, "parse"), len(texts))

    def _require_different(self, texts: Collection[str], vectors: Vectors) -> None:
        """Raise ConfigError if the model gives all texts one vector, by which nothing is found, and forget that vector.

        Texts that hardly differ may have one vector. So if those of a call have, or a single one has that of a text
        before it, the model embeds a text that is unlike them, alone and in a call with one of them.
        """
        first = vectors[0]
        others = vectors[1:] if len(vectors) > 1 else self._known
        if not len(others) or not sound_rows(vectors[:1])[0] or not same_rows(others, first).all():
            return
        unlike = next((probe for probe in PROBES if probe not in texts), PROBES[0])
        calls = [[unlike], [next(iter(texts)), unlike]][: len(vectors)]
        if any(same_rows(self._require_dim(self.embedder.embed(each), len(each)), first)[-1] for each in calls):
            self._forget(first)
            raise ConfigError(
                "embedder: it returned the same vector for different texts: check the model and, of its server, the"
                " pooling; then run `findingaid index --force`, if anything was indexed with it"
            )

    @property
    def _known(self) -> NDArray[Any]:
        """One vector of another text, of this run or in the cache, shape (1, dim), or (0, dim) without any."""
        made = next(iter(self._vectors.values()), None)
        return self._cached if made is None else made[None]

    @cached_property
    def _cached(self) -> NDArray[Any]:
        """One vector of this embedder in the cache, shape (1, dim), or (0, dim) without any."""
        vector = _cached_vector(self.embedder, self._store)
        return np.asarray([vector] if len(vector) == self.dim else [], np.float32).reshape(-1, self.dim)

    def _forget(self, vector: NDArray[Any]) -> None:
        """Delete a vector that tells nothing from the cache, whatever texts it was stored for."""
        self._store.drop("embeddings", "key", self._store.retried(lambda: self._stored_for(vector)))
        self._vectors = {h: kept for h, kept in self._vectors.items() if not same_rows(kept[None], vector)[0]}

    def _stored_for(self, vector: NDArray[Any]) -> list[str]:
        """Return the keys of the cache with this vector."""
        where = equals("producer_id", self.embedder.id)
        keys: list[str] = []
        for batch in self._store.dataset("embeddings").to_batches(columns=["key", "vector"], filter=where):
            fits = pc.equal(pc.list_value_length(batch["vector"]), self.dim)
            matrix = batch["vector"].filter(fits).flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dim)
            keys += batch["key"].filter(fits).filter(pa.array(same_rows(matrix, vector))).to_pylist()
        return keys

    def _again(self, texts: Mapping[str, str], error: Exception, asked: int) -> None:
        """Embed texts again that failed among `asked` texts; a text that fails alone has failed."""
        if asked == 1 or failure_kind(error) == UNAVAILABLE:
            self.failures |= dict.fromkeys(texts, error)
            return
        hashes = list(texts)
        size = max(1, len(hashes) // SPLIT)
        for start in range(0, len(hashes), size):
            self._embed({h: texts[h] for h in hashes[start : start + size]})

    def _require_dim(self, vectors: Any, count: int) -> Vectors:
        """Return vectors of shape (count, dim). Raises ConfigError if the embedder's model was replaced by another."""
        found = np.asarray(vectors, np.float32)
        if found.ndim == 2 and found.shape[1] != self.dim != self.embedder.dim:
            raise ConfigError(f"embedder: {changed_dimensions(self.embedder.id, self.embedder.dim, self.dim)}")
        return require_shape(found, count, self.dim)

    def _keep(self, hashes: Sequence[str]) -> None:
        done = [h for h in hashes if h in self._vectors]
        if done:
            self._store_vectors(done, np.concatenate([self._vectors[h] for h in done]))

    def _store_vectors(self, hashes: Sequence[str], flat: NDArray[np.float16]) -> None:
        """Store the vectors of texts, one after the other in `flat`."""
        dim = len(flat) // len(hashes)
        offsets = pa.array(np.arange(0, len(flat) + 1, dim, dtype=np.int32))
        columns = {
            "key": [call_key(self.embedder.id, h) for h in hashes],
            "producer_id": [self.embedder.id] * len(hashes),
            "vector": pa.ListArray.from_arrays(offsets, pa.array(flat, pa.float16())),
        }
        self._store.append("embeddings", pa.table(columns, schema=schemas.EMBEDDINGS))
