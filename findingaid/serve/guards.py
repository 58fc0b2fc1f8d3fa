"""What stands before every request over HTTP: who may ask, how much, and under which id."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from findingaid.errors import ConfigError
from findingaid.serve.problems import INTERNAL, Problem, TimedOutError, TooLargeError, problem_of

log = logging.getLogger("findingaid.serve")

REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)

SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of every response that does not set them itself."""

LEFT = 499
"""The status of a request whose caller did not wait for the end of it, as other servers count it."""

Seen = Callable[[str, int, float], None]
"""Told of each request: its path, status and seconds."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_token(host: str, token: str | None) -> None:
    """Raises ConfigError for a server that anybody could reach and ask."""
    if not is_loopback(host) and not token:
        raise ConfigError(
            f"serve: {host} can be reached from other machines: set a token (serve.token_env names its variable),"
            " or host to 127.0.0.1"
        )


@dataclass(frozen=True)
class Rules:
    """Who may ask how much, and within how many seconds a body must come. `open_paths` need no token: they tell nothing
    of what is indexed."""

    token: str | None
    body_bytes: int
    query_bytes: int
    seconds: float
    open_paths: frozenset[str]

    def refusal(self, path: str, scope: Scope, headers: Headers) -> Problem | None:
        """Why a request is not let through, before its body is read."""
        if len(scope.get("query_string", b"")) > self.query_bytes:
            return Problem("too_long", f"the query of the address has more than {self.query_bytes:,} bytes", 414)
        if int(headers.get("content-length") or 0) > self.body_bytes:
            return problem_of(too_large(self.body_bytes))
        if not _same_site(headers):
            return Problem("forbidden", "asked from a page of another host", 403)
        if self.token is None:
            host = _name(f"//{headers.get('host', '')}")
            return None if is_loopback(host) else Problem("forbidden", f"this server is no {host[:80]!r}", 403)
        if path not in self.open_paths and not self._knows(headers.get("authorization", "")):
            return Problem("unauthorized", "a bearer token is needed: Authorization: Bearer …", 401)
        return None

    def _knows(self, said: str) -> bool:
        scheme, _, given = said.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), (self.token or "").encode())
        return same and scheme.lower() == "bearer"


def _same_site(headers: Headers) -> bool:
    """Whether no page of another host makes a browser ask: that page may be anybody's."""
    origin = headers.get("origin")
    return origin is None or origin.partition("//")[2] == headers.get("host")


def _name(address: str) -> str:
    """The host of an address, "" where it is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def too_large(most: int) -> TooLargeError:
    """What is said of a body of more bytes."""
    return TooLargeError(f"the body has more than {most:,} bytes")


class Guards:
    """The outermost layer: an id, refusals, headers, and one line of log a request."""

    def __init__(self, app: ASGIApp, rules: Rules, seen: Seen) -> None:
        self._app, self._rules, self._seen = app, rules, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        exchange = _Exchange(scope, receive, send, self._rules)
        headers = Headers(scope=scope)
        try:
            if refusal := self._rules.refusal(scope["path"], scope, headers):
                return await exchange.refuse(refusal)
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            exchange.status = LEFT
        except Exception:
            log.exception("%s %s %r", exchange.id, scope["method"], scope["path"])
            await exchange.refuse(INTERNAL)
        finally:
            seconds = time.perf_counter() - exchange.began
            self._seen(scope["path"], exchange.status, seconds)
            log.info("%s %s %r %d %.1f ms", exchange.id, scope["method"], scope["path"], exchange.status, seconds * 1e3)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, rules: Rules) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        self.status = 0
        self.began = time.perf_counter()
        self._receive, self._send, self._rules, self._left = receive, send, rules, rules.body_bytes
        self._until: float | None = asyncio.get_running_loop().time() + rules.seconds

    async def receive(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise TimedOutError(f"the body did not come within {self._rules.seconds:g} s") from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise too_large(self._rules.body_bytes)
        if not message.get("more_body"):
            self._until = None  # from here on it is waited for the caller to leave
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            for name, value in SAFE.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, problem: Problem) -> None:
        """Answer with an error, unless an answer was begun."""
        if self.status:
            return
        body = orjson.dumps(problem.to_dict())
        challenge = [(b"www-authenticate", b"Bearer")] if problem.status == 401 else []
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *challenge]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
