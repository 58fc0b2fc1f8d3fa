"""The stages that need no model, as plain functions over the artifacts of a batch. One bad artifact fails alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from findingaid.claims.extraction import HINTS
from findingaid.claims.model import ClaimsResult
from findingaid.edges import edges_of
from findingaid.errors import RAISED, DecomposeError, ReadError, SkippedError, brief, failure_kind, one_line
from findingaid.identity.hashes import text_hash, to_json
from findingaid.indexing.calls import synopsis_key
from findingaid.indexing.row_size import check_rows
from findingaid.indexing.watchdog import Watch
from findingaid.indexing.work import ArtifactWork
from findingaid.model import Artifact, Outcome, Stage, SurfacePlan, Synopsis, SynthesizerInput
from findingaid.protocols import Access, ConcurrentSource, EdgeExtractor, Embedder, Source, Strategy
from findingaid.store.artifacts import artifact_version
from findingaid.strategies.base import shown_text, validate_surface_kind
from findingaid.strategies.with_synopsis import WithSynopsis, contexts
from findingaid.text.structure import LAYOUT, Layout

UNASKED = "its source says who may read it, but its corpus has no `access`: set it, to [] for what the source says"


def read_artifacts(
    source: Source,
    access: Access | None,
    works: Sequence[ArtifactWork],
    watch: Watch,
) -> None:
    """Read payloads and metadata, and decide who may read them. The version covers blank metadata values too."""
    results = _read_all(source, [work.artifact_id for work in works], watch)
    for work, result in zip(works, results, strict=True):
        if isinstance(result, Artifact) and access is None and result.readers is not None:
            work.fail(Stage.ARTIFACTS, ReadError(UNASKED, "access"))
        elif isinstance(result, Artifact):
            work.artifact, work.version, work.notes = result, artifact_version(result), result.notes
            if access is not None:
                work.readers, note = access.readers(result)
                work.notes = [*result.notes, *([note] if note else [])]
        elif isinstance(result, SkippedError):
            work.skipped = one_line(result)
        else:
            work.fail(Stage.ARTIFACTS, result)
            if access is not None and work.listing and work.listing.readers is not None:
                unread = Artifact(work.artifact_id, "", readers=work.listing.readers)
                work.readers, note = access.readers(unread)
                work.notes = [note] if note else []


def _read_all(source: Source, artifact_ids: Sequence[str], watch: Watch) -> Iterator[Artifact | BaseException]:
    """Yield artifacts in order, or the error of one that cannot be read; read in parallel if the source allows it."""
    readers = source.readers if isinstance(source, ConcurrentSource) else 1
    if readers == 1 or len(artifact_ids) < 2:
        for artifact_id in artifact_ids:
            watch.at("reading", artifact_id)
            yield _read(source, artifact_id)
        return
    with ThreadPoolExecutor(readers) as pool:
        yield from pool.map(partial(_read, source), artifact_ids)


def _read(source: Source, artifact_id: str) -> Artifact | BaseException:
    try:
        return _storable(artifact_id, source.read(artifact_id))
    except RAISED as error:  # a source may raise anything; only this artifact fails
        return error


def cut_artifacts(
    strategy: Strategy,
    of: WithSynopsis | None,
    extractor: EdgeExtractor | None,
    works: Sequence[ArtifactWork],
    watch: Watch,
) -> None:
    """Cut artifacts into surfaces without blank ones; also add the synthesizer's input and the edges."""
    for work in works:
        watch.at(Stage.SURFACES.value, work.artifact_id)
        artifact = work.payload
        try:
            plan = _with_layout(artifact, strategy.decompose(artifact.artifact_id, artifact.raw, artifact.metadata))
            _check_surfaces(artifact, plan)
            work.bytes = check_rows(artifact, plan)
            work.edges = edges_of(extractor, artifact, plan.filter_fields)
        except RAISED as error:  # strategies and extractors may raise anything; one artifact fails
            work.fail(Stage.SURFACES, error)
            continue
        kept = [surface for surface in plan.surfaces if surface.text.strip()]
        work.plan = SurfacePlan(plan.filter_fields, kept)
        work.hashes = [text_hash(surface.searched or surface.text) for surface in kept]
        if of is not None:
            _prepare_synopsis(of, work, work.plan)


