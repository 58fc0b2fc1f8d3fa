"""Errors of an endpoint: their kind, and their meaning for the next requests."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from findingaid.llm.prompts import to_one_line, without_controls

MESSAGE_CHARACTERS = 160
DURATION = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)(ms|h|m|s)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class APIError:
    """Reason why there is no completion, and its meaning for the next requests.

    - `retryable`: the same request may succeed later.
    - `pause`: all requests must wait first.
    - `stop`: no request will succeed, so none should be sent.
    - `request_only`: the request itself is at fault, not the endpoint.

    `retry_after` is the wait in seconds that the endpoint asks for.
    """

    kind: str
    message: str
    retryable: bool = False
    pause: bool = False
    stop: bool = False
    request_only: bool = False
    retry_after: float | None = None

    def without(self, secrets: Iterable[str]) -> APIError:
        """Return the same error with these secrets masked in its message."""
        message = self.message
        for secret in secrets:
            message = message.replace(secret, "***")
        return replace(self, message=message)


def interpret_status(status: int, error: Any, headers: Mapping[str, str]) -> APIError:
    """Interpret an answer with a status other than 200; `error` is the error object of its body, if it has one."""
    code = str(error.get("code") or error.get("type") or "") if isinstance(error, Mapping) else ""
    said = f"{status} {_said(error, code)}".strip()
    match status:
        case 401:
            return APIError("auth", "401: the endpoint does not know the API key", stop=True)
        case 403:
            return APIError("auth", said)
        case 404:
            return APIError("other", f"{said}: see model and base_url", stop=True)
        case 429 if code in {"insufficient_quota", "billing_hard_limit_reached"}:
            return APIError("budget", "429: the account's quota is used up", stop=True)
        case 429:
            return APIError("transport", said, retryable=True, pause=True, retry_after=requested_wait(headers))
        case 408 | 409:
            return APIError("transport", said, retryable=True)
        case _ if status >= 500:
            after = requested_wait(headers)
            return APIError("transport", said, retryable=True, pause=after is not None, retry_after=after)
    return _error_of_request(said, code, str(error))


def _error_of_request(said: str, code: str, error: str) -> APIError:
    if code == "context_length_exceeded" or "context length" in error:
        return APIError("other", f"{said}: lower context_tokens", request_only=True)
    if code in {"content_filter", "content_policy_violation"}:
        return APIError("refused", said, request_only=True)
    if "response_format" in error or "json_schema" in error:
        return APIError("other", f"{said}: set structured: false", stop=True)
    return APIError("other", said)


def interpret_exception(error: Exception, where: str) -> APIError:
    """Interpret an error raised by the client; `where` names the endpoint."""
    import openai

    match error:
        case openai.APIStatusError():
            return interpret_status(error.status_code, error.body, error.response.headers)
        case TimeoutError() | openai.APITimeoutError():
            return APIError("timeout", f"no answer from {where} in time", retryable=True)
        case openai.APIConnectionError():
            cause = type(error.__cause__ or error).__name__
            return APIError("transport", f"no answer from {where}: {cause}", retryable=True)
        case json.JSONDecodeError() | UnicodeDecodeError():
            return APIError("parse", f"the answer from {where} is not JSON")
        case openai.OpenAIError():  # raised before anything is sent
            return APIError("auth", "no API key: set the variable that api_key_env names", stop=True)
    return APIError("other", f"{where}: {type(error).__name__}")


def _said(error: Any, code: str) -> str:
    message = error.get("message") if isinstance(error, Mapping) else None
    words = to_one_line(str(message or ""))[:MESSAGE_CHARACTERS].rstrip(".")
    return ": ".join(filter(None, (without_controls(code), words)))


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait; None if it does not ask."""
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
    """Return the seconds in "6m0s", "20ms" or "1.5"; None for other text."""
    found = DURATION.findall(text)
    return sum(float(number) * SECONDS[unit] for number, unit in found) if found else _number(text)
