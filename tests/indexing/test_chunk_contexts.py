"""A sentence by the model about each chunk is embedded and searched with it, and paid once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from findingaid import FindingAid
from findingaid.config.settings import SynopsisSettings
from findingaid.errors import ConfigError
from findingaid.indexing.budget import Budget
from findingaid.reports import BatchReport
from findingaid.strategies import Chunked
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, Request, faults
from tests.conftest import ReadyMade

Make = Callable[..., FindingAid]
MARK = "The chunk of this document:"
CHUNKS = 3
"""Chunks of the two documents of the source."""

TEXT = "# Ledger\n\nIt is exact and short. " + "It balances every day. " * 8


def is_context(request: Request) -> bool:
    return MARK in request.content


def answer(request: Request) -> str:
    """Answer with a synopsis, or with a sentence that names the beginning of the chunk."""
    if not is_context(request):
        return f"A synopsis of {len(request.content)} characters."
    return "Zebras about " + request.content.partition(MARK)[2].split(">")[1].split()[0]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(answer=answer, schemas=True) as started:
        yield started


@pytest.fixture
def source() -> MemorySource:
    return MemorySource({"a.md": TEXT, "b.md": "# Reader\n\nIt reads."})


@pytest.fixture
def make(make_aid: Make, server: OpenAIServer, source: MemorySource) -> Make:
    def made(**changed: Any) -> FindingAid:
        writer = OpenAISynthesizer("m", base_url=server.base_url, retries=0)
        return make_aid(synthesizer=writer, synopsis={"context": "chunk"}, **changed)

    return made


def docs(report: Any) -> BatchReport:
    found: BatchReport = report.corpora["docs"]
    return found


def contexts_of(server: OpenAIServer) -> int:
    return sum(map(is_context, server.completions))


def test_chunks_are_searched_by_their_contexts_and_shown_without(make: Make, server: OpenAIServer) -> None:
    aid = make()
    plan, report = docs(aid.plan()), docs(aid.index())
    hits = aid.search("zebras", mode="lexical")

    assert {hit.artifact_id for hit in hits} == {"a.md", "b.md"}
    assert len(hits) == contexts_of(server) == CHUNKS
    assert all("Zebras" not in hit.text for hit in hits)
    assert (plan.calls, plan.records) == (report.calls, report.records)
    assert report.calls.synthesize == plan.usage.calls == CHUNKS + 2
    assert aid.verify() == []
    assert all(result.passed for result in aid.check())

    asked = [r.json["messages"] for r in server.completions if is_context(r) and "balances" in r.content]
    before = [user.partition(MARK)[0] for _, user in ([m["content"] for m in messages] for messages in asked)]
    assert len(before) == CHUNKS - 1
    assert len(set(before)) == 1  # the document comes first, so that an endpoint may cache it
    assert asked[0][0] == asked[1][0]


def test_a_context_is_paid_once(make: Make, source: MemorySource, ready_made: ReadyMade) -> None:
    ready_made("chunk contexts", lambda: make(embedder=CountingEmbedder()).index())
    make().purge()
    source.payloads["c.md"] = source.payloads["b.md"]
    copied = docs(make().index())
    source.payloads["b.md"] += " And writes."
    edited = docs(make().index())

    assert copied.calls.synthesize == 0
    assert edited.calls.synthesize == 2


def test_a_context_that_was_shortened_is_paid_once(make: Make, server: OpenAIServer) -> None:
    class Short(CountingEmbedder):
        max_tokens = 16

        def count_tokens(self, text: str) -> int:
            return len(text.split())

    server.answer = lambda request: f"{answer(request)} {'and more of it ' * 5}"
    aid = make(embedder=Short())
    aid.index()
    paid = len(server.completions)
    contexts = aid.store.rows("records", ["text"], "shown IS NOT NULL")["text"].to_pylist()

    aid.purge()
    again = docs(aid.index(force=True))

    assert {len(text.partition("\n\n")[0].split()) for text in contexts} == {4}
    assert again.calls.synthesize == 0
    assert len(server.completions) == paid == CHUNKS + 2


def test_contexts_over_the_budget_wait_for_the_next_run(make: Make, server: OpenAIServer) -> None:
    first = docs(make(budget=Budget(calls=3)).index())
    second = docs(make().index())

    assert first.pending
    assert len(server.completions) == CHUNKS + 2
    assert not second.pending
    assert len(make().search("zebras", mode="lexical")) == CHUNKS


def test_a_context_that_fails_is_named_and_asked_for_again_alone(make: Make, server: OpenAIServer) -> None:
    server.when(lambda r: is_context(r) and "reads" in r.content, faults.server_error(400))
    failed = docs(make().index())
    found = make().search("reads", mode="lexical")
    server.recover()
    before = len(server.completions)
    second = docs(make().index())

    assert [(f.artifact_id, f.stage) for f in failed.failed] == [("b.md", "synopses")]
    assert failed.failed[0].message.startswith("context of chunk 0: ")
    assert [hit.artifact_id for hit in found] == ["b.md"]  # published by its own words
    assert not second.failed
    assert len(server.completions) == before + 1


def test_a_long_document_is_sent_as_the_part_that_the_chunk_is_in() -> None:
    writer = OpenAISynthesizer("m", base_url="http://localhost/v1", context_tokens=2_000).chunk_contexts
    document = "\n\n".join(f"Paragraph {i}. " + "Words of it. " * 40 for i in range(60))
    first, last = writer.inputs(document, ["Paragraph 1. Words", "Paragraph 59. Words"])

    assert "Paragraph 0." in first
    assert "Paragraph 0." not in last
    assert "Paragraph 59." in last
    assert writer.estimate(first).input_tokens < 2_500


def test_an_unknown_context_is_refused_in_one_line() -> None:
    with pytest.raises(ValidationError, match="expected true, false or chunk, got 'chunks'"):
        SynopsisSettings.model_validate({"context": "chunks"})
    assert SynopsisSettings.model_validate({"context": "chunk"}).context == "chunk"


def test_a_synthesizer_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="context: chunk needs a synthesizer that asks a model"):
        with_synopsis(Chunked(), context="chunk")
