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


class EmbedderConfig(dg.Config):
    """Embedder of the texts."""

    kind: str | None = None
    """Kind of embedder, such as sentence-transformers or hash."""

    options: dict[str, Any] = Field(default_factory=dict)
    """Other parameters of this kind, such as model."""

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings that differ from the file."""
        if self.kind is not None:
            yield from (("embedder", {}), ("embedder.kind", self.kind))
        yield from ((f"embedder.{name}", value) for name, value in self.options.items())


class SynthesizerConfig(dg.Config):
    """Synthesizer of synopses."""

    kind: str | None = None
    """Kind of synthesizer, such as extractive or openai."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    """Other parameters of this kind."""

    def settings(self) -> Iterator[tuple[str, Any]]:
        """Yield the dotted settings that differ from the file."""
        if self.kind is not None:
            yield from (("synthesizer", {}), ("synthesizer.kind", self.kind))
        for name in ("model", "base_url", "api_key"):
            yield f"synthesizer.{name}", getattr(self, name)
        yield from ((f"synthesizer.{name}", value) for name, value in self.options.items())
