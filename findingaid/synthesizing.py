"""Stage 3: synopses from the call cache, or by calls whose results are kept as they come.

Who finds claims and who writes summary nodes are asked in the same way, as synthesizers whose texts are JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import islice

from findingaid.batching import UNAVAILABLE, Batches, Batching, cached, for_batch, keep, waiting
from findingaid.errors import SynthesisError, failure_kind, one_line
from findingaid.identity import call_key, content_hash
from findingaid.model import (
    NO_USAGE,
    ConcurrentSynthesizer,
    Outcome,
    Resuming,
    Shown,
    Stage,
    Synopsis,
    Synthesizer,
    Usage,
)
from findingaid.spending import BATCH_PRICE, Spending, estimate_of, total
from findingaid.synopses import WithSynopsis

Progress = Callable[[str, int, int], None]
"""Called with a stage, how many more of its artifacts or texts there are, and how many more are done."""

GROUP, GROUP_SECONDS = 16, 1.0
"""Results are kept when there are so many, or so long after the last ones: what a crash makes paid again, beside
the calls that are under way."""

TRIES = 5
"""Failures in a row to reach a synthesizer after which it is not tried any more."""

UNREACHED = frozenset({"transport", "timeout"})

OVER_BUDGET = "the budget of this run is spent"


@dataclass(frozen=True, slots=True)
class Asked:
    """What asking for synopses, or the like, came to, or would; `waiting` says why some are left for the next run.

    `unwritten` counts the synopses that were only foreseen; one may take several calls.
    """

    synopses: Mapping[str, Synopsis] = field(default_factory=dict)
    calls: int = 0
    unwritten: int = 0
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    waiting: str = ""


def synopsis_key(producer: str, shown: Shown) -> str:
    """The key of what a synthesizer makes of what it is shown, in the call cache."""
    read = (shown.text, shown.metadata, shown.segments) if shown.segments else (shown.text, shown.metadata)
    return call_key(producer, content_hash(*read))


def ask(
    of: WithSynopsis,
    shown: Mapping[str, Shown],
    spending: Spending,
    corpus: str,
    pay: bool = True,
    progress: Progress | None = None,
) -> Asked:
    """Synopses by artifact id, with what the fallback writes where there is one; see `ask_writer`."""
    asked = ask_writer(of.synthesizer, shown, spending, corpus, Stage.SYNOPSES, pay, progress)
    if not pay:
        return asked
    return replace(asked, synopses={i: with_fallback(of, shown[i], s) for i, s in asked.synopses.items()})


def ask_writer(
    writer: Synthesizer,
    shown: Mapping[str, Shown],
    spending: Spending,
    corpus: str,
    stage: Stage,
    pay: bool = True,
    progress: Progress | None = None,
) -> Asked:
    """What a writer makes, by artifact id, each content once.

    With `pay` false nothing is called: what the cache lacks is left out, and estimated.
    """
    keys = {i: synopsis_key(writer.id, what) for i, what in shown.items()}
    known = cached(spending.store, writer, set(keys.values()))
    missing = {key: shown[i] for i, key in keys.items() if key not in known}
    if pay:
        asked = Asking(writer, spending, corpus, progress, stage).all(missing)
    else:
        asked = _foreseen(writer, spending, missing)
    known |= asked.synopses
    return replace(asked, synopses={i: known[key] for i, key in keys.items() if key in known})


def _foreseen(synthesizer: Synthesizer, spending: Spending, missing: Mapping[str, Shown]) -> Asked:
    """What asking for these will take, at most; without a call. What a batch is under way for waits."""
    waits = waiting(spending.store, synthesizer, missing)
    new = {key: shown for key, shown in missing.items() if key not in waits}
    by_batch = for_batch(synthesizer, new)

    def usage(keys: Collection[str]) -> Usage:
        return sum((estimate_of(synthesizer, new[key].text) for key in keys), NO_USAGE)

    later, now = usage(by_batch), usage(new.keys() - by_batch.keys())
    cost = total([spending.price(synthesizer, later, BATCH_PRICE), spending.price(synthesizer, now)])
    pending = {key: Synopsis(Outcome.PENDING, message=str(batch)) for key, batch in waits.items()}
    return Asked(pending, len(new), len(new), later + now, cost, next((s.message for s in pending.values()), ""))


@dataclass
class Asking:
    """Calls of one synthesizer for one corpus, within the run's budget."""

    synthesizer: Synthesizer
    spending: Spending
    corpus: str
    progress: Progress | None
    stage: Stage = Stage.SYNOPSES
    usage: Usage = NO_USAGE
    made: dict[str, Synopsis] = field(default_factory=dict)

    def all(self, missing: Mapping[str, Shown]) -> Asked:
        if not missing:
            return Asked()
        if self.progress:
            self.progress(self.stage.value, len(missing), 0)
        with self.spending.turn():
            sent = self._by_batch(self.synthesizer, missing) if isinstance(self.synthesizer, Batching) else {}
            waits = self._one_by_one({key: shown for key, shown in missing.items() if key not in sent})
        calls = len(self.made)
        pending = {key: sent.get(key, waits) for key in missing if key not in self.made}
        self.made |= {key: Synopsis(Outcome.PENDING, message=why) for key, why in pending.items()}
        cost = self.spending.price(self.synthesizer, self.usage)
        return Asked(self.made, calls, 0, self.usage, cost, next(iter(pending.values()), ""))

    def _one_by_one(self, missing: Mapping[str, Shown]) -> str:
        """Ask for these at once, as far as the budget reaches; returns why some are left."""
        while left := {key: shown for key, shown in missing.items() if key not in self.made}:
            if why := self.spending.stopped.get(self.synthesizer.id):
                return why
            # One that is too long for what is left must not keep those behind it from their turn.
            fitting = {key: shown for key, shown in left.items() if self._affordable(shown.text)}
            count = self._affordable(*(shown.text for shown in fitting.values()))
            if not count:
                return OVER_BUDGET
            self._some(dict(islice(fitting.items(), count)))
        return ""

    def _affordable(self, *texts: str) -> int:
        return self.spending.affordable(self.synthesizer, texts)

    def _by_batch(self, synthesizer: Batching, missing: Mapping[str, Shown]) -> dict[str, str]:
        """Key -> the batch that it waits for; what came of one that ended is made."""
        batches = Batches.of(self.synthesizer, synthesizer.batches(), self.spending)
        sent = batches.waiting(missing)
        # After that look: a batch that is gone from the store has left its results here.
        self.made |= cached(self.spending.store, self.synthesizer, missing)
        self.made |= {key: batches.failed[key] for key in missing if key in batches.failed}
        new = {key: shown for key, shown in missing.items() if key not in self.made and key not in sent}
        due = for_batch(self.synthesizer, new)
        count = self.spending.affordable(self.synthesizer, [shown.text for shown in due.values()], BATCH_PRICE)
        if count and self.synthesizer.id not in self.spending.stopped:
            try:
                sent |= batches.send(self.corpus, dict(list(due.items())[:count]))
            except SynthesisError as error:
                self.spending.stop(self.synthesizer, f"no batch was sent: {error}")
        return sent

    def _some(self, missing: Mapping[str, Shown]) -> None:
        """Ask for all of these, keeping a group of results at a time."""
        keys = list(missing)
        group: dict[str, Synopsis] = {}
        since = time.monotonic()
        try:
            for place, synopsis in _results(self.synthesizer, list(missing.values())):
                if synopsis.kind == UNAVAILABLE:
                    self.spending.stop(self.synthesizer, synopsis.message or "not tried")
                    continue
                group[keys[place]] = replace(_storable(synopsis), producer_id=self.synthesizer.id)
                if len(group) >= GROUP or time.monotonic() - since > GROUP_SECONDS:
                    self._keep(group)
                    group, since = {}, time.monotonic()
                if self.progress:
                    self.progress(self.stage.value, 0, 1)
        finally:  # also where somebody interrupts: these are paid for
            self._keep(group)
        if self.synthesizer.id not in self.spending.stopped:  # else nothing would ever be left
            silent = Synopsis(Outcome.FAILED, kind="other", message="the synthesizer gave no answer")
            self.made |= dict.fromkeys(missing.keys() - self.made.keys(), silent)

    def _keep(self, group: Mapping[str, Synopsis]) -> None:
        keep(self.spending.store, self.synthesizer, group)
        used = sum((synopsis.usage for synopsis in group.values()), NO_USAGE)
        self.spending.spend(self.corpus, self.synthesizer, used)
        self.usage += used
        self.made |= group


