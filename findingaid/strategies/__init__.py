"""What is indexed of an artifact: the strategies that ship, by name, and their specs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from findingaid.model import Strategy
from findingaid.registry import Registry
from findingaid.strategies.base import WithTokenizer

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    "name",
    {
        "Chunked": "findingaid.strategies.chunked:Chunked",
        "ClaudeSession": "findingaid.strategies.claude:ClaudeSession",
        "ClaudeTurn": "findingaid.strategies.claude:ClaudeTurn",
        "Package": "findingaid.strategies.package:Package",
        "Skill": "findingaid.strategies.skill:Skill",
        "WholeText": "findingaid.strategies.whole_text:WholeText",
    },
)


def strategy_to_spec(strategy: Any) -> dict[str, Any]:
    """The `{"name", "params"}` spec of a shipped strategy; parameters at their default are left out."""
    params = {
        f.name: value
        for f in dataclasses.fields(strategy)
        if f.metadata.get("spec", True) and (value := getattr(strategy, f.name)) != f.default
    }
    return {"name": type(strategy).__name__, "params": params}


def strategy_from_spec(spec: Mapping[str, Any] | None, where: str = "strategy") -> Strategy | None:
    """The strategy of a spec; None for None, so that a source's default applies. Raises ConfigError."""
    return None if spec is None else STRATEGIES.create(spec, where)


__all__ = ["STRATEGIES", "WithTokenizer", "strategy_from_spec", "strategy_to_spec"]
