"""Anchored summaries by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, ValidationError

from findingaid.errors import SynthesisError
from findingaid.identity import content_hash, to_json
from findingaid.model import NO_USAGE, Segment, Usage
from findingaid.registry import STRICT
from findingaid.summaries import LABELS, AnchoredSummary, Point
from findingaid.synthesis.answers import TEXT, content_of, form_of, list_of, object_of, unfenced, usage_of
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.synthesis.prompting import Messages, Prompt, enclosed, fill, shipped, tokens_of, without_controls

SUMMARY_TOKENS = 2_000
"""A summary is asked to be 400 words; what is longer than this is no summary, and none of its parts is taken."""

EXPECTED_TOKENS = 800
"""Of one answer, for a plan: 400 words, and the JSON around them."""

PLACE_CHARACTERS = 60
"""Of where an answer is wrong: a key of it may be of any length."""

AROUND_A_TURN = 60
"""Tokens of the tags and labels of one turn, for a plan."""

POINTS = list_of(object_of({"text": TEXT, "turns": list_of({"type": "integer"})}))

FORM = form_of("summary", object_of(dict.fromkeys(LABELS, POINTS)))


class _Said(BaseModel):
    text: str
    turns: list[int]


class _Answer(BaseModel):
    """The sections as a model writes them."""

    model_config = ConfigDict(extra="forbid")
    intent: list[_Said]
    decisions: list[_Said]
    files_touched: list[_Said]
    pending_tasks: list[_Said]
    current_state: list[_Said]


@dataclass(frozen=True)
class AnchoredPrompt(Prompt):
    """The system message for a summary that is written on."""

    rules = "anchored_rules"
    form = "form_anchored"

    @property
    def hash(self) -> str:
        return content_hash(self.system, self.structured, shipped("turn"), shipped("so_far"))

    def turns(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> Messages:
        """The messages for new turns, after the summary so far."""
        said = {s.id: s.points for s in existing.sections} if existing else {}
        before = to_json({i: [point.model_dump() for point in points] for i, points in said.items()})
        asked = [fill(shipped("so_far"), **enclosed(before))]
        for segment in segments:
            for who, text in (("the person", segment.request), ("the assistant", segment.answer)):
                if text.strip():
                    asked.append(fill(shipped("turn"), turn=segment.turn, who=who, **enclosed(text)))
        return self.messages("\n\n".join(asked))


@dataclass(frozen=True)
class OpenAISummarizer(OpenAISynthesizer):
    """Asks `model` to write a summary on; the parameters are those of the synthesizer "openai".

    `prompt` is a file that says what the sections are to hold. A session of which more than `context_tokens` are new
    is sent in several calls, one after another. Without `structured` the JSON is asked for in words alone.
    """

    context_tokens: Annotated[int, Ge(2 * SUMMARY_TOKENS)] = 16_000
    version: ClassVar[int] = 1
    form: ClassVar[Mapping[str, Any]] = FORM
    shipped_prompt: ClassVar[str] = "anchored"
    no_batches: ClassVar[str] = "each call goes on from the one before it, so none is sent by batch"
    __pydantic_config__: ClassVar = STRICT

    @cached_property
    def instructions(self) -> AnchoredPrompt:
        """What the model is told, whatever the turns. Raises ConfigError."""
        return AnchoredPrompt(self._what, self.structured)

    def estimate(self, text: str) -> Usage:
        around = tokens_of(self.instructions.system) + EXPECTED_TOKENS + AROUND_A_TURN * (text.count("\n\n") + 2)
        return Usage(1, around + tokens_of(text), EXPECTED_TOKENS)

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        made, _ = self.metered(segments, existing)
        if isinstance(made, SynthesisError):
            raise made
        return made

    def metered(
        self, segments: Sequence[Segment], existing: AnchoredSummary | None
    ) -> tuple[AnchoredSummary | SynthesisError, Usage]:
        messages = self.instructions.turns(segments, existing)
        said, usage = self._engine.loop.submit(self._answer(messages)).result()
        if isinstance(said, SynthesisError):
            return said, usage
        try:
            return read(said, segments, existing), usage
        except SynthesisError as error:
            return error, usage

    async def _answer(self, messages: Messages) -> tuple[str | SynthesisError, Usage]:
        """What the model wrote, or why nothing, and what that took."""
        tokens, usage = sum(tokens_of(message["content"]) for message in messages), NO_USAGE
        try:
            completion = await self._engine.line.ask(lambda: self._send(messages), tokens, _always)
            usage = usage_of(completion)
            return content_of(completion), usage
        except SynthesisError as error:
            return error, usage


def read(content: str, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
    """The summary that an answer holds. Raises SynthesisError for what is none.

    Turns that the model was not shown are taken out, and with them what cites no other.
    """
    try:
        answer = _Answer.model_validate_json(unfenced(content))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))[:PLACE_CHARACTERS] or "its beginning"
        raise SynthesisError(f"the answer is not the JSON asked for: see {place}", "parse") from None
    known = {segment.turn for segment in segments}
    known |= {turn for s in existing.sections for point in s.points for turn in point.turns} if existing else set()
    said: dict[str, list[_Said]] = {section: getattr(answer, section) for section in LABELS}
    points = {section: list(filter(None, (_point(one, known) for one in said[section]))) for section in LABELS}
    summary = AnchoredSummary.of(points, (existing.iteration if existing else 0) + 1)
    if summary.is_empty() and any(said.values()):
        raise SynthesisError("the answer cites no turn that it was shown", "parse")
    if summary.is_empty() and existing and not existing.is_empty():
        raise SynthesisError("the answer has nothing of the summary so far", "parse")
    if summary.token_estimate > SUMMARY_TOKENS:
        raise SynthesisError(f"the answer has some {summary.token_estimate:,} tokens, too many for a summary", "parse")
    return summary


def _point(said: _Said, known: set[int]) -> Point | None:
    turns = tuple(sorted({turn for turn in said.turns if turn in known}))
    text = without_controls(said.text)
    return Point(text=text, turns=turns) if turns and text.strip() else None


def _always() -> bool:
    return True
