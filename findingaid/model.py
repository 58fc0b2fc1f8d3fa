"""The words of the design as frozen types; the only module that every other one imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Raw = str | Mapping[str, Any]
"""An artifact's payload: its text, or a mapping of named fields."""

Vectors = npt.NDArray[np.float32]

Mode = Literal["dense", "lexical", "hybrid"]

SYNOPSIS = "synopsis"
"""The surface kind of a synopsis; it stands at position 0 of its artifact."""


CLAIM = "claim"
"""The surface kind, and the granularity, of a claim's record; its id is made of the claim's id, not of its place."""

SUMMARY = "summary"
"""The surface kind, and the granularity, of a summary node's record."""


class Stage(StrEnum):
    """The stages, in order; each is a Dagster asset and a set of columns of the ledger."""

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
"""What each stage stands on."""

WRITTEN = (Stage.SYNOPSES, Stage.CLAIMS, Stage.SUMMARY_NODES)
"""The stages that ask somebody to write; an artifact of which one fails, or waits, is published without."""

OF_CLAIMS = (Stage.CLAIMS, Stage.SUMMARY_NODES)
"""The stages that a corpus has only where it asks for claims."""


EDGES = "edges"
"""What is written of an artifact beside the stages, together with its surfaces: what it refers to."""

PARTS: tuple[str, ...] = (*Stage, EDGES)
"""All that the ledger has a version of."""


class Outcome(StrEnum):
    """What became of what was to be written, such as a synopsis.

    Empty is not failed: it is never tried again. Failed and pending are, next run.
    """

    OK = "ok"
    EMPTY = "empty"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"

    @property
    def settled(self) -> bool:
        """Whether nothing more is to come."""
        return self not in {Outcome.FAILED, Outcome.PENDING}


@dataclass(frozen=True, slots=True)
class Listing:
    """One artifact as a source lists it, before it is read.

    `stamp` changes whenever the payload may have changed, and costs no reading. One that ends in "?" may
    stand for a later payload too, and an empty one for any: such an artifact is read by the next run again.
    `size` is in bytes, 0 where unknown.
    """

    artifact_id: str
    stamp: str
    size: int = 0

    @property
    def settled(self) -> bool:
        """Whether an equal stamp means an equal payload."""
        return bool(self.stamp) and not self.stamp.endswith("?")


