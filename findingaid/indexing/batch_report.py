"""Report on a computed batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from findingaid.indexing.budget import total
from findingaid.indexing.calls import CallResults
from findingaid.indexing.work import NO_CLAIMS, Batch
from findingaid.model import NO_USAGE, WRITTEN, Outcome, Skipped, Stage
from findingaid.reports import NAMED_CUT_OFF, NOTHING_CUT_OFF, BatchReport, Calls, CutOff, Unclaimed


def report_of(batch: Batch) -> BatchReport:
    """Summarize a computed batch."""
    live, embedder = batch.live, batch.embeddings.embedder
    tokens = {h: embedder.count_tokens(text) for h, text in batch.unembedded.items()}
    failed = [(work, failure) for work in batch.works if work.failure for failure in work.failures()]
    failed += [(work, failure) for work in live for failure in work.failures()]
    pending = [{stage for stage in WRITTEN if work.result(stage).outcome is Outcome.PENDING} for work in live]
    return BatchReport(
        new=sum(work.is_new for work in live if work.redo),
        changed=sum(not work.is_new for work in live if work.redo),
        records=sum(work.count() for work in live),
        failed=[replace(failure, runs=work.row.failed_runs + 1) for work, failure in failed],
        calls=Calls(batch.embedded if batch.options.pay else len(batch.unembedded), *_calls(batch)),
        tokens=sum(tokens.values()),
        truncated=_cut_off(batch, tokens, embedder.max_tokens),
        usage=sum((made.usage for made in batch.calls.values()), NO_USAGE),
        cost=total(made.cost for made in batch.calls.values()),
        pending=sum(Stage.SYNOPSES in stages for stages in pending),
        pending_claims=sum(bool(stages - {Stage.SYNOPSES}) for stages in pending),
        waiting=next((made.waiting for made in batch.calls.values() if made.waiting), ""),
        refused=[line for work in live for line in work.refused()],
        skipped=[Skipped(work.artifact_id, work.skipped) for work in batch.works if work.skipped],
        newly_skipped=[work.artifact_id for work in batch.works if work.skipped and not work.is_new],
        emptied=[work.artifact_id for work in live if work.redo and work.row.n_records and not work.count()],
        noted=[replace(note, artifact_id=work.artifact_id) for work in live for note in work.notes or ()],
        unclaimed=Unclaimed.of(
            {w.artifact_id: why for w in live if w.redo and (why := (w.claims or NO_CLAIMS).absence)}
        ),
    )


def _calls(batch: Batch) -> Iterator[int]:
    """Yield the number of calls of each stage in WRITTEN."""
    for stage in WRITTEN:
        yield batch.calls.get(stage, CallResults()).calls


def _cut_off(batch: Batch, tokens: Mapping[str, int], limit: int | None) -> CutOff:
    """Return how many of the texts by hash are longer than the embedder reads, and the first artifacts affected."""
    texts = {h for h, count in tokens.items() if limit and count > limit}
    if not texts:
        return NOTHING_CUT_OFF
    ids = (work.artifact_id for work in batch.live if texts & work.texts().keys())
    return CutOff(len(texts), tuple(islice(ids, NAMED_CUT_OFF)))
