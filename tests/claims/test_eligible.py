"""Every read path shows only claims that are eligible by tier and by the newest decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from findingaid import FindingAid, Hit, QueryError
from findingaid.claims.decisions import DecisionLog, Verdict
from findingaid.claims.eligible import ReviewPolicy
from findingaid.claims.model import Action, Claim, Evidence, Tier
from tests.conftest import ReadyMade
from tests.support.claims import claim, write

TRUSTED = claim("The ledger is kept by hand.")
MODEL = claim("Ledgers are written in ink.", quote="in ink", verbatim=False)
BARE = claim("Every ledger has an owner.", verbatim=False, evidence=Evidence.NONE)
FORGED = claim("The ledger is lost.", evidence=Evidence.FORGED, quote="is lost")
EVERY = list(Tier)


@pytest.fixture
def aid(make_aid: Callable[..., FindingAid], ready_made: ReadyMade) -> FindingAid:
    aid = make_aid(synthesizer=None)

    def build() -> None:
        aid.index()
        write(aid, [TRUSTED, MODEL, BARE, FORGED], members=[TRUSTED.claim_id, MODEL.claim_id])

    ready_made("claims of every tier", build)
    return aid


def decide(aid: FindingAid, action: Action, c: Claim, other: Claim | None = None) -> None:
    verdict = Verdict(action, "docs", c.claim_id, c.artifact_id, other.claim_id if other else "")
    DecisionLog(aid.store).decide(lambda _: [verdict], "ann", "so it is")


def ids(hits: Sequence[Hit]) -> set[str]:
    return {hit.record_id for hit in hits}


def found(aid: FindingAid, tiers: Sequence[str] | None = None) -> set[str]:
    """Which claims a search for claims finds."""
    return ids(aid.search("ledger", k=50, surfaces=["claim"], tiers=tiers))


def test_by_default_what_the_policy_trusts_and_what_people_approved_is_shown(aid: FindingAid) -> None:
    trusted = found(aid)
    decide(aid, Action.APPROVE, BARE)
    approved = found(aid)

    assert trusted == {TRUSTED.record_id}
    assert approved == {TRUSTED.record_id, BARE.record_id}


def test_each_tier_can_be_asked_for(aid: FindingAid) -> None:
    decide(aid, Action.APPROVE, BARE)

    assert found(aid, ["approved"]) == {BARE.record_id}
    assert found(aid, ["policy"]) == {TRUSTED.record_id}
    assert found(aid, ["unreviewed"]) == {MODEL.record_id}
    assert found(aid, EVERY) == {TRUSTED.record_id, MODEL.record_id, BARE.record_id}
    with pytest.raises(QueryError, match=r"unknown tier 'gold'. Known: approved, policy, unreviewed"):
        found(aid, ["gold"])


@pytest.mark.parametrize(
    ("policy", "shown"),
    [("verbatim", {TRUSTED}), ("verified", {TRUSTED, MODEL}), ("none", set())],
)
def test_the_policy_says_what_needs_nobody_to_look(
    aid: FindingAid, make_aid: Callable[..., FindingAid], policy: str, shown: set[Claim]
) -> None:
    other = make_aid(synthesizer=None, review=ReviewPolicy(policy))  # type: ignore[arg-type]

    assert found(other) == {c.record_id for c in shown}
    eligible = other.eligibility.now()
    every = (TRUSTED, MODEL, BARE, FORGED)
    assert {c for c in every if eligible.allows(c.claim_id, c.evidence, c.verbatim)} == shown


def test_what_is_forged_is_never_shown_not_even_approved(aid: FindingAid) -> None:
    decide(aid, Action.APPROVE, FORGED)

    assert FORGED.record_id not in found(aid, EVERY)
    assert not aid.eligibility.now().allows(FORGED.claim_id, Evidence.FORGED, False, EVERY)
    assert FORGED.record_id not in {record.record_id for record in aid.show("ledger.md").records}


@pytest.mark.parametrize("action", [Action.REJECT, Action.ARCHIVE, Action.REDACT, Action.SUPERSEDE, Action.PROPOSE])
def test_a_claim_that_is_retracted_is_gone_from_every_read_path_at_once(aid: FindingAid, action: Action) -> None:
    shown = {record.record_id for record in aid.show("ledger.md").records}
    summary = ids(aid.search("summary of ledger", surfaces=["summary"]))
    decide(aid, action, TRUSTED, BARE if action is Action.SUPERSEDE else None)

    assert TRUSTED.record_id in shown
    assert summary <= shown
    assert len(summary) == 1
    assert found(aid, EVERY) == {MODEL.record_id, BARE.record_id}
    assert ids(aid.search("ledger", surfaces=["claim"], mode="lexical", tiers=EVERY)) <= {
        MODEL.record_id, BARE.record_id,
    }  # fmt: skip
    assert ids(aid.search("summary of ledger", surfaces=["summary"])) == set()
    assert {record.record_id for record in aid.show("ledger.md").records} == shown - {TRUSTED.record_id} - summary


def test_a_search_that_does_not_ask_for_claims_finds_neither_them_nor_summaries(aid: FindingAid) -> None:
    claims = {c.record_id for c in (TRUSTED, MODEL, BARE, FORGED)}

    for route in ("flat", "boost", "collapsed", "gate", "neighbours"):
        hits = aid.search("The ledger is kept by hand", k=100, route=route)
        assert {hit.surface_kind for hit in hits} <= {"chunk"}
        assert not ids(hits) & claims


def test_a_hit_is_expanded_by_what_may_be_shown_alone(aid: FindingAid) -> None:
    (hit,) = aid.search("kept by hand", surfaces=["claim"], expand=5)
    (chunk, *_) = aid.search("ledger", expand="artifact")

    assert [part.record_id for part in hit.parts] == [TRUSTED.record_id]
    assert {part.surface_kind for part in chunk.parts} == {"chunk"}


def test_a_filter_opens_no_door(aid: FindingAid) -> None:
    decide(aid, Action.REJECT, TRUSTED)

    assert aid.search("ledger", surfaces=["claim"], where="true OR true") == []
    assert aid.search("kept by hand", where="surface_kind = 'claim' OR claim_id <> ''") == []
