"""Tables of a store, for reading: opened on demand in a folder or a bucket, in the newest or the published version.

Reads and writes go through pylance, whose `Update` replaces rows in one version. Table handles are never kept, so that
every read starts from the latest version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.access import Caller
from findingaid.errors import StoreError, UnreachableError
from findingaid.identity.hashes import content_hash
from findingaid.store import schemas
from findingaid.store.allocator import limit_arenas
from findingaid.store.locks import locked
from findingaid.store.objects import OF_LANCE, Objects, first_line, refusal, trouble, without_secrets
from findingaid.store.permitted import BY_ARTIFACT, KEY, READERS, WHOLE, Permitted, Readable, Readers, among
from findingaid.store.sql import of_artifacts, one_of
from findingaid.store.tags import BELONGS_TO, PUBLISHED, read_tags
from findingaid.text.analyzer import Lexical

if TYPE_CHECKING:
    import lance

T = TypeVar("T")
K = TypeVar("K")

TABLES = (*schemas.FIXED, "records")

LOCKS = ".locks"
"""Folder of the locks in a store that is a folder."""

DEFAULTS = Lexical()

NOT_THERE = "was not found"
"""Lance's wording for a path that does not exist; every other error means damage."""

NO_TAG = f"tag {PUBLISHED} does not exist"

MANIFEST = ".manifest"
"""In Lance's error when another process dropped the newest version, for a newer one, while it was being opened."""

READS = 4
"""Tries of a read, which fails when the maintenance of another process drops the version."""

LOOKUP = 5_000
"""Most keys that a filter lists; the planner's time grows with the expression."""

KEPT_READERS = 64
"""Versions of tables whose different readers are kept."""

CACHE_BYTES = 128 * 2**20
"""Most memory for each of the two caches of a caching view: of metadata and of indexes."""


