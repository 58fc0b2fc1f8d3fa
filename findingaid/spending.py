"""What a run may spend on synopses, and what it spent: calls, tokens, and money by a table of prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from findingaid.model import NO_USAGE, Synthesizer, Usage
from findingaid.store import Leases, OpenBatch, OpenBatches, Store, schemas
from findingaid.store.sql import equals

T = TypeVar("T")

PRICED_TOKENS = 1_000_000

BATCH_PRICE = 0.5
"""Of a call by the batch API, beside one at once (https://platform.openai.com/docs/guides/batch)."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in any one currency, a million tokens."""

    input: float
    output: float

    def of(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / PRICED_TOKENS


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one run may use of synthesizers; None is no bound."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    def covers(self, usage: Usage, cost: float) -> bool:
        return all(
            bound is None or used <= bound
            for bound, used in ((self.calls, usage.calls), (self.tokens, usage.tokens), (self.money, cost))
        )


NO_BUDGET = Budget()


@runtime_checkable
class Estimating(Protocol):
    """A synthesizer that knows beforehand what a synopsis will take."""

    def estimate(self, text: str) -> Usage:
        """The calls and tokens of one synopsis, at most; without a call."""


@runtime_checkable
class OfModel(Protocol):
    """A synthesizer that asks a model which has a price."""

    @property
    def model(self) -> str:
        """The model's name, as in the table of prices."""


def model_of(synthesizer: Synthesizer) -> str:
    """The name under which a synthesizer's usage is counted and priced."""
    return synthesizer.model if isinstance(synthesizer, OfModel) else synthesizer.id


def estimate_of(synthesizer: Synthesizer, text: str) -> Usage:
    """What a synopsis will take, at most; of a synthesizer that does not say, a call and no tokens."""
    return synthesizer.estimate(text) if isinstance(synthesizer, Estimating) else Usage(calls=1)


def total(costs: Iterable[float | None]) -> float | None:
    """The sum of costs; None where one is not known."""
    known = list(costs)
    return None if None in known else sum(filter(None, known))


@dataclass
class Spending:
    """The account of one run: kept in the store as it goes, so that every process of a run spends from one budget.

    `run` names the run, of which there are other processes where it is `shared`. `stopped` says of a synthesizer's id
    why it is not asked any more.
    """

    store: Store
    budget: Budget = NO_BUDGET
    prices: Mapping[str, Price] = field(default_factory=dict)
    run: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))
    shared: bool = False
    stopped: dict[str, str] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    cost: float = 0.0
    _kept: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is spent while this is held is within the budget, whatever other processes of the run spend.

        With a budget they take turns, since what calls take is known after them only.
        """
        if not self.shared:
            yield
            return
        with nullcontext() if self.budget == NO_BUDGET else Leases(self.store).alone(f"budget of {self.run}"):
            self._refresh()
            yield

    def _refresh(self) -> None:
        """Take over what other processes of the run have spent, and whom they found not to answer."""
        columns = ("producer_id", "calls", "input_tokens", "output_tokens", "cost", "stopped")
        rows = self.store.rows("usage", columns, equals("run", self.run)).to_pylist()
        self.stopped |= {row["producer_id"]: row["stopped"] for row in rows if row["stopped"]}
        self.usage = sum((Usage(row["calls"], row["input_tokens"], row["output_tokens"]) for row in rows), NO_USAGE)
        self.cost = sum(row["cost"] or 0.0 for row in rows)
        for batch in OpenBatches(self.store).of(run=self.run):
            self.reserve(batch)

    def price(self, synthesizer: Synthesizer, usage: Usage, factor: float = 1.0) -> float | None:
        """What usage costs, at `factor` times the price; None where the model has none. What uses no tokens is free."""
        price = self.prices.get(model_of(synthesizer))
        return factor * price.of(usage) if price else None if usage.tokens else 0.0

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What one run makes once."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def affordable(self, synthesizer: Synthesizer, texts: Sequence[str], factor: float = 1.0) -> int:
        """How many of these synopses, from the first on, the budget covers at most, at `factor` times the price."""
        if self.budget == NO_BUDGET:
            return len(texts)
        usage, count = self.usage, 0
        for text in texts:
            usage += estimate_of(synthesizer, text)
            cost = self.price(synthesizer, usage - self.usage, factor) or 0.0
            if not self.budget.covers(usage, self.cost + cost):
                break
            count += 1
        return count

    def reserve(self, batch: OpenBatch) -> None:
        """Count as spent what a batch will use after this run."""
        self.usage += Usage(batch.calls, batch.input_tokens, batch.output_tokens)
        self.cost += batch.cost or 0.0

    def spend(self, corpus: str, synthesizer: Synthesizer, usage: Usage) -> None:
        """Enter what was used."""
        if usage == NO_USAGE:
            return
        cost = self.price(synthesizer, usage)
        self.usage += usage
        self.cost += cost or 0.0
        self._enter(self.run, corpus, synthesizer, model_of(synthesizer), usage, cost)

    def settle(self, batch: OpenBatch, synthesizer: Synthesizer, usage: Usage) -> None:
        """Enter what a batch has used, once, for the run that sent it: its budget was reserved by that."""
        entered = self.store.rows("usage", ["at"], equals("run", batch.run))["at"].to_pylist()
        if usage == NO_USAGE or batch.at in entered:
            return
        cost = self.price(synthesizer, usage, BATCH_PRICE)
        self._enter(batch.run, batch.corpus, synthesizer, f"{model_of(synthesizer)} (batch)", usage, cost, at=batch.at)

    def stop(self, synthesizer: Synthesizer, why: str) -> None:
        """Ask a synthesizer no more in this run."""
        if synthesizer.id not in self.stopped:
            self.stopped[synthesizer.id] = why
            if self.shared:
                self._enter(self.run, "", synthesizer, model_of(synthesizer), NO_USAGE, None, why)

    def _enter(
        self,
        run: str,
        corpus: str,
        synthesizer: Synthesizer,
        model: str,
        usage: Usage,
        cost: float | None,
        stopped: str | None = None,
        at: datetime | None = None,
    ) -> None:
        row = {
            "run": run,
            "corpus": corpus,
            "model": model,
            "producer_id": synthesizer.id,
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": cost,
            "stopped": stopped,
            "at": at or datetime.now(UTC),
        }
        self.store.append("usage", pa.Table.from_pylist([row], schema=schemas.USAGE))
