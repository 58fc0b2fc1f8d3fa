"""Digest of the pieces that do not fit into a context pack, updated from pack to pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, ValidationError

from findingaid.errors import QueryError, SynthesisError, brief
from findingaid.identity.hashes import content_hash
from findingaid.model import Segment
from findingaid.query.context.pieces import Piece, is_generated
from findingaid.synthesis.anchored_summary import AnchoredSummary, Point, Section, Summarizer, Text

HASH_DIGITS = 12

COVERED = 1_000
"""Number of covered pieces that a digest remembers, the latest, besides those that its points cite."""


class CoveredPiece(BaseModel):
    """Piece that a digest covers: its turn in the summary, its citation, and a hash of citation and text."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    turn: Annotated[int, Ge(0)]
    cite: Text
    hash: str


class Digest(BaseModel):
    """Anchored summary of pieces, with the pieces that it covers.

    Each covered piece counts as one turn of the summary. `producer_id` is the id of the summarizer, or "" for a summary
    that the caller supplied.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    summary: AnchoredSummary
    covered: tuple[CoveredPiece, ...] = ()
    producer_id: str = ""

    @property
    def next_turn(self) -> int:
        """Turn of the next piece."""
        return 1 + max(chain((piece.turn for piece in self.covered), _cited_turns(self.summary)), default=-1)

    def uncovered(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return the pieces that are not covered, or whose text has changed since."""
        known = {piece.hash for piece in self.covered}
        return [piece for piece in pieces if _hash(piece) not in known]

    def piece(self, leave_out: int = 0) -> Piece | None:
        """Return the digest as a piece, without this number of points; None if no point is left.

        The oldest points of the longest section are left out first.
        """
        sections = [(section.label, list(section.points)) for section in self.summary.sections]
        for _ in range(leave_out):
            longest = max((points for _, points in sections), key=len)
            del longest[:1]
        cites = {piece.turn: piece.cite for piece in self.covered}
        shown = ("\n".join((f"{label}:", *(_line(p, cites) for p in points))) for label, points in sections if points)
        text = "\n".join(shown)
        return Piece("digest", text, producer_id=self.producer_id) if text else None

    @property
    def points(self) -> int:
        """Number of points."""
        return sum(len(section.points) for section in self.summary.sections)


def read_digest(given: Any) -> Digest | None:
    """Return the digest of a previous pack; None if it has none.

    `given` is the digest itself, an anchored summary, or the JSON object of a pack, a digest or an anchored summary.
    Raises QueryError for anything else.
    """
    if isinstance(given, AnchoredSummary):
        return Digest(summary=given)
    if given is None or isinstance(given, Digest):
        return given
    if not isinstance(given, Mapping) or not {"digest", "summary", "sections"} & given.keys():
        raise QueryError(
            f"previous: expected a context pack with its details, its digest or an anchored summary, as a JSON object,"
            f" got {brief(str(given))}"
        )
    if "digest" in given:
        return read_digest(given["digest"])
    try:
        return Digest.model_validate(given if "summary" in given else {"summary": given})
    except ValidationError as error:
        problem = error.errors()[0]
        raise QueryError(f"previous: {'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def update_digest(previous: Digest | None, pieces: Sequence[Piece], summarizer: Summarizer) -> Digest:
    """Return the digest updated with pieces that it does not cover yet; only these are sent to the summarizer.

    Points that cite none of the covered pieces are left out, except plain text. Raises SynthesisError if the summarizer
    returns no AnchoredSummary or no point is left. Exceptions of the summarizer pass through.
    """
    existing = previous.summary if previous else None
    first = previous.next_turn if previous else 0
    made = summarizer.summarize([Segment(first + i, "", piece.text) for i, piece in enumerate(pieces)], existing)
    if not isinstance(made, AnchoredSummary):
        raise SynthesisError(f"{summarizer.id} returned a {type(made).__name__}, expected an AnchoredSummary", "parse")
    new = [CoveredPiece(turn=first + i, cite=piece.cite, hash=_hash(piece)) for i, piece in enumerate(pieces)]
    covered = [*(previous.covered if previous else ()), *new]
    known = {piece.turn for piece in covered} | (_cited_turns(existing) if existing else set())
    summary = AnchoredSummary.of(
        {section.id: _traced(section, known) for section in made.sections}, (existing.iteration if existing else 0) + 1
    )
    if summary.is_empty():
        raise SynthesisError(f"{summarizer.id} wrote no point about the pieces that did not fit", "parse")
    cited, latest = _cited_turns(summary), first + len(pieces) - COVERED
    kept = tuple(piece for piece in covered if piece.turn in cited or piece.turn >= latest)
    return Digest(summary=summary, covered=kept, producer_id=_producer(previous, summarizer.id))


def _producer(previous: Digest | None, summarizer: str) -> str:
    """Return the producer of an updated digest: an extract of generated text is still generated."""
    if previous and is_generated(previous.producer_id) and not is_generated(summarizer):
        return previous.producer_id
    return summarizer


def _traced(section: Section, known: set[int]) -> list[Point]:
    """Return the points of a section without unknown turns; points that cite only unknown turns are left out."""
    traced = []
    for point in section.points:
        turns = tuple(turn for turn in point.turns if turn in known)
        if turns or not point.turns:
            traced.append(point.model_copy(update={"turns": turns}))
    return traced


def _cited_turns(summary: AnchoredSummary) -> set[int]:
    return {turn for section in summary.sections for point in section.points for turn in point.turns}


def _line(point: Point, cites: Mapping[int, str]) -> str:
    cited = ", ".join(cites.get(turn, f"turn {turn}") for turn in point.turns)
    return f"- {point.text} [{cited}]" if cited else f"- {point.text}"


def _hash(piece: Piece) -> str:
    return content_hash(piece.cite, piece.text)[:HASH_DIGITS]
