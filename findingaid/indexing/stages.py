"""Stages as plain functions over a batch of artifacts. One bad artifact fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from findingaid.claims.extraction import HINTS
from findingaid.claims.model import Claimed
from findingaid.edges import edges_of
from findingaid.errors import DecomposeError, ReadError, SkippedError, failure_kind, one_line
from findingaid.identity.hashes import text_hash, to_json
from findingaid.indexing.batch import WANTED, Batch
from findingaid.indexing.budget import Spending
from findingaid.indexing.calls import CallResults, Progress, synopsis_key
from findingaid.indexing.resume import resume_synopses
from findingaid.indexing.row_size import check_rows
from findingaid.indexing.synopses import write_synopses
from findingaid.indexing.watchdog import Watch
from findingaid.model import Artifact, Outcome, Shown, Stage, SurfacePlan, Synopsis
from findingaid.protocols import (
    ConcurrentSource,
    EdgeExtractor,
    Embedder,
    ResumableSource,
    Resuming,
    Source,
    Strategy,
)
from findingaid.store.artifacts import artifact_version
from findingaid.strategies.base import shown_text, unreserved
from findingaid.strategies.with_synopsis import WithSynopsis, contexts


def read_artifacts(
    source: Source,
    artifact_ids: Iterable[str],
    batch: Batch,
    before: Mapping[str, Artifact],
    watch: Watch | None = None,
) -> None:
    """Read payloads and metadata into the batch. Blank metadata values are kept, and the version covers them.

    `before` are the artifacts as last read, for a source that can read on from there.
    """
    for artifact_id, result in _read_all(source, list(artifact_ids), before, watch):
        if isinstance(result, Artifact):
            batch.artifacts[artifact_id] = result
            batch.versions[artifact_id] = artifact_version(result)
            batch.notes[artifact_id] = result.notes
        elif isinstance(result, SkippedError):
            batch.skipped[artifact_id] = one_line(result)
        else:
            batch.fail(artifact_id, Stage.ARTIFACTS, result)


def _read_all(
    source: Source, artifact_ids: Sequence[str], before: Mapping[str, Artifact], watch: Watch | None
) -> Iterator[tuple[str, Artifact | Exception]]:
    """Yield artifacts in order, or the error of one that cannot be read; read in parallel if the source allows it."""
    readers = source.readers if isinstance(source, ConcurrentSource) else 1
    if readers == 1 or len(artifact_ids) < 2:
        for artifact_id in artifact_ids:
            if watch:
                watch.at("reading", artifact_id)
            yield artifact_id, _read(source, before, artifact_id)
        return
    with ThreadPoolExecutor(readers) as pool:
        yield from zip(artifact_ids, pool.map(partial(_read, source, before), artifact_ids), strict=True)


def _read(source: Source, before: Mapping[str, Artifact], artifact_id: str) -> Artifact | Exception:
    try:
        if artifact_id in before and isinstance(source, ResumableSource):
            return _storable(source.read_on(artifact_id, before[artifact_id]))
        return _storable(source.read(artifact_id))
    except Exception as error:  # noqa: BLE001  # a source may raise anything; only this artifact fails
        return error


def decompose(
    strategy: Strategy,
    of: WithSynopsis | None,
    batch: Batch,
    extractor: EdgeExtractor | None = None,
    watch: Watch | None = None,
) -> None:
    """Cut artifacts into surfaces without blank ones; also add the synthesizer's input and the edges."""
    for artifact_id, artifact in batch.artifacts.items():
        if watch:
            watch.at(Stage.SURFACES.value, artifact_id)
        try:
            plan = strategy.decompose(artifact_id, artifact.raw, artifact.metadata)
            _check_kinds(plan)
            batch.sizes[artifact_id] = check_rows(artifact, plan)
            batch.edges[artifact_id] = edges_of(extractor, artifact, plan.filter_fields)
        except Exception as error:  # noqa: BLE001  # strategies and extractors may raise anything; one artifact fails
            batch.fail(artifact_id, Stage.SURFACES, error)
        else:
            kept = [surface for surface in plan.surfaces if surface.text.strip()]
            batch.plans[artifact_id] = SurfacePlan(plan.filter_fields, kept)
            batch.hashes[artifact_id] = [text_hash(surface.searched or surface.text) for surface in kept]
            if of is not None:
                _show(of, artifact, batch)


