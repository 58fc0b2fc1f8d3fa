"""Purge: permanent removal of deleted data from caches, old versions, indexes and disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from findingaid.identity.hashes import call_key, content_hash, text_hash
from findingaid.model import CLAIM, SUMMARY, WRITTEN
from findingaid.store import upkeep
from findingaid.store.leases import Lease
from findingaid.store.objects import ASIDE
from findingaid.store.publishing import Publisher
from findingaid.store.schemas import IRREPLACEABLE, KNOWN_TEXT, LEDGER, PER_ARTIFACT
from findingaid.store.sql import equals, one_of
from findingaid.store.store import Store, delete
from findingaid.store.tables import LOOKUP
from findingaid.store.upkeep import REMOTE_VERSIONS_FOR

if TYPE_CHECKING:
    import lance

T = TypeVar("T")

LEASES = "leases"


@dataclass(frozen=True, slots=True)
class Purged:
    """Result of a purge: rows of corpora that are not configured, their names, unused cached results, and bytes freed.

    For a folder, `bytes` is by how much it is smaller. For object storage, whose total is costly to compute, it is
    the size of the deleted table files.
    """

    rows: int
    vectors: int
    calls: int
    bytes: int
    corpora: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def remove_others(store: Store, corpora: Collection[str], lease: Lease) -> tuple[int, list[str]]:
    """Remove all rows of other corpora than these; return how many they are, and the names of those corpora.

    Raises StoreError when the lease, which must be on the whole store, is lost.
    """
    with store.storage_errors():
        return _Purge(store, lease).remove_others(corpora)


def purge(store: Store, embedder_id: str, synthesizer_ids: Collection[str], lease: Lease) -> Purged:
    """Remove everything that the artifacts of the store and these models do not use, from all versions and files.

    Only the newest version stays, which is published. The lease must be on the whole store: on object storage nothing
    else protects the files of a commit in progress, which look like leftovers of a killed one. Raises StoreError when
    the lease is lost.
    """
    with store.storage_errors():
        return _Purge(store, lease).run(embedder_id, synthesizer_ids)


@dataclass(frozen=True, slots=True)
class _Purge:
    """One purge. It commits and deletes as every writer does, and only while it holds its lease."""

    store: Store
    lease: Lease

    def remove_others(self, corpora: Collection[str]) -> tuple[int, list[str]]:
        """See the function of this name."""
        others = f"NOT ({one_of('corpus', sorted(corpora))})"
        gone = sorted(set(self.store.rows("ledger", ["corpus"], others)["corpus"].to_pylist()))
        tables = ("ledger", *PER_ARTIFACT, "summaries", "node_events", "skipped")
        return sum(self._delete(table, others) for table in tables), gone

    def run(self, embedder_id: str, synthesizer_ids: Collection[str]) -> Purged:
        store, before = self.store, _bytes(self.store)
        rows = sum(self._delete("summaries", where) for where in list(_forgotten(store)))
        self._delete("batches", f"NOT ({one_of('producer_id', ['', *synthesizer_ids])})")  # never collected
        vectors = self._drop_unused("embeddings", _vectors_in_use(store, embedder_id))
        calls = self._drop_unused("calls", _calls_in_use(store))
        self.lease.check()
        upkeep.drop_unused_fields(store)
        Publisher(store).publish()
        self._rewrite()
        self.lease.check()
        Publisher(store).publish()
        deleted = sum(self._drop_versions(table) for table in self.store.tables)
        self.lease.check()
        _drop_set_aside(store)
        return Purged(rows, vectors, calls, deleted if store.remote else max(before - _bytes(store), 0))

    def _rewrite(self) -> None:
        """Rewrite each table into files that contain only live rows, and rebuild the indexes."""
        self.lease.check()
        upkeep.drop_indexes(self.store, "records")
        for table in self.store.tables:
            self._change(table, _compact)
        self.lease.check()
        upkeep.update_indexes(self.store)

    def _drop_versions(self, table: str) -> int:
        """Drop leftover files and all versions but the tagged and the newest; return the bytes deleted.

        Waiting processes, too, write to the leases table, which needs the versions of the last hour. A leftover may be
        a file that is about to be committed. There, and in irreplaceable tables, leftovers therefore stay for the week
        for which Lance keeps them.
        """
        waits = table == LEASES
        done = self._change(
            table,
            lambda dataset: dataset.cleanup_old_versions(
                older_than=REMOTE_VERSIONS_FOR if waits else timedelta(0),
                delete_unverified=not waits and table not in IRREPLACEABLE,
                error_if_tagged_old_versions=False,
            ),
        )
        return int(done.bytes_removed)

    def _delete(self, table: str, where: str) -> int:
        return self._change(table, lambda dataset: delete(dataset, where))

    def _drop_unused(self, table: str, in_use: set[str]) -> int:
        unused = sorted(set(self.store.rows(table, ["key"])["key"].to_pylist()) - in_use)
        self.lease.check()
        return self.store.drop(table, "key", unused)

    def _change(self, table: str, change: Callable[[lance.LanceDataset], T]) -> T:
        def checked(dataset: lance.LanceDataset) -> T:
            self.lease.check()
            return change(dataset)

        # A check may write to the leases table, and to no other.
        return self.store.change(table, change if table == LEASES else checked)


def _compact(dataset: lance.LanceDataset) -> None:
    dataset.optimize.compact_files(materialize_deletions=True, materialize_deletions_threshold=0.0)


def _drop_set_aside(store: Store) -> None:
    if store.remote:
        store.objects().drop_set_aside()
        return
    for folder in Path(store.uri).glob(f"*{ASIDE}*"):
        shutil.rmtree(folder)


def _forgotten(store: Store) -> Iterator[str]:
    """Yield filters for earlier summaries whose artifact is gone, or whose turns were changed or removed."""
    now = {_of(row): _covered(row["state"]) for row in _rows(store, "synopses", "state")}
    earlier = _rows(store, "summaries", "segments", "covers")
    gone = {_of(row) for row in earlier} - now.keys()
    for corpus in sorted({corpus for corpus, _ in gone}):
        ids = sorted(i for c, i in gone if c == corpus)
        for start in range(0, len(ids), LOOKUP):
            yield f"{equals('corpus', corpus)} AND {one_of('artifact_id', ids[start : start + LOOKUP])}"
    changed: dict[tuple[str, str], set[str]] = {}
    for row in earlier:
        if _of(row) in now and content_hash(now[_of(row)][: row["segments"]]) != row["covers"]:
            changed.setdefault(_of(row), set()).add(row["covers"])
    for (corpus, artifact_id), covers in sorted(changed.items()):
        of = f"{equals('corpus', corpus)} AND {equals('artifact_id', artifact_id)}"
        yield f"{of} AND {one_of('covers', sorted(covers))}"


def _covered(state: str) -> list[Any]:
    """Return the turns that an anchored summary covers; empty for the state of any other synthesizer."""
    try:
        covered = orjson.loads(state)["covered"]
    except (ValueError, KeyError, TypeError):
        return []
    return covered if isinstance(covered, list) else []


def _rows(store: Store, table: str, *columns: str) -> list[dict[str, Any]]:
    rows = store.rows(table, ["corpus", "artifact_id", *columns], f"{columns[0]} IS NOT NULL")
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["corpus"], row["artifact_id"]


def _chunk_contexts_in_use(store: Store) -> set[str]:
    """Return the keys of the contexts of chunks whose text, or the first words of it, begins the text of a record."""
    records = store.rows("records", ["text"], "shown IS NOT NULL")["text"].to_pylist()
    contexts = {text.partition("\n\n")[0] for text in records}
    calls = store.rows("calls", ["key", "text"], "producer_id LIKE '%-chunk'").to_pylist()
    return {call["key"] for call in calls if not call["text"] or not contexts.isdisjoint(_beginnings(call["text"]))}


def _beginnings(text: str) -> Iterator[str]:
    """Yield the first word of a text, the first two words, and so on. A long context is shortened to one of them."""
    return accumulate(text.split(), "{} {}".format)


def _calls_in_use(store: Store) -> set[str]:
    in_use = set(store.rows("synopses", ["key"])["key"].to_pylist())
    in_use |= _chunk_contexts_in_use(store)
    columns = [f"{stage}_key" for stage in WRITTEN if f"{stage}_key" in LEDGER.names]
    return in_use.union(*(store.rows("ledger", [column])[column].to_pylist() for column in columns))


def _vectors_in_use(store: Store, embedder_id: str) -> set[str]:
    hashes = set(store.rows("surfaces", ["text_hash"])["text_hash"].to_pylist())
    hashes |= {text_hash(text) for text in store.rows("synopses", ["text"])["text"].to_pylist() if text}
    composed = f"shown IS NOT NULL OR {one_of('granularity', (CLAIM, SUMMARY))}"
    hashes |= {text_hash(text) for text in store.rows("records", ["text"], composed)["text"].to_pylist()}
    return {call_key(embedder_id, h) for h in {*hashes, text_hash(KNOWN_TEXT)}}


def _bytes(store: Store) -> int:
    if store.remote:
        return 0
    total = 0
    for path in Path(store.uri).rglob("*"):
        with suppress(FileNotFoundError):  # leases and locks, which waiting processes write
            total += path.stat().st_size if path.is_file() else 0
    return total
