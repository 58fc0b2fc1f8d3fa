"""Repair of a store: tables that are lost or damaged are found, and made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from findingaid._version import __version__
from findingaid.errors import ConfigError, StoreError
from findingaid.model import MAX_DIM
from findingaid.store import schemas
from findingaid.store.objects import ASIDE
from findingaid.store.store import Store
from findingaid.store.tables import NOT_THERE
from findingaid.store.tags import drop_damaged_tags, read_tags

if TYPE_CHECKING:
    import lance

OLDER = "an older copy than the ledger names"
"""State of a table of which the ledger names a later version, as after one table was restored from a backup."""

LOOKS = 20
"""How many checks may each find different damage, as while other processes rewrite a table, before it is reported."""


def prepare(
    store: Store, dim: int, *, allow_loss: bool = False, before_making: Callable[[], object] = lambda: None
) -> list[str]:
    """Create every table that cannot be used, and return one message for each, none in a new store.

    The same run notices the missing rows by the ledger's counts and writes them again. Raises StoreError for an
    irreplaceable table that cannot be used, except in a new store; with `allow_loss` a lost one is created empty.
    `before_making` is called once leases can be taken and before any other table is touched; it may raise.
    """
    wanted = store.schemas(dim)
    with store.lock():
        mended = [table for table in ("records", *schemas.OF_RECORDS) if _mend_tags(store, table)]
        states = inspect(store, dim)
        lost = {table for table, state in states.items() if state == "lost"}
        fresh = lost == set(store.tables)
        unused = lost >= set(store.tables) - set(schemas.CACHES)  # caches may be copied from another store
        # Irreplaceable tables are made first, so that they existed before if any other table exists.
        first = [table for table in (*schemas.IRREPLACEABLE, "leases") if table in states]
        for table in first:
            if table in schemas.IRREPLACEABLE and not unused:
                _require_kept(store, table, wanted[table], allow_loss)
            _make(store, table, wanted[table], states[table])
        if states:
            before_making()
        for table in (table for table in states if table not in first):
            _make(store, table, wanted[table], states[table])
        if "ledger" not in states:
            _forget_versions(store, [table for table in schemas.PER_ARTIFACT if table in states])
        if store.written_by() != __version__:  # a table that was made now has it
            store.change("ledger", lambda ledger: ledger.update_schema_metadata({schemas.WRITER_KEY: __version__}))
    repaired = (
        [] if fresh else [f"table {table} was {state} and was rebuilt" for table, state in store.unusable.items()]
    )
    store.unusable.clear()
    return [*(f"a damaged tag of table {table} was removed" for table in mended), *repaired]


def _mend_tags(store: Store, table: str) -> bool:
    """Remove the damaged tags of a table, and return whether there were any: a power cut leaves files of zeros."""
    try:
        dataset = store.dataset(table)
    except StoreError:
        return False
    try:
        with store.storage_errors():
            read_tags(dataset)
    except StoreError:
        names = [name.removesuffix(".json") for name in store.objects().names(f"{table}.lance/_refs/tags")]
        store.change(table, partial(drop_damaged_tags, names=names))
        return True
    return False


def _require_kept(store: Store, table: str, schema: pa.Schema, allow_loss: bool) -> None:
    state = _state(store, table, schema)  # checked again: another run may be creating all tables
    if state is None or (state == "lost" and allow_loss):
        return
    otherwise = "or start without it by `findingaid index --allow-loss`" if state == "lost" else "or move it away"
    raise StoreError(
        f"table {table} of {store.uri} is {state}, and its content cannot be rebuilt: restore it from a"
        f" backup, {otherwise}"
    )


def inspect(store: Store, dim: int) -> dict[str, str]:
    """Return the tables that cannot be used, each with its state: "lost", "damaged", "of another schema" or OLDER.

    Raises UnreachableError when the store is not a folder, and ConfigError when `dim` is out of range.
    """
    store.require_folder()
    if not 0 < dim <= MAX_DIM:
        raise ConfigError(f"embedder: its vectors have {dim:,} dimensions, an index takes 1 to {MAX_DIM:,}")
    wanted = store.schemas(dim)
    store.start_cache()
    known = _known_versions(store)  # before the tables are looked at, since other runs may write to them
    states = store.each(wanted, lambda table: _state(store, table, wanted[table], known.get(table, 0)))
    found = {table: state for table, state in states.items() if state}
    store.unusable |= found  # in place, since views share it
    for table in store.unusable.keys() - found:
        del store.unusable[table]
    return found


def problem(store: Store, table: str) -> str | None:
    """Return the problem with a table's files; None if it opens and every file it refers to is there and whole."""
    return _look(store, table)[0]


