"""Every row of docs/coming-from.md is true: for each there is a test here, which names it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from findingaid import AnchoredSummary, Corpus, FindingAid, NotFoundError, QueryError, with_synopsis
from findingaid.claims.eligible import ReviewPolicy
from findingaid.claims.model import Tier
from findingaid.claims.review import ProposedClaim
from findingaid.corpus import Claiming
from findingaid.edges import CombinedExtractor
from findingaid.errors import ConfigError, StoreError, SynthesisError
from findingaid.model import Segment, Surface, SurfacePlan
from findingaid.protocols import Bullet, Draft, Extraction, Member, Statement
from findingaid.query.search.routing import ROUTES
from findingaid.store import Store
from findingaid.store.sql import equals
from findingaid.strategies import STRATEGIES, Chunked, Package, WholeText, strategy_from_spec, strategy_to_spec
from findingaid.strategies.claude import ClaudeSession, ClaudeTurn
from findingaid.strategies.skill import Skill
from findingaid.synthesis.anchored import Anchored
from findingaid.synthesis.anchored_summary import LABELS
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.testing import HashEmbedder, MemorySource, OpenAIServer, ScriptedSynthesizer, faults
from tests.conftest import Cli
from tests.paths import ROOT

ROWS = [
    line
    for line in (ROOT / "docs" / "coming-from.md").read_text().splitlines()
    if line.startswith("| ") and not re.match(r"\| (---|in \w+ \||strategy \||vouch \|)", line)
]
SHOWN: dict[str, Callable[..., None]] = {}
"""Beginning of a row -> the test of what it says."""

Test = Callable[..., None]
MakeAid = Callable[..., FindingAid]


def shows(*rows: str) -> Callable[[Test], Test]:
    """Name the rows that a test shows, by their beginning."""

    def kept(test: Test) -> Test:
        SHOWN.update(dict.fromkeys(rows, test))
        return test

    return kept


def test_every_row_is_shown_by_a_test_and_every_test_shows_a_row() -> None:
    assert len(ROWS) > 40
    assert [row for row in ROWS if sum(row.startswith(f"| {named}") for named in SHOWN) != 1] == []
    assert [named for named in SHOWN if sum(row.startswith(f"| {named}") for row in ROWS) != 1] == []


FACTS = [f"{name} owns the {what} of the shop." for name, what in zip(
    ("Ada", "Bo", "Cy", "Di", "Ed", "Flo"), ("keys", "till", "stock", "books", "van", "alarm"), strict=True
)]  # fmt: skip


class Statements:
    """Extractor of a claim a sentence."""

    id = "statements-1"
    free = True

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        said = [f"{part.strip()}." for part in text.split(".") if part.strip()]
        return Extraction([Statement(sentence, sentence) for sentence in said])


class Points:
    """Producer of three points, each citing a claim, or of what it is given."""

    id = "points-1"

    def __init__(self) -> None:
        self.seen: list[list[Member]] = []
        self.fails: Exception | None = None

    def summarize(self, members: Any) -> Draft:
        self.seen.append(list(members))
        if self.fails:
            raise self.fails
        return Draft(tuple(Bullet(f"Point {n}: {m.text}", (m.claim_id,)) for n, m in enumerate(members[:3])), ("shop",))


@pytest.fixture
def points() -> Points:
    return Points()


@pytest.fixture
def shop(tmp_path: Path, points: Points) -> FindingAid:
    """An index with six claims of one artifact and their summary node, and one artifact without a summary."""
    source = MemorySource({"team.md": " ".join(FACTS), "note.md": "Gus sweeps the floor of the shop."})
    claims = Claiming(Statements(), nodes=points)
    return FindingAid(
        Store(str(tmp_path / "index")), HashEmbedder(), {"c": Corpus("c", source, Chunked(), claims=claims)}
    )


def source_of(aid: FindingAid) -> MemorySource:
    source = aid.corpora["c"].source
    assert isinstance(source, MemorySource)
    return source


# -- ir ------------------------------------------------------------------------------------------------


class Lines:
    """A strategy of one's own: a surface a line."""

    id = "lines-1"

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        surfaces = [Surface("line", line, "chunk", {"line": n}) for n, line in enumerate(str(raw).splitlines())]
        return SurfacePlan({**metadata, "named": artifact_id}, surfaces)


