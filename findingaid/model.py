"""Data types of the vocabulary (Artifact, Surface, Edge, Hit, Stage, …); every other layer imports them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from findingaid.errors import SynthesisError

T = TypeVar("T", covariant=True)
U = TypeVar("U")

Raw = str | Mapping[str, Any]
"""An artifact's payload: its text, or a mapping of named fields."""

Vectors = npt.NDArray[np.float32]

MAX_DIM = 16_384
"""Most dimensions that a vector may have: four times those of the widest models in common use (4,096). A larger
number is a mistake, and would show only as a lack of memory: 512 texts of a batch take 33 MB at this width."""

Mode = Literal["dense", "lexical", "hybrid"]

Fresh = Literal["current", "changed", "gone", "unknown"]
"""Whether a source still has the version of an artifact that is published."""

SYNOPSIS = "synopsis"
"""Surface kind of a synopsis, which is at position 0 of its artifact."""


CLAIM = "claim"
"""Surface kind and granularity of a claim's record. The record's id derives from the claim's id, not its position."""

SUMMARY = "summary"
"""Surface kind and granularity of a summary node's record."""

RESERVED_KINDS = {CLAIM: "claims", SUMMARY: "summary nodes"}
"""Surface kinds that a strategy cannot use, and the records that have them."""


class Stage(StrEnum):
    """Stages in order; each is a Dagster asset and a set of columns in the ledger."""

    ARTIFACTS = "artifacts"
    SURFACES = "surfaces"
    SYNOPSES = "synopses"
    CLAIMS = "claims"
    SUMMARY_NODES = "summary_nodes"
    EMBEDDINGS = "embeddings"
    RECORDS = "records"


INPUTS: Mapping[Stage, tuple[Stage, ...]] = {
    Stage.ARTIFACTS: (),
    Stage.SURFACES: (Stage.ARTIFACTS,),
    Stage.SYNOPSES: (Stage.SURFACES,),
    Stage.CLAIMS: (Stage.ARTIFACTS,),
    Stage.SUMMARY_NODES: (Stage.CLAIMS,),
    Stage.EMBEDDINGS: (Stage.SURFACES, Stage.SYNOPSES, Stage.CLAIMS, Stage.SUMMARY_NODES),
    Stage.RECORDS: (Stage.SURFACES, Stage.SYNOPSES, Stage.CLAIMS, Stage.SUMMARY_NODES, Stage.EMBEDDINGS),
}
"""Input stages of each stage."""

WRITTEN = (Stage.SYNOPSES, Stage.CLAIMS, Stage.SUMMARY_NODES)
"""Stages whose output a model may write. If one fails or waits, the artifact is published without its output."""

EDGES = "edges"
"""Name of the edges of an artifact, which are not a stage but are written together with its surfaces."""

PARTS: tuple[str, ...] = (*Stage, EDGES)
"""Everything for which the ledger keeps a version."""


class Outcome(StrEnum):
    """Outcome of writing a synopsis, claims or a summary node.

    Empty is not failed: it is never tried again. The next run tries failed and pending ones again.
    """

    OK = "ok"
    EMPTY = "empty"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"

    @property
    def settled(self) -> bool:
        """Whether the outcome is final."""
        return self not in {Outcome.FAILED, Outcome.PENDING}


