"""Synopses by the batch API: the real client against the loopback server, in processes that are killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from findingaid.errors import SynthesisError
from findingaid.llm.batch_api import BatchClient, BatchJobInput, BatchJobState
from findingaid.model import Outcome, SynthesizerInput
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import OpenAIServer, Request, faults
from tests.support.programs import run_program

KEY = "sk-a-secret-key"

DEATHS = [(step, when) for step in ("Files", "Batches") for when in ("before", "after")]

# Submits once for each death, in a process of its own that dies right before or after the step.
PARENT = """
import os, signal, sys
from openai.resources import Batches, Files
from tests.llm.test_batch_api import DEATHS, batches_at, keyed, only

def dying(kind, die_at, before):
    method = kind.create
    def create(*arguments, **named):
        if die_at == kind.__name__ and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*arguments, **named)
        if die_at == kind.__name__:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    kind.create = create

for number, (die_at, when) in enumerate(DEATHS, 1):
    if not (child := os.fork()):
        dying(Files, die_at, when == "before")
        dying(Batches, die_at, when == "before")
        batches = batches_at(sys.argv[1])
        batches.submit(only(batches, number))
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


def synthesizer_at(base_url: str, **parameters: Any) -> OpenAISynthesizer:
    return OpenAISynthesizer("test-model", base_url, KEY, timeout=5.0, **parameters)


def batches_at(base_url: str, **parameters: Any) -> BatchClient:
    return synthesizer_at(base_url, **parameters).batches()


def keyed(count: int) -> list[tuple[str, SynthesizerInput]]:
    return [(f"key{i:03d}", SynthesizerInput(f"{i}.md", f"This is text number {i}.")) for i in range(count)]


@pytest.fixture
def batches(server: OpenAIServer) -> BatchClient:
    return batches_at(server.base_url)


def only(batches: BatchClient, count: int) -> BatchJobInput:
    (batch,) = batches.inputs(keyed(count))
    return batch


def ended(batches: BatchClient, batch_id: str, batch: BatchJobInput) -> BatchJobState:
    for _ in range(10):
        if (state := batches.poll(batch_id, batch.keys)).ended:
            return state
        assert state.results == {}
    raise AssertionError(state)


def paths(server: OpenAIServer, method: str) -> list[str]:
    return [request.path for request in server.requests if request.method == method]


def test_a_batch_gives_what_single_requests_give(server: OpenAIServer, batches: BatchClient) -> None:
    batch = only(batches, 5)

    state = ended(batches, batches.submit(batch), batch)

    assert (state.status, state.total, state.completed, state.failed) == ("completed", 5, 5, 0)
    single = dict(synthesizer_at(server.base_url).synthesize_all([shown for _, shown in keyed(5)]))
    assert state.results == {key: single[i] for i, key in enumerate(batch.keys)}
    assert all(synopsis.usage.calls == 1 for synopsis in state.results.values())


def test_a_line_is_the_request_that_would_be_sent_alone(server: OpenAIServer, batches: BatchClient) -> None:
    synthesizer_at(server.base_url).synthesize("This is text number 0.", {})

    line = json.loads(only(batches, 1).content)

    assert line == {
        "custom_id": "key000",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": server.requests[0].json,
    }


def test_batches_keep_to_the_limits_of_the_endpoint() -> None:
    batches = OpenAISynthesizer("m").batches()
    by_count = list(replace(batches, most_requests=4).inputs(keyed(10)))
    line = len(by_count[0].content) // 4
    by_size = list(replace(batches, most_bytes=3 * line + 1).inputs(keyed(10)))

    assert [len(batch.keys) for batch in by_count] == [4, 4, 2]
    assert [len(batch.keys) for batch in by_size] == [3, 3, 3, 1]
    assert b"".join(batch.content for batch in by_count) == b"".join(batch.content for batch in by_size)
    assert list(batches.inputs([])) == []


def test_a_text_that_takes_several_calls_is_not_for_a_batch() -> None:
    batches = OpenAISynthesizer("m", context_tokens=2_000).batches()

    assert [batches.takes(text) for text in ("A text.", " ", "word " * 2_000)] == [True, False, False]


