"""Calls of synthesizers: taken from the cache, or made within the budget and cached as their results arrive.

Claim extractors and producers of summary nodes are called in the same way, as synthesizers that write JSON.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Self

from findingaid.errors import RAISED, SynthesisError, failure_kind, one_line
from findingaid.identity.hashes import call_key, content_hash
from findingaid.indexing.batch_jobs import (
    UNAVAILABLE,
    BatchJobs,
    cached_synopses,
    choose_for_batch,
    keep_synopses,
    waiting_by_key,
)
from findingaid.indexing.budget import BATCH_PRICE, Account, Bounded, BudgetTracker, estimate_of, total
from findingaid.indexing.options import BuildOptions, Progress
from findingaid.llm.caller import UNREAD
from findingaid.llm.metering import OVER_BUDGET, UNPAID, paying_from
from findingaid.model import NO_USAGE, Outcome, Stage, Synopsis, SynthesizerInput, Usage
from findingaid.protocols import ArtifactSynthesizer, ConcurrentSynthesizer, ResumableSynthesizer, Synthesizer
from findingaid.synthesis.openai_chat import OpenAISynthesizer

GROUP, GROUP_SECONDS = 16, 1.0
"""Results are stored once there are GROUP of them, or GROUP_SECONDS after the last store. A crash loses at most such a
group and the calls in flight.
"""

TRIES = 5
"""Consecutive failures to reach a synthesizer after which it is not called any more."""

UNREACHED = frozenset({"transport", "timeout"})

SHARED_AT_ONCE = 64
"""Most synopses for which a process reserves money at once, from a shared budget. If it is killed, the others cannot
spend that reservation.
"""


@dataclass(frozen=True, slots=True)
class CallResults:
    """Results of calls for synopses, claims or summary nodes, or the prediction of them.

    `synopses` are by artifact id or, from `CachedCalls.make`, by key. `waiting` is the reason why some are left for the
    next run. `unwritten` counts predicted synopses; one may take several calls.
    """

    synopses: Mapping[str, Synopsis] = field(default_factory=dict)
    calls: int = 0
    unwritten: int = 0
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    waiting: str = ""

    def __add__(self, other: CallResults) -> CallResults:
        """Add the cost of other calls, whose results are not for the same artifacts."""
        return replace(
            self,
            calls=self.calls + other.calls,
            unwritten=self.unwritten + other.unwritten,
            usage=self.usage + other.usage,
            cost=total([self.cost, other.cost]),
            waiting=self.waiting or other.waiting,
        )


@dataclass(frozen=True)
class CallContext:
    """How a stage calls models: for which corpus, on which account, and whether it may.

    With `pay` false no model is called: results that are not cached are left out, and their usage is estimated. With
    `again` cached results are dropped, so that the model is called anew.
    """

    spending: BudgetTracker
    corpus: str
    stage: Stage = Stage.SYNOPSES
    pay: bool = True
    again: bool = False
    progress: Progress | None = None

    @classmethod
    def of_stage(cls, stage: Stage, spending: BudgetTracker, corpus: str, options: BuildOptions) -> Self:
        """Return the context of a stage by the options of a build."""
        return cls(spending, corpus, stage, options.pays(stage), options.repays(stage), options.progress)

    def cached(self, synthesizer: Synthesizer, keys: Collection[str]) -> dict[str, Synopsis]:
        """Return the cached results by key. With `again` there are none, and those of the synthesizer are dropped."""
        if self.again:
            self.spending.store.drop("calls", "key", list(keys))
            return {}
        return cached_synopses(self.spending.store, synthesizer, keys)


def synopsis_key(producer: str, shown: SynthesizerInput) -> str:
    """Return the key in the call cache for a synthesizer and its input."""
    read: list[object] = [shown.text, shown.metadata]
    if shown.segments:
        read.append(shown.segments)
    if shown.artifact:
        artifact = shown.artifact
        read.append({"artifact_id": artifact.artifact_id, "raw": artifact.raw, "metadata": artifact.metadata})
    return call_key(producer, content_hash(*read))


@dataclass
class CachedCalls:
    """Calls of one synthesizer: cached, and within the run's budget."""

    synthesizer: Synthesizer
    context: CallContext
    usage: Usage = NO_USAGE
    made: dict[str, Synopsis] = field(default_factory=dict)
    found: dict[str, Synopsis] = field(default_factory=dict)
    """Results that other processes of the run have cached since this one looked."""

    pending: dict[str, str] = field(default_factory=dict)
    """Key -> the reason why it is left for the next run."""

    unpaid: set[str] = field(default_factory=set)
    """Keys whose requests the budget cut off halfway."""

    def results(self, shown: Mapping[str, SynthesizerInput]) -> CallResults:
        """Return the results by artifact id, with one call for each content; see `CallContext`."""
        keys = {i: synopsis_key(self.synthesizer.id, what) for i, what in shown.items()}
        known = self.context.cached(self.synthesizer, set(keys.values()))
        missing = {key: shown[i] for i, key in keys.items() if key not in known}
        made = self.make(missing)
        known |= made.synopses
        return replace(made, synopses={i: known[key] for i, key in keys.items() if key in known})

    @property
    def spending(self) -> BudgetTracker:
        return self.context.spending

    def _predict(self, missing: Mapping[str, SynthesizerInput]) -> CallResults:
        """Estimate the most that these synopses take, without a call. Those in an open batch are pending."""
        waits = waiting_by_key(self.spending.store, self.synthesizer, missing)
        new = {key: shown for key, shown in missing.items() if key not in waits}
        by_batch = choose_for_batch(self.synthesizer, new)

        def usage(keys: Collection[str]) -> Usage:
            return sum((estimate_of(self.synthesizer, new[key].text) for key in keys), NO_USAGE)

        later, now = usage(by_batch), usage(new.keys() - by_batch.keys())
        price = self.spending.price
        cost = total([price(self.synthesizer, later, BATCH_PRICE), price(self.synthesizer, now)])
        pending = {key: Synopsis(Outcome.PENDING, message=str(batch)) for key, batch in waits.items()}
        why = next((synopsis.message for synopsis in pending.values()), "")
        return CallResults(pending, len(new), len(new), later + now, cost, why)

    def make(self, missing: Mapping[str, SynthesizerInput]) -> CallResults:
        """Make the calls of these keys, but for those that another process of the run has cached since.

        Without `pay` they are only estimated.
        """
        if not missing:
            return CallResults()
        if not self.context.pay:
            return self._predict(missing)
        self._report(added=len(missing))
        with self.spending.turn():
            if self.spending.shared:
                self.found = cached_synopses(self.spending.store, self.synthesizer, missing)
            self._call({key: shown for key, shown in missing.items() if key not in self.found})
        pending = {key: Synopsis(Outcome.PENDING, message=why) for key, why in self.pending.items()}
        cost = self.spending.price(self.synthesizer, self.usage)
        waiting = next(iter(self.pending.values()), "")
        return CallResults(self.found | self.made | pending, len(self.made), 0, self.usage, cost, waiting)

    def _report(self, added: int = 0, done: int = 0) -> None:
        if self.context.progress:
            self.context.progress(self.context.stage.value, added, done)

    @cached_property
    def _account(self) -> Account:
        return Account(self.spending, self.synthesizer)

    def _call(self, missing: Mapping[str, SynthesizerInput]) -> None:
        sent = self._by_batch(self.synthesizer, missing) if isinstance(self.synthesizer, OpenAISynthesizer) else {}
        waits = self._one_by_one({key: shown for key, shown in missing.items() if key not in sent})
        self.pending |= {key: sent.get(key, waits) for key in missing if key not in self.made}

    def _one_by_one(self, missing: Mapping[str, SynthesizerInput]) -> str:
        """Make these calls now, as far as the budget reaches; return the reason why some are left."""
        mosts = {key: self.spending.most(self.synthesizer, shown.text) for key, shown in missing.items()}
        while left := [key for key in missing if key not in self.made and key not in self.unpaid]:
            if why := self.spending.stopped.get(self.synthesizer.id):
                return why
            # One that is too long for the rest of the budget must not block those behind it.
            fitting = [key for key in left if self._affordable([mosts[key]])]
            count = self._affordable([mosts[key] for key in fitting])
            if not count:
                return self.spending.over(self.synthesizer, mosts[left[0]])
            if self.spending.shared and self.spending.bounded:
                count = min(count, SHARED_AT_ONCE)
            self._some({key: missing[key] for key in fitting[:count]}, mosts)
        return OVER_BUDGET

    def _affordable(self, mosts: Sequence[Usage]) -> int:
        return self.spending.affordable(self.synthesizer, mosts)

    def _by_batch(self, synthesizer: OpenAISynthesizer, missing: Mapping[str, SynthesizerInput]) -> dict[str, str]:
        """Return key -> the batch that it waits for; results of batches that have ended go to `made`."""
        batches = BatchJobs.of(self.synthesizer, synthesizer.batches(), self.spending)
        sent = batches.waiting(missing)
        # Only after `waiting`: a batch that is gone from the store has put its results in the cache.
        self.made |= cached_synopses(self.spending.store, self.synthesizer, missing)
        self.made |= {key: batches.failed[key] for key in missing if key in batches.failed}
        new = {key: shown for key, shown in missing.items() if key not in self.made and key not in sent}
        due = choose_for_batch(self.synthesizer, new)
        mosts = [self.spending.most(self.synthesizer, shown.text) for shown in due.values()]
        count = self.spending.affordable(self.synthesizer, mosts, BATCH_PRICE)
        if count and self.synthesizer.id not in self.spending.stopped:
            try:
                sent |= batches.send(self.context.corpus, dict(list(due.items())[:count]))
            except SynthesisError as error:
                self.spending.stop(self.synthesizer, f"no batch was sent: {error}")
        return sent

    def _some(self, missing: Mapping[str, SynthesizerInput], mosts: Mapping[str, Usage]) -> None:
        """Make all of these calls, storing the results in groups."""
        if not self.spending.bounded:
            self._in_groups(missing, mosts)
            return
        with self._account.holding(sum((mosts[key] for key in missing), NO_USAGE)), paying_from(self._account):
            self._in_groups(missing, mosts)

    def _in_groups(self, missing: Mapping[str, SynthesizerInput], mosts: Mapping[str, Usage]) -> None:
        keys = list(missing)
        group: dict[str, Synopsis] = {}
        since = time.monotonic()
        try:
            for place, synopsis in _results(self.synthesizer, list(missing.values())):
                if synopsis.kind == UNPAID:
                    self.unpaid.add(keys[place])
                    continue
                if synopsis.kind == UNAVAILABLE:
                    self.spending.stop(self.synthesizer, synopsis.message or "not tried")
                    continue
                group[keys[place]] = replace(_storable(synopsis), producer_id=self.synthesizer.id)
                if len(group) >= GROUP or time.monotonic() - since > GROUP_SECONDS:
                    self._keep(group, mosts)
                    group, since = {}, time.monotonic()
                self._report(done=1)
        finally:  # also on an interrupt: these results are paid for
            self._keep(group, mosts)
        if self.synthesizer.id not in self.spending.stopped:  # else `_one_by_one` would never end
            silent = Synopsis(Outcome.FAILED, kind="other", message="the synthesizer returned no answer")
            self.made |= dict.fromkeys(missing.keys() - self.made.keys() - self.unpaid, silent)

    def _keep(self, group: Mapping[str, Synopsis], mosts: Mapping[str, Usage]) -> None:
        keep_synopses(self.spending.store, self.synthesizer, group)
        used = self._account.drain()
        self.spending.enter(self.context.corpus, self.synthesizer, used)
        if not (self._account.began and isinstance(self.synthesizer, Bounded)):
            said = sum((self._used(synopsis, mosts[key]) for key, synopsis in group.items()), NO_USAGE)
            self.spending.spend(self.context.corpus, self.synthesizer, said)
            used += said
        self.usage += used
        self.made |= group

    def _used(self, synopsis: Synopsis, most: Usage) -> Usage:
        """Return the usage of a synopsis; with a budget, the possible maximum if the synthesizer reports none."""
        untold = synopsis.usage.calls and not synopsis.usage.tokens
        return most if untold and self.spending.bounded else synopsis.usage


