"""Checks of `findingaid verify`: read all tables and compare them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import StoreError
from findingaid.identity.hashes import artifact_version, embeddings_version, record_id, text_hash
from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.store import repair
from findingaid.store.ledger import OUTCOMES
from findingaid.store.lexical import COLUMN
from findingaid.store.publishing import Publisher
from findingaid.store.schemas import IRREPLACEABLE, PER_ARTIFACT, WITH_READERS
from findingaid.store.sql import equals
from findingaid.store.store import Store
from findingaid.store.vectors import STREAM

if TYPE_CHECKING:
    import lance

UNIT_TOLERANCE = 5e-3
"""Tolerated deviation of a float16 vector from length 1."""

UNSOUND = "records whose vector is not finite and of length 1"

NEVER_PENDING = tuple(stage.value for stage in Stage if stage not in WRITTEN)
UNFINISHED_BY = ("recipe", "failed_stage", *OUTCOMES.values(), *NEVER_PENDING)

INDEX = "run `findingaid index`"
REBUILD = "run `findingaid index --force`"
"""Remedies. Without --force a run leaves an artifact as it is if the ledger says that it is up to date."""

NAMED = 3
"""Most ids that a problem names; the rest are counted."""


def verify(store: Store, dim: int) -> list[str]:
    """Return the problems of the tables themselves or, if there are none, the inconsistencies between them."""
    states = repair.inspect(store, dim)
    if states == dict.fromkeys(store.tables, "lost"):
        return [f"nothing is indexed in {store.uri} yet: run `findingaid index`"]
    broken = [f"table {table} is {state}{_why(store, table, state)}: {_cure(table)}" for table, state in states.items()]
    if broken:
        return broken
    found: list[str] = []
    others: list[str] = []
    damaged = [*_unreadable(store)]
    to_rebuild = (f"{problem}: {REBUILD}" for problem in chain(_records(store, dim), _altered(store), _readers(store)))
    for problems in (_ledger(store), to_rebuild, _published(store), _searched(store)):
        try:
            found += problems
        except StoreError as error:  # in a table's rows, or in a file outside of its own
            others.append(str(error))
    return found + (damaged or [*dict.fromkeys(others)])


def _cure(table: str, before: str = "") -> str:
    return "restore it from a backup" if table in IRREPLACEABLE else f"{before}run `findingaid index`"


def _unreadable(store: Store) -> Iterator[str]:
    """Yield each table with rows that cannot be decoded. Its files are whole, so that no run notices it by itself."""
    for table in store.tables:
        try:
            with store.storage_errors():
                for _ in store.dataset(table).scanner(**STREAM).to_batches():
                    pass
        except (OSError, RuntimeError, ValueError) as error:
            cure = _cure(table, f"delete the folder {table}.lance of the store, and ")
            yield f"table {table} is damaged ({store.said(error)}): {cure}"


def _why(store: Store, table: str, state: str) -> str:
    return f" ({repair.problem(store, table)})" if state == "damaged" else ""


def _ledger(store: Store) -> Iterator[str]:
    columns = ("corpus", "artifact_id", *UNFINISHED_BY, *(f"n_{t}" for t in PER_ARTIFACT))
    ledger = store.rows("ledger", columns)
    keys = list(zip(ledger["corpus"].to_pylist(), ledger["artifact_id"].to_pylist(), strict=True))
    yield from _cured("ledger rows for the same artifact", [k for k, n in Counter(keys).items() if n > 1], REBUILD)
    rows = ledger.select(list(UNFINISHED_BY)).to_pylist()
    unfinished = [k for k, row in zip(keys, rows, strict=True) if _unfinished(row)]
    yield from _cured("artifacts not finished by the last run", unfinished, INDEX)
    for table in PER_ARTIFACT:
        counted = dict(zip(keys, ledger[f"n_{table}"].to_pylist(), strict=True))
        rows = store.rows(table, ["corpus", "artifact_id"])
        there = Counter(zip(rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), strict=True))
        differing = [k for k in counted.keys() | there.keys() if counted.get(k, 0) != there.get(k, 0)]
        yield from _cured(
            f"artifacts whose rows in table {table} are not as many as the ledger states", differing, INDEX
        )


def _readers(store: Store) -> Iterator[str]:
    """Compare with the ledger who may read the rows of artifacts that are up to date."""
    known = dict(_readers_in(store, "ledger", "recipe <> ''"))
    for table in WITH_READERS:
        others = {key for key, said in _readers_in(store, table) if said != known.get(key, said)}
        yield from named(f"artifacts whose rows in table {table} have other readers than the ledger states", others)


def _readers_in(store: Store, table: str, where: str | None = None) -> Iterator[tuple[tuple[str, str], str]]:
    rows = store.rows(table, ["corpus", "artifact_id", "readers"], where)
    corpora, ids, readers = (column.to_pylist() for column in rows.columns)
    return zip(zip(corpora, ids, strict=True), readers, strict=True)


def _unfinished(row: Mapping[str, str | None]) -> bool:
    """Check whether the last run ended while it wrote an artifact; waiting for a pending stage does not count."""
    pending = any(row[column] == Outcome.PENDING for column in OUTCOMES.values())
    waits = pending and None not in {row[stage] for stage in NEVER_PENDING}
    return not (row["recipe"] or row["failed_stage"] or waits)


def _records(store: Store, dim: int) -> Iterator[str]:
    rows = store.rows("records", ["record_id", "corpus", "artifact_id", "artifact_version", "embedder_id"])
    yield from duplicate_ids(rows)
    embedders = sorted(set(rows["embedder_id"].to_pylist()))
    if len(embedders) > 1:
        yield f"records of several embedders are mixed: {', '.join(embedders)}"
    yield from named(UNSOUND, store.retried(lambda: _unsound_records(store, dim)))
    # After a run of a single stage the records are rightly behind it.
    done = store.rows("ledger", ["corpus", "artifact_id", Stage.ARTIFACTS.value], "recipe <> ''").to_pylist()
    wanted = {(row["corpus"], row["artifact_id"]): row["artifacts"] for row in done}
    keys = zip(
        rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), rows["artifact_version"].to_pylist(), strict=True
    )
    yield from named(
        "artifacts published from another version than the ledger states",
        {k[:2] for k in keys if wanted.get(k[:2], k[2]) != k[2]},
    )


def _altered(store: Store) -> Iterator[str]:
    """Yield the problems of payloads, surfaces and records that no longer match the hash they were written with."""
    yield from named("artifacts whose payload or metadata was altered", _altered_artifacts(store))
    yield from named(
        "surfaces whose text was altered",
        [
            (row["corpus"], row["artifact_id"], row["position"])
            for row in _streamed(store, "surfaces", "corpus", "artifact_id", "position", "text", "text_hash")
            if text_hash(row["text"]) != row["text_hash"]
        ],
    )
    yield from named(
        "records whose id does not match their position",
        [
            row["record_id"]
            for row in _streamed(
                store, "records", "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "claim_id"
            )
            if record_id(
                row["corpus"], row["artifact_id"], row["surface_kind"], row["claim_id"] or row["surface_index"]
            )
            != row["record_id"]
        ],
    )
    yield from _altered_texts(store)
    yield from named("artifacts with an altered text in what hits show", _altered_shown(store))


def _altered_artifacts(store: Store) -> Iterator[tuple[str, str]]:
    for row in _streamed(store, "artifacts", "corpus", "artifact_id", "version", "payload", "is_text", "metadata"):
        try:
            raw = row["payload"] if row["is_text"] else orjson.loads(row["payload"])
            same = artifact_version(raw, orjson.loads(row["metadata"])) == row["version"]
        except ValueError:  # no longer valid JSON
            same = False
        if not same:
            yield row["corpus"], row["artifact_id"]


def _altered_texts(store: Store) -> Iterator[str]:
    """Compare the texts of records and synopses with the ledger, which has a hash over all embedded texts."""
    there: dict[tuple[str, str], set[str]] = defaultdict(set)
    made_by: dict[tuple[str, str], str] = {}
    for row in _streamed(store, "records", "corpus", "artifact_id", "text", "embedder_id"):
        key = row["corpus"], row["artifact_id"]
        there[key].add(text_hash(row["text"]))
        made_by[key] = row["embedder_id"]
    columns = ["corpus", "artifact_id", Stage.EMBEDDINGS.value]
    done = store.rows("ledger", columns, "recipe <> '' AND n_records > 0").to_pylist()
    wanted = {(row["corpus"], row["artifact_id"]): row[Stage.EMBEDDINGS.value] for row in done}
    altered = {key for key in wanted.keys() & there if embeddings_version(there[key], made_by[key]) != wanted[key]}
    yield from named("artifacts with an altered text in their records", altered)
    yield from named(
        "artifacts whose synopsis is not the one in their records",
        [
            key
            for row in _streamed(store, "synopses", "corpus", "artifact_id", "text")
            if row["text"]
            and (key := (row["corpus"], row["artifact_id"])) in wanted.keys() - altered
            and text_hash(row["text"]) not in there[key]
        ],
    )


def _altered_shown(store: Store) -> Iterator[tuple[str, str]]:
    """Yield the artifacts whose records show a text that is not that of a surface."""
    shown: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in _streamed(store, "records", "corpus", "artifact_id", "shown"):
        if row["shown"] is not None:
            shown[row["corpus"], row["artifact_id"]].add(text_hash(row["shown"]))
    for row in _streamed(store, "surfaces", "corpus", "artifact_id", "text_hash"):
        shown.get((row["corpus"], row["artifact_id"]), set()).discard(row["text_hash"])
    yield from (key for key, hashes in shown.items() if hashes)


def _streamed(store: Store, table: str, *columns: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, with one batch in memory at a time. Raises StoreError for damaged files."""
    with store.damage_errors(), store.storage_errors():
        for batch in store.dataset(table).scanner(columns=list(columns)).to_batches():
            yield from batch.to_pylist()