def _results(synthesizer: Synthesizer, shown: Sequence[Shown]) -> Iterator[tuple[int, Synopsis]]:
    """Synopses as they come, each with its place in `shown`."""
    if isinstance(synthesizer, ConcurrentSynthesizer):
        yield from synthesizer.synthesize_all(shown)
        return
    if isinstance(synthesizer, Resuming) and synthesizer.at_once > 1:
        yield from _side_by_side(synthesizer, shown)
        return
    unreached = 0
    for place, what in enumerate(shown):
        if unreached < TRIES:
            last = written(synthesizer, what)
            unreached = unreached + 1 if last.kind in UNREACHED else 0
            yield place, last
        else:
            yield place, Synopsis(Outcome.FAILED, kind=UNAVAILABLE, message=f"not tried: {last.message}")


def _side_by_side(synthesizer: Resuming, shown: Sequence[Shown]) -> Iterator[tuple[int, Synopsis]]:
    with ThreadPoolExecutor(synthesizer.at_once) as pool:
        calls = {pool.submit(synthesizer.resume, what): place for place, what in enumerate(shown)}
        try:
            for call in as_completed(calls):
                yield calls[call], call.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def written(synthesizer: Synthesizer, shown: Shown) -> Synopsis:
    """What one call makes, or why nothing; never raises."""
    if shown.segments and isinstance(synthesizer, Resuming):
        return synthesizer.resume(shown)
    try:
        text = synthesizer.synthesize(shown.text, shown.metadata)
    except Exception as error:  # noqa: BLE001  # whatever went wrong, the artifact keeps its other surfaces
        return Synopsis(Outcome.FAILED, kind=failure_kind(error), message=one_line(error), usage=Usage(calls=1))
    text = text.strip() if isinstance(text, str) else ""
    return _storable(Synopsis(Outcome.OK if text else Outcome.EMPTY, text, usage=Usage(calls=1)))


def _storable(synopsis: Synopsis) -> Synopsis:
    """The same, failed where it is of text that no table can hold."""
    try:
        synopsis.text.encode()
    except UnicodeEncodeError:
        message = "the synthesizer wrote what is no Unicode text"
        return Synopsis(Outcome.FAILED, kind="parse", message=message, usage=synopsis.usage)
    return synopsis


def with_fallback(of: WithSynopsis, shown: Shown, synopsis: Synopsis) -> Synopsis:
    """A synopsis that did not come, with what the fallback writes in its place until it does."""
    if of.fallback is None or synopsis.outcome.settled:
        return synopsis
    return replace(synopsis, text=written(of.fallback, shown).text, producer_id=of.fallback.id)
