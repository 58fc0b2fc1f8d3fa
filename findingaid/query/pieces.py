"""What a context pack is put together from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from findingaid.model import Hit

Kind = Literal["pinned", "session", "hit", "summary", "digest"]
"""Given by the caller; the anchored summary of a session that was named; found; a summary of an artifact of which
something was found; or a summary of what did not fit."""

Why = Literal["budget", "duplicate", "empty"]

EXTRACTIVE = "extractive"
"""Part of the id of every shipped producer that invents nothing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text with what it takes to open it: its artifact and span, or its record where it was composed."""

    kind: Kind
    text: str
    corpus: str = ""
    artifact_id: str = ""
    record_id: str = ""
    surface_kind: str = ""
    surface_index: int = 0
    span: tuple[int, int] | None = None
    score: float = 0.0
    producer_id: str = ""

    @classmethod
    def of(cls, hit: Hit) -> Piece:
        """What was found."""
        place = (hit.corpus, hit.artifact_id, hit.record_id, hit.surface_kind, hit.surface_index, hit.span)
        return cls("hit", hit.text, *place, hit.score)

    @property
    def cite(self) -> str:
        """Where it is from, as a reader is shown it: "docs/a.md 10:90", or the surface where it has no span."""
        if not self.artifact_id:
            return f"pinned {self.surface_index}" if self.kind == "pinned" else "digest"
        place = f"{self.span[0]}:{self.span[1]}" if self.span else f"{self.surface_kind} {self.surface_index}"
        return f"{self.corpus}/{self.artifact_id} {place}"

    @property
    def written(self) -> bool:
        """Whether somebody wrote it, rather than took it from a text as it is."""
        return bool(self.producer_id) and EXTRACTIVE not in self.producer_id.split("-")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"cite": self.cite}


@dataclass(frozen=True, slots=True)
class Dropped:
    """A piece that was left out, and why; `of` is what a duplicate repeats. A digest may still speak of it."""

    piece: Piece
    reason: Why
    of: str = ""

    def __str__(self) -> str:
        return f"{self.piece.cite}: {self.reason}" + (f" of {self.of}" if self.of else "")

    def to_dict(self) -> dict[str, Any]:
        return {"piece": self.piece.to_dict(), "reason": self.reason, "of": self.of}
