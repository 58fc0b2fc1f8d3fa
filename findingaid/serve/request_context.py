"""Context variables of the request that is answered: who asks, at which address it came, and within which trace."""

from __future__ import annotations

import re
from contextvars import ContextVar

from findingaid.access import Caller

ASKING: ContextVar[Caller | None] = ContextVar("asking", default=None)
"""Caller whom the token of the request names; None without one."""

BASE_URL: ContextVar[str] = ContextVar("base_url", default="")
"""Address at which the client reached this server over HTTP, such as https://docs.example.org; else ""."""

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""Trace context (W3C) that the client sent: a header over HTTP, a key of `_meta` over MCP; "" without a valid one."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def set_traceparent(given: object) -> str:
    """Set the trace context of this request, and return it. One that is not valid is ignored, as W3C requires."""
    valid = given if isinstance(given, str) and _TRACEPARENT.fullmatch(given) else TRACEPARENT.get()
    TRACEPARENT.set(valid)
    return valid
