"""Store of Lance tables in a folder or a bucket: opened on demand, written one atomic commit at a time.

Reads and writes go through pylance: its `Update` replaces rows in one version, and its import takes half the time
of lancedb's. Indexes are made through lancedb. Table handles are never kept, so that every read starts from the
latest version.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import ConfigError, StoreError, UnreachableError
from findingaid.model import MAX_DIM
from findingaid.store import fields, indexes, lexical, schemas
from findingaid.store.allocator import limit_arenas, return_freed_memory
from findingaid.store.fragments import NO_FRAGMENTS, Fragments
from findingaid.store.locks import locked
from findingaid.store.objects import ASIDE, OF_LANCE, Objects, first_line, refusal, trouble, without_secrets
from findingaid.store.sql import equals, one_of
from findingaid.store.tags import BELONGS_TO, PUBLISHED, read_tags
from findingaid.text.analyzer import Lexical

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
K = TypeVar("K")

Check = Callable[["lance.LanceDataset"], None]
"""Callback that receives a table just before a commit to it, and raises if the commit must not be made."""

LOGGER = logging.getLogger("findingaid")

TABLES = (*schemas.FIXED, "records")

LOCKS = ".locks"
"""Folder of the locks in a store that is a folder."""

DEFAULTS = Lexical()

NOT_THERE = "was not found"
"""Lance's wording for a path that does not exist; every other error means damage."""

OLDER = "an older copy than the ledger names"
"""State of a table of which the ledger names a later version, as after one table was restored from a backup."""

NO_TAG = f"tag {PUBLISHED} does not exist"

PATIENCE_SECONDS = 60.0
"""How long a commit that conflicts with other writers is retried; each try starts from the latest version."""

SPREAD = 8
"""Longest random wait before a retry, as a multiple of the time of the last try; it spreads competing writers."""

LOOKS = 20
"""How many checks may each find different damage, as while other processes rewrite a table, before it is reported."""

READS = 4
"""Tries of a read, which fails when the maintenance of another process drops the version."""

REMOTE_VERSIONS_FOR = timedelta(hours=1)
"""How long object storage keeps old versions. A commit uses them to detect commits made between its read and its
write. Without them it would find no conflict and undo those commits."""

LOOKUP = 5_000
"""Most keys that a filter lists; the planner's time grows with the expression."""

SMALL_FRAGMENTS = 6
FRAGMENT_ROWS = (10_000, 100_000, 1_000_000)
"""Sizes at which fragments are compacted: more than six fragments below a size are merged up to it. With several
tiers a row is rewritten a few times in the table's life, rather than once every few runs."""

COMPACTING = Lock()
"""Held while files are merged, which takes some hundred megabytes: tables that are compacted at once take turns."""

NAMED = 5
"""Most fields that a warning names; the rest are not counted."""

KEY_INDEX_ROWS = 50_000
"""Rows from which a key column is indexed. Below this a scan is as fast, and an index adds files."""

CACHE_BYTES = 128 * 2**20
"""Most memory for each of the two caches of a caching view: of metadata and of indexes."""