class Tables:
    """All tables of one index below one URI: a folder, or object storage with Lance's `storage_options`.

    `lexical` configures the full-text index. `unusable` are the tables that cannot be used, with their state; they read
    as empty, until `findingaid.store.repair.prepare` makes them anew.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, lexical: Lexical = DEFAULTS) -> None:
        self.uri = uri.rstrip("/")
        self.lexical = lexical
        self.remote = "://" in uri
        self.options = dict(storage_options or {})
        self.unusable: dict[str, str] = {}
        self._shown: Mapping[str, lance.LanceDataset] = {}
        self._caching = False
        self._session: Any = None
        self.caller: Caller | None = None
        self._without: str | None = None
        self._said_readers: dict[str, Readers] = {}
        limit_arenas()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of this store. Leases are in a table on object storage only."""
        return tuple(table for table in TABLES if self.remote or table != "leases")

    def schemas(self, dim: int) -> dict[str, pa.Schema]:
        """Return the schema of each table, for vectors of `dim` numbers."""
        return {table: schemas.FIXED.get(table) or schemas.records(dim) for table in self.tables}

    def start_cache(self) -> None:
        """Start with an empty cache in a caching view."""
        self._session = _session() if self._caching and not self.remote else None

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

    def for_caller(self, caller: Caller | None, without: Collection[tuple[str, str]] = ()) -> Self:
        """Return a read-only view in which every table has only the rows that a caller may read.

        A table with a column of readers has the rows whose readers include the caller, `BY_ARTIFACT` those of readable
        artifacts, and `WHOLE` all; other tables are empty. Without a caller, the view has everything and can be written
        to. The artifacts `without`, by (corpus, artifact id), are left out.
        """
        view = copy(self)
        view.caller, view._without = caller, of_artifacts(without) if without else None
        return view

    def dataset(self, table: str, version: str | int | None = None) -> lance.LanceDataset:
        """Return a table as it is now, or at a version or tag. Raises StoreError when it cannot be opened.

        For a caller it is a `Permitted`, which has the methods that readers use.
        """
        return self.permitted(table, self._opened(table, version))

    def permitted(self, table: str, dataset: lance.LanceDataset) -> lance.LanceDataset:
        """Return a table that was opened without a caller as the caller of this view sees it."""
        if self.caller is None:
            return dataset
        return cast("lance.LanceDataset", self._permitted(self.caller, table, dataset))

    def _permitted(self, caller: Caller, table: str, dataset: lance.LanceDataset) -> Permitted:
        made = identity(dataset)
        if table in WHOLE:
            return Permitted(dataset, made)
        if table in BY_ARTIFACT:
            return Permitted(dataset, made, keep=self._of_readable)
        if READERS not in dataset.schema.names:
            return Permitted(dataset, made, Readable())
        version = f"{table} {dataset.version}"
        known = self._said_readers.get(version)
        if known is None or known.identity != made:
            if len(self._said_readers) >= KEPT_READERS:
                self._said_readers.clear()
            known = self._said_readers[version] = Readers(dataset, made)
        return Permitted(dataset, made, known.readable(caller), without=self._without)

    def _of_readable(self, rows: pa.Table) -> pa.Table:
        ids = pc.unique(rows["artifact_id"]).to_pylist()
        return among(rows, self.lookup("artifacts", "artifact_id", ids, KEY))

    def _opened(self, table: str, version: str | int | None) -> lance.LanceDataset:
        import lance

        self.require_folder()
        for tries_left in reversed(range(READS)):
            try:
                with self.storage_errors():
                    found = lance.dataset(
                        self.path(table), version=version, storage_options=self.options or None, session=self._session
                    )
            except (ValueError, OSError, RuntimeError) as error:
                dropped = isinstance(error, ValueError) and MANIFEST in str(error) and not isinstance(version, int)
                if not (dropped and tries_left):
                    raise StoreError(f"table {table} of {self.uri} cannot be opened: {self.said(error)}") from None
            else:
                if not found.version:  # Lance reads a manifest of zeros, as power cuts leave them, as an empty one
                    raise StoreError(f"table {table} of {self.uri} cannot be opened: its manifest is empty")
                return found
        raise AssertionError

    def rows(self, table: str, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Return rows of a table, in no particular order."""
        if table in self.unusable:
            return _empty(schemas.FIXED.get(table) or schemas.records(1), columns)
        return self._read(table, lambda dataset: dataset.to_table(columns=list(columns), filter=where))

    def lookup(
        self, table: str, column: str, keys: Iterable[str], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """Return the rows that match `where` and have one of `keys` in `column`."""
        if table in self.unusable:
            return self.rows(table, columns)
        wanted = list(keys)
        return self._read(table, lambda dataset: select_rows(dataset, column, wanted, columns, where))

    def count(self, table: str, where: str | None = None) -> int:
        return 0 if table in self.unusable else int(self._read(table, lambda dataset: dataset.count_rows(where)))

    def _read(self, table: str, read: Callable[[lance.LanceDataset], T]) -> T:
        return self.retried(lambda: read(self.dataset(table)))

    def retried(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, retrying it when another run may have dropped the version that it was reading.

        Raises StoreError when the table is damaged.
        """
        for _ in range(READS - 1):
            with suppress(OSError, ValueError, StoreError), self.damage_errors(), self.storage_errors():
                return read()
        with self.damage_errors(), self.storage_errors():
            return read()

    def written_by(self) -> str | None:
        """Return the version of findingaid that last ran here; None if it was older than 0.2 or is not known."""
        try:
            found = (self.dataset("ledger").schema.metadata or {}).get(schemas.WRITER_KEY.encode())
        except StoreError:
            return None
        return found and str(found, "utf-8")

    def exists(self) -> bool:
        """Check whether anything was ever written here."""
        try:
            self.dataset("ledger")
        except StoreError:
            return False
        return True

    @contextmanager
    def require_index(self) -> Iterator[None]:
        """Raise StoreError for a store without any index in it, in place of errors that name a missing table."""
        try:
            yield
        except StoreError as error:
            if NOT_THERE in str(error) and not self.exists():
                raise StoreError(f"nothing is indexed in {self.uri} yet: run `findingaid index`") from None
            raise

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """Convert errors of the storage itself to a one-line UnreachableError.

        Such an error must never be taken for damage. Errors of object storage may contain addresses and keys, which
        are removed.
        """
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if reason := trouble(error, self.options) if self.remote else refusal(error, self.uri):
                raise UnreachableError(f"store {self.uri}: {reason}") from None
            raise

    @contextmanager
    def damage_errors(self) -> Iterator[None]:
        """Convert the remaining errors of Lance to a one-line StoreError: a file is damaged or missing."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            if not OF_LANCE.search(str(error)):
                raise
            raise StoreError(f"store {self.uri} is damaged: {self.said(error)}: run `findingaid verify`") from None

    def said(self, error: BaseException) -> str:
        """Return the first line of an error of Lance, without secrets."""
        said = first_line(error, self.uri)
        return without_secrets(said, self.options) if self.remote else said

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

    @contextmanager
    def lock(self, what: str = "store") -> Iterator[None]:
        """Lock a table or another name against other writers on this machine, so that none has to retry.

        The lock is released when its process ends, see `findingaid.store.locks`. Object storage has no lock: there
        conflicting commits are detected and retried, and leases keep two runs from adding the same artifact.
        """
        if self.remote:
            yield
            return
        self.require_folder()
        with ExitStack() as held:
            try:
                with self.storage_errors():
                    held.enter_context(locked(Path(self.uri) / LOCKS / what, f"{what} of {self.uri}"))
            except (OSError, NotImplementedError) as error:
                raise StoreError(f"store: {self.uri} cannot be written: {getattr(error, 'strerror', error)}") from error
            yield

    def objects(self) -> Objects:
        """Return the objects of the store."""
        return Objects(self.uri, self.options)

    def require_folder(self) -> None:
        """Raise UnreachableError for a file in the place of the store: Lance would try to open it for half a minute."""
        if not self.remote and Path(self.uri).is_file():
            raise UnreachableError(f"store: {self.uri} is not a folder: name another, or move it away")

    def path(self, table: str) -> str:
        """Return the URI of a table."""
        return f"{self.uri}/{table}.lance"


def identity(dataset: lance.LanceDataset) -> str:
    """Return an id of a version of a table: its number alone comes again when the table is restored or made anew."""
    if isinstance(dataset, Permitted):
        return str(dataset.identity)
    parts = (fragment.metadata for fragment in dataset.get_fragments())
    return content_hash(dataset.version, [([file.path for file in p.files], str(p.deletion_file)) for p in parts])


def select_rows(
    dataset: lance.LanceDataset, column: str, keys: Sequence[str], columns: Sequence[str], where: str | None = None
) -> pa.Table:
    """Return the rows of one version that match `where` and have one of `keys` in `column`."""
    parts = [one_of(column, keys[i : i + LOOKUP]) for i in range(0, len(keys), LOOKUP)]
    if where:
        parts = [f"{part} AND {where}" for part in parts]
    found = [dataset.to_table(columns=list(columns), filter=part) for part in parts] if dataset.count_rows() else []
    return pa.concat_tables(found) if found else _empty(dataset.schema, columns)


def _session() -> Any:
    from lance import Session  # type: ignore[attr-defined]  # lance imports it without listing it

    return Session(metadata_cache_size_bytes=CACHE_BYTES, index_cache_size_bytes=CACHE_BYTES)


def _empty(schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    return pa.schema([schema.field(c) for c in columns]).empty_table()
