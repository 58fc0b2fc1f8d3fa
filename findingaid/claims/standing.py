"""Where each claim stands: a pure fold over the decisions, and which decisions may follow.

action      of a claim that is                         makes it
propose     new, or live and rejected                  pending
approve     live, unreviewed or pending, not forged    approved, and working, actionable or stable
reject      live, unreviewed, pending or approved      rejected
contest     live, not rejected; so is the other        contested, as long as the other is live and not rejected;
                                                       the other likewise
supersede   live, not rejected; so is the other        superseded by the other
archive     live                                       archived
redact      not redacted                               redacted
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from findingaid.claims.decisions import Decision, Verdict, snapshots
from findingaid.claims.model import Action, Circulation, Claim, Decided, Proposal, Review, Standing, Truth
from findingaid.errors import QueryError
from findingaid.model import Statement

UNTOUCHED = Standing()
"""Of a claim of which nobody decided anything."""

LINKS = (Action.CONTEST, Action.SUPERSEDE)
"""What is decided of two claims."""

NOT_REJECTED = frozenset({Review.UNREVIEWED, Review.PENDING, Review.APPROVED})

MAY: Mapping[Action, frozenset[Review]] = {
    Action.PROPOSE: frozenset({Review.REJECTED}),
    Action.APPROVE: frozenset({Review.UNREVIEWED, Review.PENDING}),
    Action.REJECT: NOT_REJECTED,
    Action.CONTEST: NOT_REJECTED,
    Action.SUPERSEDE: NOT_REJECTED,
    Action.ARCHIVE: frozenset(Review),
    Action.REDACT: frozenset(Review),
}
"""Which reviews an action may follow. Of a claim that is not live nothing but a redaction is left to decide."""


@dataclass
class Standings:
    """All claims of which anything was decided, as the decisions come."""

    _own: dict[str, Standing] = field(default_factory=dict)
    _contests: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def after(cls, decisions: Iterable[Decision]) -> Standings:
        """Where claims stand when all of these were taken."""
        standings = cls()
        for decision in decisions:
            standings.take(decision)
        return standings

    def of(self, claim_id: str) -> Standing:
        """Where a claim stands; contested is seen from what stands against it now."""
        own = self._own.get(claim_id, UNTOUCHED)
        against = tuple(other for other in self._contests.get(claim_id, ()) if self._counts(other))
        return replace(own, truth=Truth.CONTESTED, contested_by=against) if against else own

    def all(self) -> dict[str, Standing]:
        """Every claim that a decision names, and where it stands."""
        return {claim_id: self.of(claim_id) for claim_id in self._own}

    def take(self, decision: Decision | Verdict) -> None:
        """Go on from one decision."""
        own = self._own.get(decision.claim_id, UNTOUCHED)
        match decision.action:
            case Action.PROPOSE:
                own = replace(own, review=Review.PENDING, truth=Truth.WORKING)
            case Action.APPROVE:
                own = replace(own, review=Review.APPROVED, truth=Truth(decision.truth or Truth.STABLE))
            case Action.REJECT:
                own = replace(own, review=Review.REJECTED)
            case Action.CONTEST:
                self._link(decision.claim_id, decision.other_id)
            case Action.SUPERSEDE:
                own = replace(own, circulation=Circulation.SUPERSEDED, superseded_by=decision.other_id)
            case Action.ARCHIVE:
                own = replace(own, circulation=Circulation.ARCHIVED)
            case Action.REDACT:
                own = replace(own, circulation=Circulation.REDACTED)
        self._own[decision.claim_id] = own
        if decision.other_id:
            self._own.setdefault(decision.other_id, UNTOUCHED)

    def possible(self, claim_id: str) -> list[Action]:
        """What may be decided of a claim that is known."""
        standing = self.of(claim_id)
        if standing.circulation is Circulation.REDACTED:
            return []
        if standing.circulation is not Circulation.LIVE:
            return [Action.REDACT]
        return [action for action in Action if standing.review in MAY[action]]

    def require(self, verdict: Verdict, new: bool = False) -> None:
        """Raises QueryError, naming where a claim stands and what is possible, unless this may be decided of it.

        `new`: no artifact says it, as far as is known.
        """
        if new and verdict.action is Action.PROPOSE and verdict.claim_id not in self._own:
            return
        if verdict.action not in LINKS:
            self._require(verdict.action, verdict.claim_id)
            return
        if verdict.claim_id == verdict.other_id:
            raise QueryError(f"{verdict.action} {verdict.claim_id}: a claim cannot {verdict.action} itself")
        for claim_id in (verdict.claim_id, verdict.other_id):
            self._require(verdict.action, claim_id)
        if verdict.action is Action.CONTEST and verdict.other_id in self._contests.get(verdict.claim_id, ()):
            raise QueryError(f"contest {verdict.claim_id}: {verdict.other_id} contests it already")

    def _require(self, action: Action, claim_id: str) -> None:
        possible = self.possible(claim_id)
        if action not in possible:
            stands = described(self.of(claim_id))
            raise QueryError(f"{action} {claim_id}: it is {stands}. Possible: {', '.join(possible) or 'nothing'}")

    def _counts(self, claim_id: str) -> bool:
        own = self._own.get(claim_id, UNTOUCHED)
        return own.circulation is Circulation.LIVE and own.review is not Review.REJECTED

    def _link(self, one: str, other: str) -> None:
        for claim_id, against in ((one, other), (other, one)):
            self._contests.setdefault(claim_id, []).append(against)


def described(standing: Standing) -> str:
    """Where a claim stands, in words."""
    words = [standing.review.value]
    if standing.circulation is not Circulation.LIVE:
        words.append(standing.circulation.value)
    return " and ".join(words)


def decided(corpus: str, decisions: Iterable[Decision]) -> Decided:
    """What of all decisions the claims of a corpus are built from.

    What people proposed is a claim whatever becomes of its text. What an extractor had found when something was decided
    of it is one as long as its quote is there, whether or not the extractor of today finds it.
    """
    own = [decision for decision in decisions if decision.corpus == corpus]
    standings = Standings.after(own).all()
    gone = {claim_id for claim_id, standing in standings.items() if standing.circulation is Circulation.REDACTED}
    known: dict[str, tuple[Claim, bool]] = {}
    for decision in own:
        for claim in snapshots(decision):
            proposed = decision.action is Action.PROPOSE and claim.claim_id == decision.claim_id
            if claim.artifact_version and (proposed or claim.claim_id not in known):
                known[claim.claim_id] = claim, proposed
    proposals: dict[str, list[Proposal]] = {}
    for claim, proposed in known.values():
        if claim.claim_id not in gone and (proposed or claim.quote):
            proposals.setdefault(claim.artifact_id, []).append(_proposal(claim, while_quoted=not proposed))
    retracted = frozenset(claim_id for claim_id, standing in standings.items() if standing.retracted)
    return Decided(proposals, frozenset(gone), retracted, frozenset(standings))


def _proposal(claim: Claim, while_quoted: bool) -> Proposal:
    said = Statement(claim.text, claim.quote, claim.span, claim.type, claim.confidence, claim.entities)
    return Proposal(said, claim.producer_id, while_quoted)