def _check_kinds(plan: SurfacePlan) -> None:
    """Raise DecomposeError for a surface of a reserved kind, which would be taken for a claim or a summary node."""
    try:
        for surface in plan.surfaces:
            unreserved(surface.kind)
    except ValueError as error:
        raise DecomposeError(str(error)) from None


def _show(of: WithSynopsis, artifact: Artifact, batch: Batch) -> None:
    """Add the synthesizer's input; if the strategy fails to give it, only the synopsis fails."""
    try:
        batch.shown[artifact.artifact_id] = of.shown(artifact, batch.plans[artifact.artifact_id])
    except Exception as error:  # noqa: BLE001  # a strategy may raise anything
        failed = Synopsis(Outcome.FAILED, kind=failure_kind(error), message=f"text: {one_line(error)}")
        batch.synopses[artifact.artifact_id] = failed


def synthesize(
    of: WithSynopsis | None,
    batch: Batch,
    spending: Spending,
    corpus: str,
    pay: bool = True,
    progress: Progress | None = None,
    again: bool = False,
) -> CallResults:
    """Write synopses of artifacts that pass the gate and have text to show.

    `again` makes synthesizers that resume start from an empty state.
    """
    if of is None:
        return CallResults()
    batch.synopses |= {i: _gated(of, batch, i) for i in batch.plans if i in batch.shown}
    wanted = {i: batch.shown[i] for i in batch.plans if batch.synopses[i] is WANTED}
    if isinstance(of.synthesizer, Resuming):
        made = resume_synopses(of, of.synthesizer, wanted, spending, corpus, pay, progress, again)
    else:
        made = write_synopses(of, wanted, spending, corpus, pay, progress)
    batch.synopses = {i: s for i, s in batch.synopses.items() if s is not WANTED} | dict(made.synopses)
    batch.unwritten = wanted.keys() - made.synopses.keys()
    return made


def _gated(of: WithSynopsis, batch: Batch, artifact_id: str) -> Synopsis:
    """Return the synopsis status before any call: wanted, skipped by the gate, empty, or failed in the gate."""
    try:
        if not of.when(batch.plans[artifact_id]):
            return Synopsis(Outcome.SKIPPED)
    except Exception as error:  # noqa: BLE001  # a gate may raise anything; the artifact keeps its other surfaces
        return Synopsis(Outcome.FAILED, kind=failure_kind(error), message=f"when: {one_line(error)}")
    shown = batch.shown[artifact_id]
    return WANTED if shown.text.strip() or shown.artifact else Synopsis(Outcome.EMPTY)


def prepare_extraction(strategy: Strategy, batch: Batch) -> None:
    """Prepare the claim extractor's input: the payload's text, without path, and the metadata fields in HINTS."""
    for artifact_id, plan in batch.plans.items():
        artifact = batch.artifacts[artifact_id]
        try:
            text = shown_text(strategy, artifact, plan)
        except Exception as error:  # noqa: BLE001  # a strategy may raise anything; only the claims fail
            message = f"text: {one_line(error)}"
            batch.claims[artifact_id] = Claimed(Outcome.FAILED, kind=failure_kind(error), message=message)
        else:
            hints = {name: artifact.metadata[name] for name in HINTS if artifact.metadata.get(name)}
            batch.stated[artifact_id] = Shown(artifact_id, text, hints)


def put_in_context(of: WithSynopsis | None, batch: Batch, embedder: Embedder) -> None:
    """Compute the contexts that chunks are embedded with, if the corpus uses them. Needs the synopses."""
    if of is None or not of.context:
        return
    for artifact_id, plan in batch.plans.items():
        title = str(batch.artifacts[artifact_id].metadata.get("title") or "")
        synopsis = batch.synopsis(artifact_id).text
        if artifact_id in batch.unwritten:  # a placeholder, for which no vector is cached yet
            synopsis = synopsis_key("", batch.shown[artifact_id])
        every = dict.fromkeys(range(len(plan.surfaces)), synopsis)
        said = batch.placed.get(artifact_id, {}) if of.context == "chunk" else every
        batch.contexts[artifact_id] = contexts(plan.surfaces, said, title, embedder)


def _storable(artifact: Artifact) -> Artifact:
    """Return the artifact. Raises ReadError if its text cannot be stored in a table."""
    try:
        to_json([artifact.raw, artifact.metadata])
    except TypeError as error:  # orjson raises it for a lone surrogate
        raise ReadError(f"contains text that is not valid Unicode ({error})", "encoding") from error
    return artifact
