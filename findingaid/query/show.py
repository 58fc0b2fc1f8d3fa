"""One artifact as published, and one corpus at a glance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.claims.eligible import Eligible
from findingaid.errors import NotFoundError, QueryError, StoreError, TornError, brief
from findingaid.model import NO_USAGE, Failure, Usage
from findingaid.query.hits import own_text, span_of
from findingaid.store import Ledger, OpenBatch, OpenBatches, Publisher, Store, history
from findingaid.store.sql import equals, one_of
from findingaid.store.vectors import Measured, measured
from findingaid.summaries import AnchoredSummary

RECORD_COLUMNS = (
    "record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "title", "text", "text_start",
    "span_start", "span_end", "metadata", "artifact_version", "producer_id", "claim_id", "evidence", "embedder_id",
)  # fmt: skip

OF_STATUS = (
    "updated", "recipe", "failed_stage", "synopsis_outcome", "claims_outcome", "refused", "n_records", "n_claims",
    "n_summary_nodes",
)  # fmt: skip
"""The columns of the ledger that are counted."""


@dataclass(frozen=True, slots=True)
class RecordView:
    """A published record; `producer_id` says who wrote a generated text."""

    record_id: str
    surface_kind: str
    surface_index: int
    text: str
    span: tuple[int, int] | None
    metadata: Mapping[str, Any]
    producer_id: str


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """An artifact with its records in plan order, and the content version they were made from."""

    corpus: str
    artifact_id: str
    title: str
    artifact_version: str
    embedder_id: str
    records: Sequence[RecordView]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SummaryView:
    """One of the anchored summaries that an artifact has had, as it was published."""

    iteration: int
    segments: int
    producer_id: str
    at: str
    summary: AnchoredSummary

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("iteration", "segments", "producer_id", "at")} | {
            "summary": self.summary.model_dump()
        }


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a corpus has used of one model, in all runs and in the last that used it; `cost` by the prices of then."""

    model: str
    usage: Usage
    cost: float | None
    last: Usage
    last_cost: float | None

    def __str__(self) -> str:
        return f"{self.model}: {_used(self.usage, self.cost)}; in the last run {_used(self.last, self.last_cost)}"


def _used(usage: Usage, cost: float | None) -> str:
    tokens = f", {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out" if usage.tokens else ""
    return f"{usage.calls:,} calls{tokens}" + (f", {cost:,.2f}" if cost else "")


@dataclass(frozen=True, slots=True)
class CorpusStatus:
    """What the ledger says of one corpus. `pending` artifacts are known but not up to date or were interrupted."""

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
    """What became of the claims of so many artifacts; nothing where none are wanted."""
    refused: int = 0
    usage: Sequence[ModelUsage] = ()
    vector_index: Measured | None = None
    """What the index of the vectors of all corpora was found to do; None where a search is exact."""
    batches: Sequence[OpenBatch] = ()
    """Sent to a batch API, and not taken in yet."""

    @property
    def of_claims(self) -> str:
        """What there is of claims, in words."""
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self.extracted.items())
        refused = f", {self.refused:,} refused" if self.refused else ""
        return f"{self.claims:,} claims{refused}, {self.summary_nodes:,} summary nodes; artifacts: {outcomes}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"batches": [batch.to_dict() for batch in self.batches]}


def show(
    store: Store, wanted: str, corpora: Sequence[str] | None = None, eligible: Eligible | None = None
) -> ArtifactView:
    """The artifact with this id, or the one that a record with this id belongs to; of these corpora, if named.

    Of its claims and summary nodes there are those that are `eligible`, and without that none.

    Raises QueryError for an unknown id, TornError for an artifact of which records are lost.
    """
    records = store.published()

    def find(where: str) -> list[dict[str, Any]]:
        with store.reached():
            found: list[dict[str, Any]] = records.to_table(columns=list(RECORD_COLUMNS), filter=where).to_pylist()
        return found

    within = "" if corpora is None else f" AND {one_of('corpus', corpora)}"
    rows = find(equals("artifact_id", wanted) + within)
    if not rows and (record := find(equals("record_id", wanted) + within)):
        rows = find(f"{equals('artifact_id', record[0]['artifact_id'])} AND {equals('corpus', record[0]['corpus'])}")
    if not rows:
        raise NotFoundError(f"no published artifact or record {brief(wanted)}: `findingaid search` shows ids")
    if len(found := {row["corpus"] for row in rows}) > 1:
        raise QueryError(f"{wanted!r} is in several corpora, {', '.join(sorted(found))}: name one by --corpus")
    first = rows[0]
    _refuse_torn(store, rows)
    return ArtifactView(
        corpus=first["corpus"],
        artifact_id=first["artifact_id"],
        title=first["title"],
        artifact_version=first["artifact_version"],
        embedder_id=first["embedder_id"],
        records=[_record(row) for row in _shown(rows, eligible)],
    )


