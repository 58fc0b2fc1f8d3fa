"""The simplest strategy: one surface, the whole text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from findingaid.model import Raw, Surface, SurfacePlan
from findingaid.registry import STRICT
from findingaid.strategies.base import text_of


@dataclass(frozen=True)
class WholeText:
    """One surface that is the artifact's text; none when it is blank."""

    text_key: str | None = None
    kind: str = "document"
    __pydantic_config__: ClassVar = STRICT

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        text = text_of(raw, self.text_key)
        surfaces = [Surface(self.kind, text, "document", span=(0, len(text)))] if text.strip() else []
        return SurfacePlan(dict(metadata), surfaces)