@shows("`IndexingStrategy.decompose", "`Surface(kind")
def test_a_strategy_has_the_id_and_the_metadata_and_chunks_have_their_spans(make_aid: MakeAid) -> None:
    lines = make_aid(source=MemorySource({"a": "one\ntwo"}), strategy=Lines(), synthesizer=None)
    lines.index()

    hit = lines.search("two", where="named = 'a'")[0]
    assert (hit.text, hit.surface_kind) == ("two", "line")
    assert [field.name for field in fields(Surface)][:5] == ["kind", "text", "granularity", "metadata", "span"]
    assert [field.name for field in fields(SurfacePlan)][:2] == ["filter_fields", "surfaces"]
    (chunk,) = Chunked().decompose("b", "A chunk.", {}).surfaces
    assert chunk.span == (0, len("A chunk."))


@shows("`WholeText`, `Chunked`", "`strategy_to_spec`")
def test_the_strategies_have_irs_names_and_go_to_specs_and_back() -> None:
    assert {"WholeText", "Chunked", "Skill", "Package", "ClaudeTurn", "ClaudeSession"} <= set(STRATEGIES.known())
    for strategy in (
        WholeText(text_key="body"),
        Chunked(chunk_size=300),
        Package(embed_deps=True),
        ClaudeTurn(cut=WholeText()),
    ):
        assert strategy_from_spec(strategy_to_spec(strategy)) == strategy
    wrapped = with_synopsis(Chunked(chunk_size=300), OpenAISynthesizer("m", "http://localhost:1/v1"))
    assert strategy_to_spec(strategy_from_spec(strategy_to_spec(wrapped))) == strategy_to_spec(wrapped)
    assert strategy_from_spec(None) is None


@shows("`with_synopsis(strategy")
def test_with_synopsis_has_irs_arguments_and_a_failed_synopsis_is_tried_again(make_aid: MakeAid) -> None:
    named = ["synthesize", "synthesizer_id", "synopsis_kind", "when", "when_id", "fields", "fallback", "context"]
    assert set(named) <= inspect.signature(with_synopsis).parameters.keys()
    failing = ScriptedSynthesizer(script={"ledger": SynthesisError("gone", "transport")})

    make_aid(synthesizer=failing).index()
    failing.script = {}
    failing.seen.clear()
    report = make_aid(synthesizer=failing).index()

    assert report.ok
    assert len(failing.seen) == 1


@shows("`make_llm_synthesizer`")
def test_a_model_writes_synopses_within_a_budget(make_aid: MakeAid, server: OpenAIServer) -> None:
    server.script(faults.server_error())
    server.answer = lambda _: {"synopsis": "A synopsis."}
    synthesizer = OpenAISynthesizer("m", server.base_url, retries=1, concurrency=2)

    report = make_aid(synthesizer=synthesizer).index()

    assert report.ok
    assert report.corpora["docs"].calls.synthesize == 3
    assert {"requests_per_minute", "tokens_per_minute"} <= inspect.signature(OpenAISynthesizer).parameters.keys()


@shows("`ir.index`")
def test_a_run_covers_all_corpora_or_those_that_are_named(shop: FindingAid) -> None:
    assert shop.index().corpora.keys() == {"c"}
    assert shop.index(corpora=["c"]).corpora.keys() == {"c"}
    assert shop.search("keys")


@shows("`traverse` with")
def test_the_collapsed_route_leads_from_a_synopsis_that_matches_to_the_chunks(make_aid: MakeAid) -> None:
    script = {"ledger": "The ropes of the harbour.", "vector": "A recipe for soup.", "reader": "The law of the sea."}
    aid = make_aid(synthesizer=ScriptedSynthesizer(script=script))
    aid.index()

    for route in ("collapsed", "gate"):
        hits = aid.search("ropes of the harbour", 9, mode="lexical", route=route)
        assert {(hit.artifact_id, hit.surface_kind, hit.depth) for hit in hits} == {("ledger.md", "chunk", 1)}
    assert {"boost", "neighbours"} <= ROUTES.keys()