def _look(store: Store, table: str) -> tuple[str | None, lance.LanceDataset | None]:
    """Return the problem with a table's files, see `problem`, and the table if it opens."""
    # Maintenance may drop a version while it is read. The next check then reads another version, and finds another
    # problem or none. Real damage gives the same problem again.
    before, (found, dataset) = None, _look_once(store, table)
    looks = 1
    while found != before and looks < LOOKS:
        before, (found, dataset) = found, _look_once(store, table)
        looks += 1
    return found, dataset


def _look_once(store: Store, table: str) -> tuple[str | None, lance.LanceDataset | None]:
    dataset = None
    try:
        with store.storage_errors():
            dataset = store.dataset(table)
            dataset.validate()  # type: ignore[no-untyped-call]  # lance leaves it untyped
    except StoreError as error:
        return str(error), dataset
    except (OSError, ValueError, RuntimeError) as error:
        return store.said(error), dataset
    return None, dataset


def _state(store: Store, table: str, schema: pa.Schema, least: int = 0) -> str | None:
    """Return the state of a table that cannot be used, see `inspect`; `least` is the version the ledger names."""
    problem, dataset = _look(store, table)
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


def _known_versions(store: Store) -> dict[str, int]:
    """Map each table of PER_ARTIFACT to the newest version that the ledger names; {} without a usable ledger."""
    newest = dict.fromkeys(schemas.PER_ARTIFACT, 0)

    def look() -> None:
        for batch in store.dataset("ledger").scanner(columns=[f"v_{table}" for table in newest]).to_batches():
            for table in newest:
                newest[table] = max(newest[table], pc.max(batch[f"v_{table}"]).as_py() or 0)

    with suppress(StoreError, OSError, RuntimeError, ValueError):
        store.retried(look)
    return newest


def _forget_versions(store: Store, tables: Sequence[str]) -> None:
    """Forget which versions of these tables the ledger names: they are made anew, and their versions begin anew."""

    def forget(ledger: lance.LanceDataset) -> None:
        if ledger.count_rows():
            ledger.update({f"v_{table}": "0" for table in tables})

    if tables:
        store.change("ledger", forget)


def _make(store: Store, table: str, schema: pa.Schema, state: str) -> None:
    import lance

    if state == "damaged":
        _set_aside(store, table)
    if state in {"of another schema", OLDER}:  # a new version: readers keep the published one
        with store.storage_errors():
            options = store.options or None
            lance.write_dataset(schema.empty_table(), store.path(table), mode="overwrite", storage_options=options)
        return
    try:
        # Without retries this commits the first version or fails. `write_dataset` would empty a table that another
        # run made a moment ago, since object storage has no lock that keeps other runs out.
        with store.storage_errors():
            lance.LanceDataset.commit(
                store.path(table),
                lance.LanceOperation.Overwrite(schema, []),
                read_version=0,
                max_retries=0,
                storage_options=store.options or None,
            )
    except OSError:
        if _state(store, table, schema):
            raise


def _set_aside(store: Store, table: str) -> None:
    """Rename a damaged table, so that it can still be inspected."""
    if store.remote:
        with store.storage_errors():
            store.objects().set_aside(f"{table}.lance", table)
        return
    path = Path(store.path(table))
    with store.storage_errors():
        taken = len(list(path.parent.glob(f"{table}{ASIDE}*")))
        path.rename(path.with_name(f"{table}{ASIDE}{taken + 1}"))
