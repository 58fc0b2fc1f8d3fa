"""What a batch came to: computed, and told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from findingaid.model import (
    NAMED_CUT_OFF,
    NO_CALLS,
    NO_USAGE,
    NOTHING_CUT_OFF,
    OF_CLAIMS,
    WRITTEN,
    Calls,
    CutOff,
    Embedder,
    Failure,
    Outcome,
    Stage,
    Usage,
)
from findingaid.spending import total
from findingaid.stages import Batch, Embeddings
from findingaid.store import LedgerRow
from findingaid.synthesizing import Asked


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of one batch, or would.

    An artifact whose synopsis or claims failed is published all the same, and counts as new or changed too.
    """

    new: int = 0
    changed: int = 0
    records: int = 0
    failed: Sequence[Failure] = ()
    calls: Calls = NO_CALLS
    tokens: int = 0
    truncated: CutOff = NOTHING_CUT_OFF
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    pending: int = 0
    pending_claims: int = 0
    waiting: str = ""
    refused: Sequence[str] = ()


@dataclass(frozen=True)
class OfClaims:
    """What claims and summary nodes took: who was asked, texts by hash that had no vector yet, those embedded."""

    asked: Sequence[Asked] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    embedded: int = 0
    calls: Calls = NO_CALLS


@dataclass
class Work:
    """A batch computed as far as it goes without writing to a table of artifacts.

    `rows` are what the ledger has of its artifacts, `versions` what is wanted of them, `redo` the parts of
    each in which the two differ, and `missing` the texts by hash that had no vector yet. `asked` is what synopses
    took, `every` what all took who were asked.
    """

    batch: Batch
    stamps: Mapping[str, str]
    rows: Mapping[str, LedgerRow]
    versions: dict[str, dict[str, str | None]]
    redo: dict[str, list[str]]
    embeddings: Embeddings
    missing: Mapping[str, str] = field(default_factory=dict)
    calls: Calls = NO_CALLS
    asked: Asked = field(default_factory=Asked)
    every: Sequence[Asked] = ()


def report_of(work: Work, embedder: Embedder) -> BatchReport:
    """What a batch came to."""
    batch, redo = work.batch, work.redo
    failed = [*batch.failures.values(), *(f for i in work.versions for f in failures_of(batch, i))]
    tokens = {h: embedder.count_tokens(text) for h, text in work.missing.items()}
    outcomes = {i: {stage: batch.made(i, stage).outcome for stage in WRITTEN} for i in work.versions}
    return BatchReport(
        new=sum(i not in work.rows for i in redo),
        changed=sum(i in work.rows for i in redo),
        records=sum(batch.count(i) for i in work.versions),
        failed=[
            replace(failure, runs=work.rows[failure.artifact_id].failed_runs + 1)
            if failure.artifact_id in work.rows
            else failure
            for failure in failed
        ],
        calls=work.calls,
        tokens=sum(tokens.values()),
        truncated=_cut_off(work, tokens, embedder.max_tokens),
        usage=sum((asked.usage for asked in work.every), NO_USAGE),
        cost=total(asked.cost for asked in work.every),
        pending=sum(of[Stage.SYNOPSES] is Outcome.PENDING for of in outcomes.values()),
        pending_claims=sum(any(of[stage] is Outcome.PENDING for stage in OF_CLAIMS) for of in outcomes.values()),
        waiting=next((asked.waiting for asked in work.every if asked.waiting), ""),
        refused=[line for i in work.versions for line in batch.refused(i)],
    )


def together(reports: Sequence[BatchReport]) -> BatchReport:
    """What several batches came to."""
    return BatchReport(
        new=sum(r.new for r in reports),
        changed=sum(r.changed for r in reports),
        records=sum(r.records for r in reports),
        failed=[failure for r in reports for failure in r.failed],
        calls=sum((r.calls for r in reports), NO_CALLS),
        tokens=sum(r.tokens for r in reports),
        truncated=sum((r.truncated for r in reports), NOTHING_CUT_OFF),
        usage=sum((r.usage for r in reports), NO_USAGE),
        cost=total(r.cost for r in reports),
        pending=sum(r.pending for r in reports),
        pending_claims=sum(r.pending_claims for r in reports),
        waiting=next((r.waiting for r in reports if r.waiting), ""),
        refused=[line for r in reports for line in r.refused],
    )


def failures_of(batch: Batch, artifact_id: str) -> Iterator[Failure]:
    """What was to be written of an artifact and was not, stage by stage."""
    for stage in WRITTEN:
        made = batch.made(artifact_id, stage)
        if made.outcome is Outcome.FAILED:
            yield Failure(artifact_id, stage.value, made.kind, made.message)


def _cut_off(work: Work, tokens: Mapping[str, int], limit: int | None) -> CutOff:
    """What of the texts by hash is longer than the embedder reads."""
    texts = {h for h, count in tokens.items() if limit and count > limit}
    if not texts:
        return NOTHING_CUT_OFF
    ids = (i for i in work.versions if texts & work.batch.texts(i).keys())
    return CutOff(len(texts), tuple(islice(ids, NAMED_CUT_OFF)))
