"""Reading everything and comparing: the check behind `findingaid verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from findingaid.model import WRITTEN, Outcome, Stage
from findingaid.store.ledger import OUTCOMES
from findingaid.store.publishing import Publisher
from findingaid.store.schemas import IRREPLACEABLE, PER_ARTIFACT
from findingaid.store.store import TABLES, Store

UNIT_TOLERANCE = 5e-3
"""How far a vector of float16 numbers may be from length 1."""

UNSOUND = "records whose vector is not finite and of length 1"

NEVER_PENDING = tuple(stage.value for stage in Stage if stage not in WRITTEN)
UNFINISHED_BY = ("recipe", "failed_stage", *OUTCOMES.values(), *NEVER_PENDING)

NAMED = 3
"""Ids that a problem names; the rest are counted."""


def verify(store: Store, dim: int) -> list[str]:
    """Problems of the tables themselves; when they are whole, those between them."""
    states = store.inspect(dim)
    if states == dict.fromkeys(TABLES, "lost"):
        return [f"nothing is indexed in {store.uri} yet: run `findingaid index`"]
    broken = [f"table {table} is {state}{_why(store, table, state)}: {_cure(table)}" for table, state in states.items()]
    return broken or [*_ledger(store), *_records(store, dim), *_published(store)]


def _cure(table: str) -> str:
    return "put it back from a backup" if table in IRREPLACEABLE else "run `findingaid index`"


def _why(store: Store, table: str, state: str) -> str:
    return f" ({store.problem(table)})" if state == "damaged" else ""


def _ledger(store: Store) -> Iterator[str]:
    columns = ("corpus", "artifact_id", *UNFINISHED_BY, *(f"n_{t}" for t in PER_ARTIFACT))
    ledger = store.rows("ledger", columns)
    keys = list(zip(ledger["corpus"].to_pylist(), ledger["artifact_id"].to_pylist(), strict=True))
    yield from named("ledger rows for the same artifact", [k for k, n in Counter(keys).items() if n > 1])
    rows = ledger.select(list(UNFINISHED_BY)).to_pylist()
    unfinished = [k for k, row in zip(keys, rows, strict=True) if _unfinished(row)]
    yield from named("artifacts not finished by the last run", unfinished)
    for table in PER_ARTIFACT:
        counted = dict(zip(keys, ledger[f"n_{table}"].to_pylist(), strict=True))
        rows = store.rows(table, ["corpus", "artifact_id"])
        there = Counter(zip(rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), strict=True))
        differing = [k for k in counted.keys() | there.keys() if counted.get(k, 0) != there.get(k, 0)]
        yield from named(f"artifacts whose rows in table {table} are not those the ledger counts", differing)


def _unfinished(row: Mapping[str, str | None]) -> bool:
    """Whether an artifact was being written when its run ended; one that waits for what is to be written was not."""
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
    # Where a stage was done alone the records are behind it, and rightly so.
    done = store.rows("ledger", ["corpus", "artifact_id", Stage.ARTIFACTS.value], "recipe <> ''").to_pylist()
    wanted = {(row["corpus"], row["artifact_id"]): row["artifacts"] for row in done}
    keys = zip(
        rows["corpus"].to_pylist(), rows["artifact_id"].to_pylist(), rows["artifact_version"].to_pylist(), strict=True
    )
    yield from named(
        "artifacts published from another version than the ledger has",
        {k[:2] for k in keys if wanted.get(k[:2], k[2]) != k[2]},
    )


def _published(store: Store) -> Iterator[str]:
    publisher = Publisher(store)
    if publisher.served() is None:
        yield "nothing is published: run `findingaid index`"
    elif not publisher.current() and not publisher.withdrawn():
        yield "the newest records are not published: run `findingaid index`"


def _unsound_records(store: Store, dim: int) -> list[str]:
    batches = store.dataset("records").scanner(columns=["record_id", "vector"]).to_batches()
    return [batch["record_id"][i].as_py() for batch in batches for i in unsound(batch["vector"], dim)]


def duplicate_ids(records: pa.Table) -> Iterator[str]:
    """Names the record ids that stand in more than one row."""
    counted = Counter(records["record_id"].to_pylist())
    yield from named("records with the same id", [i for i, n in counted.items() if n > 1])


def unsound(vectors: pa.Array, dim: int) -> list[int]:
    """Which of these vectors are not finite or not of length 1."""
    rows = vectors.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, dim)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return [int(i) for i in np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))]  # what is not finite is not near


def named(what: str, found: Iterable[object]) -> Iterator[str]:
    """One line that counts what was found and names the first of it; nothing where nothing was."""
    items = sorted("/".join(i) if isinstance(i, tuple) else str(i) for i in found)
    if items:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        yield f"{len(items)} {what}: {', '.join(items[:NAMED])}{more}"
