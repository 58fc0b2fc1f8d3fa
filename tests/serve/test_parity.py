"""Library, command line, MCP, JSONL and HTTP give the same answers and the same error messages."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client

import findingaid
from findingaid import FindingAid, FindingAidError
from findingaid.claims.model import claim_id
from findingaid.claims.review import ProposedClaim
from findingaid.cli import main
from findingaid.config.settings import ServeSettings
from findingaid.errors import help_on
from findingaid.query import Boost
from findingaid.serve.errors import kind_of
from findingaid.serve.jsonl import answer_requests
from findingaid.serve.session import Session
from findingaid.serve.truncation import without_empty
from findingaid.synthesis.anchored_summary import AnchoredSummary
from tests.support.serving import HIDDEN, OPEN, mcp_client, post, served

CONFIGURED = """
store: index
embedder: {kind: hash}
serve: {read_only: false, max_tokens: 1000000, profile: full}
corpora:
  open: {source: {kind: files, root: open}, claims: true, summary_nodes: true}
  other: {source: {kind: files, root: other}, claims: true}
"""

Given = dict[str, Any]
AsTool = Callable[[str, Any], Any]
FOLDER = "FOLDER"
"""Replaced by the folder of the configuration in arguments of the command line."""

SUMMARY = [
    {**section.model_dump(exclude={"points"}), "content": "Done."} for section in AnchoredSummary.empty().sections
]
"""Sections of an anchored summary in plain text, as ainl writes them."""

ANY = "artifact_id LIKE '%.md'"


@dataclass(frozen=True)
class Case:
    """A question as a capability is asked, as the library is, and on the command line."""

    name: str
    given: Given
    library: Callable[[FindingAid], Any]
    arguments: list[str] | None = None
    """None for what the command line does not have."""

    @property
    def id(self) -> str:
        return f"{self.name}-{orjson.dumps(self.given).decode()[:60]}"


CASES = [
    Case(
        "search",
        {"query": "when do tokens expire", "k": 3},
        lambda aid: [hit.to_dict() for hit in aid.search("when do tokens expire", 3)],
        ["search", "when do tokens expire", "-k", "3"],
    ),
    Case(
        "search",
        {"query": ["tokens", "ledger rows"], "mode": "lexical", "corpora": ["open"], "where": ANY,
         "explain": True, "offset": 1, "weights": {"chunk": 2.0}, "per_artifact": False, "expand": 1},
        lambda aid: [
            hit.to_dict()
            for hit in aid.search(["tokens", "ledger rows"], mode="lexical", corpora=["open"], where=ANY,
                                  explain=True, offset=1, weights={"chunk": 2.0}, expand=1)
        ],
        ["search", "tokens", "--also", "ledger rows", "--mode", "lexical", "-c", "open", "--where", ANY,
         "--explain", "--offset", "1", "--weight", "chunk=2", "--expand", "1"],
    ),
    Case(
        "search",
        {"query": "tokens", "surfaces": ["claim"], "tiers": ["policy"]},
        lambda aid: [hit.to_dict() for hit in aid.search("tokens", surfaces=["claim"])],
        ["search", "tokens", "--surfaces", "claim"],
    ),
    Case(
        "search",
        {"query": "tokens", "route": "boost:1"},
        lambda aid: [hit.to_dict() for hit in aid.search("tokens", route=Boost(1))],
        ["search", "tokens", "--route", "boost:1"],
    ),
    Case(
        "answer",
        {"query": "when do auth tokens expire", "depth": 2},
        lambda aid: aid.answer("when do auth tokens expire", 2).to_dict(),
        ["answer", "when do auth tokens expire", "--depth", "2"],
    ),
    Case(
        "answer",
        {"query": "who painted the ceiling"},
        lambda aid: aid.answer("who painted the ceiling").to_dict(),
        ["answer", "who painted the ceiling"],
    ),
    Case(
        "context",
        {"query": "tokens", "budget_tokens": 100, "pinned": ["Answer in French."], "form": "messages",
         "details": True},
        lambda aid: aid.context("tokens", 100, pinned=["Answer in French."], form="messages").to_dict(),
        ["context", "tokens", "--budget", "100", "--pin", "Answer in French.", "--form", "messages"],
    ),
    Case(
        "context",
        {"query": "tokens", "budget_tokens": 100, "previous": {"sections": SUMMARY}, "details": True},
        lambda aid: aid.context("tokens", 100, previous={"sections": SUMMARY}).to_dict(),
        ["context", "tokens", "--budget", "100", "--previous", f"{FOLDER}/summary.json"],
    ),
    Case(
        "show",
        {"id": "ledger.md", "level": "records"},
        lambda aid: aid.show("ledger.md").to_dict(),
        ["show", "ledger.md"],
    ),
    Case(
        "show",
        {"id": "auth.md", "corpus": "open", "level": "body"},
        lambda aid: aid.disclose("auth.md", "body", "open").to_dict(),
        ["show", "auth.md", "--corpus", "open", "--level", "body"],
    ),
    Case(
        "show",
        {"id": claim_id("open", "The ledger keeps one row an artifact.")[:12]},
        lambda aid: aid.passages(claim_id("open", "The ledger keeps one row an artifact.")[:12]).to_dict(),
        ["show", claim_id("open", "The ledger keeps one row an artifact.")[:12]],
    ),
    Case(
        "neighbours",
        {"id": "auth.md", "corpus": "open"},
        lambda aid: [n.to_dict() for n in aid.neighbours("auth.md", "open")],
        ["neighbours", "auth.md", "-c", "open"],
    ),
    Case(
        "neighbours",
        {"k": 2},
        lambda aid: [n.to_dict() for n in aid.most_referenced(2)],
        ["neighbours", "-k", "2"],
    ),
    Case(
        "why",
        {"id": "ledger.md"},
        lambda aid: [link.to_dict() for link in aid.why("ledger.md")],
        ["why", "ledger.md"],
    ),
    Case(
        "impact",
        {"id": "ledger.md"},
        lambda aid: aid.impact("ledger.md").to_dict(),
        ["impact", "ledger.md"],
    ),
    Case(
        "status",
        {},
        lambda aid: [status.to_dict() for status in aid.status()],
        ["status"],
    ),
    Case(
        "browse",
        {"where": ANY, "suffixes": [".md"], "k": 2, "offset": 1},
        lambda aid: aid.browse(where=ANY, suffixes=[".md"], k=2, offset=1).to_dict(),
        ["browse", "--where", ANY, "--suffix", ".md", "-k", "2", "--offset", "1"],
    ),
    Case(
        "corpora",
        {"corpora": ["other"]},
        lambda aid: {corpus: [field.to_dict() for field in known] for corpus, known in aid.fields(["other"]).items()},
        ["status", "--fields", "-c", "other"],
    ),
]  # fmt: skip

FAILING = [
    Case("search", {"query": " "}, lambda aid: aid.search(" "), ["search", " "]),
    Case("search", {"query": "x", "k": 0}, lambda aid: aid.search("x", 0), ["search", "x", "-k", "0"]),
    Case(
        "search",
        {"query": "x", "corpora": ["nope"]},
        lambda aid: aid.search("x", corpora=["nope"]),
        ["search", "x", "-c", "nope"],
    ),
    Case(
        "search",
        {"query": "x", "where": "colour = 1"},
        lambda aid: aid.search("x", where="colour = 1"),
        ["search", "x", "--where", "colour = 1"],
    ),
    Case("answer", {"query": "x", "llm": True}, lambda aid: aid.answer("x", llm=True), ["answer", "x", "--llm"]),
    Case(
        "context",
        {"query": "x", "budget_tokens": 0},
        lambda aid: aid.context("x", 0),
        ["context", "x", "--budget", "0"],
    ),
    Case(
        "context",
        {"query": "x", "budget_tokens": 100, "previous": {"rendered": ""}},
        lambda aid: aid.context("x", 100, previous={"rendered": ""}),
        ["context", "x", "--budget", "100", "--previous", f"{FOLDER}/result.json"],
    ),
    Case("show", {"id": "nope"}, lambda aid: aid.show("nope"), ["show", "nope"]),
    Case("show", {"id": "auth.md"}, lambda aid: aid.show("auth.md"), ["show", "auth.md"]),
    Case("neighbours", {"id": "nope"}, lambda aid: aid.neighbours("nope"), ["neighbours", "nope"]),
    Case("why", {"id": "nope"}, lambda aid: aid.why("nope"), ["why", "nope"]),
    Case("impact", {"id": "nope"}, lambda aid: aid.impact("nope"), ["impact", "nope"]),
    Case("status", {"corpora": ["nope"]}, lambda aid: aid.status(["nope"]), ["status", "-c", "nope"]),
    Case(
        "propose_claim",
        {"corpus": "open", "artifact_id": "nope", "text": "x y"},
        lambda aid: aid.claims.propose(ProposedClaim("open", "nope", "x y")),
        ["claims", "propose", "nope", "x y", "-c", "open"],
    ),
]

MISSHAPEN: list[tuple[str, Any]] = [
    ("search", {}),
    ("search", {"query": "x", "k": "3"}),
    ("search", {"query": "x", "nothing": 1}),
    ("search", {"query": "x", "recency": {"field": 3}}),
    ("show", {"id": None}),
    ("show", {"id": "x", "level": "all"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parity")
    for corpus, texts in (("open", OPEN), ("other", {"auth.md": HIDDEN["auth.md"]})):
        for name, text in texts.items():
            (folder / corpus).mkdir(exist_ok=True)
            (folder / corpus / name).write_text(text + "\nSee [the ledger](ledger.md).\n")
    (folder / "findingaid.yaml").write_text(CONFIGURED)
    (folder / "summary.json").write_text(json.dumps({"sections": SUMMARY}))
    (folder / "result.json").write_text(json.dumps({"rendered": ""}))
    assert not list(findingaid.open(folder / "findingaid.yaml").index().problems())
    return folder


@pytest.fixture(scope="module")
def aid(folder: Path) -> FindingAid:
    return findingaid.open(folder / "findingaid.yaml")


@pytest.fixture(scope="module")
def session(aid: FindingAid) -> Session:
    return Session.of(aid, actor="ann")


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    with served(session, mcp=True, profile="full", max_tokens=1_000_000) as address:
        yield address


def over_jsonl(session: Session, name: str, given: Any) -> Any:
    output = io.BytesIO()
    line = orjson.dumps({"id": 1, "method": name, "params": given})
    answer_requests(session, ServeSettings(), io.BytesIO(line), output)
    answer = orjson.loads(output.getvalue())
    return answer.get("result") or {"error": answer["error"]}


@pytest.fixture(scope="module")
def over_mcp(address: str) -> Iterator[AsTool]:
    """Return a function that calls a tool; one client asks all."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(mcp_client(address)) as client:
        yield lambda name, given: portal.call(client.call_tool, name, given).structured_content


