"""Profiles, pages, addresses and notifications of the MCP server, as the official SDK's client sees them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import anyio
import fastmcp
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.uri_template import UriTemplate
from mcp.types import ResourceUpdatedNotification

from findingaid import Corpus, FindingAid, NotFoundError, QueryError
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.config.settings import ServeSettings
from findingaid.corpus import Claiming
from findingaid.embedding.sentence import SentenceEmbedder
from findingaid.serve import publications
from findingaid.serve.errors import InputError
from findingaid.serve.limits import WorkerPool
from findingaid.serve.mcp import INSTRUCTIONS, Mcp, tool_of
from findingaid.serve.profiles import AGENT, capabilities_of
from findingaid.serve.request_context import TRACEPARENT
from findingaid.serve.search_fetch import TEXT_CHARS
from findingaid.serve.session import Session
from findingaid.serve.truncation import count_tokens
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import HashEmbedder, MemorySource
from tests.conftest import Cli, error_of, text_about
from tests.support.serving import http_post, mcp_client, served

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

LONG = "\n\n".join(f"Sentence {n} of a long document says that tokens expire." for n in range(1_000))
TEXTS = {f"notes/{n:02}.md": f"# Note {n}\n\n{text_about('ledger')} Note {n} is on tokens.\n" for n in range(14)}


class Observed(HashEmbedder):
    """Embedder that records the trace of each query, and waits before it embeds "wait" until it is released."""

    traces: ClassVar[list[str]] = []
    asked: ClassVar[list[str]] = []
    began: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()

    @property
    def id(self) -> str:
        return HashEmbedder().id

    def embed_query(self, text: str) -> Any:
        self.traces.append(TRACEPARENT.get())
        self.asked.append(text)
        if text.startswith("wait"):
            self.began.set()
            assert self.released.wait(60)
        return super().embed_query(text)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("mcp")
    for name, text in {"guide/a b.md": "# Guide\n\nTokens expire after an hour.\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    corpora = {
        "notes": Corpus("notes", MemorySource({**TEXTS, "long.md": LONG}), Chunked(chunk_size=400, overlap=0)),
        "files": Corpus("files", Files(folder), Chunked()),
        "site": Corpus("site", Files(folder), Chunked(), url="https://docs.example.org/{stem}"),
    }
    aid = FindingAid(Store(str(folder / "index")), Observed(), corpora)
    assert not list(aid.index().problems())
    return Session.of(aid, actor="ann")


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    with served(session, mcp=True) as address:
        yield address


def called(address: str, tool: str, **given: Any) -> Any:
    """Return the result of a tool, called by the SDK's client, which checks it against the output schema."""

    async def call() -> Any:
        async with mcp_client(address) as connected:
            return await connected.call_tool(tool, given)

    return anyio.run(call)


def read(address: str, uri: str) -> str:
    """Return the text of a resource."""

    async def ask() -> Any:
        async with mcp_client(address) as connected:
            return await connected.read_resource(uri)

    text: str = anyio.run(ask).contents[0].text
    return text


def properties(schema: Any) -> set[str]:
    """Return the names of the properties of an output, of any of its alternatives."""
    kinds = [schema["$defs"][each["$ref"].rpartition("/")[2]] for each in schema.get("anyOf", ())] or [schema]
    return {name for kind in kinds for name in kind["properties"]}


def of_profile(session: Session, **settings: Any) -> Session:
    return replace(session, served=capabilities_of(ServeSettings(**settings)), compact=True)


# -- profiles --------------------------------------------------------------------------------------


def test_the_tools_for_agents_cost_a_model_at_most_2500_tokens(address: str) -> None:
    """Counted as bytes / 3.5, which is more than the tokenizers of current models count.

    Without --write, even the tokenizer of MiniLM counts no more, which takes each brace and quote for a token.
    """

    async def listed() -> Any:
        async with mcp_client(address) as connected:
            return [await connected.list_tools() for _ in range(2)]

    first, second = anyio.run(listed)
    tools = first.model_dump(by_alias=True, exclude_none=True, mode="json")

    assert first.tools == second.tools
    assert count_tokens(tools) <= 2_500
    reading = [tool for tool in tools["tools"] if tool["annotations"]["readOnlyHint"]]
    assert SentenceEmbedder().count_tokens(json.dumps(reading, separators=(",", ":"))) <= 2_500
    assert 5 <= len(tools["tools"]) <= 7
    assert all(len(tool["inputSchema"]["properties"]) <= 6 for tool in tools["tools"])
    assert (first.ttl_ms, first.cache_scope) == (3_600_000, "private")


