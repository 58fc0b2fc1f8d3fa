"""Indexes of the tables: created when they pay off, and updated as rows are added."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from findingaid.store import index_segments, vectors
from findingaid.store import lexical as full_text
from findingaid.store.index_segments import Build
from findingaid.text.analyzer import Lexical

UNINDEXED_SHARE = 0.02
UNINDEXED_ROWS = 2_000
"""Rows that may stay outside of an index and are scanned: this share of it, and at least this many."""

MEASURED_AGAIN = 1.1
"""The vector index is measured again when the number of records has grown by this factor."""


def index_records(table: Any, lexical: Lexical, build: Build) -> None:
    """Create or extend the indexes of the records, through lancedb's table; `build` builds those by segments."""
    rows = table.count_rows()
    if rows:
        _words(table, lexical, build)
    if rows >= vectors.INDEX_ROWS:
        _vectors(table, rows, build)


def _words(table: Any, lexical: Lexical, build: Build) -> None:
    if full_text.made_with(table.to_lance()) == lexical:
        keep_index(table, full_text.COLUMN, full_text.index_config(lexical), build)
        return
    _make(table, full_text.COLUMN, full_text.index_config(lexical), build)
    table.to_lance().update_config({full_text.KEY: full_text.to_json(lexical)})


def _vectors(table: Any, rows: int, build: Build) -> None:
    """Create or extend the vector index. Drop it if its recall is too low, after rebuilding one that was extended.

    After a drop it is tried again when the number of records has grown by the factor GROWN.
    """
    from lancedb.index import IvfSq

    config = IvfSq(distance_type="cosine", target_partition_size=vectors.PARTITION_ROWS)
    known = vectors.measured(table.to_lance())
    if known and not known.probes and rows < vectors.GROWN * known.rows:
        return
    made = keep_index(table, "vector", config, build)
    if known and known.probes and not made and rows < MEASURED_AGAIN * known.rows:
        return
    found = vectors.measure(_latest(table))
    if not found.probes and not made:
        _make(table, "vector", config, build)
        found = vectors.measure(_latest(table))
    if not found.probes:
        table.drop_index(_name(table, "vector"))
    vectors.write(_latest(table), found)


def keep_index(table: Any, column: str, config: Any, build: Build | None = None) -> bool:
    """Create an index, or extend it once enough rows are outside to slow a search; return True if it was created.

    With `build` an index of many rows is made of segments.
    """
    existing = _name(table, column)
    if existing is None:
        _make(table, column, config, build)
        return True
    stats = table.index_stats(existing)
    if stats.num_unindexed_rows <= _tail(stats.num_indexed_rows):
        return False
    if build and (stats.num_indices > 1 or _by_segments(table)):
        index_segments.extend_index(_latest(table), existing, column, config, build)
    else:
        # Each pass adds a segment to a vector index; merging keeps their number, and so the cost of a search, constant.
        table.to_lance().optimize.optimize_indices(index_names=[existing], num_indices_to_merge=100)
    return False


def unindexed(records: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each index of the records with (rows that are not in it, rows that may be outside of it)."""
    rows = records.count_rows()
    indexed = {index.columns[0]: index.name for index in records.list_indices()}
    known = vectors.measured(records.to_lance())
    wanted = {full_text.COLUMN: rows > 0, "vector": rows >= vectors.INDEX_ROWS and not (known and not known.probes)}
    for what, column in (("full-text", full_text.COLUMN), ("vector", "vector")):
        if column in indexed:
            stats = records.index_stats(indexed[column])
            yield what, (stats.num_unindexed_rows, _tail(stats.num_indexed_rows))
        elif wanted[column]:
            yield what, (rows, 0)


def _make(table: Any, column: str, config: Any, build: Build | None = None) -> None:
    if build and _by_segments(table):
        name = _name(table, column) or f"{column}_idx"  # as lancedb names it
        index_segments.rebuild_index(_latest(table), name, column, config, build)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.create_index(column, config=config)


def _by_segments(table: Any) -> bool:
    return bool(table.count_rows() >= index_segments.SEGMENTED_ROWS)


def _name(table: Any, column: str) -> str | None:
    return next((index.name for index in table.list_indices() if index.columns == [column]), None)


def _latest(table: Any) -> Any:
    table.checkout_latest()
    return table.to_lance()


def _tail(indexed: int) -> int:
    """Return how many rows may be outside of an index of `indexed` rows."""
    return max(UNINDEXED_ROWS, int(UNINDEXED_SHARE * indexed))
