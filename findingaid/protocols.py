"""Protocols that plug-ins implement, and the types that they exchange with findingaid."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from findingaid.model import (
    Artifact,
    CallResult,
    Discovery,
    Edge,
    Hit,
    Listing,
    Note,
    Raw,
    SurfacePlan,
    Synopsis,
    SynthesizerInput,
    Usage,
    Vectors,
)

Input = TypeVar("Input", contravariant=True)
Made = TypeVar("Made", covariant=True)


@runtime_checkable
class Source(Protocol):
    """Source of artifacts: lists and reads them.

    A class attribute `default_strategy`, such as {"name": "Package"}, names the strategy that fits its payloads.
    """

    def discover(self) -> Discovery:
        """List every artifact, without reading any. Raises SourceError if nothing can be listed."""

    def read(self, artifact_id: str) -> Artifact:
        """Read one artifact. Raises ReadError, and SkippedError if it is not to be indexed, which is not a failure."""


class Access(Protocol):
    """Who may read the artifacts of a corpus."""

    @property
    def id(self) -> str:
        """Identifier that changes whenever the readers of an artifact could change."""

    def readers(self, artifact: Artifact) -> tuple[str, Note | None]:
        """Return who may read an artifact, see `findingaid.access.readers_text`, and the reason if nobody may."""

    def explain(self, artifact_id: str, by_source: Sequence[str]) -> Iterable[str]:
        """Return a line for each rule that decides who may read an artifact, after those of its source."""

    def unused(self, artifact_ids: Collection[str]) -> Sequence[str]:
        """Return a line for each rule that decides about none of these artifacts."""


@runtime_checkable
class StatSource(Source, Protocol):
    """A source that can look at single artifacts, at a cost that does not grow with their number."""

    def listing(self, artifact_id: str) -> Listing | None:
        """Return an artifact as `discover` lists it now, without reading it; None if it is gone.

        Raises SourceError if that cannot be known, for example because the whole source is out of reach, and
        NotImplementedError if it has no such request.
        """


@runtime_checkable
class AccessSource(Source, Protocol):
    """A source that can say why it names the readers of an artifact that it names."""

    def explain_access(self, artifact_id: str) -> list[str]:
        """Return a line for each thing that decides who may read it; [] if the source does not say who may."""


@runtime_checkable
class SettlingSource(Source, Protocol):
    """A source with many artifacts in one file, which another program may be writing just now."""

    def settle(self) -> bool:
        """Return whether what was listed last is whole: no program goes on writing to it. This may take a second.

        A run asks it before it deletes artifacts that are no longer listed.
        """


@runtime_checkable
class LocalSource(Source, Protocol):
    """A source that may be in files of this machine, whose changes the system reports."""

    def watched(self) -> Sequence[Path]:
        """Return the folders and files that the artifacts are in; none if they are elsewhere."""


@runtime_checkable
class FolderSource(Source, Protocol):
    """A source of everything in a folder, in which the program's own files may be."""

    def leave_out(self, own: Iterable[str]) -> None:
        """Never list these files and folders, which the program itself writes: paths, or URLs."""


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file bundled with an artifact: its path relative to the artifact's folder, and its size in bytes."""

    path: str
    size: int


@runtime_checkable
class BundlingSource(Source, Protocol):
    """A source whose artifacts bundle files that are not indexed, but can be opened once an artifact is chosen."""

    def bundled(self, artifact_id: str) -> tuple[Sequence[BundledFile], Sequence[str]]:
        """Return the files as they are now, and a line for each file that is not available. Raises ReadError."""

    def bundled_text(self, artifact_id: str, path: str) -> str:
        """Return the text of one bundled file. Raises ReadError, also for a path outside the bundle."""


@runtime_checkable
class ConcurrentSource(Source, Protocol):
    """A source that mostly waits for input; several threads may call `read` at once."""

    @property
    def readers(self) -> int:
        """Number of artifacts to read at once."""


@runtime_checkable
class Strategy(Protocol):
    """Strategy that cuts an artifact into surfaces and derives its filter fields."""

    def decompose(self, artifact_id: str, raw: Raw, metadata: Mapping[str, Any]) -> SurfacePlan:
        """Cut one artifact. This must be pure: the same input gives the same plan."""


