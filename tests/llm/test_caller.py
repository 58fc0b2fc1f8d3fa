"""Calls of a model: results carry their usage, and every producer has its own type of result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from findingaid.claims.forms import extraction_calls, extraction_of
from findingaid.claims.openai_claims import OpenAIClaims
from findingaid.errors import SynthesisError
from findingaid.indexing.budget import Bounded, OfModel
from findingaid.model import CallResult, Outcome, Synopsis, SynthesizerInput, Usage
from findingaid.protocols import ConcurrentSynthesizer, Extraction, ModelProducer, Statement
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import OpenAIServer, faults
from findingaid.testing.faults import Fault

USED = Usage(1, 20, 5)
BROKEN = SynthesisError("no answer in time", "timeout")


class Lines:
    """An extractor without a model."""

    id = "lines-1"

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        return Extraction([Statement(line, line) for line in text.splitlines()])


def test_a_converted_result_keeps_its_usage() -> None:
    assert CallResult("3", USED).map(int) == CallResult(3, USED)


def test_an_error_in_a_conversion_becomes_the_result_and_keeps_the_usage() -> None:
    def refuse(_: str) -> int:
        raise BROKEN

    assert CallResult("3", USED).map(refuse) == CallResult(usage=USED, error=BROKEN)
    assert CallResult[str](usage=USED, error=BROKEN).map(int) == CallResult(usage=USED, error=BROKEN)


def test_the_value_of_a_failed_result_raises_its_error() -> None:
    with pytest.raises(SynthesisError, match="no answer in time"):
        CallResult[str](error=BROKEN).get()


@pytest.mark.parametrize(
    ("result", "synopsis"),
    [
        (CallResult("A text.", USED), Synopsis(Outcome.OK, "A text.", usage=USED)),
        (CallResult("", USED), Synopsis(Outcome.EMPTY, usage=USED)),
        (
            CallResult[str](usage=USED, error=BROKEN),
            Synopsis(Outcome.FAILED, kind="timeout", message="no answer in time", usage=USED),
        ),
    ],
)
def test_a_text_becomes_a_synopsis_with_its_outcome(result: CallResult[str], synopsis: Synopsis) -> None:
    assert result.to_synopsis() == synopsis


def test_several_requests_give_all_their_values_or_the_first_error(server: OpenAIServer) -> None:
    caller = OpenAISynthesizer("m", server.base_url, concurrency=1, structured=False).caller
    requests = [[{"role": "user", "content": f"Text {i}."}] for i in range(3)]

    def call() -> CallResult[list[str]]:
        return caller.connection.loop.submit(caller.call_each(requests, str)).result()

    made = call()
    server.script(None, faults.refusal())
    failed = call()

    assert made.get() == ["Text 0.", "Text 1.", "Text 2."]
    assert made.usage.calls == 3
    assert failed.error is not None
    assert (failed.error.kind, failed.usage.calls) == ("refused", 2)


def test_an_extractor_by_a_model_gives_extractions_and_is_no_synthesizer(server: OpenAIServer) -> None:
    server.answer = lambda _: {"claims": []}
    extractor = OpenAIClaims("m", server.base_url)

    (found,) = extractor.call_all(["A text."])

    assert found == (0, CallResult(Extraction([], []), found[1].usage))
    assert isinstance(extractor, ModelProducer)
    assert not isinstance(extractor, ConcurrentSynthesizer)


def test_the_calls_of_an_extractor_by_a_model_are_concurrent_and_bounded(server: OpenAIServer) -> None:
    quoted = {"text": "A text.", "quote": "A text.", "type": "fact", "confidence": 1, "entities": []}
    server.answer = lambda _: {"claims": [quoted]}
    calls = extraction_calls(OpenAIClaims("m", server.base_url))

    assert isinstance(calls, ConcurrentSynthesizer)
    assert isinstance(calls, Bounded)
    assert isinstance(calls, OfModel)
    ((_, made),) = calls.synthesize_all([SynthesizerInput("a.md", "A text.")])
    assert [statement.quote for statement in extraction_of(made.text).statements] == ["A text."]
    assert made.text == calls.synthesize("A text.", {})


def test_the_calls_of_any_other_extractor_are_made_one_by_one() -> None:
    calls = extraction_calls(Lines())

    assert not isinstance(calls, ConcurrentSynthesizer | Bounded | OfModel)
    assert [s.quote for s in extraction_of(calls.synthesize("A line.", {})).statements] == ["A line."]


@pytest.mark.parametrize(("counted", "told"), [(2_048, True), (9_000, False), (0, False)])
def test_a_server_that_cuts_prompts_off_by_its_own_count_is_named_once(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture, counted: int, told: bool
) -> None:
    server.when(lambda _: True, Fault("counted", change=lambda answer: answer["usage"].update(prompt_tokens=counted)))
    caller = OpenAISynthesizer("m", server.base_url, structured=False).caller
    long = [{"role": "user", "content": "The ferry leaves at nine. " * 1_600}]

    caplog.set_level("WARNING", "findingaid")
    assert all(caller.ask(long, str).error is None for _ in range(2))

    where = server.base_url.split("/")[2]
    warning = (
        f"m at {where} read 2,048 tokens of a prompt of 8,000 words, by its own count: if it cuts prompts off, raise"
        " its context (num_ctx of Ollama), or lower context_tokens"
    )
    assert caplog.messages == [warning] * told
