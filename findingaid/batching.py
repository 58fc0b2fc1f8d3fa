"""Synopses by a batch API: what was sent is remembered in the store, and whichever run comes later takes it in.

Sent: the intent is written, the batch made, its id written. Taken in: the results are kept, the usage is entered, the
files at the endpoint are deleted, the row is dropped. Whoever dies in between leaves a row, and to do a step again does
no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from findingaid.errors import SynthesisError
from findingaid.model import NO_USAGE, Outcome, Shown, Synopsis, Synthesizer
from findingaid.spending import BATCH_PRICE, Spending, estimate_of
from findingaid.store import Leases, OpenBatch, OpenBatches, Store, schemas
from findingaid.store.sql import equals

UNAVAILABLE = "unavailable"

DOWN = frozenset({"timeout", "transport", "auth"})
"""Kinds of failure that say of an endpoint that it is not worth asking further."""

LOST_AFTER = timedelta(days=2)
"""A batch ends within a day. One that the endpoint does not know long after is lost, and not merely elsewhere."""


class BatchState(Protocol):
    """How far a batch is."""

    @property
    def known(self) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def results(self) -> Mapping[str, Synopsis]: ...


class BatchInput(Protocol):
    """What is sent at once."""

    @property
    def keys(self) -> Sequence[str]: ...


class BatchAPI(Protocol):
    """Where batches are sent; `findingaid.synthesis.batch.OpenAIBatches` says what each of these does."""

    def takes(self, text: str) -> bool: ...
    def inputs(self, shown: Iterable[tuple[str, Shown]]) -> Iterator[Any]: ...
    def tag(self, keys: Iterable[str]) -> str: ...
    def find(self, tag: str) -> str | None: ...
    def submit(self, batch: Any) -> str: ...
    def withdraw(self, tag: str) -> None: ...
    def ended(self, batch_id: str) -> bool: ...
    def poll(self, batch_id: str, keys: Iterable[str] = ()) -> BatchState: ...
    def clean(self, batch_id: str) -> None: ...


@runtime_checkable
class Batching(Protocol):
    """A synthesizer that may be asked by a batch API."""

    @property
    def batch_from(self) -> int | None:
        """How many synopses must be missing at once for that; None for never."""

    def batches(self) -> BatchAPI:
        """Where its batches are sent."""


def cached(store: Store, synthesizer: Synthesizer, keys: Collection[str]) -> dict[str, Synopsis]:
    """What the call cache has of these keys."""
    found = store.lookup("calls", "key", keys, ("key", "outcome", "text", "state")).to_pylist()
    return {
        row["key"]: Synopsis(Outcome(row["outcome"]), row["text"], producer_id=synthesizer.id, state=row["state"] or "")
        for row in found
    }


def keep(store: Store, synthesizer: Synthesizer, made: Mapping[str, Synopsis]) -> None:
    """Put results into the call cache, failures apart."""
    rows = [
        {
            "key": key,
            "producer_id": synthesizer.id,
            "outcome": synopsis.outcome.value,
            "text": synopsis.text,
            "state": synopsis.state or None,
        }
        for key, synopsis in made.items()
        if synopsis.outcome.settled
    ]
    store.append("calls", pa.Table.from_pylist(rows, schema=schemas.CALLS))


def for_batch(synthesizer: Synthesizer, missing: Mapping[str, Shown]) -> dict[str, Shown]:
    """What of this is to be asked for by batch: nothing, unless there is enough of it."""
    if not isinstance(synthesizer, Batching) or synthesizer.batch_from is None:
        return {}
    api = synthesizer.batches()
    taken = {key: shown for key, shown in missing.items() if api.takes(shown.text)}
    return taken if len(taken) >= synthesizer.batch_from else {}


def waiting(store: Store, synthesizer: Synthesizer, keys: Collection[str]) -> dict[str, OpenBatch]:
    """Key -> the batch that it waits for, by the store alone."""
    batches = OpenBatches(store).of(producer_id=synthesizer.id)
    return {key: batch for batch in batches for key in set(keys).intersection(batch.keys)}


def ended(store: Store, synthesizer: Synthesizer) -> list[OpenBatch]:
    """The batches of a synthesizer whose results are there, or which will have none. Raises SynthesisError."""
    if not isinstance(synthesizer, Batching):
        return []
    api = synthesizer.batches()

    def over(batch: OpenBatch) -> bool:
        batch_id = batch.batch_id or api.find(batch.tag)
        return api.ended(batch_id) if batch_id else not Leases(store).held(_lease(batch.tag))

    return [batch for batch in OpenBatches(store).of(producer_id=synthesizer.id) if over(batch)]


def take_in_unwanted(synthesizer: Synthesizer, spending: Spending) -> None:
    """Take in what no artifact waits for any more, since those were deleted or changed: so that nothing stays open."""
    if not isinstance(synthesizer, Batching):
        return
    batches = OpenBatches(spending.store).of(producer_id=synthesizer.id)
    if batches and not spending.store.count("ledger", equals("synopsis_outcome", Outcome.PENDING)):
        keys = {key for batch in batches for key in batch.keys}
        Batches.of(synthesizer, synthesizer.batches(), spending).waiting(keys)


@dataclass
class Batches:
    """The batches of one synthesizer in one run."""

    synthesizer: Synthesizer
    api: BatchAPI
    spending: Spending
    looked_at: dict[str, str] = field(default_factory=dict)
    """The tag of a batch that is not done -> what to say of it; asked for once a run."""

    failed: dict[str, Synopsis] = field(default_factory=dict)
    """Key -> what went wrong in a batch that ended; asked for again by the next run."""

    @classmethod
    def of(cls, synthesizer: Synthesizer, api: BatchAPI, spending: Spending) -> Batches:
        """Those of a run: the same ones for the same account."""
        return spending.kept(synthesizer.id, lambda: cls(synthesizer, api, spending))

    def waiting(self, keys: Collection[str]) -> dict[str, str]:
        """Key -> what it waits for. What has ended is taken in: that is then in the call cache, or has failed."""
        found: dict[str, str] = {}
        for tag, mine in self._open(keys).items():
            stopped = self.spending.stopped.get(self.synthesizer.id)
            if tag not in self.looked_at and not stopped:
                self._look(tag)
            if why := self.looked_at.get(tag) or stopped:
                found |= dict.fromkeys(mine, why)
        return found

    def _open(self, keys: Collection[str]) -> dict[str, list[str]]:
        """Tag -> the keys that wait for that batch. Read anew each time: another run may have sent it a moment ago."""
        tags: dict[str, list[str]] = {}
        for key, batch in waiting(self.spending.store, self.synthesizer, keys).items():
            tags.setdefault(batch.tag, []).append(key)
        return tags

    def _look(self, tag: str) -> None:
        store = self.spending.store
        with Leases(store).alone(_lease(tag)):
            for batch in OpenBatches(store).of(tag=tag):  # none where another run has just taken it in
                try:
                    self._take_in(batch)
                except SynthesisError as error:
                    self.looked_at[tag] = f"{batch} cannot be looked at: {error}"
                    if error.kind in DOWN:
                        self.spending.stop(self.synthesizer, str(error))

    def _take_in(self, batch: OpenBatch) -> None:
        store = self.spending.store
        batch_id = batch.batch_id or self.api.find(batch.tag)
        if batch_id is None:  # whoever was about to send it is gone
            self.api.withdraw(batch.tag)
            OpenBatches(store).close(batch)
            return
        state = self.api.poll(batch_id, batch.keys)
        lost = not state.known and datetime.now(UTC) - batch.at > LOST_AFTER
        if not state.ended and not lost:
            self.looked_at[batch.tag] = str(batch) if state.known else f"{batch}, which the endpoint does not know"
            return
        known = cached(store, self.synthesizer, batch.keys)
        keep(store, self.synthesizer, {key: made for key, made in state.results.items() if key not in known})
        used = sum((synopsis.usage for synopsis in state.results.values()), NO_USAGE)
        self.spending.settle(batch, self.synthesizer, used)
        self.failed |= {
            key: made
            for key, made in state.results.items()
            if made.outcome is Outcome.FAILED and made.kind != UNAVAILABLE and key not in known
        }
        if not lost:
            self.api.clean(batch_id)
        OpenBatches(store).close(batch)

    def send(self, corpus: str, missing: Mapping[str, Shown]) -> dict[str, str]:
        """Have these written by the batch API; key -> what it waits for. Raises SynthesisError.

        What was sent before that is remembered.
        """
        sent: dict[str, str] = {}
        for content in self.api.inputs(missing.items()):
            batch = self._intended(corpus, content.keys, [missing[key].text for key in content.keys])
            with Leases(self.spending.store).alone(_lease(batch.tag)):
                OpenBatches(self.spending.store).intend(batch)
                batch = OpenBatches(self.spending.store).sent(batch, self.api.submit(content))
            self.spending.reserve(batch)
            self.looked_at[batch.tag] = str(batch)
            sent |= dict.fromkeys(batch.keys, str(batch))
        return sent

    def _intended(self, corpus: str, keys: Sequence[str], texts: Sequence[str]) -> OpenBatch:
        usage = sum((estimate_of(self.synthesizer, text) for text in texts), NO_USAGE)
        return OpenBatch(
            tag=self.api.tag(keys),
            batch_id="",
            corpus=corpus,
            producer_id=self.synthesizer.id,
            run=self.spending.run,
            keys=list(keys),
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=self.spending.price(self.synthesizer, usage, BATCH_PRICE),
            at=datetime.now(UTC),
        )


def _lease(tag: str) -> str:
    """The name of a lease on a batch."""
    return f"batch {tag}"
