"""A model behind an endpoint, asked by a search while somebody waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from annotated_types import Ge, Gt, MinLen
from pydantic import BaseModel, SecretStr, ValidationError

from findingaid.errors import ModelError, SynthesisError
from findingaid.synthesis.answers import content_of, form_of, unfenced
from findingaid.synthesis.endpoint import Connection, Endpoint, connection_of
from findingaid.synthesis.line import Limits
from findingaid.synthesis.prompting import enclosed

PROMPTS = Path(__file__).parent / "prompts"
CHAT = "/chat/completions"
AT_ONCE = 8
"""Requests of one process under way at an endpoint; others wait."""

Answer = TypeVar("Answer", bound=BaseModel)


@cache
def prompt(name: str) -> str:
    """A prompt that ships, by the name of its file."""
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()


def as_data(text: str) -> str:
    """A text between its tags, for the message of a user."""
    return "\n".join(enclosed(text).values())


@dataclass(frozen=True, kw_only=True)
class Service:
    """`model` at `base_url`; the key is `api_key`, else what the variable `api_key_env` holds.

    A request that gets no answer within `timeout` seconds is sent again, `retries` times at most.
    """

    model: Annotated[str, MinLen(1)]
    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: dict[str, SecretStr] = field(default_factory=dict, repr=False)
    timeout: Annotated[float, Gt(0)] = 30.0
    retries: Annotated[int, Ge(0)] = 2

    def __post_init__(self) -> None:
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", SecretStr(self.api_key))
        self._endpoint.check()

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self.base_url, self.api_key, self.api_key_env, self.default_headers, self.timeout)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that is answered. Raises ModelError."""
        limits = Limits(AT_ONCE, None, None, self.timeout, self.retries)
        connection: Connection = connection_of(self, Connection, self._endpoint, limits)

        async def send() -> Any:
            return orjson.loads(await connection.client.post(path, cast_to=bytes, body=body))

        try:
            return connection.loop.submit(connection.line.ask(send, 0, lambda: True)).result()
        except SynthesisError as error:
            raise self.error(str(error), error.kind) from None

    def error(self, message: str, kind: str = "parse") -> ModelError:
        """What went wrong, led by who did it."""
        return ModelError(f"{self.model} at {self._endpoint.where}: {message}", kind)


@dataclass(frozen=True, kw_only=True)
class ChatService(Service):
    """A chat model that answers in JSON, held to a schema where `structured`; `extra` is added to each request."""

    structured: bool = True
    temperature: Annotated[float, Ge(0)] | None = None
    max_output_tokens: Annotated[int, Gt(0)] | None = 4096
    extra: dict[str, Any] = field(default_factory=dict)

    def ask(self, system: str, user: str, answer: type[Answer]) -> Answer:
        """What the model answers, read as `answer`. Raises ModelError."""
        asked: dict[str, Any] = {
            "temperature": self.temperature,
            "max_completion_tokens": self.max_output_tokens,
            "response_format": _form(answer) if self.structured else None,
        }
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        given = {key: value for key, value in asked.items() if value is not None}
        completion = self.post(CHAT, {"model": self.model, "messages": messages, **given, **self.extra})
        try:
            return answer.model_validate_json(unfenced(content_of(completion)))
        except SynthesisError as error:
            raise self.error(str(error), error.kind) from None
        except ValidationError:
            raise self.error("the answer is not the JSON asked for") from None


def _form(answer: type[BaseModel]) -> dict[str, Any]:
    schema = answer.model_json_schema()
    return form_of(schema["title"].lower(), schema)
