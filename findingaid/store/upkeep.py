"""Upkeep of a store: small files are merged, indexes extended, and old versions dropped."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from findingaid.errors import UnreachableError
from findingaid.store import fields, indexes, lexical, schemas
from findingaid.store.allocator import return_freed_memory
from findingaid.store.store import Store

if TYPE_CHECKING:
    import lance

REMOTE_VERSIONS_FOR = timedelta(hours=1)
"""How long object storage keeps old versions. A commit uses them to detect commits made between its read and its
write. Without them it would find no conflict and undo those commits."""

SMALL_FRAGMENTS = 6
FRAGMENT_ROWS = (10_000, 100_000, 1_000_000)
"""Sizes at which fragments are compacted: more than six fragments below a size are merged up to it. With several
tiers a row is rewritten a few times in the table's life, rather than once every few runs."""

COMPACTING = Lock()
"""Held while files are merged, which takes some hundred megabytes: tables that are compacted at once take turns."""

KEY_INDEX_ROWS = 50_000
"""Rows from which a key column is indexed. Below this a scan is as fast, and an index adds files."""


def compact(store: Store) -> None:
    """Merge small files. On a disk, a table with few files is not opened."""
    many = (table for table in store.tables if _has_more(store, table, "data", ".lance", SMALL_FRAGMENTS))
    store.each(many, lambda table: store.change(table, partial(_compact, store)))


def update_indexes(store: Store) -> None:
    """Update the indexes that lack enough rows."""
    _index_keys(store)
    store.change("records", partial(_index_records, store))


def drop_old_versions(store: Store) -> None:
    """Drop every version except the newest and the tagged ones; object storage also keeps those of the last hour.

    Files of a commit in progress are never touched.
    """
    several = (table for table in store.tables if _has_more(store, table, "_versions", ".manifest", 1))
    store.each(several, lambda table: store.change(table, partial(_clean_up, store)))


def _compact(store: Store, dataset: lance.LanceDataset) -> None:
    for rows in FRAGMENT_ROWS:
        if sum(fragment.count_rows() < rows for fragment in dataset.get_fragments()) > SMALL_FRAGMENTS:
            before = dataset.version
            with COMPACTING:
                dataset.optimize.compact_files(target_rows_per_fragment=rows)
                return_freed_memory()
            try:
                store.require_whole(dataset, (fragment.metadata for fragment in dataset.get_fragments()))
            except UnreachableError:
                dataset.checkout_version(before).restore()  # type: ignore[no-untyped-call]  # lance leaves it untyped
                raise


def _clean_up(store: Store, dataset: lance.LanceDataset) -> None:
    if store.remote and len(dataset.version_refs()) == 1:  # on a disk, `_has_more` has looked
        return
    kept = REMOTE_VERSIONS_FOR if store.remote else timedelta(0)  # on one machine, writers take turns
    dataset.cleanup_old_versions(older_than=kept, error_if_tagged_old_versions=False)


def _has_more(store: Store, table: str, folder: str, suffix: str, number: int) -> bool:
    """Check whether a table may have more files than a number. Opening it would take much longer than a look."""
    if store.remote:
        return True
    with store.storage_errors(), suppress(FileNotFoundError):
        return sum(name.endswith(suffix) for name in os.listdir(f"{store.path(table)}/{folder}")) > number
    return False


def drop_unused_fields(store: Store) -> None:
    """Drop the columns of fields that no record has any longer."""
    store.change("records", fields.drop_unused)


def drop_indexes(store: Store, table: str) -> None:
    """Drop every index of a table; `update_indexes` recreates those that pay off."""
    store.change(table, _drop_indexes)


def _index_keys(store: Store) -> None:
    of_artifacts = [(table, "artifact_id") for table in ("ledger", *schemas.PER_ARTIFACT)]
    keys = [*of_artifacts, ("edges", "target_id"), *((table, "key") for table in schemas.CACHES)]
    for name, column, kind in [*((*key, "BTREE") for key in keys), ("records", schemas.READERS.name, "BITMAP")]:
        if store.count(name) >= KEY_INDEX_ROWS:
            store.change(name, partial(_index_key, column, kind))


def _index_key(column: str, kind: Any, dataset: lance.LanceDataset) -> None:
    indexes.keep_index(dataset, column, lambda table: table.create_scalar_index(column, kind))


def unindexed(store: Store) -> dict[str, tuple[int, int]]:
    """Map each index of the records to (rows that are not in it, rows that may be outside of it)."""
    with store.storage_errors():
        return dict(indexes.unindexed(store.dataset("records")))


def is_full_text_current(store: Store) -> bool:
    """Check whether the full-text index matches the settings, which may change while the records do not."""
    records = store.dataset("records")
    return not records.count_rows() or lexical.made_with(records) == store.lexical


def _index_records(store: Store, dataset: lance.LanceDataset) -> None:
    indexes.index_records(dataset, store.lexical)


def _drop_indexes(dataset: lance.LanceDataset) -> None:
    for index in dataset.describe_indices():
        dataset.drop_index(index.name)
