"""The indexes of the tables: made where they pay, and kept up with the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from findingaid.store import lexical as full_text
from findingaid.store import vectors
from findingaid.store.lexical import Lexical

UNINDEXED_SHARE = 0.02
UNINDEXED_ROWS = 2_000
"""The tail that full-text search may scan before the index takes it in: a share, and at least so many rows."""

MEASURED_AGAIN = 1.1
"""The vector index is measured again when there are so many times more records."""


def of_records(table: Any, lexical: Lexical) -> None:
    """Make or extend the indexes of the records, through lancedb's table."""
    rows = table.count_rows()
    if rows:
        _words(table, lexical)
    if rows >= vectors.INDEX_ROWS:
        _vectors(table, rows)


def _words(table: Any, lexical: Lexical) -> None:
    if full_text.made_with(table.to_lance()) == lexical:
        keep(table, "text", lexical.index)
        return
    _make(table, "text", lexical.index)
    table.to_lance().update_config({full_text.KEY: lexical.to_json()})


def _vectors(table: Any, rows: int) -> None:
    """The index of vectors, if it finds enough. Where it finds too little of more records than it was made of, anew."""
    from lancedb.index import IvfSq

    config = IvfSq(distance_type="cosine", target_partition_size=vectors.PARTITION_ROWS)
    known = vectors.measured(table.to_lance())
    if known and not known.probes and rows < vectors.GROWN * known.rows:
        return
    made = keep(table, "vector", config)
    if known and known.probes and not made and rows < MEASURED_AGAIN * known.rows:
        return
    found = vectors.measure(_latest(table))
    if not found.probes and not made:
        _make(table, "vector", config)
        found = vectors.measure(_latest(table))
    if not found.probes:
        table.drop_index(_name(table, "vector"))
    vectors.write(_latest(table), found)


def keep(table: Any, column: str, config: Any) -> bool:
    """Make an index, or take in the rows it does not know once they are enough to slow a search; True if it made it."""
    existing = _name(table, column)
    if existing is None:
        _make(table, column, config)
        return True
    stats = table.index_stats(existing)
    if stats.num_unindexed_rows > _tail(stats.num_indexed_rows):
        # Each pass adds a segment to a vector index; merging keeps their number, and so a search's cost, flat.
        table.to_lance().optimize.optimize_indices(index_names=[existing], num_indices_to_merge=100)
    return False


def unindexed(records: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    """Which index of the records -> (rows that are not in it, how many may be)."""
    rows = records.count_rows()
    indexed = {index.columns[0]: index.name for index in records.list_indices()}
    known = vectors.measured(records.to_lance())
    wanted = {"text": rows > 0, "vector": rows >= vectors.INDEX_ROWS and not (known and not known.probes)}
    for what, column in (("full-text", "text"), ("vector", "vector")):
        if column in indexed:
            stats = records.index_stats(indexed[column])
            yield what, (stats.num_unindexed_rows, _tail(stats.num_indexed_rows))
        elif wanted[column]:
            yield what, (rows, 0)


def _make(table: Any, column: str, config: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.create_index(column, config=config)


def _name(table: Any, column: str) -> str | None:
    return next((index.name for index in table.list_indices() if index.columns == [column]), None)


def _latest(table: Any) -> Any:
    table.checkout_latest()
    return table.to_lance()


def _tail(indexed: int) -> int:
    """Rows that may be outside of an index of so many."""
    return max(UNINDEXED_ROWS, int(UNINDEXED_SHARE * indexed))
