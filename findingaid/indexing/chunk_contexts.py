"""Contexts of chunks, a part of stage SYNOPSES: a sentence by the model of the corpus's synopses for each chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from findingaid.indexing.batch import Batch
from findingaid.indexing.budget import Spending
from findingaid.indexing.calls import CachedCalls, CallResults, Progress, synopsis_key
from findingaid.model import Outcome, Shown, Stage
from findingaid.strategies.with_synopsis import WithSynopsis


def write_chunk_contexts(
    of: WithSynopsis,
    batch: Batch,
    spending: Spending,
    corpus: str,
    pay: bool = True,
    progress: Progress | None = None,
    again: bool = False,
) -> CallResults:
    """Add the contexts of chunks to the batch, of artifacts that the gate lets through.

    An artifact with a context that failed or is pending counts as one whose synopsis did, so that the next run asks for
    it again. With `pay` false, contexts that are not cached are replaced by their keys, and the artifact is `unplaced`.
    `again` drops cached contexts first.
    """
    writer = of.chunk_contexts
    placed = dict(_inputs(of, batch))
    shown = {str(n): each for n, each in enumerate(placed.values())}
    if again:
        keys = [synopsis_key(writer.id, each) for each in shown.values()]
        spending.store.drop("calls", "key", keys)
    made = CachedCalls(writer, spending, corpus, Stage.SYNOPSES, progress).results(shown, pay)
    for n, (artifact_id, position) in enumerate(placed):
        said = batch.placed.setdefault(artifact_id, {})
        context = made.synopses.get(str(n))
        if context is None:
            batch.unplaced.add(artifact_id)
            said[position] = synopsis_key("", shown[str(n)])  # a placeholder, for which no vector is cached yet
            continue
        said[position] = context.text
        synopsis = batch.synopsis(artifact_id)
        if not context.outcome.settled and synopsis.outcome.settled:
            message = f"context of chunk {position}: {context.message}"
            batch.synopses[artifact_id] = replace(synopsis, outcome=context.outcome, kind=context.kind, message=message)
    return replace(made, unwritten=0)


def _inputs(of: WithSynopsis, batch: Batch) -> Iterator[tuple[tuple[str, int], Shown]]:
    """Yield the input for each chunk, by artifact id and position."""
    for artifact_id, shown in batch.shown.items():
        gated = batch.synopsis(artifact_id).outcome is Outcome.SKIPPED and artifact_id not in batch.unwritten
        if gated or artifact_id not in batch.plans:
            continue
        chunks = [(i, s.text) for i, s in enumerate(batch.plans[artifact_id].surfaces) if s.granularity == "chunk"]
        texts = of.chunk_contexts.inputs(shown.text, [text for _, text in chunks]) if chunks else []
        for (position, _), text in zip(chunks, texts, strict=True):
            yield (artifact_id, position), Shown(artifact_id, text)
