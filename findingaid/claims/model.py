"""Data types of claims: statements, their evidence, and the review decisions about them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from findingaid.identity.hashes import content_hash, record_id
from findingaid.model import CLAIM, SUMMARY, Outcome
from findingaid.protocols import Bullet, Statement

SPACES = re.compile(r"\s+")


class Evidence(StrEnum):
    """Result of looking up a claim's quote in its artifact. FORGED: the artifact's text does not contain the quote."""

    VERIFIED = "verified"
    FORGED = "forged"
    NONE = "none"


class Review(StrEnum):
    """Review status of a claim. PENDING: proposed by a person and not yet reviewed."""

    UNREVIEWED = "unreviewed"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Truth(StrEnum):
    """How far a claim can be relied on. CONTESTED: another live claim contradicts it."""

    WORKING = "working"
    ACTIONABLE = "actionable"
    STABLE = "stable"
    CONTESTED = "contested"


class Circulation(StrEnum):
    """Whether a claim is in use and, if not, why."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    REDACTED = "redacted"


class Tier(StrEnum):
    """Why a claim may be cited: a person approved it, the policy did without a person, or neither did yet."""

    APPROVED = "approved"
    POLICY = "policy"
    UNREVIEWED = "unreviewed"


class Action(StrEnum):
    """Action of a decision about a claim. CONTEST and SUPERSEDE also name a second claim, UNDO an earlier decision.

    REVOKE and ADMIT are about access instead, see `findingaid.claims.revocations`.
    """

    PROPOSE = "propose"
    APPROVE = "approve"
    REJECT = "reject"
    CONTEST = "contest"
    SUPERSEDE = "supersede"
    ARCHIVE = "archive"
    RESTORE = "restore"
    REDACT = "redact"
    UNDO = "undo"
    REVOKE = "revoke"
    ADMIT = "admit"


@dataclass(frozen=True, slots=True)
class Claim:
    """Statement made by one artifact, checked against the artifact's text.

    `verbatim`: the statement is its quote, word for word. The same statement in two artifacts of a corpus yields two
    `Claim` objects with one `claim_id`, each with its own evidence.
    """

    claim_id: str
    corpus: str
    artifact_id: str
    text: str
    type: str
    confidence: float
    entities: Sequence[str]
    quote: str
    span: tuple[int, int] | None
    evidence: Evidence
    verbatim: bool
    producer_id: str
    artifact_version: str

    @property
    def record_id(self) -> str:
        """Id of the claim's record; an artifact has one record for each of its claims."""
        return record_id(self.corpus, self.artifact_id, CLAIM, self.claim_id)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ClaimStatus:
    """Status of a claim after all decisions. `contested_by` and `superseded_by` hold the ids of other claims."""

    review: Review = Review.UNREVIEWED
    truth: Truth = Truth.WORKING
    circulation: Circulation = Circulation.LIVE
    contested_by: tuple[str, ...] = ()
    superseded_by: str = ""

    @property
    def retracted(self) -> bool:
        """Whether the claim must not be shown as valid: it is not live, rejected, or pending."""
        return self.circulation is not Circulation.LIVE or self.review in {Review.REJECTED, Review.PENDING}


@dataclass(frozen=True, slots=True)
class SummaryNode:
    """Summary over the live claims of one artifact: 3 to 7 bullets, each citing members."""

    node_id: str
    corpus: str
    artifact_id: str
    bullets: tuple[Bullet, ...]
    themes: tuple[str, ...]
    confidence: float
    members: tuple[str, ...]
    producer_id: str

    @property
    def record_id(self) -> str:
        return record_id(self.corpus, self.artifact_id, SUMMARY, self.node_id)


@dataclass(frozen=True, slots=True)
class ClaimsResult:
    """Result of claim extraction for one artifact. `key` is that of the call in the call cache, "" without a call.

    `absence` is why there is no claim, if the outcome is EMPTY.
    """

    outcome: Outcome
    claims: tuple[Claim, ...] = ()
    refused: tuple[str, ...] = ()
    kind: str = ""
    message: str = ""
    key: str = ""
    absence: str = ""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """Result of summarizing the claims of one artifact. SKIPPED: the artifact has too few claims."""

    outcome: Outcome
    node: SummaryNode | None = None
    members: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()
    kind: str = ""
    message: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Statement attributed to an artifact, with its producer.

    The producer is the person who proposed the statement, or the extractor of a claim that has decisions. With
    `while_quoted`, the statement is a claim only as long as its quote is in the text.
    """

    statement: Statement
    producer_id: str
    while_quoted: bool = False


@dataclass(frozen=True)
class Decided:
    """Review decisions that the claims of a corpus are built from.

    `proposals` are keyed by artifact id. Claims in `redacted` are never built again. No summary node may cite claims in
    `retracted`, which includes `redacted`. Claims in `reviewed` have at least one decision, and are kept even if they
    nearly repeat another claim.
    """

    proposals: Mapping[str, Sequence[Proposal]] = field(default_factory=dict)
    redacted: frozenset[str] = frozenset()
    retracted: frozenset[str] = frozenset()
    reviewed: frozenset[str] = frozenset()

    def touching(self, artifact_id: str, claim_ids: Iterable[str], nodes: bool) -> str:
        """Return a hash of the decisions that affect an artifact with these claims; "" if none do.

        With `nodes`, retracted claims count too, because no summary node may cite them.
        """
        against = self.redacted | self.retracted if nodes else self.redacted
        proposals = [asdict(proposal) for proposal in self.proposals.get(artifact_id, ())]
        parts = (proposals, sorted(against.intersection(claim_ids)))
        return content_hash(*parts) if any(parts) else ""


NOTHING_DECIDED = Decided()


def claim_id(corpus: str, text: str) -> str:
    """Return the id of a statement within a corpus; case, white space and a final `.` or `!` do not change it."""
    return content_hash("claim", corpus, normalise_claim(text))


def normalise_claim(text: str) -> str:
    """Return a statement in the form that is compared: NFKC, casefolded, single spaces, no final `.` or `!`."""
    return SPACES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip().rstrip(".!")


def evidence_of(text: str, quote: str, span: tuple[int, int] | None) -> Evidence:
    """Check a quote against an artifact's text: at `span` if it is given, else anywhere."""
    if not quote.strip():
        return Evidence.NONE
    if span is None:
        return Evidence.VERIFIED if quote in text else Evidence.FORGED
    return Evidence.VERIFIED if 0 <= span[0] <= span[1] and text[slice(*span)] == quote else Evidence.FORGED