def test_one_request_that_fails_fails_alone(server: OpenAIServer, batches: BatchClient) -> None:
    server.when(lambda request: "number 1" in _content(request), faults.context_length_exceeded())
    server.when(lambda request: "number 2" in _content(request), faults.refusal())
    batch = only(batches, 4)

    results = ended(batches, batches.submit(batch), batch).results

    assert [results[key].kind for key in batch.keys] == ["", "other", "refused", ""]
    assert "lower context_tokens" in results["key001"].message
    assert results["key002"].usage.calls == 1


def _content(request: Request) -> str:
    return request.content if request.path.endswith("completions") and request.method == "POST" else ""


def half_an_emoji(line: dict[str, Any]) -> None:
    line["response"]["body"]["choices"][0]["message"]["content"] = "\ud83d"


def a_text_for_its_response(line: dict[str, Any]) -> None:
    line["response"] = "failed"


def no_status(line: dict[str, Any]) -> None:
    line["response"]["status_code"] = None


def no_key(line: dict[str, Any]) -> None:
    del line["custom_id"]


def words_for_its_error(line: dict[str, Any]) -> None:
    line |= {"response": None, "error": "failed"}


@pytest.mark.parametrize("broken", [half_an_emoji, a_text_for_its_response, no_status, no_key, words_for_its_error])
def test_a_line_of_results_that_is_broken_fails_alone(
    server: OpenAIServer, batches: BatchClient, broken: Callable[[dict[str, Any]], None]
) -> None:
    batch = only(batches, 3)
    batch_id = batches.submit(batch)
    ended(batches, batch_id, batch)
    output = batches._client.batches.retrieve(batch_id).output_file_id
    assert output
    lines = [json.loads(line) for line in server.files.contents[output].splitlines()]
    key = lines[0]["custom_id"]
    broken(lines[0])
    server.files.contents[output] = b"\n".join([b"[]", b"{", *(json.dumps(line).encode() for line in lines)])

    results = batches.poll(batch_id, batch.keys).results

    assert {i for i, synopsis in results.items() if synopsis.outcome is Outcome.FAILED} == {key}
    assert results[key].message


def test_an_answer_outlives_a_failure_under_its_key(server: OpenAIServer, batches: BatchClient) -> None:
    batch = only(batches, 1)
    batch_id = batches.submit(batch)
    before = ended(batches, batch_id, batch).results
    output = batches._client.batches.retrieve(batch_id).output_file_id
    assert output
    server.files.contents[output] += b'\n{"custom_id": "key000", "response": {"status_code": 500, "body": null}}'

    assert batches.poll(batch_id, batch.keys).results == before


def test_what_an_expired_batch_has_is_kept(server: OpenAIServer, batches: BatchClient) -> None:
    server.batch_end, server.batch_answers = "expired", 2
    batch = only(batches, 4)

    state = ended(batches, batches.submit(batch), batch)

    assert state.status == "expired"
    assert [state.results[key].kind for key in batch.keys] == ["", "", "unavailable", "unavailable"]
    assert state.results["key003"].message.startswith("not tried: batch_expired: ")


def test_what_a_cancelled_batch_has_is_kept(server: OpenAIServer, batches: BatchClient) -> None:
    server.batch_answers = 1
    batch = only(batches, 3)
    batch_id = batches.submit(batch)

    batches.cancel(batch_id)
    state = ended(batches, batch_id, batch)

    assert state.status == "cancelled"
    assert [state.results[key].outcome for key in batch.keys] == [Outcome.OK, Outcome.FAILED, Outcome.FAILED]
    assert state.results["key002"].message == f"not tried: the batch {batch_id} is cancelled"


def test_a_batch_that_is_refused_says_why_and_may_be_sent_again(server: OpenAIServer, batches: BatchClient) -> None:
    server.batch_end = "failed"
    batch = only(batches, 2)
    first = batches.submit(batch)

    state = ended(batches, first, batch)

    assert state.status == "failed"
    assert "token_limit_exceeded" in state.message
    assert {synopsis.kind for synopsis in state.results.values()} == {"other"}
    again = batches.submit(batch)
    assert again != first
    assert batches.submit(batch) == again
    assert batches.find(batches.tag(batch.keys)) == again


