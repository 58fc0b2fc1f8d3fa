"""Guarantees of MCP and JSON lines to agents and programs, besides the answers themselves."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import orjson
import pytest
from mcp import MCPError

from findingaid import Corpus, FindingAid, QueryError
from findingaid.config.settings import ServeSettings
from findingaid.model import Raw
from findingaid.query.search.filters.syntax import COMPARED, FUNCTIONS
from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.errors import STATUS, kind_of
from findingaid.serve.jsonl import answer_requests
from findingaid.serve.mcp import tool_of
from findingaid.serve.openapi import openapi_document
from findingaid.serve.profiles import AGENT, capabilities_of
from findingaid.serve.session import Session
from findingaid.serve.truncation import truncate, without_empty
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.claude import ClaudeSession
from findingaid.testing import HashEmbedder, MemorySource
from tests.conftest import Cli, error_of, text_about
from tests.paths import ROOT
from tests.support.serving import http_post, indexed, mcp_client, post_mcp, served

SMALL = 430
"""Tokens of a result, at 3.5 bytes each."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return Session.of(indexed(tmp_path_factory.mktemp("agents"), "open", "hidden"), ["open"], actor="ann")


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    with served(session, mcp=True, profile="full", max_tokens=SMALL) as address:
        yield address


def asked(address: str, *questions: tuple[str, Any]) -> list[Any]:
    """Return the responses to the SDK's own client by method name, including errors."""

    async def ask() -> list[Any]:
        async with mcp_client(address) as client:
            return [await answered(getattr(client, name)(*arguments)) for name, arguments in questions]

    return anyio.run(ask)


