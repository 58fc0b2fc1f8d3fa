"""Making what was removed really gone: from the caches, from old versions, from indexes, from disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from findingaid.identity import call_key, content_hash, text_hash
from findingaid.model import CLAIM, OF_CLAIMS, SUMMARY
from findingaid.store.objects import ASIDE
from findingaid.store.publishing import Publisher
from findingaid.store.schemas import PER_ARTIFACT
from findingaid.store.sql import equals, one_of
from findingaid.store.store import LOOKUP, TABLES, Store


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge took away: rows of corpora that are not configured, cached results that nothing uses, bytes.

    A folder is smaller by so many bytes; of object storage, which has no cheap sum, it is the size of the table
    files that were deleted.
    """

    rows: int
    vectors: int
    calls: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def purge(store: Store, corpora: Collection[str], embedder_id: str, synthesizer_ids: Collection[str]) -> Purged:
    """Take away everything that the given corpora and models do not use, in every version and file.

    Only the version that readers have stays. To be run while nothing else writes: files of a commit under way
    are taken for leftovers of a killed one.
    """
    with store.reached():
        return _purge(store, corpora, embedder_id, synthesizer_ids)


def _purge(store: Store, corpora: Collection[str], embedder_id: str, synthesizer_ids: Collection[str]) -> Purged:
    before = _bytes(store)
    strangers = f"NOT ({one_of('corpus', sorted(corpora))})"
    rows = sum(_delete(store, table, strangers) for table in ("ledger", *PER_ARTIFACT, "summaries", "node_events"))
    rows += sum(_delete(store, "summaries", where) for where in list(_forgotten(store)))
    _delete(store, "batches", f"NOT ({one_of('producer_id', ['', *synthesizer_ids])})")  # nobody takes those in
    vectors = _drop_unused(store, "embeddings", _vectors_in_use(store, embedder_id))
    calls = _drop_unused(store, "calls", _calls_in_use(store))
    store.drop_unused_fields()
    Publisher(store).publish()
    store.drop_indexes("records")
    for table in TABLES:
        store.dataset(table).optimize.compact_files(materialize_deletions=True, materialize_deletions_threshold=0.0)
    store.index()
    Publisher(store).publish()
    deleted = sum(_drop_versions(store, table) for table in TABLES)
    _drop_set_aside(store)
    return Purged(rows, vectors, calls, deleted if store.remote else before - _bytes(store))


def _drop_versions(store: Store, table: str) -> int:
    """Drop all but the tagged and the newest version and every leftover of a table; the bytes of what was deleted."""
    done = store.dataset(table).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    return done.bytes_removed


def _drop_set_aside(store: Store) -> None:
    if store.remote:
        store.objects().drop_set_aside()
        return
    for folder in Path(store.uri).glob(f"*{ASIDE}*"):
        shutil.rmtree(folder)


def _forgotten(store: Store) -> Iterator[str]:
    """Filters for earlier summaries that tell of what is no more: of artifacts that are gone, of turns that are."""
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
    """What an anchored summary covers; nothing of the state of a synthesizer of one's own."""
    try:
        covered: list[Any] = json.loads(state)["covered"]
    except (ValueError, KeyError, TypeError):
        return []
    return covered


def _rows(store: Store, table: str, *columns: str) -> list[dict[str, Any]]:
    rows = store.rows(table, ["corpus", "artifact_id", *columns], f"{columns[0]} IS NOT NULL")
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["corpus"], row["artifact_id"]


def _calls_in_use(store: Store) -> set[str]:
    in_use = set(store.rows("synopses", ["key"])["key"].to_pylist())
    columns = [f"{stage}_key" for stage in OF_CLAIMS]
    return in_use.union(*(store.rows("ledger", [column])[column].to_pylist() for column in columns))


def _vectors_in_use(store: Store, embedder_id: str) -> set[str]:
    hashes = set(store.rows("surfaces", ["text_hash"])["text_hash"].to_pylist())
    hashes |= {text_hash(text) for text in store.rows("synopses", ["text"])["text"].to_pylist() if text}
    composed = f"text_start > 0 OR {one_of('granularity', (CLAIM, SUMMARY))}"
    hashes |= {text_hash(text) for text in store.rows("records", ["text"], composed)["text"].to_pylist()}
    return {call_key(embedder_id, h) for h in hashes}


def _drop_unused(store: Store, table: str, in_use: set[str]) -> int:
    return store.drop(table, "key", sorted(set(store.rows(table, ["key"])["key"].to_pylist()) - in_use))


def _delete(store: Store, table: str, where: str) -> int:
    found = store.count(table, where)
    if found:
        store.dataset(table).delete(where)
    return found


def _bytes(store: Store) -> int:
    if store.remote:
        return 0
    return sum(path.stat().st_size for path in Path(store.uri).rglob("*") if path.is_file())
