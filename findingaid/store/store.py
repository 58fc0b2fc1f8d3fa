"""Store of Lance tables, written one atomic commit at a time."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from findingaid.errors import QueryError, StoreError, UnreachableError
from findingaid.store import fields, schemas
from findingaid.store.fragments import NO_FRAGMENTS, Fragments
from findingaid.store.sql import equals, one_of
from findingaid.store.tables import LOOKUP, Tables

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Check = Callable[["lance.LanceDataset"], None]
"""Callback that receives a table just before a commit to it, and raises if the commit must not be made."""

LOGGER = logging.getLogger("findingaid")

PATIENCE_SECONDS = 60.0
"""How long a commit that conflicts with other writers is retried; each try starts from the latest version."""

SPREAD = 8
"""Longest random wait before a retry, as a multiple of the time of the last try; it spreads competing writers."""

NAMED = 5
"""Most fields that a warning names; the rest are not counted."""


class Store(Tables):
    """Tables of one index, for reading and writing."""

    told_full = False
    """Whether this store has warned that the records have no room for more fields."""

    def append(self, table: str, rows: pa.Table, check: Check | None = None) -> None:
        """Append rows in one commit; appends never conflict. `check` is called just before the commit and may raise."""
        if rows.num_rows:
            self.change(table, partial(self._append, table, rows=rows, check=check))

    def _append(self, table: str, dataset: lance.LanceDataset, rows: pa.Table, check: Check | None) -> None:
        import lance

        self._require_fit(table, dataset, rows)
        change = lance.LanceOperation.Append(self._files_of(rows, dataset))
        if check:
            check(dataset)
        lance.LanceDataset.commit(dataset, change, read_version=dataset.version)

    def _files_of(self, rows: pa.Table, dataset: lance.LanceDataset) -> list[lance.FragmentMetadata]:
        """Write rows to files that no version refers to yet."""
        from lance.fragment import write_fragments

        made = write_fragments(rows, dataset)
        self.require_whole(dataset, made)
        return made

    def require_whole(self, dataset: lance.LanceDataset, fragments: Iterable[lance.FragmentMetadata]) -> None:
        """Raise UnreachableError for a file that is shorter than the bytes written to it.

        Lance does not report it when the last write to a local file fails, for example because the disk is full.
        """
        if self.remote:
            return
        folder = Path(dataset.uri) / "data"
        for file in (file for fragment in fragments for file in fragment.files):
            if (folder / file.path).stat().st_size < (file.file_size_bytes or 0):
                raise UnreachableError(
                    f"store {self.uri}: {folder.parent.name}: a file was cut off as it was written: is the disk full,"
                    " or the size of files limited (ulimit -f)? Nothing was lost"
                )

    def _require_fit(self, table: str, dataset: lance.LanceDataset, rows: pa.Table) -> None:
        """Raise StoreError when another run has recreated a table with a schema that these rows do not fit."""
        there = dataset.schema
        if any(field.name not in there.names or there.field(field.name).type != field.type for field in rows.schema):
            raise StoreError(
                f"table {table} of {self.uri} was rebuilt by another run, with another embedder or version of"
                " findingaid: nothing was written to it; give each its own store"
            )

    def replace(
        self, table: str, corpus: str, artifact_ids: Sequence[str], rows: pa.Table, check: Check | None = None
    ) -> int | None:
        """Replace all rows of these artifacts with `rows`, in one commit; return its version, None if it needed none.

        `check` is called just before each try of the commit, with the table as the commit finds it. If it raises,
        nothing is written. Raises StoreError when commits of other writers came first every time.
        """

        def replace(dataset: lance.LanceDataset) -> int | None:
            return self._replace(dataset, corpus, artifact_ids, [self._fit_and_write(table, dataset, rows)], check)

        return self.change(table, replace)

    def write_fragments(self, table: str, rows: pa.Table) -> Fragments:
        """Write rows to files that no version of the table refers to yet; `replace_by_fragments` commits them.

        The columns of new filter fields are added to the table at once.
        """
        if not rows.num_rows:
            return NO_FRAGMENTS
        found = self._fields_of(table, rows)
        if found and not fields.fits(self.dataset(table), found):
            self.change(table, partial(self._fit, found=found))
        return self._write(table, self.dataset(table), rows, found)

    def replace_by_fragments(
        self, table: str, corpus: str, artifact_ids: Sequence[str], made: Sequence[Fragments], check: Check
    ) -> int | None:
        """Replace all rows of these artifacts with rows that were written before, in one commit; see `replace`."""

        def replace(dataset: lance.LanceDataset) -> int | None:
            self._require_there(table, dataset, made)
            if table == "records":
                fields.drop_unfinished(dataset)
            fitting = [each if each.fit(dataset) else self._write_again(table, dataset, each) for each in made]
            return self._replace(dataset, corpus, artifact_ids, fitting, check)

        return self.change(table, replace)

    def _write(self, table: str, dataset: lance.LanceDataset, rows: pa.Table, found: fields.Fields | None) -> Fragments:
        """Write rows, and a column for each of the fields `found` that the table has."""
        self._require_fit(table, dataset, rows)
        if not rows.num_rows:
            return NO_FRAGMENTS
        for name, column in found.arrays(dataset.schema).items() if found else ():
            rows = rows.append_column(dataset.schema.field(name), column)
        return Fragments.of(self._files_of(rows, dataset), dataset, rows.schema.names)

    def _fit_and_write(self, table: str, dataset: lance.LanceDataset, rows: pa.Table) -> Fragments:
        """Add the columns of new filter fields to the table, and write rows. Call it while other writers wait."""
        found = self._fields_of(table, rows) if rows.num_rows else None
        if found:
            self._fit(dataset, found)
        return self._write(table, dataset, rows, found)

    def _write_again(self, table: str, dataset: lance.LanceDataset, made: Fragments) -> Fragments:
        """Write rows to new files, because the columns of the table have changed since their files were written."""
        rows = made.read(dataset, self.options)
        fixed = [name for name in rows.schema.names if table != "records" or name in schemas.RECORD_COLUMNS]
        return self._fit_and_write(table, dataset, rows.select(fixed))

    def _require_there(self, table: str, dataset: lance.LanceDataset, made: Iterable[Fragments]) -> None:
        """Raise StoreError when files that were written before are gone, as where another run has remade the table."""
        try:
            self.require_whole(dataset, (fragment for each in made for fragment in each.metadata()))
        except FileNotFoundError:
            raise StoreError(
                f"table {table} of {self.uri} was rebuilt by another run: nothing was written to it, run again"
            ) from None

    def _fields_of(self, table: str, rows: pa.Table) -> fields.Fields | None:
        return fields.Fields.of(rows["metadata"].to_pylist()) if table == "records" else None

    def _fit(self, dataset: lance.LanceDataset, found: fields.Fields) -> None:
        """Add a column to the records for each of these fields that the table has room for, or widen it."""
        before = {name: dataset.schema.field(name).type for name in found.types if name in dataset.schema.names}
        left_out = fields.fit(dataset, found)
        for name, kind in before.items():
            if dataset.schema.field(name).type == fields.TEXT != kind:
                was = fields.type_name(kind)
                LOGGER.warning("field %s is text from now on, not %s: its values are of several types", name, was)
        if left_out and not self.told_full:
            self.told_full = True
            LOGGER.warning(
                "table records has columns for %d fields, which is the limit: %s%s cannot be named in a filter",
                fields.MAX_FIELDS, ", ".join(left_out[:NAMED]), ", …" if len(left_out) > NAMED else "",
            )  # fmt: skip

    def rewrite(self, table: str, first: pa.Table, edit: Callable[[pa.Table], pa.Table | None]) -> None:
        """Replace all rows with the result of `edit`, in one commit; change nothing if it returns None.

        Any two rewrites conflict, on object storage too, since both remove the same fragments. The later one edits
        again, starting from the rows that the earlier one wrote. This needs rows: an empty table first gets `first`.
        """
        self.change(table, lambda dataset: self._rewrite(dataset, first, edit))

    def revise(self, table: str, edit: Callable[[pa.Table], pa.Table]) -> None:
        """Replace all rows with the result of `edit`, as the very next version of the table.

        If `edit` only appends, only the new rows are written. If any process wrote to the table meanwhile, `edit` is
        called again with the rows as they are then. For tables from which nothing is ever deleted.
        """
        self.change(table, lambda dataset: self._revise(table, dataset, edit))

    def change(self, table: str, change: Callable[[lance.LanceDataset], T]) -> T:
        """Return the result of `change`, which may commit to a table, tag its versions or delete files of it.

        No other process of this machine writes to the table meanwhile. If a commit of another writer comes first, on
        object storage, `change` is called again with the table as it is then. Raises StoreError when it still conflicts
        after PATIENCE_SECONDS, and QueryError in the view of a caller.
        """
        if self.caller is not None:
            raise QueryError(f"table {table}: nothing is written for a caller, who only reads")
        start = time.monotonic()
        lost = 0
        while True:
            tried = time.monotonic()
            try:
                with self.storage_errors(), self.lock(table):
                    return change(self.dataset(table))
            except (OSError, RuntimeError, ValueError) as error:
                if not _is_conflict(error):
                    with self.damage_errors():
                        raise
                lost += 1
                now = time.monotonic()
                if now - start > PATIENCE_SECONDS:
                    raise StoreError(
                        f"table {table} of {self.uri}: {lost} commits in a row conflicted with other writers: run again"
                    ) from error
                time.sleep((now - tried) * random.uniform(0, min(2**lost, SPREAD)))  # noqa: S311  # not a secret

    def fence(self) -> None:
        """Make the tables refuse every commit of an artifact that another process has begun before.

        On object storage Lance would let a commit that only adds rows follow those of other writers. A merge of no
        columns changes nothing, and conflicts with every other commit, which then starts again with its `check`. In a
        folder the lock of a table is held from the check to the commit.
        """
        if self.remote:
            self.each((*schemas.PER_ARTIFACT, *schemas.OF_ARTIFACTS), self._fence)

    def _fence(self, table: str) -> None:
        try:
            self.change(table, _merge_nothing)
        except StoreError as error:  # it is missing or damaged, and will be remade
            LOGGER.debug("no commits to %s are refused: %s", table, error)

    def update(self, table: str, key: str, rows: pa.Table) -> None:
        """Replace the rows that have the same `key` as one of `rows`, in one commit; add none."""
        if rows.num_rows:
            self.change(table, lambda dataset: dataset.merge_insert(key).when_matched_update_all().execute(rows))

    def drop(self, table: str, column: str, keys: Sequence[str]) -> int:
        """Delete the rows with one of `keys` in `column`; return how many there were."""
        dropped = 0
        for start in range(0, len(keys), LOOKUP):
            where = one_of(column, keys[start : start + LOOKUP])
            dropped += self.change(table, partial(delete, where=where))
        return dropped

    def _rewrite(
        self, dataset: lance.LanceDataset, first: pa.Table, edit: Callable[[pa.Table], pa.Table | None]
    ) -> None:
        import lance

        if not dataset.get_fragments():
            dataset = lance.write_dataset(first, dataset, mode="append")
        rows = edit(dataset.to_table())
        if rows is None:
            return
        change = lance.LanceOperation.Update(
            removed_fragment_ids=[fragment.fragment_id for fragment in dataset.get_fragments()],
            new_fragments=self._files_of(rows, dataset),
            update_mode="rewrite_rows",
        )
        lance.LanceDataset.commit(dataset, change, read_version=dataset.version)

    def _revise(self, table: str, dataset: lance.LanceDataset, edit: Callable[[pa.Table], pa.Table]) -> None:
        import lance

        before = dataset.to_table()
        after = edit(before)
        appended = after.slice(0, before.num_rows).equals(before)
        rows = after.slice(before.num_rows) if appended else after
        if appended and not rows.num_rows:
            return
        kept = [fragment.metadata for fragment in dataset.get_fragments()] if appended else []
        lance.LanceDataset.commit(
            self.path(table),
            lance.LanceOperation.Overwrite(dataset.schema, [*kept, *self._files_of(rows, dataset)]),
            read_version=dataset.version,
            max_retries=0,  # without retries this is the next version or a conflict
            storage_options=self.options or None,
        )

    def _replace(
        self,
        dataset: lance.LanceDataset,
        corpus: str,
        artifact_ids: Sequence[str],
        made: Iterable[Fragments],
        check: Check | None = None,
    ) -> int | None:
        import lance
        import numpy as np

        addresses = _addresses(dataset, corpus, artifact_ids)
        new = [fragment for each in made for fragment in each.metadata()]
        if not len(addresses) and not new:
            return None
        fragments = addresses >> np.uint64(32)  # the upper 32 bits are the fragment's id
        removed, updated = [], []
        for fragment_id in np.unique(fragments).tolist():
            fragment: Any = dataset.get_fragment(int(fragment_id))
            listed = addresses[fragments == fragment_id].tolist()
            if len(listed) == fragment.count_rows():
                removed.append(int(fragment_id))
            else:
                updated.append(fragment.delete(f"_rowaddr IN ({','.join(map(str, listed))})"))
        change = lance.LanceOperation.Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=new,
            update_mode="rewrite_rows",
        )
        if check:
            check(dataset)
        return int(lance.LanceDataset.commit(dataset, change, read_version=dataset.version).version)


def _addresses(dataset: lance.LanceDataset, corpus: str, artifact_ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return the addresses of the rows of these artifacts."""
    import numpy as np

    found = [np.empty(0, np.uint64)]
    for start in range(0, len(artifact_ids) if dataset.count_rows() else 0, LOOKUP):
        where = f"{equals('corpus', corpus)} AND {one_of('artifact_id', artifact_ids[start : start + LOOKUP])}"
        rows = dataset.scanner(filter=where, columns=[], with_row_address=True).to_table()
        found.append(rows["_rowaddr"].to_numpy())
    return np.concatenate(found)


def _merge_nothing(dataset: lance.LanceDataset) -> None:
    import lance

    kept = [fragment.metadata for fragment in dataset.get_fragments()]
    change = lance.LanceOperation.Merge(kept, dataset.lance_schema)
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)


def delete(dataset: lance.LanceDataset, where: str) -> int:
    """Delete the rows that match a condition; return how many there were."""
    if found := dataset.count_rows(where):
        dataset.delete(where)
    return int(found)


def _is_conflict(error: Exception) -> bool:
    """Check whether an error means that another commit came first, or that the version read was deleted since."""
    from lance.commit import CommitConflictError

    said = str(error).lower()
    return (
        isinstance(error, CommitConflictError) or "conflict" in said or ("_versions/" in said and "not found" in said)
    )
