"""Benchmarks of the HTTP server: searches compared with library calls, and mixed load while the index is rebuilt.

The server runs in a separate process. `python -m benchmarks.serving` runs only these benchmarks. The load lasts ten
minutes, or FINDINGAID_BENCH_SOAK seconds.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import uvicorn

from benchmarks.figures import Row, timed
from benchmarks.search import WARM_UP, K, Topics, build, texts
from findingaid import Corpus, FindingAid
from findingaid.config.settings import ServeSettings
from findingaid.serve.http import create_app
from findingaid.serve.session import Session
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import MemorySource

SIZE = 100_000
CLIENTS = (1, 8, 64)
ASKED = 400
ADDED = 0.005
"""Seconds that HTTP may add to a library call with one client."""


LOAD = float(os.environ.get("FINDINGAID_BENCH_SOAK", "600"))
LOADING = 4
FILES = 500
REBUILT = 2
GROWN = 1.1
"""Maximum ratio of the server's memory at the end of the load to its memory after the first third."""


def aid_of(store: Store) -> FindingAid:
    return FindingAid(store, Topics(), {"docs": Corpus("docs", MemorySource({}), Chunked())})


def serve(uri: str) -> None:
    """Run a server in this process; its port is the first line that it prints."""
    limits = ServeSettings(caller_waiting=max(CLIENTS))  # all clients share an address, and count as one caller
    app = create_app(Session.of(aid_of(Store(uri))), limits, None)
    socket = (config := uvicorn.Config(app, port=0, log_level="error")).bind_socket()
    socket.listen()
    print(socket.getsockname()[1], flush=True)
    uvicorn.Server(config).run([socket])


class Client:
    """HTTP client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(self, name: str, given: Any) -> tuple[int, str]:
        self._connection.request("POST", f"/v1/{name}", json.dumps(given), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, response.read().decode()

    def search(self, query: str) -> None:
        status, body = self.ask("search", {"query": query, "k": K})
        assert status == 200, body
        assert len(json.loads(body)["hits"]) == K


@contextmanager
def server_of(store: Store) -> Iterator[tuple[int, int]]:
    """Run a server in a new process, and yield its port and process id."""
    command = [sys.executable, "-m", "benchmarks.serving", store.uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            yield int(server.stdout.readline()), server.pid
        finally:
            server.terminate()


def searches(folder: Path) -> Iterator[Row]:
    store = build(folder, SIZE)
    with server_of(store) as (port, _):
        yield from beside_library(aid_of(store), port)


def load(folder: Path) -> Iterator[Row]:
    """Measure mixed requests of several clients while all files change and are published.

    The requests are for searches, contexts, artifacts and the status.
    """
    source = MemorySource(edition(0))
    store = Store(str(folder / "index"))
    aid = FindingAid(store, Topics(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    ended = time.monotonic() + LOAD
    with server_of(store) as (port, process), ThreadPoolExecutor(LOADING) as pool:
        asked = [pool.submit(ask_until, ended, port, first) for first in range(LOADING)]
        memory = []
        for turn in range(1, REBUILT + 2):
            time.sleep(max(0.0, ended - LOAD * (1 - turn / (REBUILT + 1)) - time.monotonic()))
            memory.append(resident(process))
            if turn <= REBUILT:
                source.payloads.update(edition(turn))
                assert aid.index().unpublished is None
        seen = [each for one in asked for each in one.result()]
    failed = sum(status != 200 for status, _ in seen)
    halves = sum(len(editions) > 1 for _, editions in seen)
    published = len({editions for _, editions in seen if editions})
    grown = memory[-1] / memory[0]
    yield Row(
        f"{LOAD:.0f} s of mixed load by {LOADING} clients, {FILES:,} files rebuilt and published {REBUILT} times",
        f"{len(seen):,} answers of {published} versions, {failed} errors, {halves} of two versions;"
        f" memory {', '.join(f'{m:.0f}' for m in memory)} MB",
        f"0, 0, ≤ {GROWN} ×",
        failed == halves == 0 and grown <= GROWN and published == REBUILT + 1,
    )


def edition(number: int) -> dict[str, Any]:
    """Return the contents of all files in this edition."""
    words = texts(FILES, 300, 3)
    return {f"{i}.md": f"# File {i}\n\nThis is edition{number}. {text}\n" for i, text in enumerate(words)}


def ask_until(ended: float, port: int, first: int) -> list[tuple[int, frozenset[str]]]:
    """Send requests until `ended`, and return the status of each response and the editions that it mentions."""
    client, words = Client(port), texts(1_000, 3, 17 + first)
    seen = []
    while time.monotonic() < ended:
        query = f"this edition {words[len(seen) % len(words)]}"
        questions: list[tuple[str, Any]] = [
            ("search", {"query": query, "k": 50}),
            ("search", {"query": query, "k": 10, "expand": "artifact"}),
            ("context", {"query": query, "budget_tokens": 1000}),
            ("show", {"id": f"{len(seen) % FILES}.md"}),
            ("status", {}),
        ]
        status, body = client.ask(*questions[(first + len(seen)) % len(questions)])
        seen.append((status, frozenset(re.findall(r"edition\d", body))))
    return seen


def resident(process: int) -> float:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


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
    """Send queries by concurrent clients, each of which waits for its response before it sends the next query.

    Returns the seconds of each query and of all together.
    """

    def ask(share: Sequence[str]) -> list[float]:
        search = connected()
        return [timed(lambda q=q: search(q))[0] for q in share]  # type: ignore[misc]  # bound now

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        took = [seconds for each in pool.map(ask, [asked[i::clients] for i in range(clients)]) for seconds in each]
    return took, time.perf_counter() - start


def spread(took: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    cuts = quantiles(took, n=100)
    return cuts[49], cuts[98]


def shown(times: tuple[float, float]) -> tuple[str, str]:
    return f"{times[0] * 1e3:.1f} ms", f"{times[1] * 1e3:.1f} ms"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory(prefix="findingaid-bench-") as folder:
            for row in (*searches(Path(folder) / "many"), *load(Path(folder) / "load")):
                print(f"| {row.what} | {row.measured} | {row.wanted} | {'yes' if row.met else 'NO'} |", flush=True)
