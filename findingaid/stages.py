"""The five stages as plain functions over a batch of artifacts. One bad artifact fails alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from findingaid.errors import ArtifactError, ConfigError, ReadError
from findingaid.identity import content_hash, record_id, text_hash
from findingaid.model import (
    SYNOPSIS,
    Artifact,
    Embedder,
    Failure,
    Outcome,
    Source,
    Stage,
    Strategy,
    Surface,
    SurfacePlan,
    Synopsis,
    Synthesizer,
    Vectors,
)
from findingaid.store import Store, schemas
from findingaid.strategies.base import shown_text

GROUP_SECONDS = 5.0
"""What a crash may cost in embedding work done again: vectors are kept at least this often."""

EMBED_GROUP = 64
"""Texts sent to the embedder at once; between groups progress is shown."""

SYNTHESIZE_GROUP = 32
"""Synthesizer results kept at once: at most so many calls are paid again after a crash."""

Progress = Callable[[str, int], None]
"""Called with a stage and how many more of its artifacts or texts are done."""


@dataclass
class Batch:
    """A batch on its way through the stages; what fails leaves it with a reason."""

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    plans: dict[str, SurfacePlan] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    synopses: dict[str, Synopsis] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def fail(self, artifact_id: str, stage: Stage, error: BaseException) -> None:
        self.failures[artifact_id] = Failure(artifact_id, stage.value, failure_kind(error), _one_line(error))

    def texts(self, artifact_id: str) -> dict[str, str]:
        """hash -> text of everything of an artifact that is embedded."""
        synopsis = self.synopses.get(artifact_id, Synopsis(Outcome.SKIPPED))
        texts = [surface.text for surface in self.plans[artifact_id].surfaces]
        return {text_hash(t): t for t in ([synopsis.text] if synopsis.outcome is Outcome.OK else []) + texts}


def failure_kind(error: BaseException) -> str:
    """The stable kind of any error that a source, strategy, synthesizer or embedder raised."""
    match error:
        case ArtifactError():
            return error.kind
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "transport"
        case _:
            return "other"


def read(source: Source, artifact_ids: Iterable[str], batch: Batch) -> None:
    """Stage 1: payloads and metadata. Blank metadata values are kept; the version covers them."""
    for artifact_id in artifact_ids:
        try:
            batch.artifacts[artifact_id] = _storable(source.read(artifact_id))
        except Exception as error:  # noqa: BLE001  # a source may raise anything; it fails this artifact alone
            batch.fail(artifact_id, Stage.ARTIFACTS, error)


def decompose(strategy: Strategy, batch: Batch) -> None:
    """Stage 2: surfaces in plan order, without blank ones, and the text a synthesizer would be shown."""
    for artifact_id, artifact in batch.artifacts.items():
        try:
            plan = strategy.decompose(artifact_id, artifact.raw, artifact.metadata)
            batch.shown[artifact_id] = shown_text(strategy, artifact.raw)
        except Exception as error:  # noqa: BLE001  # a strategy may raise anything; it fails this artifact alone
            batch.fail(artifact_id, Stage.SURFACES, error)
        else:
            kept = [surface for surface in plan.surfaces if surface.text.strip()]
            batch.plans[artifact_id] = SurfacePlan(plan.filter_fields, kept)


def synthesize(synthesizer: Synthesizer | None, batch: Batch, store: Store, pay: bool = True, progress: Progress | None = None) -> int:
    """Stage 3: synopses, from the call cache or by calls that are kept as they come; returns the calls made.

    With `pay` false nothing is called: what is not in the cache is left out, and counted.
    """
    if synthesizer is None:
        return 0
    keys = {i: content_hash(synthesizer.id, batch.shown[i]) for i in batch.plans}
    cached = {row["key"]: row for row in store.lookup("calls", "key", set(keys.values()), ("key", "outcome", "text")).to_pylist()}
    missing: dict[str, str] = {}
    for artifact_id, key in keys.items():
        if row := cached.get(key):
            batch.synopses[artifact_id] = Synopsis(Outcome(row["outcome"]), row["text"])
        elif not batch.shown[artifact_id].strip():
            batch.synopses[artifact_id] = Synopsis(Outcome.EMPTY)
        else:
            missing.setdefault(key, artifact_id)
    if not pay:
        return len(missing)
    made: dict[str, Synopsis] = {}
    fresh: dict[str, Synopsis] = {}
    for key, artifact_id in missing.items():
        made[key] = synopsis = _call(synthesizer, batch, artifact_id)
        if synopsis.outcome is not Outcome.FAILED:
            fresh[key] = synopsis
        if len(fresh) == SYNTHESIZE_GROUP:
            _keep_calls(store, synthesizer, fresh)
            fresh = {}
        if progress:
            progress(Stage.SYNOPSES.value, 1)
    _keep_calls(store, synthesizer, fresh)
    for artifact_id, key in keys.items():
        if key in made:
            batch.synopses[artifact_id] = made[key]
    return len(missing)


def _call(synthesizer: Synthesizer, batch: Batch, artifact_id: str) -> Synopsis:
    try:
        text = synthesizer.synthesize(batch.shown[artifact_id], batch.artifacts[artifact_id].metadata)
    except Exception as error:  # noqa: BLE001  # whatever went wrong, the artifact keeps its other surfaces
        return Synopsis(Outcome.FAILED, kind=failure_kind(error), message=_one_line(error))
    text = text.strip() if isinstance(text, str) else ""
    return Synopsis(Outcome.OK, text) if text else Synopsis(Outcome.EMPTY)


def _keep_calls(store: Store, synthesizer: Synthesizer, made: Mapping[str, Synopsis]) -> None:
    rows = [
        {"key": key, "producer_id": synthesizer.id, "outcome": synopsis.outcome.value, "text": synopsis.text}
        for key, synopsis in made.items()
    ]
    store.append("calls", pa.Table.from_pylist(rows, schema=schemas.CALLS))


class Embeddings:
    """Vectors by text hash, from the cache or from the model; stage 4."""

    def __init__(self, embedder: Embedder, store: Store) -> None:
        self._embedder = embedder
        self._store = store
        self._vectors: dict[str, np.ndarray[tuple[int], np.dtype[np.float16]]] = {}
        self.failures: dict[str, BaseException] = {}

    def load(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Fetch what the cache has of hash -> text; returns what it does not have."""
        keys = {content_hash(self._embedder.id, h): h for h in texts if h not in self._vectors}
        found = self._store.lookup("embeddings", "key", keys, ("key", "vector"))
        vectors = found["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1) if len(found) else ()
        self._vectors |= {keys[key]: vector for key, vector in zip(found["key"].to_pylist(), matrix, strict=True)}
        return {h: text for h, text in texts.items() if h not in self._vectors}

    def make(self, texts: Mapping[str, str], progress: Progress | None = None) -> int:
        """Embed hash -> text, each once, and keep the vectors as they come; returns the texts embedded."""
        hashes = list(texts)
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
                progress(Stage.EMBEDDINGS.value, len(group))
        return len(hashes)

    def matrix(self, hashes: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
        """The vectors of these texts, shape (len(hashes), dim)."""
        return np.stack([self._vectors[h] for h in hashes]) if hashes else np.empty((0, self._embedder.dim), np.float16)

    def _embed(self, texts: Mapping[str, str]) -> None:
        try:
            vectors = checked(self._embedder.embed(list(texts.values())), len(texts), self._embedder.dim)
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
        dim = self._embedder.dim
        flat = pa.array(np.concatenate([self._vectors[h] for h in done]), pa.float16())
        offsets = pa.array(np.arange(0, dim * len(done) + 1, dim, dtype=np.int32))
        columns = {
            "key": [content_hash(self._embedder.id, h) for h in done],
            "producer_id": [self._embedder.id] * len(done),
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


def artifact_rows(corpus: str, artifacts: Iterable[Artifact]) -> pa.Table:
    """Rows of the artifacts table."""
    return pa.Table.from_pylist(
        [
            {
                "corpus": corpus,
                "artifact_id": a.artifact_id,
                "version": artifact_version(a),
                "payload": a.raw if isinstance(a.raw, str) else to_json(a.raw),
                "is_text": isinstance(a.raw, str),
                "metadata": to_json(a.metadata),
            }
            for a in artifacts
        ],
        schema=schemas.ARTIFACTS,
    )


def surface_rows(corpus: str, plans: Mapping[str, SurfacePlan]) -> pa.Table:
    """Rows of the surfaces table."""
    return pa.Table.from_pylist(
        [
            {
                "corpus": corpus,
                "artifact_id": artifact_id,
                "position": position,
                "kind": surface.kind,
                "granularity": surface.granularity,
                "text": surface.text,
                "text_hash": text_hash(surface.text),
                "span_start": surface.span and surface.span[0],
                "span_end": surface.span and surface.span[1],
                "metadata": to_json(surface.metadata),
            }
            for artifact_id, plan in plans.items()
            for position, surface in enumerate(plan.surfaces)
        ],
        schema=schemas.SURFACES,
    )


def synopsis_rows(corpus: str, synopses: Mapping[str, Synopsis], producer: str) -> pa.Table:
    """Rows of the synopses table: one an artifact that was asked about, failed ones left out."""
    return pa.Table.from_pylist(
        [
            {"corpus": corpus, "artifact_id": i, "outcome": s.outcome.value, "text": s.text, "producer_id": producer}
            for i, s in synopses.items()
            if s.outcome is not Outcome.FAILED
        ],
        schema=schemas.SYNOPSES,
    )


def record_rows(corpus: str, batch: Batch, artifact_ids: Sequence[str], synthesizer: Synthesizer | None, embeddings: Embeddings, embedder: Embedder) -> pa.Table:
    """Rows of the records table; the surfaces of an artifact in plan order, its synopsis at position 0.

    Where a corpus has synopses position 0 is theirs, even when one failed or was empty, so that the ids of
    the others do not change when it comes.
    """
    rows: list[dict[str, object]] = []
    hashes: list[str] = []
    for artifact_id in artifact_ids:
        artifact, plan = batch.artifacts[artifact_id], batch.plans[artifact_id]
        common = {
            "corpus": corpus,
            "artifact_id": artifact_id,
            "title": str(artifact.metadata.get("title") or artifact_id),
            "artifact_version": artifact_version(artifact),
            "embedder_id": embedder.id,
        }
        for index, surface, producer in _positions(batch, artifact_id, synthesizer):
            hashes.append(text_hash(surface.text))
            rows.append(
                {
                    **common,
                    "record_id": record_id(corpus, artifact_id, surface.kind, index),
                    "surface_kind": surface.kind,
                    "surface_index": index,
                    "granularity": surface.granularity,
                    "text": surface.text,
                    "span_start": surface.span and surface.span[0],
                    "span_end": surface.span and surface.span[1],
                    "metadata": to_json({**plan.filter_fields, **surface.metadata}),
                    "producer_id": producer,
                }
            )
    schema = schemas.records(embedder.dim)
    table = pa.Table.from_pylist(rows, schema=pa.schema([f for f in schema if f.name != "vector"]))
    flat = pa.array(embeddings.matrix(hashes).ravel(), pa.float16())
    vectors = pa.FixedSizeListArray.from_arrays(flat, embedder.dim)
    return table.append_column(schema.field("vector"), vectors).cast(schema)


def _positions(batch: Batch, artifact_id: str, synthesizer: Synthesizer | None) -> Iterable[tuple[int, Surface, str]]:
    """(surface index, surface, producer id) of everything an artifact publishes."""
    if synthesizer is not None:
        synopsis = batch.synopses[artifact_id]
        if synopsis.outcome is Outcome.OK:
            yield 0, Surface(SYNOPSIS, synopsis.text, "document"), synthesizer.id
    first = 0 if synthesizer is None else 1
    for index, surface in enumerate(batch.plans[artifact_id].surfaces, first):
        yield index, surface, ""


def artifact_version(artifact: Artifact) -> str:
    """The payload and every metadata field that may become a filter field."""
    return content_hash(artifact.raw, artifact.metadata)


def artifact_of(row: Mapping[str, object]) -> Artifact:
    """A row of the artifacts table as the artifact it was."""
    payload = str(row["payload"])
    raw = payload if row["is_text"] else json.loads(payload)
    return Artifact(str(row["artifact_id"]), raw, json.loads(str(row["metadata"])))


def to_json(value: object) -> str:
    """JSON of metadata; what JSON does not know (dates, paths) as text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _storable(artifact: Artifact) -> Artifact:
    """Raises ReadError for text that no table can hold."""
    try:
        (artifact.raw if isinstance(artifact.raw, str) else to_json(artifact.raw)).encode()
        to_json(artifact.metadata).encode()
    except UnicodeEncodeError as error:
        raise ReadError(f"holds a lone surrogate at character {error.start}, which is no Unicode text", "encoding") from error
    return artifact


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, ArtifactError) else f"{type(error).__name__}: {text}"