def over_cli(folder: Path, arguments: list[str]) -> tuple[int, str, str]:
    arguments = [argument.replace(FOLDER, str(folder)) for argument in arguments]
    result = CliRunner().invoke(main, [*arguments, "--json", "--config", str(folder / "findingaid.yaml")])
    return result.exit_code, result.stdout, result.stderr


def as_library(name: str, answer: Any) -> Any:
    """Return the result as given by the library and the command line, without fields added for servers."""
    match name:
        case "search":
            return without_urls(answer)["hits"]
        case "neighbours":
            return answer["neighbours"] or answer["referenced"]
        case "why":
            return answer["links"]
        case "status":
            return answer["corpora"]
        case "corpora":
            return {corpus["corpus"]: corpus["fields"] for corpus in answer["corpora"]}
    return answer


def without_urls(found: Any) -> Any:
    """Drop the URLs of hits, which servers add: over HTTP they lead to the page, over standard streams to the file."""
    if "hits" not in found:
        return found
    return {**found, "hits": [{key: hit[key] for key in hit if key != "url"} for hit in found["hits"]]}


def without_index(name: str, found: Any) -> Any:
    """Of a status the library says, too, how the index of all vectors is."""
    if name == "status":
        for corpus in found:
            corpus.pop("vector_index")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_way_gives_the_same_answer(
    aid: FindingAid, session: Session, address: str, over_mcp: AsTool, folder: Path, case: Case
) -> None:
    library = without_index(case.name, json.loads(json.dumps(case.library(aid), default=str)))
    http = post(address, case.name, case.given)

    assert library
    if case.arguments is not None:
        code, printed, _ = over_cli(folder, case.arguments or [])
        assert code == 0
        assert without_index(case.name, json.loads(printed)) == library
    assert http.status_code == 200
    assert as_library(case.name, http.json()) == library
    assert without_urls(over_jsonl(session, case.name, case.given)) == without_urls(http.json())
    assert over_mcp(case.name, case.given) == without_empty(http.json())


