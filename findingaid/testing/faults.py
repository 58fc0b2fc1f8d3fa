"""Errors of requests to an OpenAI-compatible server, worded as by the real API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from findingaid.testing.http import Reply

Completion = dict[str, Any]
"""Chat completion as JSON."""


@dataclass(frozen=True)
class Fault:
    """Simulated fault: an error response, a changed completion, or a transport problem.

    `error` is the error object in the response body. `change` modifies the completion that would have been sent. `raw`
    is a body of arbitrary bytes. With `hang` no response comes, with `cut` the connection breaks in the middle of the
    body, and `drip` is the number of seconds over which the body is sent.
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
        """Return the response that replaces `completion`, which may be modified in place."""
        if self.change:
            self.change(completion)
        body = json.dumps({"error": self.error} if self.error else completion).encode()
        return Reply(self.status, body if self.raw is None else self.raw, self.headers, self.cut, self.drip, self.hang)


def _error(message: str, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"message": message, "type": kind, "param": param, "code": code}


def rate_limited(retry_after: float | None = None, headers: Mapping[str, str] | None = None) -> Fault:
    """Return status 429 for too many requests, with a `retry-after` header or the given x-ratelimit headers."""
    after = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    message = (
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s."
        " Visit your account to learn more."
    )
    return Fault(
        "rate_limited", 429, _error(message, "requests", "rate_limit_exceeded"), {**after, **dict(headers or {})}
    )


def insufficient_quota() -> Fault:
    """Return status 429 for an account without credit."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Fault("insufficient_quota", 429, _error(message, "insufficient_quota", "insufficient_quota"))


def server_error(status: int = 500, retry_after: float | None = None) -> Fault:
    """Return status 500, or another given status such as 502, 503 or 504."""
    message = (
        "The engine is currently overloaded, please try again later"
        if status == 503
        else "The server had an error while processing your request. Sorry about that!"
    )
    after = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Fault("server_error", status, _error(message, "server_error"), after)


def unauthorized(shown: str = "sk-wrong") -> Fault:
    """Return status 401; the message of the real API also shows a part of the key."""
    return Fault(
        "unauthorized",
        401,
        _error(f"Incorrect API key provided: {shown}.", "invalid_request_error", "invalid_api_key"),
    )


def forbidden() -> Fault:
    """Return status 403, as sent by a gateway in front of the model."""
    return Fault("forbidden", 403, _error("Country, region, or territory not supported", "request_forbidden"))


def model_not_found(model: str = "gpt-missing") -> Fault:
    """Return status 404 for an unknown model."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return Fault("model_not_found", 404, _error(message, "invalid_request_error", "model_not_found"))


def context_length_exceeded(tokens: int = 8192) -> Fault:
    """Return status 400 for a text that exceeds the model's context."""
    message = (
        f"This model's maximum context length is {tokens} tokens. However, your messages resulted in {tokens * 2}"
        " tokens. Please reduce the length of the messages."
    )
    error = _error(message, "invalid_request_error", "context_length_exceeded", "messages")
    return Fault("context_length_exceeded", 400, error)


def unsupported(param: str) -> Fault:
    """Return status 400 for a parameter that the model or the server does not support."""
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    return Fault(
        "unsupported", 400, _error(message, "invalid_request_error", "unsupported_parameter", param.split(".")[0])
    )


def hang() -> Fault:
    """Return a fault that sends no response and waits for the client to disconnect."""
    return Fault("hang", hang=True)


def cut() -> Fault:
    """Return a fault that closes the connection in the middle of the body."""
    return Fault("cut", cut=True)


def drip(seconds: float) -> Fault:
    """Return a fault that sends the body in small pieces over this many seconds."""
    return Fault("drip", drip=seconds)


def bad_json() -> Fault:
    """Return a body that is not valid JSON."""
    return Fault("bad_json", raw=b'{"id": "chatcmpl-1", "choices": [{"ind')


def no_choices() -> Fault:
    """Return a completion without choices."""
    return Fault("no_choices", change=lambda completion: completion.update(choices=[]))


def content(text: str | None, finish_reason: str = "stop") -> Fault:
    """Return a completion with this content, even if it does not match the requested schema."""

    def change(completion: Completion) -> None:
        completion["choices"][0]["message"]["content"] = text
        completion["choices"][0]["finish_reason"] = finish_reason

    return Fault("content", change=change)


def empty_content() -> Fault:
    """Return a completion with an empty text."""
    return content("")


def off_schema() -> Fault:
    """Return a completion with JSON that does not match the requested schema."""
    return content('{"unexpected": [1, 2, 3]}')


def truncated() -> Fault:
    """Return a completion that was cut off at the token limit, in the middle of its JSON."""
    return content('{"synopsis": "The document descri', "length")


def refusal(said: str = "I'm sorry, I can't help with that.") -> Fault:
    """Return a completion in which the model refuses, with the reason in the `refusal` field."""

    def change(completion: Completion) -> None:
        completion["choices"][0]["message"] |= {"content": None, "refusal": said}

    return Fault("refusal", change=change)


def content_filter() -> Fault:
    """Return a completion whose content was withheld by a content filter."""
    return content(None, "content_filter")
