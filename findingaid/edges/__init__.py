"""What artifacts refer to: the extractors that ship, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from findingaid.edges.fields import Fields
from findingaid.edges.links import Links
from findingaid.errors import ArtifactError, failure_kind, one_line
from findingaid.model import Artifact, Edge, EdgeExtractor
from findingaid.registry import Registry

EXTRACTORS: Registry[EdgeExtractor] = Registry(
    "extractor",
    "kind",
    {
        "fields": "findingaid.edges.fields:Fields",
        "links": "findingaid.edges.links:Links",
    },
)

NO_EDGES = "none"
"""The id of having no extractor."""


@dataclass(frozen=True)
class Together:
    """The edges of several extractors, each once."""

    extractors: tuple[EdgeExtractor, ...] = (Fields(), Links())

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterable[Edge]:
        for extractor in self.extractors:
            yield from extractor.extract(artifact, fields)


def extractor_from(
    said: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]], where: str, base: Path | None = None
) -> EdgeExtractor | None:
    """The extractor that a configuration asks for: `True` for all that ship, a spec, or several. Raises ConfigError."""
    if isinstance(said, bool):
        return Together() if said else None
    if isinstance(said, Mapping):
        return EXTRACTORS.create(said, where, base)
    return Together(tuple(EXTRACTORS.create(spec, f"{where}.{i}", base) for i, spec in enumerate(said)))


def edges_of(extractor: EdgeExtractor | None, artifact: Artifact, fields: Mapping[str, Any]) -> list[Edge]:
    """An artifact's edges in order, each once: the first of those with the same kind, target and section.

    Raises ArtifactError for whatever the extractor raises, and for what is no edge.
    """
    found: dict[tuple[str, str, str, str], Edge] = {}
    try:
        for edge in extractor.extract(artifact, fields) if extractor else ():
            found.setdefault(_key(edge), edge)
    except Exception as error:  # an extractor may raise anything; it fails this artifact alone
        raise ArtifactError(f"edges: {one_line(error)}", failure_kind(error)) from error
    return list(found.values())


def _key(edge: Edge) -> tuple[str, str, str, str]:
    key = (edge.kind, edge.corpus, edge.target_id, edge.section)
    if not (edge.kind and edge.target_id and all(isinstance(part, str) for part in key)):
        raise ArtifactError(f"{edge!r} needs a kind and a target, as texts", "parse")
    "".join(key).encode()  # raises for what no table can hold
    return key


__all__ = ["EXTRACTORS", "NO_EDGES", "Fields", "Links", "Together", "edges_of", "extractor_from"]