@pytest.mark.parametrize("case", FAILING, ids=lambda case: case.id)
def test_every_way_fails_by_the_same_kind_in_the_same_words(
    aid: FindingAid, session: Session, address: str, over_mcp: AsTool, folder: Path, case: Case
) -> None:
    with pytest.raises(FindingAidError) as raised:
        case.library(aid)
    error = raised.value
    said = {"error": {"kind": kind_of(type(error)), "message": str(error), "see": help_on(error)}}
    code, printed, told = over_cli(folder, case.arguments or [])

    assert (code, printed, told) == (1, "", f"Error: {error}\nSee: {help_on(error)}\n")
    assert post(address, case.name, case.given).json() == said
    assert over_jsonl(session, case.name, case.given) == said
    assert over_mcp(case.name, case.given) == said


@pytest.mark.parametrize(("name", "given"), MISSHAPEN)
def test_what_has_the_wrong_shape_is_refused_in_the_same_words(
    session: Session, address: str, over_mcp: AsTool, name: str, given: Any
) -> None:
    said = post(address, name, given).json()

    assert said["error"]["kind"] == "input"
    assert over_jsonl(session, name, given) == said
    assert over_mcp(name, given) == said


def test_a_claim_that_is_proposed_stands_as_one_proposed_in_the_library(
    aid: FindingAid, session: Session, address: str, over_mcp: AsTool
) -> None:
    quote = "The ledger keeps one row an artifact."
    ways: list[Callable[[str, Given], Any]] = [
        lambda name, given: post(address, name, given).json(),
        lambda name, given: over_jsonl(session, name, given),
        over_mcp,
    ]
    for i, way in enumerate(ways):
        text = f"Rows are kept, says way {i}."
        claim = way("propose_claim", {"corpus": "open", "artifact_id": "ledger.md", "text": text, "quote": quote})

        assert claim["review"] == "pending"
        assert claim["evidence"] == "verified"
        proposed = json.loads(json.dumps(aid.claims.show(claim["claim_id"]).to_dict()))
        assert claim == (without_empty(proposed) if way is ways[2] else proposed)
        assert [d.actor for d in aid.claims.history(claim["claim_id"])] == ["ann"]