def test_a_profile_offers_inputs_of_the_capability_and_takes_the_others_too(session: Session) -> None:
    agent = of_profile(session)

    for name, offer in AGENT.items():
        assert set(offer.inputs) <= set(agent.capabilities[name].input.model_fields)
        assert set(offer.defaults) <= set(agent.capabilities[name].input.model_fields)
        assert set(offer.outputs) <= properties(agent.capabilities[name].adapter.json_schema(mode="serialization"))
    assert len(agent.call("search", {"query": "tokens", "k": 2})["hits"]) == 2
    assert agent.call("search", {"query": "tokens", "detail": None, "max_tokens": None, "cursor": None, "where": None})
    with pytest.raises(NotFoundError, match=r"'impact'.*: search, show.*--profile full` serves it"):
        agent.call("impact", {"id": "long.md"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"corpora": '["notes"]'}, {"corpora": ["notes"]}),
        ({"corpora": "notes"}, {"corpora": ["notes"]}),
        ({"corpora": "[]", "weights": "null"}, {}),
        ({"surfaces": "chunk"}, {"surfaces": ["chunk"]}),
        ({"weights": '{"chunk": 2.0}'}, {"weights": {"chunk": 2.0}}),
        ({"where": "  "}, {}),
        ({"query": '["ferry"]'}, {"query": '["ferry"]'}),
    ],
)
def test_lists_that_a_model_writes_as_text_are_taken_as_meant(address: str, written: Any, meant: Any) -> None:
    """Several clients pass on what a model wrote, and models write JSON within texts."""
    asked = {"query": "tokens", "mode": "lexical"}

    found = called(address, "search", **{**asked, **written})

    assert not found.is_error
    assert found.structured_content == called(address, "search", **{**asked, **meant}).structured_content


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k": "3"}, r"search.k: input should be a valid integer"),
        ({"corpora": "7"}, r"unknown corpus '7'"),
        ({"corpora": '["notes"'}, r"unknown corpus '\["),
        ({"weights": "[1]"}, r"search.weights: input should be a valid dictionary"),
    ],
)
def test_a_text_that_is_no_value_of_an_input_is_refused(address: str, given: Any, said: str) -> None:
    found = called(address, "search", query="tokens", **given)

    assert found.is_error
    assert re.search(said, found.content[0].text)


@pytest.mark.parametrize("huge", [1e308, 10**30, -(10**30), 10**400], ids=["float", "30", "-30", "400"])
@pytest.mark.parametrize("name", ["search.expand", "search.max_tokens", "context.budget_tokens", "status.max_tokens"])
def test_a_number_beyond_all_counts_is_refused_by_its_name(session: Session, name: str, huge: float) -> None:
    tool, _, option = name.partition(".")
    query = {} if tool == "status" else {"query": "tokens"}

    with pytest.raises(InputError, match=name):
        session.call(tool, {**query, option: huge})

    session.call(tool, {**query, option: 2**53})


def test_what_a_session_does_not_serve_is_refused_with_the_way_to_it(session: Session) -> None:
    reading = replace(session, actor=None)
    for of in (reading, replace(reading, served=capabilities_of(ServeSettings(profile="full")))):
        with pytest.raises(NotFoundError, match=r"'propose_claim'.*; this server only reads: `--write` lets"):
            of.call("propose_claim", {})
    with pytest.raises(NotFoundError, match=r"'impact'.*: search, fetch; .*--profile full` serves it"):
        of_profile(reading, profile="search-fetch").call("impact", {})
    with pytest.raises(NotFoundError, match=r"Known: [^;]*$"):
        session.call("nothing", {})


def test_an_agent_opens_a_quote_by_its_record(session: Session) -> None:
    agent = of_profile(session)
    answer = agent.call("answer", {"query": "when do tokens expire", "corpora": ["files"]})

    (quote,) = answer["quotes"]
    assert quote["quote"] in agent.call("show", {"id": quote["record_id"]})["text"]
    assert "record_id of a quote" in INSTRUCTIONS["agent"]
    assert "quotes" in tool_of(agent.capabilities["answer"]).output_schema["properties"]


