"""Typed configuration of the parts that differ between environments: the store, the embedder and the synthesizer.

Each value replaces that of findingaid.yaml, and a `kind` replaces all parameters of the one there. A value may be a
`dg.EnvVar`; the UI then shows the name of the variable.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field


class StoreConfig(dg.Config):
    """Store of the tables."""

    uri: str | None = None
    """Folder, or address of object storage such as s3://bucket/index."""

    storage_options: dict[str, str] = Field(default_factory=dict)
    """Options of the object storage, such as its keys."""

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings that differ from the file."""
        yield "store", self.uri
        yield from ((f"storage_options.{name}", value) for name, value in self.storage_options.items())


class EmbedderConfig(dg.PermissiveConfig):
    """Embedder of the texts: its kind, and the parameters of this kind, as in findingaid.yaml."""

    kind: str | None = None
    """Kind of embedder, such as sentence-transformers or hash."""

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings that differ from the file."""
        return _of_kind("embedder", self)


class SynthesizerConfig(dg.PermissiveConfig):
    """Synthesizer of synopses: its kind, and the parameters of this kind, as in findingaid.yaml."""

    kind: str | None = None
    """Kind of synthesizer, such as extractive or openai."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings that differ from the file."""
        return _of_kind("synthesizer", self)


def _of_kind(part: str, given: EmbedderConfig | SynthesizerConfig) -> Iterator[tuple[str, Any]]:
    """Yield the dotted settings of a part; a `kind` replaces all parameters of the one in the file."""
    if given.kind is not None:
        yield part, {}
    yield from _dotted(part, dict(given))


def _dotted(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value within a mapping by its dotted name, so that any of them may name a variable."""
    if isinstance(value, dict) and value.keys() != {"env"}:
        for key, within in value.items():
            yield from _dotted(f"{name}.{key}", within)
    else:
        yield name, value
