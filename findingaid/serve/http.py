"""HTTP server: `POST /v1/NAME` with JSON, and `GET` for capabilities whose inputs fit in a query string."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import resource
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import orjson
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from findingaid.access import Caller
from findingaid.config.settings import ServeSettings
from findingaid.errors import ConfigError, FindingAidError
from findingaid.query.search.timeouts import start_thread
from findingaid.serve.capabilities import Capability
from findingaid.serve.connections import Bounds, protocol_of
from findingaid.serve.errors import InputError, Problem, problem_of
from findingaid.serve.limits import WorkerPool
from findingaid.serve.middleware import RequestMiddleware, Rules, require_token
from findingaid.serve.oauth import ResourceServer
from findingaid.serve.openapi import is_simple, list_parameters, openapi_document
from findingaid.serve.pictures import PICTURE
from findingaid.serve.session import Session
from findingaid.serve.tracing import TracingMiddleware

log = logging.getLogger("findingaid.serve")

PAGE = Path(__file__).parent / "page"
PAGE_FILES = {"/": "index.html"} | {f"/page/{path.name}": path.name for path in sorted(PAGE.iterdir())}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
"""Content security policy of the search page: only resources of this server, and no text is ever parsed as HTML.

It protects users whatever the indexed texts contain.
"""

PAGE_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",  # else a page that opened it could navigate it from search to search
}

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", *PAGE_FILES})


VISITED = frozenset({"/"})
"""Paths that links on other sites may lead to."""

HEADER_BYTES = 16_384
"""Maximum bytes of the headers of a request, excluding its query string."""

QUEUED = 100
"""Backlog of connections waiting to be accepted.