@dataclass(frozen=True, slots=True)
class Failure:
    """One artifact that did not get through one stage, with the reason, and in how many runs in a row."""

    artifact_id: str
    stage: str
    kind: str
    message: str
    runs: int = 1

    def __str__(self) -> str:
        again = f", in {self.runs} runs in a row" if self.runs > 1 else ""
        return f"{self.artifact_id}: {self.message} [{self.stage}: {self.kind}{again}]"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a source holds now.

    `failures` are artifacts that are there but can never be read as they are. `unknown` are id prefixes
    below which nothing could be listed: artifacts known from before are kept, not deleted.
    """

    listings: Sequence[Listing]
    failures: Sequence[Failure] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """One thing of a corpus: its payload and the metadata that may become filter fields."""

    artifact_id: str
    raw: Raw
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surface:
    """An embeddable unit cut from an artifact.

    `span` is [start, end) in characters of the artifact's text, or of the field that metadata["field"]
    names, so that text[start:end] is the surface's text; None where the text is composed.
    """

    kind: str
    text: str
    granularity: str = "chunk"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SurfacePlan:
    """What a strategy makes of one artifact: filter fields, and surfaces in plan order."""

    filter_fields: Mapping[str, Any]
    surfaces: Sequence[Surface]


@dataclass(frozen=True, slots=True)
class Edge:
    """What one artifact refers to: another, which may be in no corpus.

    `corpus` is the target's, "" for the one that the edge is from; `section` the anchor of a heading of it. `span` is
    where in its own text the artifact says so.
    """

    kind: str
    target_id: str
    corpus: str = ""
    section: str = ""
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a synthesizer used: requests that were answered, and tokens as the endpoint counts them."""

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
    """A turn of a session: what was asked, and what came of it. A text that has no turns is one answer."""

    turn: int
    request: str
    answer: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What a synthesizer is shown of one artifact.

    One that goes on from a state, see `Resuming`, is shown `segments`, and the `state` it left.
    """

    artifact_id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    state: str = ""


@dataclass(frozen=True, slots=True)
class Synopsis:
    """What came of asking for one synopsis; `text` is empty unless the outcome is ok, or a fallback wrote it.

    Where it failed, `kind` is timeout, transport, parse, refused, truncated or other, and `message` one line; of
    kind unavailable are those that were not asked for any more, since those before had all failed. `state` is what
    its synthesizer can go on from, where it can.
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
        """Whether there is something to keep: a text, or the word that there is nothing to say."""
        return bool(self.text) or self.outcome is Outcome.EMPTY


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a ranking has a record: which ranker, for which of the queries, at which place from 1, with what score.

    `share` is what this adds to the score of the hit, before weights.
    """

    ranker: str
    query: int
    rank: int
    score: float
    share: float = 0.0

    def __str__(self) -> str:
        query = f" of query {self.query + 1}" if self.query else ""
        return f"{self.ranker}{query} #{self.rank} {self.score:.3f}: {self.share:.3f}"


@dataclass(frozen=True, slots=True)
class Part:
    """A record that a hit with more text is made of."""

    record_id: str
    surface_kind: str
    surface_index: int
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Hit:
    """One record that answers a query, best first; a higher score is better, and all of one search are on one scale.

    `route` says how a route came to it, "" where the query found it; it then stands `depth` steps away from the
    record `seed`. `ranks` and `weight` are why it has its score, where that was asked for. Where text and span are
    those of more than the record, `parts` are all the records.
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

    def why(self) -> list[str]:
        """What the score is made of, a line each; nothing where that was not asked for."""
        weight = [f"weight {self.weight:.3g}"] if self.weight != 1 else []
        route = [f"by {self.route}, {self.depth} from {self.seed}"] if self.route else []
        return [*map(str, self.ranks), *weight, *route]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Calls:
    """Model calls: texts sent to the embedder, artifacts to the synthesizer and the extractor of claims, and claims of
    an artifact to who writes summary nodes. Cached ones are free."""

    embed: int = 0
    synthesize: int = 0
    extract: int = 0
    summarize: int = 0

    def __add__(self, other: Calls) -> Calls:
        return Calls(
            self.embed + other.embed,
            self.synthesize + other.synthesize,
            self.extract + other.extract,
            self.summarize + other.summarize,
        )


NO_CALLS = Calls()


@dataclass(frozen=True, slots=True)
class CutOff:
    """How many texts are longer than the embedder reads, and the first few artifacts that they are of."""

    texts: int = 0
    artifacts: Sequence[str] = ()

    def __add__(self, other: CutOff) -> CutOff:
        ids = dict.fromkeys((*self.artifacts, *other.artifacts))
        return CutOff(self.texts + other.texts, tuple(ids)[:NAMED_CUT_OFF])

    @property
    def warning(self) -> str | None:
        if not self.texts:
            return None
        more = ", …" if len(self.artifacts) == NAMED_CUT_OFF else ""
        return (
            f"texts longer than the embedder reads, whose ends are not found: {self.texts:,}, in"
            f" {', '.join(self.artifacts)}{more}. Cut them by max_tokens, and ask for shorter synopses"
        )


NAMED_CUT_OFF = 5
NOTHING_CUT_OFF = CutOff()

