"""Middleware for every HTTP request: access rules, size limits, security headers, request ids and logging."""

from __future__ import annotations

import asyncio
import hashlib
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

from findingaid.access import Caller
from findingaid.config.settings import is_loopback
from findingaid.errors import ConfigError, FindingAidError
from findingaid.request_limits import CALLER
from findingaid.serve.connections import KNOWN, caller_of
from findingaid.serve.errors import INTERNAL, Problem, TimedOutError, TooLargeError, UnauthorizedError, problem_of
from findingaid.serve.oauth import ResourceServer
from findingaid.serve.request_context import ASKING, BASE_URL, TRACEPARENT, set_traceparent

log = logging.getLogger("findingaid.serve")

REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)

SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Default headers of every response; a response may set its own values."""

LEFT = 499
"""Logged status of a request whose client disconnected before the end, the same code that nginx uses."""

Seen = Callable[[str, int, float], None]
"""Callback for each finished request with its path, status and duration in seconds."""


def require_token(host: str, has_token: bool) -> None:
    """Raise ConfigError when the host is reachable from other machines and no token is set."""
    if not is_loopback(host) and not has_token:
        raise ConfigError(
            f"serve: {host} can be reached from other machines: set a token (serve.token_env names its variable),"
            " serve.callers, serve.oauth, or host to 127.0.0.1"
        )


@dataclass(frozen=True)
class Rules:
    """Access rules: the tokens, size limits, and the seconds within which a request body must arrive.

    `callers` are those whom tokens name, by the SHA-256 of the token; None is a token that names nobody. `oauth` knows
    the callers of all other tokens. `open_paths` need no token, because they reveal nothing about the indexed texts.
    Links from other sites may lead to `pages`. Without any token, only requests with a loopback Host header are let
    through.
    """

    callers: Mapping[str, Caller | None]
    oauth: ResourceServer | None
    body_bytes: int
    query_bytes: int
    seconds: float
    open_paths: frozenset[str]
    pages: frozenset[str] = frozenset()

    def refusal(self, path: str, scope: Scope, headers: Headers) -> Problem | None:
        """Return the problem for which a request is refused, whoever asks, or None; its body is not needed."""
        if problem := _malformed(headers):
            return Problem("malformed", problem, 400)
        if len(scope.get("query_string", b"")) > self.query_bytes:
            return Problem("too_long", f"the query string has more than {self.query_bytes:,} bytes", 414)
        if int(headers.get("content-length") or 0) > self.body_bytes:
            return problem_of(too_large(self.body_bytes))
        if not _same_origin(headers) and not (path in self.pages and _is_visit(scope, headers)):
            return Problem("forbidden", "requested from a page of another host or port", 403)
        if not self.locked:
            host = _name(f"//{headers.get('host', '')}")
            return None if is_loopback(host) else Problem("forbidden", f"this server is not {host[:80]!r}", 403)
        return None

    @property
    def locked(self) -> bool:
        """Whether requests need a token."""
        return bool(self.callers) or self.oauth is not None

    async def caller(self, path: str, headers: Headers) -> Caller | None:
        """Return the caller whom the token of a request names.

        Tokens are looked up by their hash, so that the time says nothing about those that are known. Raises
        UnauthorizedError where a token is needed, and what `ResourceServer.caller` raises.
        """
        token = bearer_token(headers)
        hashed = hashlib.sha256(token.encode()).hexdigest() if token else ""
        if hashed in self.callers:
            return self.callers[hashed]
        if path in self.open_paths or not self.locked:
            return None
        if token and self.oauth:
            return await self.oauth.caller(token)
        raise UnauthorizedError("a bearer token is needed: Authorization: Bearer …")

    def challenge(self, problem: Problem, headers: Headers) -> str:
        """Return the header WWW-Authenticate for a problem with the token of a request; "" without one."""
        if problem.status not in {401, 403}:
            return ""
        return self.oauth.challenge(problem.status, bool(bearer_token(headers))) if self.oauth else "Bearer"


def bearer_token(headers: Headers) -> str:
    """Return the bearer token of a request; "" without one."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _malformed(headers: Headers) -> str:
    """Return the reason why proxies and servers could parse a request differently, or "" if they cannot."""
    twice = next((name for name in ("host", "content-length", "authorization") if len(headers.getlist(name)) > 1), None)
    if twice:
        return f"duplicate header {twice}"
    both = "content-length" in headers and "transfer-encoding" in headers
    return "content-length contradicts transfer-encoding" if both else ""


def _same_origin(headers: Headers) -> bool:
    """Return whether a request does not come from a web page of another origin, which may be malicious.

    A browser sends Origin with requests that may write, and Sec-Fetch-Site with every request, including those for
    images.
    """
    if headers.get("sec-fetch-site", "none").lower() not in {"none", "same-origin"}:
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("//")[2] == headers.get("host")


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """Return whether a browser navigates to this page, for example by a link on another site."""
    asked = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"), headers.get("origin")
    return scope["method"] == "GET" and asked == ("navigate", "document", None)


def _name(address: str) -> str:
    """Return the host name of a URL, or "" if it is invalid."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def too_large(most: int) -> TooLargeError:
    """Return the error for a body of more than `most` bytes."""
    return TooLargeError(f"the body has more than {most:,} bytes")


class RequestMiddleware:
    """Outermost ASGI layer: assigns request ids, refuses requests, sets headers, and logs one line per request."""

    def __init__(self, app: ASGIApp, rules: Rules, seen: Seen) -> None:
        self._app, self._rules, self._seen = app, rules, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        exchange = _Exchange(scope, receive, send, self._rules)
        headers = Headers(scope=scope)
        ASKING.set(None)  # on a connection that is used again, the context of the previous request may still hold
        try:
            if refusal := self._rules.refusal(scope["path"], scope, headers):
                return await exchange.refuse(refusal)
            ASKING.set(await self._rules.caller(scope["path"], headers))
            CALLER.set(caller_of(scope.get("client")))
            BASE_URL.set(f"{scope['scheme']}://{headers.get('host', '')}")
            set_traceparent(headers.get("traceparent"))
            scope.setdefault("state", {})[KNOWN] = scope["path"] not in self._rules.open_paths
            await self._app(scope, exchange.receive, exchange.send)
        except FindingAidError as error:
            problem = problem_of(error)
            await exchange.refuse(problem, self._rules.challenge(problem, headers))
        except ClientDisconnect:
            exchange.status = LEFT
        except Exception:
            log.exception("%s %s %r", exchange.id, scope["method"], scope["path"])
            await exchange.refuse(INTERNAL)
        finally:
            seconds = time.perf_counter() - exchange.began
            self._seen(scope["path"], exchange.status, seconds)
            trace = "".join(f" {each}" for each in (ASKING.get(), TRACEPARENT.get()) if each)
            said = exchange.id, scope["method"], scope["path"], exchange.status, seconds * 1e3, trace
            log.info("%s %s %r %d %.1f ms%s", *said)


class _Exchange:
    """One HTTP request and its response."""

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
            raise TimedOutError(f"the body did not arrive within {self._rules.seconds:g} s") from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise too_large(self._rules.body_bytes)
        if not message.get("more_body"):
            self._until = None  # the body is complete; later calls wait for the client to disconnect
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            for name, value in SAFE.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, problem: Problem, challenge: str = "") -> None:
        """Send an error response, unless a response has started; `challenge` is its header WWW-Authenticate."""
        if self.status:
            return
        body = orjson.dumps(problem.to_dict())
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if challenge:
            headers.append((b"www-authenticate", challenge.encode()))
        if problem.kind == "malformed":
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