async def answered(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except MCPError as error:
        return error


# -- MCP -----------------------------------------------------------------------------------------------


def test_tools_are_the_capabilities_with_their_shapes_and_whether_they_only_read(
    session: Session, address: str
) -> None:
    (listed,) = asked(address, ("list_tools", ()))
    tools = {tool.name: tool for tool in listed.tools}

    assert tools.keys() == session.capabilities.keys()
    served = replace(session, served=capabilities_of(ServeSettings(profile="full", max_tokens=SMALL)))
    for name, capability in served.capabilities.items():
        assert tools[name].description == capability.description
        assert tools[name].input_schema == capability.input_schema()
        assert tools[name].output_schema["type"] == "object"
        assert tools[name].annotations.read_only_hint is (name != "propose_claim")
        assert tools[name].annotations.destructive_hint is False


def test_an_agent_finds_each_file_once(session: Session) -> None:
    asked = {"query": "tokens expire after an hour"}
    of_agents = replace(session, served=capabilities_of(ServeSettings()))

    found = [hit["artifact_id"] for hit in of_agents.call("search", asked)["hits"]]
    every = [hit["artifact_id"] for hit in session.call("search", {**asked, "k": 1_000})["hits"]]

    assert len(every) > len(set(every)) > 1
    assert found == list(dict.fromkeys(every))[: len(found)]
    within = {**asked, "where": f"artifact_id = '{found[0]}'"}
    assert len(of_agents.call("search", within)["hits"]) == 1
    assert "per_artifact=false" in AGENT["search"].description
    assert len(of_agents.call("search", {**within, "per_artifact": False})["hits"]) > 1


def test_a_result_has_room_in_a_models_context_and_says_what_was_cut(address: str) -> None:
    """The SDK's client checks each against the shape that is described."""
    search = {"query": "tokens and rows", "k": 50, "explain": True}
    found, shown, little = asked(
        address,
        ("call_tool", ("search", search)),
        ("call_tool", ("show", {"id": "auth.md", "level": "records"})),
        ("call_tool", ("search", {"query": "tokens", "k": 1})),
    )

    for result in (found, shown):
        assert not result.is_error
        assert len(result.content[0].text.encode()) <= SMALL * 3.5
    assert found.structured_content["next_cursor"]
    assert "cut to" in shown.structured_content["shortened"]
    assert "shortened" not in little.structured_content


@pytest.mark.parametrize("form", ["text", "json", "messages"])
def test_a_context_pack_keeps_its_budget_with_all_that_is_sent(session: Session, address: str, form: str) -> None:
    budgets = (90, 150, 400)
    asks = [("call_tool", ("context", {"query": "tokens", "budget_tokens": b, "form": form})) for b in budgets]

    for budget, packed in zip(budgets, asked(address, *asks), strict=True):
        pack = packed.structured_content

        sent = session.aid.embedder.count_tokens(packed.content[0].text)
        assert sent <= pack["tokens"] <= budget
        assert "expire" in str(pack["rendered"])
        assert "pieces" not in pack
    assert pack["dropped"] == {"duplicate": 2}


def test_a_budget_that_the_result_alone_exceeds_is_refused_with_the_least_that_is_not(session: Session) -> None:
    with pytest.raises(QueryError, match=r"budget_tokens must be at least \d+ as text, got 2") as raised:
        session.call("context", {"query": "tokens", "budget_tokens": 2})
    (least,) = re.findall(r"at least (\d+)", str(raised.value))

    assert session.call("context", {"query": "tokens", "budget_tokens": int(least)})["tokens"] <= int(least)


def test_a_text_of_any_length_is_read_to_its_end_by_the_calls_that_results_name(tmp_path: Path) -> None:
    text = "\n\n".join(f'# Part {n}\n\nSentence {n} says "{n}" 🚀 to the reader.' for n in range(200))
    corpus = Corpus("docs", MemorySource({"long.md": text}), Chunked(chunk_size=400, overlap=0))
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()
    read, call = "", 'show(id="long.md")'
    with served(Session.of(aid), mcp=True, profile="full", max_tokens=600) as address:
        for calls in range(100):
            (result,) = asked(address, ("call_tool", ("show", eval(call, {"show": dict}))))
            part = result.structured_content
            assert len(result.content[0].text.encode()) <= 600 * 3.5
            assert part["offset"] == len(read)
            read += part["text"]
            if calls == 0:
                assert part["outline"][1] == {"title": "Part 1", "level": 1, "offset": text.index("# Part 1\n")}
            if "next" not in part:
                break
            call = part["next"]
        hit = asked(address, ("call_tool", ("search", {"query": "sentence 150", "mode": "lexical", "k": 1})))[0]
        (found,) = hit.structured_content["hits"]
        (shown, spanned) = asked(
            address,
            ("call_tool", ("show", {"id": found["record_id"]})),
            ("call_tool", ("show", {"id": "long.md", "span": found["span"]})),
        )

    assert read == text
    assert "next_offset" not in part
    assert shown.structured_content["passage"] == found["span"]
    assert shown.structured_content["text"].startswith(found["text"][:100])
    assert spanned.structured_content["text"] == found["text"]


def test_a_note_on_cut_texts_names_a_call_that_returns_them(tmp_path: Path) -> None:
    text = "A word of many. " * 2_000
    corpus = Corpus("docs", MemorySource({"a.md": text}), Chunked(chunk_size=9_000, overlap=0))
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()
    session = Session.of(aid)

    for name, given in (("search", {"query": "word", "k": 3}), ("show", {"id": "a.md", "level": "body"})):
        cut = truncate(session.call(name, given), 850)
        (call,) = re.findall(r"show\(.*?\)", cut["shortened"])
        shown = session.call("show", eval(call, {"show": dict}))
        whole = cut["hits"][0]["text"] if name == "search" else cut["body"]
        start = len(whole) - 1 if name == "show" else shown["offset"]

        assert whole.endswith("…")
        assert shown["text"].startswith(text[start : start + 1_000])


def test_a_text_without_a_body_is_read_record_by_record(tmp_path: Path) -> None:
    turns = [{"user_prompt": "Why are rows lost?", "assistant_summary": "The lock was missing."}] * 2
    session_: dict[str, Raw] = {"s": {"session": "s", "project": "p", "turns": turns}}
    corpus = Corpus("sessions", MemorySource(session_), ClaudeSession())
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"sessions": corpus})
    aid.index()

    part = aid.read("s")
    last = aid.show("s").records[-1]

    assert [entry.title for entry in part.outline][:2] == [
        "user_prompt: Why are rows lost?",
        "assistant_summary: The lock was missing.",
    ]
    assert part.text[slice(part.outline[1].offset, None)].startswith("The lock was missing.")
    assert aid.read(last.record_id, chars=30).text == last.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"offset": 10_000}, "open/auth.md: offset 10000 is not in the text, which has 189 characters from 0"),
        ({"offset": -1}, "open/auth.md: offset -1 is not in the text, which has 189 characters from 0"),
        ({"span": [9, 3]}, "open/auth.md: span 9:3 is not in the text, which has 189 characters from 0"),
        ({"span": [1, 3], "offset": 1}, "offset and span: give only one of them"),
    ],
)
def test_a_place_that_is_not_in_a_text_is_refused(session: Session, given: Any, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        session.call("show", {"id": "auth.md", **given})

    assert str(raised.value) == message


def test_schemas_offer_only_what_the_configuration_has_a_use_for(tmp_path: Path, session: Session) -> None:
    corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
    plain = Session.of(FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"open": corpus}))
    modelled = Session.of(replace(plain.aid, answerer=cast("Any", object())))

    def offered(session: Session, name: str) -> set[str]:
        tool = set(tool_of(session.capabilities[name]).input_schema["properties"])
        schemas = openapi_document(session.capabilities.values(), False)["components"]["schemas"]
        assert set(schemas[session.capabilities[name].input.__name__]["properties"]) == tool
        return tool

    assert {"rewrite", "rerank", "select", "tiers", "use_summaries"}.isdisjoint(offered(plain, "search"))
    assert {"tiers", "use_summaries", "summary_top_k"} <= offered(session, "search")
    assert "llm" not in offered(plain, "answer")
    assert "llm" in offered(modelled, "answer")
    assert "summarizer" not in offered(plain, "context")