NAMED_REFUSED = 3
"""Claims that a run's report names of those that were refused."""


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """What a plan foresees, or a run did, for one corpus. `error` says why the whole corpus was left alone.

    `tokens` are those of the texts that were embedded, by the embedder's own tokenizer; a plan cannot
    know those of synopses and claims that are not written yet. `usage` is that of all who write, in a plan at most; its
    `cost` is None where a model has no price. `pending` synopses, and claims or summary nodes of as many artifacts, are
    left to the next run, for the reason `waiting`. `refused` are claims that were found and not taken, with the reason,
    a line each.
    """

    artifacts: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: Sequence[Failure] = ()
    records: int = 0
    calls: Calls = NO_CALLS
    tokens: int = 0
    truncated: CutOff = NOTHING_CUT_OFF
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    pending: int = 0
    pending_claims: int = 0
    waiting: str = ""
    refused: Sequence[str] = ()
    seconds: float = 0.0
    error: str | None = None

    def __str__(self) -> str:
        of_claims = [
            f", {count} {what}"
            for count, what in (
                (self.calls.extract, "artifacts read for claims"),
                (self.calls.summarize, "summary nodes written"),
            )
            if count
        ]
        return (
            f"{self.artifacts} artifacts, {self.new} new, {self.changed} changed, {self.unchanged} unchanged,"
            f" {self.deleted} deleted, {len(self.failed)} failed; {self.records} records;"
            f" {self.calls.embed} texts embedded, {self.calls.synthesize} synopses written{''.join(of_claims)}"
        )

    @property
    def active(self) -> bool:
        """Whether anything was done, or failed."""
        return bool(self.new or self.changed or self.deleted or self.failed or self.error)

    @property
    def spent(self) -> str:
        """What the synthesizer used; "" where nothing."""
        if not self.usage.tokens:
            return ""
        money = "" if self.cost is None else f", {self.cost:,.2f} by the prices configured"
        return (
            f"{self.usage.calls:,} synthesizer calls, {self.usage.input_tokens:,} tokens in,"
            f" {self.usage.output_tokens:,} out{money}"
        )

    @property
    def left(self) -> str:
        """What is left to the next run, and why; "" where nothing is."""
        counts = {"synopses": self.pending, "artifacts' claims or summary nodes": self.pending_claims}
        waits = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return f"{waits} are left to the next run: {self.waiting}" if waits else ""

    @property
    def warning(self) -> str | None:
        """What is indexed but not as well as it could be."""
        refused = f"claims refused: {len(self.refused):,}, {'; '.join(self.refused[:NAMED_REFUSED])}"
        more = "; …" if len(self.refused) > NAMED_REFUSED else ""
        return ". ".join(filter(None, (self.truncated.warning, f"{refused}{more}" if self.refused else ""))) or None


@dataclass(frozen=True, slots=True)
class Report:
    """A plan or a run over several corpora.

    `repaired` names tables that were lost or damaged and made anew; `unpublished` says why readers still
    have the version before.
    """

    corpora: Mapping[str, CorpusReport]
    repaired: Sequence[str] = ()
    unpublished: str | None = None

    @property
    def ok(self) -> bool:
        return not any(self.problems())

    def problems(self) -> Iterator[str]:
        """Everything that did not go through, one line each."""
        for name, corpus in self.corpora.items():
            if corpus.error:
                yield f"{name}: {corpus.error}"
            for failure in corpus.failed:
                yield f"{name}: {failure}"
        if self.unpublished:
            yield f"not published, readers keep the version before: {self.unpublished}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@runtime_checkable
class Source(Protocol):
    """Where artifacts come from."""

    def discover(self) -> Discovery:
        """List every artifact, cheaply. Raises SourceError when nothing can be listed."""

    def read(self, artifact_id: str) -> Artifact:
        """Read one artifact. Raises ReadError."""


@runtime_checkable
class ResumableSource(Source, Protocol):
    """A source of what grows at its end, which need not read again what it has read before."""

    def read_on(self, artifact_id: str, before: Artifact) -> Artifact:
        """What `read` gives, at the cost of what was added since it gave `before`. Raises ReadError.

        `before` is what the artifacts table holds, so it may be of any age, and of another source: what the
        source needs to know of where it was must stand in the artifact.
        """


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file that comes with an artifact: its path from the artifact's folder on, and its size in bytes."""

    path: str
    size: int


