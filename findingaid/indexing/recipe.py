"""Recipes: ids of everything that the results of a corpus depend on, and the versions made from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from findingaid.access import PUBLIC
from findingaid.corpus import Claiming, Corpus
from findingaid.edges import NO_EDGES
from findingaid.identity.fingerprints import EDGE_EXTRACTOR, producer_id
from findingaid.identity.hashes import content_hash, embeddings_version
from findingaid.model import EDGES, SYNOPSIS, Edge, Stage
from findingaid.protocols import Embedder
from findingaid.store import schemas
from findingaid.strategies.with_synopsis import WithSynopsis, split_synopsis

NO_SYNOPSIS = "none"
NO_CLAIMS = ""
"""The id of a corpus without claims, and the version of claims that do not exist."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ids of everything that can change the results of a corpus."""

    strategy_id: str
    synthesizer_id: str
    embedder_id: str
    records_version: str
    edges_id: str
    claims_id: str = NO_CLAIMS
    nodes_id: str = NO_CLAIMS
    access_id: str = ""

    @property
    def id(self) -> str:
        of_claims = (self.claims_id, self.nodes_id) if self.claims_id else ()
        access = ("access", self.access_id) if self.access_id else ()
        return content_hash(
            self.strategy_id,
            self.synthesizer_id,
            self.embedder_id,
            self.records_version,
            self.edges_id,
            *of_claims,
            *access,
        )

    def code_version(self, stage: Stage) -> str:
        """Return the part of the recipe that one stage depends on. Dagster shows it as the stage's code version."""
        return {
            Stage.ARTIFACTS: f"1 {self.access_id}".strip(),
            Stage.SURFACES: self.strategy_id,
            Stage.SYNOPSES: self.synthesizer_id,
            Stage.CLAIMS: self.claims_id,
            Stage.SUMMARY_NODES: self.nodes_id,
            Stage.EMBEDDINGS: self.embedder_id,
            Stage.RECORDS: self.records_version,
        }[stage]

    def surfaces(self, artifact: str) -> str:
        """Return the wanted version of surfaces, from the version of their artifact."""
        return content_hash(artifact, self.strategy_id)

    def versions(
        self,
        artifact: str,
        synopsis: str | None,
        claims: str | None,
        nodes: str | None,
        texts: Collection[str],
        edges: Sequence[Edge],
        readers: str,
    ) -> dict[str, str | None]:
        """Return the wanted version of each part, from hashes of its inputs.

        `synopsis` identifies the input of a synopsis; None if the synopsis is still to come and has no substitute.
        `claims` and `nodes` are versions, see `findingaid.indexing.claims`. `texts` are the hashes of all texts to
        embed. The parts whose rows name the `readers` depend on them too.
        """
        surfaces = self.surfaces(artifact)
        of_claims = (claims, nodes) if self.claims_id else ()
        synopses = None if synopsis is None else content_hash(synopsis, self.synthesizer_id)
        embeddings = embeddings_version(texts, self.embedder_id)
        return {
            Stage.ARTIFACTS: artifact,
            Stage.SURFACES: surfaces,
            Stage.SYNOPSES: synopses,
            Stage.CLAIMS: readable(claims, readers),
            Stage.SUMMARY_NODES: readable(nodes, readers),
            Stage.EMBEDDINGS: embeddings,
            Stage.RECORDS: readable(
                content_hash(surfaces, synopses, *of_claims, embeddings, self.records_version), readers
            ),
            EDGES: readable(content_hash(list(edges)), readers),
        }


def readable(version: str | None, readers: str) -> str | None:
    """Return the version of rows that name their readers; it is that of the content alone if everybody is."""
    return content_hash(version, readers) if version and readers != PUBLIC else version


def recipe_of(corpus: Corpus, embedder: Embedder) -> Recipe:
    """Return the recipe of a corpus."""
    strategy, synopses = split_synopsis(corpus.strategy)
    edges = producer_id(corpus.edges, EDGE_EXTRACTOR) if corpus.edges else NO_EDGES
    claims, nodes = _claims_ids(corpus.claims, embedder) if corpus.claims else (NO_CLAIMS, NO_CLAIMS)
    return Recipe(
        producer_id(strategy),
        synopses.id if synopses else NO_SYNOPSIS,
        embedder.id,
        _records_version(synopses),
        edges,
        claims,
        nodes,
        corpus.access.id if corpus.access else "",
    )


def _records_version(synopses: WithSynopsis | None) -> str:
    version = schemas.RECORDS_VERSION
    if synopses is not None:
        version += "" if synopses.kind == SYNOPSIS else f"-{synopses.kind}"
        version += "-context" if synopses.context else ""
        version += f"-{synopses.chunk_contexts.id}" if synopses.context == "chunk" else ""
    return version


def _claims_ids(of: Claiming, embedder: Embedder) -> tuple[str, str]:
    """Return the ids that the versions of claims and of summary nodes depend on."""
    near = "" if of.near is None else f"-{content_hash(of.near, embedder.id)[:8]}"
    least = f"-{of.min_confidence}" if of.min_confidence else ""
    nodes = f"{of.nodes.id}-{of.at_least}-{of.min_node_confidence}" if of.nodes else NO_CLAIMS
    return f"{of.extractor.id}{near}{least}", nodes
