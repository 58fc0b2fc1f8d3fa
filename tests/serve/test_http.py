"""Index over HTTP: access rules, limits, responses, and the effect of a publish."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from findingaid import ConfigError, Corpus, FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.config.settings import ServeSettings, is_loopback
from findingaid.corpus import Claiming
from findingaid.embedding.endpoint import OpenAIEmbedder
from findingaid.llm.rate_limits import DOWN_SECONDS
from findingaid.query.answers.generation import OpenAIAnswerer
from findingaid.request_limits import seconds_left
from findingaid.serve.connections import caller_of
from findingaid.serve.errors import BusyError, TimedOutError
from findingaid.serve.http import create_app, serve_http
from findingaid.serve.limits import WorkerPool
from findingaid.serve.middleware import require_token
from findingaid.serve.openapi import is_simple, openapi_document
from findingaid.serve.session import Session
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource, OpenAIServer, faults
from findingaid.testing.faults import Fault
from tests.conftest import text_about
from tests.support.serving import http_client, http_get, http_head, http_post, indexed, post, post_mcp, served

TOKEN = "correct horse battery staple"


class Slow(HashEmbedder):
    """Embeds a query when it may."""

    @property
    def id(self) -> str:
        return super().id

    def __init__(self) -> None:
        self.may = threading.Event()

    def embed_query(self, text: str) -> Any:
        if "slow" in text:
            assert self.may.wait(60)
        return super().embed_query(text)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session.of(indexed(tmp_path_factory.mktemp("served"), "open"))


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    with served(session, body_bytes=2_000, query_bytes=500) as address:
        yield address


@pytest.fixture(scope="module")
def locked(session: Session) -> Iterator[str]:
    with served(session, token=TOKEN) as address:
        yield address


def kind(response: httpx2.Response) -> str:
    found: str = response.json()["error"]["kind"]
    return found


# -- requests and responses ----------------------------------------------------------------------------


def test_what_an_address_can_hold_is_answered_by_get_as_by_post(address: str) -> None:
    asked = {"id": "auth.md", "kinds": ["REF", "LINK"]}
    got = http_get(f"{address}/v1/neighbours", params={**asked, "reverse": "true"})

    assert got.json() == post(address, "neighbours", {**asked, "reverse": True}).json()
    assert got.json()["neighbours"]
    assert http_get(f"{address}/v1/search").status_code == 405
    assert kind(http_get(f"{address}/v1/status/")) == "not_found"


@pytest.mark.parametrize(
    ("name", "given", "status", "said"),
    [
        ("search", {}, 422, "search.query is missing: search takes query, "),
        ("search", {"query": "x", "k": "3"}, 422, "search.k: input should be a valid integer"),
        ("search", {"query": "x", "colour": 1}, 422, "search.colour is not an input: search takes query, "),
        ("search", {"query": "x", "route": "os:system"}, 422, "search.route: string should match pattern '^(flat|"),
        ("search", {"query": "x", "rerank": {"kind": "endpoint"}}, 422, "search.rerank"),
        ("search", [], 422, "search: input should be a valid dictionary"),
        ("search", {"query": "x", "k": 0}, 400, "k must be at least 1, got 0"),
        ("search", {"query": " "}, 400, "the query is empty"),
        ("search", {"query": "x", "corpora": ["nope"]}, 404, "unknown corpus 'nope'. Known: open"),
        ("show", {"id": "nope"}, 404, "no published artifact or record 'nope'"),
        ("answer", {"query": "tokens", "llm": True}, 400, "no model is configured"),
        ("propose_claim", {}, 404, "unknown path"),
        ("nothing", {}, 404, "unknown path"),
    ],
)
def test_what_cannot_be_asked_is_answered_by_a_kind_and_a_line(
    address: str, name: str, given: Any, status: int, said: str
) -> None:
    response = post(address, name, given)

    assert response.status_code == status
    assert response.json()["error"].keys() == {"kind", "message", "see"}
    assert said in response.json()["error"]["message"]


def test_corpora_tell_which_model_writes_answers_if_any_does(session: Session) -> None:
    writer = OpenAIAnswerer(model="small", base_url="http://127.0.0.1:9/v1")

    told = [each.call("corpora", {})["llm"] for each in (session, Session(replace(session.aid, answerer=writer)))]

    assert told == [None, "small"]


def test_a_body_that_is_no_json_is_refused(address: str) -> None:
    for body, headers in (
        (b"{", {"content-type": "application/json"}),
        (b'{"query": "x"}', {"content-type": "text/plain"}),
        (b"\xff\xfe", {"content-type": "application/json"}),
    ):
        response = http_post(f"{address}/v1/search", content=body, headers=headers)

        assert (response.status_code, kind(response)) == (422, "input")


def test_parameters_in_the_address_of_a_post_are_refused_and_not_passed_over(address: str) -> None:
    response = http_post(f"{address}/v1/search?k=1", json={"query": "tokens"})

    assert (response.status_code, kind(response)) == (422, "input")


def test_nothing_is_ready_before_something_is_published(tmp_path: Path) -> None:
    corpus = Corpus("open", MemorySource({"a.md": "# A\n\nTokens expire."}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"open": corpus})
    with served(Session.of(aid)) as address:
        before = http_get(f"{address}/readyz"), post(address, "search", {"query": "tokens"})
        alive = http_get(f"{address}/healthz")
        status = http_get(f"{address}/v1/status")
        aid.index()
        after = http_get(f"{address}/readyz"), post(address, "search", {"query": "tokens"})

    assert [r.status_code for r in before] == [503, 503]
    assert [kind(r) for r in before] == ["store", "store"]
    assert alive.status_code == status.status_code == 200
    assert status.json()["published"] is None
    assert [r.status_code for r in after] == [200, 200]


def test_what_is_published_is_served_without_a_restart(tmp_path: Path) -> None:
    source = MemorySource({"a.md": text_about("ledger")})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"open": Corpus("open", source, Chunked())})
    aid.index()
    with served(Session.of(aid)) as address:
        first = post(address, "search", {"query": "vector", "mode": "lexical"}).json()["hits"]
        source.payloads["b.md"] = text_about("vector")
        replace(aid).index()
        second = post(address, "search", {"query": "vector", "mode": "lexical"}).json()["hits"]
        shown = http_get(f"{address}/v1/show", params={"id": "b.md"})

    assert [hit["artifact_id"] for hit in first] == []
    assert [hit["artifact_id"] for hit in second] == ["b.md"]
    assert shown.json()["artifact_id"] == "b.md"


@pytest.mark.slow
def test_nothing_fails_and_nothing_is_half_while_the_index_is_rebuilt_and_published(tmp_path: Path) -> None:
    """All artifacts change together, so that an answer with two editions shows half of a run."""
    names = [f"{i}.md" for i in range(40)]

    def edition(number: int) -> dict[str, Any]:
        return {name: f"# {name}\n\nThe ledger of {name} is of edition{number}.\n" for name in names}

    source = MemorySource(edition(0))
    corpus = Corpus("open", source, Chunked(), claims=Claiming(ExtractiveClaims()))
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"open": corpus})
    aid.index()
    done = threading.Event()
    questions: list[tuple[str, Any]] = [
        ("search", {"query": "ledger", "k": 40, "surfaces": ["chunk"]}),
        ("search", {"query": "ledger edition", "k": 20, "expand": "artifact", "route": "neighbours"}),
        ("answer", {"query": "of which edition is the ledger", "depth": 20}),
        ("context", {"query": "ledger", "budget_tokens": 400}),
        ("corpora", {}),
        ("browse", {}),
        ("status", {}),
    ]

    def ask(first: int) -> list[tuple[int, set[str]]]:
        seen = []
        for turn in itertools.count(first):
            response = post(address, *questions[turn % len(questions)])
            seen.append((response.status_code, set(re.findall(r"edition\d+", response.text))))
            if done.is_set():
                return seen
        return seen

    with served(Session.of(aid)) as address, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, first) for first in range(4)]
        for number in (1, 2, 3):
            source.payloads.update(edition(number))
            assert replace(aid).index().unpublished is None
        done.set()
        seen = [each for one in asked for each in one.result()]

    assert {status for status, _ in seen} == {200}
    assert max(len(editions) for _, editions in seen) == 1
    assert len({frozenset(editions) for _, editions in seen if editions}) > 1


# -- access --------------------------------------------------------------------------------------------


def test_a_token_is_needed_where_one_is_set(locked: str) -> None:
    for authorization in (None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"):
        headers = {} if authorization is None else {"Authorization": authorization.encode("utf-8")}
        response = http_get(f"{locked}/v1/status", headers=headers)  # type: ignore[arg-type]  # bytes are taken

        assert (response.status_code, kind(response)) == (401, "unauthorized")
        assert response.headers["www-authenticate"] == "Bearer"
    assert http_get(f"{locked}/v1/status", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_without_a_token_only_what_tells_nothing_of_the_index_is_open(locked: str) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert http_get(f"{locked}{path}").status_code == 200
    for path in ("/metrics", "/v1/corpora", "/v1/show?id=auth.md", "/nothing"):
        assert http_get(f"{locked}{path}").status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "127.0.0.1.example.org", ""])
def test_no_server_that_others_reach_begins_without_a_token(session: Session, host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match="can be reached from other machines: set a token"):
        serve_http(session, ServeSettings(host=host))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3", "[::1]"])
def test_this_machine_alone_may_ask_without_a_token(host: str) -> None:
    require_token(host, None)


def test_a_token_that_is_not_set_is_no_token(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "  "):
        monkeypatch.setenv("FINDINGAID_TOKEN", value)
        with pytest.raises(ConfigError, match=r"\$FINDINGAID_TOKEN is not set"):
            serve_http(session, ServeSettings(token_env="FINDINGAID_TOKEN"))


def test_pages_of_other_hosts_cannot_ask(address: str) -> None:
    """Neither one that a browser has open, nor one whose name was pointed at this machine."""
    own = http_get(f"{address}/v1/status", headers={"Origin": address})
    other = http_get(f"{address}/v1/status", headers={"Origin": "http://evil.example"})
    null = http_get(f"{address}/v1/status", headers={"Origin": "null"})
    rebound = http_get(f"{address}/v1/status", headers={"Host": "evil.example"})
    neither = [http_get(f"{address}/v1/status", headers=h) for h in ({"Host": "["}, {"Origin": "http://["})]

    assert own.status_code == 200
    assert [(r.status_code, kind(r)) for r in (other, null, rebound, *neither)] == [(403, "forbidden")] * 5


class Counted(HashEmbedder):
    """Keeps the queries that an endpoint would charge for."""

    @property
    def id(self) -> str:
        return super().id

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Any:
        self.asked.append(text)
        return super().embed_query(text)


def test_no_get_asks_a_model_and_none_writes(tmp_path: Path) -> None:
    """Any page that a browser has open can make it send a GET, as for an image."""
    corpus = Corpus(
        "open", MemorySource({"a.md": text_about("ledger")}), Chunked(), claims=Claiming(ExtractiveClaims())
    )
    embedder = Counted()
    aid = FindingAid(Store(str(tmp_path / "index")), embedder, {"open": corpus})
    aid.index()
    embedder.asked.clear()
    aid = replace(aid, answerer=OpenAIAnswerer(model="dear", base_url="http://127.0.0.1:9/v1"))
    given = {"id": "a.md", "query": "ledger", "llm": "true", "corpus": "open", "corpora": "open"}
    statuses = {}
    with served(Session.of(aid, actor="tester")) as address:
        for name, operations in http_get(f"{address}/openapi.json").json()["paths"].items():
            known = {each["name"] for each in operations.get("get", {}).get("parameters", ())}
            params = {key: value for key, value in given.items() if "get" not in operations or key in known}
            statuses[name] = http_get(address + name, params=params).status_code
        assert embedder.asked == []
        for _ in range(3):
            assert http_get(f"{address}/readyz").status_code == 200

    refused = {"/v1/search", "/v1/answer", "/v1/context", "/v1/propose_claim"}
    assert statuses == {name: 405 if name in refused else 200 for name in statuses}
    assert refused < statuses.keys()
    assert embedder.asked == ["ready"]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "other"])
def test_browsers_ask_nothing_for_pages_of_other_hosts_and_ports(address: str, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    visit = headers | {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    frame = visit | {"Sec-Fetch-Dest": "iframe"}
    paths = ["/v1/status", "/v1/show?id=auth.md", "/metrics", "/readyz", "/openapi.json", "/page/page.js"]
    refused = [http_get(address + path, headers=h) for path in paths for h in (headers, visit, frame)]
    refused += [http_get(f"{address}/", headers=h) for h in (headers, frame, visit | {"Origin": "null"})]
    refused += [http_head(f"{address}/", headers=visit), post(address, "search", {"query": "tokens"}, **headers)]

    assert {r.status_code for r in refused} == {403}
    assert http_get(f"{address}/", headers=visit).status_code == 200
    for own in ("same-origin", "none"):
        assert http_get(f"{address}/v1/status", headers=headers | {"Sec-Fetch-Site": own}).status_code == 200


def test_a_page_that_opened_the_search_page_cannot_lead_it_on(address: str) -> None:
    page = http_get(f"{address}/")

    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert page.headers["cross-origin-resource-policy"] == "same-origin"


def sent(address: str, data: bytes) -> bytes:
    """Send a request on its own connection and return all bytes until the server closes it."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(data)
        return b"".join(iter(partial(connection.recv, 65_536), b""))