def test_search_and_fetch_have_exactly_the_shape_that_chatgpt_expects(session: Session) -> None:
    with served(session, mcp=True, profile="search-fetch") as address:
        found = called(address, "search", query="tokens expire")
        results = json.loads(found.content[0].text)["results"]
        ids = [result["id"] for result in results]
        documents = [json.loads(called(address, "fetch", id="notes/long.md").content[0].text)]
        while wanted := documents[-1]["metadata"].get("next"):
            documents.append(json.loads(called(address, "fetch", id=wanted).content[0].text))
        missing = called(address, "fetch", id="notes/nothing.md")
        resource = read(address, "findingaid://notes/long.md")
        (named,) = re.findall(r'fetch\(id="(.*)"\) reads on', resource)
        rest = json.loads(called(address, "fetch", id=named).content[0].text)["text"]

    begin = resource.partition("\n[… cut here")[0]
    assert LONG.startswith(begin + rest)
    assert len(rest) > 1_000
    assert found.structured_content == {"results": results}
    assert all(result.keys() == {"id", "title", "url"} for result in results)
    assert len(set(ids)) == len(ids) > 5
    assert all(document.keys() == {"id", "title", "text", "url", "metadata"} for document in documents)
    assert "".join(document["text"] for document in documents) == LONG
    assert max(len(document["text"]) for document in documents) == TEXT_CHARS
    assert missing.is_error
    assert missing.content[0].text.startswith("not_found: ")


