"""Ledger with one row per artifact: the version that each stage last wrote, and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from findingaid.access import NOBODY
from findingaid.errors import StoreError
from findingaid.identity.hashes import to_json
from findingaid.model import Failure, Note, Outcome, Stage
from findingaid.store import schemas
from findingaid.store.sql import equals
from findingaid.store.store import Check, Store
from findingaid.store.tables import select_rows

if TYPE_CHECKING:
    import lance


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The fields of `schemas.LEDGER`; the version of a part is None until that part of the artifact is written.

    The versions of claims and of summary nodes are "" when none are wanted, which is the default of a new row.
    """

    corpus: str
    artifact_id: str
    readers: str = NOBODY
    access: str = ""
    stamp: str = ""
    recipe: str = ""
    artifacts: str | None = None
    surfaces: str | None = None
    synopses: str | None = None
    claims: str | None = ""
    summary_nodes: str | None = ""
    embeddings: str | None = None
    records: str | None = None
    edges: str | None = None
    synopsis_outcome: str = ""
    claims_outcome: str = ""
    summary_nodes_outcome: str = ""
    claims_key: str = ""
    summary_nodes_key: str = ""
    refused: int = 0
    decisions: str = ""
    bytes: int = 0
    n_artifacts: int = 0
    n_surfaces: int = 0
    n_edges: int = 0
    n_synopses: int = 0
    n_claims: int = 0
    n_summary_nodes: int = 0
    n_records: int = 0
    v_artifacts: int = 0
    v_surfaces: int = 0
    v_edges: int = 0
    v_synopses: int = 0
    v_claims: int = 0
    v_summary_nodes: int = 0
    v_records: int = 0
    failed_stage: str = ""
    failed_kind: str = ""
    failed_message: str = ""
    failed_runs: int = 0
    failed_key: str = ""
    retry_in: int = 1
    notes: str = ""
    changed: datetime | None = field(default=None, compare=False)
    """Time of the last change of the artifact; None before it was read."""
    updated: datetime | None = field(default=None, compare=False)
    """Time when the row was written; None for a row that is not in the table yet."""

    def version(self, part: str) -> str | None:
        """Return the version that a stage, or the edges, were last written with."""
        version: str | None = getattr(self, part)
        return version

    def outcome(self, stage: Stage) -> str:
        """Return the outcome of one of the stages WRITTEN; "" when nothing was wanted."""
        outcome: str = getattr(self, OUTCOMES[stage])
        return outcome

    @property
    def failure(self) -> Failure | None:
        if not self.failed_stage:
            return None
        return Failure(*(getattr(self, name) for name in FAILURE))

    def writing(self, parts: Iterable[str]) -> LedgerRow:
        """Return the row that announces the writing of these parts; with it the artifact does not count as done."""
        unwritten: dict[str, Any] = {str(part): None for part in parts}
        return replace(self, recipe="", **unwritten)


OUTCOMES: Mapping[Stage, str] = {
    Stage.SYNOPSES: "synopsis_outcome",
    Stage.CLAIMS: "claims_outcome",
    Stage.SUMMARY_NODES: "summary_nodes_outcome",
}
"""Columns with the outcomes of the stages WRITTEN."""

UNFINISHED = (
    "recipe = '' AND failed_stage = '' AND (artifacts IS NULL OR surfaces IS NULL OR embeddings IS NULL OR records IS"
    f" NULL OR NOT ({' OR '.join(equals(column, Outcome.PENDING) for column in OUTCOMES.values())}))"
)
"""Condition of the rows of artifacts that are being written, or that a run has written in part."""


def notes_json(notes: Sequence[Note]) -> str:
    """Return the notes of an artifact as the ledger keeps them; "" if there are none."""
    return to_json([[note.kind, note.words, note.count] for note in notes]) if notes else ""


FIELDS = [field.name for field in fields(LedgerRow)]

FAILURE = ("artifact_id", "failed_stage", "failed_kind", "failed_message", "failed_runs", "retry_in")
"""Columns of a failure, in the order of the fields of `Failure`."""


