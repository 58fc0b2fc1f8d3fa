"""The stages as plain functions over a batch of artifacts. One bad artifact fails alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from findingaid import claiming, resuming, synthesizing
from findingaid.claims.extraction import HINTS
from findingaid.claims.model import Claimed, Noded
from findingaid.edges import edges_of
from findingaid.errors import ArtifactError, ConfigError, ReadError, failure_kind, one_line
from findingaid.identity import call_key, content_hash, record_id, text_hash, to_json
from findingaid.model import (
    Artifact,
    ConcurrentSource,
    Edge,
    EdgeExtractor,
    Embedder,
    Failure,
    Outcome,
    ResumableSource,
    Resuming,
    Shown,
    Source,
    Stage,
    Strategy,
    Surface,
    SurfacePlan,
    Synopsis,
    Vectors,
)
from findingaid.spending import Spending
from findingaid.store import Store, schemas
from findingaid.strategies.base import shown_text
from findingaid.synopses import WithSynopsis, contexts
from findingaid.synthesis.anchored import State
from findingaid.synthesizing import Asked, Progress, synopsis_key

GROUP_SECONDS = 5.0
"""What a crash may cost in embedding work done again: vectors are kept at least this often."""

EMBED_GROUP = 64
"""Texts sent to the embedder at once; between groups progress is shown."""

NOT_WANTED = Synopsis(Outcome.SKIPPED)
"""Of artifacts in a corpus without synopses."""

WANTED = Synopsis(Outcome.PENDING)

NO_CLAIMS = Claimed(Outcome.SKIPPED)
NO_NODE = Noded(Outcome.SKIPPED)


@dataclass
class Batch:
    """A batch on its way through the stages, all by artifact id; what fails leaves it with a reason.

    `versions` are of the artifacts stage; `hashes` are of the texts of an artifact's surfaces, in plan order, and
    `contexts` what those are embedded and searched with, where a corpus wants that. `unwritten` are those whose
    synopses nobody was asked for, though one is wanted, as in a plan. `stated` is what an extractor of claims is shown.
    """

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    plans: dict[str, SurfacePlan] = field(default_factory=dict)
    edges: dict[str, list[Edge]] = field(default_factory=dict)
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

    def fail(self, artifact_id: str, stage: Stage, error: BaseException) -> None:
        self.failures[artifact_id] = Failure(artifact_id, stage.value, failure_kind(error), one_line(error))

    def synopsis(self, artifact_id: str) -> Synopsis:
        """The synopsis of an artifact, skipped where none was asked for."""
        return self.synopses.get(artifact_id, NOT_WANTED)

    def texts(self, artifact_id: str) -> dict[str, str]:
        """hash -> text of everything of an artifact that is embedded."""
        texts = {h: text for text, h, _ in self.searched(artifact_id)}
        texts |= {text_hash(surface.text): surface.text for _, surface, _ in self.of_claims(artifact_id)}
        synopsis = self.synopsis(artifact_id)
        return texts | {text_hash(synopsis.text): synopsis.text} if synopsis.text else texts

    def of_claims(self, artifact_id: str) -> Iterator[tuple[str, Surface, str]]:
        """What is published of an artifact's claims, see `claiming.claim_surfaces`, and of the summary over them."""
        if claimed := self.claims.get(artifact_id):
            yield from claiming.claim_surfaces(claimed)
            yield from claiming.node_surfaces(self.nodes.get(artifact_id))

    def stating(self, artifact_id: str) -> Claimed:
        """What became of an artifact's claims; skipped where none are wanted, or nobody was asked."""
        return self.claims.get(artifact_id, NO_CLAIMS)

    def noded(self, artifact_id: str) -> Noded:
        """The same of its summary node."""
        return self.nodes.get(artifact_id, NO_NODE)

    def made(self, artifact_id: str, stage: Stage) -> Synopsis | Claimed | Noded:
        """What became of what one of the stages WRITTEN was to write."""
        if stage is Stage.SYNOPSES:
            return self.synopsis(artifact_id)
        return self.stating(artifact_id) if stage is Stage.CLAIMS else self.noded(artifact_id)

    def refused(self, artifact_id: str) -> tuple[str, ...]:
        """What of claims and summary nodes was not taken, a line each."""
        return (*self.stating(artifact_id).refused, *self.noded(artifact_id).refused)

    def count(self, artifact_id: str) -> int:
        """Records of an artifact: its surfaces, its synopsis where there is one, its claims, and what sums those up."""
        surfaces = len(self.plans[artifact_id].surfaces)
        return surfaces + bool(self.synopsis(artifact_id).text) + sum(1 for _ in self.of_claims(artifact_id))

    def searched(self, artifact_id: str) -> list[tuple[str, str, int]]:
        """(text with its context, its hash, where the text itself begins) of each surface, in plan order."""
        surfaces, contexts = self.plans[artifact_id].surfaces, self.contexts.get(artifact_id)
        if contexts is None:
            return [(s.text, h, 0) for s, h in zip(surfaces, self.hashes[artifact_id], strict=True)]
        texts = [context + s.text for context, s in zip(contexts, surfaces, strict=True)]
        return [(text, text_hash(text), len(context)) for text, context in zip(texts, contexts, strict=True)]