@pytest.fixture(scope="module")
def collisions(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """An index of a long document, and of documents whose names imitate ids of its parts and records."""
    source = MemorySource({"long.md": LONG})
    corpus = Corpus("docs", source, Chunked(chunk_size=4_000, overlap=0))
    aid = FindingAid(Store(str(tmp_path_factory.mktemp("collisions") / "index")), HashEmbedder(), {"docs": corpus})
    assert not list(aid.index().problems())
    records = [record.record_id for record in aid.show("long.md").records]
    part = f"#{TEXT_CHARS}"
    named = [part, f"long.md{part}", f"other/long.md{part}", f"docs{part}/long.md", "other/gone.md", "long.md:2",
             records[0], f"docs/{records[1]}", f"{records[2]}.md", "50%25?x=1#2.md", "a\nb\u2028.md"]  # fmt: skip
    source.payloads.update({name: f"# Forged\n\nThis is {name!r}." for name in named})
    assert not list(aid.index().problems())
    return Session.of(aid)


NO_IDS = ("gone.md", "docs/gone.md", "docs/long.md:1", "docs/docs/long.md", "docs/long.md [0:9]", "docs", "docs/", "/",
          "", "docs#1/gone.md", "docs#-1/long.md", "docs#x/long.md", "docs#/long.md", "DOCS/long.md")  # fmt: skip


def test_parts_of_a_document_are_its_own_whatever_other_documents_are_called(collisions: Session) -> None:
    fetched = of_profile(collisions, profile="search-fetch")
    parts = [fetched.call("fetch", {"id": "docs/long.md"})]
    while wanted := parts[-1]["metadata"].get("next"):
        parts.append(fetched.call("fetch", {"id": wanted}))

    assert len(parts) > 2
    assert "".join(part["text"] for part in parts) == LONG


def test_a_document_is_fetched_by_the_id_of_its_result_and_by_no_other_name(collisions: Session) -> None:
    fetched = of_profile(collisions, profile="search-fetch")
    records = [record.record_id for record in collisions.aid.show("long.md").records]
    names = [name for (_, name), _ in collisions.artifacts() if name not in {"long.md", *records}]

    for name in names:
        assert fetched.call("fetch", {"id": f"docs/{name}"})["text"] == f"# Forged\n\nThis is {name!r}."
    for other in (*NO_IDS, f"docs/{records[3]}"):
        with pytest.raises(NotFoundError, match=r"unknown id|no published artifact"):
            fetched.call("fetch", {"id": other})


@pytest.mark.parametrize("place", [{"span": [2, 9]}, {"offset": 2}])
def test_a_place_in_a_document_that_is_gone_opens_no_other_of_a_like_name(tmp_path: Path, place: Any) -> None:
    source = MemorySource({"notes.md": "# The ferry leaves.", "old/notes.md": "# Another text."})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    session = Session.of(aid)
    assert "ferry" in session.call("show", {"id": "notes.md", "chars": 99})["text"]
    del source.payloads["notes.md"]
    aid.index()

    for given in ({}, {"corpus": "docs"}):
        with pytest.raises(NotFoundError, match=r"no published artifact 'notes\.md'"):
            session.call("show", {"id": "notes.md", **place, **given})
        assert session.call("show", {"id": "notes.md", **given})["artifact_id"] == "old/notes.md"


def test_a_record_opens_its_own_document_though_another_is_called_by_its_id(collisions: Session) -> None:
    for record in collisions.aid.show("long.md").records:
        shown = collisions.call("show", {"id": record.record_id, "corpus": "docs"})

        assert shown["artifact_id"] == "long.md"
        assert record.text in shown["text"]


def test_a_resource_is_read_by_its_uri_and_by_no_other_name(collisions: Session) -> None:
    async def ask() -> dict[str, str]:
        async with mcp_client(address) as connected:
            for wrong in ("docs/gone.md", "docs/long.md%3A1", "/long.md"):
                with pytest.raises(MCPError, match="unknown resource"):
                    await connected.read_resource(f"findingaid://{wrong}")
            uris = [
                each.uri
                for each in (await connected.list_resources()).resources
                if "gone" in each.uri or "%" in each.uri
            ]
            return {uri: (await connected.read_resource(uri)).contents[0].text for uri in uris}

    with served(collisions, mcp=True) as address:
        texts = anyio.run(ask)

    assert len(texts) > 4
    assert all(repr(unquote(uri.removeprefix("findingaid://docs/"))) in text for uri, text in texts.items())


def test_a_template_filled_by_a_client_leads_to_the_artifact_whatever_its_id(tmp_path: Path) -> None:
    texts = {"a b.md": "Spaced.", "a%20b.md": "Quoted.", "f/a.md": "Below.", "f%2Fa.md": "Beside.", "ü?#.md": "Signs."}
    source = MemorySource({name: f"# {text}\n\nMore." for name, text in texts.items()})
    aid = FindingAid(Store(str(tmp_path)), HashEmbedder(), {"notes": Corpus("notes", source, Chunked())})
    aid.index()

    async def ask(address: str) -> dict[str, str]:
        async with mcp_client(address) as connected:
            (listed,) = (await connected.list_resource_templates()).resource_templates
            template = UriTemplate.parse(listed.uri_template)
            uris = {name: template.expand({"corpus": "notes", "artifact_id": name}) for name in texts}
            return {name: (await connected.read_resource(uri)).contents[0].text for name, uri in uris.items()}

    with served(Session.of(aid), mcp=True) as address:
        read = anyio.run(ask, address)

    assert {name: text.split("\n")[0] for name, text in read.items()} == {n: f"# {t}" for n, t in texts.items()}


def pages_of(address: str, meanwhile: Any) -> list[str]:
    """Return the resources of all pages, with something done after the first."""

    async def ask() -> list[str]:
        async with mcp_client(address) as connected:
            page = await connected.list_resources()
            found = [each.uri for each in page.resources]
            meanwhile()
            while page.next_cursor:
                page = await connected.list_resources(cursor=page.next_cursor)
                found += [each.uri for each in page.resources]
            return found

    return anyio.run(ask)


def test_pages_go_on_after_what_they_had_also_if_a_run_publishes_between_two(tmp_path: Path) -> None:
    source = MemorySource({f"{n:03}.md": f"Chapter {n} on harbours" for n in range(120)})
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    session = Session.of(aid)
    search = {"query": "harbours", "k": 5}
    cursor = session.call("search", search)["next_cursor"]
    assert len(session.call("search", {**search, "cursor": cursor})["hits"]) == 5

    def delete_ten() -> None:
        for n in range(10):
            del source.payloads[f"{n:03}.md"]
        aid.index()

    with served(session, mcp=True) as address:
        listed = pages_of(address, delete_ten)
        again = pages_of(address, lambda: None)

    assert set(again) <= set(listed)
    assert len(set(listed)) == len(listed) == 121
    with pytest.raises(QueryError, match="cursor: another version of the index is published"):
        session.call("search", {**search, "cursor": cursor})


def test_a_cursor_is_refused_in_an_index_that_was_made_anew(tmp_path: Path) -> None:
    """Its versions have the same numbers."""
    session = Session.of(indexed(tmp_path, "harbours"))
    search = {"query": "harbours", "k": 2}
    cursor = session.call("search", search)["next_cursor"]
    version = session.aid.publisher.served()

    shutil.rmtree(tmp_path / "index")
    assert indexed(tmp_path, "mills").publisher.served() == version

    with pytest.raises(QueryError, match="cursor: another version of the index is published"):
        session.call("search", {**search, "cursor": cursor})


def indexed(folder: Path, subject: str) -> FindingAid:
    source = MemorySource({f"{n}.md": f"Chapter {n} on {subject}" for n in range(5)})
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), {"docs": Corpus("docs", source, Chunked())})
    aid.index()
    return aid