class Ledger:
    """The ledger table of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def columns(self, corpus: str, *names: str) -> pa.Table:
        """Return columns of all artifacts of a corpus: a tenth of the memory of Python objects."""
        return self._store.rows("ledger", names, equals("corpus", corpus))

    def rows(self, corpus: str, artifact_ids: Sequence[str] | None = None) -> dict[str, LedgerRow]:
        """Return the rows of a corpus by artifact id: all, or the existing ones among `artifact_ids`."""
        where = equals("corpus", corpus)
        if artifact_ids is None:
            found = self._store.rows("ledger", FIELDS, where)
        else:
            found = self._store.lookup("ledger", "artifact_id", artifact_ids, FIELDS, where)
        columns = (found[name].to_pylist() for name in FIELDS)  # a third of the time of a dict for each row
        return {row.artifact_id: row for row in map(LedgerRow, *columns)}

    def count(self, corpus: str) -> int:
        """Return the number of artifacts of a corpus."""
        return self._store.count("ledger", equals("corpus", corpus))

    def decisions(self, corpus: str) -> dict[str, str]:
        """Map each artifact id to the hash of the decisions that its claims and summary node were built from."""
        found = self.columns(corpus, "artifact_id", "decisions")
        return dict(zip(found["artifact_id"].to_pylist(), found["decisions"].to_pylist(), strict=True))

    def rows_of(self, corpus: str, table: str) -> int:
        """Return how many rows a corpus has in a table, as the ledger counts them."""
        return pc.sum(self.columns(corpus, f"n_{table}").column(0)).as_py() or 0

    def failures(self, corpus: str) -> list[Failure]:
        """Return the last failure of each failed artifact, sorted by artifact id."""
        return [failure for failure, _ in self._failures(corpus, "failed_stage <> ''")]

    def notes(self, corpus: str, artifact_id: str | None = None) -> list[Note]:
        """Return the notes on the artifacts of a corpus, or on one of them, in the order of their ids."""
        where = f"{equals('corpus', corpus)} AND notes <> ''"
        if artifact_id is not None:
            where += f" AND {equals('artifact_id', artifact_id)}"
        found = self._store.rows("ledger", ("artifact_id", "notes"), where).to_pylist()
        found.sort(key=lambda row: str(row["artifact_id"]))
        return [
            Note(kind, words, count, row["artifact_id"])
            for row in found
            for kind, words, count in orjson.loads(row["notes"])
        ]

    def stamps(self, corpus: str) -> dict[str, str]:
        """Map the artifacts of a corpus to the stamps at which they were read."""
        found = self.columns(corpus, "artifact_id", "stamp")
        return dict(zip(found["artifact_id"].to_pylist(), found["stamp"].to_pylist(), strict=True))

    def tried(self, corpus: str) -> dict[str, tuple[Failure, str]]:
        """Map artifact id to (failure, its key) for failures that have a key."""
        found = self._failures(corpus, "failed_stage <> '' AND failed_key <> ''")
        return {failure.artifact_id: (failure, key) for failure, key in found}

    def _failures(self, corpus: str, where: str) -> list[tuple[Failure, str]]:
        found = self._store.rows("ledger", (*FAILURE, "failed_key"), f"{equals('corpus', corpus)} AND {where}")
        failures = ((Failure(*failure), key) for *failure, key in map(dict.values, found.to_pylist()))
        return sorted(failures, key=lambda each: each[0].artifact_id)

    def pending(self, corpus: str) -> dict[str, str]:
        """Map artifact id to key for artifacts that only wait for their synopsis, claims or summary node."""
        waits = " OR ".join(equals(column, Outcome.PENDING) for column in OUTCOMES.values())
        where = f"{equals('corpus', corpus)} AND ({waits}) AND failed_stage = ''"
        found = self._store.rows("ledger", ("artifact_id", "failed_key"), where)
        return dict(zip(found["artifact_id"].to_pylist(), found["failed_key"].to_pylist(), strict=True))

    def unfinished(self) -> int:
        """Return the number of artifacts that are being written, or that a run has written in part."""
        return self._store.count("ledger", UNFINISHED)

    def put(self, corpus: str, rows: Sequence[LedgerRow], gone: Sequence[str] = ()) -> None:
        """Write rows, and drop the rows of the artifacts `gone`, in one commit."""
        self._put(corpus, rows, gone, _now(), None)

    def follow(
        self, corpus: str, rows: Sequence[LedgerRow], check: Callable[[], None], gone: Sequence[LedgerRow] = ()
    ) -> datetime:
        """Write rows, and drop `gone`, if no row of theirs has changed since it was read; return the rows' new time.

        `check` is called just before the commit and may raise. Raises StoreError, with nothing written, when another
        process wrote a row of these artifacts meanwhile.
        """
        known = {row.artifact_id: row.updated for row in (*rows, *gone)}

        def unchanged(dataset: lance.LanceDataset) -> None:
            check()
            columns = ("artifact_id", "updated")
            found = select_rows(dataset, "artifact_id", list(known), columns, equals("corpus", corpus)).to_pydict()
            there = dict(zip(found["artifact_id"], found["updated"], strict=True))
            if others := sum(there.get(i) != updated for i, updated in known.items()):
                raise StoreError(
                    f"{corpus}: another process wrote {others} of {len(known)} artifacts meanwhile: nothing more"
                    " is written, run again"
                )

        now = _now()
        self._put(corpus, rows, [row.artifact_id for row in gone], now, unchanged)
        return now

    def _put(
        self, corpus: str, rows: Sequence[LedgerRow], gone: Sequence[str], now: datetime, check: Check | None
    ) -> None:
        columns = {name: [getattr(row, name) for row in rows] for name in FIELDS} | {"updated": [now] * len(rows)}
        table = pa.table(columns, schema=schemas.LEDGER)
        self._store.replace("ledger", corpus, [*(row.artifact_id for row in rows), *gone], table, check)

    def lost(self, corpus: str) -> dict[str, set[str]]:
        """Map artifact id to the tables that do not hold the rows of it that the ledger names.

        They hold more or fewer rows, or rows of another version: then the ledger is an older copy. If all is well, this
        costs one count per table, and a read of versions if the artifacts were written after the ledger's last row.
        Artifacts that have rows but no ledger row are included.
        """
        counted = self._store.rows("ledger", [*(f"n_{table}" for table in schemas.PER_ARTIFACT), "v_artifacts"])
        written = pc.max(counted["v_artifacts"]).as_py() or 0
        found: dict[str, set[str]] = {}
        if written and self._store.count("artifacts") and self._store.dataset("artifacts").version > written:
            found = {artifact_id: set(schemas.PER_ARTIFACT) for artifact_id in self._of_other_version(corpus)}
        for table in schemas.PER_ARTIFACT:
            if (pc.sum(counted[f"n_{table}"]).as_py() or 0) != self._store.count(table):
                for artifact_id in self._differing(table, corpus):
                    found.setdefault(artifact_id, set()).add(table)
        return found

    def _of_other_version(self, corpus: str) -> set[str]:
        """Return the artifacts whose version in the table differs from the ledger's, except those being written."""
        where = equals("corpus", corpus)
        there = self._store.rows("artifacts", ["artifact_id", "version"], where)
        rows = self._store.rows("ledger", ["artifact_id", "artifacts"], f"{where} AND recipe <> ''")
        place = pc.index_in(there["artifact_id"], rows["artifact_id"])
        other = pc.fill_null(pc.not_equal(there["version"], rows["artifacts"].take(place)), False)
        return set(there["artifact_id"].filter(other).to_pylist())

    def _differing(self, table: str, corpus: str) -> set[str]:
        where = equals("corpus", corpus)
        ids = self._store.rows(table, ["artifact_id"], where).group_by("artifact_id").aggregate([([], "count_all")])
        there = dict(zip(ids["artifact_id"].to_pylist(), ids["count_all"].to_pylist(), strict=True))
        rows = self._store.rows("ledger", ["artifact_id", f"n_{table}"], where)
        counted = dict(zip(rows["artifact_id"].to_pylist(), rows[f"n_{table}"].to_pylist(), strict=True))
        return {i for i in there.keys() | counted.keys() if there.get(i, 0) != counted.get(i, 0)}


def _now() -> datetime:
    """Return the time with the precision of the table, in milliseconds."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