def read(source: Source, artifact_ids: Iterable[str], batch: Batch, before: Mapping[str, Artifact]) -> None:
    """Stage 1: payloads and metadata. Blank metadata values are kept; the version covers them.

    `before` are artifacts as they were last read, for a source that can read on from there.
    """
    for artifact_id, result in _read_all(source, list(artifact_ids), before):
        if isinstance(result, Artifact):
            batch.artifacts[artifact_id] = result
            batch.versions[artifact_id] = artifact_version(result)
        else:
            batch.fail(artifact_id, Stage.ARTIFACTS, result)


def _read_all(
    source: Source, artifact_ids: Sequence[str], before: Mapping[str, Artifact]
) -> Iterator[tuple[str, Artifact | Exception]]:
    """Artifacts in order, or why one cannot be read; several at once where the source says so."""
    readers = source.readers if isinstance(source, ConcurrentSource) else 1
    if readers == 1 or len(artifact_ids) < 2:
        yield from ((artifact_id, _read(source, before, artifact_id)) for artifact_id in artifact_ids)
        return
    with ThreadPoolExecutor(readers) as pool:
        yield from zip(artifact_ids, pool.map(partial(_read, source, before), artifact_ids), strict=True)


def _read(source: Source, before: Mapping[str, Artifact], artifact_id: str) -> Artifact | Exception:
    try:
        if artifact_id in before and isinstance(source, ResumableSource):
            return _storable(source.read_on(artifact_id, before[artifact_id]))
        return _storable(source.read(artifact_id))
    except Exception as error:  # noqa: BLE001  # a source may raise anything; it fails this artifact alone
        return error


def decompose(
    strategy: Strategy, of: WithSynopsis | None, batch: Batch, extractor: EdgeExtractor | None = None
) -> None:
    """Stage 2: surfaces in plan order, without blank ones, what a synthesizer would be shown, and edges."""
    for artifact_id, artifact in batch.artifacts.items():
        try:
            plan = strategy.decompose(artifact_id, artifact.raw, artifact.metadata)
            if of is not None:
                batch.shown[artifact_id] = of.shown(artifact_id, artifact.raw, artifact.metadata)
            batch.edges[artifact_id] = edges_of(extractor, artifact, plan.filter_fields)
        except Exception as error:  # noqa: BLE001  # strategies and extractors may raise anything, and fail one artifact
            batch.fail(artifact_id, Stage.SURFACES, error)
        else:
            kept = [surface for surface in plan.surfaces if surface.text.strip()]
            batch.plans[artifact_id] = SurfacePlan(plan.filter_fields, kept)
            batch.hashes[artifact_id] = [text_hash(surface.text) for surface in kept]


