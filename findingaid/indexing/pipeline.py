"""Pipeline: the stages of one corpus in order, each applied to a batch of artifacts. Nothing is written to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from findingaid import telemetry
from findingaid.claims.model import Decided
from findingaid.corpus import Corpus
from findingaid.embedding.same_model import SameModel
from findingaid.errors import ArtifactError
from findingaid.identity.hashes import call_key, content_hash, text_hash
from findingaid.indexing.budget import BudgetTracker
from findingaid.indexing.calls import CallContext, CallResults, synopsis_key
from findingaid.indexing.chunk_contexts import write_chunk_contexts
from findingaid.indexing.claims import ClaimBuilder, claims_version, nodes_version
from findingaid.indexing.options import BuildOptions
from findingaid.indexing.recipe import NO_CLAIMS, Recipe, readable
from findingaid.indexing.resume import resume_synopses
from findingaid.indexing.row_size import check_batch
from findingaid.indexing.stages import cut_artifacts, prepare_extraction, put_in_context, read_artifacts
from findingaid.indexing.synopses import write_synopses
from findingaid.indexing.vectors import Embeddings, dimensions_of
from findingaid.indexing.watchdog import Watch
from findingaid.indexing.work import NO_SYNOPSIS, ArtifactWork, Batch, new_row
from findingaid.model import EDGES, PARTS, Artifact, Listing, Outcome, Stage
from findingaid.protocols import CostsNothing, Embedder, ResumableSynthesizer, Strategy
from findingaid.store import Ledger, LedgerRow, Store
from findingaid.store.artifacts import artifact_version, stored
from findingaid.store.sql import equals
from findingaid.strategies.with_synopsis import WithSynopsis, split_synopsis


@dataclass(frozen=True)
class Pipeline:
    """The stages of one corpus."""

    corpus: Corpus
    recipe: Recipe
    embedder: Embedder
    store: Store
    spending: BudgetTracker
    decided: Decided

    @cached_property
    def _parts(self) -> tuple[Strategy, WithSynopsis | None]:
        return split_synopsis(self.corpus.strategy)

    @property
    def strategy(self) -> Strategy:
        """The strategy that cuts artifacts, without the synopsis wrapper."""
        return self._parts[0]

    @property
    def synopses(self) -> WithSynopsis | None:
        """The synopsis settings; None if the corpus has no synopses."""
        return self._parts[1]

    @cached_property
    def dim(self) -> int:
        """Dimensions of the embedder's vectors."""
        return dimensions_of(self.embedder, self.store)

    @cached_property
    def _same_model(self) -> SameModel:
        return SameModel(self.embedder, self.store)

    @cached_property
    def _claims(self) -> ClaimBuilder | None:
        of = self.corpus.claims
        return ClaimBuilder(of, self.corpus.name, self.store, self.decided) if of else None

    @cached_property
    def _stages(self) -> Mapping[Stage, Callable[[Batch], None]]:
        """The stages before RECORDS that the corpus has, in order."""
        stages = {
            Stage.ARTIFACTS: self._read,
            Stage.SURFACES: self._cut,
            Stage.SYNOPSES: self._write_synopses,
            Stage.CLAIMS: self._extract_claims,
            Stage.SUMMARY_NODES: self._summarize_claims,
            Stage.EMBEDDINGS: self._embed,
        }
        return {stage: apply for stage, apply in stages.items() if stage in self.corpus.stages}

    def open(self, listings: Sequence[Listing], options: BuildOptions) -> Batch:
        """Return a batch in which nothing is done yet."""
        rows = Ledger(self.store).rows(self.corpus.name, [listing.artifact_id for listing in listings])
        return Batch(
            [self._work(listing, rows.get(listing.artifact_id), options) for listing in listings],
            options,
            Embeddings(self.embedder, self.store, self.dim, self._same_model),
        )

    def _work(self, listing: Listing, row: LedgerRow | None, options: BuildOptions) -> ArtifactWork:
        before = row or new_row(self.corpus, listing.artifact_id)
        if Stage.ARTIFACTS in options.stages:
            return ArtifactWork(listing.artifact_id, before, row is None, listing.stamp, listing)
        return ArtifactWork(listing.artifact_id, before, row is None, before.stamp)

    def compute(self, listings: Sequence[Listing], options: BuildOptions) -> Batch:
        """Take artifacts through the stages. Raises MemoryError if their rows would be too large together."""
        batch = self.open(listings, options)
        for stage, apply in self._stages.items():
            with stage_span(stage, self.corpus.name, len(batch.live)):
                apply(batch)
        for work in batch.live:
            work.versions = self._versions(work)
            work.redo = _differing(work, options)
        return batch

    # -- artifacts and surfaces ------------------------------------------------------------------------

    def _read(self, batch: Batch) -> None:
        """Read payloads from the source, or from the artifacts table if that stage is not requested.

        In the latter case, artifacts whose last reading failed fail again for the same reason.
        """
        if Stage.ARTIFACTS in batch.options.stages:
            with self._watch() as watch:
                read_artifacts(self.corpus.source, self.corpus.access, batch.works, watch)
            return
        known = self._stored(batch)
        for work in batch.works:
            if work.row.failed_stage == Stage.ARTIFACTS:
                work.fail(Stage.ARTIFACTS, ArtifactError(work.row.failed_message, work.row.failed_kind))
            elif work.artifact_id in known:
                work.artifact = known[work.artifact_id]
                work.version = artifact_version(work.artifact)
                work.readers = work.row.readers
            else:
                work.fail(Stage.ARTIFACTS, self._not_current(Stage.ARTIFACTS))

    def _stored(self, batch: Batch) -> dict[str, Artifact]:
        """Return the artifacts as the artifacts table has them."""
        found = stored(self.store, [work.artifact_id for work in batch.works], equals("corpus", self.corpus.name))
        return {artifact_id: artifact for (_, artifact_id), (artifact, _) in found.items()}

    def _cut(self, batch: Batch) -> None:
        with self._watch() as watch:
            cut_artifacts(self.strategy, self.synopses, self.corpus.edges, batch.live, watch)
        check_batch([work.bytes for work in batch.live])
        self._require(batch, Stage.SURFACES, lambda work: work.row.surfaces == self.recipe.surfaces(work.version))

    def _watch(self) -> Watch:
        return Watch(self.corpus.name, hasattr(self.corpus.source, "exclude"))

    # -- synopses and claims ---------------------------------------------------------------------------

    def _write_synopses(self, batch: Batch) -> None:
        """Load synopses from the cache, or have the synthesizer write them while the embedder embeds other texts."""
        of = self.synopses
        if of is None:
            return
        early = self._independent_texts(of, batch)
        batch.unembedded |= early
        context = self._calls(Stage.SYNOPSES, batch)
        with batch.embeddings.making(early, batch.options.progress) as embedded:
            made = self._synthesize(of, batch.live, context)
            if of.context == "chunk":
                made += write_chunk_contexts(of, batch.live, context)
        batch.embedded += embedded.result()
        batch.add_calls(Stage.SYNOPSES, made)
        self._require(batch, Stage.SYNOPSES, lambda work: not (work.synopsis_missing or work.chunk_contexts_missing))

    def _independent_texts(self, of: WithSynopsis, batch: Batch) -> dict[str, str]:
        """Return the texts without a vector that do not depend on what a model writes."""
        options = batch.options
        if of.context or isinstance(of.synthesizer, CostsNothing):
            return {}
        if not options.pays(Stage.EMBEDDINGS) or options.repays(Stage.EMBEDDINGS):
            return {}
        return batch.embeddings.load(batch.texts())

    def _synthesize(self, of: WithSynopsis, works: Sequence[ArtifactWork], context: CallContext) -> CallResults:
        needed = [work for work in works if work.synopsis_missing]
        shown = {work.artifact_id: work.synopsis_input for work in needed if work.synopsis_input}
        if isinstance(of.synthesizer, ResumableSynthesizer):
            made = resume_synopses(of, of.synthesizer, shown, context)
        else:
            made = write_synopses(of, shown, context)
        for work in needed:
            work.synopsis = made.synopses.get(work.artifact_id, NO_SYNOPSIS)
            work.synopsis_missing = work.artifact_id not in made.synopses
        return made

    def _extract_claims(self, batch: Batch) -> None:
        """Add claims, without near-duplicates."""
        if self._claims is None:
            return
        prepare_extraction(self.strategy, batch.live)
        inputs = {work.artifact_id: work.claims_input for work in batch.live if work.claims_input}
        versions = {work.artifact_id: work.version for work in batch.live}
        claims, made = self._claims.claims(inputs, versions, self._calls(Stage.CLAIMS, batch))
        for work in batch.live:
            work.claims = claims.get(work.artifact_id, work.claims)
        batch.add_calls(Stage.CLAIMS, made)
        if self._claims.of.near is not None:
            self._drop_repeats(self._claims, batch)
        self._require(
            batch,
            Stage.CLAIMS,
            lambda work: (
                work.claims is not None and work.row.claims == readable(claims_version(work.claims), work.readers)
            ),
        )

    def _drop_repeats(self, claims: ClaimBuilder, batch: Batch) -> None:
        """Drop claims that are near-duplicates of another claim, by their vectors."""
        texts = {text_hash(c.text): c.text for work in batch.live if work.claims for c in work.claims.claims}
        if batch.options.repays(Stage.CLAIMS):
            self._forget_vectors(texts)
        missing = batch.embeddings.load(texts)
        batch.unembedded |= missing
        if batch.options.pays(Stage.CLAIMS):
            batch.embedded += batch.embeddings.make(missing, batch.options.progress)
        for work in batch.live:
            work.claims = work.claims and claims.drop_repeats(work.claims, batch.embeddings.vectors)

    def _summarize_claims(self, batch: Batch) -> None:
        """Add the summary nodes over claims."""
        if self._claims is None or self._claims.of.nodes is None:
            return
        claims = {work.artifact_id: work.claims for work in batch.live if work.claims}
        nodes, made = self._claims.nodes(claims, self._calls(Stage.SUMMARY_NODES, batch))
        for work in batch.live:
            work.node = nodes.get(work.artifact_id)
        batch.add_calls(Stage.SUMMARY_NODES, made)
        self._require(batch, Stage.SUMMARY_NODES, lambda work: work.node is not None)

    def _calls(self, stage: Stage, batch: Batch) -> CallContext:
        return CallContext.of_stage(stage, self.spending, self.corpus.name, batch.options)

    # -- vectors ---------------------------------------------------------------------------------------

    def _embed(self, batch: Batch) -> None:
        """Load the vectors of all texts from the cache, or have the embedder make them."""
        options, embeddings = batch.options, batch.embeddings
        if self.synopses is not None and self.synopses.context:
            put_in_context(self.synopses, batch.live, self.embedder)
        texts = batch.texts()
        if options.repays(Stage.EMBEDDINGS):
            self._forget_vectors(texts.keys() - batch.unembedded.keys())
        missing = {h: text for h, text in embeddings.load(texts).items() if h not in embeddings.failures}
        batch.unembedded |= missing
        if options.pays(Stage.EMBEDDINGS):
            batch.embedded += embeddings.make(missing, options.progress)
            for work in batch.live:
                if bad := embeddings.failures.keys() & work.texts().keys():
                    work.fail(Stage.EMBEDDINGS, embeddings.failures[min(bad)])
        elif options.pays(Stage.RECORDS):
            self._require(batch, Stage.EMBEDDINGS, lambda work: not missing.keys() & work.texts().keys())

    def _forget_vectors(self, hashes: Iterable[str]) -> None:
        self.store.drop("embeddings", "key", [call_key(self.embedder.id, h) for h in hashes])

    # -- versions --------------------------------------------------------------------------------------

    def _require(self, batch: Batch, stage: Stage, is_current: Callable[[ArtifactWork], bool]) -> None:
        """Fail artifacts in which a stage is stale that is not requested, but is an input of a requested one."""
        if batch.options.needs(stage):
            for work in batch.live:
                if not is_current(work):
                    work.fail(stage, self._not_current(stage))

    def _not_current(self, stage: Stage) -> ArtifactError:
        return ArtifactError(f"its {stage} are not current: materialize {self.corpus.name}/{stage} first", "missing")

    def _versions(self, work: ArtifactWork) -> dict[str, str | None]:
        claims = claims_version(work.claims) if self.recipe.claims_id else NO_CLAIMS
        nodes = nodes_version(work.node) if self.recipe.nodes_id else NO_CLAIMS
        return self.recipe.versions(
            work.version, _synopsis_input(work), claims, nodes, work.texts(), work.edges, work.readers
        )