def test_results_for_agents_have_no_empty_fields(address: str) -> None:
    (found,) = asked(address, ("call_tool", ("search", {"query": "tokens", "k": 1})))
    (none,) = asked(address, ("call_tool", ("search", {"query": "zzz", "mode": "lexical"})))
    (hit,) = found.structured_content["hits"]

    assert {"route", "seed", "ranks", "parts"}.isdisjoint(hit)
    assert hit["depth"] == 0
    assert none.structured_content == {"hits": [], "queries": ["zzz"]}


def test_an_error_is_a_result_that_a_model_can_read(address: str) -> None:
    failed, unknown = asked(address, ("call_tool", ("show", {"id": "nope"})), ("call_tool", ("nope", {})))

    assert failed.is_error
    assert failed.content[0].text.startswith("not_found: no published artifact or record 'nope'")
    assert unknown.is_error
    assert unknown.structured_content["error"]["kind"] == "unknown_capability"


def test_artifacts_are_resources_and_those_of_other_corpora_are_not(address: str) -> None:
    listed, templates, read = asked(
        address,
        ("list_resources", ()),
        ("list_resource_templates", ()),
        ("read_resource", ("findingaid://open/ledger.md",)),
    )

    artifacts = ["findingaid://open/auth.md", "findingaid://open/ledger.md"]
    assert [r.uri for r in listed.resources] == ["findingaid://published", *artifacts]
    assert [t.uri_template for t in templates.resource_templates] == ["findingaid://{corpus}/{artifact_id}"]
    assert read.contents[0].text.startswith("# Ledger\n")
    for uri in ("findingaid://hidden/vault.md", "findingaid://open/vault.md", "file:///etc/passwd", "findingaid://x"):
        (refused,) = asked(address, ("read_resource", (uri,)))
        assert isinstance(refused, MCPError)
        assert "Zanzibar" not in str(refused)


@pytest.mark.parametrize("cursor", ["x", "9" * 5_000, "²", "100", "[]", "null", '["open"]'])
def test_a_cursor_that_was_not_given_is_refused(address: str, cursor: str) -> None:
    refused, ended = (
        post_mcp(address, {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"cursor": given}})
        for given in (cursor, '["open", "z"]')
    )

    assert refused["error"]["message"] == "unknown cursor"
    assert ended["result"]["resources"] == []