They are accepted together, so the number of open connections may exceed its limit by this many for a moment.
"""


class Metrics:
    """Prometheus metrics of the server."""

    def __init__(self, work: WorkerPool) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "findingaid_requests", "Requests by route and status.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "findingaid_request_seconds", "Seconds until the end of the response.", ("route",), registry=self._registry
        )
        under_way = Gauge("findingaid_calls", "Running and waiting calls of the library.", registry=self._registry)
        under_way.set_function(lambda: work.under_way)

    def seen(self, known: frozenset[str], path: str, status: int, seconds: float) -> None:
        """Count a request; all unknown paths share the route "other"."""
        route = path if path in known else "other"
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Api:
    """HTTP routes of one session."""

    def __init__(self, session: Session, work: WorkerPool) -> None:
        self._session, self._work = session, work
        self._readiness: asyncio.Task[None] | None = None
        self._loaded = False

    def routes(self, metrics: Metrics, locked: bool) -> Sequence[BaseRoute]:
        """Return all routes except MCP; `locked` states in the OpenAPI document that a token is needed."""
        capabilities = self._session.capabilities.values()
        describe = cache(lambda: orjson.dumps(openapi_document(capabilities, locked)))  # a third of a second, once

        async def described_by(_: Request) -> Response:
            return Response(await asyncio.to_thread(describe), media_type="application/json")

        async def measured(_: Request) -> Response:
            return metrics.response()

        return [
            *(self._route(c, self._session) for c in capabilities),
            self._route(PICTURE, replace(self._session, served=[PICTURE])),  # for the page alone
            Route("/openapi.json", described_by),
            Route("/metrics", measured),
            Route("/healthz", _healthy),
            Route("/readyz", self._ready),
            *(Route(path, partial(_page, name)) for path, name in PAGE_FILES.items()),
        ]

    def _route(self, capability: Capability, session: Session) -> Route:
        simple, several = is_simple(capability), list_parameters(capability)

        async def answer(request: Request) -> Response:
            texts = request.method != "POST"
            given = _read_query(request, several) if texts else await _read_body(request)
            return _json(await self._work.run(partial(session.call, capability.name, given, texts=texts)))

        return Route(f"/v1/{capability.name}", answer, methods=["POST", "GET"] if simple else ["POST"])

    async def _ready(self, _: Request) -> Response:
        """Check whether searches can be answered: an index by this embedder is published and the model is loaded.

        Concurrent requests share one check, since this route needs no token.
        """
        if self._readiness is None or self._readiness.done():
            self._readiness = asyncio.create_task(self._check())
        try:
            await asyncio.shield(self._readiness)
        except FindingAidError as error:
            if not self._session.elsewhere:
                raise
            log.warning("not ready: %s", error)  # the route needs no token, so the reason goes only to the log
            return _problem_response(replace(problem_of(error), message="not ready: see the log of the server"))
        return _json({"ready": True})

    async def _check(self) -> None:
        await self._work.run(partial(self._session.warm, model=not self._loaded), "readiness")
        self._loaded = True


async def _healthy(_: Request) -> Response:
    return _json({"healthy": True})


async def _metadata(oauth: ResourceServer, _: Request) -> Response:
    return _json(oauth.metadata())


async def _page(name: str, _: Request) -> Response:
    return FileResponse(PAGE / name, headers=PAGE_HEADERS)


def _read_query(request: Request, several: frozenset[str]) -> dict[str, Any]:
    """Return the parameters of a query string; if one that is not in `several` is repeated, its last value counts."""
    try:
        pairs = parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:  # Starlette would put other characters in their place
        raise InputError("the query string is not UTF-8: encode it as UTF-8, with %") from None
    asked: dict[str, Any] = {}
    for name, value in pairs:
        asked[name] = [*asked.get(name, []), value] if name in several else value
    return asked


async def _read_body(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InputError("the body must be JSON, with Content-Type: application/json")
    if request.scope["query_string"]:
        raise InputError("a POST has its parameters in its body: its address takes none")
    try:
        return orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is not JSON: {error}") from None


def _problem_response(problem: Problem) -> Response:
    headers = {"Retry-After": "1"} if problem.status == 503 else None
    return _json(problem.to_dict(), problem.status, headers)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


NO_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Not found</title><body>'
    '<p>There is nothing at this address. <a href="/">Search the index</a></p></body></html>'
)


async def _not_found(request: Request, _: Exception) -> Response:
    if "text/html" in request.headers.get("accept", ""):  # a person with a browser
        return Response(NO_PAGE, 404, media_type="text/html")
    return _problem_response(Problem("not_found", "unknown path: /openapi.json lists all paths", 404))


async def _not_allowed(request: Request, error: Exception) -> Response:
    problem = Problem("method", f"{request.method} is not allowed for this path: /openapi.json lists all paths", 405)
    allowed = error.headers if isinstance(error, HTTPException) else None
    return _json(problem.to_dict(), problem.status, dict(allowed or {}))


async def _error_response(_: Request, error: Exception) -> Response:
    """Return the error response for an exception. `RequestMiddleware` logs exceptions that findingaid did not raise."""
    return _problem_response(problem_of(error))


class App(RequestMiddleware):
    """ASGI application of a server. `end_streams` ends responses that would otherwise last as long as their clients."""

    end_streams: Callable[[], None] = staticmethod(lambda: None)


class Server(uvicorn.Server):
    """Server that ends the streams of its application before it waits for the last responses."""

    def __init__(self, app: App, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.end_streams()
        await super().shutdown(sockets)


def create_app(session: Session, settings: ServeSettings, token: str | None, mcp: bool = False) -> App:
    """Create the ASGI application, with `mcp` also an MCP endpoint at /mcp.

    With a token, clients may be on other machines, so responses do not name paths of this machine.
    """
    callers: dict[str, Caller | None] = {each.token_sha256: each.caller for each in settings.callers}
    if token is not None:
        callers[hashlib.sha256(token.encode()).hexdigest()] = None
    oauth = ResourceServer(settings.oauth) if settings.oauth else None
    locked = bool(callers) or oauth is not None
    session = replace(session, elsewhere=locked)
    work = WorkerPool.shared(settings)
    metrics = Metrics(work)
    routes = [*Api(session, work).routes(metrics, locked)]
    if oauth:
        routes += [Route(path, partial(_metadata, oauth)) for path in sorted(oauth.paths)]
    opened: list[AbstractAsyncContextManager[None]] = []
    streamable = None
    if mcp:
        from findingaid.serve.mcp import Streamable

        streamable = Streamable(session, work, settings)
        routes.append(Route("/mcp", streamable, methods=["POST"]))
        opened.append(streamable.running())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if oauth:
                oauth.keys.refresh()
            for each in opened:
                await stack.enter_async_context(each)
            yield
        work.close()

    known = frozenset(route.path for route in routes if isinstance(route, Route))
    handlers: dict[Any, Any] = {
        404: _not_found,
        405: _not_allowed,
        FindingAidError: _error_response,
        Exception: _error_response,
    }
    inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    inner.router.redirect_slashes = False
    open_paths = OPEN | (oauth.paths if oauth else set())
    rules = Rules(callers, oauth, settings.body_bytes, settings.query_bytes, settings.timeout, open_paths, VISITED)
    app = App(TracingMiddleware(inner, known), rules, partial(metrics.seen, known))
    if streamable:
        app.end_streams = streamable.end_streams
    return app


def serve_http(session: Session, settings: ServeSettings, mcp: bool = False, open_page: bool = False) -> None:
    """Serve until the process is told to end. The model loads in another thread, so that the server answers at once.

    With `open_page`, the search page opens in the browser of the person at this machine.

    Raises ConfigError when the address is reachable from other machines and no token is set, and when the server cannot
    listen on the address.
    """
    token = settings.token
    require_token(settings.host, bool(token or settings.callers or settings.oauth))
    app = create_app(session, settings, token, mcp)
    _log_to_stderr()
    with _listen(settings.host, settings.port) as listener:
        start_thread(partial(_warm, session))
        address = f"http://{settings.host}:{listener.getsockname()[1]}"
        log.info("listening at %s%s", address, "/mcp" if mcp else "")
        if open_page:
            start_thread(partial(webbrowser.open, address))
        with suppress(KeyboardInterrupt):
            create_server(app, settings).run([listener])


def create_server(app: App, settings: ServeSettings) -> Server:
    """Create a uvicorn server for an application, with the connection limits of the settings.

    Connections use at most half of the file descriptors that this process may open.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = settings.connections if files == resource.RLIM_INFINITY else min(settings.connections, max(1, files // 2))
    config = uvicorn.Config(
        app,
        http=protocol_of(Bounds(most, settings.header_timeout, settings.timeout)),
        ws="none",
        log_level="warning",
        backlog=QUEUED,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=settings.proxies,
        h11_max_incomplete_event_size=HEADER_BYTES + settings.query_bytes,
        server_header=False,
    )
    return Server(app, config)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise ConfigError(f"serve: cannot listen at {host}:{port}: {str(error.strerror).partition(' (')[0]}") from None


def _log_to_stderr() -> None:
    """Log to standard error, unless the embedding program has configured the logger."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _warm(session: Session) -> None:
    try:
        session.warm()
    except FindingAidError as error:
        log.warning("not ready: %s", error)
