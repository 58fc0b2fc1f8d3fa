"""Synopses by a batch API: what was sent is remembered in the store, and whichever run comes later takes it in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from findingaid.errors import SynthesisError
from findingaid.model import NO_USAGE, Outcome, Shown, Synopsis, Synthesizer
from findingaid.spending import Spending
from findingaid.store import Store, schemas
from findingaid.store.sql import equals

UNAVAILABLE = "unavailable"

PRICE = 0.5
"""Of a call by the batch API, beside one at once (https://platform.openai.com/docs/guides/batch)."""


class BatchState(Protocol):
    """How far a batch is."""

    @property
    def ended(self) -> bool: ...
    @property
    def total(self) -> int: ...
    @property
    def completed(self) -> int: ...
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
    def tag(self, keys: Iterable[str], attempt: int = 0) -> str: ...
    def find(self, tag: str) -> str | None: ...
    def submit(self, batch: Any, attempt: int = 0) -> str: ...
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


def cached(store: Store, synthesizer: Synthesizer, keys: set[str]) -> dict[str, Synopsis]:
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


@dataclass(frozen=True, slots=True)
class Open:
    """A batch that was sent, or was about to be; `batch_id` is "" where that is not known."""

    tag: str
    batch_id: str
    corpus: str
    producer_id: str
    keys: Sequence[str]
    at: datetime

    def __str__(self) -> str:
        return f"batch {self.batch_id or self.tag} of {len(self.keys):,} synopses, sent {self.at:%Y-%m-%d %H:%M} UTC"


def open_batches(store: Store, producer_id: str | None = None) -> list[Open]:
    """What was sent and not taken in yet, oldest first."""
    where = None if producer_id is None else equals("producer_id", producer_id)
    columns = ("tag", "batch_id", "corpus", "producer_id", "keys", "at")
    rows = store.rows("batches", columns, where).sort_by([("at", "ascending")]).to_pylist()
    return list({row["tag"]: Open(**row) for row in sorted(rows, key=lambda row: bool(row["batch_id"]))}.values())


def ended(store: Store, synthesizer: Synthesizer) -> list[Open]:
    """The batches of a synthesizer whose results are there, or which will have none. Raises SynthesisError."""
    if not isinstance(synthesizer, Batching):
        return []
    api = synthesizer.batches()
    return [batch for batch in open_batches(store, synthesizer.id) if batch.batch_id and api.poll(batch.batch_id).ended]


@dataclass
class Batches:
    """The batches of one synthesizer in one run."""

    synthesizer: Synthesizer
    api: BatchAPI
    spending: Spending
    waiting: dict[str, str] = field(default_factory=dict)
    """Key -> the batch that it waits for."""

    failed: dict[str, Synopsis] = field(default_factory=dict)
    """Key -> what went wrong in a batch that ended; asked for again by the next run."""

    def take_in(self) -> None:
        """Keep the results of what has ended. A crash at any point has this done again, and nothing paid again."""
        for batch in open_batches(self.spending.store, self.synthesizer.id):
            try:
                self._take_in(batch)
            except SynthesisError as error:
                self.waiting |= dict.fromkeys(batch.keys, f"{batch} cannot be looked at: {error}")

    def _take_in(self, batch: Open) -> None:
        store = self.spending.store
        batch_id = batch.batch_id or self.api.find(batch.tag)
        if batch_id is None:  # the process ended before it was sent
            store.drop("batches", "tag", [batch.tag])
            return
        state = self.api.poll(batch_id, batch.keys)
        if not state.ended:
            done = f"{state.completed:,} of {state.total or len(batch.keys):,} done"
            self.waiting |= dict.fromkeys(batch.keys, f"{batch}: {done}")
            return
        known = cached(store, self.synthesizer, set(batch.keys))
        fresh = {key: synopsis for key, synopsis in state.results.items() if key not in known}
        keep(store, self.synthesizer, fresh)
        used = sum((synopsis.usage for synopsis in fresh.values()), NO_USAGE)
        self.spending.spend(batch.corpus, self.synthesizer, used, PRICE, " (batch)")
        self.failed |= {
            key: synopsis
            for key, synopsis in fresh.items()
            if synopsis.outcome is Outcome.FAILED and synopsis.kind != UNAVAILABLE
        }
        store.drop("batches", "tag", [batch.tag])
        self.api.clean(batch_id)

    def send(self, corpus: str, missing: Mapping[str, Shown]) -> None:
        """Have these written by the batch API. Raises SynthesisError, with what was sent before remembered."""
        for batch in self.api.inputs(missing.items()):
            attempt, tag = self._unused(batch.keys)
            self._remember(corpus, tag, "", batch.keys)
            batch_id = self.api.submit(batch, attempt)
            self._remember(corpus, tag, batch_id, batch.keys)
            self.waiting |= dict.fromkeys(batch.keys, f"batch {batch_id} of {len(batch.keys):,} synopses was sent")

    def _unused(self, keys: Sequence[str]) -> tuple[int, str]:
        """The first attempt at these keys that no batch which ended stands for."""
        attempt = 0
        while (found := self.api.find(tag := self.api.tag(keys, attempt))) and self.api.poll(found).ended:
            attempt += 1
        return attempt, tag

    def _remember(self, corpus: str, tag: str, batch_id: str, keys: Sequence[str]) -> None:
        row = {
            "tag": tag,
            "batch_id": batch_id,
            "corpus": corpus,
            "producer_id": self.synthesizer.id,
            "keys": list(keys),
            "at": datetime.now(UTC),
        }
        self.spending.store.append("batches", pa.Table.from_pylist([row], schema=schemas.BATCHES))
