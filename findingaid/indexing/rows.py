"""Table rows built from artifacts that went through the stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from findingaid.identity.hashes import content_hash, record_id, text_hash, to_json
from findingaid.indexing.calls import synopsis_key
from findingaid.indexing.vectors import Embeddings
from findingaid.indexing.work import ArtifactWork
from findingaid.model import Surface
from findingaid.store import schemas
from findingaid.store.histories import SummaryRow, time_after
from findingaid.strategies.with_synopsis import WithSynopsis
from findingaid.synthesis.anchored import State
from findingaid.text.analyzer import searchable
from findingaid.text.titles import as_title


def artifact_rows(corpus: str, works: Sequence[ArtifactWork]) -> pa.Table:
    """Build rows of the artifacts table."""
    artifacts = [work.payload for work in works]
    columns = {
        "corpus": [corpus] * len(works),
        "artifact_id": [work.artifact_id for work in works],
        "readers": [work.readers for work in works],
        "version": [work.version for work in works],
        "payload": [a.raw if isinstance(a.raw, str) else to_json(a.raw) for a in artifacts],
        "is_text": [isinstance(a.raw, str) for a in artifacts],
        "metadata": [to_json(a.metadata) for a in artifacts],
    }
    return pa.table(columns, schema=schemas.ARTIFACTS)


def surface_rows(corpus: str, works: Sequence[ArtifactWork]) -> pa.Table:
    """Build rows of the surfaces table."""
    placed = [(work.artifact_id, i, surface) for work in works for i, surface in enumerate(work.surfaces)]
    columns = {
        "corpus": [corpus] * len(placed),
        "artifact_id": [artifact_id for artifact_id, _, _ in placed],
        "position": [position for _, position, _ in placed],
        **_columns_of([surface for _, _, surface in placed]),
        "text_hash": [
            text_hash(surface.text) if surface.searched else h
            for work in works
            for surface, h in zip(work.surfaces, work.hashes, strict=True)
        ],
        "metadata": [to_json(surface.metadata) for _, _, surface in placed],
    }
    return _ordered(columns, schemas.SURFACES)


def edge_rows(corpus: str, works: Sequence[ArtifactWork]) -> pa.Table:
    """Build rows of the edges table."""
    placed = [(work, position, edge) for work in works for position, edge in enumerate(work.edges)]
    edges = [edge for _, _, edge in placed]
    columns = {
        "corpus": [corpus] * len(placed),
        "artifact_id": [work.artifact_id for work, _, _ in placed],
        "readers": [work.readers for work, _, _ in placed],
        "position": [position for _, position, _ in placed],
        "kind": [edge.kind for edge in edges],
        "target_corpus": [edge.corpus or corpus for edge in edges],
        "target_id": [edge.target_id for edge in edges],
        "section": [edge.section for edge in edges],
        "span_start": [edge.span and edge.span[0] for edge in edges],
        "span_end": [edge.span and edge.span[1] for edge in edges],
    }
    return pa.table(columns, schema=schemas.EDGES)


def synopsis_rows(corpus: str, works: Sequence[ArtifactWork], of: WithSynopsis | None) -> pa.Table:
    """Build rows of the synopses table, one for each artifact with a text or an empty result."""
    kept = [work for work in works if work.synopsis.kept]
    synopses = [work.synopsis for work in kept]
    columns = {
        "corpus": [corpus] * len(kept),
        "artifact_id": [work.artifact_id for work in kept],
        "key": [
            synopsis_key(of.synthesizer.id, work.synopsis_input) if of and work.synopsis_input else "" for work in kept
        ],
        "outcome": [synopsis.outcome.value for synopsis in synopses],
        "text": [synopsis.text for synopsis in synopses],
        "producer_id": [synopsis.producer_id for synopsis in synopses],
        "state": [synopsis.state or None for synopsis in synopses],
    }
    return pa.table(columns, schema=schemas.SYNOPSES)


def summary_rows(corpus: str, works: Sequence[ArtifactWork], known: Mapping[str, Sequence[SummaryRow]]) -> pa.Table:
    """Build rows of the summaries table: anchored summaries that differ from the last `known` one of their artifact."""
    settled = [work for work in works if work.synopsis.outcome.settled]
    made = [(work, state) for work in settled if (state := State.of(work.synopsis.state))]
    rows: list[dict[str, Any]] = [
        {
            "corpus": corpus,
            "artifact_id": work.artifact_id,
            "iteration": state.summary.iteration,
            "segments": len(state.covered),
            "covers": content_hash(state.covered),
            "summary": state.summary.model_dump_json(),
            "producer_id": work.synopsis.producer_id,
            "at": time_after(row.at for row in known.get(work.artifact_id, ())),
        }
        for work, state in made
    ]
    latest = {i: rows[-1].summary for i, rows in known.items()}
    return pa.Table.from_pylist([r for r in rows if latest.get(r["artifact_id"]) != r["summary"]], schemas.SUMMARIES)


def record_rows(
    corpus: str, works: Sequence[ArtifactWork], of: WithSynopsis | None, embeddings: Embeddings
) -> pa.Table:
    """Build rows of the records table: of each artifact the surfaces in plan order, the synopsis first, claims last.

    In a corpus with synopses, position 0 is reserved for the synopsis even if it failed or is empty. The ids of the
    other records then stay the same when it arrives.
    """
    placed = [(work, record) for work in works for record in _records(work, of)]
    surfaces = [record.surface for _, record in placed]
    titles = {work.artifact_id: as_title(str(work.payload.metadata.get("title") or work.artifact_id)) for work in works}
    kinds = _columns_of(surfaces)
    embedder = embeddings.embedder
    vectors = pa.array(embeddings.matrix([record.hash for _, record in placed]).ravel(), pa.float16())
    columns = {
        **kinds,
        "record_id": [record_id(corpus, work.artifact_id, r.surface.kind, r.place) for work, r in placed],
        "corpus": [corpus] * len(placed),
        "artifact_id": [work.artifact_id for work, _ in placed],
        "readers": [work.readers for work, _ in placed],
        "surface_kind": kinds["kind"],
        "surface_index": [record.index for _, record in placed],
        "title": [titles[work.artifact_id] for work, _ in placed],
        "text": [record.text for _, record in placed],
        "lexical": [searchable(record.text).column for _, record in placed],
        "shown": [None if record.text == record.surface.text else record.surface.text for _, record in placed],
        "metadata": [to_json({**work.filter_fields, **record.surface.metadata}) for work, record in placed],
        "artifact_version": [work.version for work, _ in placed],
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


def _records(work: ArtifactWork, of: WithSynopsis | None) -> Iterator[_Record]:
    """Yield all records of an artifact."""
    synopsis = work.synopsis
    if of is not None and synopsis.text:
        surface = Surface(of.kind, synopsis.text, "document")
        yield _Record(0, 0, surface, synopsis.text, text_hash(synopsis.text), synopsis.producer_id)
    surfaces = zip(work.surfaces, work.searched(), strict=True)
    first = 0 if of is None else 1
    for index, (surface, searched) in enumerate(surfaces, first):
        yield _Record(index, index, surface, *searched)
    behind = first + len(work.surfaces)
    for index, (place, surface, producer) in enumerate(work.claim_surfaces(), behind):
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


def claim_rows(works: Sequence[ArtifactWork]) -> pa.Table:
    """Build rows of the claims table."""
    rows = [
        asdict(claim)
        | {
            "readers": work.readers,
            "position": position,
            "entities": list(claim.entities),
            "evidence": claim.evidence.value,
            "span_start": claim.span and claim.span[0],
            "span_end": claim.span and claim.span[1],
        }
        for work in works
        if work.claims
        for position, claim in enumerate(work.claims.claims)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.CLAIMS)


def node_rows(works: Sequence[ArtifactWork]) -> pa.Table:
    """Build rows of the summary_nodes table."""
    rows = [
        asdict(node)
        | {
            "readers": work.readers,
            "bullets": to_json([[bullet.text, bullet.members] for bullet in node.bullets]),
            "themes": list(node.themes),
            "members": list(node.members),
        }
        for work in works
        if work.node and (node := work.node.node)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.SUMMARY_NODES)
