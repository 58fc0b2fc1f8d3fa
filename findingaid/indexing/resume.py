"""Stage SYNOPSES for synthesizers that resume from a saved state. They are shown only new segments, call after call.

The result of each call is cached as it arrives. A call's key covers the state that it resumes from and the new
segments, so that a killed run pays for nothing twice. The final result is also cached under the whole content, so that
a revert costs nothing either, in whatever steps the artifact grew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from findingaid.identity.hashes import call_key, content_hash
from findingaid.indexing.batch_jobs import keep_synopses
from findingaid.indexing.budget import estimate_of
from findingaid.indexing.calls import CachedCalls, CallContext, CallResults, synopsis_key
from findingaid.indexing.synopses import with_fallbacks
from findingaid.model import NO_USAGE, Outcome, Synopsis, SynthesizerInput, Usage
from findingaid.protocols import ResumableSynthesizer
from findingaid.store import Store
from findingaid.store.sql import equals
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.synthesis.anchored import run_to_completion

NOTHING = Synopsis(Outcome.PENDING)


@dataclass(frozen=True, slots=True)
class _Call:
    """The next call for one artifact; `rest` are the calls after it."""

    key: str
    shown: SynthesizerInput
    rest: list[SynthesizerInput]


@dataclass
class _Round:
    """Progress of all artifacts: the synopsis so far of each open one, and the final synopsis of each done one."""

    open: dict[str, SynthesizerInput]
    so_far: dict[str, Synopsis]
    done: dict[str, Synopsis] = field(default_factory=dict)
    calls: int = 0
    unwritten: int = 0
    usage: Usage = NO_USAGE
    waiting: str = ""

    def close(self, artifact_id: str, synopsis: Synopsis | None) -> None:
        del self.open[artifact_id]
        if synopsis is not None:
            self.done[artifact_id] = synopsis

    def add(self, made: CallResults) -> Mapping[str, Synopsis]:
        """Count the cost of calls, and return their results."""
        self.calls += made.calls
        self.usage += made.usage
        self.waiting = made.waiting or self.waiting
        return made.synopses


def resume_synopses(
    of: WithSynopsis, synthesizer: ResumableSynthesizer, shown: Mapping[str, SynthesizerInput], context: CallContext
) -> CallResults:
    """Return the synopses of artifacts by a resuming synthesizer; with `context.again` from an empty state."""
    store = context.spending.store
    keys = {i: synopsis_key(synthesizer.id, what) for i, what in shown.items()}
    known = context.cached(synthesizer, set(keys.values()))
    missing = {i: what for i, what in shown.items() if keys[i] not in known}
    before = _before(store, context.corpus, missing)
    usable = {} if context.again else {i: s for i, s in before.items() if s.producer_id == synthesizer.id}
    covering = {i: s for i, s in usable.items() if not synthesizer.left(missing[i], s.state)}
    if context.pay:
        keep_synopses(store, synthesizer, {keys[i]: synopsis for i, synopsis in covering.items()})
    at = _Round(dict(missing), {i: usable.get(i, NOTHING) for i in missing})
    while calls := _next(synthesizer, keys, at):
        keys_now = {call.key: call.shown for call in calls.values()}
        made = context.cached(synthesizer, set(keys_now))
        if wanted := {key: what for key, what in keys_now.items() if key not in made}:
            if context.pay:
                made |= at.add(CachedCalls(synthesizer, context).make(wanted))
            else:
                _foresee(synthesizer, {i: call for i, call in calls.items() if call.key in wanted}, at)
        for i in calls.keys() & at.open.keys():
            synopsis = made[calls[i].key]
            at.so_far[i] = synopsis
            if not synopsis.outcome.settled:
                at.close(i, _instead(of, synthesizer, missing[i], synopsis, before.get(i)))
    found = {i: known[key] for i, key in keys.items() if key in known} | at.done
    cost = context.spending.price(synthesizer, at.usage)
    results = CallResults(found, at.calls, at.unwritten, at.usage, cost, at.waiting)
    return with_fallbacks(of, shown, results, context)


def _before(store: Store, corpus: str, artifacts: Mapping[str, SynthesizerInput]) -> dict[str, Synopsis]:
    """Return the stored summaries by artifact id, of any producer."""
    columns = ("artifact_id", "text", "producer_id", "state")
    where = f"{equals('corpus', corpus)} AND state IS NOT NULL"
    rows = store.lookup("synopses", "artifact_id", artifacts, columns, where).to_pylist()
    return {
        row["artifact_id"]: Synopsis(
            Outcome.OK if row["text"] else Outcome.EMPTY,
            row["text"],
            producer_id=row["producer_id"],
            state=row["state"],
        )
        for row in rows
    }


def _next(synthesizer: ResumableSynthesizer, keys: Mapping[str, str], at: _Round) -> dict[str, _Call]:
    """Return the next call of each artifact that needs one; close the artifacts that need none."""
    calls: dict[str, _Call] = {}
    for i, what in list(at.open.items()):
        if left := synthesizer.left(what, at.so_far[i].state):
            first, *rest = left
            step = call_key(synthesizer.id, content_hash("step", first.state, first.segments))
            calls[i] = _Call(step if rest else keys[i], first, rest)
        else:
            at.close(i, at.so_far[i])
    return calls


def _foresee(synthesizer: ResumableSynthesizer, calls: Mapping[str, _Call], at: _Round) -> None:
    """Count the calls and usage that these artifacts still need, equal calls once, and close the artifacts."""
    for call in {call.key: call for call in calls.values()}.values():
        left = [call.shown, *call.rest]
        at.calls += len(left)
        at.unwritten += 1
        at.usage += sum((estimate_of(synthesizer, what.text) for what in left), NO_USAGE)
    for i in calls:
        at.close(i, None)


def _instead(
    of: WithSynopsis,
    synthesizer: ResumableSynthesizer,
    shown: SynthesizerInput,
    synopsis: Synopsis,
    before: Synopsis | None,
) -> Synopsis:
    """Fall back to the previous synopsis, or to the stand-in synthesizer.

    The stand-in is not used if the corpus has its own fallback. That one comes later, for all synopses still without
    text.
    """
    if before and before.text:
        kept = replace(synopsis, text=before.text, producer_id=before.producer_id, state=before.state)
        return _saying(kept, "the previous summary is kept")
    stand_in = synthesizer.stand_in
    if of.fallback is not None or stand_in is None:
        return synopsis
    written = run_to_completion(stand_in, shown).text
    return _saying(replace(synopsis, text=written, producer_id=stand_in.id), f"{stand_in.id} is used instead")


def _saying(synopsis: Synopsis, what: str) -> Synopsis:
    return replace(synopsis, message=f"{synopsis.message}; {what}")
