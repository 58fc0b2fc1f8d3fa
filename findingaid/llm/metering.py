"""Account from which each request to an endpoint is paid, if a run has a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from pydantic import BaseModel, Field, ValidationError

from findingaid.errors import SynthesisError
from findingaid.model import NO_USAGE, Usage

OVER_BUDGET = "the budget of this run is spent"

UNPAID = "unpaid"
"""Error kind of a request that was not sent because the budget has no room for it."""

REFUSED = range(400, 500)
"""Statuses with which an endpoint refuses a request. Refused requests are not billed."""

NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError"})
"""Causes of client errors after which no request has left this machine."""


class Reservations(Protocol):
    """Account of one synthesizer in one run."""

    def reserve(self, most: Usage) -> bool:
        """Reserve the most that a request may use. Return False, with nothing reserved, if there is no room for it."""

    def settle(self, most: Usage, used: Usage) -> None:
        """Replace a request's reservation by its actual usage."""


_ACCOUNT: ContextVar[Reservations | None] = ContextVar("account", default=None)


@contextmanager
def paying_from(account: Reservations) -> Iterator[None]:
    """Pay all requests within this context from an account, in this thread and in event loops that it submits to."""
    token = _ACCOUNT.set(account)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


@contextmanager
def pay_for(most: Usage) -> Iterator[Callable[[Any], None]]:
    """Pay one request from the account, if there is one. Yields a function that takes the completion.

    A request of unknown usage counts as the most that it may have used: no answer came, or the answer does not report
    its usage. A request that was never sent, or that the endpoint refused, costs nothing. Raises SynthesisError if the
    budget has no room for the request, which must then not be sent.
    """
    account = _ACCOUNT.get()
    if account is None:
        yield lambda _: None
        return
    if not account.reserve(most):
        raise SynthesisError(OVER_BUDGET, UNPAID)
    used = most

    def answered(completion: Any) -> None:
        nonlocal used
        used = reported_usage(completion) or most

    try:
        yield answered
    except Exception as error:
        used = NO_USAGE if _costs_nothing(error) else used
        raise
    finally:
        account.settle(most, used)


class _Counts(BaseModel):
    prompt_tokens: int = Field(gt=0, strict=True)
    completion_tokens: int = Field(ge=0, strict=True)


def reported_usage(completion: Any) -> Usage | None:
    """Return the usage of a completion; None if the server does not report it, as a prompt without tokens tells."""
    try:
        tokens = _Counts.model_validate(completion["usage"])
    except (ValidationError, KeyError, TypeError):
        return None
    return Usage(1, tokens.prompt_tokens, tokens.completion_tokens)


def _costs_nothing(error: Exception) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in REFUSED
    if isinstance(error, openai.APIConnectionError):
        return type(error.__cause__).__name__ in NEVER_SENT
    return isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIError)
