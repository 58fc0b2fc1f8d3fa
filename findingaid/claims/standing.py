"""Status of each claim: a pure fold over the decisions in effect, with the decisions that may follow.

action      allowed for a claim that is                makes it
propose     new, live and rejected, or live with       pending
            forged quotes only
approve     live, not rejected, not forged             approved, and working, actionable or stable
reject      live, unreviewed, pending or approved      rejected
contest     live, not rejected; so is the other        contested, as long as the other is live and not rejected;
                                                       the other likewise
supersede   live, not rejected; so is the other        superseded by the other, until that is rejected, archived
                                                       or redacted
archive     live                                       archived
restore     archived or superseded                     live
redact      not redacted                               redacted

An undo takes back one decision, so that the claim is as it was before, see `require_undoable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from findingaid.claims.decisions import Decision, Verdict, in_effect, snapshots, undone_by
from findingaid.claims.model import Action, Circulation, Claim, ClaimStatus, Decided, Proposal, Review, Truth
from findingaid.errors import QueryError
from findingaid.protocols import Statement

UNTOUCHED = ClaimStatus()
"""Status of a claim without decisions."""

LINKS = (Action.CONTEST, Action.SUPERSEDE)
"""Actions that name two claims."""

NOT_REJECTED = frozenset({Review.UNREVIEWED, Review.PENDING, Review.APPROVED})

MAY: Mapping[Action, frozenset[Review]] = {
    Action.PROPOSE: frozenset({Review.REJECTED}),
    Action.APPROVE: NOT_REJECTED,
    Action.REJECT: NOT_REJECTED,
    Action.CONTEST: NOT_REJECTED,
    Action.SUPERSEDE: NOT_REJECTED,
    Action.ARCHIVE: frozenset(Review),
    Action.REDACT: frozenset(Review),
}
"""Review statuses in which an action is allowed. A claim that is not live can only be restored or redacted."""


@dataclass
class ClaimStatuses:
    """Status of every claim that has decisions, updated decision by decision."""

    _own: dict[str, ClaimStatus] = field(default_factory=dict)
    _contests: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def after(cls, decisions: Iterable[Decision]) -> ClaimStatuses:
        """Return the statuses after all of these decisions; those that were undone do not count."""
        standings = cls()
        for decision in in_effect(decisions):
            standings.take(decision)
        return standings

    def of(self, claim_id: str) -> ClaimStatus:
        """Return the status of a claim.

        It is contested while a claim that contests it is live and not rejected, and superseded until the claim in its
        place is rejected or taken out of use.
        """
        own = self._own.get(claim_id, UNTOUCHED)
        if self._is_offered_again(own):
            own = replace(own, circulation=Circulation.LIVE, superseded_by="")
        against = tuple(other for other in self._contests.get(claim_id, ()) if self._counts(other))
        return replace(own, truth=Truth.CONTESTED, contested_by=against) if against else own

    def all(self) -> dict[str, ClaimStatus]:
        """Return the status of every claim that a decision names."""
        return {claim_id: self.of(claim_id) for claim_id in self._own}

    def take(self, decision: Decision | Verdict) -> None:
        """Apply one decision."""
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
            case Action.RESTORE:
                own = replace(own, circulation=Circulation.LIVE, superseded_by="")
            case Action.REDACT:
                own = replace(own, circulation=Circulation.REDACTED)
        self._own[decision.claim_id] = own
        if decision.other_id:
            self._own.setdefault(decision.other_id, UNTOUCHED)

    def possible(self, claim_id: str) -> list[Action]:
        """Return the actions that are allowed for a known claim."""
        standing = self.of(claim_id)
        if standing.circulation is Circulation.REDACTED:
            return []
        if standing.circulation is not Circulation.LIVE:
            return [Action.RESTORE, Action.REDACT]
        return [action for action, reviews in MAY.items() if standing.review in reviews]

    def require(self, verdict: Verdict, new: bool = False) -> None:
        """Raise QueryError, with the status of the claim and the allowed actions, unless the verdict is allowed.

        `new`: as far as is known, no artifact states the claim.
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
            stands = status_in_words(self.of(claim_id))
            raise QueryError(f"{action} {claim_id}: it is {stands}. Possible: {', '.join(possible) or 'nothing'}")

    def _counts(self, claim_id: str) -> bool:
        """Return whether a claim is live and not rejected, so that it contests others."""
        own = self._own.get(claim_id, UNTOUCHED)
        live = own.circulation is Circulation.LIVE or self._is_offered_again(own)
        return live and own.review is not Review.REJECTED

    def _is_offered_again(self, own: ClaimStatus) -> bool:
        """Return whether a claim was superseded by one that was rejected or taken out of use since."""
        if own.circulation is not Circulation.SUPERSEDED:
            return False
        other = self._own[own.superseded_by]
        fallen = other.circulation in {Circulation.ARCHIVED, Circulation.REDACTED}
        return fallen or other.review is Review.REJECTED

    def _link(self, one: str, other: str) -> None:
        for claim_id, against in ((one, other), (other, one)):
            self._contests.setdefault(claim_id, []).append(against)


def require_undoable(wanted: Decision, decisions: Sequence[Decision]) -> None:
    """Raise QueryError unless a decision may be undone.

    It must be in effect, and no later decision that is in effect may have changed its claim. A contest changes neither
    claim, so it may be undone at any time.
    """
    redacted = {decision.claim_id for decision in decisions if decision.action is Action.REDACT}
    if gone := redacted & {wanted.claim_id, wanted.other_id}:
        raise QueryError(f"undo {wanted.seq}: claim {min(gone)} is redacted, which is final")
    if wanted.action is Action.PROPOSE:
        raise QueryError(f"undo {wanted.seq}: a proposal cannot be undone: reject or archive claim {wanted.claim_id}")
    undone = undone_by(decisions)
    if by := undone.get(wanted.seq):
        raise QueryError(f"undo {wanted.seq}: decision {by} undid it. To bring it back, undo {by}")
    numbered = {decision.seq: decision for decision in decisions}
    if _origin(wanted, numbered).action is Action.CONTEST:
        return
    for later in decisions[wanted.seq :]:
        within = (later.undoes or 0) > wanted.seq  # it takes back a later decision
        changes = later.claim_id == wanted.claim_id and _origin(later, numbered).action is not Action.CONTEST
        if changes and not within and later.seq not in undone:
            remedy = "take a new decision" if later.action is Action.PROPOSE else "undo that one first"
            raise QueryError(
                f"undo {wanted.seq}: decision {later.seq} ({later.action}) changed its claim later: {remedy}"
            )


def _origin(decision: Decision, numbered: Mapping[int, Decision]) -> Decision:
    """Return the decision that a chain of undos is about; the decision itself if it is not an undo."""
    while (before := numbered.get(decision.undoes or 0)) and before.seq < decision.seq:
        decision = before
    return decision


def status_in_words(standing: ClaimStatus) -> str:
    """Return the status of a claim in words."""
    words = [standing.review.value]
    if standing.circulation is not Circulation.LIVE:
        words.append(standing.circulation.value)
    return " and ".join(words)


def replay_decisions(corpus: str, decisions: Iterable[Decision]) -> Decided:
    """Return the decisions that the claims of a corpus are built from.

    A statement that a person proposed is a claim whatever its artifact's text says. A claim that an extractor had found
    when it was decided on stays a claim as long as its quote is in the text, even if the current extractor does not
    find it.
    """
    own = in_effect(decision for decision in decisions if decision.corpus == corpus)
    standings = ClaimStatuses.after(own).all()
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
