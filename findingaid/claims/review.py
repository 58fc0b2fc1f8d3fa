"""Claims as reviewers see them, and their decisions: the library behind `findingaid claims`."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from findingaid.claims.decisions import Decision, Verdict, chained, claim_of, missing, snapshots
from findingaid.claims.eligible import Eligibility, Eligible, find_waiting
from findingaid.claims.extraction import ClaimOrigin, claims_from
from findingaid.claims.model import (
    Action,
    Circulation,
    Claim,
    ClaimStatus,
    Evidence,
    Review,
    Tier,
    Truth,
    normalise_claim,
)
from findingaid.claims.redaction import complete, extractors, redacted_claims, remove, scrub, traces
from findingaid.claims.revocations import OF_ACCESS
from findingaid.claims.standing import LINKS, ClaimStatuses, require_undoable
from findingaid.corpus import Corpus
from findingaid.errors import DecomposeError, NotFoundError, QueryError, UnknownCorpusError, brief
from findingaid.protocols import Statement
from findingaid.store import Lease, Leases, Store, schemas
from findingaid.store.artifacts import COLUMNS, by_key
from findingaid.store.sql import equals, one_of
from findingaid.strategies.with_synopsis import quoted_text

SHORTEST = 6
"""Minimum characters of an abbreviated claim id; it must also match one claim only."""

BEST_FIRST = (Evidence.VERIFIED, Evidence.NONE, Evidence.FORGED)

APPROVABLE = (Truth.STABLE, Truth.ACTIONABLE, Truth.WORKING)
"""Truth values that an approval may set. CONTESTED is absent, because only other claims make a claim contested."""


@dataclass(frozen=True, slots=True)
class ProposedClaim:
    """Statement that a person attributes to an artifact; without `span`, its quote may be anywhere in the text."""

    corpus: str
    artifact_id: str
    text: str
    quote: str = ""
    span: tuple[int, int] | None = None
    type: str = "fact"
    entities: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ClaimView:
    """Claim with its status and all its evidence.

    `tier` is "" for a claim that is never cited, whichever tiers are requested. `expired`: the claim has decisions, but
    no artifact states it now. `waits`: the claim was proposed, and answers include it from the next run on.
    """

    claim_id: str
    corpus: str
    text: str
    type: str
    review: Review
    truth: Truth
    circulation: Circulation
    tier: str
    evidence: Evidence
    expired: bool
    waits: bool
    contested_by: tuple[str, ...]
    superseded_by: str
    evidences: tuple[Claim, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the claim and its evidence as a dictionary, for programs."""
        evidences = [
            {
                "artifact_id": claim.artifact_id,
                "artifact_version": claim.artifact_version,
                "quote": claim.quote,
                "span": claim.span,
                "evidence": claim.evidence,
                "verbatim": claim.verbatim,
                "confidence": claim.confidence,
                "entities": list(claim.entities),
                "producer_id": claim.producer_id,
            }
            for claim in self.evidences
        ]
        return {name: getattr(self, name) for name in self.__slots__ if name != "evidences"} | {"evidences": evidences}


@dataclass(frozen=True, slots=True)
class _Known:
    """All claims that a caller may see.

    `stated` are claims of artifacts, `told` are claims in the decision log, and `waiting` are the ids of proposed
    claims that the next run adds.
    """

    stated: Mapping[str, tuple[Claim, ...]]
    told: Mapping[str, Claim]
    waiting: frozenset[str]

    def evidences(self, claim_id: str) -> tuple[Claim, ...]:
        stated = self.stated.get(claim_id, ())
        return stated or ((self.told[claim_id],) if claim_id in self.told else ())

    def __contains__(self, claim_id: object) -> bool:
        return claim_id in self.stated or claim_id in self.told


