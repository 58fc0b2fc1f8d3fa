"""Which claims may be shown and cited: the one door that every way of reading goes through.

It looks at the newest decisions each time, never at what was indexed, so that a claim which is retracted is gone from
all answers at once, with no run between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import orjson

from findingaid.claims.decisions import Decision, DecisionLog
from findingaid.claims.model import Evidence, Review, Standing, Tier
from findingaid.claims.standing import UNTOUCHED, Standings
from findingaid.errors import QueryError
from findingaid.model import CLAIM, SUMMARY
from findingaid.store.sql import both, equals, one_of

Trusting = Literal["verbatim", "verified", "none"]

TRUSTED: Mapping[str, str] = {
    "verbatim": both(equals("evidence", Evidence.VERIFIED), equals("producer_id", "")),
    "verified": equals("evidence", Evidence.VERIFIED),
    "none": "false",
}
"""Policy -> the condition of records of claims that it approves of without a person."""

NEITHER = equals("claim_id", "")
"""The condition of records that are neither claims nor summary nodes: all that a search sees unasked."""


@dataclass(frozen=True, slots=True)
class ReviewPolicy:
    """What counts as approved though nobody looked, and the tiers whose claims are shown and cited."""

    approve: Trusting = "verbatim"
    answer_from: Sequence[Tier] = (Tier.APPROVED, Tier.POLICY)

    def trusts(self, evidence: str, verbatim: bool) -> bool:
        """Whether nobody need look at a claim with such evidence, `verbatim` if it is its quote."""
        if self.approve == "none" or evidence != Evidence.VERIFIED:
            return False
        return self.approve == "verified" or verbatim


BY_DEFAULT = ReviewPolicy()


@dataclass(frozen=True)
class Eligible:
    """What may be shown by the decisions of one moment."""

    policy: ReviewPolicy
    decided: Mapping[str, Standing]
    """claim id -> where it stands, of every claim that any decision names."""

    def standing(self, claim_id: str) -> Standing:
        """Where a claim stands, also one of which nothing was decided."""
        return self.decided.get(claim_id, UNTOUCHED)

    def tier(self, claim_id: str, evidence: str, verbatim: bool) -> Tier:
        """Why a claim may be cited, were it not retracted; never approved where its evidence is forged."""
        if evidence == Evidence.FORGED:
            return Tier.UNREVIEWED
        if self.standing(claim_id).review is Review.APPROVED:
            return Tier.APPROVED
        return Tier.POLICY if self.policy.trusts(evidence, verbatim) else Tier.UNREVIEWED

    def allows(self, claim_id: str, evidence: str, verbatim: bool, tiers: Collection[str] | None = None) -> bool:
        """Whether a claim may be shown; what is forged never is."""
        if evidence == Evidence.FORGED or claim_id in self.retracted:
            return False
        return self.tier(claim_id, evidence, verbatim) in self.tiers(tiers)

    def allows_record(self, row: Mapping[str, Any], tiers: Collection[str] | None = None) -> bool:
        """The same of the record of a claim or a summary node, given its columns."""
        if row["surface_kind"] == SUMMARY:
            return self.retracted.isdisjoint(orjson.loads(row["metadata"])["members"])
        return self.allows(row["claim_id"], row["evidence"], not row["producer_id"], tiers)

    def tiers(self, asked: Collection[str] | None) -> frozenset[Tier]:
        """The tiers that were asked for, else those that the configuration answers from. Raises QueryError."""
        try:
            return frozenset(map(Tier, self.policy.answer_from if asked is None else asked))
        except ValueError:
            unknown = next(tier for tier in asked or () if tier not in set(Tier))
            raise QueryError(f"unknown tier {unknown!r}. Known: {', '.join(Tier)}") from None

    @cached_property
    def retracted(self) -> frozenset[str]:
        """The claims that nobody may be shown as something that is held."""
        return frozenset(i for i, standing in self.decided.items() if standing.retracted)

    @cached_property
    def approved(self) -> frozenset[str]:
        """The claims that a person approved, and that are not retracted."""
        reviewed = (i for i, standing in self.decided.items() if standing.review is Review.APPROVED)
        return frozenset(reviewed) - self.retracted

    def claims(self, tiers: Collection[str] | None = None) -> str:
        """The condition of the records of claims that may be shown."""
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
        """The condition of the records of summary nodes that may be shown, given the members of each, by record id."""
        stale = sorted(i for i, ids in members.items() if not self.retracted.isdisjoint(ids))
        return both(
            equals("surface_kind", SUMMARY), f"NOT {NEITHER}", f"NOT ({one_of('record_id', stale)})" if stale else None
        )


class Eligibility:
    """Looks at the decisions of a store; what it made of them is kept until there are others."""

    def __init__(self, log: DecisionLog, policy: ReviewPolicy = BY_DEFAULT) -> None:
        self.log = log
        self.policy = policy
        self._made: tuple[Sequence[Decision], Eligible] | None = None

    def now(self) -> Eligible:
        """What may be shown by all decisions that there are."""
        decisions = self.log.all()
        if self._made is None or self._made[0] is not decisions:
            self._made = decisions, Eligible(self.policy, Standings.after(decisions).all())
        return self._made[1]