# -- addresses -------------------------------------------------------------------------------------


def test_every_artifact_has_an_address_that_the_client_can_open(session: Session, address: str) -> None:
    query = {"query": "tokens expire after an hour", "per_artifact": True, "k": 20}

    def urls(found: Any) -> dict[str, str]:
        return {f"{hit['corpus']}/{hit['artifact_id']}": hit["url"] for hit in found["hits"]}

    here = urls(session.call("search", query))
    over_http = urls(called(address, "search", **query).structured_content)
    file = next(iter(session.aid.corpora["files"].source.watched())) / "guide" / "a b.md"  # type: ignore[attr-defined]

    assert here["files/guide/a b.md"] == file.as_uri()
    assert here["notes/long.md"] == "findingaid://notes/long.md"
    assert over_http["files/guide/a b.md"] == f"{address}/?artifact=guide%2Fa+b.md&in=files"
    assert over_http["notes/long.md"] == f"{address}/?artifact=long.md&in=notes"
    assert here["site/guide/a b.md"] == over_http["site/guide/a b.md"] == "https://docs.example.org/guide/a%20b"
    assert "file:" not in str(urls(replace(session, elsewhere=True).call("search", query)))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://x.org/{id}", "unknown field {id}. Known: {artifact_id}, {stem}"),
        ("https://x.org/", "expected an address such as https://docs.example.org/{stem}; got 'https://x.org/'"),
        ("https://x.org/{stem", "not a template of addresses: "),
        ("https://ann:secret@x.org/{stem}", "holds credentials, which every client would see"),
    ],
)
def test_a_template_of_addresses_that_cannot_be_filled_is_refused(cli: Cli, url: str, problem: str) -> None:
    cli.settings["corpora"]["docs"]["url"] = url

    failed = cli.run("status")

    assert failed.exit_code == 1
    assert f"corpora.docs.url: {problem}" in error_of(failed)


# -- pages -----------------------------------------------------------------------------------------


def test_a_cursor_leads_through_all_hits_once_in_results_within_their_budget(session: Session) -> None:
    agent, query = (
        of_profile(session),
        {"query": "ledger notes", "corpora": ["notes"], "where": "artifact_id <> 'long.md'"},
    )
    every = [hit["record_id"] for hit in session.call("search", {**query, "k": 1_000})["hits"]]
    for detail in ("id", "snippet", "full"):
        given, seen = {**query, "detail": detail, "max_tokens": 700}, []
        for _ in range(100):
            page = agent.call("search", given)
            assert count_tokens(page) <= 700
            seen += [hit["record_id"] for hit in page["hits"]]
            if "next_cursor" not in page:
                break
            given = {**given, "cursor": page["next_cursor"]}
        assert seen == every[: len(seen)]
        assert len(seen) == len(every)


@pytest.mark.parametrize("max_tokens", [None, 1_200])
def test_claims_beneath_a_summary_node_do_not_end_the_pages(tmp_path: Path, max_tokens: int | None) -> None:
    source = MemorySource(
        {f"{topic}.md": text_about(topic, f"{topic} again") for topic in ("ledger", "vector", "lease")}
    )
    claims = Claiming(ExtractiveClaims(), nodes=ExtractiveNodes(), at_least=2)
    corpus = Corpus("notes", source, Chunked(chunk_size=200, overlap=0), claims=claims)
    aid = FindingAid(Store(str(tmp_path / "index")), Observed(), {"notes": corpus})
    aid.index()
    session, query = Session.of(aid), {"query": "ledger", "use_summaries": True, "summary_top_k": 2}
    ranked = [hit.record_id for hit in aid.search("ledger", 100, use_summaries=True, summary_top_k=0)]

    seen, given = [], {**query, "k": 2, **({"max_tokens": max_tokens} if max_tokens else {})}
    for _ in range(100):
        page = session.call("search", given)
        seen += [hit["record_id"] for hit in page["hits"]]
        if not page["next_cursor"]:
            break
        given["cursor"] = page["next_cursor"]

    assert [record_id for record_id in seen if record_id in ranked] == ranked
    assert len(seen) > len(ranked)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"query": "other"}, "cursor: not of this search: pass the next_cursor of the page before"),
        ({"cursor": "²"}, "cursor: not of this search: pass the next_cursor of the page before"),
        ({"offset": 3}, "cursor and offset: give only one of them"),
    ],
)
def test_a_cursor_of_another_search_is_refused(session: Session, given: Any, problem: str) -> None:
    first = {"query": "ledger", "k": 2}
    cursor = session.call("search", first)["next_cursor"]

    with pytest.raises(QueryError, match=problem):
        session.call("search", {**first, "cursor": cursor, **given})


