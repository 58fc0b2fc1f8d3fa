"""The synopsis of a session as an anchored summary: when the session grew, only what is new of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, ValidationError, ValidationInfo

from findingaid.errors import SynthesisError, failure_kind, one_line
from findingaid.identity import content_hash
from findingaid.model import Outcome, Resuming, Segment, Shown, Synopsis, Usage
from findingaid.registry import STRICT
from findingaid.summaries import AnchoredSummary, Metered, Summarizer
from findingaid.synthesis import SUMMARIZERS
from findingaid.synthesis.extractive_summary import ExtractiveSummarizer
from findingaid.synthesis.prompting import parts_of, tokens_of

HASH_DIGITS = 12


def _summarizer(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, Mapping):
        return value
    context = info.context or {}
    where = f"{context.get('where', 'synthesizer')}.{info.field_name}"
    return SUMMARIZERS.create(value, where, context.get("base"))


NestedSummarizer = Annotated[Summarizer, InstanceOf(), BeforeValidator(_summarizer)]
"""The type of a parameter that is a summarizer, given as a spec in a configuration."""


class State(BaseModel):
    """What an anchored summary says, and the turn and hash of each segment that it covers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    summary: AnchoredSummary
    covered: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, text: str) -> State | None:
        """The state that a text holds; None where it holds none."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValidationError:  # of another version of this schema: the session is read again
            return None

    def goes_on_at(self, segments: Sequence[tuple[int, str]]) -> int | None:
        """The first segment that is not covered, or of whose turn something changed; None where older ones changed.

        The last turn may have been going on when it was read.
        """
        same = 0
        for was, now in zip(self.covered, segments, strict=False):
            if was != now:
                break
            same += 1
        if same == len(self.covered):
            return same
        last = self.covered[-1][0]
        begin = next(place for place, (turn, _) in enumerate(self.covered) if turn == last)
        still_there = begin < len(segments) and segments[begin][0] == last
        return begin if same >= begin and still_there else None


@dataclass(frozen=True)
class Anchored:
    """A running summary in fixed sections by `summarizer`, which is sent the turns that are new and what it knows.

    Where it fails the summary of before stays; where there is none sentences of the turns stand in.
    """

    summarizer: NestedSummarizer = field(default_factory=ExtractiveSummarizer)
    version: ClassVar[int] = 1
    """Raised when the same turns are fed otherwise."""

    __pydantic_config__: ClassVar = STRICT

    @property
    def id(self) -> str:
        return f"anchored-{self.version}-{self.summarizer.id}"

    @property
    def model(self) -> str:
        """The name under which usage is counted and priced."""
        return str(getattr(self.summarizer, "model", self.id))

    @property
    def at_once(self) -> int:
        return int(getattr(self.summarizer, "concurrency", 1))

    @property
    def stand_in(self) -> Anchored | None:
        return None if isinstance(self.summarizer, ExtractiveSummarizer) else Anchored()

    def estimate(self, text: str) -> Usage:
        """What one call takes, at most."""
        return self.summarizer.estimate(text) if isinstance(self.summarizer, Metered) else Usage(calls=1)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return whole(self, Shown("", text, metadata, [Segment(0, "", text)])).text

    def left(self, shown: Shown, state: str) -> list[Shown]:
        segments = list(self._cut(shown.segments))
        known = State.of(state)
        start = known.goes_on_at(list(map(_covered, segments))) if known else None
        groups = self._groups(segments[start or 0 :])
        calls = [replace(shown, text=_said(group), segments=group, state="") for group in groups]
        if calls and known and start is not None:
            kept = State(summary=known.summary, covered=known.covered[:start])
            calls[0] = replace(calls[0], state=kept.model_dump_json())
        return calls

    def resume(self, shown: Shown) -> Synopsis:
        known = State.of(shown.state)
        existing = known.summary if known else None
        made, usage = self._asked(shown.segments, existing)
        if isinstance(made, Exception):
            return Synopsis(Outcome.FAILED, kind=failure_kind(made), message=one_line(made), usage=usage)
        summary = made.model_copy(update={"iteration": (existing.iteration if existing else 0) + 1})
        state = State(summary=summary, covered=(*(known.covered if known else ()), *map(_covered, shown.segments)))
        outcome = Outcome.EMPTY if summary.is_empty() else Outcome.OK
        return Synopsis(outcome, summary.to_prompt_text(), usage=usage, state=state.model_dump_json())

    def _asked(
        self, segments: Sequence[Segment], existing: AnchoredSummary | None
    ) -> tuple[AnchoredSummary | Exception, Usage]:
        try:
            if isinstance(self.summarizer, Metered):
                return self.summarizer.metered(segments, existing)
            made: object = self.summarizer.summarize(segments, existing)
        except Exception as error:  # noqa: BLE001  # whatever went wrong, the summary of before stays
            return error, Usage(calls=1)
        if not isinstance(made, AnchoredSummary):
            made = SynthesisError(f"the summarizer gave a {type(made).__name__}, expected an AnchoredSummary", "parse")
        return made, Usage(calls=1)

    @property
    def _bound(self) -> int | None:
        bound: int | None = getattr(self.summarizer, "context_tokens", None)
        return bound

    def _cut(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        """The segments that say something, those longer than one call takes in several."""
        for segment in segments:
            if not _said([segment]).strip():
                continue
            if self._bound is None or tokens_of(_said([segment])) <= self._bound:
                yield segment
                continue
            yield from (Segment(segment.turn, part, "") for part in _parts(segment.request, self._bound))
            yield from (Segment(segment.turn, "", part) for part in _parts(segment.answer, self._bound))

    def _groups(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """The segments by as many as one call takes."""
        group: list[Segment] = []
        size = 0
        for segment in segments:
            tokens = tokens_of(_said([segment]))
            if group and self._bound is not None and size + tokens > self._bound:
                yield group
                group, size = [], 0
            group.append(segment)
            size += tokens
        if group:
            yield group


def whole(synthesizer: Resuming, shown: Shown) -> Synopsis:
    """What it makes of an artifact from nothing, call after call. Raises SynthesisError."""
    synopsis = Synopsis(Outcome.EMPTY)
    while left := synthesizer.left(shown, synopsis.state):
        synopsis = synthesizer.resume(left[0])
        if synopsis.outcome is Outcome.FAILED:
            raise SynthesisError(synopsis.message, synopsis.kind)
    return synopsis


def _parts(text: str, tokens: int) -> list[str]:
    return parts_of(text, tokens) if text.strip() else []


def _said(segments: Sequence[Segment]) -> str:
    return "\n\n".join(part for segment in segments for part in (segment.request, segment.answer) if part)


def _covered(segment: Segment) -> tuple[int, str]:
    return segment.turn, content_hash(segment.request, segment.answer)[:HASH_DIGITS]