class Store:
    """All tables of one index below one URI: a folder, or object storage with Lance's `storage_options`.

    `lexical` configures the full-text index. `inspect` finds the tables that cannot be used. From then on they read as
    empty, until `prepare` recreates them.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, lexical: Lexical = DEFAULTS) -> None:
        self.uri = uri.rstrip("/")
        self.lexical = lexical
        self.remote = "://" in uri
        self._options = dict(storage_options or {})
        self._unusable: dict[str, str] = {}
        self._told_full = False
        self._shown: Mapping[str, lance.LanceDataset] = {}
        self._caching = False
        self._session: Any = None
        limit_arenas()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of this store. Leases are in a table on object storage only."""
        return tuple(table for table in TABLES if self.remote or table != "leases")

    def _wanted(self, dim: int) -> dict[str, pa.Schema]:
        return {table: schemas.FIXED.get(table) or schemas.records(dim) for table in self.tables}

    def caching(self) -> Self:
        """Return a view of a store on a disk for one run: it opens a table ten times as fast after the first time.

        It keeps metadata of files in memory. Lance finds them by path, and a manifest by its version and ETag as well,
        so that a table which another process makes anew is read anew. Files that are lost or damaged later are only
        noticed by `inspect`, which starts with empty caches. Object storage is read anew each time: there several
        machines commit at once, and Lance would keep the transactions that it compares by version alone.
        """
        view = copy(self)
        view._caching = True
        return view

    # -- reading ---------------------------------------------------------------------------------------

    def dataset(self, table: str, version: str | int | None = None) -> lance.LanceDataset:
        """Return a table as it is now, or at a version or tag. Raises StoreError when it cannot be opened."""
        import lance

        self._require_folder()
        try:
            with self.reached():
                return lance.dataset(
                    self._path(table), version=version, storage_options=self._options or None, session=self._session
                )
        except (ValueError, OSError, RuntimeError) as error:
            raise StoreError(f"table {table} of {self.uri} cannot be opened: {self._said(error)}") from None

    def rows(self, table: str, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Return rows of a table, in no particular order."""
        if table in self._unusable:
            return _empty(schemas.FIXED.get(table) or schemas.records(1), columns)
        return self._read(table, lambda dataset: dataset.to_table(columns=list(columns), filter=where))

    def lookup(
        self, table: str, column: str, keys: Iterable[str], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """Return the rows that match `where` and have one of `keys` in `column`."""
        if table in self._unusable:
            return self.rows(table, columns)
        wanted = list(keys)
        return self._read(table, lambda dataset: select_rows(dataset, column, wanted, columns, where))

    def count(self, table: str, where: str | None = None) -> int:
        with self.sound(), self.reached():
            return 0 if table in self._unusable else int(self.dataset(table).count_rows(where))

    def _read(self, table: str, read: Callable[[lance.LanceDataset], pa.Table]) -> pa.Table:
        return self.retried(lambda: read(self.dataset(table)))

    def retried(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, retrying it when another run may have dropped the version that it was reading.

        Raises StoreError when the table is damaged.
        """
        for _ in range(READS - 1):
            with suppress(OSError, ValueError, StoreError), self.sound(), self.reached():
                return read()
        with self.sound(), self.reached():
            return read()

    def exists(self) -> bool:
        """Check whether anything was ever written here."""
        try:
            self.dataset("ledger")
        except StoreError:
            return False
        return True

    @contextmanager
    def written(self) -> Iterator[None]:
        """Raise StoreError for a store without any index in it, in place of errors that name a missing table."""
        try:
            yield
        except StoreError as error:
            if NOT_THERE in str(error) and not self.exists():
                raise StoreError(f"nothing is indexed in {self.uri} yet: run `findingaid index`") from None
            raise

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Convert errors of the storage itself to a one-line UnreachableError.

        Such an error must never be taken for damage. Errors of object storage may contain addresses and keys, which
        are removed.
        """
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if reason := trouble(error, self._options) if self.remote else refusal(error, self.uri):
                raise UnreachableError(f"store {self.uri}: {reason}") from None
            raise

    @contextmanager
    def sound(self) -> Iterator[None]:
        """Convert the remaining errors of Lance to a one-line StoreError: a file is damaged or missing."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if not OF_LANCE.search(str(error)):
                raise
            raise StoreError(f"store {self.uri} is damaged: {self._said(error)}: run `findingaid verify`") from None

    def _said(self, error: BaseException) -> str:
        said = first_line(error, self.uri)
        return without_secrets(said, self._options) if self.remote else said

    # -- writing ---------------------------------------------------------------------------------------

    def prepare(
        self, dim: int, *, allow_loss: bool = False, before_making: Callable[[], object] = lambda: None
    ) -> list[str]:
        """Create every table that cannot be used, and return one message for each, none in a new store.

        The same run notices the missing rows by the ledger's counts and writes them again. Raises StoreError for an
        irreplaceable table that cannot be used, except in a new store; with `allow_loss` a lost one is created empty.
        `before_making` is called once leases can be taken and before any other table is touched; it may raise.
        """
        wanted = self._wanted(dim)
        with self._writing():
            states = self.inspect(dim)
            lost = {table for table, state in states.items() if state == "lost"}
            fresh = lost == set(self.tables)
            unused = lost >= set(self.tables) - set(schemas.CACHES)  # caches may be copied from another store
            # Irreplaceable tables are made first, so that they existed before if any other table exists.
            first = [table for table in (*schemas.IRREPLACEABLE, "leases") if table in states]
            for table in first:
                if table in schemas.IRREPLACEABLE and not unused:
                    self._require_kept(table, wanted[table], allow_loss)
                self._make(table, wanted[table], states[table])
            if states:
                before_making()
            for table in (table for table in states if table not in first):
                self._make(table, wanted[table], states[table])
            if "ledger" not in states:
                self._forget_versions([table for table in schemas.PER_ARTIFACT if table in states])
        repaired = (
            [] if fresh else [f"table {table} was {state} and was rebuilt" for table, state in self._unusable.items()]
        )
        self._unusable.clear()
        return repaired

    def _require_kept(self, table: str, schema: pa.Schema, allow_loss: bool) -> None:
        state = self._state(table, schema)  # checked again: another run may be creating all tables
        if state is None or (state == "lost" and allow_loss):
            return
        otherwise = "or start without it by `findingaid index --allow-loss`" if state == "lost" else "or move it away"
        raise StoreError(
            f"table {table} of {self.uri} is {state}, and its content cannot be rebuilt: restore it from a"
            f" backup, {otherwise}"
        )

    def append(self, table: str, rows: pa.Table, check: Check | None = None) -> None:
        """Append rows in one commit; appends never conflict. `check` is called just before the commit and may raise."""
        if rows.num_rows:
            self._commit(table, partial(self._append, table, rows=rows, check=check))

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
        self._require_whole(dataset, made)
        return made

    def _require_whole(self, dataset: lance.LanceDataset, fragments: Iterable[lance.FragmentMetadata]) -> None:
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

        return self._commit(table, replace)

    def write_fragments(self, table: str, rows: pa.Table) -> Fragments:
        """Write rows to files that no version of the table refers to yet; `replace_by_fragments` commits them.

        The columns of new filter fields are added to the table at once.
        """
        if not rows.num_rows:
            return NO_FRAGMENTS
        found = self._fields_of(table, rows)
        if found and not fields.fits(self.dataset(table), found):
            self._commit(table, partial(self._fit, found=found))
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

        return self._commit(table, replace)

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
        rows = made.read(dataset, self._options)
        fixed = [name for name in rows.schema.names if table != "records" or name in schemas.RECORD_COLUMNS]
        return self._fit_and_write(table, dataset, rows.select(fixed))

    def _require_there(self, table: str, dataset: lance.LanceDataset, made: Iterable[Fragments]) -> None:
        """Raise StoreError when files that were written before are gone, as where another run has remade the table."""
        try:
            self._require_whole(dataset, (fragment for each in made for fragment in each.metadata()))
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
        if left_out and not self._told_full:
            self._told_full = True
            LOGGER.warning(
                "table records has columns for %d fields, which is the limit: %s%s cannot be named in a filter",
                fields.MAX_FIELDS, ", ".join(left_out[:NAMED]), ", …" if len(left_out) > NAMED else "",
            )  # fmt: skip

    def rewrite(self, table: str, first: pa.Table, edit: Callable[[pa.Table], pa.Table | None]) -> None:
        """Replace all rows with the result of `edit`, in one commit; change nothing if it returns None.

        Any two rewrites conflict, on object storage too, since both remove the same fragments. The later one edits
        again, starting from the rows that the earlier one wrote. This needs rows: an empty table first gets `first`.
        """
        self._commit(table, lambda dataset: self._rewrite(dataset, first, edit))

    def revise(self, table: str, edit: Callable[[pa.Table], pa.Table]) -> None:
        """Replace all rows with the result of `edit`, as the very next version of the table.

        If `edit` only appends, only the new rows are written. If any process wrote to the table meanwhile, `edit` is
        called again with the rows as they are then. For tables from which nothing is ever deleted.
        """
        self._commit(table, lambda dataset: self._revise(table, dataset, edit))

    def change(self, table: str, change: Callable[[lance.LanceDataset], T]) -> T:
        """Return the result of `change`, which may commit to a table, tag its versions or delete files of it.

        No other process of this machine writes to the table meanwhile. If a commit of another writer comes first, on
        object storage, `change` is called again with the table as it is then.
        """
        return self._commit(table, change)

    def _commit(self, table: str, commit: Callable[[lance.LanceDataset], T]) -> T:
        """Return the result of `commit`; after a conflict, retry it from the latest version.

        Raises StoreError when it still conflicts after PATIENCE_SECONDS.
        """
        start = time.monotonic()
        lost = 0
        while True:
            tried = time.monotonic()
            try:
                with self.reached(), self._writing(table):
                    return commit(self.dataset(table))
            except (OSError, RuntimeError, ValueError) as error:
                if not _is_conflict(error):
                    with self.sound():
                        raise
                lost += 1
                now = time.monotonic()
                if now - start > PATIENCE_SECONDS:
                    raise StoreError(
                        f"table {table} of {self.uri}: {lost} commits in a row conflicted with other writers: run again"
                    ) from error
                time.sleep((now - tried) * random.uniform(0, min(2**lost, SPREAD)))  # noqa: S311  # not a secret

    def update(self, table: str, key: str, rows: pa.Table) -> None:
        """Replace the rows that have the same `key` as one of `rows`, in one commit; add none."""
        if rows.num_rows:
            self._commit(table, lambda dataset: dataset.merge_insert(key).when_matched_update_all().execute(rows))

    def drop(self, table: str, column: str, keys: Sequence[str]) -> int:
        """Delete the rows with one of `keys` in `column`; return how many there were."""
        dropped = 0
        for start in range(0, len(keys), LOOKUP):
            where = one_of(column, keys[start : start + LOOKUP])
            dropped += self._commit(table, partial(delete, where=where))
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
            self._path(table),
            lance.LanceOperation.Overwrite(dataset.schema, [*kept, *self._files_of(rows, dataset)]),
            read_version=dataset.version,
            max_retries=0,  # without retries this is the next version or a conflict
            storage_options=self._options or None,
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

    def alone(self, what: str) -> AbstractContextManager[None]:
        """Lock a name against the other processes of this machine; object storage has no such lock."""
        return self._writing(what)

    @contextmanager
    def _writing(self, what: str = "store") -> Iterator[None]:
        """Allow one writer of a table at a time on this machine, so that none has to retry.

        The lock is released when its process ends, see `findingaid.store.locks`. Object storage has no lock: there
        conflicting commits are detected and retried, and leases keep two runs from adding the same artifact.
        """
        if self.remote:
            yield
            return
        self._require_folder()
        with ExitStack() as held:
            try:
                with self.reached():
                    held.enter_context(locked(Path(self.uri) / LOCKS / what, f"{what} of {self.uri}"))
            except (OSError, NotImplementedError) as error:
                raise StoreError(f"store: {self.uri} cannot be written: {getattr(error, 'strerror', error)}") from error
            yield

    # -- upkeep ----------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Merge small files. On a disk, a table with few files is not opened."""
        many = (table for table in self.tables if self._has_more(table, "data", ".lance", SMALL_FRAGMENTS))
        self.each(many, lambda table: self._commit(table, self._compact))

    def index(self) -> None:
        """Update the indexes that lack enough rows."""
        self._index_keys()
        self._commit("records", self._index_records)

    def clean(self) -> None:
        """Drop every version except the newest and the tagged ones; object storage also keeps those of the last hour.

        Files of a commit in progress are never touched.
        """
        several = (table for table in self.tables if self._has_more(table, "_versions", ".manifest", 1))
        self.each(several, lambda table: self._commit(table, self._drop_old_versions))

    def _compact(self, dataset: lance.LanceDataset) -> None:
        for rows in FRAGMENT_ROWS:
            if sum(fragment.count_rows() < rows for fragment in dataset.get_fragments()) > SMALL_FRAGMENTS:
                before = dataset.version
                with COMPACTING:
                    dataset.optimize.compact_files(target_rows_per_fragment=rows)
                    return_freed_memory()
                try:
                    self._require_whole(dataset, (fragment.metadata for fragment in dataset.get_fragments()))
                except UnreachableError:
                    dataset.checkout_version(before).restore()  # type: ignore[no-untyped-call]  # lance leaves it untyped
                    raise

    def _drop_old_versions(self, dataset: lance.LanceDataset) -> None:
        if self.remote and len(dataset.versions()) == 1:  # on a disk, `_has_more` has looked
            return
        kept = REMOTE_VERSIONS_FOR if self.remote else timedelta(0)  # on one machine, writers take turns
        dataset.cleanup_old_versions(older_than=kept, error_if_tagged_old_versions=False)

    def each(self, wanted: Iterable[K], do: Callable[[K], T]) -> dict[K, T]:
        """Call `do` with each table or other key, and return its results by key.

        On object storage, where a call mostly waits for answers, all are called at the same time. On a disk threads
        cost more than they save.
        """
        keys = list(wanted)
        if not self.remote or not keys:
            return {key: do(key) for key in keys}
        with ThreadPoolExecutor(len(keys)) as pool:
            return dict(zip(keys, pool.map(do, keys), strict=True))

    def _has_more(self, table: str, folder: str, suffix: str, number: int) -> bool:
        """Check whether a table may have more files than a number. Opening it would take much longer than a look."""
        if self.remote:
            return True
        with self.reached(), suppress(FileNotFoundError):
            return sum(name.endswith(suffix) for name in os.listdir(f"{self._path(table)}/{folder}")) > number
        return False

    def newest_tables(self) -> dict[str, lance.LanceDataset]:
        """Return the newest versions of the tables that are published together: the records and OF_RECORDS."""
        return self.each(("records", *schemas.OF_RECORDS), self.dataset)

    def showing(self, tables: Mapping[str, lance.LanceDataset]) -> Self:
        """Return a view in which these tables, see `newest_tables`, are published, to check them before they are."""
        view = copy(self)
        view._shown = tables
        return view

    def published(self) -> lance.LanceDataset:
        """Return the records as readers see them. Raises StoreError when nothing was published yet."""
        if self._shown:
            return self._shown["records"]
        try:
            return self.dataset("records", PUBLISHED)
        except StoreError as error:
            reason = "" if any(said in str(error) for said in (NOT_THERE, NO_TAG)) else f" ({error})"
            raise StoreError(f"nothing is published in {self.uri}{reason}: run `findingaid index`") from error

    def beside(self, records: lance.LanceDataset, table: str) -> lance.LanceDataset:
        """Return the version of one of OF_RECORDS that belongs to a published version of the records.

        Raises StoreError when it does not exist. Either it is lost, or another run has published meanwhile: then
        opening the records and the table again finds both.
        """
        try:
            return self._shown[table] if self._shown else self.dataset(table, f"{BELONGS_TO}{records.version}")
        except StoreError as error:
            what = f"the {table.replace('_', ' ')} of {self.uri} that belong to the published records are lost"
            raise StoreError(f"{what}: run `findingaid index`") from error

    def published_rows(self, table: str, columns: Sequence[str], where: str) -> pa.Table:
        """Return rows of one of OF_RECORDS as readers see them; none before anything is published."""

        def read() -> pa.Table:
            if not self._shown and PUBLISHED not in read_tags(self.dataset("records")):
                return _empty(schemas.FIXED[table], columns)
            return self.beside(self.published(), table).to_table(columns=list(columns), filter=where)

        return self.retried(read)

    def drop_unused_fields(self) -> None:
        """Drop the columns of fields that no record has any longer."""
        self._commit("records", fields.drop_unused)

    def drop_indexes(self, table: str) -> None:
        """Drop every index of a table; `index` recreates those that pay off."""
        self._commit(table, _drop_indexes)

    def _index_keys(self) -> None:
        of_artifacts = [(table, "artifact_id") for table in ("ledger", *schemas.PER_ARTIFACT)]
        for name, column in [*of_artifacts, ("edges", "target_id"), *((table, "key") for table in schemas.CACHES)]:
            if self.count(name) >= KEY_INDEX_ROWS:
                self._commit(name, partial(self._index_key, name, column))

    def _index_key(self, name: str, column: str, dataset: lance.LanceDataset) -> None:
        from lancedb.index import BTree

        indexes.keep_index(self._indexed(name, dataset), column, BTree())

    def unindexed(self) -> dict[str, tuple[int, int]]:
        """Map each index of the records to (rows that are not in it, rows that may be outside of it)."""
        with self.reached():
            return dict(indexes.unindexed(self.dataset("records")))

    def reindexed(self) -> bool:
        """Check whether the full-text index matches the settings, which may change while the records do not."""
        records = self.dataset("records")
        return not records.count_rows() or lexical.made_with(records) == self.lexical

    def _index_records(self, dataset: lance.LanceDataset) -> None:
        indexes.index_records(self._indexed("records", dataset), self.lexical)

    def _indexed(self, name: str, dataset: lance.LanceDataset) -> indexes.Indexed:
        def open_lancedb() -> Any:
            import lancedb

            return lancedb.connect(self.uri, storage_options=self._options or None).open_table(name)

        return indexes.Indexed(dataset, open_lancedb)

    # -- damage ----------------------------------------------------------------------------------------

    def inspect(self, dim: int) -> dict[str, str]:
        """Return the tables that cannot be used, each with its state: "lost", "damaged", "of another schema" or OLDER.

        Raises UnreachableError when the store is not a folder, and ConfigError when `dim` is out of range.
        """
        self._require_folder()
        if not 0 < dim <= MAX_DIM:
            raise ConfigError(f"embedder: its vectors have {dim:,} dimensions, an index takes 1 to {MAX_DIM:,}")
        wanted = self._wanted(dim)
        self._session = _session() if self._caching and not self.remote else None
        known = self._known_versions()  # before the tables are looked at, since other runs may write to them
        states = self.each(wanted, lambda table: self._state(table, wanted[table], known.get(table, 0)))
        found = {table: state for table, state in states.items() if state}
        self._unusable |= found  # in place, since views share it
        for table in self._unusable.keys() - found:
            del self._unusable[table]
        return found

    def problem(self, table: str) -> str | None:
        """Return the problem with a table's files; None if it opens and every file it refers to is there and whole."""
        return self._look(table)[0]

    def _look(self, table: str) -> tuple[str | None, lance.LanceDataset | None]:
        """Return the problem with a table's files, see `problem`, and the table if it opens."""
        # Maintenance may drop a version while it is read. The next check then reads another version, and finds another
        # problem or none. Real damage gives the same problem again.
        before, (found, dataset) = None, self._look_once(table)
        looks = 1
        while found != before and looks < LOOKS:
            before, (found, dataset) = found, self._look_once(table)
            looks += 1
        return found, dataset

    def _look_once(self, table: str) -> tuple[str | None, lance.LanceDataset | None]:
        dataset = None
        try:
            with self.reached():
                dataset = self.dataset(table)
                dataset.validate()  # type: ignore[no-untyped-call]  # lance leaves it untyped
        except StoreError as error:
            return str(error), dataset
        except (OSError, ValueError, RuntimeError) as error:
            return self._said(error), dataset
        return None, dataset

    def _state(self, table: str, schema: pa.Schema, least: int = 0) -> str | None:
        """Return the state of a table that cannot be used, see `inspect`; `least` is the version the ledger names."""
        problem, dataset = self._look(table)
        if problem or dataset is None:
            return "lost" if problem and NOT_THERE in problem else "damaged"
        found = dataset.schema
        version = (found.metadata or {}).get(schemas.VERSION_KEY)
        if table == "records":  # columns of filter fields follow the fixed ones
            found = pa.schema(list(found)[: len(schema)], found.metadata)
        same = found.names == schema.names and found.types == schema.types
        if not same or version != (schema.metadata or {})[schemas.VERSION_KEY]:
            return "of another schema"
        return OLDER if dataset.version < least else None

    def _known_versions(self) -> dict[str, int]:
        """Map each table of PER_ARTIFACT to the newest version that the ledger names; {} without a usable ledger."""
        newest = dict.fromkeys(schemas.PER_ARTIFACT, 0)
        columns = [f"v_{table}" for table in newest]
        with suppress(StoreError, OSError, RuntimeError, ValueError):
            for batch in self.dataset("ledger").scanner(columns=columns).to_batches():
                for table in newest:
                    newest[table] = max(newest[table], pc.max(batch[f"v_{table}"]).as_py() or 0)
        return newest

    def _forget_versions(self, tables: Sequence[str]) -> None:
        """Forget which versions of these tables the ledger names: they are made anew, and their versions begin anew."""

        def forget(ledger: lance.LanceDataset) -> None:
            if ledger.count_rows():
                ledger.update({f"v_{table}": "0" for table in tables})

        if tables:
            self._commit("ledger", forget)

    def _make(self, table: str, schema: pa.Schema, state: str) -> None:
        import lance

        if state == "damaged":
            self._set_aside(table)
        if state in {"of another schema", OLDER}:  # a new version: readers keep the published one
            with self.reached():
                options = self._options or None
                lance.write_dataset(schema.empty_table(), self._path(table), mode="overwrite", storage_options=options)
            return
        try:
            # Without retries this commits the first version or fails. `write_dataset` would empty a table that another
            # run made a moment ago, since object storage has no lock that keeps other runs out.
            with self.reached():
                lance.LanceDataset.commit(
                    self._path(table),
                    lance.LanceOperation.Overwrite(schema, []),
                    read_version=0,
                    max_retries=0,
                    storage_options=self._options or None,
                )
        except OSError:
            if self._state(table, schema):
                raise

    def _set_aside(self, table: str) -> None:
        """Rename a damaged table, so that it can still be inspected."""
        if self.remote:
            with self.reached():
                self.objects().set_aside(f"{table}.lance", table)
            return
        path = Path(self._path(table))
        with self.reached():
            taken = len(list(path.parent.glob(f"{table}{ASIDE}*")))
            path.rename(path.with_name(f"{table}{ASIDE}{taken + 1}"))

    def objects(self) -> Objects:
        """Return the objects of a remote store."""
        return Objects(self.uri, self._options)

    def _require_folder(self) -> None:
        """Raise UnreachableError for a file in the place of the store: Lance would try to open it for half a minute."""
        if not self.remote and Path(self.uri).is_file():
            raise UnreachableError(f"store: {self.uri} is not a folder: name another, or move it away")

    def _path(self, table: str) -> str:
        return f"{self.uri}/{table}.lance"


def select_rows(
    dataset: lance.LanceDataset, column: str, keys: Sequence[str], columns: Sequence[str], where: str | None = None
) -> pa.Table:
    """Return the rows of one version that match `where` and have one of `keys` in `column`."""
    parts = [one_of(column, keys[i : i + LOOKUP]) for i in range(0, len(keys), LOOKUP)]
    if where:
        parts = [f"{part} AND {where}" for part in parts]
    found = [dataset.to_table(columns=list(columns), filter=part) for part in parts] if dataset.count_rows() else []
    return pa.concat_tables(found) if found else _empty(dataset.schema, columns)


def _addresses(dataset: lance.LanceDataset, corpus: str, artifact_ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return the addresses of the rows of these artifacts."""
    import numpy as np

    found = [np.empty(0, np.uint64)]
    for start in range(0, len(artifact_ids) if dataset.count_rows() else 0, LOOKUP):
        where = f"{equals('corpus', corpus)} AND {one_of('artifact_id', artifact_ids[start : start + LOOKUP])}"
        rows = dataset.scanner(filter=where, columns=[], with_row_address=True).to_table()
        found.append(rows["_rowaddr"].to_numpy())
    return np.concatenate(found)


def _session() -> Any:
    from lance import Session  # type: ignore[attr-defined]  # lance imports it without listing it

    return Session(metadata_cache_size_bytes=CACHE_BYTES, index_cache_size_bytes=CACHE_BYTES)


def delete(dataset: lance.LanceDataset, where: str) -> int:
    """Delete the rows that match a condition; return how many there were."""
    if found := dataset.count_rows(where):
        dataset.delete(where)
    return int(found)


def _drop_indexes(dataset: lance.LanceDataset) -> None:
    for index in dataset.describe_indices():
        dataset.drop_index(index.name)


def _empty(schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    return pa.schema([schema.field(c) for c in columns]).empty_table()


def _is_conflict(error: Exception) -> bool:
    """Check whether an error means that another commit came first, or that the version read was deleted since."""
    from lance.commit import CommitConflictError

    said = str(error).lower()
    return (
        isinstance(error, CommitConflictError) or "conflict" in said or ("_versions/" in said and "not found" in said)
    )
