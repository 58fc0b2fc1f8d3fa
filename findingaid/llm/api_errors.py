"""Errors of an endpoint: their kind, and their meaning for the next requests."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from findingaid.errors import ConfigError
from findingaid.llm.prompts import to_one_line

MESSAGE_CHARACTERS = 300
CODE_CHARACTERS = 60

SHORTEST_BEGINNING = 8
"""Fewest characters of the beginning of a secret that are masked."""

PAGE_CHARACTERS = 2_000
"""Characters of an error page in HTML that its words are looked for in."""

MARKUP = re.compile(r"<[^<>]*>")

SAID = (
    *("message", "msg", "detail", "error_description", "error", "errors", "description"),
    *("reason", "title", "fault", "faultstring", "raw"),
)
"""Keys below which servers put their words, in lower case and in order of preference."""

NESTED = 5
"""Depth to which the body of an error is searched for words."""

CODES = ("code", "type", "error_type", "status")

TOO_LONG = re.compile(
    r"(?:context|prompt|sequence|input) (?:length|size|window)|maximum context|too large to process"
    r"|too (?:long|many (?:input )?tokens)|(?:less|fewer|more|longer|larger) than [\d,]{1,9} tokens"
    r"|(?:exceed|maximum|at most)[^.]{0,60}\btokens",
    re.IGNORECASE,
)
"""Words of servers for a text that is longer than the model reads."""

NO_KEY = "401: the endpoint does not know the API key"

QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

UNKNOWN_PARAMETER = frozenset({"unknown_parameter", "unsupported_parameter", "unsupported_value"})

STATUS_BY_WORD = {
    "rate_limit": 429,
    "quota": 429,
    "too_many_requests": 429,
    "context_length": 400,
    "content_filter": 400,
    "invalid": 400,
    "unsupported": 400,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "timeout": 408,
}
"""Statuses of errors that a server reports within an answer of status 200, by words in their code. Else it is 500."""

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
        return replace(self, message=mask_secrets(self.message, secrets))


class ReportedError(Exception):
    """Error that a server reports within an answer of status 200."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


def mask_secrets(message: str, secrets: Iterable[str]) -> str:
    """Return a message with these secrets masked, also as they are in a URL.

    The beginning of one is masked too, which is left where words were cut.
    """
    plain = [*filter(None, map(str.strip, secrets))]
    for secret in [*plain, *(quote(each, safe="") for each in plain)]:
        for length in range(len(secret), min(len(secret), SHORTEST_BEGINNING) - 1, -1):
            message = message.replace(secret[:length], "***")
    return message


def interpret_status(status: int, body: Any, headers: Mapping[str, str], too_long: str = "") -> APIError:
    """Interpret an answer with a status other than 200, and `body` as JSON or text.

    `too_long` says what to do about a text that is too long for the model.
    """
    code, words = _code(body, status), server_words(body)
    said = f"{status} {': '.join(filter(None, (code, words)))}".strip()
    if 300 <= status < 400:
        place = headers.get("location", "").partition("?")[0]
        words = f"{status}: the endpoint redirects{place and ' to '}{to_one_line(place)[:MESSAGE_CHARACTERS]}"
        return APIError("other", f"{words}, which is not followed: set base_url to where it is", stop=True)
    if status in MEANINGS:
        return MEANINGS[status](said, code, words, headers)
    if status == 413 or code == "context_length_exceeded" or TOO_LONG.search(words):
        return APIError("other", f"{said}: {too_long}" if too_long else said, request_only=True)
    if status >= 500:
        after = requested_wait(headers)
        return APIError("transport", said, retryable=True, pause=after is not None, retry_after=after)
    return _error_of_request(said, code, words)


def _unauthorized(said: str, code: str, words: str, headers: Mapping[str, str]) -> APIError:
    reason = "" if "key" in words.lower() else words  # it may show a part of the key
    return APIError("auth", ": ".join(filter(None, (NO_KEY, reason))), stop=True)


def _too_many(said: str, code: str, words: str, headers: Mapping[str, str]) -> APIError:
    if code in QUOTA:
        return APIError("budget", "429: the account's quota is used up", stop=True)
    return APIError("transport", said, retryable=True, pause=True, retry_after=requested_wait(headers))


MEANINGS: Mapping[int, Callable[[str, str, str, Mapping[str, str]], APIError]] = {
    401: _unauthorized,
    402: lambda said, *_: APIError("budget", said, stop=True),
    403: lambda said, *_: APIError("auth", said),
    404: lambda said, *_: APIError("other", f"{said}: see model and base_url", stop=True),
    408: lambda said, *_: APIError("transport", said, retryable=True),
    409: lambda said, *_: APIError("transport", said, retryable=True),
    429: _too_many,
}
"""Functions that interpret a status, given what was said with it, the code, the words and the headers."""


def _error_of_request(said: str, code: str, words: str) -> APIError:
    if code in {"content_filter", "content_policy_violation"}:
        return APIError("refused", said, request_only=True)
    if "response_format" in words or "json_schema" in words:
        return APIError("other", f"{said}: set structured: false", stop=True)
    return APIError("other", said, stop=code in UNKNOWN_PARAMETER)


