"""Contexts of chunks, a part of stage SYNOPSES: a sentence by the model of the corpus's synopses for each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from findingaid.indexing.calls import CachedCalls, CallContext, CallResults, synopsis_key
from findingaid.indexing.work import ArtifactWork
from findingaid.model import Outcome, SynthesizerInput
from findingaid.strategies.with_synopsis import WithSynopsis


def write_chunk_contexts(of: WithSynopsis, works: Sequence[ArtifactWork], context: CallContext) -> CallResults:
    """Add the contexts of chunks to the artifacts that the gate lets through.

    An artifact with a context that failed or is pending counts as one whose synopsis did, so that the next run asks for
    it again. With `context.pay` false, contexts that are not cached are replaced by their keys.
    """
    placed = list(_inputs(of, works))
    shown = {str(n): each for n, (_, _, each) in enumerate(placed)}
    made = CachedCalls(of.chunk_contexts, context).results(shown)
    for n, (work, position, each) in enumerate(placed):
        written = made.synopses.get(str(n))
        if written is None:
            work.chunk_contexts_missing = True
            work.chunk_contexts[position] = synopsis_key("", each)  # a placeholder, for which no vector is cached yet
            continue
        work.chunk_contexts[position] = written.text
        if not written.outcome.settled and work.synopsis.outcome.settled:
            message = f"context of chunk {position}: {written.message}"
            work.synopsis = replace(work.synopsis, outcome=written.outcome, kind=written.kind, message=message)
    return replace(made, unwritten=0)


def _inputs(of: WithSynopsis, works: Sequence[ArtifactWork]) -> Iterator[tuple[ArtifactWork, int, SynthesizerInput]]:
    """Yield the input for each chunk, with its artifact and position."""
    for work in works:
        gated = work.synopsis.outcome is Outcome.SKIPPED and not work.synopsis_missing
        if gated or work.synopsis_input is None:
            continue
        chunks = [(i, s.text) for i, s in enumerate(work.surfaces) if s.granularity == "chunk"]
        texts = of.chunk_contexts.inputs(work.synopsis_input.text, [text for _, text in chunks]) if chunks else []
        for (position, _), text in zip(chunks, texts, strict=True):
            yield work, position, SynthesizerInput(work.artifact_id, text)
