"""Registry of the shipped strategies, conversion from and to specs, and binding to an embedder's tokenizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, InstanceOf, ValidationInfo

from findingaid.protocols import Embedder, Strategy
from findingaid.registry import Registry
from findingaid.strategies.base import WithTokenizer

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    "name",
    Strategy,
    "findingaid.strategies",
    {
        "Chunked": "findingaid.strategies.chunked:Chunked",
        "ClaudeSession": "findingaid.strategies.claude:ClaudeSession",
        "ClaudeTurn": "findingaid.strategies.claude:ClaudeTurn",
        "Package": "findingaid.strategies.package:Package",
        "Skill": "findingaid.strategies.skill:Skill",
        "WholeText": "findingaid.strategies.whole_text:WholeText",
        "WithSynopsis": "findingaid.strategies.with_synopsis:WithSynopsis",
    },
)


def strategy_to_spec(strategy: Any) -> dict[str, Any]:
    """Return the `{"name", "params"}` spec of a strategy, for YAML or JSON, without parameters at their default.

    A strategy that does not ship is named by its import path. Raises ConfigError if a spec cannot express the strategy.
    """
    return STRATEGIES.spec_of(strategy)


def strategy_from_spec(spec: Mapping[str, Any] | None, where: str = "strategy") -> Strategy | None:
    """Return the strategy of a spec, or None for None, so that a source's default applies. Raises ConfigError."""
    return None if spec is None else STRATEGIES.create(spec, where)


def bound(strategy: Any, embedder: Embedder) -> Any:
    """Return the strategy, and every strategy among its parameters, bound to the embedder's tokenizer.

    Raises ConfigError.
    """
    if isinstance(strategy, WithTokenizer):
        return strategy.for_embedder(embedder)
    if not dataclasses.is_dataclass(strategy):
        return strategy
    replace: Callable[..., Any] = dataclasses.replace
    inner = {f.name: getattr(strategy, f.name) for f in dataclasses.fields(strategy) if f.init}
    changed = {name: _bound_value(value, embedder) for name, value in inner.items()}
    changed = {name: value for name, value in changed.items() if value is not inner[name]}
    return replace(strategy, **changed) if changed else strategy


def _bound_value(value: Any, embedder: Embedder) -> Any:
    if isinstance(value, Strategy):
        return bound(value, embedder)
    if type(value) in (list, tuple) and any(isinstance(item, Strategy) for item in value):
        return type(value)(_bound_value(item, embedder) for item in value)
    return value


def _nested(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, Mapping):
        return value
    context = info.context or {}
    where = f"{context.get('where', 'strategy')}.{info.field_name}"
    return STRATEGIES.create(value, where, context.get("base"))


NestedStrategy = Annotated[Strategy, InstanceOf(), BeforeValidator(_nested)]
"""Type of a parameter that is a strategy itself, given as a spec in a configuration."""
