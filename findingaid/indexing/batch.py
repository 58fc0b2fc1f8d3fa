"""Batch of artifacts on its way through the stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from findingaid.claims.model import Claimed, Noded
from findingaid.errors import failure_kind, one_line
from findingaid.identity.hashes import text_hash
from findingaid.indexing import claims as claiming
from findingaid.model import Artifact, Edge, Failure, Note, Outcome, Shown, Stage, Surface, SurfacePlan, Synopsis

NOT_WANTED = Synopsis(Outcome.SKIPPED)
"""Synopsis of an artifact in a corpus without synopses."""


WANTED = Synopsis(Outcome.PENDING)


NO_CLAIMS = Claimed(Outcome.SKIPPED)


NO_NODE = Noded(Outcome.SKIPPED)


@dataclass
class Batch:
    """A batch on its way through the stages, with all data by artifact id. Artifacts that fail are in `failures`.

    `versions` are those of the artifacts stage. `sizes` are about the bytes that the rows of an artifact take. `hashes`
    are of the texts of an artifact's surfaces, in plan order. `contexts` holds the text put before each surface for
    embedding and search, if the corpus uses contexts. `unwritten` are artifacts that need a synopsis which was not
    requested, as in a plan. `stated` is the claim extractor's input. `skipped` has the reason for each artifact that
    the source skips. `placed` has the sentence that a model wrote about each chunk, by position, and `unplaced` the
    artifacts whose sentences were not requested. `notes` are those on reading, of the artifacts that were read.
    """

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    plans: dict[str, SurfacePlan] = field(default_factory=dict)
    edges: dict[str, list[Edge]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, list[str]] = field(default_factory=dict)
    shown: dict[str, Shown] = field(default_factory=dict)
    synopses: dict[str, Synopsis] = field(default_factory=dict)
    unwritten: set[str] = field(default_factory=set)
    stated: dict[str, Shown] = field(default_factory=dict)
    claims: dict[str, Claimed] = field(default_factory=dict)
    nodes: dict[str, Noded] = field(default_factory=dict)
    contexts: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    placed: dict[str, dict[int, str]] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    notes: dict[str, Sequence[Note]] = field(default_factory=dict)

    def fail(self, artifact_id: str, stage: Stage, error: BaseException) -> None:
        self.failures[artifact_id] = Failure(artifact_id, stage.value, failure_kind(error), one_line(error))

    def synopsis(self, artifact_id: str) -> Synopsis:
        """Return the synopsis of an artifact; a skipped one if none was requested."""
        return self.synopses.get(artifact_id, NOT_WANTED)

    def texts(self, artifact_id: str) -> dict[str, str]:
        """Return hash -> text of all texts of an artifact that are embedded."""
        texts = {h: text for text, h in self.searched(artifact_id)}
        texts |= {text_hash(surface.text): surface.text for _, surface, _ in self.of_claims(artifact_id)}
        synopsis = self.synopsis(artifact_id)
        return texts | {text_hash(synopsis.text): synopsis.text} if synopsis.text else texts

    def of_claims(self, artifact_id: str) -> Iterator[tuple[str, Surface, str]]:
        """Yield the surfaces of an artifact's claims and summary node; see `claiming.claim_surfaces`."""
        if claimed := self.claims.get(artifact_id):
            yield from claiming.claim_surfaces(claimed)
            yield from claiming.node_surfaces(self.nodes.get(artifact_id))

    def stating(self, artifact_id: str) -> Claimed:
        """Return the claims of an artifact; skipped ones if the corpus has no claims or none were requested."""
        return self.claims.get(artifact_id, NO_CLAIMS)

    def noded(self, artifact_id: str) -> Noded:
        """Return the summary node of an artifact; a skipped one if there is none."""
        return self.nodes.get(artifact_id, NO_NODE)

    def made(self, artifact_id: str, stage: Stage) -> Synopsis | Claimed | Noded:
        """Return the result of one of the stages in WRITTEN for an artifact."""
        if stage is Stage.SYNOPSES:
            return self.synopsis(artifact_id)
        return self.stating(artifact_id) if stage is Stage.CLAIMS else self.noded(artifact_id)

    def refused(self, artifact_id: str) -> tuple[str, ...]:
        """Return the refused parts of claims and summary nodes, a line each."""
        return (*self.stating(artifact_id).refused, *self.noded(artifact_id).refused)

    def count(self, artifact_id: str) -> int:
        """Return the number of records of an artifact: its surfaces, synopsis, claims and summary node."""
        surfaces = len(self.plans[artifact_id].surfaces)
        return surfaces + bool(self.synopsis(artifact_id).text) + sum(1 for _ in self.of_claims(artifact_id))

    def searched(self, artifact_id: str) -> list[tuple[str, str]]:
        """Return (text with its context, hash of that) of each surface, in plan order."""
        texts = [surface.searched or surface.text for surface in self.plans[artifact_id].surfaces]
        contexts = self.contexts.get(artifact_id)
        if contexts is None:
            return list(zip(texts, self.hashes[artifact_id], strict=True))
        texts = [context + text for context, text in zip(contexts, texts, strict=True)]
        return [(text, text_hash(text)) for text in texts]
