"""Table rows built from a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from findingaid.claims.model import Claimed, Noded
from findingaid.identity.hashes import content_hash, record_id, text_hash, to_json
from findingaid.indexing.batch import Batch
from findingaid.indexing.calls import synopsis_key
from findingaid.indexing.vectors import Embeddings
from findingaid.model import Surface
from findingaid.store import schemas
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.synthesis.anchored import State
from findingaid.text.analyzer import searchable
from findingaid.text.titles import as_title


def artifact_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str]) -> pa.Table:
    """Build rows of the artifacts table."""
    artifacts = [batch.artifacts[i] for i in artifact_ids]
    columns = {
        "corpus": [corpus] * len(artifacts),
        "artifact_id": artifact_ids,
        "version": [batch.versions[i] for i in artifact_ids],
        "payload": [a.raw if isinstance(a.raw, str) else to_json(a.raw) for a in artifacts],
        "is_text": [isinstance(a.raw, str) for a in artifacts],
        "metadata": [to_json(a.metadata) for a in artifacts],
    }
    return pa.table(columns, schema=schemas.ARTIFACTS)


def surface_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str]) -> pa.Table:
    """Build rows of the surfaces table."""
    placed = [(i, position, surface) for i in artifact_ids for position, surface in enumerate(batch.plans[i].surfaces)]
    columns = {
        "corpus": [corpus] * len(placed),
        "artifact_id": [i for i, _, _ in placed],
        "position": [position for _, position, _ in placed],
        **_columns_of([surface for _, _, surface in placed]),
        "text_hash": [
            text_hash(surface.text) if surface.searched else h
            for i in artifact_ids
            for surface, h in zip(batch.plans[i].surfaces, batch.hashes[i], strict=True)
        ],
        "metadata": [to_json(surface.metadata) for _, _, surface in placed],
    }
    return _ordered(columns, schemas.SURFACES)


def edge_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str]) -> pa.Table:
    """Build rows of the edges table."""
    placed = [(i, position, edge) for i in artifact_ids for position, edge in enumerate(batch.edges[i])]
    edges = [edge for _, _, edge in placed]
    columns = {
        "corpus": [corpus] * len(placed),
        "artifact_id": [i for i, _, _ in placed],
        "position": [position for _, position, _ in placed],
        "kind": [edge.kind for edge in edges],
        "target_corpus": [edge.corpus or corpus for edge in edges],
        "target_id": [edge.target_id for edge in edges],
        "section": [edge.section for edge in edges],
        "span_start": [edge.span and edge.span[0] for edge in edges],
        "span_end": [edge.span and edge.span[1] for edge in edges],
    }
    return pa.table(columns, schema=schemas.EDGES)


def synopsis_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str], of: WithSynopsis | None) -> pa.Table:
    """Build rows of the synopses table, one for each artifact with a text or an empty result."""
    made = [(i, synopsis) for i in artifact_ids if (synopsis := batch.synopsis(i)).kept]
    columns = {
        "corpus": [corpus] * len(made),
        "artifact_id": [i for i, _ in made],
        "key": [synopsis_key(of.synthesizer.id, batch.shown[i]) if of else "" for i, _ in made],
        "outcome": [synopsis.outcome.value for _, synopsis in made],
        "text": [synopsis.text for _, synopsis in made],
        "producer_id": [synopsis.producer_id for _, synopsis in made],
        "state": [synopsis.state or None for _, synopsis in made],
    }
    return pa.table(columns, schema=schemas.SYNOPSES)


def summary_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str], latest: Mapping[str, str]) -> pa.Table:
    """Build rows of the summaries table: anchored summaries that differ from the `latest` one of their artifact."""
    made = [(i, batch.synopsis(i)) for i in artifact_ids]
    known = [(i, s, state) for i, s in made if s.outcome.settled and (state := State.of(s.state))]
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            "corpus": corpus,
            "artifact_id": i,
            "iteration": state.summary.iteration,
            "segments": len(state.covered),
            "covers": content_hash(state.covered),
            "summary": state.summary.model_dump_json(),
            "producer_id": synopsis.producer_id,
            "at": now,
        }
        for i, synopsis, state in known
    ]
    return pa.Table.from_pylist([r for r in rows if latest.get(r["artifact_id"]) != r["summary"]], schemas.SUMMARIES)


def record_rows(
    corpus: str, batch: Batch, artifact_ids: Sequence[str], of: WithSynopsis | None, embeddings: Embeddings
) -> pa.Table:
    """Build rows of the records table: of each artifact the surfaces in plan order, the synopsis first, claims last.

    In a corpus with synopses, position 0 is reserved for the synopsis even if it failed or is empty. The ids of the
    other records then stay the same when it arrives.
    """
    placed = [(i, record) for i in artifact_ids for record in _placed(batch, i, of)]
    surfaces = [record.surface for _, record in placed]
    titles = {i: as_title(str(batch.artifacts[i].metadata.get("title") or i)) for i in artifact_ids}
    fields = {i: batch.plans[i].filter_fields for i in artifact_ids}
    kinds = _columns_of(surfaces)
    embedder = embeddings.embedder
    vectors = pa.array(embeddings.matrix([record.hash for _, record in placed]).ravel(), pa.float16())
    columns = {
        **kinds,
        "record_id": [record_id(corpus, i, record.surface.kind, record.place) for i, record in placed],
        "corpus": [corpus] * len(placed),
        "artifact_id": [i for i, _ in placed],
        "surface_kind": kinds["kind"],
        "surface_index": [record.index for _, record in placed],
        "title": [titles[i] for i, _ in placed],
        "text": [record.text for _, record in placed],
        "lexical": [searchable(record.text).column for _, record in placed],
        "shown": [None if record.text == record.surface.text else record.surface.text for _, record in placed],
        "metadata": [to_json({**fields[i], **record.surface.metadata}) for i, record in placed],
        "artifact_version": [batch.versions[i] for i, _ in placed],
        "producer_id": [record.producer for _, record in placed],
        "claim_id": [record.claim_id for _, record in placed],
        "evidence": [record.evidence for _, record in placed],
        "embedder_id": [embedder.id] * len(placed),
        "vector": pa.FixedSizeListArray.from_arrays(vectors, embeddings.dim),
    }
    return _ordered(columns, schemas.records(embeddings.dim))


@dataclass(frozen=True, slots=True)
class _Record:
    """A surface with its position among all surfaces of its artifact, and the text that it is searched by.

    `place` is the input of the record's id: that position, or the id of the claim or summary node.
    """

    index: int
    place: int | str
    surface: Surface
    text: str
    hash: str
    producer: str = ""
    claim_id: str = ""
    evidence: str = ""


def _placed(batch: Batch, artifact_id: str, of: WithSynopsis | None) -> Iterator[_Record]:
    """Yield all records of an artifact."""
    synopsis = batch.synopsis(artifact_id)
    if of is not None and synopsis.text:
        surface = Surface(of.kind, synopsis.text, "document")
        yield _Record(0, 0, surface, synopsis.text, text_hash(synopsis.text), synopsis.producer_id)
    surfaces = zip(batch.plans[artifact_id].surfaces, batch.searched(artifact_id), strict=True)
    first = 0 if of is None else 1
    for index, (surface, searched) in enumerate(surfaces, first):
        yield _Record(index, index, surface, *searched)
    behind = first + len(batch.plans[artifact_id].surfaces)
    for index, (place, surface, producer) in enumerate(batch.of_claims(artifact_id), behind):
        evidence = str(surface.metadata.get("evidence", ""))
        yield _Record(index, place, surface, surface.text, text_hash(surface.text), producer, str(place), evidence)


def _columns_of(surfaces: Sequence[Surface]) -> dict[str, Any]:
    """Return the columns that the surfaces and records tables share."""
    return {
        "kind": [s.kind for s in surfaces],
        "granularity": [s.granularity for s in surfaces],
        "text": [s.text for s in surfaces],
        "span_start": [s.span and s.span[0] for s in surfaces],
        "span_end": [s.span and s.span[1] for s in surfaces],
    }


def _ordered(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def claim_rows(claimed: Mapping[str, Claimed], artifact_ids: Sequence[str]) -> pa.Table:
    """Build rows of the claims table."""
    placed = [(place, c) for i in artifact_ids if i in claimed for place, c in enumerate(claimed[i].claims)]
    rows = [
        asdict(claim)
        | {
            "position": place,
            "entities": list(claim.entities),
            "evidence": claim.evidence.value,
            "span_start": claim.span and claim.span[0],
            "span_end": claim.span and claim.span[1],
        }
        for place, claim in placed
    ]
    return pa.Table.from_pylist(rows, schema=schemas.CLAIMS)


def node_rows(noded: Mapping[str, Noded], artifact_ids: Sequence[str]) -> pa.Table:
    """Build rows of the summary_nodes table."""
    nodes = [noded[i].node for i in artifact_ids if i in noded]
    rows = [
        asdict(node)
        | {
            "bullets": to_json([[bullet.text, bullet.members] for bullet in node.bullets]),
            "themes": list(node.themes),
            "members": list(node.members),
        }
        for node in nodes
        if node
    ]
    return pa.Table.from_pylist(rows, schema=schemas.SUMMARY_NODES)
