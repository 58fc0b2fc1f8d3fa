"""Stage SYNOPSES: one synopsis for each artifact, by the synthesizer of the corpus or its fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow.compute as pc

from findingaid.corpus import Corpus
from findingaid.indexing.budget import Bounded
from findingaid.indexing.calls import CachedCalls, CallContext, CallResults, call_synthesizer
from findingaid.model import Outcome, SynthesizerInput
from findingaid.protocols import CostsNothing, Synthesizer
from findingaid.store import Store
from findingaid.store.sql import equals
from findingaid.strategies.with_synopsis import WithSynopsis, split_synopsis

REPEATED = 4
"""Least number of equal synopses that are worth a look."""


def synthesizers_of(corpora: Iterable[Corpus]) -> dict[str, Synthesizer]:
    """Return the synthesizers of these corpora, by id."""
    found = (split_synopsis(corpus.strategy)[1] for corpus in corpora)
    return {of.synthesizer.id: of.synthesizer for of in found if of is not None}


def write_synopses(of: WithSynopsis, shown: Mapping[str, SynthesizerInput], context: CallContext) -> CallResults:
    """Return synopses by artifact id; the fallback, if there is one, fills in missing ones."""
    return with_fallbacks(of, shown, CachedCalls(of.synthesizer, context).results(shown), context)


def find_repeated_synopses(of: WithSynopsis | None, store: Store, corpus: str) -> str:
    """Return a line naming artifacts of different text with the same synopsis, if these are most of the corpus.

    A proxy or a cache before a model may give each request the answer of another one. "" if the synopses differ, or if
    no endpoint writes them.
    """
    if of is None or isinstance(of.synthesizer, CostsNothing):
        return ""
    where = f"{equals('corpus', corpus)} AND {equals('outcome', Outcome.OK.value)}"
    rows = store.rows("synopses", ("artifact_id", "key", "text"), where)
    counts = (
        rows.group_by("text").aggregate([("key", "count_distinct")]).sort_by([("key_count_distinct", "descending")])
    )
    most = counts["key_count_distinct"][0].as_py() if len(counts) else 0
    if most < REPEATED or 2 * most <= len(rows):
        return ""
    ids = rows.filter(pc.equal(rows["text"], counts["text"][0]))["artifact_id"].to_pylist()
    return (
        f"{len(ids):,} of {len(rows):,} synopses are the same, though the artifacts differ, such as those of"
        f" {' and '.join(sorted(ids)[:2])}: check the endpoint and what stands between, then run `findingaid index"
        f" --corpus {corpus} --force --pay-again --stage synopses`"
    )


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