def _searched(store: Store) -> Iterator[str]:
    """Yield a problem for the first damaged index of the records, found by searching one row with each index."""
    records = store.published() if Publisher(store).served() else None
    if records is None or not records.count_rows():
        return
    try:
        with store.damage_errors(), store.storage_errors():
            for index in records.describe_indices():
                records.to_table(**_asking(records, index.field_names))
    except StoreError:
        yield f"an index of the records is damaged ({index.name}): run `findingaid purge`, which rebuilds all indexes"


def _asking(records: lance.LanceDataset, columns: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a search that uses the index of these columns."""
    if COLUMN in columns:
        return {"columns": ["_score"], "full_text_query": "a", "limit": 1}
    if "vector" in columns:
        vector = records.take([0], columns=["vector"])["vector"][0].values.to_numpy(zero_copy_only=False)
        return {"columns": ["_distance"], "nearest": {"column": "vector", "q": vector, "k": 1}}
    return {"columns": ["record_id"], "filter": " AND ".join(equals(column, "") for column in columns)}


def _published(store: Store) -> Iterator[str]:
    publisher = Publisher(store)
    if publisher.withdrawn():
        if not publisher.whole():
            yield "the version that a rollback serves is not whole: run `findingaid publish` to serve the newest"
    elif publisher.served() is None:
        yield "nothing is published: run `findingaid index`"
    elif not publisher.current():
        yield "the newest records are not published: run `findingaid index`"


def _unsound_records(store: Store, dim: int) -> list[str]:
    batches = store.dataset("records").scanner(columns=["record_id", "vector"], **STREAM).to_batches()
    return [batch["record_id"][i].as_py() for batch in batches for i in unsound(batch["vector"], dim)]


def duplicate_ids(records: pa.Table) -> Iterator[str]:
    """Yield a problem that names the record ids found in more than one row."""
    if pc.count_distinct(records["record_id"]).as_py() < len(records):
        counted = Counter(records["record_id"].to_pylist())
        yield from named("records with the same id", [i for i, n in counted.items() if n > 1])


def unsound(vectors: pa.Array, dim: int) -> list[int]:
    """Return the positions of vectors that are not finite or not of length 1; all if their dimension is not `dim`."""
    if vectors.type.list_size != dim:
        return list(range(len(vectors)))
    rows = vectors.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, dim)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return [int(i) for i in np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))]  # also catches NaN and infinity


def _cured(what: str, found: Iterable[object], cure: str) -> Iterator[str]:
    return (f"{problem}: {cure}" for problem in named(what, found))


def named(what: str, found: Iterable[object]) -> Iterator[str]:
    """Yield one line with the number of items found and the first of them; nothing if there are none."""
    items = sorted("/".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in found)
    if items:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        yield f"{len(items)} {what}: {', '.join(items[:NAMED])}{more}"