def interpret_exception(error: Exception, where: str, too_long: str = "") -> APIError:
    """Interpret an error raised by the client; `where` names the endpoint. See `interpret_status` for `too_long`."""
    import openai

    match error:
        case openai.APIStatusError():
            return interpret_status(error.status_code, _body(error.response), error.response.headers, too_long)
        case ReportedError():
            return interpret_status(error.status, error.body, {}, too_long)
        case ConfigError():  # raised before anything is sent
            return APIError("auth", str(error), stop=True)
        case TimeoutError() | openai.APITimeoutError():
            return APIError("timeout", f"no answer from {where} in time", retryable=True)
        case openai.APIConnectionError():
            return APIError("transport", f"no answer from {where}: {_cause(error)}", retryable=True)
        case json.JSONDecodeError():
            return APIError("parse", f"the answer from {where} is {_not_json(error.doc)}")
        case UnicodeDecodeError():
            return APIError("parse", f"the answer from {where} is not JSON: it is not UTF-8")
        case openai.OpenAIError():  # raised before anything is sent
            return APIError("auth", "no API key: set the variable that api_key_env names", stop=True)
    return APIError("other", f"{where}: {_shown(': '.join(filter(None, (type(error).__name__, str(error)))))}")


def reported_error(answer: Any) -> int | None:
    """Return the status of the error that an answer of status 200 reports instead of a result; None if it has none."""
    if not isinstance(answer, Mapping):
        return None
    for part in (answer, first_choice(answer)):
        if isinstance(part, Mapping) and (part.get("error") or part.get("object") == "error"):
            return _status_of(_error_in(part))
    return None


def first_choice(completion: Any) -> Any:
    """Return the choice of index 0, wherever the server puts it, or else the first; None if there are none."""
    choices = completion.get("choices") if isinstance(completion, Mapping) else None
    if not isinstance(choices, list) or not choices:
        return None
    return next((one for one in choices if isinstance(one, Mapping) and one.get("index") == 0), choices[0])


def server_words(body: Any) -> str:
    """Return the words of a server in the body of an error, in any of the usual forms, on one line; "" if none."""
    return _shown(_words(body, NESTED)).rstrip(".:; ")


def _words(body: Any, depth: int) -> str:
    match body:
        case str():
            return _page_words(body) if body.lstrip()[:1] == "<" else body
        case list() if depth:
            return "; ".join(filter(None, (_words(part, depth - 1) for part in body[:3])))
        case Mapping() if depth:
            parts = {str(key).lower(): value for key, value in body.items()}
            # A completion that ended in an error has it in its first choice.
            found = (_words(parts.get(key), depth - 1) for key in (*SAID, "choices"))
            place = [str(part) for part in parts["loc"]] if isinstance(parts.get("loc"), list) else []
            said = (".".join(place), next(filter(None, found), ""), _words(parts.get("metadata"), depth - 1))
            return ": ".join(filter(None, said))
    return ""


def _page_words(page: str) -> str:
    """Return the title of an error page in HTML, or else its first words."""
    page = page[:PAGE_CHARACTERS]
    begin = page.lower().find("<title>")
    end = page.lower().find("</title>", begin)
    return MARKUP.sub(" ", page if begin < 0 or end < 0 else page[begin:end])


def _code(body: Any, status: int) -> str:
    """Return the code of an error, or else its type; "" if it only repeats the status."""
    error = _error_in(body)
    named = (str(error[key]) for key in CODES if isinstance(error.get(key), str | int))
    return next((to_one_line(name)[:CODE_CHARACTERS] for name in named if name and name != str(status)), "")


def _error_in(body: Any) -> Mapping[str, Any]:
    """Return the object of an error, or the body that has its keys itself."""
    body = body[0] if isinstance(body, list) and body else body
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    return error if isinstance(error, Mapping) else body


def _status_of(error: Mapping[str, Any]) -> int:
    for key in CODES:
        said = str(error.get(key, ""))
        if said.isdecimal() and said.isascii() and 400 <= int(said) < 600:
            return int(said)
    named = " ".join(str(error.get(key, "")) for key in CODES).lower()
    return next((status for word, status in STATUS_BY_WORD.items() if word in named), 500)


def _body(response: Any) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text


def _cause(error: Exception) -> str:
    """Return the reason why there is no connection. That of a header that cannot be sent would show the header."""
    cause = error.__cause__ or error
    name = type(cause).__name__
    words = "" if name == "LocalProtocolError" else _shown(str(cause))
    return ": ".join(filter(None, (name, words)))


def _not_json(doc: str) -> str:
    begin = doc[:PAGE_CHARACTERS].lstrip()
    if not begin:
        return "empty"
    if begin.startswith("<"):
        return f"a web page and not JSON ({_shown(_page_words(begin))[:CODE_CHARACTERS]}): see base_url"
    if begin.startswith("data:"):
        return "a stream and not JSON: have the server answer as a whole"
    return f"not JSON{': it has a number that is none' if 'NaN' in doc or 'Infinity' in doc else ''}"


def _shown(words: str) -> str:
    line = to_one_line(words[: 4 * MESSAGE_CHARACTERS])
    return line if len(line) <= MESSAGE_CHARACTERS else f"{line[:MESSAGE_CHARACTERS]}…"


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait; None if it does not ask."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _number(headers.get(name))) is not None:
            return max(0.0, seconds * scale)
    if date := headers.get("retry-after"):
        parsed = email.utils.parsedate_tz(date)
        with suppress(ValueError, OverflowError):  # a date that there is not
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
