"""Anchored summaries: what is known of a session, in fixed sections that are written on as it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Protocol, Self, runtime_checkable

from annotated_types import Ge, MinLen
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, field_validator

from findingaid.errors import SynthesisError
from findingaid.model import Segment, Usage

SCHEMA_VERSION: Final = 1

LABELS: Mapping[str, str] = {
    "intent": "Intent",
    "decisions": "Decisions",
    "files_touched": "Files touched",
    "pending_tasks": "Pending tasks",
    "current_state": "Current state",
}
"""Section id -> label, in the order in which they stand."""

BYTES_A_TOKEN = 4


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


Text = Annotated[str, AfterValidator(_on_one_line), StringConstraints(min_length=1)]
"""No line of it can pass for a section's label."""

Turns = Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(_Frozen):
    """One statement, and the turns that it was taken from, numbered as the surfaces' `turn` is: from 0."""

    text: Text
    turns: Turns

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.turns))
        return f"- {self.text} [{'turn' if len(self.turns) == 1 else 'turns'} {numbers}]"


class Section(_Frozen):
    """The points of one section, in the order of their turns."""

    id: str
    label: str
    points: tuple[Point, ...] = ()

    @property
    def content(self) -> str:
        """The points with their turns, one a line; "" where there are none."""
        return "\n".join(map(str, self.points))


class AnchoredSummary(_Frozen):
    """What is known of a session. `iteration` counts how often it was written on; each time from new turns alone."""

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
        """Nothing is known yet."""
        return cls.of({}, 0)

    @classmethod
    def of(cls, points: Mapping[str, Sequence[Point]], iteration: int) -> Self:
        """A summary of these points by section id."""
        sections = tuple(Section(id=i, label=label, points=tuple(points.get(i, ()))) for i, label in LABELS.items())
        made = cls(sections=sections, iteration=iteration)
        tokens = -(-len(made.to_prompt_text().encode("utf-8", "replace")) // BYTES_A_TOKEN)
        return made.model_copy(update={"token_estimate": tokens})

    def points(self, section: str) -> tuple[Point, ...]:
        """The points of a section, by its id."""
        return next(s.points for s in self.sections if s.id == section)

    def is_empty(self) -> bool:
        """Whether no section has a point."""
        return not any(section.points for section in self.sections)

    def to_prompt_text(self) -> str:
        """The sections that say something, each under its label."""
        said = (f"## {section.label}\n{section.content}" for section in self.sections if section.points)
        return "\n\n".join(said)


@runtime_checkable
class Summarizer(Protocol):
    """Who writes anchored summaries.

    One that has `context_tokens` is sent a long session in several calls of no more than that, one that has
    `concurrency` several sessions at once.
    """

    @property
    def id(self) -> str:
        """Changes whenever the summary it writes could."""

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        """`existing` written on with `segments`, which are all that is new; where they begin before its last turn,
        that turn has changed since. Its iteration is one more. Raises SynthesisError."""


@runtime_checkable
class Metered(Summarizer, Protocol):
    """A summarizer that knows what it uses."""

    def estimate(self, text: str) -> Usage:
        """The tokens of one call with segments of this text, at most; without a call."""

    def metered(
        self, segments: Sequence[Segment], existing: AnchoredSummary | None
    ) -> tuple[AnchoredSummary | SynthesisError, Usage]:
        """What `summarize` gives or raises, and what that used."""
