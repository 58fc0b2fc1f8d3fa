"""Vectors of the records in memory, compared exactly.

A process that searches more than once keeps those of the version that it searches, within `search.memory`. Other
searches load those of the few records that match their filter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numkong
import numpy as np

from findingaid.errors import one_line
from findingaid.model import Vectors
from findingaid.query.search.timeouts import start_thread

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

log = logging.getLogger("findingaid.search")

Row = dict[str, Any]

CANDIDATE_COLUMNS = ("record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "granularity")
"""Columns that the steps of a search need. Text and metadata are read for the hits only."""

MEGABYTE = 1_000_000

OTHER_BYTES = 160
"""Estimated bytes of a record beside its vectors: its row id, length, and `CANDIDATE_COLUMNS`."""

FEW = 2_048
"""Number of records up to which all are compared in float16 at once."""

GROUP = 32
"""Records of a group, of which only the best one counts to estimate the score of the last of the nearest."""

PART = 8_192
"""Vectors that are float32 at the same time while they are rounded."""

HIGHEST = 127
"""Largest number of int8."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """Vectors of length 1 as multiples of a scale, int8 of shape (records, dim): four bytes of float32 become one.

    `error` is the largest distance of a vector from its rounded one.
    """

    vectors: Any
    scale: float
    error: float

    @classmethod
    def of(cls, vectors: Vectors, inverse: Any) -> Self:
        """Round vectors, given 1 / the length of each."""
        tops = [np.abs(unit).max(initial=0) for _, unit in _units(vectors, inverse)]
        scale = float(max(tops, default=0)) / HIGHEST or 1.0
        rounded = np.empty(vectors.shape, np.int8)
        error = 0.0
        for part, unit in _units(vectors, inverse):
            rounded[part] = np.round(unit / scale)
            error = max(error, float(np.linalg.norm(unit - rounded[part] * np.float32(scale), axis=1).max(initial=0)))
        return cls(rounded, scale, error)

    def candidates(self, query: Vectors, depth: int, places: Any) -> Any:
        """Return the places of all records that may be among those nearest to a query of length 1.

        `places` are those to choose from, None for all.
        """
        scale = float(np.abs(query).max()) / HIGHEST or 1.0
        rounded = np.round(query / scale).astype(np.int8)
        products = np.asarray(numkong.cdist(rounded[None], self.vectors, metric="dot")).ravel()
        if places is not None:
            products = products[places]
        error = float(np.linalg.norm(query - rounded * np.float32(scale)))
        # |uq - rs| <= |u - r||q| + |r||q - s| for vectors u, q of length 1 and their rounded r, s
        most = (self.error + (1 + self.error) * error + 1e-6) / (self.scale * scale)
        found = np.flatnonzero(products >= _at_least(products, depth) - 2 * most)
        return found if places is None else places[found]


def _units(vectors: Vectors, inverse: Any) -> Iterator[tuple[slice, Any]]:
    """Yield slices of the vectors with the vectors there, float32 and of length 1."""
    for start in range(0, len(vectors), PART):
        part = slice(start, start + PART)
        yield part, vectors[part].astype(np.float32) * inverse[part, None]


def _at_least(scores: Any, depth: int) -> Any:
    """Return a number that at least `depth` scores reach: that of the best scores of groups."""
    groups = len(scores) // GROUP
    if groups < depth:
        return scores.min()
    best = scores[: groups * GROUP].reshape(groups, GROUP).max(axis=1)
    return np.partition(best, groups - depth)[groups - depth]


@dataclass(frozen=True, eq=False)
class LoadedVectors:
    """Vectors of records, float16 of shape (records, dim), with their `CANDIDATE_COLUMNS` and row ids.

    A record's place is its number among them, from 0. With all records of a version it is its offset in the table.
    """

    vectors: Vectors
    rows: pa.Table
    rounded: Rounded | None = None

    @classmethod
    def all_of(cls, records: LanceDataset) -> Self:
        """Load every record of a version. Needs little memory beside what is kept."""
        count, dim = records.count_rows(), records.schema.field("vector").type.list_size
        vectors = np.empty((count, dim), np.float16)
        start = 0
        for batch in records.to_batches(columns=["vector"]):
            vectors[start : start + len(batch)] = _matrix(batch["vector"])
            start += len(batch)
        rows = records.to_table(columns=list(CANDIDATE_COLUMNS), with_row_id=True).combine_chunks()
        return cls(vectors, rows, Rounded.of(vectors, _inverse_lengths(vectors)))

    @classmethod
    def matching(cls, records: LanceDataset, condition: str | None, limit: int) -> Self | None:
        """Load the records that match a condition; return None if there are more than `limit`."""
        columns = [*CANDIDATE_COLUMNS, "vector"]
        found = records.to_table(columns=columns, filter=condition, limit=limit + 1, with_row_id=True)
        if len(found) > limit:
            return None
        return cls(_matrix(found["vector"].combine_chunks()), found.drop_columns("vector"))

    def nearest(self, vector: Vectors, depth: int, places: Any = None) -> tuple[Any, Any]:
        """Return the places and cosines of the records nearest to a vector, best first.

        With `places`, only these records are compared.
        """
        # As in the table, the query is rounded to the type of the vectors.
        query = (vector / (np.linalg.norm(vector) or 1)).astype(np.float16)
        if self.rounded and (len(self.vectors) if places is None else len(places)) > max(FEW, depth):
            unit = query.astype(np.float32)
            places = self.rounded.candidates(unit / (np.linalg.norm(unit) or 1), depth, places)
        cosines = self._cosines(query, places)
        best = np.argsort(-cosines, kind="stable")[:depth]
        return best if places is None else places[best], cosines[best]

    def read(self, places: Any, columns: Sequence[str] = CANDIDATE_COLUMNS) -> list[Row]:
        """Return some of the `CANDIDATE_COLUMNS` of records."""
        rows: list[Row] = self.rows.select(list(columns)).take(places).to_pylist()
        return rows

    def places(self, rowids: Any) -> Any:
        """Return the places of row ids, in their order."""
        return self._by_rowid[np.searchsorted(self.rowids, rowids, sorter=self._by_rowid)]

    @cached_property
    def rowids(self) -> Any:
        """Row ids of the records, in order."""
        return self.rows["_rowid"].to_numpy()

    def _cosines(self, query: Any, places: Any) -> Any:
        vectors, inverse = self.vectors, self._inverse
        if places is not None:
            vectors, inverse = vectors[places], inverse[places]
        if not len(vectors):
            return np.empty(0, np.float32)
        # Each product is computed by itself, so that equal vectors have equal scores.
        products = np.asarray(numkong.cdist(query[None], vectors, metric="dot")).ravel()
        return (products * inverse / (np.linalg.norm(query.astype(np.float32)) or 1)).astype(np.float32)

    @cached_property
    def _inverse(self) -> Any:
        return _inverse_lengths(self.vectors)

    @cached_property
    def _by_rowid(self) -> Any:
        return np.argsort(self.rowids)


def _inverse_lengths(vectors: Vectors) -> Any:
    """Return 1 / the length of each vector; 0 for a vector of zeros."""
    parts = np.split(vectors, range(PART, len(vectors), PART))
    lengths = np.concatenate([np.linalg.norm(part.astype(np.float32), axis=1) for part in parts])
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _matrix(column: Any) -> Vectors:
    """Return an Arrow array of vectors as a matrix with a row for each."""
    rows: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return rows


@dataclass(eq=False)
class VectorMemory:
    """Vectors of one version of the records in memory, from the second search of a process on, if they fit.

    `limit` is the number of bytes that they may take; 0 never loads them. If those of an earlier version were loaded,
    `reload` says so: then they are loaded in the background, and searched in the table meanwhile.
    """

    records: LanceDataset
    limit: int
    reload: bool = False
    loaded: LoadedVectors | None = None
    _searched: bool = False
    _refused: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_search(self) -> None:
        """Load the vectors if it is time to."""
        first, self._searched = not self._searched, True
        if self.reload and first:
            start_thread(self._load_quietly)
        elif not self.reload and not first:
            self.load()

    def load(self) -> None:
        """Load the vectors, unless they are loaded or do not fit; the latter is logged."""
        with self._lock:
            if self.loaded or self._refused or not self.limit:
                return
            if self.needed <= self.limit:
                self.loaded = LoadedVectors.all_of(self.records)
                return
            self._refused = True
            log.warning(
                "vectors of %s records need %.0f MB, more than search.memory, %.0f MB: they are searched in the table",
                f"{self.records.count_rows():,}",
                self.needed / MEGABYTE,
                self.limit / MEGABYTE,
            )

    @cached_property
    def needed(self) -> int:
        """Estimated bytes of all vectors of this version."""
        vector = self.records.schema.field("vector").type
        return int(self.records.count_rows() * (3 * vector.list_size + OTHER_BYTES))

    def _load_quietly(self) -> None:
        try:
            self.load()
        except (OSError, RuntimeError, ValueError) as error:  # such as files that a purge has removed
            log.warning("vectors are searched in the table, since loading them failed: %s", one_line(error))
