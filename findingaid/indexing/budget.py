"""Budget and spending of a run on language models, in calls, tokens and money at configured prices.

Before a request is sent, the most that it may use is reserved. Afterwards its actual usage replaces the reservation.
Concurrent requests together therefore never exceed the budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from findingaid.errors import ConfigError
from findingaid.llm.metering import OVER_BUDGET
from findingaid.model import NO_USAGE, Usage
from findingaid.protocols import Synthesizer
from findingaid.store import Leases, OpenBatch, OpenBatches, Store, schemas
from findingaid.store.sql import equals

T = TypeVar("T")

PRICED_TOKENS = 1_000_000

BATCH_PRICE = 0.5
"""Price factor of a call by the batch API (https://platform.openai.com/docs/guides/batch)."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model per million tokens, in any one currency."""

    input: float
    output: float

    def of(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / PRICED_TOKENS


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the usage of synthesizers in one run; None means unlimited."""

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
    """A synthesizer that can estimate the usage of a synopsis."""

    def estimate(self, text: str) -> Usage:
        """Return the most calls and tokens that one synopsis takes, without making a call."""


@runtime_checkable
class Bounded(Estimating, Protocol):
    """A synthesizer whose estimate is a likely value, and that also knows the upper bound.

    Each of its requests is paid through `findingaid.llm.metering.pay_for`.
    """

    def most(self, text: str) -> Usage | None:
        """Return the most that the requests for one synopsis use, each sent once; None if an answer has no bound."""


@runtime_checkable
class OfModel(Protocol):
    """A synthesizer that calls a model with a price."""

    @property
    def model(self) -> str:
        """The model's name, as in the price table."""


def model_of(synthesizer: Synthesizer) -> str:
    """Return the name under which a synthesizer's usage is counted and priced."""
    return synthesizer.model if isinstance(synthesizer, OfModel) else synthesizer.id


def estimate_of(synthesizer: Synthesizer, text: str) -> Usage:
    """Return the estimated usage of a synopsis; one call and no tokens if the synthesizer cannot estimate."""
    return synthesizer.estimate(text) if isinstance(synthesizer, Estimating) else Usage(calls=1)


def most_of(synthesizer: Synthesizer, text: str) -> Usage | None:
    """Return the most that a synopsis uses; None if it has no bound."""
    return synthesizer.most(text) if isinstance(synthesizer, Bounded) else estimate_of(synthesizer, text)


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs; None if one of them is unknown."""
    known = list(costs)
    return None if None in known else sum(filter(None, known))


@dataclass
class BudgetTracker:
    """Spending account of one run, kept in the store so that all processes of the run share one budget.

    `run` names the run; `shared` tells whether it has other processes. `stopped` maps the id of a synthesizer to the
    reason why it is not called any more.
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
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def bounded(self) -> bool:
        """Whether there is a budget."""
        return self.budget != NO_BUDGET

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Load the spending of the run's other processes; does nothing if there are none.

        With a budget, its lock is held, so that they spend nothing meanwhile.
        """
        if not self.shared:
            yield
            return
        with Leases(self.store).alone(f"*budget of {self.run}") if self.bounded else nullcontext():
            self._refresh()
            yield

    def so_far(self) -> tuple[Usage, float]:
        """Return the usage and the cost of all processes of the run, with what they have set apart."""
        return _sum(self._entered()) if self.shared else (self.usage, self.cost)

    def _refresh(self) -> None:
        """Load the spending of all processes of the run, and the synthesizers that any of them has stopped calling."""
        rows = self._entered()
        self.stopped |= {row["producer_id"]: row["stopped"] for row in rows if row["stopped"]}
        self.usage, self.cost = _sum(rows)
        for batch in OpenBatches(self.store).of(run=self.run):
            self.reserve(batch)

    def _entered(self) -> list[dict[str, Any]]:
        """Return what the processes of the run have recorded in the store."""
        columns = ("producer_id", "calls", "input_tokens", "output_tokens", "cost", "stopped")
        rows: list[dict[str, Any]] = self.store.rows("usage", columns, equals("run", self.run)).to_pylist()
        return rows

    def price(self, synthesizer: Synthesizer, usage: Usage, factor: float = 1.0) -> float | None:
        """Return the cost of usage, at `factor` times the price.

        Without a price, usage of no tokens costs 0 and other usage has an unknown cost, None.
        """
        price = self.prices.get(model_of(synthesizer))
        return factor * price.of(usage) if price else None if usage.tokens else 0.0

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Return the object kept under `name`, made once a run."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    def most(self, synthesizer: Synthesizer, text: str) -> Usage:
        """Return the most that a synopsis uses, as far as the budget counts it; an estimate if there is no budget.

        Raises ConfigError if the budget needs a bound or a price that is missing.
        """
        return most_counted(self.budget, self.prices, synthesizer, text)

    def affordable(self, synthesizer: Synthesizer, mosts: Sequence[Usage], factor: float = 1.0) -> int:
        """Return how many synopses, from the first on, the budget covers in the worst case.

        They are counted at `factor` times the price.
        """
        if not self.bounded:
            return len(mosts)
        usage, count = NO_USAGE, 0
        for most in mosts:
            usage += most
            if not self._covers(usage, self.price(synthesizer, usage, factor) or 0.0):
                break
            count += 1
        return count

    def over(self, synthesizer: Synthesizer, most: Usage) -> str:
        """Return the reason why the budget has no room for a synopsis of this usage."""
        cost, budget = self.price(synthesizer, most) or 0.0, self.budget
        if budget.money is not None and self.cost + cost > budget.money:
            left = max(0.0, budget.money - self.cost)
            return f"{OVER_BUDGET}: the next synopsis may cost up to {cost:.4f}, and {left:.4f} is left"
        if budget.tokens is not None and self.usage.tokens + most.tokens > budget.tokens:
            left = max(0, budget.tokens - self.usage.tokens)
            return f"{OVER_BUDGET}: the next synopsis may use up to {most.tokens:,} tokens, and {left:,} are left"
        return OVER_BUDGET

    def _covers(self, usage: Usage, cost: float) -> bool:
        return self.budget.covers(self.usage + usage, self.cost + cost)

    def set_apart(self, usage: Usage, cost: float) -> bool:
        """Reserve the most that a request may use. Return False, with nothing reserved, if it exceeds the budget."""
        with self._lock:
            if not self._covers(usage, cost):
                return False
            self.usage += usage
            self.cost += cost
            return True

    def give_back(self, usage: Usage, cost: float) -> None:
        """Release the unused part of a reservation."""
        with self._lock:
            self.usage -= usage
            self.cost -= cost

    def reserve(self, batch: OpenBatch) -> None:
        """Count the usage of a batch that will be settled after this run."""
        with self._lock:
            self.usage += Usage(batch.calls, batch.input_tokens, batch.output_tokens)
            self.cost += batch.cost or 0.0

    def spend(self, corpus: str, synthesizer: Synthesizer, usage: Usage) -> None:
        """Count usage and record it in the store."""
        self.count(synthesizer, usage)
        self.enter(corpus, synthesizer, usage)

    def count(self, synthesizer: Synthesizer, usage: Usage) -> None:
        """Count usage as spent."""
        with self._lock:
            self.usage += usage
            self.cost += self.price(synthesizer, usage) or 0.0

    def enter(self, corpus: str, synthesizer: Synthesizer, usage: Usage) -> None:
        """Record in the store usage that is already counted."""
        if usage != NO_USAGE:
            cost = self.price(synthesizer, usage)
            self._enter(self.run, corpus, synthesizer, model_of(synthesizer), usage, cost)

    def settle(self, batch: OpenBatch, synthesizer: Synthesizer, usage: Usage) -> None:
        """Record the usage of a batch once, for the run that sent it; that run's budget reserved it."""
        entered = self.store.rows("usage", ["at"], equals("run", batch.run))["at"].to_pylist()
        if usage == NO_USAGE or batch.at in entered:
            return
        cost = self.price(synthesizer, usage, BATCH_PRICE)
        self._enter(batch.run, batch.corpus, synthesizer, f"{model_of(synthesizer)} (batch)", usage, cost, at=batch.at)

    def stop(self, synthesizer: Synthesizer, why: str) -> None:
        """Stop calling a synthesizer for the rest of this run."""
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


@dataclass
class Account:
    """Account of one synthesizer in one run, see `Reservations`, from which its requests are paid.

    If other processes share the budget, the possible usage is recorded in the store before it is spent. If this process
    is killed, the others count it as spent.
    """

    spending: BudgetTracker
    synthesizer: Synthesizer
    began: bool = False
    """Whether a request was paid from this account."""

    _used: Usage = NO_USAGE
    """Usage of completed requests that `drain` has not returned yet."""

    _open: Usage = NO_USAGE
    """The most that the requests made since the last `holding` may have used."""

    _held: Usage = NO_USAGE
    """Usage recorded in the store for those requests."""

    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def holding(self, most: Usage) -> Iterator[None]:
        """Record the most that the following requests use in the store, and take it back afterwards."""
        self._open = NO_USAGE
        try:
            self._hold(most)
            yield
        finally:
            self._hold(NO_USAGE - self._held)

    def reserve(self, most: Usage) -> bool:
        """See `findingaid.llm.metering.Reservations`."""
        cost = self.spending.price(self.synthesizer, most)
        if cost is None and self.spending.budget.money is not None:
            return False
        with self._lock:
            if not self.spending.set_apart(most, cost or 0.0):
                return False
            self.began = True
            self._open += most
            if not _within(self._open, self._held):  # retries need more than was recorded
                self._hold(most)
            return True

    def settle(self, most: Usage, used: Usage) -> None:
        """See `findingaid.llm.metering.Reservations`."""
        with self._lock:
            unused = most - used
            self.spending.give_back(unused, self.spending.price(self.synthesizer, unused) or 0.0)
            self._used += used

    def drain(self) -> Usage:
        """Return the usage since the last call of this method."""
        with self._lock:
            used, self._used = self._used, NO_USAGE
            return used

    def _hold(self, usage: Usage) -> None:
        if self.spending.shared and self.spending.bounded and usage != NO_USAGE:
            self.spending.enter("", self.synthesizer, usage)
            self._held += usage


def _sum(rows: Sequence[Mapping[str, Any]]) -> tuple[Usage, float]:
    """Return the usage and the cost of rows of the table of usage."""
    usages = [Usage(row["calls"], row["input_tokens"], row["output_tokens"]) for row in rows]
    return sum(usages, NO_USAGE), sum(row["cost"] or 0.0 for row in rows)


def _within(usage: Usage, other: Usage) -> bool:
    return (
        usage.calls <= other.calls
        and usage.input_tokens <= other.input_tokens
        and usage.output_tokens <= other.output_tokens
    )


def most_counted(budget: Budget, prices: Mapping[str, Price], synthesizer: Synthesizer, text: str) -> Usage:
    """Return the most that a synopsis uses, as far as a budget counts it; an estimate if there is no budget.

    Raises ConfigError if the budget needs a bound or a price that is missing.
    """
    most = most_of(synthesizer, text) if budget != NO_BUDGET else estimate_of(synthesizer, text)
    if most is None:
        if budget.tokens is not None or budget.money is not None:
            name = "tokens" if budget.money is None else "money"
            raise ConfigError(
                f"budget.{name}: nothing bounds the answers of the model {model_of(synthesizer)!r}:"
                " set its max_output_tokens"
            )
        return Usage(calls=estimate_of(synthesizer, text).calls)
    model = model_of(synthesizer)
    if budget.money is not None and model not in prices and (most.tokens or model != synthesizer.id):
        known = ", ".join(prices) or "none"
        raise ConfigError(f"budget.money: the model {model!r} has no price: add it to prices, which has {known}")
    return most
