"""Spans and metrics for OpenTelemetry.

They go to the SDK that the program sets up. Without one, or without the extra "otel", nothing is recorded. They hold
names, counts and times, never a query or an indexed text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

try:
    from opentelemetry import metrics, propagate, trace
except ModuleNotFoundError:
    INSTALLED = False
else:
    INSTALLED = True

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram

T = TypeVar("T")

SCOPE = "findingaid"
"""Instrumentation scope of all spans and metrics."""

Value = str | int | float | bool | Sequence[str]
Kind = Literal["CLIENT", "INTERNAL", "SERVER"]


@contextmanager
def span(
    name: str,
    duration: str,
    labels: Mapping[str, Value],
    details: Mapping[str, Value] | None = None,
    *,
    kind: Kind = "INTERNAL",
    caller: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Value]]:
    """Record a span, and its seconds in the histogram `duration`.

    `labels` are attributes of both, `details` of the span alone. Attributes that are put into the yielded dictionary
    are added to the span at its end, `error.type` also to the histogram. The headers of a remote `caller` may name the
    parent.
    """
    found: dict[str, Value] = {}
    if not INSTALLED:
        yield found
        return
    began = time.perf_counter()
    parent = propagate.extract(caller) if caller is not None else None
    started = trace.get_tracer(SCOPE).start_as_current_span(
        name,
        parent,
        trace.SpanKind[kind],
        {**labels, **(details or {})},
        record_exception=False,
        set_status_on_exception=False,
    )
    with started as current:
        try:
            yield found
        except BaseException as error:
            found.setdefault("error.type", type(error).__qualname__)
            raise
        finally:
            current.set_attributes(found)
            failed = {key: value for key, value in found.items() if key == "error.type"}
            if failed:
                current.set_status(trace.StatusCode.ERROR)
            _histogram(duration, "s").record(time.perf_counter() - began, {**labels, **failed})


def count(histogram: str, unit: str, amount: int, labels: Mapping[str, Value]) -> None:
    """Record an amount in a histogram."""
    if INSTALLED:
        _histogram(histogram, unit).record(amount, dict(labels))


def in_context(call: Callable[..., T]) -> Callable[..., T]:
    """Return `call` bound to the current context, so that its spans have the same parent in another thread."""
    run: Any = partial(copy_context().run, call)
    return run  # type: ignore[no-any-return]


@cache
def _histogram(name: str, unit: str) -> Histogram:
    return metrics.get_meter(SCOPE).create_histogram(name, unit)
