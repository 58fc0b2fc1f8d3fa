"""Edge extractors: the registry of those that ship, and extraction of an artifact's references to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from findingaid.edges.fields import FieldEdges
from findingaid.edges.links import LinkEdges
from findingaid.errors import ArtifactError, failure_kind, one_line
from findingaid.model import Artifact, Edge
from findingaid.protocols import EdgeExtractor
from findingaid.registry import Registry

EXTRACTORS: Registry[EdgeExtractor] = Registry(
    "extractor",
    "kind",
    EdgeExtractor,
    "findingaid.extractors",
    {
        "fields": "findingaid.edges.fields:FieldEdges",
        "links": "findingaid.edges.links:LinkEdges",
    },
)

NO_EDGES = "none"
"""Id used when there is no extractor."""


@dataclass(frozen=True)
class CombinedExtractor:
    """Chain of several extractors. Duplicate edges are removed later, by `edges_of`."""

    extractors: tuple[EdgeExtractor, ...] = (FieldEdges(), LinkEdges())
    extractor_id: ClassVar[str] = "together"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterable[Edge]:
        for extractor in self.extractors:
            yield from extractor.extract(artifact, fields)


def extractor_from(
    said: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]], where: str, base: Path | None = None
) -> EdgeExtractor | None:
    """Return the extractor of a configuration: `True` for all that ship, a spec, or several specs.

    Return None for `False`. Raises ConfigError.
    """
    if isinstance(said, bool):
        return CombinedExtractor() if said else None
    if isinstance(said, Mapping):
        return EXTRACTORS.create(said, where, base)
    return CombinedExtractor(tuple(EXTRACTORS.create(spec, f"{where}.{i}", base) for i, spec in enumerate(said)))


def edges_of(extractor: EdgeExtractor | None, artifact: Artifact, fields: Mapping[str, Any]) -> list[Edge]:
    """Return an artifact's edges in order, without duplicates.

    Edges with the same kind, corpus, target and section are duplicates; the first one is kept.

    Raises ArtifactError for any exception of the extractor, and for a result that is not a valid edge.
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
    "".join(key).encode()  # raises for text that no table can hold
    return key


__all__ = ["EXTRACTORS", "NO_EDGES", "CombinedExtractor", "FieldEdges", "LinkEdges", "edges_of", "extractor_from"]