@shows("edges, a links view")
def test_edges_cause_no_synopsis_to_be_written_again(make_aid: MakeAid, source: MemorySource) -> None:
    source.payloads["ledger.md"] = f"{source.payloads['ledger.md']}\n\nSee [it](vector.md)."
    synthesizer = ScriptedSynthesizer()
    make_aid(synthesizer=synthesizer).index()
    synthesizer.seen.clear()

    aid = make_aid(synthesizer=synthesizer, edges=CombinedExtractor())
    aid.index()

    assert synthesizer.seen == []
    assert [edge.artifact_id for edge in aid.neighbours("ledger.md")] == ["vector.md"]
    assert [edge.artifact_id for edge in aid.neighbours("vector.md", reverse=True)] == ["ledger.md"]


@shows("`records_for_artifact`")
def test_the_records_of_an_artifact_come_in_plan_order(aid: FindingAid) -> None:
    aid.index()

    records = aid.show("ledger.md").records

    assert [record.surface_index for record in records] == list(range(len(records)))
    assert [record.surface_kind for record in records] == ["synopsis", "chunk", "chunk"]
    with pytest.raises(NotFoundError):
        aid.show("nothing.md")
    lost = equals("record_id", records[1].record_id)
    aid.store.dataset("records").delete(lost)
    aid.publisher.publish()
    with pytest.raises(StoreError, match="findingaid index"):
        aid.show("ledger.md")


@shows("filters as operators", "`surfaces={")
def test_filters_and_surfaces_narrow_a_search_and_a_mistake_is_an_error(make_aid: MakeAid) -> None:
    turn = {"user_prompt": "Why is the basket red?", "assistant_summary": "It was painted red.", "model": "m"}
    aid = make_aid(source=MemorySource({"t": turn}), strategy=ClaudeTurn(), synthesizer=None)
    aid.index()

    assert [hit.surface_kind for hit in aid.search("red", surfaces=["user_prompt"])] == ["user_prompt"]
    assert len(aid.search("red", where="model = 'm'")) == 2
    for mistake in ("nothing = 'm'", "model ~~ 'm'"):
        with pytest.raises(QueryError):
            aid.search("red", where=mistake)


@shows("`Chunked` | `chunk_size", "`Skill`, `WholeText` |")
def test_chunked_and_whole_text_have_irs_parameters() -> None:
    text = "# One\n\n" + "A sentence of it. " * 30

    chunks = (
        Chunked(chunk_size=120, overlap=20, text_key="body", kind="part").decompose("a", {"body": text}, {}).surfaces
    )

    assert {chunk.kind for chunk in chunks} == {"part"}
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert all(len(chunk.text) <= 120 and chunk.metadata["n_chunks"] == len(chunks) for chunk in chunks)
    assert Chunked(chunk_size=120)._overlap == 20
    with pytest.raises(ConfigError, match="give each parameter by its name"):
        Chunked(1200)  # type: ignore[misc]
    (whole,) = WholeText(text_key="body", kind="page").decompose("a", {"body": text}, {}).surfaces
    assert (whole.kind, whole.text.strip()) == ("page", text.strip())
    (skill,) = Skill().decompose("s", {"name": "s", "description": "Sails.", "body": "How."}, {}).surfaces
    assert (skill.kind, "How." in skill.text) == ("capability", False)


@shows("`Package` | `chunk_size")
def test_a_package_has_its_description_first_its_readme_and_its_dependencies_last() -> None:
    raw = {"name": "p", "description": "d", "readme": "Read. " * 80, "deps": ["numpy"], "owner": "ours"}
    strategy = Package(chunk_size=200, overlap=20, embed_deps=True, deps_template="{name} needs {deps}")

    plan = strategy.decompose("p", raw, {})

    first, *readme, last = plan.surfaces
    assert (first.kind, last.kind, last.text) == ("description", "deps", "p needs numpy")
    assert {(chunk.kind, chunk.granularity) for chunk in readme} == {("readme", "chunk")}
    assert [chunk.metadata["chunk_index"] for chunk in readme] == list(range(len(readme)))
    assert plan.filter_fields["owner"] == "ours"


