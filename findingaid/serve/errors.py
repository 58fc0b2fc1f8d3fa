"""Errors in the form that clients receive: a stable kind and a one-line message, the same for every protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from findingaid.errors import (
    ConfigError,
    EmbedError,
    FindingAidError,
    ModelError,
    NotFoundError,
    QueryError,
    StoreError,
    UnknownCorpusError,
    UnreachableError,
    brief,
    help_on,
)


class InputError(QueryError):
    """The input does not match the expected schema."""


class UnknownCapabilityError(NotFoundError):
    """No capability of this name is served."""


class UnauthorizedError(FindingAidError):
    """A request lacks a token that names its caller."""


class ForbiddenError(FindingAidError):
    """The caller may not make this request."""


class IssuerError(FindingAidError):
    """The authorization server does not answer, so that no new token can be checked."""


class BusyError(FindingAidError):
    """The limit of running and waiting requests is reached."""


class TooLargeError(FindingAidError):
    """The request is larger than allowed."""


class TimedOutError(FindingAidError):
    """The request was not answered within its time limit."""


STATUS: Mapping[type[FindingAidError], int] = {
    InputError: 422,
    NotFoundError: 404,
    UnknownCorpusError: 404,
    QueryError: 400,
    ConfigError: 400,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    IssuerError: 503,
    BusyError: 503,
    StoreError: 503,
    UnreachableError: 503,
    TooLargeError: 413,
    ModelError: 502,
    EmbedError: 502,
    TimedOutError: 504,
}
"""Error class -> HTTP status. The first class that an error is an instance of decides, so the order matters."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Error as sent to a client.

    `kind` is derived from the name of the error's class: query, not_found, store … `see` is the
    command, or the documentation page, that explains it.
    """

    kind: str
    message: str
    status: int
    see: str = "docs/serving.md#errors"

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "see": self.see}}


MAX_MESSAGE_CHARS = 2_000
"""Maximum characters of a message. Messages may quote the input, which can be of any length."""

INTERNAL = Problem("internal", "internal error: see the log of the server", 500)
"""Reply for exceptions that findingaid did not raise, whose messages could contain anything."""


def problem_of(error: BaseException) -> Problem:
    """Convert an exception to the problem that a client receives."""
    if not isinstance(error, FindingAidError):
        return INTERNAL
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    message = " ".join(str(error).encode(errors="replace").decode().split())  # UTF-8 has no half of a surrogate pair
    message = message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"
    return Problem(kind_of(type(error)), message, status, help_on(error))


def kind_of(error: type[FindingAidError]) -> str:
    """Return the stable kind of an error class, such as `not_found` for NotFoundError."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__.removesuffix("Error")).lower()


def input_error(name: str, error: ValidationError, known: Iterable[str]) -> InputError:
    """Convert a validation error to a one-line InputError about the first invalid value; `known` are the inputs."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join([name, *(brief(str(part)).strip("'") for part in first["loc"])])
    if first["type"] in {"extra_forbidden", "missing"} and len(first["loc"]) == 1:
        problem = "is missing" if first["type"] == "missing" else "is not an input"
        return InputError(f"{where} {problem}: {name} takes {', '.join(known)}")
    return InputError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}")
