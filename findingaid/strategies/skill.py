"""A skill: found by what it says it is for, while its body is read only once it was chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from findingaid.errors import DecomposeError
from findingaid.front_matter import FrontMatter
from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.registry import STRICT
from findingaid.strategies.base import joined


@dataclass(frozen=True)
class Skill:
    """One `capability` surface of name and description; the body is not indexed.

    Filter fields: name, parent. The payload is a mapping of name, description and parent, or the text of a
    SKILL.md whose YAML front matter has them. A SKILL.md without a name has that of its folder, and without a
    parent the folder around that.
    """

    __pydantic_config__: ClassVar = STRICT

    def text(self, raw: Raw) -> str:
        """What a synthesizer is shown: never the body, since a synopsis of it would index it."""
        return joined(_fields(raw), "name", "description")

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        folder = PurePosixPath(artifact_id).parent if isinstance(raw, str) else PurePosixPath(artifact_id)
        fields = {**_fields(raw)}
        fields["name"] = fields.get("name") or folder.name or artifact_id
        text = joined(fields, "name", "description")
        surfaces = [Surface("capability", text, "field")] if text.strip() else []
        own = {"name": str(fields["name"]), "parent": str(fields.get("parent") or folder.parent.name)}
        return SurfacePlan({**metadata, **own}, surfaces)


def _fields(raw: Raw) -> Mapping[str, Any]:
    """Raises DecomposeError where there is neither a mapping nor sound front matter."""
    if isinstance(raw, Mapping):
        return raw
    front = FrontMatter.of(raw)
    if front.problem:
        raise DecomposeError(f"line {front.line}: the front matter {front.problem}", "parse")
    return front.fields
