"""One row an artifact: what each stage last made of it, and why one did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.model import Failure, Outcome, Stage
from findingaid.store import schemas
from findingaid.store.sql import equals, one_of
from findingaid.store.store import Store


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The fields of `schemas.LEDGER`; a part's version is null until that part of the artifact is written.

    That of claims and of summary nodes is "" where there are none to be, so that a new row says so.
    """

    corpus: str
    artifact_id: str
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
    failed_stage: str = ""
    failed_kind: str = ""
    failed_message: str = ""
    failed_runs: int = 0

    def version(self, part: str) -> str | None:
        """What a stage, or the edges, were last written with."""
        version: str | None = getattr(self, part)
        return version

    def outcome(self, stage: Stage) -> str:
        """What became of what one of the stages WRITTEN was to write; "" where nothing was wanted."""
        outcome: str = getattr(self, OUTCOMES[stage])
        return outcome

    @property
    def failure(self) -> Failure | None:
        if not self.failed_stage:
            return None
        return Failure(self.artifact_id, self.failed_stage, self.failed_kind, self.failed_message, self.failed_runs)

    def writing(self, parts: Iterable[str]) -> LedgerRow:
        """The intent to write these parts: until it is done, nothing counts as done."""
        unwritten: dict[str, Any] = {str(part): None for part in parts}
        return replace(self, recipe="", **unwritten)


OUTCOMES: Mapping[Stage, str] = {
    Stage.SYNOPSES: "synopsis_outcome",
    Stage.CLAIMS: "claims_outcome",
    Stage.SUMMARY_NODES: "summary_nodes_outcome",
}
"""The columns that say what became of what was to be written."""

FIELDS = [field.name for field in fields(LedgerRow)]


class Ledger:
    """The ledger table of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def known(self, corpus: str) -> dict[str, tuple[str, str]]:
        """artifact id -> (stamp, recipe) of every artifact of a corpus: all that a plan compares."""
        columns = ("artifact_id", "stamp", "recipe")
        found = self._store.rows("ledger", columns, equals("corpus", corpus))
        ids, stamps, recipes = (found[c].to_pylist() for c in columns)
        return dict(zip(ids, zip(stamps, recipes, strict=True), strict=True))

    def rows(self, corpus: str, artifact_ids: Sequence[str] | None = None) -> dict[str, LedgerRow]:
        """Rows of a corpus by artifact id; all of them, or those asked for that exist."""
        where = equals("corpus", corpus)
        if artifact_ids is not None:
            where += f" AND {one_of('artifact_id', artifact_ids)}"
        found = self._store.rows("ledger", FIELDS, where)
        return {row["artifact_id"]: LedgerRow(**row) for row in found.to_pylist()}

    def decisions(self, corpus: str) -> dict[str, str]:
        """artifact id -> what of people's decisions its claims were built from."""
        found = self._store.rows("ledger", ("artifact_id", "decisions"), equals("corpus", corpus))
        return dict(zip(found["artifact_id"].to_pylist(), found["decisions"].to_pylist(), strict=True))

    def rows_of(self, corpus: str, table: str) -> int:
        """How many rows a corpus has in a table."""
        column = f"n_{table}"
        return pc.sum(self._store.rows("ledger", [column], equals("corpus", corpus))[column]).as_py() or 0

    def failures(self, corpus: str) -> list[Failure]:
        """What failed last, by artifact id."""
        columns = ("artifact_id", "failed_stage", "failed_kind", "failed_message", "failed_runs")
        found = self._store.rows("ledger", columns, f"{equals('corpus', corpus)} AND failed_stage <> ''")
        return sorted((Failure(*row.values()) for row in found.to_pylist()), key=lambda failure: failure.artifact_id)

    def pending(self, corpus: str) -> dict[str, str]:
        """artifact id -> stamp of those that only wait for their synopsis, claims or summary node."""
        waits = " OR ".join(equals(column, Outcome.PENDING) for column in OUTCOMES.values())
        where = f"{equals('corpus', corpus)} AND ({waits}) AND failed_stage = ''"
        found = self._store.rows("ledger", ("artifact_id", "stamp"), where)
        return dict(zip(found["artifact_id"].to_pylist(), found["stamp"].to_pylist(), strict=True))

    def put(self, corpus: str, rows: Sequence[LedgerRow], gone: Sequence[str] = ()) -> None:
        """Write rows, and drop those of `gone`, in one commit."""
        now = datetime.now(UTC)
        columns = {name: [getattr(row, name) for row in rows] for name in FIELDS} | {"updated": [now] * len(rows)}
        table = pa.table(columns, schema=schemas.LEDGER)
        self._store.replace("ledger", corpus, [*(row.artifact_id for row in rows), *gone], table)

    def lost(self, corpus: str) -> dict[str, set[str]]:
        """artifact id -> parts whose table does not hold the rows the ledger counts.

        Costs two counts a table when all is well; only a difference makes it look at every artifact.
        Artifacts that have rows but no ledger row are listed too.
        """
        found: dict[str, set[str]] = {}
        for table in schemas.PER_ARTIFACT:
            if not self.counts_agree(table):
                for artifact_id in self._differing(table, corpus):
                    found.setdefault(artifact_id, set()).add(table)
        return found

    def counts_agree(self, table: str) -> bool:
        """Whether a table has as many rows as the ledger counts."""
        counted = self._store.rows("ledger", [f"n_{table}"])[f"n_{table}"]
        return bool((pc.sum(counted).as_py() or 0) == self._store.count(table))

    def _differing(self, table: str, corpus: str) -> set[str]:
        where = equals("corpus", corpus)
        ids = self._store.rows(table, ["artifact_id"], where).group_by("artifact_id").aggregate([([], "count_all")])
        there = dict(zip(ids["artifact_id"].to_pylist(), ids["count_all"].to_pylist(), strict=True))
        rows = self._store.rows("ledger", ["artifact_id", f"n_{table}"], where)
        counted = dict(zip(rows["artifact_id"].to_pylist(), rows[f"n_{table}"].to_pylist(), strict=True))
        return {i for i in there.keys() | counted.keys() if there.get(i, 0) != counted.get(i, 0)}