def stage_span(stage: Stage, corpus: str, artifacts: int) -> AbstractContextManager[object]:
    """Return the span of a stage over so many artifacts."""
    labels = {"findingaid.stage": stage.value, "findingaid.corpus": corpus}
    return telemetry.span(stage.value, "findingaid.stage.duration", labels, {"findingaid.artifacts": artifacts})


def _synopsis_input(work: ArtifactWork) -> str | None:
    """Return the value that identifies the synopsis in its version.

    - "skipped" if the gate held the synopsis back.
    - A hash of the synthesizer's input if the synopsis is settled.
    - A hash of the substitute text and its producer if the synopsis is still to come.
    - None if there is no substitute either.
    """
    synopsis = work.synopsis
    if synopsis.outcome is Outcome.SKIPPED:
        return synopsis.outcome.value
    if synopsis.outcome.settled and work.synopsis_input:
        return synopsis_key("", work.synopsis_input)
    return content_hash(synopsis.producer_id, synopsis.text) if synopsis.text else None


def _differing(work: ArtifactWork, options: BuildOptions) -> list[str]:
    """Return the parts to redo: those that differ in version, or in who may read them, of the stages asked for.

    Edges are redone together with surfaces. For a new artifact these are all parts, except claims and summary nodes
    that the corpus does not want: their version is already right in an empty row.
    """
    asked = {*options.stages, EDGES} if Stage.SURFACES in options.stages else options.stages
    return [
        part
        for part in PARTS
        if part in asked
        and (
            options.redoes(part)
            or work.row.version(part) != work.versions[part]
            or (part == Stage.ARTIFACTS and work.row.readers != work.readers)
        )
    ]