@pytest.mark.slow
def test_the_commands_serve_over_standard_streams_what_the_library_says(folder: Path, aid: FindingAid) -> None:
    """With the SDK's own client, over MCP on the standard streams of `findingaid serve mcp`."""
    hits = json.loads(json.dumps([hit.to_dict() for hit in aid.search("tokens", 3)]))
    arguments = ["-m", "findingaid", "serve", "mcp", "--config", str(folder / "findingaid.yaml"), "--corpus", "open"]
    limited = json.loads(json.dumps([hit.to_dict() for hit in aid.within(["open"]).search("tokens", 3)]))

    async def ask() -> tuple[Any, ...]:
        server = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(Path.cwd()))
        async with Client(stdio_client(server), cache=None) as client:
            tools = await client.list_tools()
            found = await client.call_tool("search", {"query": "tokens", "k": 3})
            resources = await client.list_resources()
            body = await client.read_resource("findingaid://open/auth.md")
            return tools, found, resources, body

    tools, found, resources, body = anyio.run(ask)

    assert hits != limited
    assert without_urls(found.structured_content)["hits"] == without_empty({"hits": limited})["hits"]
    assert found.structured_content["hits"][0]["url"] == (folder / "open" / "auth.md").as_uri()
    assert json.loads(found.content[0].text) == found.structured_content
    assert {tool.name: tool.annotations.read_only_hint for tool in tools.tools}["propose_claim"] is False
    assert [resource.uri for resource in resources.resources] == [
        "findingaid://published",
        "findingaid://open/auth.md",
        "findingaid://open/ledger.md",
    ]
    assert body.contents[0].text == (folder / "open" / "auth.md").read_text()
