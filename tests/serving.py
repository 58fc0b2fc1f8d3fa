"""A served index for tests: two corpora that refer to each other, and real servers of it on loopback."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from findingaid import Artifact, Corpus, Edge, FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.config import ServeSettings
from findingaid.model import Claiming
from findingaid.serve.http import app_of
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
"""What nobody who is limited to the open corpus may read."""


@dataclass(frozen=True)
class Refers:
    """Edges from each artifact to these (corpus, artifact id)."""

    to: Sequence[tuple[str, str]]

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterator[Edge]:
        for corpus, target in self.to:
            yield Edge("REF", target, corpus)


EVERY = [("open", "auth.md"), ("open", "ledger.md"), ("hidden", "vault.md"), ("hidden", "auth.md")]


def indexed(folder: Path, *names: str) -> FindingAid:
    """An index of the corpora named."""
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
def served(session: Session, token: str | None = None, mcp: bool = False, **settings: Any) -> Iterator[str]:
    """The address of a server of a session, in a thread of its own."""
    app = app_of(session, ServeSettings(**settings), token, mcp)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def post(address: str, name: str, given: Any, **headers: str) -> httpx2.Response:
    """What a capability answers over HTTP."""
    return httpx2.post(f"{address}/v1/{name}", json=given, headers=headers, timeout=60)