@dataclass(frozen=True, slots=True)
class _Wish:
    action: Action
    claim: str
    other: str = ""
    truth: Truth | None = None
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Claims:
    """Claims of some corpora. Claims of other corpora are not shown, not even by an error.

    Each method that decides takes several claims, and writes all of the decisions or none. Ids may be abbreviated.
    Raises QueryError, which names the status of a claim and the decisions that are possible.
    """

    store: Store
    corpora: Mapping[str, Corpus]
    eligibility: Eligibility

    def within(self, corpora: Collection[str] | None) -> Claims:
        """Return the claims of these corpora only. Raises UnknownCorpusError for an unknown corpus."""
        for name in corpora or ():
            if name not in self.corpora:
                raise UnknownCorpusError(f"unknown corpus {name!r}. Known: {', '.join(self.corpora) or 'none'}")
        return replace(self, corpora={name: self.corpora[name] for name in corpora}) if corpora else self

    # -- reading ---------------------------------------------------------------------------------------

    def list(
        self,
        *,
        artifact: str | None = None,
        review: Review | str | None = None,
        truth: Truth | str | None = None,
        circulation: Circulation | str | None = None,
        evidence: Evidence | str | None = None,
        tier: Tier | str | None = None,
        expired: bool | None = None,
    ) -> list[ClaimView]:
        """Return the claims that match, by artifact and position; claims that are only in the log come last."""
        wanted = {"review": review, "truth": truth, "circulation": circulation, "evidence": evidence, "tier": tier}
        for name, kind in (("review", Review), ("truth", Truth), ("circulation", Circulation),
                           ("evidence", Evidence), ("tier", Tier)):  # fmt: skip
            if wanted[name] is not None and wanted[name] not in set(kind):
                raise QueryError(f"unknown {name} {wanted[name]!r}. Known: {', '.join(kind)}")
        views = self._views()
        return [
            view
            for view in views
            if all(value is None or getattr(view, name) == value for name, value in wanted.items())
            and (expired is None or view.expired is expired)
            and (artifact is None or artifact in {claim.artifact_id for claim in view.evidences})
        ]

    def show(self, claim: str) -> ClaimView:
        """Return one claim."""
        known = self._known(self.eligibility.log.all())
        return self._view(self._resolved(claim, known), known, self.eligibility.now())

    def history(self, claim: str | None = None) -> Sequence[Decision]:
        """Return all decisions, or those that name one claim, oldest first."""
        every = self.eligibility.log.all()
        decisions = [d for d in every if d.corpus in self.corpora and d.action not in OF_ACCESS]
        if claim is None:
            return decisions
        wanted = self._resolved(claim, self._known(every))
        return [decision for decision in decisions if wanted in {decision.claim_id, decision.other_id}]

    # -- deciding --------------------------------------------------------------------------------------

    def propose(self, *proposals: ProposedClaim, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Propose statements of artifacts; they are pending until they are approved.

        An approved claim is cited from the next run on. A quote that is not in its artifact is recorded as forged, and
        a forged claim cannot be approved; it may be proposed again with another quote.
        """
        _require(proposals, ProposedClaim, "propose: expected each claim as a ProposedClaim")
        who = actor or whoami()
        claims = [self._proposed(proposal, who) for proposal in proposals]

        def decide(before: Sequence[Decision]) -> Sequence[Verdict]:
            known = self._known(before)
            standings = ClaimStatuses.after(before)
            verdicts = [_verdict(Action.PROPOSE, claim) for claim in claims]
            for verdict, claim in zip(verdicts, claims, strict=True):
                if not _corrects(claim, known, standings):
                    standings.require(verdict, new=verdict.claim_id not in known)
                standings.take(verdict)
            return verdicts

        return self._decide(decide, len(proposals), actor, reason)

    def approve(
        self, *claims: str, truth: Truth | str = Truth.STABLE, actor: str | None = None, reason: str = ""
    ) -> Sequence[ClaimView]:
        """Approve claims; `truth` says how far they can be relied on: stable, actionable or working.

        The truth of an approved claim is changed by approving it again.
        """
        if truth not in APPROVABLE:
            raise QueryError(f"unknown truth {truth!r} of an approved claim. Known: {', '.join(APPROVABLE)}")
        return self._each([_Wish(Action.APPROVE, claim, truth=Truth(truth)) for claim in claims], actor, reason)

    def reject(self, *claims: str, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Record that claims do not hold, and why. Raises QueryError if the reason is empty."""
        if not (reason or "").strip():
            raise QueryError("reject: a reason is required")
        return self._each([_Wish(Action.REJECT, claim) for claim in claims], actor, reason)

    def contest(self, *pairs: tuple[str, str], actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Record for each pair of claims that at most one of the two can be right."""
        return self._each([_Wish(Action.CONTEST, *_pair(Action.CONTEST, pair)) for pair in pairs], actor, reason)

    def supersede(self, *pairs: tuple[str, str], actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Replace the first claim of each pair by the second."""
        return self._each([_Wish(Action.SUPERSEDE, *_pair(Action.SUPERSEDE, pair)) for pair in pairs], actor, reason)

    def archive(self, *claims: str, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Take claims out of use without saying whether they are right."""
        return self._each([_Wish(Action.ARCHIVE, claim) for claim in claims], actor, reason)

    def restore(self, *claims: str, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Take archived or superseded claims into use again, with the review and truth that they had."""
        return self._each([_Wish(Action.RESTORE, claim) for claim in claims], actor, reason)

    def undo(self, *numbers: int, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Undo decisions by their numbers, the newest first, so that each claim is as it was before.

        An undo is a decision too, and can be undone by its own number. Raises QueryError for a proposal, a redaction,
        and a decision whose claim has a later one that is in effect.
        """
        if not numbers:
            raise QueryError("undo: name the number of a decision")
        _require(numbers, int, "undo: expected each number as an argument of its own")
        who = actor or whoami()

        def decide(before: Sequence[Decision]) -> Sequence[Verdict]:
            log = list(before)
            verdicts = []
            for number in sorted(set(numbers), reverse=True):
                own = (d for d in log if d.corpus in self.corpora and d.action not in OF_ACCESS)
                wanted = next((d for d in own if d.seq == number), None)
                if wanted is None:
                    raise NotFoundError(f"no decision {number}: `findingaid claims history` shows numbers")
                require_undoable(wanted, log)
                of = wanted.corpus, wanted.claim_id, wanted.artifact_id, wanted.other_id
                verdicts.append(Verdict(Action.UNDO, *of, details={"undoes": number}))
                log += chained(log, verdicts[-1:], who, reason)
            return verdicts

        return self._decide(decide, len(numbers), who, reason)

    def redact(self, *claims: str, actor: str | None = None, reason: str = "") -> Sequence[ClaimView]:
        """Remove the words of claims from everything that findingaid keeps, for good.

        The log still shows that decisions were taken. The claims are hidden at once. The next run rewrites the data
        that contains them, then `purge` removes them from disk. The text of their artifacts stays in the source, and in
        the records of its passages.
        """
        known = self._known(self.eligibility.log.all())
        ids = [self._resolved(claim, known) for claim in claims]
        named = {i: known.evidences(i) for i in ids}
        said = [text for of in named.values() for c in of for text in (c.text, c.quote) if text]
        if any(normalise_claim(text) in normalise_claim(reason) for text in said):
            raise QueryError("redact: the reason repeats the text to redact, and reasons are kept: reword it")
        answering = extractors(self.corpora.values())
        found = traces(self.store, named, answering)
        done = self._each([_Wish(Action.REDACT, i, details=found[i]) for i in ids], actor, reason)
        complete(self.store, self.eligibility.log, answering, Lease(Leases(self.store)))
        return done

    def import_log(self, exported: Sequence[Decision]) -> int:
        """Append the decisions of an exported log that this store lacks; return how many there were.

        What this store keeps of claims that they redact is removed first: their words are in no log after that. Raises
        StoreError if the chain of the exported log is broken, or if it does not continue the log of this store.
        """
        log = self.eligibility.log
        known = self._known(before := log.all())
        gone = {i: corpus for i, corpus in redacted_claims(missing(before, exported)).items() if i in known}
        answering = extractors(self.corpora.values())
        found = traces(self.store, {i: known.evidences(i) for i in gone}, answering) if gone else {}
        lease = Lease(Leases(self.store))
        for claim, of in found.items():
            remove(self.store, gone[claim], of, lease)
        count = log.restore(exported)
        scrub(self.store, log.all(), answering)
        return count

    # --------------------------------------------------------------------------------------------------

    def _each(self, wishes: Sequence[_Wish], actor: str | None, reason: str) -> Sequence[ClaimView]:
        def decide(before: Sequence[Decision]) -> Sequence[Verdict]:
            known = self._known(before)
            standings = ClaimStatuses.after(before)
            verdicts = []
            for wish in wishes:
                verdict = self._wished(wish, known)
                standings.require(verdict)
                _require_approvable(verdict, known)
                standings.take(verdict)
                verdicts.append(verdict)
            return verdicts

        return self._decide(decide, len(wishes), actor, reason)

    def _decide(self, decide: Any, count: int, actor: str | None, reason: str) -> Sequence[ClaimView]:
        if not count:
            raise QueryError("nothing to decide: name a claim")
        _require([actor or "", reason], str, "actor and reason: expected texts")
        try:
            added = self.eligibility.log.decide(decide, actor or whoami(), reason)
        except QueryError as error:
            raise QueryError(f"{error}{'' if count == 1 else '; nothing of the batch was written'}") from None
        known, eligible = self._known(self.eligibility.log.all()), self.eligibility.now()
        return [self._view(decision.claim_id, known, eligible) for decision in added]

    def _wished(self, wish: _Wish, known: _Known) -> Verdict:
        claim = known.evidences(self._resolved(wish.claim, known))[0]
        if wish.action is Action.REDACT:  # the row that remains must not repeat the redacted words
            return Verdict(wish.action, claim.corpus, claim.claim_id, claim.artifact_id, details=wish.details)
        verdict = _verdict(wish.action, claim, wish.truth)
        if wish.action not in LINKS:
            return verdict
        other = known.evidences(self._resolved(wish.other, known))[0]
        if other.corpus != claim.corpus:
            raise QueryError(f"{wish.action} {claim.claim_id}: {other.claim_id} belongs to another corpus")
        return replace(verdict, other_id=other.claim_id, details={**(verdict.details or {}), "other": _said(other)})

    def _proposed(self, proposal: ProposedClaim, actor: str) -> Claim:
        if proposal.corpus not in self.corpora:
            raise UnknownCorpusError(f"unknown corpus {proposal.corpus!r}. Known: {', '.join(self.corpora) or 'none'}")
        if not normalise_claim(proposal.text):
            raise QueryError("propose: the statement is empty")
        if self.corpora[proposal.corpus].claims is None:
            raise QueryError(f"propose: {proposal.corpus} has no claims: set corpora.{proposal.corpus}.claims")
        source, version = self._text(proposal.corpus, proposal.artifact_id)
        said = Statement(proposal.text, proposal.quote, proposal.span, proposal.type, 1.0, proposal.entities)
        claims, refused = claims_from(
            [said], ClaimOrigin(proposal.corpus, proposal.artifact_id, version, source, actor), refuses=False
        )
        if not claims:
            raise QueryError(f"propose: {refused[0]}")
        return claims[0]

    def _text(self, corpus: str, artifact_id: str) -> tuple[str, str]:
        """Return the text of an artifact as claims quote it, and the artifact's version."""
        of = f"{equals('corpus', corpus)} AND {equals('artifact_id', artifact_id)}"
        found = by_key(self.store.published_rows("artifacts", COLUMNS, of))
        if not found:
            raise NotFoundError(f"propose: no artifact {artifact_id!r} is published in {corpus}")
        artifact, version = found[corpus, artifact_id]
        try:
            return quoted_text(self.corpora[corpus].strategy, artifact), version
        except DecomposeError as error:
            raise QueryError(f"propose: {corpus}/{artifact_id} has no text: {error}") from None

    # -- loading ---------------------------------------------------------------------------------------

    def _views(self) -> Sequence[ClaimView]:
        known, eligible = self._known(self.eligibility.log.all()), self.eligibility.now()
        ids = dict.fromkeys([*known.stated, *known.told])
        return [self._view(i, known, eligible) for i in ids]

    def _known(self, decisions: Iterable[Decision]) -> _Known:
        own = [d for d in decisions if d.corpus in self.corpora and d.action not in OF_ACCESS]
        stated: dict[str, list[Claim]] = {}
        if self.store.exists():
            rows = self.store.published_rows("claims", schemas.CLAIMS.names, one_of("corpus", self.corpora)).to_pylist()
            for row in sorted(rows, key=lambda row: (row["corpus"], row["artifact_id"], row["position"])):
                stated.setdefault(row["claim_id"], []).append(claim_of(row))
        gone = redacted_claims(own)
        for i in gone:
            stated.pop(i, None)
        told: dict[str, Claim] = {}
        for claim in (claim for decision in own for claim in snapshots(decision)):
            if claim.artifact_version or claim.claim_id not in told:  # a redacted snapshot does not replace a full one
                told[claim.claim_id] = claim
        proposed = {d.claim_id: (d.corpus, d.artifact_id) for d in own if d.action is Action.PROPOSE}
        for i in proposed:
            if i in told and _replaces(told[i], stated.get(i, ())):
                stated.pop(i, None)
        waiting = find_waiting(self.store, {i: of for i, of in proposed.items() if i not in stated})
        return _Known({i: tuple(claims) for i, claims in stated.items()}, told, waiting)

    def _resolved(self, wanted: str, known: _Known) -> str:
        """Return the full id of a claim. Raises QueryError, the same whether or not another corpus has the claim."""
        _require([wanted], str, "expected the id of a claim, each as an argument of its own")
        if wanted in known:
            return wanted
        found = {i for i in (*known.stated, *known.told) if i.startswith(wanted)} if len(wanted) >= SHORTEST else set()
        if len(found) == 1:
            return found.pop()
        if found:
            raise QueryError(f"{len(found)} claims begin with {wanted!r}: give a longer part of the id")
        raise NotFoundError(f"no claim {wanted!r}: `findingaid claims list` shows ids")

    def _view(self, claim_id: str, known: _Known, eligible: Eligible) -> ClaimView:
        standing = eligible.standing(claim_id)
        evidences = known.evidences(claim_id)
        first = min(evidences, key=lambda claim: BEST_FIRST.index(claim.evidence))
        waits = claim_id in known.waiting and claim_id not in known.stated and not _gone(standing)
        expired = claim_id not in known.stated and not waits and not _gone(standing)
        shown = not (expired or standing.retracted or first.evidence is Evidence.FORGED)
        tiers = {eligible.tier(claim_id, claim.evidence, claim.verbatim) for claim in evidences}
        tier = next(tier for tier in Tier if tier in tiers).value if shown else ""
        return ClaimView(
            claim_id, first.corpus, first.text, first.type, standing.review, standing.truth, standing.circulation, tier,
            first.evidence, expired, waits, standing.contested_by, standing.superseded_by, evidences,
        )  # fmt: skip


def _require(given: Iterable[object], kind: type, expected: str) -> None:
    """Raise QueryError unless each argument is of this kind."""
    for each in given:
        if not isinstance(each, kind):
            raise QueryError(f"{expected}, got {brief(str(each))}")


def _pair(action: Action, given: Sequence[str]) -> tuple[str, str]:
    """Return the two claims of a pair. Raises QueryError for anything else, such as a claim on its own."""
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    raise QueryError(f'{action}: expected pairs of claims, as in {action}(("a", "b")), got {brief(str(given))}')


def whoami() -> str:
    """Return the name of the user who runs this process, or "unknown"."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _gone(standing: ClaimStatus) -> bool:
    return standing.circulation is Circulation.REDACTED


def _corrects(claim: Claim, known: _Known, standings: ClaimStatuses) -> bool:
    """Return whether a proposal gives a sound quote for a live claim whose evidence is all forged."""
    evidences = known.evidences(claim.claim_id)
    forged = bool(evidences) and all(one.evidence is Evidence.FORGED for one in evidences)
    live = standings.of(claim.claim_id).circulation is Circulation.LIVE
    return live and forged and claim.evidence is not Evidence.FORGED


def _replaces(proposed: Claim, stated: Iterable[Claim]) -> bool:
    """Return whether a proposed claim with a sound quote replaces evidence of the same version that is all forged."""
    forged = all((c.evidence, c.artifact_version) == (Evidence.FORGED, proposed.artifact_version) for c in stated)
    return proposed.evidence is not Evidence.FORGED and forged


def _require_approvable(verdict: Verdict, known: _Known) -> None:
    """Raise QueryError for the approval of a claim that is expired, or whose evidence is all forged."""
    if verdict.action is not Action.APPROVE:
        return
    evidences = known.evidences(verdict.claim_id)
    if verdict.claim_id not in known.stated and verdict.claim_id not in known.waiting:
        raise QueryError(f"approve {verdict.claim_id}: it is expired: {evidences[0].artifact_id} no longer states it")
    if all(claim.evidence is Evidence.FORGED for claim in evidences):
        raise QueryError(f"approve {verdict.claim_id}: its quote is not in {evidences[0].artifact_id}: it is forged")


def _verdict(action: Action, claim: Claim, truth: Truth | None = None) -> Verdict:
    said = _said(claim)
    text, quote = said.pop("text"), said.pop("quote")
    return Verdict(action, claim.corpus, claim.claim_id, claim.artifact_id, "", truth, text, quote, said)


def _said(claim: Claim) -> dict[str, Any]:
    """Return a claim in the form that a decision keeps."""
    return {**asdict(claim), "span": claim.span and list(claim.span), "entities": list(claim.entities)}