def _results(synthesizer: Synthesizer, shown: Sequence[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
    """Yield synopses as they arrive, each with its place in `shown`."""
    if isinstance(synthesizer, ConcurrentSynthesizer):
        yield from synthesizer.synthesize_all(shown)
        return
    if (
        isinstance(synthesizer, ResumableSynthesizer)
        and synthesizer.at_once > 1
        and all(what.segments for what in shown)
    ):
        yield from _side_by_side(synthesizer, shown)
        return
    unreached = 0
    for place, what in enumerate(shown):
        if unreached < TRIES:
            last = call_synthesizer(synthesizer, what)
            unreached = unreached + 1 if last.kind in UNREACHED else 0
            yield place, last
        else:
            yield place, Synopsis(Outcome.FAILED, kind=UNAVAILABLE, message=f"not tried: {last.message}")


def _side_by_side(
    synthesizer: ResumableSynthesizer, shown: Sequence[SynthesizerInput]
) -> Iterator[tuple[int, Synopsis]]:
    left = enumerate(shown)
    with ThreadPoolExecutor(synthesizer.at_once) as pool:
        calls: dict[Future[Synopsis], int] = {}
        try:
            while True:
                for place, what in islice(left, synthesizer.at_once + UNREAD - len(calls)):
                    calls[pool.submit(copy_context().run, synthesizer.resume, what)] = place
                if not calls:
                    return
                for call in wait(calls, return_when=FIRST_COMPLETED).done:
                    yield calls.pop(call), call.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def call_synthesizer(synthesizer: Synthesizer, shown: SynthesizerInput) -> Synopsis:
    """Make one call and return its synopsis, or a failed one; never raise."""
    if shown.segments and isinstance(synthesizer, ResumableSynthesizer):
        return synthesizer.resume(shown)
    text: Any
    try:
        if shown.artifact and isinstance(synthesizer, ArtifactSynthesizer):
            text = synthesizer.synthesize_artifact(shown.text, shown.metadata, shown.artifact)
        else:
            text = synthesizer.synthesize(shown.text, shown.metadata)
    except RAISED as error:  # whatever went wrong, the artifact keeps its other surfaces
        return Synopsis(Outcome.FAILED, kind=failure_kind(error), message=one_line(error), usage=Usage(calls=1))
    if not isinstance(text, str):
        message = f'the synthesizer returned {type(text).__name__}, not a text: return "" for nothing to say'
        return Synopsis(Outcome.FAILED, kind="parse", message=message, usage=Usage(calls=1))
    text = text.strip()
    return _storable(Synopsis(Outcome.OK if text else Outcome.EMPTY, text, usage=Usage(calls=1)))


def _storable(synopsis: Synopsis) -> Synopsis:
    """Return the synopsis; a failed one if its text cannot be stored in a table."""
    try:
        synopsis.text.encode()
    except UnicodeEncodeError:
        message = "the synthesizer wrote text that is not valid Unicode"
        return Synopsis(Outcome.FAILED, kind="parse", message=message, usage=synopsis.usage)
    return synopsis
