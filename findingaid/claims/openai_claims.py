"""Claims by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from findingaid.claims.forms import SHOWN_OF_REFUSED
from findingaid.identity.hashes import text_hash
from findingaid.llm.completions import TEXT, ModelText, array_schema, object_schema, parse_json, response_format
from findingaid.llm.parameters import ProducerParameters
from findingaid.llm.prompts import Prompt, estimate_tokens, load_template, split_text, to_one_line
from findingaid.llm.rate_limits import StillWanted
from findingaid.model import CallResult, Usage
from findingaid.protocols import Extraction, Statement
from findingaid.registry import checked

TOKENS_A_CLAIM = 100
"""Estimated tokens of a claim in an answer, with its quote and the JSON around it, for a plan."""

WORDS_A_CLAIM = 40
"""Estimated words of text for each claim that a model finds in it, for a plan."""

TYPES = ("fact", "decision", "requirement", "definition", "opinion", "other")

FOUND = object_schema(
    {
        "text": TEXT,
        "quote": TEXT,
        "type": {"type": "string", "enum": list(TYPES)},
        "confidence": {"type": "number"},
        "entities": array_schema(TEXT),
    }
)

RESPONSE_FORMAT = response_format("claims", object_schema({"claims": array_schema(FOUND)}))


class _Claim(BaseModel):
    text: ModelText
    quote: str
    type: str = "fact"
    confidence: float = Field(default=1.0, ge=0, le=1)
    entities: list[str] = Field(default_factory=list)


class _Answer(BaseModel, extra="forbid"):
    claims: list[_Claim]


@checked
@dataclass(frozen=True)
class OpenAIClaims(ProducerParameters):
    """Statements that `model` finds in a text, each with the passage that supports it; see `ProducerParameters`.

    `prompt` is a file that defines a claim. A text longer than `context_tokens` is sent in parts, and its claims are
    those of its parts. Without `structured`, only the prompt asks for JSON. A claim whose quote is not in the text is
    refused.
    """

    response_format = RESPONSE_FORMAT
    version: ClassVar[int] = 1

    @cached_property
    def instructions(self) -> Prompt:
        """Prompt with the system message, the same for all texts."""
        return Prompt(self.task("claims"), "form_claims")

    @cached_property
    def id(self) -> str:
        templates = load_template("document"), load_template("part_claims")
        return self.producer_id(self.version, self.instructions.system, self.structured, *templates)

    def calls_for(self, text: str) -> list[Usage]:
        """Return the calls that a text will take: one for each part."""
        if not text.strip():
            return []
        around = estimate_tokens(self.instructions.system)
        parts = split_text(text, self.context_tokens)
        return [
            Usage(1, around + estimate_tokens(part), TOKENS_A_CLAIM * (1 + len(part.split()) // WORDS_A_CLAIM))
            for part in parts
        ]

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        return self.caller.run(text, text_hash(text), self._extraction).get()

    def call_all(self, inputs: Iterable[str]) -> Generator[tuple[int, CallResult[Extraction]]]:
        return self.caller.run_all(inputs, text_hash, self._extraction)

    async def _extraction(self, text: str, wanted: StillWanted) -> CallResult[Extraction]:
        if not text.strip():
            return CallResult(Extraction())
        parts = await self.caller.call_document(
            self.instructions, text, self.context_tokens, "part_claims", read, wanted
        )
        return parts.map(_joined)


def _joined(parts: Sequence[Extraction]) -> Extraction:
    return Extraction([s for part in parts for s in part.statements], [line for part in parts for line in part.refused])


def read(content: str) -> Extraction:
    """Parse an answer into statements; a later step checks their quotes against the text. Raises SynthesisError."""
    answer = parse_json(_Answer, content)
    refused = [
        f"{to_one_line(said.text)[:SHOWN_OF_REFUSED]!r} has no quote"
        for said in answer.claims
        if not to_one_line(said.quote)
    ]
    return Extraction([_statement(said) for said in answer.claims if to_one_line(said.quote)], refused)


def _statement(said: _Claim) -> Statement:
    kind = said.type if said.type in TYPES else "other"
    entities = [name for name in map(to_one_line, said.entities) if name]
    return Statement(to_one_line(said.text), said.quote, None, kind, said.confidence, list(dict.fromkeys(entities)))
