"""Vector index: when it is used, how it is searched, and its recall against an exact search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lance import LanceDataset

INDEX_ROWS = 25_000
"""Number of records from which there is an index. Below, an exact search takes at most about 15 ms. At 50,000 records
it takes six times as long as the index, whose 8-bit vectors stay in memory, and at 100,000 fifteen times."""

INDEX_DEPTH = 1_000
"""Depth above which a search is exact, since computing exact distances of the candidates would read most vectors."""

PARTITION_ROWS = 8_192
"""Records per partition, Lance's default; a search reads some of the partitions."""

KEY = "findingaid.vector_index"
"""Key of the measurement in the configuration of the records table, which is versioned with the table."""

PROBES = (20, 50, 100, 200, 1_000)
"""Numbers of partitions to search, tried in order; the first with enough recall is used."""

FLOOR = 0.98
"""Least recall of the index; below it, the index is dropped."""

SAMPLE, NEAREST = 64, 10
"""Number of query vectors in a measurement, and of nearest neighbours that count for each."""

GROWN = 2
"""A dropped index is tried again when the number of records has grown by this factor."""


STREAM: Mapping[str, Any] = {"batch_readahead": 2, "fragment_readahead": 1, "io_buffer_size": 32_000_000}
"""Options of a scan of all vectors. Lance reads up to 2 GB ahead of a slower reader by default."""

ROUNDING = 1e-5
"""Tolerated difference between two computations of the same distance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurement of the index over `rows` records: with `probes` partitions it reaches `recall`.

    With `probes` 0 the recall of the index was too low, and it was dropped.
    """

    probes: int
    recall: float
    rows: int

    def __str__(self) -> str:
        if not self.probes:
            return f"exact: an index found {self.recall:.1%} of the nearest {NEAREST}, less than {FLOOR:.0%}"
        return f"index, {self.probes} probes: finds {self.recall:.1%} of the nearest {NEAREST}"


UNKNOWN = Measured(50, 0.0, 0)
"""Assumed for an index that was not measured because its run was killed."""


def refine(depth: int) -> int:
    """Return the refine factor: how many candidates per wanted result are compared by exact distance."""
    return 10 if depth <= NEAREST else 3


def make_index(records: LanceDataset) -> None:
    """Create the index, in place of an earlier one."""
    records.create_index("vector", "IVF_SQ", metric="cosine", target_partition_size=PARTITION_ROWS, replace=True)


def measured(records: LanceDataset) -> Measured | None:
    """Return the measurement of a version's index; None if none was made."""
    found = records.config().get(KEY)
    return Measured(**json.loads(found)) if found else None


def write(records: LanceDataset, found: Measured) -> None:
    """Write a measurement into the table's configuration, in one commit."""
    records.update_config({KEY: json.dumps(asdict(found))})


def measure(records: LanceDataset) -> Measured:
    """Measure the fewest probes with which the index has enough recall; 0 probes if even the most are too few.

    The query vectors are vectors of records, which count among their own nearest. All vectors are read once.
    """
    rows = records.count_rows()
    places = np.unique(np.linspace(0, rows - 1, min(SAMPLE, rows)).astype(int))
    asked = unit(records.take(places.tolist(), columns=["vector"])["vector"].combine_chunks())
    exact = _exact(records, asked)
    recall = 0.0
    for probes in PROBES:
        shares = [_found(records, vector, probes, edge) for vector, edge in zip(asked, exact, strict=True)]
        recall = float(np.mean(shares))
        if recall >= FLOOR:
            return Measured(probes, round(recall, 4), rows)
    return Measured(0, round(recall, 4), rows)


def _found(records: LanceDataset, vector: Any, probes: int, edge: float) -> float:
    """Return the recall of an index search: the share of results no farther than `edge`, the last exact neighbour."""
    asked: Mapping[str, Any] = {
        "column": "vector",
        "q": vector,
        "k": NEAREST,
        "metric": "cosine",
        "nprobes": probes,
        "refine_factor": refine(NEAREST),
    }
    distances = records.to_table(columns=["_distance"], nearest=dict(asked))["_distance"].to_numpy()
    return float(np.sum(distances <= edge)) / NEAREST


def _exact(records: LanceDataset, asked: Any) -> Any:
    """Return the distance of the last of the nearest neighbours, for each query vector."""
    best = np.full((len(asked), NEAREST), -np.inf, np.float32)
    for vectors in _vectors(records):
        best = np.partition(np.hstack([best, asked @ vectors.T]), -NEAREST, axis=1)[:, -NEAREST:]
    return 1 - best.min(axis=1) + ROUNDING


def _vectors(records: LanceDataset) -> Iterator[Any]:
    for batch in records.scanner(columns=["vector"], **STREAM).to_batches():
        if batch.num_rows:
            yield unit(batch["vector"])


def unit(column: Any) -> Any:
    """Return the vectors of a column as rows of length 1, float32."""
    rows = (
        column.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(column), column.type.list_size)
    )
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
