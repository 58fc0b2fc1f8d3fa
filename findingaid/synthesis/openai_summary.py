"""Anchored summaries by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

from annotated_types import Ge
from pydantic import BaseModel, ConfigDict

from findingaid.errors import SynthesisError
from findingaid.identity.hashes import to_json
from findingaid.llm.completions import TEXT, ModelText, array_schema, object_schema, parse_json, response_format
from findingaid.llm.parameters import ProducerParameters
from findingaid.llm.prompts import (
    Messages,
    Prompt,
    enclose,
    estimate_tokens,
    fill_template,
    load_template,
    without_controls,
)
from findingaid.model import CallResult, Segment, Usage
from findingaid.registry import checked
from findingaid.synthesis.anchored_summary import LABELS, AnchoredSummary, Point

SUMMARY_TOKENS = 2_000
"""Maximum tokens of a summary. The model is asked for 400 words; a summary over this limit is rejected as a whole."""

EXPECTED_TOKENS = 800
"""Expected tokens of one answer, for a plan: 400 words, and the JSON around them."""

AROUND_A_TURN = 60
"""Tokens of the tags and labels of one turn, for a plan."""

AROUND_A_TURN_BYTES = 400
"""Maximum bytes of the tags and labels of one turn."""

POINTS = array_schema(object_schema({"text": TEXT, "turns": array_schema({"type": "integer"})}))

RESPONSE_FORMAT = response_format("summary", object_schema(dict.fromkeys(LABELS, POINTS)))


class _Point(BaseModel):
    text: ModelText
    turns: list[int]


class _Answer(BaseModel):
    """The sections, as the model writes them."""

    model_config = ConfigDict(extra="forbid")
    intent: list[_Point]
    decisions: list[_Point]
    files_touched: list[_Point]
    pending_tasks: list[_Point]
    current_state: list[_Point]


@checked
@dataclass(frozen=True)
class OpenAISummarizer(ProducerParameters):
    """Asks `model` to update a summary; see `ProducerParameters`.

    `prompt` is a file that says what the sections should contain. If more than `context_tokens` of a session are new,
    they are sent in several calls, one after another. Without `structured`, the prompt alone asks for JSON.
    """

    context_tokens: Annotated[int, Ge(2 * SUMMARY_TOKENS)] = 16_000
    response_format = RESPONSE_FORMAT
    version: ClassVar[int] = 1

    @cached_property
    def instructions(self) -> Prompt:
        """Prompt with the system message, which does not depend on the turns."""
        return Prompt(self.task("anchored"), "form_anchored", "anchored_rules")

    @cached_property
    def id(self) -> str:
        templates = load_template("turn"), load_template("so_far")
        return self.producer_id(self.version, self.instructions.system, self.structured, *templates)

    def estimate(self, text: str) -> Usage:
        around = estimate_tokens(self.instructions.system) + EXPECTED_TOKENS + AROUND_A_TURN * (text.count("\n\n") + 2)
        return Usage(1, around + estimate_tokens(text), EXPECTED_TOKENS)

    def most(self, text: str) -> Usage | None:
        longest = estimate_tokens(self.instructions.system) + SUMMARY_TOKENS + estimate_tokens(text)
        turns = AROUND_A_TURN_BYTES * (text.count("\n\n") + 2)
        return self.caller.request.most_of([Usage(1, longest)], turns)

    def summarize(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
        return self.call(segments, existing).get()

    def call(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> CallResult[AnchoredSummary]:
        return self.caller.ask(self._messages(segments, existing), lambda content: read(content, segments, existing))

    def _messages(self, segments: Sequence[Segment], existing: AnchoredSummary | None) -> Messages:
        """Return the messages for new turns, led by the summary so far."""
        said = {s.id: s.points for s in existing.sections} if existing else {}
        before = to_json({i: [point.model_dump() for point in points] for i, points in said.items()})
        asked = [fill_template(load_template("so_far"), **enclose(before))]
        for segment in segments:
            for who, text in (("the person", segment.request), ("the assistant", segment.answer)):
                if text.strip():
                    asked.append(fill_template(load_template("turn"), turn=segment.turn, who=who, **enclose(text)))
        return self.instructions.messages("\n\n".join(asked))


def read(content: str, segments: Sequence[Segment], existing: AnchoredSummary | None) -> AnchoredSummary:
    """Parse the summary from an answer. Raises SynthesisError for an answer without a valid summary.

    Turns that the model was not shown are removed, and so are points that cite no other turn. A point without turns is
    kept only in a section that had one before.
    """
    answer = parse_json(_Answer, content)
    known = {segment.turn for segment in segments}
    known |= {turn for s in existing.sections for point in s.points for turn in point.turns} if existing else set()
    plain = {s.id for s in existing.sections if not all(point.turns for point in s.points)} if existing else set()
    said: dict[str, list[_Point]] = {section: getattr(answer, section) for section in LABELS}
    points = {
        section: list(filter(None, (_point(one, known, section in plain) for one in said[section])))
        for section in LABELS
    }
    summary = AnchoredSummary.of(points, (existing.iteration if existing else 0) + 1)
    if summary.is_empty() and any(said.values()):
        raise SynthesisError("the answer cites no turn that it was shown", "parse")
    if summary.is_empty() and existing and not existing.is_empty():
        raise SynthesisError("the answer contains nothing of the previous summary", "parse")
    if summary.token_estimate > SUMMARY_TOKENS:
        raise SynthesisError(f"the answer has some {summary.token_estimate:,} tokens, too many for a summary", "parse")
    return summary


def _point(said: _Point, known: set[int], may_be_plain: bool) -> Point | None:
    turns = tuple(sorted({turn for turn in said.turns if turn in known}))
    text = without_controls(said.text)
    traced = turns or (may_be_plain and not said.turns)
    return Point(text=text, turns=turns) if traced and text.strip() else None
