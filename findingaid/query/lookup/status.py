"""Status of a corpus: counts, failures and usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.claims.decisions import Decision, DecisionLog
from findingaid.claims.eligible import count_expired
from findingaid.errors import StoreError
from findingaid.frames import to_frame
from findingaid.model import NO_USAGE, Failure, Note, Skipped, Usage
from findingaid.reports import format_counts, suffix_of
from findingaid.store import Ledger, OpenBatch, OpenBatches, Publisher, SkippedArtifacts, Store
from findingaid.store.sql import equals
from findingaid.store.vectors import Measured, measured

if TYPE_CHECKING:
    import pandas as pd

STATUS_COLUMNS = (
    "updated", "recipe", "failed_stage", "synopsis_outcome", "claims_outcome", "refused", "n_records", "n_claims",
    "n_summary_nodes",
)  # fmt: skip
"""Ledger columns that are counted."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Usage of one model by a corpus, in all runs and in the last that used it; costs use the prices of that time."""

    model: str
    usage: Usage
    cost: float | None
    last: Usage
    last_cost: float | None

    def __str__(self) -> str:
        used, last = _format_usage(self.usage, self.cost), _format_usage(self.last, self.last_cost)
        return f"{self.model}: {used}; in the last run {last}"


def _format_usage(usage: Usage, cost: float | None) -> str:
    tokens = f", {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out" if usage.tokens else ""
    calls = f"{usage.calls:,} call{'s' * (usage.calls != 1)}"
    return f"{calls}{tokens}" + (f", {cost:,.2f}" if cost else "")


@dataclass(frozen=True, slots=True)
class CorpusStatus:
    """Status of one corpus by the ledger. `pending` artifacts are known but not up to date, or were interrupted."""

    corpus: str
    artifacts: int
    records: int
    pending: int
    synopses: Mapping[str, int]
    failed: Sequence[Failure]
    updated: str | None
    published_version: int | None
    claims: int = 0
    summary_nodes: int = 0
    extracted: Mapping[str, int] = field(default_factory=dict)
    """Outcome of claim extraction -> number of artifacts; empty if the corpus has no claims."""
    refused: int = 0
    expired: int = 0
    """Approved claims that no artifact states any more; 0 for a caller."""
    usage: Sequence[ModelUsage] = ()
    vector_index: Measured | None = None
    """Measurements of the vector index, which all corpora share; None if search is exact."""
    skipped: Sequence[Skipped] = ()
    """Artifacts that the source lists, but does not want to be indexed."""
    noted: Sequence[Note] = ()
    """What the source guessed or left out when it read the artifacts."""
    batches: Sequence[OpenBatch] = ()
    """Batches sent to a batch API whose results are not stored yet."""
    unpublished: str = ""
    """One line that readers do not have what was indexed last; "" if they do."""

    @property
    def of_claims(self) -> str:
        """Counts of claims and summary nodes, in words."""
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self.extracted.items())
        refused = f", {self.refused:,} refused" if self.refused else ""
        return f"{self.claims:,} claims{refused}, {self.summary_nodes:,} summary nodes; artifacts: {outcomes}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"batches": [batch.to_dict() for batch in self.batches]}


class Statuses(list[CorpusStatus]):
    """List of the statuses of corpora."""

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a data frame with one row per corpus. Raises ConfigError without pandas."""
        return to_frame([status.to_dict() for status in self])


def read_statuses(store: Store, corpora: Iterable[str], log: DecisionLog) -> Statuses:
    """Return the status of each corpus; all counts are zero if nothing is indexed yet."""
    if not store.exists():
        return Statuses(CorpusStatus(corpus, 0, 0, 0, {}, [], None, None) for corpus in corpora)
    unpublished, decisions = "", list[Decision]()
    if store.caller is None:  # a caller only reads, and sees neither unpublished tables nor decisions
        with suppress(StoreError):
            unpublished = Publisher(store).behind()
        with suppress(StoreError):  # `verify` names a log that is lost
            decisions += log.all()
    return Statuses(_read_status(store, corpus, decisions, unpublished) for corpus in corpora)


def _read_status(store: Store, corpus: str, decisions: Sequence[Decision], unpublished: str) -> CorpusStatus:
    rows = store.rows("ledger", STATUS_COLUMNS, equals("corpus", corpus))
    updated = pc.max(rows["updated"]).as_py()

    def total(column: str) -> int:
        return pc.sum(rows[column]).as_py() or 0

    return CorpusStatus(
        corpus=corpus,
        artifacts=rows.num_rows,
        records=total("n_records"),
        pending=pc.sum(pc.and_(pc.equal(rows["recipe"], ""), pc.equal(rows["failed_stage"], ""))).as_py() or 0,
        synopses=_outcomes(rows["synopsis_outcome"]),
        failed=[*SkippedArtifacts(store).unlisted(corpus), *Ledger(store).failures(corpus)],
        updated=updated and updated.isoformat(timespec="seconds"),
        published_version=Publisher(store).served(),
        claims=total("n_claims"),
        summary_nodes=total("n_summary_nodes"),
        extracted=_outcomes(rows["claims_outcome"]),
        refused=total("refused"),
        expired=count_expired(store, corpus, decisions),
        usage=_usage(store, corpus),
        vector_index=_vector_index(store),
        batches=OpenBatches(store).of(corpus=corpus),
        skipped=SkippedArtifacts(store).named(corpus),
        noted=Ledger(store).notes(corpus),
        unpublished=unpublished,
    )


def find_unread(store: Store, corpora: Sequence[str]) -> str:
    """Return the numbers of artifacts that are skipped or failed, by suffix: "29 .gz, 1 .pdf"; "" if there are none."""
    found = [(SkippedArtifacts(store).of(corpus), Ledger(store).failures(corpus)) for corpus in corpora]
    ids = [id_ for skipped, failures in found for id_ in (*skipped, *(failure.artifact_id for failure in failures))]
    return format_counts(Counter(map(suffix_of, ids))) if ids else ""


def _outcomes(said: pa.ChunkedArray) -> dict[str, int]:
    counted = {count["values"]: count["counts"] for count in said.value_counts().to_pylist()}
    return dict(sorted((outcome, count) for outcome, count in counted.items() if outcome))


def _vector_index(store: Store) -> Measured | None:
    """Return the measurement of the vector index; None for a caller, since it counts all records."""
    try:
        return measured(store.published()) if store.caller is None else None
    except StoreError:
        return None


def _usage(store: Store, corpus: str) -> list[ModelUsage]:
    columns = ("run", "model", "calls", "input_tokens", "output_tokens", "cost", "at")
    rows = store.rows("usage", columns, equals("corpus", corpus)).sort_by("at").to_pylist()
    return [
        _usage_of_model(model, [row for row in rows if row["model"] == model])
        for model in sorted({r["model"] for r in rows})
    ]


def _usage_of_model(model: str, rows: Sequence[Mapping[str, Any]]) -> ModelUsage:
    last = [row for row in rows if row["run"] == rows[-1]["run"]]
    return ModelUsage(model, *_sum_usage(rows), *_sum_usage(last))


def _sum_usage(rows: Sequence[Mapping[str, Any]]) -> tuple[Usage, float | None]:
    used = (Usage(row["calls"], row["input_tokens"], row["output_tokens"]) for row in rows)
    costs = [row["cost"] for row in rows]
    return sum(used, NO_USAGE), None if None in costs else sum(costs)