AMBIGUOUS = [
    "Host: localhost\r\nHost: evil.example",
    "Host: localhost\r\nHost: localhost",
    "Host: localhost\r\nContent-Length: 2\r\nContent-Length: 3",
    "Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked",
    "Host: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b",
]


@pytest.mark.parametrize("headers", AMBIGUOUS)
def test_headers_that_contradict_each_other_are_refused_and_the_connection_ends(address: str, headers: str) -> None:
    said = sent(address, f"POST /v1/status HTTP/1.1\r\n{headers}\r\n\r\n0\r\n\r\n".encode())

    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("headers", AMBIGUOUS)
def test_other_servers_refuse_contradicting_headers_by_the_same_rule(session: Session, headers: str) -> None:
    """A server that takes them, as uvicorn with httptools does, hands them to the app."""
    app = create_app(session, ServeSettings(), None)
    listed = [tuple(part.encode() for part in line.lower().split(": ")) for line in headers.split("\r\n")]
    scope = {"type": "http", "method": "POST", "path": "/v1/status", "query_string": b"", "headers": listed}
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(app(scope, partial(asyncio.sleep, 60), send))  # type: ignore[arg-type]

    assert said[0]["status"] == 400
    assert b'"kind":"malformed"' in said[1]["body"]


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_where_nothing_can_listen_one_line_says_so(
    session: Session, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("FINDINGAID_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"^serve: cannot listen at {host}:{port}: [\w ]+$"):
            serve_http(session, ServeSettings(host=host, port=port, token_env="FINDINGAID_TOKEN"))


def test_callers_elsewhere_are_told_of_no_place_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(text_about("ledger"))
    store = str(tmp_path / "index")
    aid = FindingAid(Store(store), HashEmbedder(), {"open": Corpus("open", Files(str(tmp_path / "docs")), Chunked())})
    session = Session.of(aid)
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    def told(address: str, **headers: str) -> list[str]:
        names = ("why", "show", "impact")
        asked = [http_get(f"{address}/v1/{name}", params={"id": "a.md"}, headers=headers) for name in names]
        return [r.text for r in (*asked, http_get(f"{address}/readyz"))]

    with served(session) as here, served(session, token=TOKEN) as there:
        before = told(here), told(there, **bearer)
        aid.index()
        after = told(here), told(there, **bearer)
        (tmp_path / "docs").rename(tmp_path / "moved")
        lost = told(there, **bearer)

    assert store in before[0][0]
    assert before[1][:3] == [text.replace(store, "the index") for text in before[0][:3]]
    assert '"message":"not ready: see the log of the server"' in before[1][3]
    assert store not in before[1][3]
    assert str(tmp_path / "docs" / "a.md") in after[0][0]
    assert '"id":"Files a.md"' in after[1][0]
    assert "it cannot be read now" in lost[0]
    assert not any(str(tmp_path) in text for text in (*before[1], *after[1], *lost))


# -- how much ------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_announced_or_not(address: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"query": "'
        for _ in range(100):
            yield b"x" * 100
        yield b'"}'

    announced = post(address, "search", {"query": "x" * 3_000})
    streamed = http_post(f"{address}/v1/search", content=chunks(), headers={"content-type": "application/json"})

    assert [(r.status_code, kind(r)) for r in (announced, streamed)] == [(413, "too_large")] * 2


def test_an_address_that_is_too_long_is_refused(address: str) -> None:
    response = http_get(f"{address}/v1/show", params={"id": "x" * 600})

    assert (response.status_code, kind(response)) == (414, "too_long")


def test_what_is_late_is_said_to_be_and_more_than_may_wait_is_sent_away(tmp_path: Path) -> None:
    slow = Slow()
    corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), slow, {"open": corpus})
    aid.index()
    with served(Session.of(aid), at_once=1, waiting=1, timeout=0.5) as address, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(post, address, "search", {"query": f"slow {i}", "mode": "dense"}) for i in range(4)]
        answers = sorted((r.status_code, kind(r)) for r in (each.result() for each in asked))
        alive = http_get(f"{address}/healthz")
        slow.may.set()
        while http_get(f"{address}/readyz").status_code != 200:
            time.sleep(0.05)
        recovered = post(address, "search", {"query": "slow", "mode": "dense"})

    assert {(503, "busy"), (504, "timed_out")} == set(answers)
    assert alive.status_code == 200
    assert recovered.status_code == 200


