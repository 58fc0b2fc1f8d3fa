"""The capabilities over HTTP: `POST /v1/NAME` with JSON, `GET` where an address can hold what is asked."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from findingaid.config import ServeSettings
from findingaid.errors import ConfigError, FindingAidError
from findingaid.serve.capabilities import Capability
from findingaid.serve.guards import Guards, Rules, require_token
from findingaid.serve.openapi import document, is_simple, lists
from findingaid.serve.problems import InputError, Problem, problem_of
from findingaid.serve.session import Session
from findingaid.serve.work import Work

log = logging.getLogger("findingaid.serve")

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {"/": "index.html"} | {f"/page/{path.name}": path.name for path in sorted(PAGE.iterdir())}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The page runs what this server gives, asks nobody else and makes no text HTML, whatever an indexed one says."""

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", *PAGE_FILES})


class Metrics:
    """What Prometheus is told."""

    def __init__(self, work: Work) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "findingaid_requests", "Requests by route and status.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "findingaid_request_seconds", "Seconds until the end of the answer.", ("route",), registry=self._registry
        )
        under_way = Gauge("findingaid_calls", "Calls of the library begun or waiting.", registry=self._registry)
        under_way.set_function(lambda: work.under_way)

    def seen(self, known: frozenset[str], path: str, status: int, seconds: float) -> None:
        """Count a request; all paths that lead nowhere are one."""
        route = path if path in known else "other"
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Api:
    """The routes of one session."""

    def __init__(self, session: Session, work: Work) -> None:
        self._session, self._work = session, work

    def routes(self, metrics: Metrics, locked: bool) -> Sequence[BaseRoute]:
        """Everything that is served besides MCP."""
        capabilities = self._session.capabilities.values()
        described = orjson.dumps(document(capabilities, locked))

        async def described_by(_: Request) -> Response:
            return Response(described, media_type="application/json")

        async def measured(_: Request) -> Response:
            return metrics.response()

        return [
            *(self._route(c) for c in capabilities),
            Route("/openapi.json", described_by),
            Route("/metrics", measured),
            Route("/healthz", _healthy),
            Route("/readyz", self._ready),
            *(Route(path, partial(_page, name)) for path, name in PAGE_FILES.items()),
        ]

    def _route(self, capability: Capability) -> Route:
        simple, several = is_simple(capability), lists(capability)

        async def answer(request: Request) -> Response:
            texts = request.method != "POST"
            given = _of_address(request, several) if texts else await _of_body(request)
            return _json(await self._work.run(partial(self._session.call, capability.name, given, texts=texts)))

        return Route(f"/v1/{capability.name}", answer, methods=["POST", "GET"] if simple else ["POST"])

    async def _ready(self, _: Request) -> Response:
        """Whether a search would be answered: something is published, by this embedder, and the model is loaded."""
        try:
            await self._work.run(self._session.warm)
        except FindingAidError as error:
            if not self._session.elsewhere:
                raise
            log.warning("not ready: %s", error)  # who asks may be anybody
            return _failed(replace(problem_of(error), message="not ready: the log of the server says why"))
        return _json({"ready": True})


async def _healthy(_: Request) -> Response:
    return _json({"healthy": True})


async def _page(name: str, _: Request) -> Response:
    return FileResponse(PAGE / name, headers={"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"})


def _of_address(request: Request, several: frozenset[str]) -> dict[str, Any]:
    """What an address asks; of what may stand there once the last counts."""
    asked = request.query_params
    return {name: asked.getlist(name) if name in several else asked[name] for name in asked}


async def _of_body(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InputError("the body is to be JSON: Content-Type: application/json")
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is no JSON: {error}") from None


def _failed(problem: Problem) -> Response:
    headers = {"Retry-After": "1"} if problem.status == 503 else None
    return _json(problem.to_dict(), problem.status, headers)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


async def _not_found(request: Request, _: Exception) -> Response:
    return _failed(Problem("not_found", "nothing is served there: /openapi.json lists what is", 404))


async def _not_allowed(request: Request, error: Exception) -> Response:
    problem = Problem("method", f"{request.method} is not served there: /openapi.json lists what is", 405)
    allowed = error.headers if isinstance(error, HTTPException) else None
    return _json(problem.to_dict(), problem.status, dict(allowed or {}))


async def _told(_: Request, error: Exception) -> Response:
    """The response to what went wrong, in one shape whatever it is; guards log what findingaid did not raise."""
    return _failed(problem_of(error))


def app_of(session: Session, settings: ServeSettings, token: str | None, mcp: bool = False) -> ASGIApp:
    """The whole of what is served over HTTP, with `mcp` at /mcp, too. Who needs a token may be anywhere."""
    session = replace(session, elsewhere=token is not None)
    work = Work(settings.at_once, settings.waiting, settings.timeout)
    metrics = Metrics(work)
    routes = [*Api(session, work).routes(metrics, token is not None)]
    opened: list[AbstractAsyncContextManager[None]] = []
    if mcp:
        from findingaid.serve.mcp import Streamable

        streamable = Streamable(session, work, settings)
        routes.append(Route("/mcp", streamable))
        opened.append(streamable.running())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in opened:
                await stack.enter_async_context(each)
            yield
        work.close()

    known = frozenset(route.path for route in routes if isinstance(route, Route))
    handlers: dict[Any, Any] = {404: _not_found, 405: _not_allowed, FindingAidError: _told, Exception: _told}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    rules = Rules(token, settings.body_bytes, settings.query_bytes, settings.timeout, OPEN)
    return Guards(app, rules, partial(metrics.seen, known))


def run(session: Session, settings: ServeSettings, mcp: bool = False) -> None:
    """Serve until the process is told to end. The model is loaded beside, so that the server answers at once.

    Raises ConfigError where anybody could ask, as without a token on an address that other machines reach, and where
    nothing can listen there.
    """
    token = settings.token
    require_token(settings.host, token)
    app = app_of(session, settings, token, mcp)
    _log_to_stderr()
    with _listening(settings.host, settings.port) as listener:
        threading.Thread(target=_warmed, args=(session,), daemon=True).start()
        log.info("listening at http://%s:%d%s", settings.host, listener.getsockname()[1], "/mcp" if mcp else "")
        with suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise ConfigError(f"serve: cannot listen at {host}:{port}: {str(error.strerror).partition(' (')[0]}") from None


def _log_to_stderr() -> None:
    """A line a request, where nobody who embeds this has said where they go."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _warmed(session: Session) -> None:
    try:
        session.warm()
    except FindingAidError as error:
        log.warning("not ready: %s", error)