def synthesize(
    of: WithSynopsis | None,
    batch: Batch,
    spending: Spending,
    corpus: str,
    pay: bool = True,
    progress: Progress | None = None,
    again: bool = False,
) -> Asked:
    """Stage 3: synopses of those artifacts that the gate lets through and that have text to be shown.

    `again` is for synthesizers that go on from where they were: they begin from nothing.
    """
    if of is None:
        return Asked()
    batch.synopses |= {i: _gated(of, batch, i) for i in batch.plans}
    wanted = {i: batch.shown[i] for i in batch.plans if batch.synopses[i] is WANTED}
    if isinstance(of.synthesizer, Resuming):
        asked = resuming.ask(of, of.synthesizer, wanted, spending, corpus, pay, progress, again)
    else:
        asked = synthesizing.ask(of, wanted, spending, corpus, pay, progress)
    batch.synopses = {i: s for i, s in batch.synopses.items() if s is not WANTED} | dict(asked.synopses)
    batch.unwritten = wanted.keys() - asked.synopses.keys()
    return asked


def _gated(of: WithSynopsis, batch: Batch, artifact_id: str) -> Synopsis:
    """What is known of a synopsis before anybody is asked for it."""
    try:
        if not of.when(batch.plans[artifact_id]):
            return Synopsis(Outcome.SKIPPED)
    except Exception as error:  # noqa: BLE001  # a gate may raise anything; the artifact keeps its other surfaces
        return Synopsis(Outcome.FAILED, kind=failure_kind(error), message=f"when: {one_line(error)}")
    return WANTED if batch.shown[artifact_id].text.strip() else Synopsis(Outcome.EMPTY)


def show_claims(strategy: Strategy, batch: Batch) -> None:
    """What an extractor of claims is shown of each artifact: the payload's text, no path and no field beside it."""
    for artifact_id in list(batch.plans):
        artifact = batch.artifacts[artifact_id]
        try:
            text = shown_text(strategy, artifact.raw)
        except Exception as error:  # noqa: BLE001  # a strategy may raise anything, and fails one artifact
            batch.fail(artifact_id, Stage.CLAIMS, error)
            del batch.plans[artifact_id]
        else:
            hints = {name: artifact.metadata[name] for name in HINTS if artifact.metadata.get(name)}
            batch.stated[artifact_id] = Shown(artifact_id, text, hints)


def put_in_context(of: WithSynopsis | None, batch: Batch, embedder: Embedder) -> None:
    """What chunks are embedded with, where the corpus wants that: needs their synopses."""
    if of is None or not of.context:
        return
    for artifact_id, plan in batch.plans.items():
        title = str(batch.artifacts[artifact_id].metadata.get("title") or "")
        synopsis = batch.synopsis(artifact_id).text
        if artifact_id in batch.unwritten:  # something that nothing was embedded with yet
            synopsis = synopsis_key("", batch.shown[artifact_id])
        batch.contexts[artifact_id] = contexts(plan.surfaces, synopsis, title, embedder)


