"""A folder or a bucket of Lance tables: opened on demand, written one atomic commit at a time.

Reads and writes go through pylance, whose `Update` replaces rows in one version and whose import takes half
the time of lancedb's; indexes are made through lancedb. Handles are never kept, so that a reader always starts
from what is there now.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa
from filelock import FileLock

from findingaid.errors import StoreError, UnreachableError
from findingaid.store import fields, indexes, lexical, schemas
from findingaid.store.lexical import Lexical
from findingaid.store.objects import ASIDE, Objects, first_line, trouble, without_secrets
from findingaid.store.publishing import EDGES_OF, PUBLISHED
from findingaid.store.sql import equals, one_of

if TYPE_CHECKING:
    import lance

T = TypeVar("T")

LOGGER = logging.getLogger("findingaid")

TABLES = (*schemas.FIXED, "records")

DEFAULTS = Lexical()

NOT_THERE = "was not found"
"""How Lance words it when nothing is at a path; every other error is damage."""

PATIENCE_SECONDS = 60.0
"""How long a commit that others' commits come before is tried; each try starts again from the latest version."""

SPREAD = 8
"""At most so many times as long as a try took is waited before the next one, so that several get out of step."""

READS = 4
"""Tries of a reading that others' maintenance took the version away from."""
LOCK_POLL_SECONDS = 0.01

REMOTE_VERSIONS_FOR = timedelta(hours=1)
"""How long object storage keeps old versions. A commit learns from them what came between its reading and its
writing: without them it conflicts with nothing, and undoes what it did not see."""

LOOKUP = 5_000
"""Keys a filter may list; the planner's time grows with the expression."""

SMALL_FRAGMENTS = 6
FRAGMENT_ROWS = (10_000, 100_000, 1_000_000)
"""More than six fragments below one of these sizes are put together up to it. In tiers, so that a row is written
again a few times in the table's life, not once every few runs."""

NAMED = 5
"""Fields that a warning names; the rest are not counted."""

KEY_INDEX_ROWS = 50_000
"""Below this a scan for keys is as fast as an index, and an index is more files."""