def test_the_guards_of_http_stand_before_mcp_too(session: Session) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with served(session, token="secret", mcp=True, body_bytes=1_000) as address:
        unknown = http_post(f"{address}/mcp", json=body)
        large = http_post(f"{address}/mcp", json={**body, "params": {"x": "x" * 2_000}})
        page = http_post(f"{address}/mcp", json=body, headers={"Origin": "http://evil.example"})

    assert [unknown.status_code, large.status_code, page.status_code] == [401, 413, 403]


def test_sizing_cuts_texts_before_lists_and_leaves_what_fits_alone() -> None:
    result = {"hits": [{"text": "x" * 5_000, "span": [0, 5_000]}, *({"text": "y", "span": None} for _ in range(9))]}

    assert truncate(result, 10_000) == result
    assert without_empty(result) == {"hits": [result["hits"][0], *[{"text": "y"}] * 9]}
    cut = truncate(result, 570)
    assert len(cut["hits"]) == 10
    assert cut["hits"][0]["text"].endswith("x…")
    named = {"artifact_id": "folder/" * 40, "url": f"file:///{'folder/' * 40}", "text": "x" * 5_000}
    shortest = truncate({"hits": [named]}, 250)["hits"][0]
    assert shortest == {**named, "text": "x" * 119 + "…"}
    fewer = truncate({"hits": [{"text": f"{i}"} for i in range(1_000)]}, 286)
    assert len(json.dumps(fewer)) < 1_200
    assert fewer["hits"][0] == {"text": "0"}
    assert fewer["shortened"].endswith("lists are cut after their first entries: ask for less")


# -- lines of JSON -------------------------------------------------------------------------------------


def spoken(session: Session, *lines: bytes, **settings: Any) -> list[Any]:
    output = io.BytesIO()
    answer_requests(session, ServeSettings(**settings), io.BytesIO(b"\n".join(lines)), output)
    return [orjson.loads(line) for line in output.getvalue().splitlines()]


def test_each_line_is_answered_in_order_with_its_own_id(session: Session) -> None:
    ids: list[Any] = [1, "two", None, 2.5, ["a"], {"b": 1}, True]
    lines = [orjson.dumps({"id": i, "method": "show", "params": {"id": "auth.md"}}) for i in ids]

    answers = spoken(session, *lines)

    assert [answer["id"] for answer in answers] == ids
    assert {answer["result"]["artifact_id"] for answer in answers} == {"auth.md"}


def test_a_bad_line_is_answered_and_ends_nothing(session: Session) -> None:
    good = b'{"id": 9, "method": "status"}'
    bad = [
        b"{", b"garbage", b"\xff\xfe", b"[]", b"3", b"null", b'{"id": 1}', b'{"id": 1, "method": 3}',
        b'{"id": 1, "method": "nope"}', b'{"id": 1, "method": "show"}', b'{"id": 1, "method": "show", "params": []}',
        b'{"id": 1, "method": "status", "extra": 1}', b'{"id": 1, "method": "show", "params": {"id": "\\ud800"}}',
        b"x" * 5_000, b"[" * 1_900, b'{"id": %s, "method": "status"}' % (b"[" * 300 + b"]" * 300),
    ]  # fmt: skip

    for line in bad:
        first, second = spoken(session, line, b"", b"   ", good, body_bytes=2_000)

        assert first["error"].keys() == {"kind", "message", "see"}
        assert first["error"]["kind"] != "internal"
        assert second["id"] == 9
        assert second["result"]["corpora"]


def test_a_panic_of_what_is_called_ends_nothing(tmp_path: Path) -> None:
    """Panics in Lance are not instances of Exception."""

    class Panic(BaseException):
        pass

    class Panicking(HashEmbedder):
        @property
        def id(self) -> str:
            return super().id

        def embed_query(self, text: str) -> Any:
            if text == "panic":
                raise Panic("the key is 12345")
            return super().embed_query(text)

    corpus = Corpus("open", MemorySource({"a.md": text_about("ledger")}), Chunked())
    aid = FindingAid(Store(str(tmp_path / "index")), Panicking(), {"open": corpus})
    aid.index()

    first, second = spoken(
        Session.of(aid),
        b'{"id": 1, "method": "search", "params": {"query": "panic"}}',
        b'{"id": 2, "method": "search", "params": {"query": "ledger", "mode": "lexical"}}',
    )

    assert first["error"]["kind"] == "internal"
    assert first["error"]["message"] == "internal error: see the log of the server"
    assert second["result"]["hits"]


