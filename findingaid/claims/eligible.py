"""Claims that may be shown and cited: the one filter that every read path uses.

It uses the newest decisions each time, never the index, so that a retracted claim is gone from all answers at once,
without a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import orjson

from findingaid.claims.decisions import Decision, DecisionLog, in_effect
from findingaid.claims.model import Action, ClaimStatus, Evidence, Review, Tier
from findingaid.claims.standing import UNTOUCHED, ClaimStatuses
from findingaid.errors import QueryError
from findingaid.model import CLAIM, SUMMARY
from findingaid.store import Store
from findingaid.store.sql import both, equals, one_of

Trusting = Literal["verbatim", "verified", "none"]

GATED = (Tier.APPROVED,)
"""Tiers of the preset `gated`: only claims that a person approved."""

TRUSTED: Mapping[str, str] = {
    "verbatim": both(equals("evidence", Evidence.VERIFIED), equals("producer_id", "")),
    "verified": equals("evidence", Evidence.VERIFIED),
    "none": "false",
}
"""Policy -> SQL condition for the records of claims that it approves without a person."""

NEITHER = equals("claim_id", "")
"""SQL condition for records that are neither claims nor summary nodes. By default, a search sees only those."""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """Claims that count as approved without a review, and the tiers whose claims are shown and cited."""

    approve: Trusting = "verbatim"
    answer_from: Sequence[Tier] = (Tier.APPROVED, Tier.POLICY)

    def trusts(self, evidence: str, verbatim: bool) -> bool:
        """Return whether the policy approves a claim with such evidence; `verbatim` if the claim is its quote."""
        if self.approve == "none" or evidence != Evidence.VERIFIED:
            return False
        return self.approve == "verified" or verbatim


BY_DEFAULT = ReviewPolicy()


@dataclass(frozen=True)
class Eligible:
    """Claims that may be shown, given the decisions up to one moment."""

    policy: ReviewPolicy
    decided: Mapping[str, ClaimStatus]
    """claim id -> status, for every claim that a decision names."""

    def standing(self, claim_id: str) -> ClaimStatus:
        """Return the status of a claim, including a claim without decisions."""
        return self.decided.get(claim_id, UNTOUCHED)

    def tier(self, claim_id: str, evidence: str, verbatim: bool) -> Tier:
        """Return why a claim may be cited, ignoring retraction; a claim with forged evidence is never approved."""
        if evidence == Evidence.FORGED:
            return Tier.UNREVIEWED
        if self.standing(claim_id).review is Review.APPROVED:
            return Tier.APPROVED
        return Tier.POLICY if self.policy.trusts(evidence, verbatim) else Tier.UNREVIEWED

    def allows(self, claim_id: str, evidence: str, verbatim: bool, tiers: Collection[str] | None = None) -> bool:
        """Return whether a claim may be shown; a forged or retracted claim never is."""
        if evidence == Evidence.FORGED or claim_id in self.retracted:
            return False
        return self.tier(claim_id, evidence, verbatim) in self.tiers(tiers)

    def allows_record(self, row: Mapping[str, Any], tiers: Collection[str] | None = None) -> bool:
        """Return whether the record of a claim or a summary node may be shown, given its columns."""
        if row["surface_kind"] == SUMMARY:
            return self.retracted.isdisjoint(orjson.loads(row["metadata"])["members"])
        return self.allows(row["claim_id"], row["evidence"], not row["producer_id"], tiers)

    def tiers(self, asked: Collection[str] | None) -> frozenset[Tier]:
        """Return the requested tiers, or by default the configured ones. Raises QueryError for an unknown tier."""
        try:
            return frozenset(map(Tier, self.policy.answer_from if asked is None else asked))
        except ValueError:
            unknown = next(tier for tier in asked or () if tier not in set(Tier))
            raise QueryError(f"unknown tier {unknown!r}. Known: {', '.join(Tier)}") from None

    @cached_property
    def retracted(self) -> frozenset[str]:
        """Claims that must not be shown as valid."""
        return frozenset(i for i, standing in self.decided.items() if standing.retracted)

    @cached_property
    def approved(self) -> frozenset[str]:
        """Claims that a person approved and that are not retracted."""
        reviewed = (i for i, standing in self.decided.items() if standing.review is Review.APPROVED)
        return frozenset(reviewed) - self.retracted

    def claims(self, tiers: Collection[str] | None = None) -> str:
        """Return the SQL condition for the records of claims that may be shown."""
        wanted = self.tiers(tiers)
        trusted = TRUSTED[self.policy.approve]
        decided = sorted(self.approved | self.retracted)
        undecided = f"NOT ({one_of('claim_id', decided)})" if decided else None
        parts = {
            Tier.APPROVED: one_of("claim_id", sorted(self.approved)),
            Tier.POLICY: both(trusted, undecided),
            Tier.UNREVIEWED: both(f"NOT ({trusted})", undecided),
        }
        asked = " OR ".join(f"({parts[tier]})" for tier in Tier if tier in wanted) or "false"
        forged = equals("evidence", Evidence.FORGED)
        return both(equals("surface_kind", CLAIM), f"NOT {NEITHER}", f"NOT {forged}", asked)

    def nodes(self, members: Mapping[str, Iterable[str]]) -> str:
        """Return the SQL condition for the records of summary nodes that may be shown; `members` are by record id."""
        stale = sorted(i for i, ids in members.items() if not self.retracted.isdisjoint(ids))
        return both(
            equals("surface_kind", SUMMARY), f"NOT {NEITHER}", f"NOT ({one_of('record_id', stale)})" if stale else None
        )


def count_expired(store: Store, corpus: str, decisions: Iterable[Decision]) -> int:
    """Return the number of approved claims of a corpus that no artifact states any more, by its newest claims."""
    own = [decision for decision in in_effect(decisions) if decision.corpus == corpus]
    approved = Eligible(BY_DEFAULT, ClaimStatuses.after(own).all()).approved
    if not approved:
        return 0
    stated = store.lookup("claims", "claim_id", approved, ("claim_id",), equals("corpus", corpus))
    missing = approved.difference(stated["claim_id"].to_pylist())
    proposed = {d.claim_id: (corpus, d.artifact_id) for d in own if d.action is Action.PROPOSE}
    return len(missing - find_waiting(store, {i: of for i, of in proposed.items() if i in missing}))


def find_waiting(store: Store, proposed: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """Return the proposed claims whose artifacts are indexed, so that the next run adds them.

    `proposed` maps claim id -> corpus and artifact id.
    """
    ids = {artifact_id for _, artifact_id in proposed.values()}
    rows = store.lookup("artifacts", "artifact_id", ids, ("corpus", "artifact_id")).to_pylist() if ids else []
    there = {(row["corpus"], row["artifact_id"]) for row in rows}
    return frozenset(i for i, of in proposed.items() if of in there)


class Eligibility:
    """Eligible claims of a store; the result is cached until the decisions change."""

    def __init__(self, log: DecisionLog, policy: ReviewPolicy = BY_DEFAULT) -> None:
        self.log = log
        self.policy = policy
        self._made: tuple[Sequence[Decision], Eligible] | None = None

    def now(self) -> Eligible:
        """Return the claims that may be shown after all decisions so far."""
        decisions = self.log.all()
        if self._made is None or self._made[0] is not decisions:
            self._made = decisions, Eligible(self.policy, ClaimStatuses.after(decisions).all())
        made = self._made[1]
        if self.log.store.caller is None:
            return made
        against = {i for standing in made.decided.values() for i in standing.contested_by}
        return Eligible(self.policy, ClaimStatuses.after(self._between_readable(decisions)).all()) if against else made

    def shown(self) -> Sequence[Decision]:
        """Return the decisions that may be shown: none to a caller, since they quote other artifacts, and name people.

        They take effect nevertheless.
        """
        return self.log.all() if self.log.store.caller is None else ()

    def _between_readable(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the decisions in effect, without contests with a claim that the caller may not read."""
        taken = in_effect(decisions)
        contests = {d.seq: {d.claim_id, d.other_id} for d in taken if d.action is Action.CONTEST}
        named = one_of("claim_id", sorted(set().union(*contests.values())))
        readable = set(self.log.store.published_rows("claims", ["claim_id"], named)["claim_id"].to_pylist())
        return [d for d in taken if contests.get(d.seq, set()) <= readable]
