"""Effective settings: every setting with its value and the place that set it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from findingaid.config.loading import environment, find_file, read_settings
from findingaid.text.strict_yaml import MERGE

DEFAULT = "default"


class EffectiveSetting(NamedTuple):
    """One setting. `origin` is "--set", the environment variable, "file:line" or "default"."""

    key: str
    value: Any
    origin: str


def effective_settings(
    path: str | Path | None = None, overrides: Mapping[str, Any] | None = None
) -> list[EffectiveSetting]:
    """Return every setting by its dotted key, in the order of the schema; secrets are masked.

    The arguments are those of `load`. Raises ConfigError.
    """
    file = find_file(path)
    settings = read_settings(file, overrides).model_dump(mode="json")
    origins = _origins(file, overrides or {})
    return [EffectiveSetting(key, value, _origin(key, origins)) for key, value in _leaves(settings)]


def _origins(file: Path, overrides: Mapping[str, Any]) -> dict[str, str]:
    """Map each key that is set to its place; the places that win come last and replace earlier ones."""
    set_at = {key.lower(): f"{file.name}:{line}" for key, line in _lines(file)}
    for key, variable, value in environment():
        set_at |= dict.fromkeys(_keys(key, value), f"${variable}")
    for key, value in overrides.items():
        set_at |= dict.fromkeys(_keys(key, value), "--set")
    return set_at


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Return the place of a key, or of the value above it that it was made from, as `synopsis: true`."""
    parts = key.lower().split(".")
    above = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((origins[name] for name in above if name in origins), DEFAULT)


def _keys(key: str, value: Any) -> Iterator[str]:
    yield from (name.lower() for name, _ in _leaves(value, key))


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key with its value. Lists and empty mappings count as values."""
    if isinstance(value, Mapping) and value:
        for name, within in value.items():
            yield from _leaves(within, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _lines(file: Path) -> Iterator[tuple[str, int]]:
    """Yield each dotted key that has a value of its own in a YAML file, with its line, counted from 1."""
    yield from _lines_below(yaml.compose(file.read_text("utf-8"), yaml.SafeLoader), "")


def _lines_below(node: Any, key: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode) and node.value:
        for name, within in node.value:
            inner = key if name.tag == MERGE else f"{key}.{name.value}" if key else str(name.value)
            yield from _lines_below(within, inner)
    elif node is not None:
        yield key, node.start_mark.line + 1
