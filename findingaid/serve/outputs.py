"""Outputs of the capabilities, for schemas: the shapes of the library's `to_dict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# Before Python 3.12, Pydantic requires this TypedDict.
from typing_extensions import TypedDict

from findingaid.claims.review import ClaimView
from findingaid.model import Failure, Fresh, Hit, Note, Skipped
from findingaid.query.answers.answer import Contradiction, FoundPassage, Place, RefusedSentence
from findingaid.query.context.pack import ContextPack
from findingaid.query.context.pieces import Dropped, DropReason, Piece
from findingaid.query.context.rendering import Message
from findingaid.query.lookup.artifact import ArtifactView
from findingaid.query.lookup.disclosure import Disclosure
from findingaid.query.lookup.passages import ClaimPassages
from findingaid.query.lookup.provenance import Link
from findingaid.query.lookup.reading import Reading
from findingaid.query.lookup.references import Neighbour, ReferenceCount
from findingaid.query.lookup.status import ModelUsage
from findingaid.query.search.filters.fields import Field

Span = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PartOutput(Reading):
    """Part of an artifact's text, or of one of its files. `next` is the call that reads on; "" at the end.

    Offsets count characters. The outline is empty if a place was asked for. `passage` is the span of the record that
    was asked for.
    """

    next: str = field(kw_only=True)


ShowOutput = PartOutput | ClaimPassages | ArtifactView | Disclosure
"""Output of `show`: a part of a text, a claim with its passages, or with `level` the artifact up to that level."""


@dataclass(frozen=True, slots=True)
class FullHit(Hit):
    """Hit with the URL of its artifact."""

    url: str = field(kw_only=True)


class IdHit(TypedDict):
    """Hit with `detail: id`: its ids, the title and URL of its artifact, and its `place` in that, such as a page."""

    record_id: str
    artifact_id: str
    corpus: str
    title: str
    url: str
    score: float
    place: str
    span: Span
    artifact_version: str


class SnippetHit(IdHit):
    """Hit with `detail: snippet`: also the part of its text around the words of the query."""

    kind: str
    snippet: str
    weak: bool
    fresh: Fresh | None
    fresh_note: str


class SearchOutput(TypedDict):
    """Hits, best first. `enough` is the reason for returning no more; `queries` are all queries searched for.

    `fresh_seconds` is the time that the check of freshness took; null without one. `next_cursor` leads to the next
    page; "" after the last one.
    """

    hits: Sequence[FullHit | SnippetHit | IdHit]
    enough: str
    queries: Sequence[str]
    fresh_seconds: float | None
    next_cursor: str


class CitedClaim(TypedDict):
    """Claim cited in an answer, with every place that states it."""

    claim_id: str
    corpus: str
    text: str
    type: str
    tier: str
    review: str
    truth: str
    places: Sequence[Place]


class CitedQuote(TypedDict):
    """Sentence of a passage cited in an answer: span of this version of the artifact is `quote`."""

    quote_id: str
    corpus: str
    artifact_id: str
    place: str
    date: str
    record_id: str
    artifact_version: str
    span: tuple[int, int]
    text: str
    quote: str
    relevance: float
    fresh: Fresh | None
    fresh_note: str


class AnswerSentence(TypedDict):
    """Sentence of an answer: `kind` says whether it cites claims, or passages alone."""

    text: str
    kind: Literal["claim", "passage"]
    claim_ids: Sequence[str]
    quote_ids: Sequence[str]


class AnswerMeta(TypedDict):
    """Details of an answer: confidence, sentences, and the evidence and sentences that were left out.

    `relevance`: estimated probability that the evidence answers the question. `standing`: how far the weakest of the
    cited claims can be relied on. `note`: what is missing or doubtful. `unreviewed`: number of sentences that cite a
    claim which no person approved. `unread`: artifacts that are skipped or failed, by suffix, if there is no sentence.
    """

    confidence: str | None
    relevance: float
    standing: Literal["contested", "unreviewed", "working", "actionable", "stable"] | None
    note: str
    unreviewed: int
    sentences: Sequence[AnswerSentence]
    cut: Sequence[str]
    repeated: Sequence[str]
    contradictions: Sequence[Contradiction]
    producer: str
    refused: Sequence[RefusedSentence]
    invented: Sequence[str]
    unread: str
    fresh_seconds: float | None


class AnswerOutput(TypedDict):
    """Answer whose sentences cite claims and quotes of passages as [id].

    `gaps` are words of the question that neither covers. `passages` are those that a search finds, if the answer is
    empty or weak.
    """

    query: str
    answer: str
    claims: Sequence[CitedClaim]
    quotes: Sequence[CitedQuote]
    gaps: Sequence[str]
    passages: Sequence[FoundPassage]
    meta: AnswerMeta


@dataclass(frozen=True)
class PackPiece(Piece):
    """Piece of a context pack, with its citation."""

    cite: str = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class DroppedPiece(Dropped):
    """Piece that was left out of a pack, with the reason; `of` cites the piece that it repeats."""

    piece: PackPiece


class PackOutput(TypedDict):
    """Context pack for a model. The whole result has `tokens` tokens, of the `budget`.

    `dropped` counts the pieces that were left out, by reason.
    """

    rendered: str | Sequence[Mapping[str, str]]
    tokens: int
    budget: int
    dropped: Mapping[DropReason, int]
    degraded: Sequence[str]


@dataclass(frozen=True)
class PackDetails(ContextPack):
    """Context pack with its pieces, kept and left out. `rendered` has `tokens` tokens, of the `budget`.

    `digest` covers the pieces that did not fit; the next pack takes it as `previous`.
    """

    pieces: Sequence[PackPiece]
    dropped: Sequence[DroppedPiece]
    rendered: str | list[Message] = field(kw_only=True)


ContextOutput = PackOutput | PackDetails
"""Output of `context`: with `details`, the pieces as well."""


class NeighboursOutput(TypedDict):
    """Artifacts that an artifact refers to, or that refer to it; without an id, the artifacts most referred to."""

    neighbours: Sequence[Neighbour]
    referenced: Sequence[ReferenceCount]


class WhyOutput(TypedDict):
    """Provenance of an item, link by link."""

    links: Sequence[Link]


class CorpusView(TypedDict):
    """Corpus that can be searched, with its surface kinds and the fields that filters can name."""

    corpus: str
    claims: bool
    surfaces: Sequence[str]
    fields: Sequence[Field]


class CorporaOutput(TypedDict):
    """Corpora that can be searched. `columns` are the columns of every record that filters can name.

    `llm` is the model that writes answers on request; null if none is configured.
    """

    corpora: Sequence[CorpusView]
    columns: Sequence[str]
    llm: str | None


class SentBatch(TypedDict):
    """Batch of synopses that was sent, and whose results are not stored yet."""

    tag: str
    batch_id: str
    corpus: str
    producer_id: str
    run: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    at: str
    synopses: int


class CorpusState(TypedDict):
    """Counts and failures of a corpus."""

    corpus: str
    artifacts: int
    records: int
    pending: int
    synopses: Mapping[str, int]
    failed: Sequence[Failure]
    updated: str | None
    published_version: int | None
    claims: int
    summary_nodes: int
    extracted: Mapping[str, int]
    refused: int
    expired: int
    usage: Sequence[ModelUsage]
    batches: Sequence[SentBatch]
    skipped: Sequence[Skipped]
    noted: Sequence[Note]
    unpublished: str


class ServedVersion(TypedDict):
    """Published version, and the time at which it was written."""

    version: int
    written: str


class StatusOutput(TypedDict):
    """State of the index, as far as the caller may read it; "" is a caller who may read everything.

    `published` is null before the first run; `dagster` is the URL of Dagster's UI.
    """

    published: ServedVersion | None
    dagster: str | None
    caller: str
    corpora: Sequence[CorpusState]


class ClaimEvidence(TypedDict):
    """Passage that supports a claim."""

    artifact_id: str
    artifact_version: str
    quote: str
    span: Span
    evidence: str
    verbatim: bool
    confidence: float
    entities: Sequence[str]
    producer_id: str


@dataclass(frozen=True, slots=True)
class ProposalOutput(ClaimView):
    """Claim with its current status."""

    evidences: Sequence[ClaimEvidence]  # type: ignore[assignment]  # without what all evidence of a claim repeats


class ErrorBody(TypedDict):
    """Error: a stable kind, a one-line message, and the command or page that explains it."""

    kind: str
    message: str
    see: str


class ErrorOutput(TypedDict):
    """Response to a request that failed."""

    error: ErrorBody
