"""Stage SYNOPSES: one synopsis for each artifact, by the synthesizer of the corpus or its fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from findingaid.corpus import Corpus
from findingaid.indexing.budget import Bounded
from findingaid.indexing.calls import CachedCalls, CallContext, CallResults, call_synthesizer
from findingaid.model import SynthesizerInput
from findingaid.protocols import Synthesizer
from findingaid.strategies.with_synopsis import WithSynopsis, split_synopsis


def synthesizers_of(corpora: Iterable[Corpus]) -> dict[str, Synthesizer]:
    """Return the synthesizers of these corpora, by id."""
    found = (split_synopsis(corpus.strategy)[1] for corpus in corpora)
    return {of.synthesizer.id: of.synthesizer for of in found if of is not None}


def write_synopses(of: WithSynopsis, shown: Mapping[str, SynthesizerInput], context: CallContext) -> CallResults:
    """Return synopses by artifact id; the fallback, if there is one, fills in missing ones."""
    return with_fallbacks(of, shown, CachedCalls(of.synthesizer, context).results(shown), context)


def with_fallbacks(
    of: WithSynopsis, shown: Mapping[str, SynthesizerInput], made: CallResults, context: CallContext
) -> CallResults:
    """Fill in missing synopses with texts of the fallback synthesizer, until the real ones arrive.

    A fallback that calls an endpoint is paid from the same budget, and its texts are cached.
    """
    lacking = {i: shown[i] for i, s in made.synopses.items() if not s.outcome.settled and not s.text}
    if of.fallback is None or not lacking or not context.pay:
        return made
    if isinstance(of.fallback, Bounded):
        by_fallback = CachedCalls(of.fallback, replace(context, again=False, progress=None)).results(lacking)
        texts = by_fallback.synopses
        made += replace(by_fallback, unwritten=0, waiting="")
    else:
        texts = {i: call_synthesizer(of.fallback, what) for i, what in lacking.items()}
    stand_in = {i: replace(made.synopses[i], text=s.text, producer_id=of.fallback.id) for i, s in texts.items()}
    return replace(made, synopses={**made.synopses, **stand_in})