@runtime_checkable
class BundlingSource(Source, Protocol):
    """A source whose artifacts come with files that are not indexed, to be opened once an artifact was chosen."""

    def bundled(self, artifact_id: str) -> tuple[Sequence[BundledFile], Sequence[str]]:
        """The files as they are now, and why others cannot be had, a line each. Raises ReadError."""

    def bundled_text(self, artifact_id: str, path: str) -> str:
        """The text of one of these files, and of no other. Raises ReadError."""


@runtime_checkable
class ConcurrentSource(Source, Protocol):
    """A source that waits for others more than it computes; `read` may be called by several threads at once."""

    @property
    def readers(self) -> int:
        """How many artifacts are best read at once."""


@runtime_checkable
class Strategy(Protocol):
    """What is indexed of an artifact."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        """Cut one artifact; pure, so that the same input gives the same plan."""


@runtime_checkable
class EdgeExtractor(Protocol):
    """What artifacts refer to."""

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterable[Edge]:
        """The edges of one artifact, `fields` being its filter fields; pure, and without any model."""


@runtime_checkable
class Synthesizer(Protocol):
    """Who writes synopses."""

    @property
    def id(self) -> str:
        """Changes whenever the text it writes could."""

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        """A synopsis of `text`; "" where there is nothing to say. Raises SynthesisError."""


@runtime_checkable
class ConcurrentSynthesizer(Synthesizer, Protocol):
    """A synthesizer that has several synopses written at once."""

    def synthesize_all(self, shown: Sequence[Shown]) -> Iterator[tuple[int, Synopsis]]:
        """Synopses as they come, each with its place in `shown`; none raises for what became of one.

        Closing the iterator sends nothing more, and leaves what is under way.
        """


@runtime_checkable
class Resuming(Synthesizer, Protocol):
    """A synthesizer that, when an artifact grew, is shown what is new of it and the state that it left before."""

    @property
    def at_once(self) -> int:
        """How many calls may be under way at once, from several threads."""

    @property
    def stand_in(self) -> Resuming | None:
        """Who writes where this one fails and has written nothing before; never fails itself."""

    def left(self, shown: Shown, state: str) -> list[Shown]:
        """What is still to be shown, in as many calls as that takes; [] where `state` covers everything.

        Each call goes on from the state that the one before it left, the first from that in it, which is "" where
        `state` is of no use.
        """

    def resume(self, shown: Shown) -> Synopsis:
        """One such call; never raises. What it leaves is the synopsis's `state`."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What an extractor found: `quote` is the passage that says so, `span` where it stands in the text it was shown.

    Without a span the quote is looked for. `confidence` is the extractor's, from 0 to 1.
    """

    text: str
    quote: str = ""
    span: tuple[int, int] | None = None
    type: str = "fact"
    confidence: float = 1.0
    entities: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor made of one text; `refused` says of what was left out why, a line each."""

    statements: Sequence[Statement] = ()
    refused: Sequence[str] = ()