class Embeddings:
    """Vectors by text hash, from the cache or from the model; stage 6."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self.embedder = embedder
        self._store = store
        self._vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.float16]]] = {}
        self.failures: dict[str, BaseException] = {}

    def load(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Fetch what the cache has of hash -> text; returns what it does not have."""
        keys = {call_key(self.embedder.id, h): h for h in texts if h not in self._vectors}
        found = self._store.lookup("embeddings", "key", keys, ("key", "vector"))
        vectors = found["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1) if len(found) else ()
        self._vectors |= {keys[key]: vector for key, vector in zip(found["key"].to_pylist(), matrix, strict=True)}
        return {h: text for h, text in texts.items() if h not in self._vectors}

    def make(self, texts: Mapping[str, str], progress: Progress | None = None) -> int:
        """Embed hash -> text, each once, and keep the vectors as they come; returns the texts embedded."""
        hashes = list(texts)
        if progress and hashes:
            progress(Stage.EMBEDDINGS.value, len(hashes), 0)
        kept = 0
        last = time.monotonic()
        for start in range(0, len(hashes), EMBED_GROUP):
            group = hashes[start : start + EMBED_GROUP]
            self._embed({h: texts[h] for h in group})
            done = start + len(group)
            if time.monotonic() - last > GROUP_SECONDS or done == len(hashes):
                self._keep(hashes[kept:done])
                kept, last = done, time.monotonic()
            if progress:
                progress(Stage.EMBEDDINGS.value, 0, len(group))
        return len(hashes)

    @property
    def vectors(self) -> Mapping[str, Any]:
        """Those that were loaded or made, by the hashes of their texts."""
        return self._vectors

    def matrix(self, hashes: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        """The vectors of these texts, shape (len(hashes), dim)."""
        return np.stack([self._vectors[h] for h in hashes]) if hashes else np.empty((0, self.embedder.dim), np.float16)

    def _embed(self, texts: Mapping[str, str]) -> None:
        try:
            vectors = checked(self.embedder.embed(list(texts.values())), len(texts), self.embedder.dim)
        except ConfigError:  # no text can be embedded at all
            raise
        except Exception as error:  # noqa: BLE001  # one poisoned text must not take its group along
            if len(texts) == 1:
                self.failures[next(iter(texts))] = error
                return
            for h, text in texts.items():
                self._embed({h: text})
        else:
            self._vectors |= dict(zip(texts, vectors.astype(np.float16), strict=True))

    def _keep(self, hashes: Sequence[str]) -> None:
        done = [h for h in hashes if h in self._vectors]
        if not done:
            return
        dim = self.embedder.dim
        flat = pa.array(np.concatenate([self._vectors[h] for h in done]), pa.float16())
        offsets = pa.array(np.arange(0, dim * len(done) + 1, dim, dtype=np.int32))
        columns = {
            "key": [call_key(self.embedder.id, h) for h in done],
            "producer_id": [self.embedder.id] * len(done),
            "vector": pa.ListArray.from_arrays(offsets, flat),
        }
        self._store.append("embeddings", pa.table(columns, schema=schemas.EMBEDDINGS))


def checked(vectors: Vectors, count: int, dim: int) -> Vectors:
    """Raises ArtifactError unless there are `count` finite vectors of `dim` numbers."""
    if vectors.shape != (count, dim):
        raise ArtifactError(f"the embedder gave shape {vectors.shape}, expected {(count, dim)}")
    if not np.isfinite(vectors).all():
        raise ArtifactError("the embedder gave a vector that is not finite")
    return vectors


def artifact_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str]) -> pa.Table:
    """Rows of the artifacts table."""
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
    """Rows of the surfaces table."""
    placed = [(i, position, surface) for i in artifact_ids for position, surface in enumerate(batch.plans[i].surfaces)]
    columns = {
        "corpus": [corpus] * len(placed),
        "artifact_id": [i for i, _, _ in placed],
        "position": [position for _, position, _ in placed],
        **_columns_of([surface for _, _, surface in placed]),
        "text_hash": [h for i in artifact_ids for h in batch.hashes[i]],
        "metadata": [to_json(surface.metadata) for _, _, surface in placed],
    }
    return _ordered(columns, schemas.SURFACES)