def _shown(rows: Sequence[Mapping[str, Any]], eligible: Eligible | None) -> list[Mapping[str, Any]]:
    """The records of an artifact that may be shown, in plan order."""
    ordered = sorted(rows, key=lambda row: row["surface_index"])
    return [row for row in ordered if not row["claim_id"] or (eligible is not None and eligible.allows_record(row))]


def summaries(store: Store, wanted: str, corpora: Sequence[str] | None = None) -> list[SummaryView]:
    """The anchored summaries of an artifact that is published, oldest first."""
    artifact = show(store, wanted, corpora)
    rows = history(store, artifact.corpus, [artifact.artifact_id]).get(artifact.artifact_id, [])
    return [
        SummaryView(
            row.iteration,
            row.segments,
            row.producer_id,
            row.at.isoformat(timespec="seconds"),
            AnchoredSummary.model_validate_json(row.summary),
        )
        for row in rows
    ]


def _refuse_torn(store: Store, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises TornError where not all records of an artifact are there: by their places, and by the ledger's count."""
    corpus, artifact_id = rows[0]["corpus"], rows[0]["artifact_id"]
    places = sorted(row["surface_index"] for row in rows)
    torn = places[0] > 1 or places != list(range(places[0], places[0] + len(places)))
    publisher = Publisher(store)
    if not torn and publisher.served() == publisher.newest():
        known = Ledger(store).rows(corpus, [artifact_id]).get(artifact_id)
        torn = known is not None and known.records is not None and known.n_records != len(rows)
    if torn:
        raise TornError(f"{corpus}/{artifact_id}: some of its records are lost: run `findingaid index`")


def status(store: Store, corpus: str) -> CorpusStatus:
    """One corpus at a glance; zeros where nothing was indexed yet."""
    if not store.exists():
        return CorpusStatus(corpus, 0, 0, 0, {}, [], None, None)
    rows = store.rows("ledger", OF_STATUS, equals("corpus", corpus))
    updated = pc.max(rows["updated"]).as_py()

    def total(column: str) -> int:
        return pc.sum(rows[column]).as_py() or 0

    return CorpusStatus(
        corpus=corpus,
        artifacts=rows.num_rows,
        records=total("n_records"),
        pending=pc.sum(pc.and_(pc.equal(rows["recipe"], ""), pc.equal(rows["failed_stage"], ""))).as_py() or 0,
        synopses=_outcomes(rows["synopsis_outcome"]),
        failed=Ledger(store).failures(corpus),
        updated=updated and updated.isoformat(timespec="seconds"),
        published_version=Publisher(store).served(),
        claims=total("n_claims"),
        summary_nodes=total("n_summary_nodes"),
        extracted=_outcomes(rows["claims_outcome"]),
        refused=total("refused"),
        usage=_usage(store, corpus),
        vector_index=_vector_index(store),
        batches=OpenBatches(store).of(corpus=corpus),
    )


def _outcomes(said: pa.ChunkedArray) -> dict[str, int]:
    counted = {count["values"]: count["counts"] for count in said.value_counts().to_pylist()}
    return dict(sorted((outcome, count) for outcome, count in counted.items() if outcome))


def _vector_index(store: Store) -> Measured | None:
    try:
        return measured(store.published())
    except StoreError:
        return None


def _usage(store: Store, corpus: str) -> list[ModelUsage]:
    columns = ("run", "model", "calls", "input_tokens", "output_tokens", "cost", "at")
    rows = store.rows("usage", columns, equals("corpus", corpus)).sort_by("at").to_pylist()
    return [
        _of_model(model, [row for row in rows if row["model"] == model]) for model in sorted({r["model"] for r in rows})
    ]


def _of_model(model: str, rows: Sequence[Mapping[str, Any]]) -> ModelUsage:
    last = [row for row in rows if row["run"] == rows[-1]["run"]]
    return ModelUsage(model, *_summed(rows), *_summed(last))


def _summed(rows: Sequence[Mapping[str, Any]]) -> tuple[Usage, float | None]:
    used = (Usage(row["calls"], row["input_tokens"], row["output_tokens"]) for row in rows)
    costs = [row["cost"] for row in rows]
    return sum(used, NO_USAGE), None if None in costs else sum(costs)


def _record(row: Mapping[str, Any]) -> RecordView:
    return RecordView(
        row["record_id"],
        row["surface_kind"],
        row["surface_index"],
        own_text(row),
        span_of(row),
        json.loads(row["metadata"]),
        row["producer_id"],
    )
