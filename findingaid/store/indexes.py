"""Indexes of the tables: created when they pay off, and updated as rows are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from findingaid.store import lexical as full_text
from findingaid.store import vectors
from findingaid.text.analyzer import Lexical

if TYPE_CHECKING:
    from lance import LanceDataset

UNINDEXED_SHARE = 0.02
UNINDEXED_ROWS = 2_000
"""Rows that may stay outside of an index and are scanned: this share of it, and at least this many.

They are never more than the rows inside, by which words are weighed.
"""

MEASURED_AGAIN = 1.1
"""The vector index is measured again when the number of records has grown by this factor."""


Make = Callable[["LanceDataset"], object]
"""Function that creates one index of a table."""


def index_records(records: LanceDataset, lexical: Lexical) -> None:
    """Create or extend the indexes of the records."""
    rows = records.count_rows()
    if rows:
        _words(records, lexical)
    if rows >= vectors.INDEX_ROWS:
        _vectors(records, rows)


def _words(records: LanceDataset, lexical: Lexical) -> None:
    if full_text.made_with(records) == lexical:
        keep_index(records, full_text.COLUMN, partial(full_text.make_index, lexical=lexical))
        return
    full_text.make_index(records, lexical)
    records.update_config({full_text.KEY: full_text.to_json(lexical)})


def _vectors(records: LanceDataset, rows: int) -> None:
    """Create or extend the vector index. Drop it if its recall is too low, after rebuilding one that was extended.

    After a drop it is tried again when the number of records has grown by the factor GROWN.
    """
    known = vectors.measured(records)
    if known and not known.probes and rows < vectors.GROWN * known.rows:
        return
    made = keep_index(records, "vector", vectors.make_index)
    if known and known.probes and not made and rows < MEASURED_AGAIN * known.rows:
        return
    found = vectors.measure(records)
    if not found.probes and not made:
        vectors.make_index(records)
        found = vectors.measure(records)
    if not found.probes and (index := _index(records, "vector")):
        records.drop_index(index.name)
    vectors.write(records, found)


def keep_index(table: LanceDataset, column: str, make: Make) -> bool:
    """Create an index, or extend it once many rows are outside; return True if it was created."""
    existing = _index(table, column)
    if existing is None:
        make(table)
        return True
    outside, limit = _outside(table, existing)
    if outside <= limit:
        return False
    # Each pass adds a segment to a vector index; merging keeps their number, and so the cost of a search, constant.
    table.optimize.optimize_indices(index_names=[existing.name], num_indices_to_merge=100)
    table.checkout_latest()  # type: ignore[no-untyped-call]  # lance leaves it untyped
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


def _index(dataset: LanceDataset, column: str) -> Any | None:
    """Return Lance's description of the index of a column."""
    return next((index for index in dataset.describe_indices() if index.field_names == [column]), None)


def _outside(dataset: LanceDataset, index: Any) -> tuple[int, int]:
    """Return how many rows are not in an index, and how many may be outside of it."""
    covered = set().union(*(segment.fragment_ids for segment in index.segments))
    fragments = dataset.get_fragments()
    outside = sum(fragment.count_rows() for fragment in fragments if fragment.fragment_id not in covered)
    inside = dataset.count_rows() - outside
    return outside, min(inside, max(UNINDEXED_ROWS, int(UNINDEXED_SHARE * inside)))