def test_a_snippet_is_the_part_of_a_text_that_has_the_words_of_the_query(tmp_path: Path) -> None:
    text = f"{'Nothing of note here. ' * 80}The zebra leaves the zoo at noon. {'Nothing more to say. ' * 80}"
    corpus = Corpus("docs", MemorySource({"a.md": text}), Chunked(chunk_size=10_000, overlap=0))
    aid = FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), {"docs": corpus})
    aid.index()

    (hit,) = of_profile(Session.of(aid)).call("search", {"query": "when do zebras leave"})["hits"]

    assert "zebra leaves the zoo at noon" in hit["snippet"]
    assert hit["snippet"].strip("…") in text
    assert len(hit["snippet"]) <= 302


# -- long calls ------------------------------------------------------------------------------------


def test_a_long_call_reports_progress(address: str) -> None:
    told = []
    Observed.released.clear()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))
        Observed.released.set()

    async def call() -> Any:
        async with mcp_client(address) as connected:
            return await connected.call_tool("search", {"query": "wait for it"}, progress_callback=progress)

    found = anyio.run(call)

    assert not found.is_error
    assert told[0] == (1, 30, "search: 1 s, of at most 30 s")


def test_a_call_that_is_cancelled_while_it_waits_is_never_begun(session: Session) -> None:
    Observed.began.clear()
    Observed.released.clear()
    Observed.asked.clear()

    async def search(address: str, query: str) -> Any:
        async with mcp_client(address) as connected:
            return await connected.call_tool("search", {"query": query})

    async def calls(address: str) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search, address, "wait here")
            await anyio.to_thread.run_sync(Observed.began.wait, 60)
            with anyio.move_on_after(2) as waiting:
                await search(address, "cancelled")
            assert waiting.cancelled_caught
            Observed.released.set()
        assert not (await search(address, "afterwards")).is_error

    with served(session, mcp=True, at_once=1) as address:
        anyio.run(calls, address)

    assert Observed.asked == ["wait here", "afterwards"]


@pytest.mark.parametrize(("sent", "seen"), [(TRACE, TRACE), ("00-nonsense-01", "")])
def test_the_trace_of_a_client_reaches_the_library(address: str, sent: str, seen: str) -> None:
    Observed.traces.clear()

    async def call() -> None:
        async with mcp_client(address) as connected:
            await connected.call_tool("search", {"query": f"traced {sent}"}, meta={"traceparent": sent})

    anyio.run(call)
    http_post(f"{address}/v1/search", json={"query": f"header {sent}"}, headers={"traceparent": sent})

    assert Observed.traces == [seen, seen]


# -- subscriptions ---------------------------------------------------------------------------------


def renewed(session: Session) -> None:
    """Publish a new version of the index."""
    source = session.aid.corpora["notes"].source
    assert isinstance(source, MemorySource)
    source.payloads["new.md"] = text_about(f"ledger {len(str(source.payloads.get('new.md', '')))}")
    session.aid.index()


def rebuilt(session: Session) -> None:
    """Make the index anew, in which the same version is published."""
    before = session.aid.publisher.served()
    shutil.rmtree(session.aid.store.uri)
    session.aid.index()
    assert session.aid.publisher.served() == before


