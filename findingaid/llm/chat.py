"""Calls of a model during a search: the caller waits for each, and an error is a ModelError."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

from annotated_types import Ge, Gt
from pydantic import BaseModel

from findingaid.errors import ModelError, SynthesisError
from findingaid.llm.caller import Caller, ChatRequest
from findingaid.llm.completions import parse_json, response_format
from findingaid.llm.parameters import EndpointParameters

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True)
class Chat(Generic[Answer]):
    """A chat model whose answers are JSON that `answer` validates."""

    caller: Caller
    answer: type[Answer]

    def ask(self, system: str, user: str) -> Answer:
        """Ask the model and parse its answer. Raises ModelError."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            return self.caller.ask(messages, partial(parse_json, self.answer)).get()
        except SynthesisError as error:
            raise self.error(str(error), error.kind) from None

    def error(self, message: str, kind: str = "parse") -> ModelError:
        """Return an error whose message starts with the model and the host."""
        return ModelError(f"{self.caller.request.model} at {self.caller.endpoint.where}: {message}", kind)


@dataclass(frozen=True, kw_only=True)
class ChatParameters(EndpointParameters):
    """A chat model that answers in JSON, constrained by a schema if `structured`; `extra` is added to each request."""

    structured: bool = True
    temperature: Annotated[float, Ge(0)] | None = None
    max_output_tokens: Annotated[int, Gt(0)] | None = 4096
    extra: dict[str, Any] = field(default_factory=dict)

    def chat(self, answer: type[Answer]) -> Chat[Answer]:
        """Return a caller of the model whose answers `answer` validates."""
        request = ChatRequest(
            self.model,
            format_of(answer) if self.structured else None,
            self.temperature,
            max_output_tokens=self.max_output_tokens,
            extra=self.extra,
        )
        return Chat(Caller(self.endpoint, self.limits, request), answer)


def format_of(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the `response_format` of answers that `answer` validates."""
    schema = answer.model_json_schema()
    return response_format(schema["title"].lower(), schema)
