"""Served index for tests: two corpora that refer to each other, and real servers on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from findingaid import Artifact, Corpus, Edge, FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.config.settings import ServeSettings
from findingaid.corpus import Claiming
from findingaid.serve.http import create_app, create_server
from findingaid.serve.session import Session
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource

OPEN = {
    "auth.md": "# Auth\n\nAuth signs every token with a rotating key. Auth tokens expire after one hour of use."
    " A token that expired is refused by every service. Keys are rotated by the operator each month.\n",
    "ledger.md": "# Ledger\n\nThe ledger keeps one row an artifact. Every row names the version of each stage."
    " A row whose version is empty is done again by the next run.\n",
}
HIDDEN = {
    "vault.md": "# Vault\n\nThe vault keeps auth tokens of the Zanzibar office. Zanzibar tokens expire after a year."
    " The combination of the Zanzibar safe is nine nine one. Only Mortimer knows the Zanzibar plan.\n",
    "auth.md": "# Zanzibar auth\n\nThe Zanzibar office signs auth tokens with a stolen key. Mortimer stole the"
    " Zanzibar key. The Zanzibar ledger keeps two rows an artifact.\n",
}
WORDS = ("zanzibar", "mortimer", "vault", "hidden")
"""Words that a client limited to the open corpus must never see."""


# A client of httpx loads all certificates, which takes longer than a request to a server on loopback.
_WITHOUT_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
http_client = partial(httpx2.Client, verify=_WITHOUT_TLS)
http_get = partial(httpx2.get, verify=_WITHOUT_TLS, timeout=60)
http_head = partial(httpx2.head, verify=_WITHOUT_TLS, timeout=60)
http_post = partial(httpx2.post, verify=_WITHOUT_TLS, timeout=60)


@dataclass(frozen=True)
class Refers:
    """Edge extractor that links every artifact to the same (corpus, artifact id) pairs."""

    to: Sequence[tuple[str, str]]

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        for corpus, target in self.to:
            yield Edge("REF", target, corpus)


EVERY = [("open", "auth.md"), ("open", "ledger.md"), ("hidden", "vault.md"), ("hidden", "auth.md")]


def indexed(folder: Path, *names: str) -> FindingAid:
    """Build an index of these corpora."""
    claiming = Claiming(ExtractiveClaims(), nodes=ExtractiveNodes(), at_least=2)
    sources = {"open": MemorySource(dict(OPEN)), "hidden": MemorySource(dict(HIDDEN))}
    corpora = {
        name: Corpus(name, sources[name], Chunked(chunk_size=120, overlap=0), claims=claiming, edges=Refers(EVERY))
        for name in names
    }
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), corpora)
    problems = list(aid.index().problems())
    assert problems == [], problems
    return aid


@contextlib.contextmanager
def served(
    session: Session, token: str | None = None, mcp: bool = False, at: socket.socket | None = None, **settings: Any
) -> Iterator[str]:
    """Run a server of a session in a thread, and yield its base URL; `at` is a socket of one's own that listens."""
    bounds = ServeSettings(**settings)
    server = create_server(create_app(session, bounds, token, mcp), bounds)
    with at or socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def listens(port: int) -> bool:
    """Return whether something listens on a port of this machine."""
    with socket.socket() as there:
        return there.connect_ex(("127.0.0.1", port)) == 0


def post(address: str, name: str, given: Any, **headers: str) -> httpx2.Response:
    """Call a capability over HTTP and return its response."""
    return http_post(f"{address}/v1/{name}", json=given, headers=headers)


@asynccontextmanager
async def mcp_client(address: str, **options: Any) -> AsyncIterator[Client]:
    """Connect the SDK's client to a server."""
    async with httpx2.AsyncClient(verify=_WITHOUT_TLS, timeout=60) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(transport, cache=None, **options) as connected:
            yield connected


def post_mcp(address: str, message: Any) -> Any:
    """Return the response to a message of MCP that the SDK's client would not send."""
    headers = {"Accept": "application/json, text/event-stream"}
    events = http_post(f"{address}/mcp", json=message, headers=headers).text
    return json.loads(events.partition("data: ")[2])


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what a capability answered without the times of changes in one index, and the order that they give."""
    if "newest" not in answer:
        return answer
    listed = sorted(({**artifact, "changed": ""} for artifact in answer["newest"]), key=str)
    return {**answer, "newest": listed}