@runtime_checkable
class TextStrategy(Strategy, Protocol):
    """Strategy that states which text of an artifact is summarised and quoted.

    Without this method it is the payload's text if a surface has a span in it, else the texts of the surfaces in order.
    A method `segments(raw)` may also return that text as a list of `findingaid.model.Segment`, one for each turn.
    """

    def text(self, raw: Raw) -> str:
        """Return the text that synthesizers and claim extractors are shown. Raises DecomposeError.

        Spans of surfaces and quotes of claims are positions in it.
        """


@runtime_checkable
class EdgeExtractor(Protocol):
    """Extractor of references between artifacts."""

    def extract(self, artifact: Artifact, fields: Mapping[str, Any]) -> Iterable[Edge]:
        """Return the edges of one artifact; `fields` are its filter fields. This must be pure and call no model."""


@runtime_checkable
class Synthesizer(Protocol):
    """Writer of synopses."""

    @property
    def id(self) -> str:
        """Identifier that changes whenever the written text could change."""

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        """Return a synopsis of `text`, or "" if there is nothing to say. Raises SynthesisError."""


@runtime_checkable
class ArtifactSynthesizer(Synthesizer, Protocol):
    """A synthesizer that may also read the artifact: its id, its payload, and its filter fields as metadata.

    Its results are cached by all of these, so that a renamed artifact is requested again.
    """

    @property
    def reads_artifact(self) -> bool:
        """Whether it reads the artifact; if not, only `synthesize` is called."""

    def synthesize_artifact(self, text: str, metadata: Mapping[str, Any], artifact: Artifact) -> str:
        """Return a synopsis, as `synthesize` does."""


@runtime_checkable
class ChunkPlacing(Synthesizer, Protocol):
    """A synthesizer whose model can also write the contexts of chunks."""

    @property
    def chunk_contexts(self) -> Synthesizer:
        """Writer of contexts. Its method `inputs(document, chunks)` returns the text that it is given for each."""


@runtime_checkable
class CheckingSynthesizer(Synthesizer, Protocol):
    """A synthesizer that knows which texts are none of its own, such as those that an earlier version let pass."""

    def accepts(self, text: str) -> bool:
        """Return whether a cached text would pass today; one that would not is requested again."""


