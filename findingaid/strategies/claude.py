"""Surfaces of Claude Code sessions: of a single turn, or of a session with all its turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from findingaid.errors import DecomposeError
from findingaid.model import Raw, Segment, Surface, SurfacePlan
from findingaid.registry import checked
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.registry import NestedStrategy

TURN_FILTERS = ("time", "timestamp", "model", "tools", "has_tool_use")
"""Filter fields of one turn: those of the source `sessions`, and those of ir's turns."""

SESSION_FILTERS = ("session", "session_id", "session_title", "project", "cwd", "git_branch")
"""Filter fields that all turns of a session share, as above."""


CUT = Chunked()


@checked
@dataclass(frozen=True, kw_only=True)
class ClaudeTurn:
    """The prompt (`user_prompt`) and the outcome (`assistant_summary`) of a turn, each a surface, or chunks if long.

    The summary is the assistant's last text of the turn; `include_full` adds `assistant_full`, all that it wrote. `cut`
    is the strategy that decides which texts are long, and cuts them. Filter fields: session, project, time, model and
    tools, and by ir's names session_id, session_title, cwd, git_branch, timestamp and has_tool_use. The payload is a
    mapping of these, as far as they are known, and the texts.
    """

    include_full: bool = False
    cut: NestedStrategy = CUT
    version: ClassVar[int] = 2
    strategy_id: ClassVar[str] = "ClaudeTurn"

    def text(self, raw: Raw) -> str:
        """Return the text shown to a synthesizer."""
        return "\n\n".join(text for _, text in _texts(_mapping(raw), self.include_full))

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        turn = _mapping(raw)
        own = _present(turn, (*SESSION_FILTERS, *TURN_FILTERS))
        return SurfacePlan({**metadata, **own}, list(_surfaces(artifact_id, turn, self, {})))


@checked
@dataclass(frozen=True, kw_only=True)
class ClaudeSession:
    """The surfaces of every turn, in order, each with its position as `turn`, and the fields of its turn.

    Filter fields: those of a session in ClaudeTurn, and its time. The payload is a mapping of these and `turns`, each
    as in ClaudeTurn.
    """

    include_full: bool = False
    cut: NestedStrategy = CUT
    version: ClassVar[int] = 2
    strategy_id: ClassVar[str] = "ClaudeSession"

    def text(self, raw: Raw) -> str:
        """Return the text shown to a synthesizer."""
        turns = _turns(_mapping(raw))
        return "\n\n".join(text for turn in turns for _, text in _texts(turn, self.include_full))

    def segments(self, raw: Raw) -> list[Segment]:
        """Return the turns, for a synthesizer that continues from its previous state."""
        answer = "assistant_full" if self.include_full else "assistant_summary"
        told = [dict(_texts(turn, self.include_full)) for turn in _turns(_mapping(raw))]
        return [Segment(i, kinds.get("user_prompt", ""), kinds.get(answer, "")) for i, kinds in enumerate(told)]

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        session = _mapping(raw)
        surfaces = [
            surface
            for i, turn in enumerate(_turns(session))
            for surface in _surfaces(artifact_id, turn, self, {"turn": i, **_present(turn, TURN_FILTERS)})
        ]
        return SurfacePlan({**metadata, **_present(session, (*SESSION_FILTERS, "time"))}, surfaces)


def _texts(turn: Mapping[str, Any], include_full: bool) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of the texts of a turn."""
    for kind in ("user_prompt", "assistant_summary", *(("assistant_full",) if include_full else ())):
        text = turn.get(kind) or ""
        if not isinstance(text, str):
            raise DecomposeError(f"{kind}: expected text, got {type(text).__name__}", "parse")
        if text.strip():
            yield kind, text


def _surfaces(
    artifact_id: str, turn: Mapping[str, Any], of: ClaudeTurn | ClaudeSession, metadata: Mapping[str, Any]
) -> Iterator[Surface]:
    for kind, text in _texts(turn, of.include_full):
        own = {**metadata, "field": kind}
        pieces = of.cut.decompose(artifact_id, text, {"media_type": "text/markdown"}).surfaces
        if [piece.text for piece in pieces] == [text.strip()]:
            yield Surface(kind, text, "field", own, (0, len(text)), pieces[0].searched)
        else:
            yield from (replace(piece, kind=kind, metadata={**own, **piece.metadata}) for piece in pieces)


def _present(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) is not None}


def _mapping(raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise DecomposeError(
            f"expected a mapping with user_prompt and assistant_summary, got {type(raw).__name__}", "parse"
        )
    return raw


def _turns(session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    turns = session.get("turns")
    if not isinstance(turns, Sequence) or isinstance(turns, str):
        raise DecomposeError(f"no list of turns; it has {', '.join(map(str, session)) or 'no fields'}", "parse")
    return [_mapping(turn) for turn in turns]
