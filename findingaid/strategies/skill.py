"""Surface of a skill: its name and description. The body is read only after the skill has been chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from findingaid.errors import DecomposeError
from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.registry import checked
from findingaid.strategies.base import join_fields
from findingaid.text.front_matter import FrontMatter


@checked
@dataclass(frozen=True)
class Skill:
    """One `capability` surface of name and description; the body is not indexed.

    Filter fields: name, parent. The payload is a mapping of name, description and parent, or the text of a SKILL.md
    whose YAML front matter has them. If a SKILL.md has no name, the folder's name is used; if it has no parent, the
    name of the folder above that.
    """

    strategy_id: ClassVar[str] = "Skill"

    def text(self, raw: Raw) -> str:
        """Return the text shown to a synthesizer. The body is left out, since a synopsis of it would index it."""
        return join_fields(_fields(raw), "name", "description")

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        folder = PurePosixPath(artifact_id).parent if isinstance(raw, str) else PurePosixPath(artifact_id)
        fields = {**_fields(raw)}
        fields["name"] = fields.get("name") or folder.name or artifact_id
        text = join_fields(fields, "name", "description")
        surfaces = [Surface("capability", text, "field")] if text.strip() else []
        own = {"name": str(fields["name"]), "parent": str(fields.get("parent") or folder.parent.name)}
        return SurfacePlan({**metadata, **own}, surfaces)


def _fields(raw: Raw) -> Mapping[str, Any]:
    """Return the fields of a payload. Raises DecomposeError if it is neither a mapping nor has valid front matter."""
    if isinstance(raw, Mapping):
        return raw
    front = FrontMatter.of(raw)
    if front.problem:
        raise DecomposeError(f"line {front.line}: the front matter {front.problem}", "parse")
    return front.fields
