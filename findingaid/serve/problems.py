"""Errors as callers are told of them: a stable kind and one line, the same however they ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from findingaid.errors import (
    ConfigError,
    FindingAidError,
    ModelError,
    NotFoundError,
    QueryError,
    StoreError,
    UnknownCorpusError,
    UnreachableError,
    brief,
    page_of,
)


class InputError(QueryError):
    """What was sent does not have the shape that is asked for."""


class UnknownCapabilityError(NotFoundError):
    """Nothing of this name is served."""


class BusyError(FindingAidError):
    """As many requests as may be are under way or waiting."""


class TooLargeError(FindingAidError):
    """More was sent than may be."""


class TimedOutError(FindingAidError):
    """No answer within the time that there is."""


STATUS: Mapping[type[FindingAidError], int] = {
    InputError: 422,
    NotFoundError: 404,
    UnknownCorpusError: 404,
    QueryError: 400,
    ConfigError: 400,
    BusyError: 503,
    StoreError: 503,
    UnreachableError: 503,
    TooLargeError: 413,
    ModelError: 502,
    TimedOutError: 504,
}
"""Class -> status of HTTP; of the first that an error is one of."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error that leaves this process. `kind` is the name of its class: query, not_found, store …

    `see` is the page of the documentation that says more.
    """

    kind: str
    message: str
    status: int
    see: str = "docs/serving.md#errors"

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "see": self.see}}


LONGEST = 2_000
"""Characters of a message: what was sent may be quoted in it, whatever its length."""

INTERNAL = Problem("internal", "internal error: the log of the server has it", 500)
"""For what findingaid did not raise: its words may hold anything."""


def problem_of(error: BaseException) -> Problem:
    """What a caller is told of an error."""
    if not isinstance(error, FindingAidError):
        return INTERNAL
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    message = " ".join(str(error).split())
    message = message if len(message) <= LONGEST else f"{message[:LONGEST]}…"
    return Problem(kind_of(type(error)), message, status, page_of(error))


def kind_of(error: type[FindingAidError]) -> str:
    """The stable kind of a class of errors: `not_found` of NotFoundError."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__.removesuffix("Error")).lower()


def misshapen(name: str, error: ValidationError) -> InputError:
    """The first thing that is wrong with what was sent, in one line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join([name, *(brief(str(part)).strip("'") for part in first["loc"])])
    return InputError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}")
