"""HTTP beside the library call: searches of 100,000 records by 1, 8 and 64 clients, the server a process of its own.

python -m benchmarks.serving
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles

import uvicorn

from benchmarks.figures import Row, timed
from benchmarks.search import WARM_UP, K, Topics, build, texts
from findingaid import Corpus, FindingAid
from findingaid.config import ServeSettings
from findingaid.serve.http import app_of
from findingaid.serve.session import Session
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource

SIZE = 100_000
CLIENTS = (1, 8, 64)
ASKED = 400
ADDED = 0.005
"""Seconds that HTTP may add at one client."""


def aid_of(store: Store) -> FindingAid:
    return FindingAid(store, Topics(), {"docs": Corpus("docs", MemorySource({}), Chunked())})


def serve(uri: str) -> None:
    """The server's process: its port is the first line that it says."""
    app = app_of(Session.of(aid_of(Store(uri))), ServeSettings(), None)
    socket = (config := uvicorn.Config(app, port=0, log_level="error")).bind_socket()
    print(socket.getsockname()[1], flush=True)
    uvicorn.Server(config).run([socket])


class Client:
    """One connection, kept open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def search(self, query: str) -> None:
        body = json.dumps({"query": query, "k": K})
        self._connection.request("POST", "/v1/search", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        found = json.loads(response.read())
        assert response.status == 200, found
        assert len(found["hits"]) == K


def figures(folder: Path) -> Iterator[Row]:
    store = build(folder, SIZE)
    command = [sys.executable, "-m", "benchmarks.serving", store.uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline())
            yield from beside_library(aid_of(store), port)
        finally:
            server.terminate()


def beside_library(aid: FindingAid, port: int) -> Iterator[Row]:
    queries = texts(WARM_UP + ASKED, 5, 11)
    client = Client(port)
    turns = [(timed(lambda q=q: aid.search(q, K))[0], timed(lambda q=q: client.search(q))[0]) for q in queries]  # type: ignore[misc]  # bound now
    own, http_ = (spread([turn[i] for turn in turns[WARM_UP:]]) for i in (0, 1))
    added = http_[0] - own[0]
    of_library = f"library {shown(own)[0]}, {shown(own)[1]}: {added * 1e3:+.1f} ms"
    yield Row(
        f"HTTP search, {SIZE:,} records, 1 client",
        f"p50 {shown(http_)[0]}, p99 {shown(http_)[1]}; {of_library}",
        f"≤ library + {ADDED * 1e3:.0f} ms",
        added <= ADDED,
    )
    for clients in CLIENTS:
        asked = texts(ASKED, 5, 100 + clients)
        took, seconds = at_once(clients, asked, lambda: Client(port).search)
        yield Row(
            f"… {clients} client{'s' * (clients > 1)}",
            f"p50 {shown(spread(took))[0]}, p99 {shown(spread(took))[1]}, {len(asked) / seconds:.0f} requests a second",
            "",
            True,
        )


def at_once(
    clients: int, asked: Sequence[str], connected: Callable[[], Callable[[str], None]]
) -> tuple[list[float], float]:
    """Seconds of each question, and of all, asked by so many clients that each wait for their answer."""

    def ask(share: Sequence[str]) -> list[float]:
        search = connected()
        return [timed(lambda q=q: search(q))[0] for q in share]  # type: ignore[misc]  # bound now

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        took = [seconds for each in pool.map(ask, [asked[i::clients] for i in range(clients)]) for seconds in each]
    return took, time.perf_counter() - start


def spread(took: Sequence[float]) -> tuple[float, float]:
    """The median, and what one of a hundred is above."""
    cuts = quantiles(took, n=100)
    return cuts[49], cuts[98]


def shown(times: tuple[float, float]) -> tuple[str, str]:
    return f"{times[0] * 1e3:.1f} ms", f"{times[1] * 1e3:.1f} ms"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(prefix="findingaid-bench-") as folder:
            for row in figures(Path(folder)):
                print(f"| {row.what} | {row.measured} | {row.wanted} | {'yes' if row.met else 'NO'} |", flush=True)
