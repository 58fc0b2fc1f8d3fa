"""Pieces that a context pack is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from findingaid.model import Fresh, Hit

PieceKind = Literal["pinned", "session", "hit", "summary", "digest"]
"""Origin of a piece.

- pinned: given by the caller
- session: anchored summary of a session that the caller named
- hit: search hit
- summary: summary record of an artifact that has a hit
- digest: summary of the pieces that did not fit, in this pack and those before it"""

DropReason = Literal["budget", "duplicate", "empty"]

EXTRACTIVE = "extractive"
"""Part of the id of every built-in producer that only copies text from its input."""


def is_generated(producer_id: str) -> bool:
    """Return whether a producer generates text, instead of copying it from its input. "" is no producer."""
    return bool(producer_id) and EXTRACTIVE not in producer_id.split("-")


@dataclass(frozen=True, slots=True)
class Piece:
    """Text with the location of its origin: its artifact and span, or its record if it has no span."""

    kind: PieceKind
    text: str
    corpus: str = ""
    artifact_id: str = ""
    record_id: str = ""
    surface_kind: str = ""
    surface_index: int = 0
    span: tuple[int, int] | None = None
    score: float = 0.0
    producer_id: str = ""
    fresh: Fresh | None = None
    fresh_note: str = ""
    artifact_version: str = ""
    """Version of the artifact in which the span is."""

    @classmethod
    def of(cls, hit: Hit) -> Piece:
        """Build a piece from a search hit."""
        place = (hit.corpus, hit.artifact_id, hit.record_id, hit.surface_kind, hit.surface_index, hit.span)
        return cls("hit", hit.text, *place, hit.score, artifact_version=hit.artifact_version)

    @property
    def cite(self) -> str:
        """Citation shown to the reader, such as "docs/a.md 10:90"; without a span, the surface kind and index.

        A piece without an artifact is cited as "pinned N" or "digest"."""
        if not self.artifact_id:
            return f"pinned {self.surface_index}" if self.kind == "pinned" else "digest"
        place = f"{self.span[0]}:{self.span[1]}" if self.span else f"{self.surface_kind} {self.surface_index}"
        return f"{self.corpus}/{self.artifact_id} {place}"

    @property
    def label(self) -> str:
        """Citation, and whether the source has changed, as a pack shows them."""
        return f"{self.cite} ({self.fresh})" if self.fresh in {"changed", "gone"} else self.cite

    @property
    def written(self) -> bool:
        """Whether the text was generated, not copied from a source text."""
        return is_generated(self.producer_id)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"cite": self.cite}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Piece that was left out, and the reason; `of` cites the piece that a duplicate repeats.

    A digest may still cover it.
    """

    piece: Piece
    reason: DropReason
    of: str = ""

    def __str__(self) -> str:
        return f"{self.piece.cite}: {self.reason}" + (f" of {self.of}" if self.of else "")

    def to_dict(self) -> dict[str, Any]:
        return {"piece": self.piece.to_dict(), "reason": self.reason, "of": self.of}