def edge_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str]) -> pa.Table:
    """Rows of the edges table."""
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
    """Rows of the synopses table: one an artifact of which there is something to keep."""
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
    """Rows of the summaries table: the anchored summaries that are not the `latest` of their artifact there."""
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
    """Rows of the records table; the surfaces of an artifact in plan order, its synopsis at 0, its claims last.

    Where a corpus has synopses position 0 is theirs, even when one failed or was empty, so that the ids of
    the others do not change when it comes.
    """
    placed = [(i, record) for i in artifact_ids for record in _placed(batch, i, of)]
    surfaces = [record.surface for _, record in placed]
    titles = {i: str(batch.artifacts[i].metadata.get("title") or i) for i in artifact_ids}
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
        "text_start": [record.start for _, record in placed],
        "metadata": [to_json({**fields[i], **record.surface.metadata}) for i, record in placed],
        "artifact_version": [batch.versions[i] for i, _ in placed],
        "producer_id": [record.producer for _, record in placed],
        "claim_id": [record.claim_id for _, record in placed],
        "evidence": [record.evidence for _, record in placed],
        "embedder_id": [embedder.id] * len(placed),
        "vector": pa.FixedSizeListArray.from_arrays(vectors, embedder.dim),
    }
    return _ordered(columns, schemas.records(embedder.dim))


@dataclass(frozen=True, slots=True)
class _Record:
    """A surface at its place among all of its artifact, with the text it is searched by.

    `place` is what its id is made of: that index, or the id of what it says.
    """

    index: int
    place: int | str
    surface: Surface
    text: str
    hash: str
    start: int = 0
    producer: str = ""
    claim_id: str = ""
    evidence: str = ""


def _placed(batch: Batch, artifact_id: str, of: WithSynopsis | None) -> Iterator[_Record]:
    """Everything an artifact publishes."""
    synopsis = batch.synopsis(artifact_id)
    if of is not None and synopsis.text:
        surface = Surface(of.kind, synopsis.text, "document")
        yield _Record(0, 0, surface, synopsis.text, text_hash(synopsis.text), 0, synopsis.producer_id)
    surfaces = zip(batch.plans[artifact_id].surfaces, batch.searched(artifact_id), strict=True)
    first = 0 if of is None else 1
    for index, (surface, searched) in enumerate(surfaces, first):
        yield _Record(index, index, surface, *searched)
    behind = first + len(batch.plans[artifact_id].surfaces)
    for index, (place, surface, producer) in enumerate(batch.of_claims(artifact_id), behind):
        evidence = str(surface.metadata.get("evidence", ""))
        yield _Record(index, place, surface, surface.text, text_hash(surface.text), 0, producer, str(place), evidence)


def _columns_of(surfaces: Sequence[Surface]) -> dict[str, Any]:
    """The columns that surfaces and records have in common."""
    return {
        "kind": [s.kind for s in surfaces],
        "granularity": [s.granularity for s in surfaces],
        "text": [s.text for s in surfaces],
        "span_start": [s.span and s.span[0] for s in surfaces],
        "span_end": [s.span and s.span[1] for s in surfaces],
    }


def _ordered(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def artifact_version(artifact: Artifact) -> str:
    """The payload and every metadata field that may become a filter field."""
    return content_hash(artifact.raw, artifact.metadata)


def stored(
    store: Store, artifact_ids: Iterable[str], where: str | None = None
) -> dict[tuple[str, str], tuple[Artifact, str]]:
    """(corpus, artifact id) -> an artifact as it was last indexed, and its version; what is gone is left out."""
    columns = ("corpus", "artifact_id", "version", "payload", "is_text", "metadata")
    rows = store.lookup("artifacts", "artifact_id", artifact_ids, columns, where).to_pylist()
    return {(row["corpus"], row["artifact_id"]): (_artifact_of(row), row["version"]) for row in rows}


def _artifact_of(row: Mapping[str, object]) -> Artifact:
    """A row of the artifacts table as the artifact it was."""
    payload = str(row["payload"])
    raw = payload if row["is_text"] else orjson.loads(payload)
    return Artifact(str(row["artifact_id"]), raw, orjson.loads(str(row["metadata"])))


def _storable(artifact: Artifact) -> Artifact:
    """Raises ReadError for text that no table can hold."""
    try:
        to_json([artifact.raw, artifact.metadata])
    except TypeError as error:  # orjson's word for a lone surrogate
        raise ReadError(f"holds what is no Unicode text ({error})", "encoding") from error
    return artifact
