"""Parsing of completions from an OpenAI-compatible endpoint, and the schemas that constrain them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from findingaid.errors import SynthesisError
from findingaid.model import CallResult, Usage

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""Thoughts that some local servers leave before the answer of a reasoning model."""

FENCE = "```"

TEXT: Mapping[str, Any] = {"type": "string"}


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def array_schema(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `response_format` that constrains an answer to a schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice]


class _Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


def parse_completion(completion: Any, parse: Callable[[str], T]) -> CallResult[T]:
    """Return the text of a completion as `parse` converts it, with its usage. It never raises a SynthesisError."""
    return CallResult(completion, completion_usage(completion)).map(lambda answer: parse(answer_text(answer)))


def answer_text(completion: Any) -> str:
    """Return the text of a completion, without thoughts. Raises SynthesisError if it is missing, refused or cut off."""
    try:
        choice = _Completion.model_validate(completion).choices[0]
    except (ValidationError, IndexError):
        raise SynthesisError("the answer is not a chat completion with a choice", "parse") from None
    content = choice.message.content
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise SynthesisError("the model or a filter refused to write about this text", "refused")
    if choice.finish_reason == "length":
        raise SynthesisError("the answer ends at the token limit: raise max_output_tokens", "truncated")
    if content is None:
        raise SynthesisError("the answer has no content", "parse")
    return THOUGHTS.sub("", content).strip()


def strip_fence(content: str) -> str:
    """Return JSON without the Markdown fence that some models put around it."""
    if not (content.startswith(FENCE) and content.endswith(FENCE)):
        return content
    first, _, rest = content.removeprefix(FENCE).partition("\n")
    body, _, last = rest.rpartition("\n")
    return content if first.strip() not in {"", "json"} or last.strip() != FENCE else body


def parse_json(form: type[M], content: str) -> M:
    """Parse the JSON that a model wrote. Raises SynthesisError."""
    try:
        return form.model_validate_json(strip_fence(content))
    except ValidationError:
        raise SynthesisError(
            "the answer is not the requested JSON; if the server does not support json_schema, set structured: false",
            "parse",
        ) from None


def completion_usage(completion: Any) -> Usage:
    """Return the usage of a completion: one call, without tokens if the server does not report them."""
    try:
        tokens = _Tokens.model_validate(completion["usage"])
    except (ValidationError, KeyError, TypeError):
        return Usage(calls=1)
    return Usage(1, tokens.prompt_tokens, tokens.completion_tokens)
