"""Result of computing a batch, and the report on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from findingaid.indexing.batch import Batch
from findingaid.indexing.budget import total
from findingaid.indexing.calls import CallResults
from findingaid.indexing.vectors import Embeddings
from findingaid.model import NO_USAGE, OF_CLAIMS, WRITTEN, Failure, Listing, Outcome, Skipped, Stage
from findingaid.protocols import Embedder
from findingaid.reports import NAMED_CUT_OFF, NO_CALLS, NOTHING_CUT_OFF, BatchReport, Calls, CutOff, Unclaimed
from findingaid.store import LedgerRow


@dataclass(frozen=True)
class ClaimCalls:
    """Cost of claims and summary nodes.

    `results` are those of the calls of the extractor and of the producer. `missing` are the texts by hash that had no
    cached vector; `embedded` is how many were embedded.
    """

    results: Sequence[CallResults] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    embedded: int = 0
    calls: Calls = NO_CALLS


@dataclass
class BatchWork:
    """A batch that is computed but not yet written to the tables of artifacts.

    `read` are the listings of the artifacts that were read from the source, and `stamps` the stamps of all. `rows` are
    the ledger rows of its artifacts, `versions` the wanted versions, and `redo` the parts in which the two differ.
    `missing` are the texts by hash that had no cached vector. `synopsis_calls` are the results of calls for synopses,
    and `model_calls` those of all stages that call a model to write.
    """

    batch: Batch
    stamps: Mapping[str, str]
    read: Mapping[str, Listing]
    rows: Mapping[str, LedgerRow]
    versions: dict[str, dict[str, str | None]]
    redo: dict[str, list[str]]
    embeddings: Embeddings
    missing: Mapping[str, str] = field(default_factory=dict)
    calls: Calls = NO_CALLS
    synopsis_calls: CallResults = field(default_factory=CallResults)
    model_calls: Sequence[CallResults] = ()


def report_of(work: BatchWork, embedder: Embedder) -> BatchReport:
    """Summarize a computed batch."""
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
        usage=sum((made.usage for made in work.model_calls), NO_USAGE),
        cost=total(made.cost for made in work.model_calls),
        pending=sum(of[Stage.SYNOPSES] is Outcome.PENDING for of in outcomes.values()),
        pending_claims=sum(any(of[stage] is Outcome.PENDING for stage in OF_CLAIMS) for of in outcomes.values()),
        waiting=next((made.waiting for made in work.model_calls if made.waiting), ""),
        refused=[line for i in work.versions for line in batch.refused(i)],
        skipped=[Skipped(i, reason) for i, reason in batch.skipped.items()],
        turned=[i for i in batch.skipped if i in work.rows],
        emptied=[i for i in redo if i in work.rows and work.rows[i].n_records and not batch.count(i)],
        noted=[replace(note, artifact_id=i) for i in work.versions for note in batch.notes.get(i, ())],
        unclaimed=Unclaimed.of({i: why for i in redo if (why := batch.stating(i).absence)}),
    )


def failures_of(batch: Batch, artifact_id: str) -> Iterator[Failure]:
    """Yield a failure for each stage in WRITTEN that failed for an artifact."""
    for stage in WRITTEN:
        made = batch.made(artifact_id, stage)
        if made.outcome is Outcome.FAILED:
            yield Failure(artifact_id, stage.value, made.kind, made.message)


def _cut_off(work: BatchWork, tokens: Mapping[str, int], limit: int | None) -> CutOff:
    """Return how many of the texts by hash are longer than the embedder reads, and the first artifacts affected."""
    texts = {h for h, count in tokens.items() if limit and count > limit}
    if not texts:
        return NOTHING_CUT_OFF
    ids = (i for i in work.versions if texts & work.batch.texts(i).keys())
    return CutOff(len(texts), tuple(islice(ids, NAMED_CUT_OFF)))
