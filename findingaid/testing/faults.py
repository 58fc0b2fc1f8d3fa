"""What can go wrong with a request to an OpenAI-compatible server, worded as the real one words it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from findingaid.testing.http import Reply

Completion = dict[str, Any]
"""A chat completion, as JSON."""


@dataclass(frozen=True)
class Fault:
    """An error instead of the completion, a change of it, or trouble on its way.

    `error` is the error object of the reply's body; `change` alters the completion that would have been the answer;
    `raw` is a body of any bytes.
    """

    name: str
    status: int = 200
    error: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Completion], object] | None = None
    raw: bytes | None = None
    hang: bool = False
    cut: bool = False
    drip: float = 0.0

    def reply(self, completion: Completion) -> Reply:
        """What the server answers instead of the completion."""
        if self.change:
            self.change(completion)
        body = json.dumps({"error": self.error} if self.error else completion).encode()
        return Reply(self.status, body if self.raw is None else self.raw, self.headers, self.cut, self.drip, self.hang)


def _error(message: str, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": param, "code": code}


def rate_limited(retry_after: float | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    """429 for too many requests, with `retry-after`, or with the x-ratelimit headers given."""
    after = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    message = (
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."
        " Visit your account to learn more."
    )
    return Fault(
        "rate_limited", 429, _error(message, "requests", "rate_limit_exceeded"), {**after, **dict(headers or {})}
    )


def insufficient_quota() -> Fault:
    """429 for an account without money."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Fault("insufficient_quota", 429, _error(message, "insufficient_quota", "insufficient_quota"))


def server_error(status: int = 500, retry_after: float | None = None) -> Fault:
    """500, or 502, 503, 504."""
    message = (
        "The engine is currently overloaded, please try again later"
        if status == 503
        else "The server had an error while processing your request. Sorry about that!"
    )
    after = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault("server_error", status, _error(message, "server_error"), after)


def unauthorized(shown: str = "sk-wrong") -> Fault:
    """401; the real one shows a part of the key in its message."""
    return Fault(
        "unauthorized",
        401,
        _error(f"Incorrect API key provided: {shown}.", "invalid_request_error", "invalid_api_key"),
    )


def forbidden() -> Fault:
    """403, as of a gateway before the model."""
    return Fault("forbidden", 403, _error("Country, region, or territory not supported", "request_forbidden"))


def model_not_found(model: str = "gpt-missing") -> Fault:
    """404 for a model that is not there."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return Fault("model_not_found", 404, _error(message, "invalid_request_error", "model_not_found"))


def context_length_exceeded(tokens: int = 8192) -> Fault:
    """400 for a text that is longer than the model reads."""
    message = (
        f"This model's maximum context length is {tokens} tokens. However, your messages resulted in {tokens * 2}"
        " tokens. Please reduce the length of the messages."
    )
    error = _error(message, "invalid_request_error", "context_length_exceeded", "messages")
    return Fault("context_length_exceeded", 400, error)


def unsupported(param: str) -> Fault:
    """400 for a parameter that the model or the server does not know."""
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    return Fault(
        "unsupported", 400, _error(message, "invalid_request_error", "unsupported_parameter", param.split(".")[0])
    )


def hang() -> Fault:
    """No answer at all, until the client goes."""
    return Fault("hang", hang=True)


def cut() -> Fault:
    """The connection breaks in the middle of the body."""
    return Fault("cut", cut=True)


def drip(seconds: float) -> Fault:
    """The body comes in small pieces, over this many seconds."""
    return Fault("drip", drip=seconds)


def bad_json() -> Fault:
    """A body that is no JSON."""
    return Fault("bad_json", raw=b'{"id": "chatcmpl-1", "choices": [{"ind')


def no_choices() -> Fault:
    """A completion without choices."""
    return Fault("no_choices", change=lambda completion: completion.update(choices=[]))


def content(text: str | None, finish_reason: str = "stop") -> Fault:
    """A completion with this content, whatever schema was asked for."""

    def change(completion: Completion) -> None:
        completion["choices"][0]["message"]["content"] = text
        completion["choices"][0]["finish_reason"] = finish_reason

    return Fault("content", change=change)


def empty_content() -> Fault:
    """A completion that says nothing."""
    return content("")


def off_schema() -> Fault:
    """JSON that is not of the schema asked for."""
    return content('{"unexpected": [1, 2, 3]}')


def truncated() -> Fault:
    """An answer that ends at the limit of tokens, in the middle of its JSON."""
    return content('{"synopsis": "The document descri', "length")


def refusal(said: str = "I'm sorry, I can't help with that.") -> Fault:
    """The model refuses, in the field that is there for it."""

    def change(completion: Completion) -> None:
        completion["choices"][0]["message"] |= {"content": None, "refusal": said}

    return Fault("refusal", change=change)


def content_filter() -> Fault:
    """A filter behind the model held the answer back."""
    return content(None, "content_filter")