@dataclass(frozen=True, slots=True)
class Listing:
    """One artifact as a source lists it, before it is read.

    `stamp` changes whenever the payload may have changed, and is known without reading the artifact. A stamp that ends
    in "?" may belong to a later payload too, and an empty one to any payload: the next run reads such an artifact
    again. `size` is in bytes, 0 if unknown. `changed` is the time of the last change, in seconds since 1970, if the
    source tells it. `readers` are as in `Artifact`, for one that cannot be read.
    """

    artifact_id: str
    stamp: str
    size: int = 0
    changed: float | None = None
    readers: Sequence[str] | None = None

    @property
    def changed_at(self) -> datetime | None:
        """The time of the last change; None if it is unknown, or beyond the years that a calendar has."""
        if self.changed is None:
            return None
        try:
            return datetime.fromtimestamp(self.changed, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def settled(self) -> bool:
        """Whether an equal stamp guarantees an equal payload."""
        return bool(self.stamp) and not self.stamp.endswith("?")


@dataclass(frozen=True, slots=True)
class Failure:
    """One artifact that failed at one stage, with the reason.

    `runs` is the number of consecutive tries that failed. The ledger adds in how many runs the next try is, if the
    artifact does not change before; with `retry_in` 0 it is tried again only if it changes.
    """

    artifact_id: str
    stage: str
    kind: str
    message: str
    runs: int = 1
    retry_in: int | None = None

    def __str__(self) -> str:
        again = f", in {self.runs} runs in a row" if self.runs > 1 else ""
        return f"{self.artifact_id}: {self.message} [{self.stage}: {self.kind}{again}{self._next_try}]"

    @property
    def _next_try(self) -> str:
        if self.retry_in in {None, 1}:
            return ""
        return f", next try in {self.retry_in} runs" if self.retry_in else ", next try when it changes"


@dataclass(frozen=True, slots=True)
class Skipped:
    """An artifact that its source lists, but does not want to be indexed, and the reason."""

    artifact_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """Listing of everything that a source holds now.

    `failures` are artifacts that exist but cannot be read in their present form. `unknown` are id prefixes below which
    nothing could be listed: known artifacts below them are kept, not deleted. `notes` are lines for the report of a
    run, on what waits for a later one. `emptied` are parts of the source that are there and list nothing, such as a
    folder where a disk may not be mounted: an id, or the beginning of ids or stamps, with "/" at its end, and the time
    of its last change in seconds since 1970, 0 if that is unknown. Known artifacts that were indexed later are kept,
    unless loss is allowed.
    """

    listings: Sequence[Listing]
    failures: Sequence[Failure] = ()
    unknown: Sequence[str] = ()
    notes: Sequence[str] = ()
    emptied: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was guessed or left out when an artifact was read, and how often.

    `kind` is stable, for programs; `words` say it to people. The reader of the artifact leaves `artifact_id` empty.
    """

    kind: str
    words: str
    count: int = 1
    artifact_id: str = ""

    def __str__(self) -> str:
        return self.words if self.count == 1 else f"{self.words}: {self.count:,}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One item of a corpus: its payload, and the metadata that may become filter fields.

    `notes` say what its source guessed or left out. They are no part of its version, and kept in the ledger. `readers`
    are the principals that may read it, with a minus those that may not, see `findingaid.access`; None if its source
    says nothing of them.
    """

    artifact_id: str
    raw: Raw
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    readers: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Surface:
    """An embeddable unit cut from an artifact.

    `span` is [start, end) in characters of the artifact's text, or of the field that metadata["field"] names, so that
    text[start:end] is the surface's text. It is None if the text is composed. `searched` is the text to embed and
    search instead of `text`, which hits show.
    """

    kind: str
    text: str
    granularity: str = "chunk"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    searched: str | None = None


@dataclass(frozen=True, slots=True)
class SurfacePlan:
    """Result of a strategy for one artifact: filter fields, and surfaces in plan order."""

    filter_fields: Mapping[str, Any]
    surfaces: Sequence[Surface]


@dataclass(frozen=True, slots=True)
class Edge:
    """Reference from one artifact to another, which may be in no corpus.

    `corpus` is that of the target, "" for the corpus of the referring artifact. `section` is the anchor of a heading of
    the target. `span` is the place of the reference in the text of the referring artifact.
    """

    kind: str
    target_id: str
    corpus: str = ""
    section: str = ""
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a synthesizer: answered requests, and tokens as the endpoint counts them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.calls - other.calls,
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Segment:
    """One turn of a session: the request and the answer to it. A text without turns is a single answer."""

    turn: int
    request: str
    answer: str


@dataclass(frozen=True, slots=True)
class SynthesizerInput:
    """Input of a synthesizer for one artifact.

    A `ResumableSynthesizer` continues from the `state` of its previous call, and reads `segments`.
    Only an `ArtifactSynthesizer` is shown the `artifact`.
    """

    artifact_id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    state: str = ""
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True)
class Synopsis:
    """Result of one request for a synopsis; `text` is empty unless the outcome is ok or a fallback wrote it.

    If the request failed, `message` is one line and `kind` is timeout, transport, parse, refused, truncated,
    unavailable or other. Unavailable means that the request was not tried, because the requests before it had all
    failed. `state` is the state from which a `ResumableSynthesizer` can continue, else "".
    """

    outcome: Outcome
    text: str = ""
    kind: str = ""
    message: str = ""
    usage: Usage = NO_USAGE
    producer_id: str = ""
    state: str = ""

    @property
    def kept(self) -> bool:
        """Whether the result is worth keeping: it has a text, or says that there is nothing to say."""
        return bool(self.text) or self.outcome is Outcome.EMPTY


