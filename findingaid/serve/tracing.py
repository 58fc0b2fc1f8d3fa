"""Span of each HTTP request, by the HTTP conventions of OpenTelemetry, under the span that its caller names."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from findingaid import telemetry
from findingaid.serve.request_context import ASKING


@dataclass(frozen=True)
class TracingMiddleware:
    """ASGI layer that records a span for each request, with the caller whom its token names.

    Only `known` paths are named, since callers make up others.
    """

    app: ASGIApp
    known: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not telemetry.INSTALLED:
            await self.app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        labels = {"http.request.method": method, "url.scheme": scope["scheme"]}
        name = method
        if path in self.known:
            name, labels["http.route"] = f"{method} {path}", path
        asking = ASKING.get()
        details = {"user.id": str(asking)} if asking else None  # not a label of the metric: there may be thousands
        with telemetry.span(
            name, "http.server.request.duration", labels, details, kind="SERVER", caller=Headers(scope=scope)
        ) as found:

            async def observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    found["http.response.status_code"] = message["status"]
                    if message["status"] >= 500:
                        found["error.type"] = str(message["status"])
                await send(message)

            await self.app(scope, receive, observed)
