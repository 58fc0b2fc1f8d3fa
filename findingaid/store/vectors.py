"""The vector index: when there is one, how it is searched, and how much of an exact search it finds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lance import LanceDataset

INDEX_ROWS = 25_000
"""From so many records on there is an index. Below, an exact search takes at most some 15 ms; at 50,000 it takes six
times as long as the index, whose 8-bit vectors stay in memory, at 100,000 fifteen times."""

INDEX_DEPTH = 1_000
"""Deeper than this a search is exact: what would be read again for its exact distance is most of what there is."""

PARTITION_ROWS = 8_192
"""Records of one partition, of which a search looks into some; the default of Lance."""

KEY = "findingaid.vector_index"
"""Where the configuration of the records table, which goes with each version, has what was measured."""

PROBES = (20, 50, 100, 200, 1_000)
"""Partitions that a search may look into; the first that find enough are used."""

FLOOR = 0.98
"""The share of the nearest that the index must find, else there is none."""

SAMPLE, NEAREST = 64, 10
"""Vectors that are searched for, and how many of the nearest count."""

GROWN = 2
"""An index that did not find enough is tried again when there are so many times more records."""


ROUNDING = 1e-5
"""What two ways to compute a distance may differ by."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the index was found to do: with so many `probes` it has `recall` of the nearest, by `rows` records.

    No probes: the index that there was did not find enough, and was dropped.
    """

    probes: int
    recall: float
    rows: int

    def __str__(self) -> str:
        if not self.probes:
            return f"exact: an index found {self.recall:.1%} of the nearest {NEAREST}, less than {FLOOR:.0%}"
        return f"index, {self.probes} probes: finds {self.recall:.1%} of the nearest {NEAREST}"


UNKNOWN = Measured(50, 0.0, 0)
"""An index that was not measured, of a run that was killed before it was."""


def refine(depth: int) -> int:
    """How many times as many candidates are compared by their exact distance."""
    return 10 if depth <= NEAREST else 3


def measured(records: LanceDataset) -> Measured | None:
    """What was measured of a version's index; None before there was one."""
    found = records.config().get(KEY)
    return Measured(**json.loads(found)) if found else None


def write(records: LanceDataset, found: Measured) -> None:
    """Put what was measured into the table's configuration, one commit."""
    records.update_config({KEY: json.dumps(asdict(found))})


def measure(records: LanceDataset) -> Measured:
    """The fewest probes with which the index finds enough of what an exact search does; none where even the most miss.

    Asked with vectors of the records themselves, which then count as found. Reads all vectors once.
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
    """The share of the nearest that an index search has: those not farther than the last of the exact ones."""
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
    """The distance of the last of the nearest, for each vector asked for."""
    best = np.full((len(asked), NEAREST), -np.inf, np.float32)
    for vectors in _vectors(records):
        best = np.partition(np.hstack([best, asked @ vectors.T]), -NEAREST, axis=1)[:, -NEAREST:]
    return 1 - best.min(axis=1) + ROUNDING


def _vectors(records: LanceDataset) -> Iterator[Any]:
    for batch in records.scanner(columns=["vector"]).to_batches():
        if batch.num_rows:
            yield unit(batch["vector"])


def unit(column: Any) -> Any:
    """The vectors of a column, of length 1, a row each."""
    rows = (
        column.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(column), column.type.list_size)
    )
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
