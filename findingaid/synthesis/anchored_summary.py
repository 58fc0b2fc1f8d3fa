"""Anchored summaries: the state of a session in fixed sections, which are updated as the session grows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, Self, runtime_checkable

from annotated_types import Ge
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from findingaid.model import Segment

SCHEMA_VERSION: Final = 1

LABELS: Mapping[str, str] = {
    "intent": "Intent",
    "decisions": "Decisions",
    "files_touched": "Files touched",
    "pending_tasks": "Pending tasks",
    "current_state": "Current state",
}
"""Map section id to label, in the order of the sections."""

BYTES_A_TOKEN = 4


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


Text = Annotated[str, AfterValidator(_on_one_line), StringConstraints(min_length=1)]
"""Text on one line, so that no part of it can pass for the label of a section."""

Turns = tuple[Annotated[int, Ge(0)], ...]

BULLET = re.compile(r"\s*[-*•]\s+")
"""Mark of a list item at the beginning of a line."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(_Frozen):
    """One statement with the turns that it is taken from. Turns count from 0, as the surfaces' `turn` does.

    A line of plain text is a point without turns.
    """

    text: Text
    turns: Turns

    def __str__(self) -> str:
        if not self.turns:
            return f"- {self.text}"
        numbers = ", ".join(map(str, self.turns))
        return f"- {self.text} [{'turn' if len(self.turns) == 1 else 'turns'} {numbers}]"


class Section(_Frozen):
    """The points of one section, in the order of their turns.

    Can be validated from plain text, too: `content` in place of `points`, as in ainl's JSON. The text itself is kept.
    """

    id: str
    label: str
    points: tuple[Point, ...] = ()
    content: Annotated[str, Field(validate_default=True)] = ""
    """The points with their turns, one per line, so that programs which know ainl's sections can read them."""

    @model_validator(mode="before")
    @classmethod
    def _read_content(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or not isinstance(value.get("content"), str) or "points" in value:
            return value
        return {**value, "points": points_of(value["content"])}

    @field_validator("content")
    @classmethod
    def _say_the_points(cls, content: str, info: ValidationInfo) -> str:
        points = info.data.get("points", ())
        return content if points_of(content) == points else lines_of(points)


def lines_of(points: Sequence[Point]) -> str:
    """Return points as text, one per line with its turns."""
    return "\n".join(map(str, points))


def points_of(text: str) -> tuple[Point, ...]:
    """Return the lines of a plain text as points without turns."""
    lines = (BULLET.sub("", line, count=1).strip() for line in text.splitlines())
    return tuple(Point(text=line, turns=()) for line in lines if line)


class AnchoredSummary(_Frozen):
    """Summary of a session. `iteration` counts its updates; each update reads only new turns."""

    schema_version: Literal[1] = SCHEMA_VERSION
    sections: tuple[Section, ...]
    token_estimate: Annotated[int, Ge(0)] = 0
    iteration: Annotated[int, Ge(0)] = 0

    @field_validator("sections")
    @classmethod
    def _all_in_order(cls, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        if [(section.id, section.label) for section in sections] != list(LABELS.items()):
            raise ValueError(f"expected the sections {', '.join(LABELS)}, with their labels, in this order")
        return sections

    @classmethod
    def empty(cls) -> Self:
        """Return a summary without any points."""
        return cls.of({}, 0)

    @classmethod
    def of(cls, sections: Mapping[str, Sequence[Point] | str], iteration: int) -> Self:
        """Build a summary from points or plain text by section id, with a token estimate."""
        points = {i: points_of(given) if isinstance(given, str) else tuple(given) for i, given in sections.items()}
        found = tuple(Section(id=i, label=label, points=points.get(i, ())) for i, label in LABELS.items())
        made = cls(sections=found, iteration=iteration)
        tokens = -(-len(made.to_prompt_text().encode("utf-8", "replace")) // BYTES_A_TOKEN)
        return made.model_copy(update={"token_estimate": tokens})

    def points(self, section: str) -> tuple[Point, ...]:
        """Return the points of a section by its id."""
        return next(s.points for s in self.sections if s.id == section)

    def is_empty(self) -> bool:
        """Return whether no section has a point."""
        return not any(section.points for section in self.sections)

    def to_prompt_text(self) -> str:
        """Return the sections that have points, each under its label."""
        said = (f"## {section.label}\n{lines_of(section.points)}" for section in self.sections if section.points)
        return "\n\n".join(said)


@runtime_checkable
class Summarizer(Protocol):
    """Component that writes anchored summaries.

    If it has `context_tokens`, a long session is sent in several calls of at most that many tokens. If it has
    `concurrency`, that many sessions are sent at once.
    """

    @property
    def id(self) -> str:
        """Id that changes whenever the summary could change."""

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        """Return `existing` updated with `segments`, which hold all that is new. Raises SynthesisError.

        The `iteration` grows by one. If `segments` begin before the end of the last turn in `existing`, that turn has
        changed.
        """
