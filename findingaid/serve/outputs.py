"""What capabilities give, as it goes over a wire: the shapes of the library's `to_dict`, for schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Pydantic reads no other before Python 3.12.
from typing_extensions import TypedDict

from findingaid.model import Failure, Hit
from findingaid.query.answer import Place, Refused, Sentence, Side
from findingaid.query.disclose import Disclosure
from findingaid.query.edges import Neighbour, Referenced
from findingaid.query.fields import Field
from findingaid.query.forms import Form
from findingaid.query.passages import ClaimPassages
from findingaid.query.pieces import Kind, Why
from findingaid.query.provenance import Link
from findingaid.query.show import ArtifactView, ModelUsage

Span = tuple[int, int] | None

Shown = ArtifactView | ClaimPassages | Disclosure
"""An artifact with its records, a claim with its passages, or so much of an artifact as was asked for."""


class Found(TypedDict):
    """Hits, best first; `enough` is why there are no more, `queries` all that were searched for."""

    hits: Sequence[Hit]
    enough: str
    queries: Sequence[str]


class Cited(TypedDict):
    """A claim of an answer, with every place that says it."""

    claim_id: str
    corpus: str
    text: str
    type: str
    tier: str
    review: str
    truth: str
    places: Sequence[Place]


class Meta(TypedDict):
    """How an answer came about."""

    confidence: str | None
    sentences: Sequence[Sentence]
    cut: Sequence[str]
    repeated: Sequence[str]
    contradictions: Sequence[Side]
    producer: str
    refused: Sequence[Refused]
    invented: Sequence[str]


class Answered(TypedDict):
    """Sentences that are each cited as [claim id]; `gaps` are words of the question that no claim speaks of."""

    query: str
    answer: str
    claims: Sequence[Cited]
    gaps: Sequence[str]
    meta: Meta


class Packed(TypedDict):
    """A piece of a context pack, and how it is cited."""

    kind: Kind
    text: str
    corpus: str
    artifact_id: str
    record_id: str
    surface_kind: str
    surface_index: int
    span: Span
    score: float
    producer_id: str
    cite: str


class LeftOut(TypedDict):
    """A piece that is not in a pack, and why."""

    piece: Packed
    reason: Why
    of: str


class Context(TypedDict):
    """What answers a query, put together for a model: `rendered` has `tokens` of the `budget`."""

    queries: Sequence[str]
    form: Form
    budget: int
    tokens: int
    tokenizer: str
    pieces: Sequence[Packed]
    dropped: Sequence[LeftOut]
    tier: int
    degraded: Sequence[str]
    rendered: str | Sequence[Mapping[str, str]]


class Around(TypedDict):
    """What an artifact refers to, or what refers to it; without an id what most artifacts refer to."""

    neighbours: Sequence[Neighbour]
    referenced: Sequence[Referenced]


class Links(TypedDict):
    """Where something comes from, link by link."""

    links: Sequence[Link]


class CorpusView(TypedDict):
    """A corpus that can be asked: its surface kinds, and the fields that filters can name."""

    corpus: str
    claims: bool
    surfaces: Sequence[str]
    fields: Sequence[Field]


class Listed(TypedDict):
    """The corpora that can be asked; `columns` are what filters can name of every record.

    `llm` is the model that writes an answer where that is asked for, null where none is configured.
    """

    corpora: Sequence[CorpusView]
    columns: Sequence[str]
    llm: str | None


class Waiting(TypedDict):
    """A batch of synopses that was sent, and is not taken in yet."""

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


class OfCorpus(TypedDict):
    """What the index holds of a corpus, and what failed."""

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
    usage: Sequence[ModelUsage]
    batches: Sequence[Waiting]


class Served(TypedDict):
    """The version that readers have, and when it was written."""

    version: int
    written: str


class State(TypedDict):
    """How the index is; `published` is null before the first run, `dagster` where its UI is."""

    published: Served | None
    dagster: str | None
    corpora: Sequence[OfCorpus]


class Quoted(TypedDict):
    """A passage that a claim stands on."""

    artifact_id: str
    artifact_version: str
    quote: str
    span: Span
    evidence: str
    verbatim: bool
    confidence: float
    entities: Sequence[str]
    producer_id: str


class Proposed(TypedDict):
    """A claim as it stands now."""

    claim_id: str
    corpus: str
    text: str
    type: str
    review: str
    truth: str
    circulation: str
    tier: str
    evidence: str
    expired: bool
    waits: bool
    contested_by: Sequence[str]
    superseded_by: str
    evidences: Sequence[Quoted]


class Said(TypedDict):
    """What went wrong: a stable kind, one line, and the page of the documentation that says more."""

    kind: str
    message: str
    see: str


class Failed(TypedDict):
    """Every answer that is an error."""

    error: Said
