"""The words of claims as frozen types: what is stated, where it stands, and what people decided of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from findingaid.identity import content_hash, record_id
from findingaid.model import CLAIM, SUMMARY, Bullet, Outcome, Statement

SPACES = re.compile(r"\s+")


class Evidence(StrEnum):
    """Whether the passage that a claim quotes is in its artifact. Forged: it quotes what is not there."""

    VERIFIED = "verified"
    FORGED = "forged"
    NONE = "none"


class Review(StrEnum):
    """What a person said of a claim; pending is what a person proposed and nobody has judged."""

    UNREVIEWED = "unreviewed"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Truth(StrEnum):
    """How far a claim can be relied on; contested while another one that is live says otherwise."""

    WORKING = "working"
    ACTIONABLE = "actionable"
    STABLE = "stable"
    CONTESTED = "contested"


class Circulation(StrEnum):
    """Whether a claim is in use."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    REDACTED = "redacted"


class Tier(StrEnum):
    """Why a claim may be cited: a person approved it, the policy did (nobody looked), or nothing yet."""

    APPROVED = "approved"
    POLICY = "policy"
    UNREVIEWED = "unreviewed"


class Action(StrEnum):
    """What can be decided of a claim; contest and supersede name another one."""

    PROPOSE = "propose"
    APPROVE = "approve"
    REJECT = "reject"
    CONTEST = "contest"
    SUPERSEDE = "supersede"
    ARCHIVE = "archive"
    REDACT = "redact"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of one artifact, checked against its text. `verbatim`: it is the quote, word for word.

    The same words in two artifacts of a corpus are one claim with two evidences: two of these with one `claim_id`.
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
        """The id of the claim's record, of which an artifact has one a claim."""
        return record_id(self.corpus, self.artifact_id, CLAIM, self.claim_id)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a claim stands by all decisions; `by` are the ids of what contests or supersedes it."""

    review: Review = Review.UNREVIEWED
    truth: Truth = Truth.WORKING
    circulation: Circulation = Circulation.LIVE
    contested_by: tuple[str, ...] = ()
    superseded_by: str = ""

    @property
    def retracted(self) -> bool:
        """Whether nobody may be shown it as something that is held."""
        return self.circulation is not Circulation.LIVE or self.review in {Review.REJECTED, Review.PENDING}


@dataclass(frozen=True, slots=True)
class SummaryNode:
    """A summary over the live claims of one artifact: 3 to 7 bullets, each citing members."""

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
class Claimed:
    """What became of the claims of one artifact; `key` is that of the call in the call cache, where there was one."""

    outcome: Outcome
    claims: tuple[Claim, ...] = ()
    refused: tuple[str, ...] = ()
    kind: str = ""
    message: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Noded:
    """What became of the summary node of one artifact; skipped is one that has too few claims."""

    outcome: Outcome
    node: SummaryNode | None = None
    members: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()
    kind: str = ""
    message: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A statement that somebody says an artifact makes, and who: a person, or of what was decided of its extractor.

    One `while_quoted` is a claim only as long as its quote is in the text.
    """

    statement: Statement
    producer_id: str
    while_quoted: bool = False


@dataclass(frozen=True)
class Decided:
    """What of people's decisions the claims of a corpus are built from.

    `proposals` are by artifact. The ids `redacted` are never built again, on those `retracted`, which they are among,
    no summary stands, and those `reviewed`, of which anything was decided, are not dropped for being near another.
    """

    proposals: Mapping[str, Sequence[Proposal]] = field(default_factory=dict)
    redacted: frozenset[str] = frozenset()
    retracted: frozenset[str] = frozenset()
    reviewed: frozenset[str] = frozenset()

    def touching(self, artifact_id: str, claim_ids: Iterable[str], nodes: bool) -> str:
        """A hash of what of this is for an artifact with these claims; "" where nothing is."""
        against = self.redacted | self.retracted if nodes else self.redacted
        proposals = [asdict(proposal) for proposal in self.proposals.get(artifact_id, ())]
        parts = (proposals, sorted(against.intersection(claim_ids)))
        return content_hash(*parts) if any(parts) else ""


NOTHING_DECIDED = Decided()


def nothing_decided(corpus: str) -> Decided:
    """What is decided of a corpus where nobody decides anything."""
    return NOTHING_DECIDED


def claim_id(corpus: str, text: str) -> str:
    """The id of a statement within a corpus: of its words, whatever their case, spaces or last full stop."""
    return content_hash("claim", corpus, normalised(text))


def normalised(text: str) -> str:
    """A statement's words alone, by which two are the same."""
    return SPACES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip().rstrip(".!")


def evidence_of(text: str, quote: str, span: tuple[int, int] | None) -> Evidence:
    """Whether a quote stands in an artifact's text where it is said to, or anywhere where no place is said."""
    if not quote.strip():
        return Evidence.NONE
    if span is None:
        return Evidence.VERIFIED if quote in text else Evidence.FORGED
    return Evidence.VERIFIED if 0 <= span[0] <= span[1] and text[slice(*span)] == quote else Evidence.FORGED
