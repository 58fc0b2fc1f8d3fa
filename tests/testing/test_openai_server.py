"""The loopback server answers the real client like the real API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from findingaid.testing import Fault, OpenAIServer, Request, faults

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 5},
        "kind": {"enum": ["report", "letter"]},
        "pages": {"type": "integer", "minimum": 1},
        "authors": {"type": "array", "items": {"$ref": "#/$defs/author"}, "minItems": 2},
        "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
    },
    "$defs": {"author": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def client(server: OpenAIServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key="sk-test", max_retries=0, timeout=5)


def ask(client: openai.OpenAI, text: str = "The ledger keeps a row.", **asked: Any) -> Any:
    return client.chat.completions.create(model="any", messages=[{"role": "user", "content": text}], **asked)


def test_a_completion_is_the_first_words_of_the_content_and_is_counted(
    server: OpenAIServer, client: openai.OpenAI
) -> None:
    completion = ask(client)

    assert completion.choices[0].message.content == "The ledger keeps a row."
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (6, 6)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.content == "The ledger keeps a row."
    assert request.time > 0


def test_json_of_a_schema_is_valid_for_it(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}

    content = json.loads(ask(client, "Ledgers and rows", response_format=form).choices[0].message.content)

    author = {"name": "Ledgers and rows."}
    assert content == {"title": "Ledge", "kind": "report", "pages": 1, "authors": [author, author], "note": None}


def test_what_the_model_writes_is_for_the_test_to_say() -> None:
    def answer(request: Request) -> dict[str, str]:
        return {"shouted": request.content.upper()}

    with OpenAIServer(answer=answer) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="x")

        assert ask(client, "hello").choices[0].message.content == '{"shouted": "HELLO"}'


@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        (faults.rate_limited(2), openai.RateLimitError, 429),
        (faults.insufficient_quota(), openai.RateLimitError, 429),
        (faults.server_error(), openai.InternalServerError, 500),
        (faults.server_error(503), openai.InternalServerError, 503),
        (faults.unauthorized(), openai.AuthenticationError, 401),
        (faults.forbidden(), openai.PermissionDeniedError, 403),
        (faults.model_not_found(), openai.NotFoundError, 404),
        (faults.context_length_exceeded(), openai.BadRequestError, 400),
        (faults.unsupported("seed"), openai.BadRequestError, 400),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else "",
)
def test_an_error_is_the_clients_own(
    server: OpenAIServer, client: openai.OpenAI, fault: Fault, error: type[openai.APIStatusError], status: int
) -> None:
    server.script(fault, None)

    with pytest.raises(error) as raised:
        ask(client)

    assert raised.value.status_code == status
    assert raised.value.message.count(str((fault.error or {})["message"])) == 1
    assert ask(client).choices


def test_connections_break_hang_and_drip(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.script(faults.cut(), faults.hang(), faults.drip(0.2))

    with pytest.raises(openai.APIConnectionError):
        ask(client)
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.2))
    assert ask(client).choices[0].message.content == "The ledger keeps a row."


def test_the_clients_own_retries_are_of_one_request_alone(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.script(faults.server_error(), faults.server_error(), None)

    ask(client.with_options(max_retries=2))

    first, second, third = server.requests
    assert first.time < second.time < third.time


def test_a_rule_meets_the_requests_it_is_true_of_so_many_times(server: OpenAIServer, client: openai.OpenAI) -> None:
    server.when(lambda request: "poison" in request.content, faults.empty_content(), times=1)

    said = [ask(client, text).choices[0].message.content for text in ("well", "poison", "poison")]

    assert said == ["well.", "", "poison."]


def test_keys_and_models_are_checked_where_the_server_has_some() -> None:
    with OpenAIServer(api_key="sk-right", models=["small"]) as server:
        with pytest.raises(openai.AuthenticationError):
            ask(openai.OpenAI(base_url=server.base_url, api_key="sk-wrong"))
        client = openai.OpenAI(base_url=server.base_url, api_key="sk-right")
        with pytest.raises(openai.NotFoundError):
            ask(client)

        assert [model.id for model in client.models.list()] == ["small"]


def test_sixty_four_may_come_at_once() -> None:
    together = threading.Barrier(64)
    with OpenAIServer(delay=0.2) as server, ThreadPoolExecutor(64) as pool:
        client = openai.OpenAI(base_url=server.base_url, api_key="x")

        def one(number: int) -> str:
            together.wait()
            return str(ask(client, f"text {number}").choices[0].message.content)

        assert set(pool.map(one, range(64))) == {f"text {number}." for number in range(64)}
        assert server.most_at_once > 1


def test_files_come_back_as_they_were_sent(client: openai.OpenAI) -> None:
    content = b'{"a": "\r\n--x"}\n' * 3

    file = client.files.create(file=("input.jsonl", content), purpose="batch")

    assert client.files.content(file.id).content == content
    assert [(f.filename, f.bytes) for f in client.files.list(purpose="batch")] == [("input.jsonl", len(content))]
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(file.id)


def test_a_failed_batch_says_which_line_is_wrong(client: openai.OpenAI) -> None:
    line = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}) + "\n"
    file = client.files.create(file=("twice.jsonl", (line * 2).encode()), purpose="batch")

    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    batch = client.batches.retrieve(batch.id)

    assert batch.status == "failed"
    assert batch.errors
    assert batch.errors.data
    assert (batch.errors.data[0].code, batch.errors.data[0].line) == ("duplicate_custom_id", 2)