def test_an_error_is_one_line_that_is_not_long(session: Session) -> None:
    params = {"id": "two\nlines " + "x" * 900_000}

    for method in ("why", "show", "impact"):
        (answer,) = spoken(session, orjson.dumps({"method": method, "params": params}))

        assert answer["error"]["kind"] == "not_found"
        assert len(answer["error"]["message"]) < 2_100
        assert "\n" not in answer["error"]["message"]


def test_no_id_is_nobodys(session: Session) -> None:
    """Not everything's that has none of its own."""
    for method in ("show", "why", "impact"):
        (answer,) = spoken(session, orjson.dumps({"method": method, "params": {"id": ""}}))

        assert answer["error"]["kind"] == "not_found"


def test_the_last_line_needs_no_end_and_no_input_no_answer(session: Session) -> None:
    assert spoken(session) == []
    assert len(spoken(session, b'{"method": "status"}')) == 1


@pytest.mark.slow
def test_an_interrupt_ends_a_server_on_standard_streams_that_waits_for_its_input(cli: Cli) -> None:
    """And not only when the next line comes."""
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    command = [sys.executable, "-m", "findingaid", "serve", "mcp", "--config", str(cli.config)]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        assert server.stderr
        server.stdin.write(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + b"\n")
        server.stdin.flush()
        assert b'"id":1' in server.stdout.readline()

        server.send_signal(signal.SIGINT)
        try:
            code = server.wait(30)
        finally:
            server.kill()

        assert code == -signal.SIGINT
        assert b"Traceback" not in server.stderr.read()


@pytest.mark.slow
def test_the_command_answers_lines_on_its_standard_streams_and_ends_with_them(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0
    lines = b'{"id": 1, "method": "search", "params": {"query": "ledger", "k": 1}}\nnot json\n'

    done = subprocess.run(
        [sys.executable, "-m", "findingaid", "serve", "jsonl", "--config", str(cli.config)],
        input=lines,
        capture_output=True,
        cwd=Path.cwd(),
        check=True,
    )

    first, second = map(orjson.loads, done.stdout.splitlines())
    assert first["result"]["hits"][0]["artifact_id"] == "a.md"
    assert second["error"]["kind"] == "input"
    assert done.stderr == b""


@pytest.mark.parametrize("command", ["http", "mcp", "jsonl"])
def test_the_help_of_each_server_names_every_capability(cli: Cli, command: str, session: Session) -> None:
    told = " ".join(cli.run("serve", command, "--help").stdout.split())

    for name, capability in session.capabilities.items():
        assert f"{name} {capability.description[:20]}" in told


def test_the_pages_on_serving_name_everything_that_is_served_and_set() -> None:
    page = "".join((ROOT / "docs" / name).read_text() for name in ("serving.md", "mcp.md"))
    kinds = {kind_of(error) for error in STATUS} | {
        "torn",
        "internal",
        "unauthorized",
        "forbidden",
        "method",
        "too_long",
    }

    for name in (*(c.name for c in CAPABILITIES), *ServeSettings.model_fields, *kinds, *COMPARED, *FUNCTIONS):
        assert name in page, name


def test_servers_are_limited_by_the_configuration(cli: Cli) -> None:
    cli.write("a.md", text_about("ledger"))
    cli.settings["serve"] = {"corpora": ["nowhere"]}

    failed = cli.run("serve", "http")

    assert failed.exit_code == 1
    assert error_of(failed) == "unknown corpus 'nowhere'. Known: docs"
    cli.settings["serve"] = {"host": "0.0.0.0"}
    assert "set a token (serve.token_env names its variable)" in cli.run("serve", "http").stderr
    cli.settings["serve"] = {"hosts": "x"}
    assert "serve.hosts" in cli.run("serve", "http").stderr
