"""A synthesizer that writes no synopses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from findingaid.registry import checked


@checked
@dataclass(frozen=True)
class NoSynthesizer:
    """Writes nothing, so that corpora with `synopsis: true` have no synopses."""

    id: ClassVar[str] = "none"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return ""