def test_subscribers_hear_of_a_new_version_and_do_not_keep_a_server_from_ending(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "SECONDS", 0.05)
    heard = []

    async def listen(address: str) -> None:
        async with mcp_client(address) as connected:
            before = json.loads((await connected.read_resource("findingaid://published")).contents[0].text)
            wanted = {"resources_list_changed": True, "resource_subscriptions": ["findingaid://published"]}
            async with connected.listen(**wanted) as events:
                await anyio.to_thread.run_sync(renewed, session)
                heard.extend([await anext(events), await anext(events)])
            after = json.loads((await connected.read_resource("findingaid://published")).contents[0].text)
            assert after["version"] > before["version"]

    async def stay(address: str, stopping: threading.Event) -> None:
        async with mcp_client(address) as connected, connected.listen(resources_list_changed=True) as events:
            stopping.set()
            async for _ in events:
                pass
            heard.append("ended")

    stopping = threading.Event()
    with served(session, mcp=True, timeout=60) as address:
        anyio.run(listen, address)
        staying = threading.Thread(target=anyio.run, args=(stay, address, stopping))
        staying.start()
        assert stopping.wait(60)
    staying.join(60)

    assert heard == [ResourceUpdated(uri="findingaid://published"), ResourcesListChanged(), "ended"]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("publish", [renewed, rebuilt])
def test_a_client_of_the_older_specification_can_subscribe_on_standard_streams(
    publish: Callable[[Session], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "SECONDS", 0.05)
    notes = {"notes": Corpus("notes", MemorySource(TEXTS), Chunked())}
    session = Session.of(FindingAid(Store(str(tmp_path / "index")), HashEmbedder(), notes))
    session.aid.index()
    settings = ServeSettings()
    work = WorkerPool.of_one(settings)
    server = Mcp(session, work, settings, subscribable=True).server

    async def subscribe() -> None:
        told = anyio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                assert message.params.uri == "findingaid://published"
                told.set()

        async with Client(server, mode="legacy", message_handler=heard) as connected:
            await connected.subscribe_resource("findingaid://published")
            await anyio.to_thread.run_sync(publish, session)
            with anyio.fail_after(60):
                await told.wait()
            await connected.unsubscribe_resource("findingaid://published")

    anyio.run(subscribe)
    work.close()


# -- clients that nobody here wrote ----------------------------------------------------------------


def test_the_client_of_fastmcp_takes_every_profile(session: Session, address: str) -> None:
    async def ask(address: str, tool: str, **given: Any) -> Any:
        async with fastmcp.Client(f"{address}/mcp") as connected:
            tools = [tool.name for tool in await connected.list_tools()]
            return tools, (await connected.call_tool(tool, given)).structured_content

    tools, found = anyio.run(partial(ask, address, "search", query="tokens", detail="id"))
    with served(session, mcp=True, profile="search-fetch") as other:
        pair, document = anyio.run(partial(ask, other, "fetch", id="notes/long.md"))

    assert tools == list(AGENT)
    brief = {"record_id", "artifact_id", "artifact_version", "corpus", "title", "url", "score", "span"}
    assert found["hits"][0].keys() == brief
    assert pair == ["search", "fetch"]
    assert document["text"] == LONG[:TEXT_CHARS]


@pytest.fixture(scope="module")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of the official inspector, installed from the npm index."""
    folder = tmp_path_factory.mktemp("inspector")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "@modelcontextprotocol/inspector@0.15.0"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert installed.returncode == 0, installed.stderr
    return str(folder / "node_modules" / ".bin" / "mcp-inspector-cli")


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CI") and not shutil.which("npm"), reason="needs npm")
def test_the_official_inspector_lists_and_calls_tools(cli: Cli, inspector: str, tmp_path: Path) -> None:
    cli.write("a.md", text_about("ledger"))
    assert cli.run("index").exit_code == 0

    def inspect(profile: str, *asked: str) -> Any:
        server = tmp_path / "server.sh"  # the inspector takes --config for an option of its own
        command = f"exec {sys.executable} -m findingaid serve mcp --config {cli.config} --profile {profile}"
        server.write_text(command)
        started = [inspector, "--cli", "sh", str(server), *asked]
        done = subprocess.run(started, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    tools = inspect("agent", "--method", "tools/list")["tools"]
    call = ("--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=ledger")
    found = inspect("agent", *call)["structuredContent"]["hits"]
    fetched = inspect("search-fetch", *call)["structuredContent"]["results"]

    assert [tool["name"] for tool in tools] == [name for name in AGENT if name != "propose_claim"]
    assert found[0]["artifact_id"] == "a.md"
    assert fetched == [{"id": "docs/a.md", "title": found[0]["title"], "url": found[0]["url"]}]