@dataclass(frozen=True)
class CallResult(Generic[T]):
    """Value that a producer made by calls of a model, or its error, with the usage of these calls."""

    value: T | None = None
    usage: Usage = NO_USAGE
    error: SynthesisError | None = None

    def get(self) -> T:
        """Return the value. Raises the error, a SynthesisError, if there is one."""
        if self.error:
            raise self.error
        return cast("T", self.value)

    def map(self, convert: Callable[[T], U]) -> CallResult[U]:
        """Return the result with its value converted. An error stays, also one that `convert` raises."""
        try:
            return CallResult(convert(self.get()), self.usage)
        except SynthesisError as error:
            return CallResult(usage=self.usage, error=error)

    def to_synopsis(self: CallResult[str]) -> Synopsis:
        """Return a text as the result of a synthesizer: empty if the text is, failed if there is an error."""
        if self.error:
            return Synopsis(Outcome.FAILED, kind=self.error.kind, message=str(self.error), usage=self.usage)
        return Synopsis(Outcome.OK if self.value else Outcome.EMPTY, self.value or "", usage=self.usage)


@dataclass(frozen=True, slots=True)
class Rank:
    """Rank of a record in one ranking: the ranker, the index of the query, the rank from 1, and the score.

    The rank is None for a record that is not among the first of the ranking, and was scored because another found it.
    `share` is the contribution of this rank to the score of the hit, before weights. `cost` says what the ranking took,
    if it was measured.
    """

    ranker: str
    query: int
    rank: int | None
    score: float
    share: float = 0.0
    cost: str = ""

    def __str__(self) -> str:
        query = f" of query {self.query + 1}" if self.query else ""
        rank = f" #{self.rank}" if self.rank else ""
        cost = f" ({self.cost})" if self.cost else ""
        return f"{self.ranker}{query}{rank} {self.score:.3f}: {self.share:.3f}{cost}"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the records that make up an expanded hit."""

    record_id: str
    surface_kind: str
    surface_index: int
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Hit:
    """One record that answers a query. A higher score is better, and all hits of one search share a scale.

    `route` names the way by which a route led to the hit, `depth` steps away from the record `seed`; it is "" if the
    query itself found the hit. `ranks`, set only if the search asked to explain, and `weight` explain the score.
    If text and span cover more than the record, `parts` are all records that they cover. `weak` says that the record
    is hardly more similar to the query than random records of its corpus are to each other, and lacks most of the
    query's words. `fresh` and `fresh_note` are set only if the search asked for them, see `Freshness`. The span is a
    place in the version `artifact_version` of its artifact: pass both on, and no other version is opened. `place` names
    it in a document: "p. 3", or "sheet Insurance, rows 2 to 40".
    """

    record_id: str
    artifact_id: str
    corpus: str
    surface_kind: str
    surface_index: int
    score: float
    text: str
    span: tuple[int, int] | None
    metadata: Mapping[str, Any]
    route: str = ""
    depth: int = 0
    seed: str = ""
    ranks: tuple[Rank, ...] = ()
    weight: float = 1.0
    parts: tuple[Part, ...] = ()
    weak: bool = False
    fresh: Fresh | None = None
    fresh_note: str = ""
    artifact_version: str = ""
    place: str = ""

    def why(self) -> list[str]:
        """Return the ranks, weight and route behind the score, a line each; ranks only if the search explains."""
        weight = [f"weight {self.weight:.3g}"] if self.weight != 1 else []
        route = [f"by {self.route}, {self.depth} from {self.seed}"] if self.route else []
        return [*map(str, self.ranks), *weight, *route]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