@pytest.mark.parametrize("path", ["/v1/search", "/mcp"])
def test_a_body_that_does_not_come_is_waited_for_no_longer_than_for_an_answer(session: Session, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with served(session, mcp=True, timeout=0.3) as address, connected(address) as connection:
        connection.sendall(f"{head}Content-Length: 900\r\n\r\n{{".encode())
        status, answer = read_response(connection)

    assert status == 504
    assert answer.startswith(b'{"error":{"kind":"timed_out","message":"the body did not arrive within 0.3 s",')


@pytest.mark.parametrize("path", ["/v1/search", "/mcp"])
def test_who_leaves_before_the_end_of_a_body_is_no_error_of_the_server(
    session: Session, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with served(session, mcp=True) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            said = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900"
            connection.sendall(f"{said}\r\n\r\n{{".encode())
        while f'route="{path}"' not in (told := http_get(f"{address}/metrics").text):
            time.sleep(0.02)

    assert f'route="{path}",status="499"' in told
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_caller_that_leaves_in_the_middle_harms_nobody(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    for sent in (b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n{", b"GET /v1/sta", b""):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)

    assert post(address, "search", {"query": "tokens"}).status_code == 200


# -- fairness between callers --------------------------------------------------------------------------


HALF_A_BODY = (
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def read_response(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of the next response."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, response.read()


def drip(connection: socket.socket, data: bytes, seconds: float) -> bool:
    """Send bytes again and again without reading; return whether the server ends the connection meanwhile."""
    until = time.monotonic() + seconds
    connection.setblocking(False)
    while time.monotonic() < until:
        try:
            connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_headers_that_do_not_come_are_not_waited_for_though_bytes_come_one_by_one(session: Session) -> None:
    with served(session, header_timeout=0.5) as address, connected(address) as silent, connected(address) as slow:
        assert drip(slow, b"G", 30)
        assert silent.recv(1) == b""
        assert http_get(f"{address}/healthz").status_code == 200


@pytest.mark.parametrize("half", [b"", b"GET /healthz HTTP/1.1\r\nX-a: ", HALF_A_BODY])
def test_connections_that_ask_nothing_make_room_for_those_that_ask(session: Session, half: bytes) -> None:
    with served(session, connections=8) as address, contextlib.ExitStack() as held, http_client() as known:
        assert known.get(f"{address}/v1/status").status_code == 200
        for _ in range(40):
            held.enter_context(connected(address)).sendall(half)
        answers = [http_get(f"{address}/healthz"), post(address, "search", {"query": "tokens"})]

    assert [r.status_code for r in answers] == [200, 200]


def test_a_caller_with_the_token_keeps_its_connection_whatever_others_open(session: Session) -> None:
    ask = f"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with served(session, token=TOKEN, connections=8) as address, contextlib.ExitStack() as held:
        known = held.enter_context(connected(address))
        known.sendall(ask)
        assert read_response(known)[0] == 200
        for _ in range(40):
            held.enter_context(connected(address)).sendall(b"GET /readyz HTTP/1.1\r\nX: ")
        known.sendall(ask)

        assert read_response(known)[0] == 200


def test_a_caller_that_does_not_read_its_answers_is_left(session: Session) -> None:
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(session, timeout=0.5) as address, connected(address) as reader:
        assert drip(reader, ask * 100, 60)
        assert http_get(f"{address}/healthz").status_code == 200


def test_one_that_streams_is_told_that_streams_are_not_served(session: Session) -> None:
    """A stream that is never ended would keep its connection."""
    with served(session, mcp=True) as address:
        assert http_get(f"{address}/mcp", headers={"Accept": "text/event-stream"}).status_code == 405


def test_one_caller_over_http_and_mcp_has_one_share(tmp_path: Path) -> None:
    slow = Slow()
    corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), slow, {"open": corpus})
    aid.index()
    called = {"name": "search", "arguments": {"query": "ledger", "mode": "dense"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    with (
        served(Session.of(aid), mcp=True, caller_at_once=1, caller_waiting=0, proxies=["127.0.0.1"]) as address,
        ThreadPoolExecutor(1) as pool,
    ):
        late = pool.submit(post, address, "search", {"query": "slow", "mode": "dense"})
        while "findingaid_calls 1.0" not in http_get(f"{address}/metrics").text:
            time.sleep(0.02)
        own = [post(address, "corpora", {}).json(), post_mcp(address, asked)]
        other = post(address, "search", {"query": "ledger"}, **{"X-Forwarded-For": "192.0.2.1"})
        ready = http_get(f"{address}/readyz")
        slow.may.set()

        assert late.result().status_code == 200
    assert own[0]["error"]["kind"] == own[1]["result"]["structuredContent"]["error"]["kind"] == "busy"
    assert own[0]["error"]["message"] == "1 of your requests are running or waiting: try again in a moment"
    assert (other.status_code, ready.status_code) == (200, 200)


def test_a_caller_named_by_a_proxy_that_is_not_configured_is_not_believed(session: Session) -> None:
    with served(session) as address:
        named = {"X-Forwarded-For": "192.0.2.1"}
        assert post(address, "search", {"query": "tokens"}, **named).status_code == 200
    assert caller_of(("127.0.0.1", 5)) == caller_of(("127.9.8.7", 6)) == caller_of(("::1", 7)) == "loopback"
    assert caller_of(("::ffff:192.0.2.1", 5)) == caller_of(("192.0.2.1", 6)) == "192.0.2.1"
    assert caller_of(("2001:db8::1", 5)) == caller_of(("2001:db8::ffff:1", 6)) != caller_of(("2001:db8:0:1::1", 6))


def test_a_call_that_is_late_gives_its_place_to_others_and_counts_for_its_caller() -> None:
    may = threading.Event()
    work = WorkerPool(at_once=1, waiting=4, seconds=0.3, share=(1, 4))

    async def ask() -> list[Any]:
        with pytest.raises(TimedOutError):
            await work.run(may.wait, "heavy")
        with pytest.raises(TimedOutError):
            await work.run(may.wait, "heavy")  # waits behind its own
        others = [await work.run(partial(int, n), "other") for n in range(3)]
        may.set()
        while work.under_way:
            await asyncio.sleep(0.01)
        return [*others, await work.run(partial(int, 7), "heavy")]

    assert asyncio.run(ask()) == [0, 1, 2, 7]
    work.close()


def test_a_call_knows_how_long_its_answer_is_waited_for() -> None:
    work = WorkerPool(at_once=1, waiting=4, seconds=20)
    assert 0 < (work.wait(seconds_left) or 0) < 20
    assert seconds_left() is None
    work.close()


def test_callers_take_turns_and_the_longest_queue_makes_room() -> None:
    may, done = threading.Event(), list[str]()
    work = WorkerPool(at_once=1, waiting=4, seconds=30, share=(1, 9))

    async def ask() -> list[Any]:
        first = asyncio.create_task(work.run(may.wait, "first"))
        await asyncio.sleep(0)
        many = [asyncio.create_task(work.run(partial(done.append, "greedy"), "greedy")) for _ in range(6)]
        await asyncio.sleep(0)
        few = [asyncio.create_task(work.run(partial(done.append, "modest"), "modest")) for _ in range(2)]
        await asyncio.sleep(0)
        may.set()
        await first
        return await asyncio.gather(*many, *few, return_exceptions=True)

    ended = asyncio.run(ask())

    assert [type(each) for each in ended] == [type(None)] * 2 + [BusyError] * 4 + [type(None)] * 2
    assert done == ["greedy", "modest", "greedy", "modest"]
    work.close()


# -- logs and metrics ----------------------------------------------------------------------------------


def test_every_response_has_an_id_the_callers_own_where_it_is_one(address: str) -> None:
    own = http_get(f"{address}/healthz", headers={"X-Request-ID": "abc-123"})
    odd = http_get(f"{address}/v1/nothing", headers={"X-Request-ID": "a b\tc"})
    none = post(address, "search", {})

    assert own.headers["x-request-id"] == "abc-123"
    assert odd.headers["x-request-id"] != "a b\tc"
    assert len(none.headers["x-request-id"]) == 32
    assert own.headers["x-content-type-options"] == "nosniff"


def test_requests_are_counted_by_route_and_status_and_unknown_paths_as_one(session: Session) -> None:
    with served(session) as address:
        post(address, "search", {"query": "tokens"})
        post(address, "search", {})
        for path in ("/a", "/b", "/v1/c"):
            http_get(address + path)
        told = http_get(f"{address}/metrics").text

    assert 'findingaid_requests_total{route="/v1/search",status="200"} 1.0' in told
    assert 'findingaid_requests_total{route="/v1/search",status="422"} 1.0' in told
    assert 'findingaid_requests_total{route="other",status="404"} 3.0' in told
    assert 'findingaid_request_seconds_count{route="/v1/search"} 2.0' in told
    assert "findingaid_calls 0.0" in told


@pytest.mark.parametrize(
    "fault", [faults.unauthorized(), faults.insufficient_quota(), faults.server_error()], ids=lambda f: f.name
)
def test_an_embedder_that_fails_is_a_failure_of_the_server_and_asked_again(
    tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer() as endpoint:
        embedder = OpenAIEmbedder("m", base_url=endpoint.base_url, retries=0)
        corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
        aid = FindingAid(Store(str(tmp_path / "index")), embedder, {"open": corpus})
        aid.index()
        endpoint.when(lambda _: True, fault)
        with served(Session.of(aid)) as address:
            failed = [post(address, "search", {"query": "ledger", "mode": "dense"}) for _ in range(3)]
            lexical = post(address, "search", {"query": "ledger", "mode": "lexical"})
            endpoint.recover()
            monkeypatch.setattr("findingaid.llm.rate_limits.monotonic", lambda: time.monotonic() + DOWN_SECONDS)
            recovered = post(address, "search", {"query": "ledger", "mode": "dense"})

    assert {(response.status_code, kind(response)) for response in failed} == {(502, "embed")}
    assert lexical.status_code == 200
    assert recovered.status_code == 200


def test_an_error_that_is_not_findingaids_tells_nothing(tmp_path: Path) -> None:
    class Broken(HashEmbedder):
        @property
        def id(self) -> str:
            return super().id

        def embed_query(self, text: str) -> Any:
            if "break" in text:
                raise RuntimeError("the key is 12345")
            return super().embed_query(text)

    corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), Broken(), {"open": corpus})
    aid.index()
    with served(Session.of(aid)) as address:
        response = post(address, "search", {"query": "break", "mode": "dense"})

    assert response.status_code == 500
    assert response.json()["error"] == {
        "kind": "internal",
        "message": "internal error: see the log of the server",
        "see": "docs/serving.md#errors",
    }


def test_the_document_describes_every_capability_and_what_it_answers(session: Session, address: str) -> None:
    described = http_get(f"{address}/openapi.json").json()
    capabilities = session.capabilities

    assert described == openapi_document(capabilities.values(), locked=False)
    assert set(described["paths"]) == {f"/v1/{name}" for name in capabilities}
    assert {n for n, c in capabilities.items() if is_simple(c)} == {
        "show", "neighbours", "why", "impact", "corpora", "browse", "status",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("search", {"query": "tokens", "explain": True, "use_summaries": True, "route": "boost"}),
        ("answer", {"query": "when do auth tokens expire"}),
        ("context", {"query": "tokens", "budget_tokens": 60, "form": "messages"}),
        ("context", {"query": "tokens", "budget_tokens": 300}),
        ("show", {"id": "auth.md"}),
        ("context", {"query": "tokens", "budget_tokens": 300, "details": True}),
        ("show", {"id": "auth.md", "level": "records"}),
        ("show", {"id": "auth.md", "level": "body"}),
        ("neighbours", {"id": "auth.md"}),
        ("neighbours", {}),
        ("why", {"id": "auth.md"}),
        ("impact", {"id": "auth.md"}),
        ("corpora", {}),
        ("browse", {}),
        ("status", {}),
    ],
)
def test_what_is_answered_has_the_shape_that_is_described(session: Session, name: str, given: dict[str, Any]) -> None:
    schema = session.capabilities[name].adapter.json_schema(mode="serialization")
    answer = session.call(name, given)

    jsonschema_rs.validate(_closed(schema), answer)
    assert any(answer.values())


def _closed(schema: Any) -> Any:
    """A schema that takes nothing it does not name."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    return closed | {"additionalProperties": False} if "properties" in schema and "anyOf" not in schema else closed


def test_hits_and_texts_say_by_post_and_get_whether_their_source_changed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(text_about("ledger"))
    os.utime(tmp_path / "docs" / "a.md", (1_700_000_000, 1_700_000_000))
    corpora = {"open": Corpus("open", Files(tmp_path / "docs"), Chunked())}
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), corpora)
    aid.index()
    with served(Session.of(aid)) as address:
        (tmp_path / "docs" / "a.md").write_text("# Another")
        found = post(address, "search", {"query": "ledger", "fresh": True}).json()
        shown = http_get(f"{address}/v1/show", params={"id": "a.md", "fresh": "true"}).json()
        verified = http_get(f"{address}/v1/show", params={"id": "a.md", "fresh": "verify"}).json()
        wrong = post(address, "search", {"query": "ledger", "fresh": "now"})

    assert {hit["fresh"] for hit in found["hits"]} == {"changed"}
    assert 0 < found["fresh_seconds"] < 60
    assert (shown["fresh"], verified["fresh"]) == ("changed", "changed")
    assert shown["fresh_note"].startswith("since ")
    assert str(tmp_path) not in json.dumps([found, shown])
    assert wrong.status_code == 422
