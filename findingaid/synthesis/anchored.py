"""Synopses of sessions as anchored summaries. If a session has grown, only its new turns are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, ValidationError, ValidationInfo

from findingaid.errors import SynthesisError, failure_kind, one_line
from findingaid.identity.hashes import content_hash
from findingaid.llm.prompts import estimate_tokens, split_text
from findingaid.model import Outcome, Segment, Synopsis, SynthesizerInput, Usage
from findingaid.protocols import ResumableSynthesizer
from findingaid.registry import checked
from findingaid.synthesis import SUMMARIZERS
from findingaid.synthesis.anchored_summary import AnchoredSummary, Summarizer
from findingaid.synthesis.extractive_summary import ExtractiveSummarizer
from findingaid.synthesis.openai_summary import OpenAISummarizer

HASH_DIGITS = 12


def _summarizer(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, Mapping):
        return value
    context = info.context or {}
    where = f"{context.get('where', 'synthesizer')}.{info.field_name}"
    return SUMMARIZERS.create(value, where, context.get("base"))


NestedSummarizer = Annotated[Summarizer, InstanceOf(), BeforeValidator(_summarizer)]
"""Type of a parameter that is a summarizer, given as a spec in a configuration."""


class State(BaseModel):
    """An anchored summary, with the turn and hash of each segment that it covers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    summary: AnchoredSummary
    covered: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, text: str) -> State | None:
        """Parse a state; return None if the text does not hold one."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValidationError:  # from another version of this schema: the session is read again
            return None

    def resume_index(self, segments: Sequence[tuple[int, str]]) -> int | None:
        """Return the index of the first segment to read, or None if this state is of no use.

        - If nothing changed, that is the first segment that is not covered.
        - If only the last covered turn changed, that is its first segment: it may have been incomplete when it was
          read.
        - If an earlier turn changed, or the last covered turn is gone, the result is None.
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


@checked
@dataclass(frozen=True)
class Anchored:
    """A running summary in fixed sections by `summarizer`, which is sent the new turns and the summary so far.

    If the summarizer fails, the previous summary is kept. If there is no previous summary, sentences taken from the
    turns are used instead.
    """

    summarizer: NestedSummarizer = field(default_factory=ExtractiveSummarizer)
    version: ClassVar[int] = 1
    """Version of the calls. Increment it when the same turns are sent differently."""

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
        """Return the expected usage of one call, without a call."""
        return self.summarizer.estimate(text) if isinstance(self.summarizer, OpenAISummarizer) else Usage(calls=1)

    def most(self, text: str) -> Usage | None:
        """Return the maximum usage of one call; None if nothing limits the length of its answer."""
        return self.summarizer.most(text) if isinstance(self.summarizer, OpenAISummarizer) else self.estimate(text)

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return run_to_completion(self, SynthesizerInput("", text, metadata, [Segment(0, "", text)])).text

    def left(self, shown: SynthesizerInput, state: str) -> list[SynthesizerInput]:
        segments = list(self._cut(shown.segments))
        known = State.of(state)
        start = known.resume_index(list(map(_covered, segments))) if known else None
        groups = self._groups(segments[start or 0 :])
        calls = [replace(shown, text=_text_of(group), segments=group, state="") for group in groups]
        if calls and known and start is not None:
            kept = State(summary=known.summary, covered=known.covered[:start])
            calls[0] = replace(calls[0], state=kept.model_dump_json())
        return calls

    def resume(self, shown: SynthesizerInput) -> Synopsis:
        known = State.of(shown.state)
        existing = known.summary if known else None
        made, usage = self._summarize(shown.segments, existing)
        if isinstance(made, Exception):
            return Synopsis(Outcome.FAILED, kind=failure_kind(made), message=one_line(made), usage=usage)
        summary = made.model_copy(update={"iteration": (existing.iteration if existing else 0) + 1})
        state = State(summary=summary, covered=(*(known.covered if known else ()), *map(_covered, shown.segments)))
        outcome = Outcome.EMPTY if summary.is_empty() else Outcome.OK
        return Synopsis(outcome, summary.to_prompt_text(), usage=usage, state=state.model_dump_json())

    def _summarize(
        self, segments: Sequence[Segment], existing: AnchoredSummary | None
    ) -> tuple[AnchoredSummary | Exception, Usage]:
        try:
            if isinstance(self.summarizer, OpenAISummarizer):
                result = self.summarizer.call(segments, existing)
                return result.error or result.get(), result.usage
            made: object = self.summarizer.summarize(segments, existing)
        except Exception as error:  # noqa: BLE001  # on any error, the previous summary is kept
            return error, Usage(calls=1)
        if not isinstance(made, AnchoredSummary):
            made = SynthesisError(
                f"the summarizer returned a {type(made).__name__}, expected an AnchoredSummary", "parse"
            )
        return made, Usage(calls=1)

    @property
    def _bound(self) -> int | None:
        bound: int | None = getattr(self.summarizer, "context_tokens", None)
        return bound

    def _cut(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        """Yield the segments that are not blank; one too long for a call is split into several."""
        for segment in segments:
            if not _text_of([segment]).strip():
                continue
            if self._bound is None or estimate_tokens(_text_of([segment])) <= self._bound:
                yield segment
                continue
            yield from (Segment(segment.turn, part, "") for part in _parts(segment.request, self._bound))
            yield from (Segment(segment.turn, "", part) for part in _parts(segment.answer, self._bound))

    def _groups(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """Yield groups of segments, each as large as one call allows."""
        group: list[Segment] = []
        size = 0
        for segment in segments:
            tokens = estimate_tokens(_text_of([segment]))
            if group and self._bound is not None and size + tokens > self._bound:
                yield group
                group, size = [], 0
            group.append(segment)
            size += tokens
        if group:
            yield group


def run_to_completion(synthesizer: ResumableSynthesizer, shown: SynthesizerInput) -> Synopsis:
    """Synthesize an artifact from the beginning, call after call. Raises SynthesisError."""
    synopsis = Synopsis(Outcome.EMPTY)
    while left := synthesizer.left(shown, synopsis.state):
        synopsis = synthesizer.resume(left[0])
        if synopsis.outcome is Outcome.FAILED:
            raise SynthesisError(synopsis.message, synopsis.kind)
    return synopsis


def _parts(text: str, tokens: int) -> list[str]:
    return split_text(text, tokens) if text.strip() else []


def _text_of(segments: Sequence[Segment]) -> str:
    return "\n\n".join(part for segment in segments for part in (segment.request, segment.answer) if part)


def _covered(segment: Segment) -> tuple[int, str]:
    return segment.turn, content_hash(segment.request, segment.answer)[:HASH_DIGITS]
