"""What a run may spend on synopses, and what it spent: calls, tokens, and money by a table of prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.model import NO_USAGE, Synthesizer, Usage
from findingaid.store import Store, schemas
from findingaid.store.sql import equals

T = TypeVar("T")

PRICED_TOKENS = 1_000_000


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


@dataclass
class Spending:
    """The account of one run: kept in the store as it goes, so that every process of a run spends from one budget.

    `run` names the run. `stopped` says of a synthesizer's id why it is not asked any more.
    """

    store: Store
    budget: Budget = NO_BUDGET
    prices: Mapping[str, Price] = field(default_factory=dict)
    run: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))
    stopped: dict[str, str] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    cost: float = 0.0
    _kept: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def resumed(cls, store: Store, budget: Budget, prices: Mapping[str, Price], run: str) -> Spending:
        """The account of a run of which other processes may have spent already."""
        columns = ("calls", "input_tokens", "output_tokens", "cost")
        spent = store.rows("usage", columns, equals("run", run))
        calls, read, written, cost = (pc.sum(spent[column]).as_py() or 0 for column in columns)
        return cls(store, budget, prices, run, usage=Usage(calls, read, written), cost=cost)

    def price(self, synthesizer: Synthesizer, usage: Usage) -> float | None:
        """What usage costs; None where the model has no price. What uses no tokens is free."""
        price = self.prices.get(model_of(synthesizer))
        return price.of(usage) if price else None if usage.tokens else 0.0

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
            cost = factor * (self.price(synthesizer, usage - self.usage) or 0.0)
            if not self.budget.covers(usage, self.cost + cost):
                break
            count += 1
        return count

    def reserve(self, synthesizer: Synthesizer, texts: Sequence[str], factor: float = 1.0) -> None:
        """Count as spent what will be used after this run."""
        usage = sum((estimate_of(synthesizer, text) for text in texts), NO_USAGE)
        self.usage += usage
        self.cost += factor * (self.price(synthesizer, usage) or 0.0)

    def spend(self, corpus: str, synthesizer: Synthesizer, usage: Usage, factor: float = 1.0, note: str = "") -> None:
        """Enter what was used, at `factor` times the price, under the model's name with a note."""
        if usage == NO_USAGE:
            return
        price = self.price(synthesizer, usage)
        cost = None if price is None else factor * price
        self.usage += usage
        self.cost += cost or 0.0
        row = {
            "run": self.run,
            "corpus": corpus,
            "model": model_of(synthesizer) + note,
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": cost,
            "at": datetime.now(UTC),
        }
        self.store.append("usage", pa.Table.from_pylist([row], schema=schemas.USAGE))
