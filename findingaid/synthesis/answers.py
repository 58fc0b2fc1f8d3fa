"""What an OpenAI-compatible endpoint answers, read into a synopsis or the reason why there is none."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from findingaid.errors import SynthesisError
from findingaid.model import NO_USAGE, Outcome, Synopsis, Usage
from findingaid.synthesis.prompting import on_a_line, tokens_of, without_controls

T = TypeVar("T", bound=BaseModel)

SYNOPSIS_TOKENS = 1_000
"""A synopsis is asked to be 120 words; what is longer than this is no synopsis, and none of its parts is taken."""

NOTHING = "NOTHING"
"""What a model writes that has nothing to say and is asked for no JSON."""

THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
"""What some local servers leave before the answer of a model that reasons."""

FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)

MESSAGE_CHARACTERS = 160
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

TEXT: Mapping[str, Any] = {"type": "string"}


def object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with all of these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an array."""
    return {"type": "array", "items": items}


def form_of(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `response_format` that holds an answer to a schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


FORM = form_of("synopsis", object_of({"synopsis": TEXT}))


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


class _Synopsis(BaseModel, extra="forbid", strict=True):
    synopsis: str


def read(completion: Any, made_of: Callable[[str], Synopsis]) -> Synopsis:
    """What is made of the text in a chat completion, with what it used; failed where there is none, never raises."""
    usage = usage_of(completion)
    try:
        return replace(made_of(content_of(completion)), usage=usage)
    except SynthesisError as error:
        return failed(error, usage)


def failed(error: SynthesisError, usage: Usage = NO_USAGE) -> Synopsis:
    """That there is none, and why."""
    return Synopsis(Outcome.FAILED, kind=error.kind, message=str(error), usage=usage)


def content_of(completion: Any) -> str:
    """What a model wrote, without its thoughts. Raises SynthesisError where that is nothing, or not all."""
    try:
        choice = _Completion.model_validate(completion).choices[0]
    except (ValidationError, IndexError):
        raise SynthesisError("the answer is no chat completion with a choice", "parse") from None
    content = choice.message.content
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise SynthesisError("the model or a filter refused to write about this text", "refused")
    if choice.finish_reason == "length":
        raise SynthesisError("the answer ends at the limit of tokens: raise max_output_tokens", "truncated")
    if content is None:
        raise SynthesisError("the answer has no content", "parse")
    return THOUGHTS.sub("", content).strip()


def unfenced(content: str) -> str:
    """JSON without the fence of Markdown that some models put around it."""
    return FENCE.sub(r"\1", content)


def parsed(form: type[T], content: str) -> T:
    """The JSON that a model wrote. Raises SynthesisError."""
    try:
        return form.model_validate_json(unfenced(content))
    except ValidationError:
        raise SynthesisError(
            "the answer is not the JSON asked for; where the server knows no json_schema, set structured: false",
            "parse",
        ) from None


def synopsis_of(content: str, structured: bool) -> Synopsis:
    """The synopsis that a model wrote. Raises SynthesisError."""
    if content and structured:
        content = parsed(_Synopsis, content).synopsis
    text = on_a_line(content)
    if not text or (not structured and text.strip("\"'.*") == NOTHING):
        return Synopsis(Outcome.EMPTY)
    if tokens_of(text) > SYNOPSIS_TOKENS:
        raise SynthesisError(f"the answer has {len(text):,} characters, too many for a synopsis", "parse")
    return Synopsis(Outcome.OK, text)


def usage_of(completion: Any) -> Usage:
    """What a completion used; one call, whatever its server counts."""
    try:
        tokens = _Tokens.model_validate(completion["usage"])
    except (ValidationError, KeyError, TypeError):
        return Usage(calls=1)
    return Usage(1, tokens.prompt_tokens, tokens.completion_tokens)


@dataclass(frozen=True)
class Trouble:
    """Why there is no completion, and what that means for the next requests.

    `again`: it may pass, so the request is worth sending again; `pause`: all are to wait first; `stop`: none will get
    through, so none is worth sending; `ours`: it lies in this one request, and says nothing of the endpoint.
    """

    kind: str
    message: str
    again: bool = False
    pause: bool = False
    stop: bool = False
    ours: bool = False
    after: float | None = None

    def without(self, secrets: Iterable[str]) -> Trouble:
        """The same, its message without these."""
        message = self.message
        for secret in secrets:
            message = message.replace(secret, "***")
        return replace(self, message=message)


def trouble_of_status(status: int, error: Any, headers: Mapping[str, str]) -> Trouble:
    """What an answer other than 200 means; `error` is the error object of its body, where it has one."""
    code = str(error.get("code") or error.get("type") or "") if isinstance(error, Mapping) else ""
    said = f"{status} {_said(error, code)}".strip()
    match status:
        case 401:
            return Trouble("auth", "401: the endpoint does not know the API key", stop=True)
        case 403:
            return Trouble("auth", said)
        case 404:
            return Trouble("other", f"{said}: see model and base_url", stop=True)
        case 429 if code in {"insufficient_quota", "billing_hard_limit_reached"}:
            return Trouble("budget", "429: the account's quota is used up", stop=True)
        case 429:
            return Trouble("transport", said, again=True, pause=True, after=wait_of(headers))
        case 408 | 409:
            return Trouble("transport", said, again=True)
        case _ if status >= 500:
            after = wait_of(headers)
            return Trouble("transport", said, again=True, pause=after is not None, after=after)
    return _trouble_of_request(said, code, str(error))


def _trouble_of_request(said: str, code: str, error: str) -> Trouble:
    if code == "context_length_exceeded" or "context length" in error:
        return Trouble("other", f"{said}: lower context_tokens", ours=True)
    if code in {"content_filter", "content_policy_violation"}:
        return Trouble("refused", said, ours=True)
    if "response_format" in error or "json_schema" in error:
        return Trouble("other", f"{said}: set structured: false", stop=True)
    return Trouble("other", said)


def trouble_of(error: Exception, where: str) -> Trouble:
    """What an error that the client raised means; `where` names the endpoint."""
    import openai

    match error:
        case openai.APIStatusError():
            return trouble_of_status(error.status_code, error.body, error.response.headers)
        case TimeoutError() | openai.APITimeoutError():
            return Trouble("timeout", f"no answer from {where} in time", again=True)
        case openai.APIConnectionError():
            cause = type(error.__cause__ or error).__name__
            return Trouble("transport", f"no answer from {where}: {cause}", again=True)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return Trouble("parse", f"the answer from {where} is no JSON")
        case openai.OpenAIError():  # raised before anything is sent
            return Trouble("auth", "no API key: set the variable that api_key_env names", stop=True)
    return Trouble("other", f"{where}: {type(error).__name__}")


def _said(error: Any, code: str) -> str:
    message = error.get("message") if isinstance(error, Mapping) else None
    words = on_a_line(str(message or ""))[:MESSAGE_CHARACTERS].rstrip(".")
    return ": ".join(filter(None, (without_controls(code), words)))


def wait_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds a server asks to wait, None where it does not say."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _number(headers.get(name))) is not None:
            return max(0.0, seconds * scale)
    if date := headers.get("retry-after"):
        parsed = email.utils.parsedate_tz(date)
        return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else None
    kinds = [kind for kind in ("requests", "tokens") if f"x-ratelimit-reset-{kind}" in headers]
    used_up = [kind for kind in kinds if headers.get(f"x-ratelimit-remaining-{kind}") == "0"]
    waits = [_duration(headers[f"x-ratelimit-reset-{kind}"]) for kind in used_up or kinds]
    return max((wait for wait in waits if wait is not None), default=None)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _duration(text: str) -> float | None:
    """Seconds of "6m0s", "20ms" or "1.5"."""
    found = DURATION.findall(text)
    return sum(float(number) * SECONDS[unit] for number, unit in found) if found else _number(text)
