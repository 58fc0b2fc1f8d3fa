"""No synopses at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from findingaid.registry import STRICT


@dataclass(frozen=True)
class NoSynthesizer:
    """Has nothing to say of anything; corpora with `synopsis: true` then have none."""

    id: ClassVar[str] = "none"
    __pydantic_config__: ClassVar = STRICT

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return ""
