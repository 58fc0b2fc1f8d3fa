"""Edges that stand in an artifact's fields, such as what a package depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from findingaid.model import Artifact, Edge
from findingaid.registry import STRICT


@dataclass(frozen=True)
class Fields:
    """An edge for each value of the filter fields named, of the kind that stands beside them.

    Where ids are no paths, as those of skills, a value that is one stands for its last part. The targets are of this
    corpus, or of the `corpus` named.
    """

    fields: Mapping[str, str] = field(default_factory=lambda: {"deps": "REF", "parent": "PARENT"})
    corpus: str = ""
    __pydantic_config__: ClassVar = STRICT

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        for name, kind in self.fields.items():
            value = fields.get(name)
            for target in value if isinstance(value, list | tuple) else [value]:
                if isinstance(target, str | int) and (target_id := self._id(str(target), artifact)):
                    yield Edge(kind, target_id, self.corpus)

    def _id(self, value: str, artifact: Artifact) -> str:
        return value if self.corpus or "/" in artifact.artifact_id else value.rpartition("/")[2]