class Store:
    """All tables of one index, below one URI: a folder, or object storage with Lance's `storage_options` for it.

    `lexical` says how the full-text index takes words. `inspect` first says which tables cannot be used; until
    `prepare` makes those anew they read as empty.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, lexical: Lexical = DEFAULTS) -> None:
        self.uri = uri.rstrip("/")
        self.lexical = lexical
        self.remote = "://" in uri
        self._options = dict(storage_options or {})
        self._unusable: dict[str, str] = {}
        self._told_full = False
        self._shown: tuple[lance.LanceDataset, lance.LanceDataset] | None = None

    # -- reading ---------------------------------------------------------------------------------------

    def dataset(self, table: str, version: str | int | None = None) -> lance.LanceDataset:
        """A table as it is now, or at a version or tag. Raises StoreError when there is none that opens."""
        import lance

        try:
            with self.reached():
                return lance.dataset(self._path(table), version=version, storage_options=self._options or None)
        except (ValueError, OSError, RuntimeError) as error:
            raise StoreError(f"table {table} of {self.uri} cannot be opened: {self._said(error)}") from None

    def rows(self, table: str, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Rows of a table, in no order."""
        if table in self._unusable:
            return _empty(schemas.FIXED.get(table) or schemas.records(1), columns)
        return self._read(table, lambda dataset: dataset.to_table(columns=list(columns), filter=where))

    def lookup(
        self, table: str, column: str, keys: Iterable[str], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """The rows whose `column` is one of `keys`, of those that `where` lets through."""
        if table in self._unusable:
            return self.rows(table, columns)
        wanted = list(keys)
        parts = [one_of(column, wanted[i : i + LOOKUP]) for i in range(0, len(wanted), LOOKUP)]
        if where:
            parts = [f"{part} AND {where}" for part in parts]

        def find(dataset: lance.LanceDataset) -> pa.Table:
            found = (
                [dataset.to_table(columns=list(columns), filter=part) for part in parts] if dataset.count_rows() else []
            )
            return pa.concat_tables(found) if found else _empty(dataset.schema, columns)

        return self._read(table, find)

    def count(self, table: str, where: str | None = None) -> int:
        with self.reached():
            return 0 if table in self._unusable else int(self.dataset(table).count_rows(where))

    def _read(self, table: str, read: Callable[[lance.LanceDataset], pa.Table]) -> pa.Table:
        return self.retried(lambda: read(self.dataset(table)))

    def retried(self, read: Callable[[], T]) -> T:
        """What `read` gives; read again from the start where another run dropped a version that it was reading."""
        for _ in range(READS - 1):
            with suppress(OSError, ValueError, StoreError), self.reached():
                return read()
        with self.reached():
            return read()

    def exists(self) -> bool:
        """Whether anything was ever written here."""
        try:
            self.dataset("ledger")
        except StoreError:
            return False
        return True

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Tell of object storage that does not do what is asked in one line, as UnreachableError.

        Such an error must never be taken for damage, and as Lance words it it may hold addresses and keys.
        """
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if self.remote and (reason := trouble(error, self._options)):
                raise UnreachableError(f"store {self.uri}: {reason}") from None
            raise

    def _said(self, error: BaseException) -> str:
        said = first_line(error, self.uri)
        return without_secrets(said, self._options) if self.remote else said

    # -- writing ---------------------------------------------------------------------------------------

    def prepare(self, dim: int, *, allow_loss: bool = False) -> list[str]:
        """Make every table that cannot be used; says which held something before.

        What such a table had held is noticed by the ledger's counts and written again by the same run. Raises
        StoreError for one that nothing can write again; `allow_loss` lets it begin anew where it is not there.
        """
        wanted = _wanted(dim)
        with self._writing():
            states = self.inspect(dim)
            lost = {table for table, state in states.items() if state == "lost"}
            fresh = lost == set(TABLES)
            unused = lost >= set(TABLES) - set(schemas.CACHES)  # which may be another store's, to begin with
            # Those that nothing can write again are made first: where there is any other, they were there.
            for table in sorted(states, key=lambda table: table not in schemas.IRREPLACEABLE):
                if table in schemas.IRREPLACEABLE and not unused:
                    self._require_kept(table, wanted[table], allow_loss)
                self._make(table, wanted[table], states[table])
        repaired = [] if fresh else [f"table {table} was {state}: made anew" for table, state in self._unusable.items()]
        self._unusable = {}
        return repaired

    def _require_kept(self, table: str, schema: pa.Schema, allow_loss: bool) -> None:
        state = self._state(table, schema)  # looked at again: another run may make all tables just now
        if state is None or (state == "lost" and allow_loss):
            return
        otherwise = "or begin without it by `findingaid index --allow-loss`" if state == "lost" else "or move it away"
        raise StoreError(
            f"table {table} of {self.uri} is {state}, and nothing can write again what it held: put it back from a"
            f" backup, {otherwise}"
        )

    def append(self, table: str, rows: pa.Table) -> None:
        """Add rows in one commit; appends never conflict."""
        import lance

        if rows.num_rows:
            with self.reached():
                lance.write_dataset(rows, self._path(table), mode="append", storage_options=self._options or None)

    def replace(self, table: str, corpus: str, artifact_ids: Sequence[str], rows: pa.Table) -> bool:
        """Put `rows` in the place of all rows of these artifacts, in one commit; False if nothing was to do.

        Raises StoreError when other writers' commits came first every time.
        """
        where = f"{equals('corpus', corpus)} AND {one_of('artifact_id', artifact_ids)}"
        if table == "records" and rows.num_rows:
            found = fields.Fields.of(rows["metadata"].to_pylist())
            return self._commit(
                table, lambda dataset: self._replace(dataset, where, self._fitted(dataset, rows, found))
            )
        return self._commit(table, lambda dataset: self._replace(dataset, where, rows))

    def _fitted(self, dataset: lance.LanceDataset, rows: pa.Table, found: fields.Fields) -> pa.Table:
        """Records with a column for each of their fields, all of which the table has now."""
        left_out = fields.fit(dataset, found)
        if left_out and not self._told_full:
            self._told_full = True
            LOGGER.warning(
                "table records has columns for %d fields and takes no more: %s%s cannot be named in a filter",
                fields.MAX_FIELDS, ", ".join(left_out[:NAMED]), ", …" if len(left_out) > NAMED else "",
            )  # fmt: skip
        for name, column in found.arrays(dataset.schema).items():
            rows = rows.append_column(dataset.schema.field(name), column)
        return rows

    def rewrite(self, table: str, first: pa.Table, edit: Callable[[pa.Table], pa.Table | None]) -> None:
        """Put what `edit` makes of all rows in their place, in one commit; none where it makes nothing of them.

        Any two of these conflict, on object storage too, since both take out what the other took out; the later
        one edits again what the earlier one wrote. For that there must be rows: an empty table gets `first`.
        """
        self._commit(table, lambda dataset: self._rewrite(dataset, first, edit))

    def revise(self, table: str, edit: Callable[[pa.Table], pa.Table]) -> None:
        """Put what `edit` makes of all rows in their place, as the very next version of the table.

        What only follows the rows that are there is written alone. Whatever else was written meanwhile, from wherever,
        comes first, and `edit` is asked again with it. For tables from which nothing is ever deleted.
        """
        self._commit(table, lambda dataset: self._revise(table, dataset, edit))

    def _commit(self, table: str, commit: Callable[[lance.LanceDataset], T]) -> T:
        """What a commit gives; one that others' commits came before starts again from the latest version."""
        start = time.monotonic()
        lost = 0
        while True:
            tried = time.monotonic()
            try:
                with self.reached(), self._writing(table):
                    return commit(self.dataset(table))
            except (OSError, RuntimeError, ValueError) as error:
                if not _is_conflict(error):
                    raise
                lost += 1
                now = time.monotonic()
                if now - start > PATIENCE_SECONDS:
                    raise StoreError(
                        f"table {table} of {self.uri}: {lost} commits in a row lost to other writers: run again"
                    ) from error
                time.sleep((now - tried) * random.uniform(0, min(2**lost, SPREAD)))  # noqa: S311  # no secret

    def drop(self, table: str, column: str, keys: Sequence[str]) -> int:
        """Delete the rows whose `column` is one of `keys`; returns how many there were."""
        dropped = 0
        for start in range(0, len(keys), LOOKUP):
            where = one_of(column, keys[start : start + LOOKUP])
            dropped += self._commit(table, partial(_delete, where=where))
        return dropped

    def _rewrite(
        self, dataset: lance.LanceDataset, first: pa.Table, edit: Callable[[pa.Table], pa.Table | None]
    ) -> None:
        import lance
        from lance.fragment import write_fragments

        if not dataset.get_fragments():
            dataset = lance.write_dataset(first, dataset, mode="append")
        rows = edit(dataset.to_table())
        if rows is None:
            return
        change = lance.LanceOperation.Update(
            removed_fragment_ids=[fragment.fragment_id for fragment in dataset.get_fragments()],
            new_fragments=write_fragments(rows, dataset),
            update_mode="rewrite_rows",
        )
        lance.LanceDataset.commit(dataset, change, read_version=dataset.version)

    def _revise(self, table: str, dataset: lance.LanceDataset, edit: Callable[[pa.Table], pa.Table]) -> None:
        import lance
        from lance.fragment import write_fragments

        before = dataset.to_table()
        after = edit(before)
        appended = after.slice(0, before.num_rows).equals(before)
        rows = after.slice(before.num_rows) if appended else after
        if appended and not rows.num_rows:
            return
        kept = [fragment.metadata for fragment in dataset.get_fragments()] if appended else []
        lance.LanceDataset.commit(
            self._path(table),
            lance.LanceOperation.Overwrite(dataset.schema, [*kept, *write_fragments(rows, dataset)]),
            read_version=dataset.version,
            max_retries=0,  # without retries this is the next version or a conflict
            storage_options=self._options or None,
        )

    def _replace(self, dataset: lance.LanceDataset, where: str, rows: pa.Table) -> bool:
        import lance
        import numpy as np
        from lance.fragment import write_fragments

        found = dataset.scanner(filter=where, columns=[], with_row_address=True).to_table()
        addresses = found["_rowaddr"].to_numpy()  # the fragment's id in the upper 32 bits
        if not len(addresses) and not rows.num_rows:
            return False
        fragments = addresses >> np.uint64(32)
        removed, updated = [], []
        for fragment_id in np.unique(fragments).tolist():
            listed = ",".join(map(str, addresses[fragments == fragment_id].tolist()))
            rest = dataset.get_fragment(int(fragment_id)).delete(  # type: ignore[union-attr]  # it was just found
                f"_rowaddr IN ({listed})"
            )
            if rest is None:
                removed.append(int(fragment_id))
            else:
                updated.append(rest)
        change = lance.LanceOperation.Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=write_fragments(rows, dataset) if rows.num_rows else [],
            update_mode="rewrite_rows",
        )
        lance.LanceDataset.commit(dataset, change, read_version=dataset.version)
        return True

    @contextmanager
    def _writing(self, what: str = "store") -> Iterator[None]:
        """One writer of a table at a time on this machine, so that none has to try again.

        The lock is the operating system's and goes with a killed process. Object storage has none: there
        conflicting commits are noticed and tried again, and leases keep two runs from adding the same artifact.
        """
        if self.remote:
            yield
            return
        lock = FileLock(Path(self.uri) / ".locks" / what)
        try:
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(poll_interval=LOCK_POLL_SECONDS)
        except OSError as error:
            raise StoreError(f"store: {self.uri} cannot be written: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    # -- upkeep ----------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Put small files together. Costs follow what changed: a table without new files is only looked at."""
        self._each_table(self._compact)

    def index(self) -> None:
        """Bring indexes up to date where enough rows are not in them."""
        self._index_keys()
        self._commit("records", lambda _: self._index_records())

    def clean(self) -> None:
        """Drop every version but the newest and the tagged; on object storage also not those of the last hour.

        Files of a commit under way are never touched.
        """
        self._each_table(self._drop_old_versions)

    def _compact(self, dataset: lance.LanceDataset) -> None:
        for rows in FRAGMENT_ROWS:
            if sum(fragment.count_rows() < rows for fragment in dataset.get_fragments()) > SMALL_FRAGMENTS:
                dataset.optimize.compact_files(target_rows_per_fragment=rows)

    def _drop_old_versions(self, dataset: lance.LanceDataset) -> None:
        if len(dataset.versions()) > 1:
            kept = REMOTE_VERSIONS_FOR if self.remote else timedelta(0)  # on one machine writers take turns
            dataset.cleanup_old_versions(older_than=kept, error_if_tagged_old_versions=False)

    def _each_table(self, do: Callable[[lance.LanceDataset], None]) -> None:
        with ThreadPoolExecutor(len(TABLES)) as pool:
            list(pool.map(lambda table: self._commit(table, do), TABLES))

    def showing(self, records: lance.LanceDataset, edges: lance.LanceDataset) -> Self:
        """The same store, in which these versions are the published ones: for a look before they are."""
        view = copy(self)
        view._shown = records, edges
        return view

    def published(self) -> lance.LanceDataset:
        """The records as readers see them. Raises StoreError when nothing was published yet."""
        if self._shown:
            return self._shown[0]
        try:
            return self.dataset("records", PUBLISHED)
        except StoreError as error:
            reason = "" if NOT_THERE in str(error) else f" ({error})"
            raise StoreError(f"nothing is published in {self.uri}{reason}: run `findingaid index`") from error

    def edges_of(self, records: lance.LanceDataset) -> lance.LanceDataset:
        """The edges that belong to a published version of the records.

        Raises StoreError where there are none: lost, or another run published meanwhile, so that asking for both
        again finds them.
        """
        try:
            return self._shown[1] if self._shown else self.dataset("edges", f"{EDGES_OF}{records.version}")
        except StoreError as error:
            raise StoreError(f"the edges of {self.uri} are lost: run `findingaid index`") from error

    def drop_unused_fields(self) -> None:
        """Drop the columns of fields that no record has any more."""
        self._commit("records", fields.drop_unused)

    def drop_indexes(self, table: str) -> None:
        """Drop every index of a table; `index` makes those that pay again."""
        with self.reached():
            dataset = self.dataset(table)
            for index in dataset.describe_indices():
                dataset.drop_index(index.name)

    def _index_keys(self) -> None:
        from lancedb.index import BTree

        of_artifacts = [(table, "artifact_id") for table in ("ledger", *schemas.PER_ARTIFACT)]
        for name, column in [*of_artifacts, ("edges", "target_id"), *((table, "key") for table in schemas.CACHES)]:
            if self.count(name) >= KEY_INDEX_ROWS:
                self._commit(name, partial(self._index, name, column, BTree()))

    def _index(self, name: str, column: str, config: Any, _: lance.LanceDataset) -> None:
        indexes.keep(self._table(name), column, config)

    def unindexed(self) -> dict[str, tuple[int, int]]:
        """Which index of the records -> (rows that are not in it, how many may be)."""
        with self.reached():
            return dict(indexes.unindexed(self._table("records")))

    def reindexed(self) -> bool:
        """Whether the full-text index is as the settings say, which may have changed where nothing else did."""
        records = self.dataset("records")
        return not records.count_rows() or lexical.made_with(records) == self.lexical

    def _index_records(self) -> None:
        indexes.of_records(self._table("records"), self.lexical)

    def _table(self, name: str) -> Any:
        import lancedb

        return lancedb.connect(self.uri, storage_options=self._options or None).open_table(name)

    # -- damage ----------------------------------------------------------------------------------------

    def inspect(self, dim: int) -> dict[str, str]:
        """The tables that cannot be used as they are, each "lost", "damaged" or "of another schema".

        Raises StoreError when the store is no folder.
        """
        if not self.remote and Path(self.uri).exists() and not Path(self.uri).is_dir():
            raise StoreError(f"store: {self.uri} is not a folder: name another, or move it away")
        wanted = _wanted(dim)
        with ThreadPoolExecutor(len(wanted)) as pool:
            states = dict(zip(wanted, pool.map(self._state, wanted, wanted.values()), strict=True))
        self._unusable = {table: state for table, state in states.items() if state}
        return self._unusable

    def problem(self, table: str) -> str | None:
        """What is wrong with a table's files, or None: it opens, and every file it names is there and whole."""
        # Looked at again, since another run's maintenance may drop a version while it is read.
        return self._invalid(table) and self._invalid(table)

    def _invalid(self, table: str) -> str | None:
        try:
            with self.reached():
                self.dataset(table).validate()  # type: ignore[no-untyped-call]  # lance leaves it untyped
        except StoreError as error:
            return str(error)
        except (OSError, ValueError, RuntimeError) as error:
            return self._said(error)
        return None

    def _state(self, table: str, schema: pa.Schema) -> str | None:
        if problem := self.problem(table):
            return "lost" if NOT_THERE in problem else "damaged"
        found = self.dataset(table).schema
        version = (found.metadata or {}).get(schemas.VERSION_KEY)
        if table == "records":  # whose fields have columns of their own behind these
            found = pa.schema(list(found)[: len(schema)], found.metadata)
        same = found.names == schema.names and found.types == schema.types
        return None if same and version == (schema.metadata or {})[schemas.VERSION_KEY] else "of another schema"

    def _make(self, table: str, schema: pa.Schema, state: str) -> None:
        import lance

        if state == "damaged":
            self._set_aside(table)
        if state == "of another schema":  # a new version of it: readers keep the published one
            with self.reached():
                options = self._options or None
                lance.write_dataset(schema.empty_table(), self._path(table), mode="overwrite", storage_options=options)
            return
        try:
            # Without retries this is the first version or an error; `write_dataset` would empty what another run,
            # which no lock of object storage keeps out, made a moment ago.
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
        """Keep a damaged table for whoever wants to look, out of the way."""
        if self.remote:
            with self.reached():
                self.objects().set_aside(f"{table}.lance", table)
            return
        path = Path(self._path(table))
        taken = len(list(path.parent.glob(f"{table}{ASIDE}*")))
        path.rename(path.with_name(f"{table}{ASIDE}{taken + 1}"))

    def objects(self) -> Objects:
        """The objects of a remote store."""
        return Objects(self.uri, self._options)

    def _path(self, table: str) -> str:
        return f"{self.uri}/{table}.lance"


def _wanted(dim: int) -> dict[str, pa.Schema]:
    return {**schemas.FIXED, "records": schemas.records(dim)}


def _delete(dataset: lance.LanceDataset, where: str) -> int:
    if found := dataset.count_rows(where):
        dataset.delete(where)
    return int(found)


def _empty(schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    return pa.schema([schema.field(c) for c in columns]).empty_table()


def _is_conflict(error: Exception) -> bool:
    from lance.commit import CommitConflictError

    return isinstance(error, CommitConflictError) or "conflict" in str(error).lower()
