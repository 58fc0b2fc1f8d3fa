"""Stage 3 for synthesizers that go on from where they were: what is new, call after call, each kept as it comes.

The key of a call covers the state it goes on from and the segments that are new, so that a run that was killed pays for
nothing twice. What an artifact came to in the end is kept by its whole content, so that neither does a revert, whatever
the way on which the artifact grew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from findingaid.batching import cached, keep
from findingaid.identity import call_key, content_hash
from findingaid.model import NO_USAGE, Outcome, Resuming, Shown, Synopsis, Usage
from findingaid.spending import Spending, estimate_of
from findingaid.store import Store
from findingaid.store.sql import equals
from findingaid.synopses import WithSynopsis
from findingaid.synthesis.anchored import whole
from findingaid.synthesizing import Asked, Asking, Progress, synopsis_key, with_fallback

NOTHING = Synopsis(Outcome.PENDING)


@dataclass(frozen=True, slots=True)
class _Call:
    """The next call for one artifact; `rest` are those that come after it."""

    key: str
    shown: Shown
    rest: list[Shown]


@dataclass
class _Round:
    """Where each artifact stands: what was made of it so far, and what it came to."""

    open: dict[str, Shown]
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


def ask(
    of: WithSynopsis,
    synthesizer: Resuming,
    shown: Mapping[str, Shown],
    spending: Spending,
    corpus: str,
    pay: bool = True,
    progress: Progress | None = None,
    again: bool = False,
) -> Asked:
    """Synopses by artifact id. With `pay` false nothing is called: what the cache lacks is left out, and estimated.

    `again` begins from nothing and passes over what is kept of calls.
    """
    store = spending.store
    keys = {i: synopsis_key(synthesizer.id, what) for i, what in shown.items()}
    known = {} if again else cached(store, synthesizer, set(keys.values()))
    missing = {i: what for i, what in shown.items() if keys[i] not in known}
    before = _before(store, corpus, missing)
    usable = {} if again else {i: s for i, s in before.items() if s.producer_id == synthesizer.id}
    covering = {i: s for i, s in usable.items() if not synthesizer.left(missing[i], s.state)}
    if pay:
        keep(store, synthesizer, {keys[i]: synopsis for i, synopsis in covering.items()})
    at = _Round(dict(missing), {i: usable.get(i, NOTHING) for i in missing})
    while calls := _next(synthesizer, keys, at):
        keys_now = {call.key: call.shown for call in calls.values()}
        made = {} if again else cached(store, synthesizer, set(keys_now))
        if wanted := {key: what for key, what in keys_now.items() if key not in made}:
            if pay:
                made |= _pay(synthesizer, wanted, at, spending, corpus, progress, again)
            else:
                _foresee(synthesizer, {i: call for i, call in calls.items() if call.key in wanted}, at)
        for i in calls.keys() & at.open.keys():
            synopsis = made[calls[i].key]
            at.so_far[i] = synopsis
            if not synopsis.outcome.settled:
                at.close(i, _instead(of, synthesizer, missing[i], synopsis, before.get(i)))
    found = {i: known[key] for i, key in keys.items() if key in known} | at.done
    return Asked(found, at.calls, at.unwritten, at.usage, spending.price(synthesizer, at.usage), at.waiting)


def _before(store: Store, corpus: str, artifacts: Mapping[str, Shown]) -> dict[str, Synopsis]:
    """The summaries of before, by whoever wrote them."""
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


def _next(synthesizer: Resuming, keys: Mapping[str, str], at: _Round) -> dict[str, _Call]:
    """The next call of each artifact that needs one; what needs none is done."""
    calls: dict[str, _Call] = {}
    for i, what in list(at.open.items()):
        if left := synthesizer.left(what, at.so_far[i].state):
            first, *rest = left
            step = call_key(synthesizer.id, content_hash("step", first.state, first.segments))
            calls[i] = _Call(step if rest else keys[i], first, rest)
        else:
            at.close(i, at.so_far[i])
    return calls


def _pay(
    synthesizer: Resuming,
    wanted: Mapping[str, Shown],
    at: _Round,
    spending: Spending,
    corpus: str,
    progress: Progress | None,
    again: bool,
) -> dict[str, Synopsis]:
    if again:
        spending.store.drop("calls", "key", list(wanted))
    asked = Asking(synthesizer, spending, corpus, progress).all(wanted)
    at.calls += asked.calls
    at.usage += asked.usage
    at.waiting = asked.waiting or at.waiting
    return dict(asked.synopses)


def _foresee(synthesizer: Resuming, calls: Mapping[str, _Call], at: _Round) -> None:
    """Count what these artifacts will still take, equal ones once, and leave it at that."""
    for call in {call.key: call for call in calls.values()}.values():
        left = [call.shown, *call.rest]
        at.calls += len(left)
        at.unwritten += 1
        at.usage += sum((estimate_of(synthesizer, what.text) for what in left), NO_USAGE)
    for i in calls:
        at.close(i, None)


def _instead(
    of: WithSynopsis, synthesizer: Resuming, shown: Shown, synopsis: Synopsis, before: Synopsis | None
) -> Synopsis:
    """A synopsis that did not come: the one of before, or else one by whoever stands in, until it does."""
    if before and before.text:
        kept = replace(synopsis, text=before.text, producer_id=before.producer_id, state=before.state)
        return _saying(kept, "the summary of before stays")
    stand_in = synthesizer.stand_in
    if of.fallback is not None or stand_in is None:
        return with_fallback(of, shown, synopsis)
    written = whole(stand_in, shown).text
    return _saying(replace(synopsis, text=written, producer_id=stand_in.id), f"{stand_in.id} stands in")


def _saying(synopsis: Synopsis, what: str) -> Synopsis:
    return replace(synopsis, message=f"{synopsis.message}; {what}")
