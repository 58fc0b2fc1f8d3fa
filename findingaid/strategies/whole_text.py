"""The simplest strategy: one surface with the whole text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.registry import checked
from findingaid.strategies.base import SurfaceKind, text_of


@checked
@dataclass(frozen=True, kw_only=True)
class WholeText:
    """One surface with the artifact's text; none if it is blank."""

    text_key: str | None = None
    kind: SurfaceKind = "document"
    strategy_id: ClassVar[str] = "WholeText"

    def text(self, raw: Raw) -> str:
        """Return the text of a payload."""
        return text_of(raw, self.text_key)

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        text = self.text(raw)
        surfaces = [Surface(self.kind, text, "document", span=(0, len(text)))] if text.strip() else []
        return SurfacePlan(dict(metadata), surfaces)
