"""Synopses by a batch API. The store remembers open batches, and any later run collects their results.

- Sending: record the intent, create the batch, record its id.
- Collecting: cache the results, record the usage, delete the files at the endpoint, drop the row.

A process that dies in between leaves its row, and repeating a step does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from findingaid.errors import SynthesisError
from findingaid.indexing.budget import BATCH_PRICE, BudgetTracker
from findingaid.llm.batch_api import BatchClient
from findingaid.model import NO_USAGE, Outcome, Synopsis, SynthesizerInput, Usage
from findingaid.protocols import CheckingSynthesizer, Synthesizer
from findingaid.store import Leases, OpenBatch, OpenBatches, Store, schemas
from findingaid.store.sql import equals
from findingaid.synthesis.openai_chat import OpenAISynthesizer

UNAVAILABLE = "unavailable"

DOWN = frozenset({"timeout", "transport", "auth"})
"""Kinds of failure after which the endpoint is not called again in this run."""

LOST_AFTER = timedelta(days=2)
"""Age after which a batch that the endpoint does not know counts as lost. A batch ends within a day.

One that is as far ahead was sent by a clock that was set back."""


def cached_synopses(store: Store, synthesizer: Synthesizer, keys: Collection[str]) -> dict[str, Synopsis]:
    """Return the cached results of these keys. A text that the synthesizer would not accept today is not there."""
    checking = synthesizer if isinstance(synthesizer, CheckingSynthesizer) else None
    found = store.lookup("calls", "key", keys, ("key", "outcome", "text", "state")).to_pylist()
    return {
        row["key"]: Synopsis(Outcome(row["outcome"]), row["text"], producer_id=synthesizer.id, state=row["state"] or "")
        for row in found
        if checking is None or row["outcome"] != Outcome.OK or checking.accepts(row["text"])
    }


def keep_synopses(store: Store, synthesizer: Synthesizer, made: Mapping[str, Synopsis]) -> None:
    """Store results in the call cache, except failures and pending ones."""
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


def choose_for_batch(synthesizer: Synthesizer, missing: Mapping[str, SynthesizerInput]) -> dict[str, SynthesizerInput]:
    """Return the texts to send by batch.

    None are sent if the synthesizer uses no batch API, or if they are fewer than its `batch_from`.
    """
    if not isinstance(synthesizer, OpenAISynthesizer) or synthesizer.batch_from is None:
        return {}
    api = synthesizer.batches()
    taken = {key: shown for key, shown in missing.items() if api.takes(shown.text)}
    return taken if len(taken) >= synthesizer.batch_from else {}


def waiting_by_key(store: Store, synthesizer: Synthesizer, keys: Collection[str]) -> dict[str, OpenBatch]:
    """Return key -> the open batch that it waits for, by the store alone."""
    batches = OpenBatches(store).of(producer_id=synthesizer.id)
    return {key: batch for batch in batches for key in set(keys).intersection(batch.keys)}


def collect_unwanted(synthesizer: Synthesizer, spending: BudgetTracker) -> None:
    """Collect batches that no artifact waits for any more, since it was deleted or changed, so that none stays open."""
    if not isinstance(synthesizer, OpenAISynthesizer):
        return
    batches = OpenBatches(spending.store).of(producer_id=synthesizer.id)
    if batches and not spending.store.count("ledger", equals("synopsis_outcome", Outcome.PENDING)):
        keys = {key for batch in batches for key in batch.keys}
        BatchJobs.of(synthesizer, synthesizer.batches(), spending).waiting(keys)


@dataclass
class BatchJobs:
    """Batch jobs of one synthesizer in one run."""

    synthesizer: Synthesizer
    api: BatchClient
    spending: BudgetTracker
    looked_at: dict[str, str] = field(default_factory=dict)
    """Maps the tag of an unfinished batch to its status message; each batch is polled once a run."""

    failed: dict[str, Synopsis] = field(default_factory=dict)
    """Failures by key in batches that ended; the next run requests these synopses again."""

    @classmethod
    def of(cls, synthesizer: Synthesizer, api: BatchClient, spending: BudgetTracker) -> BatchJobs:
        """Return the batches of this run; the same account gives the same object."""
        return spending.kept(synthesizer.id, lambda: cls(synthesizer, api, spending))

    def waiting(self, keys: Collection[str]) -> dict[str, str]:
        """Return key -> the batch that it waits for.

        Batches that have ended are collected: their results are then in the call cache or in `failed`.
        """
        found: dict[str, str] = {}
        for tag, mine in self._open(keys).items():
            stopped = self.spending.stopped.get(self.synthesizer.id)
            if tag not in self.looked_at and not stopped:
                self._look(tag)
            if why := self.looked_at.get(tag) or stopped:
                found |= dict.fromkeys(mine, why)
        return found

    def _open(self, keys: Collection[str]) -> dict[str, list[str]]:
        """Return tag -> the keys that wait for that batch.

        Reads the store each time: another run may have sent a batch a moment ago.
        """
        tags: dict[str, list[str]] = {}
        for key, batch in waiting_by_key(self.spending.store, self.synthesizer, keys).items():
            tags.setdefault(batch.tag, []).append(key)
        return tags

    def _look(self, tag: str) -> None:
        store = self.spending.store
        with Leases(store).alone(_lease(tag)):
            for batch in OpenBatches(store).of(tag=tag):  # empty if another run has just collected it
                try:
                    self._take_in(batch)
                except SynthesisError as error:
                    self.looked_at[tag] = f"{batch} cannot be inspected: {error}"
                    if error.kind in DOWN:
                        self.spending.stop(self.synthesizer, str(error))

    def _take_in(self, batch: OpenBatch) -> None:
        store = self.spending.store
        batch_id = batch.batch_id or self.api.find(batch.tag)
        if batch_id is None:  # the process that intended to send it is gone
            self.api.withdraw(batch.tag)
            OpenBatches(store).close(batch)
            return
        state = self.api.poll(batch_id, batch.keys)
        lost = not state.known and abs(datetime.now(UTC) - batch.at) > LOST_AFTER
        if not state.ended and not lost:
            self.looked_at[batch.tag] = str(batch) if state.known else f"{batch}, which the endpoint does not know"
            return
        known = cached_synopses(store, self.synthesizer, batch.keys)
        keep_synopses(store, self.synthesizer, {key: made for key, made in state.results.items() if key not in known})
        used = sum((self._used(batch, synopsis) for synopsis in state.results.values()), NO_USAGE)
        self.spending.settle(batch, self.synthesizer, used)
        self.failed |= {
            key: made
            for key, made in state.results.items()
            if made.outcome is Outcome.FAILED and made.kind != UNAVAILABLE and key not in known
        }
        if not lost:
            self.api.clean(batch_id)
        OpenBatches(store).close(batch)

    def _used(self, batch: OpenBatch, synopsis: Synopsis) -> Usage:
        """Return the usage of an answer.

        With a budget, an answer without token counts is charged its share of the batch's reservation.
        """
        if not self.spending.bounded or not synopsis.usage.calls or synopsis.usage.tokens:
            return synopsis.usage
        share = len(batch.keys)
        return Usage(synopsis.usage.calls, -(-batch.input_tokens // share), -(-batch.output_tokens // share))

    def send(self, corpus: str, missing: Mapping[str, SynthesizerInput]) -> dict[str, str]:
        """Send these to the batch API; return key -> the batch that it waits for. Raises SynthesisError.

        Batches sent before an error stay recorded.
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
        usage = sum((self.spending.most(self.synthesizer, text) for text in texts), NO_USAGE)
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
    """Return the name of the lease on a batch."""
    return f"*batch {tag}"
