"""What is stale: pure functions over what a source holds now and what the ledger says was done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from findingaid.errors import SourceShrunkError
from findingaid.identity import content_hash
from findingaid.model import EDGES, Discovery, Edge, Failure, Listing, Stage

BATCH_ARTIFACTS = 512
BATCH_BYTES = 64_000_000
"""A batch is committed at once and held in memory, so both its rows and its bytes are bounded."""

NO_SYNOPSIS = "none"
NO_CLAIMS = ""
"""The id of having none, and the version of what is not there."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a corpus is made with: the id of everything that can change a result."""

    strategy_id: str
    synthesizer_id: str
    embedder_id: str
    records_version: str
    edges_id: str
    claims_id: str = NO_CLAIMS
    nodes_id: str = NO_CLAIMS

    @property
    def id(self) -> str:
        of_claims = (self.claims_id, self.nodes_id) if self.claims_id else ()
        return content_hash(
            self.strategy_id, self.synthesizer_id, self.embedder_id, self.records_version, self.edges_id, *of_claims
        )

    def code_version(self, stage: Stage) -> str:
        """The part of the recipe that one stage depends on; shown by Dagster as its code version."""
        return {
            Stage.ARTIFACTS: "1",
            Stage.SURFACES: self.strategy_id,
            Stage.SYNOPSES: self.synthesizer_id,
            Stage.CLAIMS: self.claims_id,
            Stage.SUMMARY_NODES: self.nodes_id,
            Stage.EMBEDDINGS: self.embedder_id,
            Stage.RECORDS: self.records_version,
        }[stage]

    def surfaces(self, artifact: str) -> str:
        """The version wanted of the surfaces of an artifact of this version."""
        return content_hash(artifact, self.strategy_id)

    def versions(
        self,
        artifact: str,
        synopsis: str | None,
        claims: str | None,
        nodes: str | None,
        texts: Collection[str],
        edges: Sequence[Edge],
    ) -> dict[str, str | None]:
        """The version wanted of each part, from hashes of its inputs.

        `synopsis` stands for what a synopsis is made of, None where it is still to come and nothing stands in;
        `claims` and `nodes` are versions, see `findingaid.claiming`; `texts` are the hashes of all texts to embed.
        """
        surfaces = self.surfaces(artifact)
        of_claims = (claims, nodes) if self.claims_id else ()
        synopses = None if synopsis is None else content_hash(synopsis, self.synthesizer_id)
        embeddings = content_hash(sorted(set(texts)), self.embedder_id)
        return {
            Stage.ARTIFACTS: artifact,
            Stage.SURFACES: surfaces,
            Stage.SYNOPSES: synopses,
            Stage.CLAIMS: claims,
            Stage.SUMMARY_NODES: nodes,
            Stage.EMBEDDINGS: embeddings,
            Stage.RECORDS: content_hash(surfaces, synopses, *of_claims, embeddings, self.records_version),
            EDGES: content_hash(list(edges)),
        }


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """What a run would look at in one corpus.

    `stale` are listings that are new, have changed, failed before, were lost or decided of; reading them may show that
    nothing changed after all. `deleted` are known artifacts that the source no longer has. `lost` names the
    parts whose rows are gone from their table.
    """

    corpus: str
    artifacts: int
    stale: Sequence[Listing]
    deleted: Sequence[str]
    failures: Sequence[Failure] = ()
    lost: Mapping[str, Collection[str]] = field(default_factory=dict)

    def batches(self) -> Iterator[Sequence[Listing]]:
        """The stale artifacts in groups that are each committed at once."""
        batch: list[Listing] = []
        size = 0
        for listing in self.stale:
            if batch and (len(batch) == BATCH_ARTIFACTS or size + listing.size > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(listing)
            size += listing.size
        if batch:
            yield batch

    def removals(self) -> Iterator[Sequence[str]]:
        """The deleted artifacts in groups that are each committed at once."""
        for start in range(0, len(self.deleted), BATCH_ARTIFACTS):
            yield self.deleted[start : start + BATCH_ARTIFACTS]


def plan_corpus(
    corpus: str,
    discovery: Discovery,
    known: Mapping[str, tuple[str, str]],
    recipe_id: str,
    lost: Mapping[str, Collection[str]],
    force: bool = False,
    decided: Collection[str] = (),
) -> CorpusPlan:
    """Compare a discovery with the ledger's (stamp, recipe) of each artifact; `decided` are stale by decisions."""
    stale = [
        listing
        for listing in discovery.listings
        if force
        or not listing.settled
        or listing.artifact_id in lost
        or listing.artifact_id in decided
        or known.get(listing.artifact_id) != (listing.stamp, recipe_id)
    ]
    there = {listing.artifact_id for listing in discovery.listings} | {f.artifact_id for f in discovery.failures}
    hidden = tuple(discovery.unknown)
    deleted = sorted(i for i in {*known, *lost} - there if not (hidden and i.startswith(hidden)))
    return CorpusPlan(corpus, len(there), stale, deleted, discovery.failures, lost)


def refuse_loss(plan: CorpusPlan, known: int, max_loss: float) -> None:
    """Raises SourceShrunkError when the source lists nothing, or more than `max_loss` less than is known."""
    loss = known - plan.artifacts
    if not plan.deleted or loss <= 0 or (plan.artifacts and loss <= max_loss * known):
        return
    raise SourceShrunkError(
        f"the source lists {plan.artifacts} artifacts, the index has {known}: refused to delete {len(plan.deleted)}."
        " If they are meant to be gone, run again with --allow-loss"
    )
