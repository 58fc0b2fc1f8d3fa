"""Edges from an artifact's fields, such as the dependencies of a package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from findingaid.model import Artifact, Edge
from findingaid.registry import checked


@checked
@dataclass(frozen=True)
class FieldEdges:
    """An edge for each value of the filter fields in `fields`, which maps each name to the kind of its edges.

    If the artifact's own id is not a path, as for skills, a value that is a path is reduced to its last part. The
    targets are in the artifact's own corpus, or in `corpus` if given; their values are then used unchanged.
    """

    fields: Mapping[str, str] = field(default_factory=lambda: {"deps": "REF", "parent": "PARENT"})
    corpus: str = ""
    extractor_id: ClassVar[str] = "fields"

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        for name, kind in self.fields.items():
            value = fields.get(name, fields.get(name.lower()))
            for target in value if isinstance(value, list | tuple) else [value]:
                if isinstance(target, str | int) and (target_id := self._id(str(target), artifact)):
                    yield Edge(kind, target_id, self.corpus)

    def _id(self, value: str, artifact: Artifact) -> str:
        return value if self.corpus or "/" in artifact.artifact_id else value.rpartition("/")[2]
