"""Attacks on a server on loopback: partial requests, heavy filters, floods. A normal query runs beside each."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from findingaid.serve.session import Session
from tests.support.serving import http_get, indexed, post, served

pytestmark = pytest.mark.slow

TOKEN = "correct horse battery staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PROXY = ["127.0.0.1"]

NORMAL = {"query": "when do tokens expire"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session.of(indexed(tmp_path_factory.mktemp("attacked"), "open"))


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


@contextlib.contextmanager
def flooded(address: str, seed: int, halves: list[bytes]) -> Iterator[None]:
    """Open connections that send half a request, again and again, while the block runs; 60 are held open."""
    chosen, done = random.Random(seed), threading.Event()

    def flood() -> None:
        held: list[socket.socket] = []
        while not done.is_set():
            with contextlib.suppress(OSError):
                held.append(connected(address))
                held[-1].sendall(chosen.choice(halves))
            if len(held) > 60:
                held.pop(chosen.randrange(len(held))).close()
            time.sleep(0.002)
        for each in held:
            each.close()

    threads = [threading.Thread(target=flood) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


HALVES = [
    b"",
    b"G",
    b"GET /healthz HTTP/1.1\r\nX-a: ",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\nGET ",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_flood_of_half_requests_keeps_nobody_out(session: Session, seed: int, token: str | None) -> None:
    with served(session, token=token, connections=40, header_timeout=2) as address, flooded(address, seed, HALVES):
        time.sleep(1)
        statuses = [post(address, "search", NORMAL, **(BEARER if token else {})).status_code for _ in range(10)]

    assert statuses == [200] * 10


def test_more_half_requests_than_may_be_open_leave_room_for_a_whole_one(session: Session) -> None:
    """A server held 1,100 of them open until it had no file left to accept another connection."""
    with served(session, token=TOKEN, header_timeout=3) as address, contextlib.ExitStack() as held:
        for _ in range(400):
            held.enter_context(connected(address)).sendall(HALVES[2])
        beside = post(address, "search", NORMAL, **BEARER).status_code
        time.sleep(4)
        after = post(address, "search", NORMAL, **BEARER).status_code

    assert (beside, after) == (200, 200)


def heavy(chosen: random.Random) -> str:
    """Return a filter that costs much, or would if it were let through."""
    nested = chosen.choice(["DATE ({})", "STRUCT({})", "ARRAY[{}]", "INT({})", "({})", "lower({})", "NOT ({})"])
    deep = "text"
    for _ in range(chosen.randint(20, 60)):
        deep = nested.format(deep)
    listed = ", ".join(f"'a{chosen.random()}'" for _ in range(4_000))
    likes = " OR ".join(f"text LIKE '%{chosen.randint(0, 10**6)}%_%'" for _ in range(90))
    return chosen.choice(
        [
            deep,
            " OR ".join(["surface_index = 1"] * 4_500),
            f"artifact_id NOT IN ({listed})",
            likes,
            "(" * 300 + "text = 'a'" + ")" * 300,
            "1" + "+1" * 40_000,
        ]
    )


def test_heavy_filters_of_one_caller_keep_no_other_from_an_answer(session: Session, seed: int) -> None:
    chosen = random.Random(seed)
    filters = [heavy(chosen) for _ in range(24)]
    with served(session, timeout=20, proxies=PROXY) as address, ThreadPoolExecutor(12) as pool:
        attacks = [pool.submit(post, address, "search", {**NORMAL, "where": where}) for where in filters]
        normal = [post(address, "search", NORMAL, **{"X-Forwarded-For": f"192.0.2.{n}"}).status_code for n in range(5)]
        ended: set[Any] = {each.result().status_code for each in attacks}

    assert normal == [200] * 5
    assert ended <= {200, 400, 503, 504}


def test_a_flood_of_whole_requests_of_one_caller_leaves_others_their_share(session: Session) -> None:
    with (
        served(session, proxies=PROXY, at_once=4, waiting=8, caller_at_once=2, caller_waiting=4) as address,
        ThreadPoolExecutor(24) as pool,
    ):
        flood = [pool.submit(post, address, "search", {**NORMAL, "k": 1_000}) for _ in range(120)]
        normal = [post(address, "search", NORMAL, **{"X-Forwarded-For": "192.0.2.1"}).status_code for _ in range(5)]
        ready = http_get(f"{address}/readyz", timeout=60).status_code
        statuses = {each.result().status_code for each in flood}

    assert normal == [200] * 5
    assert ready == 200
    assert statuses == {200, 503}