def _with_layout(artifact: Artifact, plan: SurfacePlan) -> SurfacePlan:
    """Return a plan in which each surface has the places of its own recognized lines, in place of all of them."""
    if LAYOUT not in artifact.metadata or not isinstance(artifact.raw, str):
        return plan
    layout = Layout.of(artifact.raw, artifact.metadata[LAYOUT])
    placed = [
        replace(each, metadata={**each.metadata, **layout.fields(*each.span)}) if each.span else each
        for each in plan.surfaces
    ]
    return SurfacePlan({name: value for name, value in plan.filter_fields.items() if name != LAYOUT}, placed)


def _check_surfaces(artifact: Artifact, plan: SurfacePlan) -> None:
    """Raise DecomposeError for a surface that would be taken for another.

    That is one of a reserved kind, which only claims and summary nodes have, or one whose span opens other words.
    """
    whole = artifact.raw if isinstance(artifact.raw, str) else None
    for surface in plan.surfaces:
        try:
            validate_surface_kind(surface.kind)
        except ValueError as error:
            raise DecomposeError(str(error)) from None
        if whole is not None and surface.span and "field" not in surface.metadata:
            start, end = surface.span
            if start < 0 or end > len(whole) or whole[start:end] != surface.text:
                raise DecomposeError(f"the span {start}:{end} of a surface is not where its text is")


def _prepare_synopsis(of: WithSynopsis, work: ArtifactWork, plan: SurfacePlan) -> None:
    """Add the synthesizer's input, if the gate lets the artifact through. If either fails, only the synopsis does."""
    step = "text"
    try:
        shown = work.synopsis_input = of.shown(work.payload, plan)
        step = "when"
        if of.when(plan):
            work.synopsis_missing = bool(shown.text.strip() or shown.artifact)
            work.synopsis = Synopsis(Outcome.PENDING if work.synopsis_missing else Outcome.EMPTY)
    except RAISED as error:  # a strategy or gate may raise anything
        work.synopsis = Synopsis(Outcome.FAILED, kind=failure_kind(error), message=f"{step}: {one_line(error)}")


def prepare_extraction(strategy: Strategy, works: Sequence[ArtifactWork]) -> None:
    """Add the claim extractor's input: the payload's text, without path, and the metadata fields in HINTS."""
    for work in works:
        artifact = work.payload
        try:
            text = shown_text(strategy, artifact, work.plan)
        except RAISED as error:  # a strategy may raise anything; only the claims fail
            work.claims = ClaimsResult(Outcome.FAILED, kind=failure_kind(error), message=f"text: {one_line(error)}")
        else:
            hints = {name: artifact.metadata[name] for name in HINTS if artifact.metadata.get(name)}
            work.claims_input = SynthesizerInput(artifact.artifact_id, text, hints)


def put_in_context(of: WithSynopsis, works: Sequence[ArtifactWork], embedder: Embedder) -> None:
    """Compute the contexts that chunks are embedded with. Needs the synopses."""
    for work in works:
        title = str(work.payload.metadata.get("title") or "")
        synopsis = work.synopsis.text
        if work.synopsis_missing and work.synopsis_input:  # a placeholder, for which no vector is cached yet
            synopsis = synopsis_key("", work.synopsis_input)
        every = dict.fromkeys(range(len(work.surfaces)), synopsis)
        work.contexts = contexts(
            work.surfaces, work.chunk_contexts if of.context == "chunk" else every, title, embedder
        )


def _storable(artifact_id: str, artifact: Artifact) -> Artifact:
    """Return the artifact. Raises ReadError if it is another one, or its text cannot be stored in a table."""
    if artifact.artifact_id != artifact_id:
        raise ReadError(f"the source returned another artifact, {brief(artifact.artifact_id)}")
    try:
        to_json([artifact.raw, artifact.metadata])
    except TypeError as error:  # orjson raises it for a lone surrogate
        raise ReadError(f"contains text that is not valid Unicode ({error})", "encoding") from error
    return artifact
