"""Indexes of the tables: created when they pay off, and updated as rows are added."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from findingaid.store import lexical as full_text
from findingaid.store import vectors
from findingaid.text.analyzer import Lexical

if TYPE_CHECKING:
    from lance import LanceDataset

UNINDEXED_SHARE = 0.02
UNINDEXED_ROWS = 2_000
"""Rows that may stay outside of an index and are scanned: this share of it, and at least this many."""

MEASURED_AGAIN = 1.1
"""The vector index is measured again when the number of records has grown by this factor."""


@dataclass(frozen=True)
class Indexed:
    """Table whose indexes are kept. Only creating one opens the table through lancedb, which takes much longer."""

    dataset: LanceDataset
    open_lancedb: Callable[[], Any]


def index_records(table: Indexed, lexical: Lexical) -> None:
    """Create or extend the indexes of the records."""
    rows = table.dataset.count_rows()
    if rows:
        _words(table, lexical)
    if rows >= vectors.INDEX_ROWS:
        _vectors(table, rows)


def _words(table: Indexed, lexical: Lexical) -> None:
    config = partial(full_text.index_config, lexical)
    if full_text.made_with(table.dataset) == lexical:
        keep_index(table, full_text.COLUMN, config)
        return
    _make(table, full_text.COLUMN, config)
    table.dataset.update_config({full_text.KEY: full_text.to_json(lexical)})


def _vectors(table: Indexed, rows: int) -> None:
    """Create or extend the vector index. Drop it if its recall is too low, after rebuilding one that was extended.

    After a drop it is tried again when the number of records has grown by the factor GROWN.
    """
    known = vectors.measured(table.dataset)
    if known and not known.probes and rows < vectors.GROWN * known.rows:
        return
    made = keep_index(table, "vector", _vector_index)
    if known and known.probes and not made and rows < MEASURED_AGAIN * known.rows:
        return
    found = vectors.measure(table.dataset)
    if not found.probes and not made:
        _make(table, "vector", _vector_index)
        found = vectors.measure(table.dataset)
    if not found.probes and (index := _index(table.dataset, "vector")):
        table.dataset.drop_index(index.name)
    vectors.write(table.dataset, found)


def _vector_index() -> Any:
    from lancedb.index import IvfSq

    return IvfSq(distance_type="cosine", target_partition_size=vectors.PARTITION_ROWS)


def keep_index(table: Indexed, column: str, config: Callable[[], Any]) -> bool:
    """Create an index, or extend it once enough rows are outside to slow a search; return True if it was created.

    Its configuration is made only to create it: importing lancedb takes a third of a second.
    """
    existing = _index(table.dataset, column)
    if existing is None:
        _make(table, column, config)
        return True
    outside, limit = _outside(table.dataset, existing)
    if outside <= limit:
        return False
    # Each pass adds a segment to a vector index; merging keeps their number, and so the cost of a search, constant.
    table.dataset.optimize.optimize_indices(index_names=[existing.name], num_indices_to_merge=100)
    table.dataset.checkout_latest()  # type: ignore[no-untyped-call]  # lance leaves it untyped
    return False


def unindexed(records: LanceDataset) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each index of the records with (rows that are not in it, rows that may be outside of it)."""
    rows = records.count_rows()
    known = vectors.measured(records)
    wanted = {full_text.COLUMN: rows > 0, "vector": rows >= vectors.INDEX_ROWS and not (known and not known.probes)}
    for what, column in (("full-text", full_text.COLUMN), ("vector", "vector")):
        if index := _index(records, column):
            yield what, _outside(records, index)
        elif wanted[column]:
            yield what, (rows, 0)


def _make(table: Indexed, column: str, config: Callable[[], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.open_lancedb().create_index(column, config=config())
    table.dataset.checkout_latest()  # type: ignore[no-untyped-call]  # lance leaves it untyped


def _index(dataset: LanceDataset, column: str) -> Any | None:
    """Return Lance's description of the index of a column."""
    return next((index for index in dataset.describe_indices() if index.field_names == [column]), None)


def _outside(dataset: LanceDataset, index: Any) -> tuple[int, int]:
    """Return how many rows are not in an index, and how many may be outside of it."""
    covered = set().union(*(segment.fragment_ids for segment in index.segments))
    fragments = dataset.get_fragments()
    outside = sum(fragment.count_rows() for fragment in fragments if fragment.fragment_id not in covered)
    return outside, max(UNINDEXED_ROWS, int(UNINDEXED_SHARE * (dataset.count_rows() - outside)))
