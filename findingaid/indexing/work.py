"""Artifacts on their way through the stages: an `ArtifactWork` each, in a `Batch`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from findingaid.access import NOBODY, PUBLIC
from findingaid.claims.model import ClaimsResult, NodeResult
from findingaid.corpus import Corpus
from findingaid.errors import failure_kind, one_line
from findingaid.identity.hashes import text_hash
from findingaid.indexing import claims as claiming
from findingaid.indexing.calls import CallResults
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.vectors import Embeddings
from findingaid.model import (
    WRITTEN,
    Artifact,
    Edge,
    Failure,
    Listing,
    Note,
    Outcome,
    Stage,
    Surface,
    SurfacePlan,
    Synopsis,
    SynthesizerInput,
)
from findingaid.store import LedgerRow

NO_SYNOPSIS = Synopsis(Outcome.SKIPPED)
NO_CLAIMS = ClaimsResult(Outcome.SKIPPED)
NO_NODE = NodeResult(Outcome.SKIPPED)
"""Results of the stages that a corpus does not have."""


def new_row(corpus: Corpus, artifact_id: str) -> LedgerRow:
    """Return the ledger row of an artifact of which nothing is known yet."""
    return LedgerRow(corpus.name, artifact_id, PUBLIC if corpus.access is None else NOBODY)


@dataclass
class ArtifactWork:
    """One artifact, with everything that the stages have made of it so far.

    `row` is its ledger row, without versions if the artifact is new. `listing` is None if the payload comes from the
    artifacts table, in place of the source.
    """

    artifact_id: str
    row: LedgerRow
    is_new: bool
    stamp: str
    listing: Listing | None = None

    failure: Failure | None = None
    skipped: str = ""
    """Reason why the source skips it."""

    artifact: Artifact | None = None
    version: str = ""
    """Version of the stage ARTIFACTS."""

    readers: str = PUBLIC
    """Who may read it, see `findingaid.access.readers_text`."""

    notes: Sequence[Note] | None = None
    """Notes on reading; None if it was not read from the source, and its readers are not known."""

    plan: SurfacePlan | None = None
    edges: Sequence[Edge] = ()
    bytes: int = 0
    """About the size of its rows."""

    hashes: Sequence[str] = ()
    """Hashes of the texts of its surfaces without context, in plan order."""

    synopsis_input: SynthesizerInput | None = None
    synopsis: Synopsis = NO_SYNOPSIS
    synopsis_missing: bool = False
    """Whether it needs a synopsis that was not requested, as in a plan."""

    chunk_contexts: dict[int, str] = field(default_factory=dict)
    """Position of a chunk -> the sentence that a model wrote about it."""

    chunk_contexts_missing: bool = False
    contexts: Sequence[str] | None = None
    """The text put before each surface for embedding and search, if the corpus uses contexts."""

    claims_input: SynthesizerInput | None = None
    claims: ClaimsResult | None = None
    node: NodeResult | None = None

    versions: Mapping[str, str | None] = field(default_factory=dict)
    """Part -> its wanted version; None if a requested result is not there yet."""

    redo: Sequence[str] = ()
    """Parts whose version differs from the wanted one."""

    def fail(self, stage: Stage, error: BaseException) -> None:
        self.failure = Failure(self.artifact_id, stage.value, failure_kind(error), one_line(error))

    @property
    def payload(self) -> Artifact:
        """The artifact that was read."""
        assert self.artifact is not None  # noqa: S101  # the stages after ARTIFACTS take only those that were read
        return self.artifact

    @property
    def surfaces(self) -> Sequence[Surface]:
        return self.plan.surfaces if self.plan else ()

    @property
    def filter_fields(self) -> Mapping[str, Any]:
        return self.plan.filter_fields if self.plan else {}

    def searched(self) -> list[tuple[str, str]]:
        """Return (text with its context, hash of that) of each surface, in plan order."""
        texts = [surface.searched or surface.text for surface in self.surfaces]
        if self.contexts is None:
            return list(zip(texts, self.hashes, strict=True))
        texts = [context + text for context, text in zip(self.contexts, texts, strict=True)]
        return [(text, text_hash(text)) for text in texts]

    def claim_surfaces(self) -> Iterator[tuple[str, Surface, str]]:
        """Yield the surfaces of its claims and summary node; see `claiming.claim_surfaces`."""
        if self.claims:
            yield from claiming.claim_surfaces(self.claims)
            yield from claiming.node_surfaces(self.node)

    def texts(self) -> dict[str, str]:
        """Return hash -> text of all its texts that are embedded."""
        texts = {h: text for text, h in self.searched()}
        texts |= {text_hash(surface.text): surface.text for _, surface, _ in self.claim_surfaces()}
        return texts | {text_hash(self.synopsis.text): self.synopsis.text} if self.synopsis.text else texts

    def result(self, stage: Stage) -> Synopsis | ClaimsResult | NodeResult:
        """Return the result of one of the stages in WRITTEN."""
        results: dict[Stage, Synopsis | ClaimsResult | NodeResult] = {
            Stage.SYNOPSES: self.synopsis,
            Stage.CLAIMS: self.claims or NO_CLAIMS,
            Stage.SUMMARY_NODES: self.node or NO_NODE,
        }
        return results[stage]

    def failures(self) -> Iterator[Failure]:
        """Yield its failure or, if it is published nevertheless, that of each stage in WRITTEN."""
        if self.failure:
            yield self.failure
            return
        for stage in WRITTEN:
            result = self.result(stage)
            if result.outcome is Outcome.FAILED:
                yield Failure(self.artifact_id, stage.value, result.kind, result.message)

    def refused(self) -> tuple[str, ...]:
        """Return the refused parts of claims and summary nodes, a line each."""
        return (*(self.claims or NO_CLAIMS).refused, *(self.node or NO_NODE).refused)

    def count(self) -> int:
        """Return its number of records: surfaces, synopsis, claims and summary node."""
        return len(self.surfaces) + bool(self.synopsis.text) + sum(1 for _ in self.claim_surfaces())


@dataclass
class Batch:
    """Artifacts that go through the stages together.

    `unembedded` are the texts by hash that had no cached vector, and `embedded` is how many of them the model embedded.
    `calls` has the results of the calls of each requested stage in WRITTEN.
    """

    works: Sequence[ArtifactWork]
    options: BuildOptions
    embeddings: Embeddings
    unembedded: dict[str, str] = field(default_factory=dict)
    embedded: int = 0
    calls: dict[Stage, CallResults] = field(default_factory=dict)

    @property
    def live(self) -> list[ArtifactWork]:
        """The artifacts that no stage has failed or skipped so far."""
        return [work for work in self.works if work.failure is None and not work.skipped]

    def add_calls(self, stage: Stage, made: CallResults) -> None:
        """Count the calls of a stage; a stage that is not requested only looks into the cache."""
        if stage in self.options.stages:
            self.calls[stage] = self.calls.get(stage, CallResults()) + made

    def texts(self) -> dict[str, str]:
        """Return hash -> text of all texts that are embedded."""
        return {h: text for work in self.live for h, text in work.texts().items()}