@shows("`ClaudeTurn` | `include_full")
def test_a_turn_has_irs_surfaces_and_filter_fields(make_aid: MakeAid) -> None:
    turn = {"user_prompt": "Why?", "assistant_summary": "So.", "assistant_full": "Hm. So.", "session_id": "s",
            "session_title": "t", "project": "p", "cwd": "/", "git_branch": "main", "timestamp": "2026-01-02T03:04:05Z",
            "model": "m", "has_tool_use": True}  # fmt: skip
    aid = make_aid(source=MemorySource({"t": turn}), strategy=ClaudeTurn(include_full=True), synthesizer=None)
    aid.index()

    kinds = [record.surface_kind for record in aid.show("t").records]
    assert kinds == ["user_prompt", "assistant_summary", "assistant_full"]
    conditions = ("session_id = 's'", "timestamp > timestamp '2026-01-01T00:00:00Z'", "has_tool_use", "cwd = '/'")
    assert len(aid.search("why", where=" AND ".join(conditions))) == 3
    assert aid.search("why", where="session_id = 'other'") == []


# -- vouch ---------------------------------------------------------------------------------------------


@shows("`kb.synthesize(query", "`query`, `answer`", "\N{EN DASH}")
def test_an_answer_has_vouchs_arguments_and_keys_and_more_in_meta(shop: FindingAid) -> None:
    shop.index()
    asked = inspect.signature(shop.answer).parameters
    assert [(name, asked[name].default) for name in ("depth", "max_chars", "llm")] == [
        ("depth", 3), ("max_chars", 4000), ("llm", False)
    ]  # fmt: skip

    told = shop.answer("who owns the keys", 2, 4000).to_dict()

    assert {"query", "answer", "claims", "gaps", "meta"} <= told.keys()
    assert told["claims"][0]["places"][0]["quote"] == FACTS[0]
    assert {"sentences", "cut", "repeated", "contradictions", "unreviewed", "producer", "refused", "invented"} <= told[
        "meta"
    ].keys()
    with pytest.raises(ConfigError):
        shop.answer("who owns the keys", llm=True)


@shows("`_meta.synthesis_confidence`")
def test_the_confidence_follows_vouchs_rule_for_the_claims(shop: FindingAid) -> None:
    shop.index()
    claim = shop.answer("who owns the keys", 1).claims[0].claim_id

    def confidence() -> tuple[str | None, str | None]:
        meta = shop.answer("who owns the keys", 1).to_dict()["meta"]
        assert meta["relevance"] > 0.8
        return meta["confidence"], meta["standing"]

    assert confidence() == ("medium", "unreviewed")
    for truth, expected in (("working", "medium"), ("actionable", "medium"), ("stable", "high")):
        shop.claims.approve(claim, truth=truth)
        assert confidence() == (expected, truth)
    assert shop.answer("who owns the keys of the zebra", 1).confidence == "medium"
    other = next(view.claim_id for view in shop.claims.list() if view.claim_id != claim)
    shop.claims.contest((claim, other))
    assert confidence() == ("low", "contested")


@shows("a claim is proposed", "approve, reject", "one status", "only approved claims")
def test_claims_are_proposed_and_decided_and_a_gate_shows_the_approved_alone(shop: FindingAid) -> None:
    shop.index()
    (good,) = shop.claims.propose(ProposedClaim("c", "note.md", "Gus sweeps.", quote="Gus sweeps the floor"))
    (forged,) = shop.claims.propose(ProposedClaim("c", "note.md", "Gus sings.", quote="Gus sings aloud"))
    assert (good.review, good.evidence, forged.evidence) == ("pending", "verified", "forged")
    with pytest.raises(QueryError, match="forged"):
        shop.claims.approve(forged.claim_id)
    first, second, third, fourth, *_ = (view.claim_id for view in shop.claims.list(artifact="team.md"))

    shop.claims.approve(first)
    shop.claims.contest((first, second))
    shop.claims.reject(second, reason="no")
    shop.claims.supersede((third, fourth))
    shop.claims.archive(fourth)
    shop.claims.restore(fourth)
    shop.claims.undo(shop.claims.history(second)[-1].seq)
    shop.claims.redact(third)
    shop.index(force=True)

    one = shop.claims.show(first)
    assert (one.review, one.truth, one.circulation) == ("approved", "contested", "live")
    assert shop.claims.show(third).circulation == "redacted"
    gated = FindingAid(shop.store, shop.embedder, shop.corpora, review=ReviewPolicy(answer_from=(Tier.APPROVED,)))
    assert {claim.claim_id for claim in gated.answer("who owns what of the shop", 9).claims} == {first}


