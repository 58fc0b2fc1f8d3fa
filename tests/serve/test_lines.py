"""Requests that cannot be read, and inputs that are empty, of every protocol."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from findingaid import Corpus, FindingAid
from findingaid.config.settings import ServeSettings
from findingaid.serve.errors import InputError
from findingaid.serve.inputs import without_unused
from findingaid.serve.jsonl import answer_requests
from findingaid.serve.mcp import Wire, refuse_message
from findingaid.serve.session import Session
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource
from tests.support.serving import http_get, http_post, served

LINE_ENDS = "one\u2028two\u2029three\u0085four"

PARSE, INVALID = -32700, -32600


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    source = MemorySource({"a.md": f"The ferry {LINE_ENDS} leaves at nine.", "b.md": "The ferry of the north."})
    corpora = {name: Corpus(name, source, Chunked()) for name in ("docs", "more")}
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("lines") / "index")), HashEmbedder(dim=64), corpora)
    assert not list(aid.index().problems())
    return Session.of(aid)


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    with served(session, mcp=True) as address:
        yield address


def message(id_: str = "7", params: str = "{}", version: str = '"2.0"', method: str = '"ping"') -> bytes:
    return f'{{"jsonrpc": {version}, "id": {id_}, "method": {method}, "params": {params}}}'.encode()


UNREADABLE: list[tuple[bytes, int, Any]] = [
    (b'{"jsonrpc":"2.0","id":', PARSE, None),
    (b"garbage", PARSE, None),
    (b"\xff\xfe", PARSE, None),
    (message(params='{"a": "\\ud83d"}'), PARSE, 7),
    (message(params='{"a": "\\ude00\\ud83d"}'), PARSE, 7),
    (message('"\\ud83d"'), PARSE, None),
    (message().replace(b"ping", b"\xed\xa0\xbd"), PARSE, 7),
    (message().replace(b"ping", b"\xff"), PARSE, 7),
    (message('"x"', '{"a": NaN}'), PARSE, "x"),
    (message(params='{"a": -Infinity}'), PARSE, 7),
    (b"[" * 100_000, PARSE, None),
    (message(params='{"a": ' + "[" * 900 + "]" * 900 + "}"), PARSE, 7),
    (b"[" + message() + b"]", INVALID, None),
    (b"[]", INVALID, None),
    (b"3", INVALID, None),
    (b"null", INVALID, None),
    (message("null"), INVALID, None),
    (message("1.5"), INVALID, None),
    (message("true"), INVALID, None),
    (message('["a"]'), INVALID, None),
    (message(params="[1]"), INVALID, 7),
    (message(version='"1.0"'), INVALID, 7),
    (message(method="3"), INVALID, 7),
    (b'{"id": 7, "method": "ping"}', INVALID, 7),
    (b"{}", INVALID, None),
]


@pytest.mark.parametrize(("line", "code", "sent"), UNREADABLE)
def test_what_is_not_a_message_is_refused_by_the_code_of_json_rpc_with_its_id(
    line: bytes, code: int, sent: Any
) -> None:
    refused = refuse_message(line)

    assert refused
    assert (refused.error.code, refused.id) == (code, sent)
    assert "\n" not in refused.error.message
    json.loads(refused.model_dump_json())


@pytest.mark.parametrize(
    "line",
    [
        message(), message('"x"'), message("-1"), message(str(10**30)), message('"\\ud83d\\ude00"'),
        message(params='{"a": 1, "a": 2}'), message(params="null"),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', b'{"jsonrpc": "2.0", "id": 7, "result": {}}',
    ],
)  # fmt: skip
def test_what_is_a_message_is_not_refused(line: bytes) -> None:
    assert refuse_message(line) is None


def test_standard_streams_answer_each_unreadable_line_and_pass_on_the_others() -> None:
    lines = [line for line, *_ in UNREADABLE if len(line) < 2_000]
    good = [message(), b"\xef\xbb\xbf" + message("8"), message("9") + b"\r"]
    output = io.BytesIO()

    async def passed() -> list[str]:
        sent = io.BytesIO(b"\n".join([*lines, b"", b"  ", *good, b"x" * 3_000]))
        return [line async for line in Wire(sent, output, most=2_000)]

    passed_on = [json.loads(line)["id"] for line in anyio.run(passed)]
    codes = [json.loads(line)["error"]["code"] for line in output.getvalue().splitlines()]

    assert passed_on == [7, 8, 9]
    assert codes == [code for line, code, _ in UNREADABLE if line in lines] + [INVALID]


def test_an_unreadable_body_is_refused_over_http_too(address: str) -> None:
    for line, code, sent in UNREADABLE[::3]:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        refused = http_post(f"{address}/mcp", content=line, headers=headers)

        assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
        assert refused.json()["id"] == sent
    for body in (
        b'{"query": "\\ud83d"}',
        b'{"query": NaN}',
        b'{"query": "\xff"}',
        b"",
        b"[" * 5_000,
        b"\xef\xbb\xbf{}",
    ):
        refused = http_post(f"{address}/v1/search", content=body, headers={"Content-Type": "application/json"})

        assert refused.status_code == 422
        assert refused.json()["error"]["message"].startswith("the body is not JSON: ")
    for query in ("id=%ED%A0%BD", "id=%FF"):
        assert "not UTF-8" in http_get(f"{address}/v1/show?{query}").json()["error"]["message"]


def spoken(session: Session, *lines: bytes) -> list[bytes]:
    output = io.BytesIO()
    answer_requests(session, ServeSettings(), io.BytesIO(b"\n".join(lines)), output)
    return output.getvalue().splitlines()


@pytest.mark.parametrize(("sent", "returned"), [
    ("1", 1), ("null", None), ("2.5", 2.5), (str(10**30), 10**30), ('"\\ud83d"', "\ud83d"), ("NaN", None),
    ("1e999", None),
])  # fmt: skip
def test_a_line_is_answered_with_its_id_though_it_cannot_be_read(session: Session, sent: str, returned: Any) -> None:
    read = b'{"id": %s, "method": "corpora"}' % sent.encode()
    unread = b'{"id": %s, "method": "show", "params": {"id": "\\ud83d"}}' % sent.encode()

    for answer in map(json.loads, spoken(session, read, unread)):
        assert answer["id"] == returned


def test_line_ends_of_unicode_are_escaped_in_every_protocol_of_lines(session: Session, address: str) -> None:
    (line,) = spoken(session, b'{"id": 1, "method": "show", "params": {"id": "a.md", "corpus": "docs"}}')
    wire = Wire(io.BytesIO(), io.BytesIO(), most=99)
    anyio.run(wire.write, json.dumps({"text": LINE_ENDS}, ensure_ascii=False) + "\n")
    call = {"name": "show", "arguments": {"id": "a.md", "corpus": "docs"}}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream"}
    event = http_post(f"{address}/mcp", json=sent, headers=headers).text.strip().splitlines()[-1]

    assert LINE_ENDS in json.loads(line)["result"]["text"]
    assert [json.loads(each) for each in wire.output.getvalue().decode().splitlines()] == [{"text": LINE_ENDS}]  # type: ignore[attr-defined]
    assert LINE_ENDS in json.loads(event.removeprefix("data: "))["result"]["structuredContent"]["text"]


# -- inputs that are not used ------------------------------------------------------------------------------------------


def test_a_number_without_a_fraction_is_an_integer_as_in_a_json_schema(session: Session) -> None:
    """Models whose calls pass through a format with one kind of numbers send 5.0."""
    given = session.call("search", {"query": "ferry", "k": 2.0, "offset": 1.0})

    assert given == session.call("search", {"query": "ferry", "k": 2, "offset": 1})
    with pytest.raises(InputError, match=r"search\.k: input should be a valid integer"):
        session.call("search", {"query": "ferry", "k": 2.5})


def test_an_optional_input_that_is_empty_is_not_given(session: Session) -> None:
    for capability in session.served:
        for name, field in capability.input.model_fields.items():
            for empty in (None, ""):
                kept = without_unused({name: empty}, capability.input)

                assert kept == ({name: empty} if field.is_required() else {}), (capability.name, name)
    search = session.capabilities["search"].input
    assert without_unused({"corpora": [], "tiers": [None, ""], "weights": {}, "recency": {}}, search) == {}
    wrong = {"corpora": {}, "where": [], "mode": {}, "k": [], "query": []}
    assert without_unused(wrong, search) == wrong
    kept = {"query": "", "offset": 0, "explain": False, "corpora": ["docs"]}
    assert without_unused({**kept, "corpora": ["docs", "", None]}, search) == kept


def test_inputs_that_models_and_forms_fill_with_nothing_change_no_result(session: Session, address: str) -> None:
    filled = {
        name: empty
        for names, empty in {
            ("corpora", "surfaces", "tiers"): [""], ("where", "route", "cursor", "mode", "k"): "",
            ("expand", "rerank", "offset", "blend"): None, ("weights", "recency"): {},
        }.items()
        for name in names
    }  # fmt: skip
    plain = session.call("search", {"query": "ferry"})

    shown = http_get(f"{address}/v1/show?id=b.md&corpus=docs&offset=&level=&file=&fresh=&max_tokens=").json()
    listed = http_get(f"{address}/v1/corpora?corpora=").json()

    assert session.call("search", {"query": "ferry", **filled}) == plain
    assert shown["artifact_id"] == "b.md"
    assert len(listed["corpora"]) == 2


@pytest.mark.parametrize("params", [b"", b', "params": null', b', "params": {}'])
def test_a_request_without_params_may_leave_them_out_or_say_null(session: Session, params: bytes) -> None:
    (line,) = spoken(session, b'{"id": 1, "method": "corpora"%s}' % params)

    assert [each["corpus"] for each in json.loads(line)["result"]["corpora"]] == ["docs", "more"]
