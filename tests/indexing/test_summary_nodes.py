"""Summary nodes from run to reader: one per artifact, over its held claims, without dangling references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from findingaid import Corpus, FindingAid, QueryError
from findingaid.claims.events import CREATED, SUPERSEDED, NodeEvent, node_events
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.claims.nodes import ExtractiveNodes
from findingaid.claims.openai_nodes import OpenAINodes
from findingaid.corpus import Claiming
from findingaid.query.lookup.summary_nodes import NodeView
from findingaid.reports import CorpusReport
from findingaid.store import Ledger, Store, schemas
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder, MemorySource, OpenAIServer, faults
from tests.claims.test_nodes import GOOD, said
from tests.conftest import Cli, ReadyMade

Make = Callable[..., FindingAid]

FACTS = [
    "The ledger keeps one row for every artifact.",
    "A lease runs out after a minute without renewal.",
    "Readers have the version that was published last.",
    "Vectors are stored as numbers of sixteen bits.",
    "The office in Berlin closes at six on Fridays.",
    "Every stage has a version of its own in the table.",
    "Nobody pays twice for a synopsis of the same text.",
]


def text(*facts: str) -> str:
    return "\n\n".join(["# Facts", *facts])


@pytest.fixture
def source() -> MemorySource:
    return MemorySource({"many.md": text(*FACTS[:6]), "few.md": text(*FACTS[:2])})


def of(nodes: Any = None, **how: Any) -> Claiming:
    return Claiming(ExtractiveClaims(), nodes=nodes or ExtractiveNodes(3), **how)


@pytest.fixture
def make(make_aid: Make) -> Make:
    return lambda nodes=None, **how: make_aid(synthesizer=None, claims=of(nodes), **how)


def by_model(server: OpenAIServer) -> OpenAINodes:
    return OpenAINodes("small", base_url=server.base_url, retries=0)


def docs(aid: FindingAid) -> CorpusReport:
    return aid.index().corpora["docs"]


@pytest.fixture
def aid(make: Make, ready_made: ReadyMade) -> FindingAid:
    """An aid over a store with the summary nodes of the producer that ships."""
    ready_made("extractive nodes", lambda: make(embedder=CountingEmbedder()).index())
    return make()


@pytest.fixture
def by_model_aid(make: Make, server: OpenAIServer, ready_made: ReadyMade) -> FindingAid:
    """An aid over a store with summary nodes of a model."""
    server.answer = lambda _: GOOD
    ready_made("nodes of a model", lambda: make(by_model(server), embedder=CountingEmbedder()).index())
    server.requests.clear()
    return make(by_model(server))


def events(aid: FindingAid, artifact_id: str = "many.md") -> list[tuple[str, str, str]]:
    found: Sequence[NodeEvent] = node_events(aid.store, "docs", [artifact_id]).get(artifact_id, [])
    return [(event.event, event.node_id, event.by) for event in found]


def claims_of(aid: FindingAid, artifact_id: str = "many.md") -> dict[str, str]:
    return {view.claim_id: view.text for view in aid.claims.list(artifact=artifact_id)}


def test_an_artifact_with_enough_claims_has_one_summary_of_all_of_them(aid: FindingAid) -> None:
    node = aid.summary_node("many.md")
    assert {member.section for member in node.members} == claims_of(aid).keys()
    assert len(node.members) == 6
    assert len(node.bullets) == 3
    assert node.bullets == aid.summary_node(node.node_id).bullets == aid.summary_node(node.record_id).bullets
    assert events(aid) == [(CREATED, node.node_id, "")]
    assert aid.store.count("summary_nodes") == 1
    assert aid.verify() == []


def test_one_with_fewer_has_none_and_is_as_it_would_be_without(aid: FindingAid) -> None:
    assert events(aid, "few.md") == []
    assert "few.md" in {hit.artifact_id for hit in aid.search("ledger", 50, use_summaries=True)}
    with pytest.raises(QueryError, match=r"docs/few\.md has no summary node: 2 claims, 5 needed"):
        aid.summary_node("few.md")


def test_every_point_leads_to_the_bytes_of_the_source(aid: FindingAid, source: MemorySource) -> None:
    node = aid.summary_node("many.md")

    members = {member.section: member for member in node.members}
    for bullet in node.bullets:
        for claim_id in bullet.members:
            span = members[claim_id].span
            assert span is not None
            quoted = str(source.payloads["many.md"]).encode()[slice(*span)]  # the text is ASCII
            assert quoted.decode() == bullet.text == members[claim_id].title
    assert node.artifact_version == aid.show("many.md").artifact_version


def test_the_same_run_again_calls_and_changes_nothing(
    by_model_aid: FindingAid, embedder: CountingEmbedder, server: OpenAIServer
) -> None:
    aid = by_model_aid
    before = (aid.summary_node("many.md"), aid.publisher.served(), aid.store.dataset("summary_nodes").version)

    report = docs(aid)

    assert (report.calls.summarize, embedder.seen, server.completions) == (0, [], [])
    after = (aid.summary_node("many.md"), aid.publisher.served(), aid.store.dataset("summary_nodes").version)
    assert after == before


def test_when_the_claims_change_one_current_summary_supersedes_the_old_and_a_revert_costs_no_call(
    by_model_aid: FindingAid, source: MemorySource, server: OpenAIServer
) -> None:
    aid = by_model_aid
    old, before = aid.summary_node("many.md"), source.payloads["many.md"]
    source.payloads["many.md"] = text(*FACTS)

    docs(aid)

    new = aid.summary_node("many.md")
    assert new.node_id != old.node_id
    assert {member.section for member in new.members} == claims_of(aid).keys()
    assert len(new.members) == 7
    assert events(aid) == [
        (CREATED, old.node_id, ""),
        (SUPERSEDED, old.node_id, new.node_id),
        (CREATED, new.node_id, ""),
    ]
    hits = aid.search("summary", 50, surfaces=["summary"])
    assert [hit.record_id for hit in hits] == [new.record_id]
    with pytest.raises(QueryError, match="no published"):
        aid.neighbours(old.node_id)

    source.payloads["many.md"] = before
    report = docs(aid)

    assert report.calls.summarize == 0
    assert len(server.completions) == 1
    assert aid.summary_node("many.md").bullets == old.bullets
    assert [event for event, _, _ in events(aid)] == [CREATED, SUPERSEDED, CREATED, SUPERSEDED, CREATED]


def test_events_keep_their_order_after_a_clock_that_was_ahead_is_set_back(
    aid: FindingAid, source: MemorySource
) -> None:
    first = aid.summary_node("many.md").node_id
    aid.store.change("node_events", lambda events: events.update({"at": "timestamp '2999-01-01'"}))

    source.payloads["many.md"] = text(*FACTS)
    docs(aid)
    second = aid.summary_node("many.md").node_id
    source.payloads["many.md"] = text(*FACTS[1:])
    docs(aid)

    third = aid.summary_node("many.md").node_id
    assert events(aid) == [
        (CREATED, first, ""),
        (SUPERSEDED, first, second),
        (CREATED, second, ""),
        (SUPERSEDED, second, third),
        (CREATED, third, ""),
    ]


def test_a_retracted_claim_takes_its_summary_from_readers_at_once_and_the_next_run_writes_another(
    aid: FindingAid,
) -> None:
    old = aid.summary_node("many.md")
    gone = old.members[0].section

    aid.claims.archive(gone, actor="ann", reason="no longer so")
    with pytest.raises(QueryError, match="it cites a retracted claim, and the next run writes another"):
        aid.summary_node("many.md")
    docs(aid)

    new = aid.summary_node("many.md")
    assert [member.section for member in new.members] == [member.section for member in old.members[1:]]
    assert events(aid)[1:] == [(SUPERSEDED, old.node_id, new.node_id), (CREATED, new.node_id, "")]


def test_below_the_threshold_the_summary_goes_and_nothing_takes_its_place(aid: FindingAid) -> None:
    node = aid.summary_node("many.md")

    aid.claims.archive(*[member.section for member in node.members[:2]], actor="ann", reason="no longer so")
    docs(aid)

    assert aid.store.count("summary_nodes") == 0
    assert aid.search("ledger", 50, surfaces=["chunk"], use_summaries=True)
    assert events(aid) == [(CREATED, node.node_id, ""), (SUPERSEDED, node.node_id, "")]


def test_of_an_artifact_that_is_gone_no_event_stays(aid: FindingAid, source: MemorySource) -> None:
    del source.payloads["many.md"]

    docs(aid)

    assert aid.store.count("node_events") == 0
    assert aid.store.count("summary_nodes") == 0


def test_a_run_killed_before_it_kept_an_event_is_made_good_by_the_next(aid: FindingAid) -> None:
    known = events(aid)
    aid.store.replace("node_events", "docs", ["many.md"], schemas.NODE_EVENTS.empty_table())
    ledger = Ledger(aid.store)
    ledger.put("docs", [ledger.rows("docs")["many.md"].writing(["summary_nodes"])])  # as it is while tables are written

    docs(aid)

    assert known == events(aid)


def test_a_failure_is_told_and_tried_again_and_everything_else_is_published(make: Make, server: OpenAIServer) -> None:
    server.answer = lambda _: GOOD
    server.script(faults.server_error())
    aid = make(by_model(server))

    failed = docs(aid)
    pack = aid.context("ledger", 4_000)
    there = aid.search("ledger", 50, use_summaries=True)
    nothing = events(aid)
    again = docs(aid)

    (failure,) = failed.failed
    assert (failure.artifact_id, failure.stage, failure.kind) == ("many.md", "summary_nodes", "transport")
    assert {hit.artifact_id for hit in there} == {"many.md", "few.md"}
    assert nothing == []
    (line,) = pack.degraded
    assert line.startswith("docs/many.md: its summary node is failed: ")
    assert line.endswith(" [transport]")
    assert list(again.failed) == []
    assert again.calls.summarize == 1
    assert aid.summary_node("many.md").bullets[0].text == "The ledger comes first."


def test_a_summary_that_cannot_be_written_anew_is_not_left_as_it_was(
    by_model_aid: FindingAid, source: MemorySource, server: OpenAIServer
) -> None:
    aid = by_model_aid
    old = aid.summary_node("many.md")
    source.payloads["many.md"] = text(*FACTS)
    server.script(faults.server_error())

    docs(aid)

    with pytest.raises(QueryError, match=r"docs/many\.md has no summary node: it failed: 500 server_error"):
        aid.summary_node("many.md")
    assert events(aid) == [(CREATED, old.node_id, ""), (SUPERSEDED, old.node_id, "")]


def test_cited_numbers_that_no_claim_has_are_refused_and_the_run_says_so(make: Make, server: OpenAIServer) -> None:
    points = [(b["text"], b["claims"]) for b in GOOD["bullets"]]
    server.answer = lambda _: said(*points, ("It was invented.", [77]))
    aid = make(by_model(server))

    report = docs(aid)

    assert [bullet.text for bullet in aid.summary_node("many.md").bullets] == [text for text, _ in points]
    assert list(report.refused) == ["many.md: 'It was invented.' cites 77, of 6 claims"]


def test_a_context_has_the_summary_of_what_was_found_and_says_that_it_was_written(
    make: Make, by_model_aid: FindingAid
) -> None:
    pack = by_model_aid.context("ledger", 4_000, k=2, use_summaries=True)

    (summary,) = [piece for piece in pack.pieces if piece.surface_kind == "summary"]
    assert summary.text.startswith("The ledger comes first.\n")
    assert pack.tier == 1
    assert make().context("ledger", 4_000, k=2, surfaces=["chunk"], summaries=False).tier == 0


def test_the_commands_show_a_summary_its_claims_and_its_edges(cli: Cli) -> None:
    cli.settings["corpora"]["docs"] |= {"claims": True, "summary_nodes": {"kind": "extractive", "bullets": 3}}
    cli.write("many.md", text(*FACTS[:6]))
    cli.write("few.md", text(*FACTS[:2]))
    assert cli.run("index").exit_code == 0

    shown = cli.json("summary", "many.md")
    printed = cli.run("summary", "many.md").stdout
    edges = cli.json("neighbours", shown["node_id"])
    hits = cli.json("search", "ledger", "-k", "50", "--use-summaries", "--summary-top-k", "2")

    assert len(shown["bullets"]) == 3
    assert [event["event"] for event in shown["events"]] == [CREATED]
    assert "of 6 claims" in printed
    assert f"SUMMARY_CREATED {shown['node_id']}" in printed
    assert [(edge["kind"], edge["section"]) for edge in edges] == [
        ("SUMMARIZES", m["section"]) for m in shown["members"]
    ]
    assert [hit["surface_kind"] for hit in hits].count("claim") == 2
    assert "docs/few.md has no summary node: 2 claims, 5 needed" in cli.run("summary", "few.md").stderr


# -- invariants --------------------------------------------------------------------------------------------

EDITS = st.tuples(st.just("edit"), st.sampled_from(["a.md", "b.md"]), st.sets(st.integers(0, 6)))
GONE = st.tuples(st.just("gone"), st.sampled_from(["a.md", "b.md"]), st.just(set()))
DECISIONS = st.tuples(st.just("archive"), st.just(""), st.sets(st.integers(0, 6), min_size=1, max_size=1))


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(EDITS, EDITS, DECISIONS, GONE), min_size=1, max_size=6))
def test_whatever_happens_each_artifact_has_one_summary_of_the_claims_that_are_held_and_nothing_dangles(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, set[int]]]
) -> None:
    source = MemorySource({"a.md": text(*FACTS), "b.md": text(*FACTS[:3])})
    aid = _aid(tmp_path_factory.mktemp("nodes"), source)
    aid.index(allow_loss=True)

    for what, artifact_id, numbers in steps:
        if what == "edit":
            source.payloads[artifact_id] = text(*(FACTS[n] for n in sorted(numbers)))
        elif what == "gone":
            source.payloads.pop(artifact_id, None)
        else:
            known = {view.text: view.claim_id for view in aid.claims.list(circulation="live")}
            if chosen := [known[FACTS[n]] for n in numbers if FACTS[n] in known]:
                aid.claims.archive(*chosen)
        _holds(aid, built=False)
        aid.index(allow_loss=True)
        _holds(aid, built=True)
    assert aid.verify() == []


def _aid(folder: Path, source: MemorySource) -> FindingAid:
    corpus = Corpus("docs", source, Chunked(chunk_size=200, overlap=0), claims=of(near=None, at_least=3))
    return FindingAid(Store(str(folder / "index")), CountingEmbedder(), {"docs": corpus})


def _holds(aid: FindingAid, built: bool) -> None:
    """No readable reference is dangling; after `built`, every artifact is covered."""
    nodes = _nodes(aid)
    live = {view.claim_id for view in aid.claims.list(circulation="live", expired=False)}
    for node in nodes:
        members = {member.section for member in node.members}
        assert all(set(bullet.members) <= members for bullet in node.bullets)
        assert all(member.title for member in aid.neighbours(node.node_id))
        assert node.node_id in {edge.section for i in members for edge in aid.neighbours(i, reverse=True)}
        if built:
            stated = {claim for claim in claims_of(aid, node.artifact_id) if claim in live}
            assert members == stated
    rows = aid.store.rows("node_events", ["artifact_id"]).to_pylist()
    for artifact_id in {row["artifact_id"] for row in rows}:
        current = ""
        for event, node_id, by in events(aid, artifact_id):
            assert (event == CREATED) == (current == "")  # one at a time, and none superseded that is not there
            assert by != node_id
            assert event == CREATED or node_id == current
            current = node_id if event == CREATED else ""
        if built:
            assert current == next((node.node_id for node in nodes if node.artifact_id == artifact_id), "")
    if built:
        counted = {i: len(live & claims_of(aid, i).keys()) for i in ("a.md", "b.md")}
        assert sorted(node.artifact_id for node in nodes) == [i for i, count in counted.items() if count >= 3]


def _nodes(aid: FindingAid) -> list[NodeView]:
    found = []
    for artifact_id in ("a.md", "b.md"):
        try:
            found.append(aid.summary_node(artifact_id))
        except QueryError:  # none, or none that may be shown
            continue
    return found
