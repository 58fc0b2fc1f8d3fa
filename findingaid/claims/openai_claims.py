"""Claims by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from findingaid.claims.forms import SHOWN_OF_REFUSED, extraction_of, extraction_text
from findingaid.identity import content_hash
from findingaid.model import Extraction, Outcome, Statement, Synopsis, Usage
from findingaid.registry import STRICT
from findingaid.synthesis.answers import TEXT, form_of, list_of, object_of, parsed
from findingaid.synthesis.openai_chat import OpenAISynthesizer, Wanted
from findingaid.synthesis.prompting import Messages, Prompt, on_a_line, parts_of, shipped, tokens_of

TOKENS_A_CLAIM = 100
"""Of a claim in an answer, with its quote and the JSON around it, for a plan."""

WORDS_A_CLAIM = 40
"""Of a text, about so many for each claim that a model finds in it, for a plan."""

TYPES = ("fact", "decision", "requirement", "definition", "opinion", "other")

FOUND = object_of(
    {
        "text": TEXT,
        "quote": TEXT,
        "type": {"type": "string", "enum": list(TYPES)},
        "confidence": {"type": "number"},
        "entities": list_of(TEXT),
    }
)

FORM = form_of("claims", object_of({"claims": list_of(FOUND)}))


class _Said(BaseModel):
    text: str
    quote: str
    type: str = "fact"
    confidence: float = Field(default=1.0, ge=0, le=1)
    entities: list[str] = Field(default_factory=list)


class _Answer(BaseModel, extra="forbid"):
    claims: list[_Said]


@dataclass(frozen=True)
class ClaimsPrompt(Prompt):
    """The system message for claims; nothing is put together of parts, since the claims of a text are those of its
    parts."""

    form = "form_claims"

    @property
    def hash(self) -> str:
        return content_hash(self.system, self.structured, shipped("document"), shipped("part_claims"))

    def part(self, text: str, part: int, parts: int) -> Messages:
        return self._messages("part_claims", text, part=part, parts=parts)


@dataclass(frozen=True)
class OpenAIClaims(OpenAISynthesizer):
    """Asks `model` for the statements of a text, each with the passage that says so; the parameters are those of the
    synthesizer "openai".

    `prompt` is a file that says what a claim is. A text longer than `context_tokens` is sent in parts. Without
    `structured` the JSON is asked for in words alone. A claim whose quote is not in the text is refused.
    """

    version: ClassVar[int] = 1
    form: ClassVar[Mapping[str, Any]] = FORM
    shipped_prompt: ClassVar[str] = "claims"
    no_batches: ClassVar[str] = "claims are not asked for by batch"
    __pydantic_config__: ClassVar = STRICT

    @cached_property
    def instructions(self) -> ClaimsPrompt:
        """What the model is told, whatever the text. Raises ConfigError."""
        return ClaimsPrompt(self._what, self.structured)

    def calls_for(self, text: str) -> list[Usage]:
        """The calls that a text will take: one a part."""
        if not text.strip():
            return []
        around = tokens_of(self.instructions.system)
        parts = parts_of(text, self.context_tokens)
        return [
            Usage(1, around + tokens_of(part), TOKENS_A_CLAIM * (1 + len(part.split()) // WORDS_A_CLAIM))
            for part in parts
        ]

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        return extraction_of(self.synthesize(text, metadata))

    async def _combined(self, made: Sequence[Synopsis], wanted: Wanted) -> Synopsis:
        each = [extraction_of(synopsis.text) for synopsis in made]
        return _synopsis(
            Extraction([s for e in each for s in e.statements], [line for e in each for line in e.refused])
        )

    def _written(self, content: str) -> Synopsis:
        return _synopsis(read(content))


def _synopsis(extraction: Extraction) -> Synopsis:
    text = extraction_text(extraction)
    return Synopsis(Outcome.OK if text else Outcome.EMPTY, text)


def read(content: str) -> Extraction:
    """The statements of an answer; whether their quotes are there is for others to see. Raises SynthesisError."""
    answer = parsed(_Answer, content)
    refused = [
        f"{on_a_line(said.text)[:SHOWN_OF_REFUSED]!r} has no quote"
        for said in answer.claims
        if not on_a_line(said.quote)
    ]
    return Extraction([_statement(said) for said in answer.claims if on_a_line(said.quote)], refused)


def _statement(said: _Said) -> Statement:
    kind = said.type if said.type in TYPES else "other"
    entities = [name for name in map(on_a_line, said.entities) if name]
    return Statement(on_a_line(said.text), said.quote, None, kind, said.confidence, list(dict.fromkeys(entities)))