@shows("`kb.context`")
def test_a_context_keeps_to_its_budget_and_lists_what_it_leaves_out(aid: FindingAid) -> None:
    aid.index()

    pack = aid.context("ledger vector reader", 60, k=9)

    assert aid.embedder.count_tokens(str(pack.rendered)) <= 60
    assert pack.pieces
    assert all(dropped.reason for dropped in pack.dropped)


# -- ainl ----------------------------------------------------------------------------------------------


@shows("`AnchoredSummary` with", "sections intent", "`AnchoredSummary::empty`")
def test_an_anchored_summary_has_ainls_fields_sections_and_methods() -> None:
    assert list(AnchoredSummary.model_fields) == ["schema_version", "sections", "token_estimate", "iteration"]
    assert list(LABELS) == ["intent", "decisions", "files_touched", "pending_tasks", "current_state"]
    empty = AnchoredSummary.empty()
    assert (empty.is_empty(), empty.to_prompt_text()) == (True, "")
    given = json.loads(empty.model_dump_json())
    given["sections"] = [{k: v for k, v in section.items() if k != "points"} for section in given["sections"]]
    given["sections"][0]["content"] = "Build it.\nShip it."
    read = AnchoredSummary.model_validate(given)
    assert [(point.text, point.turns) for point in read.points("intent")] == [("Build it.", ()), ("Ship it.", ())]
    assert json.loads(read.model_dump_json())["sections"][0]["content"] == "Build it.\nShip it."
    for wrong in ({"schema_version": 2}, {"sections": given["sections"][1:]}):
        with pytest.raises(ValueError, match=r"schema_version|sections"):
            AnchoredSummary.model_validate(given | wrong)


class Sums:
    """Summarizer that notes what it was sent, and fails where told."""

    id = "sums-1"

    def __init__(self) -> None:
        self.seen: list[tuple[int, bool]] = []
        self.fails: SynthesisError | None = None

    def summarize(self, segments: Any, existing: AnchoredSummary | None) -> AnchoredSummary:
        if self.fails:
            raise self.fails
        self.seen.append((len(segments), existing is not None))
        known = existing or AnchoredSummary.empty()
        return AnchoredSummary.of({"decisions": f"Up to turn {segments[-1].turn}."}, known.iteration + 1)


@shows("`Summarizer::summarize", "tier 0 after an error", "called in each turn")
def test_a_session_sends_its_new_turns_alone_and_keeps_its_summary_after_an_error(make_aid: MakeAid) -> None:
    def session(turns: int) -> dict[str, Any]:
        return {"turns": [{"user_prompt": f"Do {n}.", "assistant_summary": f"Did {n}."} for n in range(turns)]}

    sums, source = Sums(), MemorySource({"s": session(2)})
    aid = make_aid(source=source, strategy=ClaudeSession(), synthesizer=Anchored(sums))
    aid.index()
    source.payloads["s"] = session(5)
    sums.fails = SynthesisError("no answer", "timeout")
    failed = aid.index()
    (kept,) = aid.history("s")
    sums.fails = None
    aid.index()

    assert not failed.ok
    assert kept.iteration == 1
    assert sums.seen == [(2, False), (3, True)]
    assert aid.history("s")[-1].iteration == 2
    assert [SynthesisError("x", kind).kind for kind in ("timeout", "transport", "parse", "other")] == [
        "timeout", "transport", "parse", "other"
    ]  # fmt: skip
    assert isinstance(Sums().summarize([Segment(0, "a", "b")], None), AnchoredSummary)