@runtime_checkable
class ClaimExtractor(Protocol):
    """Who finds statements in an artifact.

    One that is also a Synthesizer is asked as those are, for what `findingaid.claims.forms` reads.
    """

    @property
    def id(self) -> str:
        """Changes when its result could."""

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        """Statements in the order of the text; what it is shown is kept by content. Raises SynthesisError."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a summary node is written from: a claim that is held."""

    claim_id: str
    text: str
    type: str
    confidence: float
    entities: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bullet:
    """One point of a summary node, and the ids of the claims it stands on."""

    text: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wrote over the claims of an artifact; `refused` says what was left out of it, a line each."""

    bullets: tuple[Bullet, ...]
    themes: tuple[str, ...] = ()
    confidence: float = 1.0
    refused: tuple[str, ...] = ()


@runtime_checkable
class NodeProducer(Protocol):
    """Who writes a summary over the claims of one artifact.

    One that is also a Synthesizer is asked as those are: shown what `findingaid.claims.forms` makes of the members.
    """

    @property
    def id(self) -> str:
        """Changes when its result could."""

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        """A draft, kept by the members; None where there is nothing to say. Raises SynthesisError."""


@runtime_checkable
class Free(Protocol):
    """An extractor or producer that costs nothing: a plan asks it too, and it is asked again rather than kept."""

    @property
    def free(self) -> Literal[True]: ...


@dataclass(frozen=True)
class Claiming:
    """What is to come of the claims of a corpus.

    Of two claims of an artifact with the same words, whose vectors have a cosine of `near` or more, the first is kept;
    None keeps all but equal ones. `nodes` writes a summary of each artifact that has `at_least` so many claims that are
    held.
    """

    extractor: ClaimExtractor
    near: float | None = 0.95
    nodes: NodeProducer | None = None
    at_least: int = 5


@runtime_checkable
class Embedder(Protocol):
    """Who turns texts into vectors of unit length."""

    @property
    def id(self) -> str:
        """Changes whenever a vector could: model, weights, precision, prompts."""

    @property
    def dim(self) -> int:
        """Numbers a vector."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that the model sees, special tokens apart; None when it sees all."""

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by the model's own tokenizer, special tokens apart."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dim), float32, each of length 1. Raises EmbedError."""

    def embed_query(self, text: str) -> Vectors:
        """The vector of a query, shape (dim,); differs from `embed` for models with query prompts."""


@dataclass(frozen=True, slots=True)
class Quality:
    """A floor: `metric`, in the mean over the cases of a file, below which nothing is published.

    `cases` is the file's path. Put to the corpus alone, or `everywhere`; then those cases count that expect
    something of it.
    """

    cases: str
    floor: float
    metric: str = "nDCG@10"
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the hits offered are enough, by their places, and why no more."""

    places: Sequence[int]
    reason: str


@runtime_checkable
class Reranker(Protocol):
    """Who judges how well texts answer a query, each beside the query."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """A finite number for each text, higher is better. Raises ModelError."""


@runtime_checkable
class Selector(Protocol):
    """Who says how many hits are enough."""

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        """Which of `hits`, best first, to keep. Raises ModelError."""


@runtime_checkable
class Rewriter(Protocol):
    """Who puts a query in other words."""

    def rewrite(self, query: str) -> Sequence[str]:
        """Queries to search for beside the query itself. Raises ModelError."""


@dataclass(frozen=True)
class Corpus:
    """A named collection: where its artifacts come from and what is made of them.

    Synopses are the strategy's to say, see `with_synopsis`; `edges` finds what artifacts refer to, and `claims` says
    what is to come of their statements, None for nothing. A run that would lose more than `max_loss`, a share of the
    artifacts known, is refused; where more than `max_failures` of them
    failed, or where known questions find less than `quality` says, nothing is published. `schedule` is cron, for
    whoever runs things on time; None for never. The rest is shown in a catalogue.
    """

    name: str
    source: Source
    strategy: Strategy
    max_loss: float = 0.5
    max_failures: float = 0.5
    schedule: str | None = None
    owners: Sequence[str] = ()
    group: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    edges: EdgeExtractor | None = None
    quality: Quality | None = None
    claims: Claiming | None = None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Those that it goes through."""
        wanted = {Stage.CLAIMS: self.claims, Stage.SUMMARY_NODES: self.claims and self.claims.nodes}
        return tuple(stage for stage in Stage if wanted.get(stage, self))


@dataclass(frozen=True, slots=True)
class Written:
    """A sentence that a model wrote, without citations, and the ids of the claims that it says to stand on."""

    text: str
    claim_ids: Sequence[str]


@runtime_checkable
class Answerer(Protocol):
    """Who answers a question in sentences of its own, each on claims that it is offered."""

    @property
    def model(self) -> str:
        """Whom to name as the author."""

    def write(self, query: str, claims: Mapping[str, str], max_chars: int) -> Sequence[Written]:
        """An answer of at most so many characters from claims, id -> text, best first. Raises ModelError."""
