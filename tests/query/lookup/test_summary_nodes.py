"""Paths from summary nodes to their claims: in a search, and along edges that are not stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from findingaid import FindingAid, QueryError
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.model import Action, Claim, Evidence
from findingaid.identity.hashes import record_id
from tests.conftest import ReadyMade
from tests.support.claims import claim, write

MEMBERS = [
    claim("The ledger is kept by hand."),
    claim("Every ledger row has an owner."),
    claim("Ledgers are written in ink."),
    claim("A ledger is a summary of what was done."),
]
MODEL = claim("The ledger may be lost.", verbatim=False, quote="lost")
OTHER = claim("The ledger stands apart.")
NODE = record_id("docs", "ledger.md", "summary", "node")


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    def build() -> None:
        aid = make_aid(synthesizer=None)
        aid.index()
        write(aid, [*MEMBERS, MODEL, OTHER], members=[c.claim_id for c in [*MEMBERS, MODEL]])

    ready_made("summary nodes", build)
    return make_aid(synthesizer=None)


def decide(aid: FindingAid, action: Action, c: Claim) -> None:
    DecisionLog(aid.store).decide(lambda _: [Verdict(action, "docs", c.claim_id, c.artifact_id)], "ann", "so it is")


def test_a_summary_node_comes_with_the_best_of_its_claims(aid: FindingAid) -> None:
    hits = aid.search("a summary of ledger", k=50, use_summaries=True, summary_top_k=2)

    place = next(i for i, hit in enumerate(hits) if hit.surface_kind == "summary")
    node, *led = hits[place : place + 3]
    assert node.record_id == NODE
    assert {hit.record_id for hit in led} <= {c.record_id for c in MEMBERS}
    assert [(hit.route, hit.depth, hit.seed) for hit in led] == [("SUMMARIZES", 1, NODE)] * 2
    assert led[0].score >= led[1].score
    assert len([hit for hit in hits if hit.surface_kind == "claim"]) == 2


def test_lexically_the_claim_with_the_words_comes_first(aid: FindingAid) -> None:
    hits = aid.search("summary of what was done", k=50, mode="lexical", use_summaries=True, summary_top_k=1)

    (led,) = [hit for hit in hits if hit.surface_kind == "claim"]
    assert led.text == MEMBERS[3].text


def test_what_has_no_summary_is_still_found(aid: FindingAid) -> None:
    plain = aid.search("The vector is described", k=5)

    with_summaries = aid.search("The vector is described", k=50, use_summaries=True)

    found = [hit.record_id for hit in with_summaries]
    assert {hit.record_id for hit in plain} <= set(found)
    assert {hit.artifact_id for hit in with_summaries} == {"ledger.md", "reader.md", "vector.md"}


def test_without_use_summaries_neither_nodes_nor_claims_are_found(aid: FindingAid) -> None:
    kinds = {hit.surface_kind for hit in aid.search("a summary of ledger", k=50)}

    assert kinds == {"chunk"}


def test_no_claim_comes_twice_and_none_with_a_top_k_of_nothing(aid: FindingAid) -> None:
    both = aid.search("ledger", k=50, surfaces=["chunk", "claim"], use_summaries=True)
    none = aid.search("ledger", k=50, surfaces=["chunk"], use_summaries=True, summary_top_k=0)

    assert len({hit.record_id for hit in both}) == len(both)
    assert {c.record_id for c in [*MEMBERS, OTHER]} <= {hit.record_id for hit in both}
    assert {hit.surface_kind for hit in none} == {"chunk", "summary"}
    with pytest.raises(QueryError, match="summary_top_k must be at least 0, got -1"):
        aid.search("ledger", use_summaries=True, summary_top_k=-1)


def test_of_the_claims_those_come_that_may_be_shown(aid: FindingAid) -> None:
    def led(**given: object) -> set[str]:
        hits = aid.search("ledger", k=50, use_summaries=True, summary_top_k=9, **given)  # type: ignore[arg-type]
        return {hit.record_id for hit in hits if hit.surface_kind == "claim"}

    assert led() == {c.record_id for c in MEMBERS}
    assert led(tiers=["unreviewed"]) == {MODEL.record_id}
    assert led(where="artifact_id = 'vector.md'") == set()


def test_a_node_with_a_retracted_claim_is_gone_from_search_edges_and_context_at_once(aid: FindingAid) -> None:
    shown = aid.context("a summary of ledger", 4_000, k=50)
    assert NODE in {piece.record_id for piece in shown.pieces}

    decide(aid, Action.ARCHIVE, MEMBERS[0])

    assert NODE not in {hit.record_id for hit in aid.search("a summary of ledger", k=50, use_summaries=True)}
    hidden = aid.context("a summary of ledger", 4_000, k=50, use_summaries=True)
    assert NODE not in {piece.record_id for piece in [*hidden.pieces, *(dropped.piece for dropped in hidden.dropped)]}
    with pytest.raises(QueryError, match="no published artifact"):
        aid.neighbours("node")


def test_a_context_has_the_summary_node_of_what_was_found(aid: FindingAid) -> None:
    pack = aid.context("ledger", 4_000, k=50)

    first = next(piece for piece in pack.pieces if piece.artifact_id == "ledger.md")
    assert (first.kind, first.record_id, first.cite) == (
        "summary",
        NODE,
        f"docs/ledger.md summary {first.surface_index}",
    )
    assert pack.tier == 1
    assert NODE not in {piece.record_id for piece in aid.context("ledger", 4_000, k=50, summaries=False).pieces}


def test_the_edges_of_a_node_are_its_members(aid: FindingAid) -> None:
    for name in ("node", NODE):
        edges = aid.neighbours(name)

        assert {edge.kind for edge in edges} == {"SUMMARIZES"}
        assert [edge.section for edge in edges] == [c.claim_id for c in [*MEMBERS, MODEL]]
        assert [edge.title for edge in edges] == [*(c.text for c in MEMBERS), None]
        assert edges[0].span == MEMBERS[0].span

    (back,) = aid.neighbours(MEMBERS[0].claim_id, reverse=True)
    assert (back.kind, back.section, back.title) == ("SUMMARIZES", "node", "a summary of ledger")


def test_other_edges_are_as_they_were(aid: FindingAid) -> None:
    assert aid.neighbours("ledger.md") == []
    assert aid.neighbours("ledger.md", kinds=["LINK"]) == []
    for unknown in (OTHER.claim_id, "nothing"):
        with pytest.raises(QueryError, match="no published artifact"):
            aid.neighbours(unknown, reverse=True)
    with pytest.raises(QueryError, match="no published artifact"):
        aid.neighbours("node", kinds=["LINK"])


def test_what_is_forged_never_comes_with_a_node(make_aid: Callable[..., FindingAid]) -> None:
    forged = claim("The ledger is gone.", quote="is gone", evidence=Evidence.FORGED)
    aid = make_aid(synthesizer=None)
    aid.index()
    write(aid, [MEMBERS[0], forged], members=[MEMBERS[0].claim_id, forged.claim_id])

    hits = aid.search("ledger", k=50, use_summaries=True, summary_top_k=9)

    assert {hit.record_id for hit in hits if hit.surface_kind == "claim"} == {MEMBERS[0].record_id}