@shows("the compiler re-anchors", "the compiler assembles")
def test_a_pack_is_continued_with_the_dropped_pieces_alone(aid: FindingAid) -> None:
    aid.index()
    sums = Sums()

    first = aid.context("ledger", 60, k=9, summarizer=sums, pinned=["Keep it short."])
    aid.context("ledger", 60, k=9, summarizer=sums, pinned=["Keep it short."], previous=first)

    assert "Keep it short." in str(first.rendered)
    assert first.dropped
    assert {"sessions", "pinned", "previous"} <= inspect.signature(aid.context).parameters.keys()
    assert sums.seen == [(len(first.dropped), False)]


# -- Vestig --------------------------------------------------------------------------------------------


@shows("memory", "`vestig ingest", "`min_memories", "3 to 7 bullets", "edges `SUMMARIZES`", "summary node with")
def test_five_claims_make_a_summary_node_with_edges_and_an_event(shop: FindingAid, points: Points) -> None:
    assert shop.index().ok
    source_of(shop).payloads["few.md"] = " ".join(FACTS[:4])
    shop.index()

    node = shop.summary_node("team.md")

    assert 3 <= len(node.bullets) <= 7
    assert (node.confidence, list(node.themes)) == (1.0, ["shop"])
    assert {claim_id for bullet in node.bullets for claim_id in bullet.members} <= {m.section for m in node.members}
    assert [event.event for event in node.events] == ["SUMMARY_CREATED"]
    assert {edge.kind for edge in shop.neighbours(node.node_id)} == {"SUMMARIZES"}
    assert [edge.span and " ".join(FACTS)[slice(*edge.span)] for edge in shop.neighbours(node.node_id)] == FACTS
    with pytest.raises(NotFoundError, match="4 claims, 5 needed"):
        shop.summary_node("few.md")
    assert len(shop.claims.list(artifact="team.md")) == len(FACTS)
    points.seen.clear()
    del source_of(shop).payloads["few.md"]
    shop.index()
    assert points.seen == []
    assert shop.claims.list(artifact="few.md") == []


@shows("a second ingest")
def test_a_node_follows_its_members(shop: FindingAid, points: Points) -> None:
    shop.index()
    first = shop.summary_node("team.md").node_id
    shop.index()
    assert len(points.seen) == 1
    source_of(shop).payloads["team.md"] = " ".join(FACTS[:5])

    shop.index()

    node = shop.summary_node("team.md")
    assert len(node.members) == 5
    assert node.node_id != first
    assert [event.event for event in node.events] == ["SUMMARY_CREATED", "SUMMARY_SUPERSEDED", "SUMMARY_CREATED"]


@shows("`recall --use-summaries")
def test_a_search_prints_each_summary_with_its_claims_and_finds_what_has_none(cli: Cli) -> None:
    cli.write("team.md", " ".join(FACTS))
    cli.write("note.md", "Gus sweeps the floor of the shop.")
    cli.settings["corpora"]["docs"] |= {"claims": True, "summary_nodes": {"at_least": 5}}
    assert cli.run("index").exit_code == 0

    shown = cli.run("search", "the shop", "--use-summaries", "--summary-top-k", "3").stdout
    every = cli.run("search", "the shop", "--use-summaries", "--summary-top-k", "3", "--all").stdout

    assert len(re.findall(r"  summary \d+\n(?:   \S.*\n)+(?:      claim \d.*\n){3}", shown)) == 1
    assert "note.md" in shown
    assert len(re.findall(r"^\d+ .*  (?:summary|claim) \d", every, re.MULTILINE)) == 4


@shows("a failure is printed")
def test_a_failed_summary_is_recorded_and_tried_again(shop: FindingAid, points: Points) -> None:
    points.fails = SynthesisError("no answer", "timeout")
    assert not shop.index().ok
    (status,) = shop.status()
    assert [failure.artifact_id for failure in status.failed] == ["team.md"]
    points.fails = None

    assert shop.index().ok
    assert shop.summary_node("team.md").bullets