def test_a_batch_that_was_taken_in_has_no_results_any_more(server: OpenAIServer, batches: BatchClient) -> None:
    batch = only(batches, 2)
    batch_id = batches.submit(batch)
    ended(batches, batch_id, batch)

    batches.clean(batch_id)

    state = batches.poll(batch_id, batch.keys)
    assert state.ended
    assert {synopsis.kind for synopsis in state.results.values()} == {"unavailable"}


def test_a_batch_that_the_endpoint_does_not_know_is_neither_under_way_nor_ended(batches: BatchClient) -> None:
    state = batches.poll("batch_gone", ["key"])

    assert (state.known, state.ended, state.results) == (False, False, {})


def test_the_same_batch_is_submitted_once_and_another_one_is_another(
    server: OpenAIServer, batches: BatchClient
) -> None:
    first, again = batches.submit(only(batches, 3)), batches.submit(only(batches_at(server.base_url), 3))
    other = batches.submit(only(batches, 2))

    assert first == again != other
    assert len(server.batches.objects) == 2


def test_the_tag_is_of_the_keys_and_of_who_is_asked() -> None:
    batches = batches_at("http://127.0.0.1:1/v1")

    assert batches.tag(["a", "b"]) == batches_at("http://127.0.0.1:2/v1").tag(["b", "a"])
    assert batches.tag(["a", "b"]) != batches.tag(["a"])
    assert batches.tag(["a"]) != batches_at("http://127.0.0.1:1/v1", seed=1).tag(["a"])


def test_a_batch_is_found_behind_many_others(server: OpenAIServer, batches: BatchClient) -> None:
    batch = only(batches, 1)
    batch_id = batches.submit(batch)
    (file_id,) = server.files.objects
    for _ in range(250):
        batches._client.batches.create(input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h")

    assert batches.find(batches.tag(batch.keys)) == batch_id
    assert batches.find("another") is None


def test_a_process_killed_while_it_submits_leaves_one_batch_when_done_again(
    server: OpenAIServer, batches: BatchClient
) -> None:
    killed = run_program(PARENT, server.base_url)
    assert killed.stdout.split() == [str(int(signal.SIGKILL))] * len(DEATHS), killed.stderr

    for number in range(1, len(DEATHS) + 1):
        batch = only(batches, number)
        batch_id = batches.submit(batch)
        assert set(ended(batches, batch_id, batch).results) == set(batch.keys)

    assert len(server.batches.objects) == paths(server, "POST").count("/v1/batches") == len(DEATHS)
    assert len(server.files.objects) == 2 * len(DEATHS)  # an input and an output


def test_a_creation_that_is_not_confirmed_is_looked_for_and_not_repeated(server: OpenAIServer) -> None:
    batches = batches_at(server.base_url)
    reply = server.batches.reply
    created: list[str] = []

    def losing(request: Request, *rest: Any) -> Any:
        answer = reply(request, *rest)
        if request.method == "POST" and not created:
            created.append(json.loads(answer.body)["id"])
            return faults.cut().reply({"id": "lost"})
        return answer

    server.batches.reply = losing  # type: ignore[method-assign]  # a batch is made, and the answer lost

    assert [batches.submit(only(batches, 2))] == created
    assert list(server.batches.objects) == created


def test_errors_are_plain_and_hold_no_key(server: OpenAIServer, batches: BatchClient) -> None:
    server.when(lambda _: True, faults.unsupported(KEY))

    for call in (
        lambda: batches.find("tag"),
        lambda: batches.submit(only(batches, 1)),
        lambda: batches.poll("batch_1"),
    ):
        with pytest.raises(SynthesisError) as raised:
            call()
        assert "Unsupported parameter" in str(raised.value)
        assert KEY not in str(raised.value)


def test_cleaning_leaves_no_text_at_the_endpoint(server: OpenAIServer, batches: BatchClient) -> None:
    server.when(lambda request: "number 1" in _content(request), faults.context_length_exceeded())
    batch = only(batches, 2)
    batch_id = batches.submit(batch)
    ended(batches, batch_id, batch)
    assert len(server.files.objects) == 3

    batches.clean(batch_id)
    batches.clean(batch_id)

    assert server.files.objects == {}