@runtime_checkable
class ConcurrentSynthesizer(Synthesizer, Protocol):
    """A synthesizer that works on several synopses at once."""

    def synthesize_all(self, shown: Sequence[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
        """Yield synopses as they arrive, each with its index in `shown`.

        A failed synopsis is yielded as such and raises nothing. After the iterator is closed, no more requests are
        sent, and those under way are not waited for.
        """


@runtime_checkable
class ResumableSynthesizer(Synthesizer, Protocol):
    """A synthesizer that, when an artifact has grown, reads only the new segments and the state it left before."""

    @property
    def at_once(self) -> int:
        """Number of calls that may run at once, from several threads."""

    @property
    def stand_in(self) -> ResumableSynthesizer | None:
        """Substitute that writes if this one fails and left no earlier text. The substitute never fails."""

    def left(self, shown: SynthesizerInput, state: str) -> list[SynthesizerInput]:
        """Return the inputs of the remaining calls, in order; [] if `state` covers the whole artifact.

        Each call continues from the state that the previous call left. The first continues from the state in its own
        input, which is "" if `state` is of no use.
        """

    def resume(self, shown: SynthesizerInput) -> Synopsis:
        """Make one of these calls. It never raises, and the `state` of the synopsis is for the next call."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that an extractor found. `quote` is the passage that states it.

    `span` is the position of the quote in the text that the extractor read. Without a span, findingaid searches the
    text for the quote. `confidence` is the extractor's own, from 0 to 1.
    """

    text: str
    quote: str = ""
    span: tuple[int, int] | None = None
    type: str = "fact"
    confidence: float = 1.0
    entities: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """Result of an extractor for one text; `refused` gives the reason for each statement left out, a line each."""

    statements: Sequence[Statement] = ()
    refused: Sequence[str] = ()


@runtime_checkable
class ClaimExtractor(Protocol):
    """Extractor of statements from an artifact; a `ModelProducer` of extractions from texts, if it asks a model."""

    @property
    def id(self) -> str:
        """Identifier that changes whenever the result could change."""

    def extract(self, text: str, metadata: Mapping[str, Any]) -> Extraction:
        """Return statements in the order of the text; results are cached by content. Raises SynthesisError."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Sentence that an extractor does not take, and the reason; the text is "" if the reason holds for all of it."""

    text: str
    reason: str


@runtime_checkable
class ExplainingExtractor(ClaimExtractor, Protocol):
    """Extractor that can say, without a call, why it takes no more of a text."""

    def left_out(self, text: str, metadata: Mapping[str, Any]) -> Sequence[LeftOut]:
        """Return what `extract` leaves out, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Member:
    """Input of a summary node: a claim that is not retracted."""

    claim_id: str
    text: str
    type: str
    confidence: float
    entities: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bullet:
    """One point of a summary node, and the ids of the claims that support it."""

    text: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft of a summary node over the claims of an artifact; `refused` lists the omissions, a line each."""

    bullets: tuple[Bullet, ...]
    themes: tuple[str, ...] = ()
    confidence: float = 1.0
    refused: tuple[str, ...] = ()


@runtime_checkable
class NodeProducer(Protocol):
    """Writer of summaries over the claims of one artifact; a `ModelProducer` of drafts, if it asks a model."""

    @property
    def id(self) -> str:
        """Identifier that changes whenever the result could change."""

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        """Return a draft, which is cached by the members, or None if there is nothing to say. Raises SynthesisError."""


@runtime_checkable
class ModelProducer(Protocol[Input, Made]):
    """Producer that asks a model for several inputs at once, and knows the usage in advance."""

    @property
    def model(self) -> str:
        """Name of the model, as in the price table."""

    def estimate(self, given: Input) -> Usage:
        """Return the estimated usage for one input, without a call."""

    def most(self, given: Input) -> Usage | None:
        """Return the maximum usage for one input if each request is sent once; None if an answer has no bound.

        Each request is paid for through `findingaid.llm.metering.pay_for`.
        """

    def call_all(self, inputs: Iterable[Input]) -> Generator[tuple[int, CallResult[Made]]]:
        """Yield results as they arrive, each with the index of its input.

        After the generator is closed, no more requests are sent, and those under way are not waited for.
        """


@runtime_checkable
class CostsNothing(Protocol):
    """A part whose calls cost nothing.

    A plan also calls an extractor or producer that is free, and its results are not cached.
    """

    @property
    def free(self) -> Literal[True]: ...


@runtime_checkable
class Embedder(Protocol):
    """Model that maps texts to vectors of unit length."""

    @property
    def id(self) -> str:
        """Identifier that changes whenever a vector could: with the model, weights, precision or prompts."""

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""

    @property
    def max_tokens(self) -> int | None:
        """Number of tokens of a text that the model reads, without special tokens; None if it reads all."""

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` by the model's own tokenizer, without special tokens."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (len(texts), dim), float32, each of length 1. Raises EmbedError."""

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, shape (dim,). It differs from `embed` for models with query prompts."""


@runtime_checkable
class Local(Protocol):
    """An embedder that runs on this machine and costs only time, so that a plan may measure its speed."""

    @property
    def local(self) -> Literal[True]: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Hits that a selector keeps, by their index among those offered, and the reason for keeping no more."""

    places: Sequence[int]
    reason: str


@runtime_checkable
class Reranker(Protocol):
    """Model that scores how well each text answers a query, reading both together."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a finite score for each text; higher is better. Raises ModelError."""


@runtime_checkable
class Selector(Protocol):
    """Selector that decides how many hits are enough."""

    def select(self, query: str, hits: Sequence[Hit]) -> Selection:
        """Select the hits to keep from `hits`, which are ordered best first. Raises ModelError."""


@runtime_checkable
class Rewriter(Protocol):
    """Rewriter that puts a query in other words."""

    def rewrite(self, query: str) -> Sequence[str]:
        """Return queries to search for in addition to the query itself. Raises ModelError."""


@dataclass(frozen=True, slots=True)
class Written:
    """A sentence that a model wrote, without citations, and the ids of the evidence that it gives as support."""

    text: str
    cited_ids: Sequence[str]


@runtime_checkable
class Answerer(Protocol):
    """Model that answers a question in its own sentences, each supported by evidence offered to it."""

    @property
    def model(self) -> str:
        """Name of the model to give as the author."""

    def write(self, query: str, evidence: Mapping[str, str], max_chars: int) -> Sequence[Written]:
        """Write an answer of at most `max_chars` from `evidence` (id to text, best first). Raises ModelError."""


@runtime_checkable
class Verifier(Protocol):
    """Judge of whether evidence supports a sentence that a model wrote."""

    @property
    def model(self) -> str:
        """Name of the model that judges."""

    def objection(self, sentence: str, evidence: Sequence[str]) -> str:
        """Return why the evidence does not support the sentence; "" if it does. Raises ModelError."""
