"""Indexer: takes a batch of artifacts through the stages and writes the results to the tables.

A batch is computed and checked completely, and its rows are written to files that no table refers to yet
(`Indexer.build_batch`). Then a group of batches is committed at once; see `findingaid.indexing.group_commit`.

All of this is done under the lease of the run on the corpus, so that concurrent runs take turns.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from findingaid import telemetry
from findingaid.claims.decisions import DecisionLog
from findingaid.claims.events import NODE_EVENTS, node_event_rows
from findingaid.claims.model import NOTHING_DECIDED, Decided
from findingaid.claims.standing import replay_decisions
from findingaid.corpus import Corpus
from findingaid.edges import NO_EDGES
from findingaid.errors import ArtifactError
from findingaid.identity.fingerprints import EDGE_EXTRACTOR, producer_id
from findingaid.identity.hashes import call_key, content_hash, payload_bytes, text_hash
from findingaid.indexing.batch import Batch
from findingaid.indexing.batch_jobs import collect_unwanted
from findingaid.indexing.batch_report import BatchWork, ClaimCalls, failures_of, report_of
from findingaid.indexing.budget import Spending
from findingaid.indexing.calls import CallResults, Progress, synopsis_key
from findingaid.indexing.chunk_contexts import write_chunk_contexts
from findingaid.indexing.claims import ClaimBuilder, claims_version, find_changed_by_decisions, nodes_version
from findingaid.indexing.forecast import Forecast
from findingaid.indexing.group_commit import BuiltBatch, Group
from findingaid.indexing.plan import NO_CLAIMS, NO_SYNOPSIS, CorpusPlan, Recipe, split
from findingaid.indexing.retries import NEVER, NEXT_RUN, failure_key, runs_until_retry
from findingaid.indexing.row_size import check_batch
from findingaid.indexing.rows import (
    artifact_rows,
    claim_rows,
    edge_rows,
    node_rows,
    record_rows,
    summary_rows,
    surface_rows,
    synopsis_rows,
)
from findingaid.indexing.stages import decompose, prepare_extraction, put_in_context, read_artifacts, synthesize
from findingaid.indexing.vectors import Embeddings, dimensions_of
from findingaid.indexing.watchdog import Watch
from findingaid.model import EDGES, INPUTS, PARTS, SYNOPSIS, WRITTEN, Artifact, Failure, Listing, Outcome, Stage
from findingaid.protocols import Embedder, Free, ResumableSource, Strategy
from findingaid.reports import BatchReport, Calls
from findingaid.store import Lease, Ledger, LedgerRow, SkippedArtifacts, Store, history, schemas
from findingaid.store.artifacts import artifact_version, stored
from findingaid.store.ledger import OUTCOMES, notes_json
from findingaid.store.skipped import TABLE as SKIPPED
from findingaid.store.skipped import skipped_rows
from findingaid.store.sql import equals
from findingaid.strategies.with_synopsis import WithSynopsis, taken_apart

ALL_STAGES = tuple(Stage)

NO_MEMORY = "building it takes more memory than there is: exclude it, or run where there is more"

NOT_FAILED: Mapping[str, Any] = {
    name: getattr(LedgerRow("", ""), name)
    for name in ("failed_stage", "failed_kind", "failed_runs", "failed_key", "retry_in")
}
"""Fields of the ledger row of an artifact that did not fail."""

OBJECTS_A_COLLECTION = 100_000
"""Threshold of the garbage collector during a build. The default of 700 costs a cold build about 7 % of its time."""


@dataclass(frozen=True)
class BuildOptions:
    """Options for building artifacts.

    `force` redoes the stages `forced` even if they are current, with cached results of models; with `pay_again` their
    models are called again. With `pay` false no model is called.
    """

    stages: Collection[Stage] = ALL_STAGES
    force: bool = False
    pay: bool = True
    pay_again: bool = False
    forced: Collection[Stage] = ALL_STAGES
    progress: Progress | None = None

    def pays(self, stage: Stage) -> bool:
        """Return whether a stage may call a model for results that are not cached."""
        return self.pay and stage in self.stages

    def repays(self, stage: Stage) -> bool:
        """Return whether a stage must call the model even for cached results."""
        return self.redoes(stage) and self.pay_again and self.pays(stage)

    def redoes(self, part: str) -> bool:
        """Return whether a part is written again even if it is current; edges are redone together with surfaces."""
        return self.force and (Stage.SURFACES if part == EDGES else part) in self.forced

    def needs(self, stage: Stage) -> bool:
        """Check whether a stage is not requested itself, but is an input of a requested stage."""
        return self.pay and stage not in self.stages and any(stage in INPUTS[later] for later in self.stages)


ALL_STALE = BuildOptions()
"""Options that bring artifacts up to date in all stages."""


@dataclass(frozen=True)
class Indexer:
    """Indexer of one corpus: takes its artifacts through the stages into a store."""

    of: Corpus
    embedder: Embedder
    store: Store
    spending: Spending
    log: DecisionLog
    lease: Lease

    @cached_property
    def decided(self) -> Decided:
        """The decisions on this corpus's claims, read once on first access."""
        return replay_decisions(self.corpus, self.log.all()) if self.of.claims else NOTHING_DECIDED

    @cached_property
    def _parts(self) -> tuple[Strategy, WithSynopsis | None]:
        return taken_apart(self.of.strategy)

    @property
    def strategy(self) -> Strategy:
        """The strategy that cuts artifacts, without the synopsis wrapper."""
        return self._parts[0]

    @property
    def synopses(self) -> WithSynopsis | None:
        """The synopsis settings; None if the corpus has no synopses."""
        return self._parts[1]

    @property
    def corpus(self) -> str:
        return self.of.name

    @cached_property
    def dim(self) -> int:
        """Dimensions of the embedder's vectors."""
        return dimensions_of(self.embedder, self.store)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store)

    @cached_property
    def recipe(self) -> Recipe:
        synopses, records = NO_SYNOPSIS, schemas.RECORDS_VERSION
        if self.synopses is not None:
            synopses = self.synopses.id
            records += "" if self.synopses.kind == SYNOPSIS else f"-{self.synopses.kind}"
            records += "-context" if self.synopses.context else ""
            records += f"-{self.synopses.chunk_contexts.id}" if self.synopses.context == "chunk" else ""
        edges = producer_id(self.of.edges, EDGE_EXTRACTOR) if self.of.edges else NO_EDGES
        return Recipe(producer_id(self.strategy), synopses, self.embedder.id, records, edges, *self._of_claims_ids())

    def _of_claims_ids(self) -> tuple[str, str]:
        """Return the ids that the versions of claims and of summary nodes depend on."""
        of = self.of.claims
        if of is None:
            return NO_CLAIMS, NO_CLAIMS
        near = "" if of.near is None else f"-{content_hash(of.near, self.embedder.id)[:8]}"
        least = f"-{of.min_confidence}" if of.min_confidence else ""
        nodes = f"{of.nodes.id}-{of.at_least}-{of.min_node_confidence}" if of.nodes else NO_CLAIMS
        return f"{of.extractor.id}{near}{least}", nodes

    @property
    def skipped(self) -> SkippedArtifacts:
        return SkippedArtifacts(self.store)

    def artifacts_with_new_decisions(self) -> set[str]:
        """Return the artifacts whose claims have new decisions since they were built."""
        nodes = bool(self.of.claims and self.of.claims.nodes)
        known = self.ledger.decisions(self.corpus) if self.of.claims else {}
        return find_changed_by_decisions(self.store, self.corpus, self.decided, nodes, known)

    def waiting(self, listings: Iterable[Listing]) -> dict[str, Failure]:
        """Return the listed artifacts that failed before, and whose next try is not in this run."""
        known = self.ledger.waiting(self.corpus)
        failed = ((listing, *known[listing.artifact_id]) for listing in listings if listing.artifact_id in known)
        return {listing.artifact_id: failure for listing, failure, key in failed if key == self._failure_key(listing)}

    def _failure_key(self, listing: Listing) -> str:
        return failure_key(listing, self.of.source, self.recipe.id)

    def begin(self, plan: CorpusPlan) -> None:
        """Record lost parts and the plan's failures in the ledger, so that these artifacts are built again.

        Failures that wait come a run nearer to their next try.
        """
        if plan.forgotten:
            self.skipped.forget(self.corpus, plan.forgotten)
        failures = {f.artifact_id: f for f in plan.failures}
        waiting = {f.artifact_id for f in plan.waiting if f.retry_in != NEVER}
        if not plan.lost and not failures and not waiting:
            return
        with self.lease.on(self.corpus):
            rows = self.ledger.rows(self.corpus, sorted({*plan.lost, *failures, *waiting}))
            lost = self.ledger.lost(self.corpus) if plan.lost else {}  # again: another run may have been writing them
            after = {i: replace(row, retry_in=row.retry_in - 1) for i, row in rows.items() if i in waiting}
            after |= {i: row.writing(lost[i]) for i, row in rows.items() if i in lost}
            for i, failure in failures.items():
                after[i] = _failed(after.get(i) or rows.get(i) or LedgerRow(self.corpus, i), failure)
            self._put(list(after.values()))

    def estimate(self, listings: Sequence[Listing], forecast: Forecast) -> BatchReport:
        """Predict the report of `build` without calling a model.

        `forecast` collects the texts to embed, so that a text shared by several batches is counted once.
        """
        works = self._compute_in_memory(listings, BuildOptions(pay=False))
        return sum((self._estimate(work, forecast) for _, work in works), BatchReport())

    def _estimate(self, work: BatchWork, forecast: Forecast) -> BatchReport:
        fresh = forecast.add(work.missing)
        calls = replace(work.calls, embed=len(fresh) + work.synopsis_calls.unwritten)
        report = report_of(replace(work, missing={h: work.missing[h] for h in fresh}, calls=calls), self.embedder)
        return replace(report, records=report.records + len(work.batch.unwritten))

    def build(self, listings: Sequence[Listing], options: BuildOptions = ALL_STALE) -> BatchReport:
        """Bring these artifacts up to date in the stages of the options. All earlier stages must be current."""
        return sum(self.build_all(split(listings), options), BatchReport())

    def build_all(self, batches: Iterable[Sequence[Listing]], options: BuildOptions = ALL_STALE) -> list[BatchReport]:
        """Build the batches in order, and return the reports of all."""
        return [report for _, report in self.build_each(batches, options)]

    def build_each(
        self, batches: Iterable[Sequence[Listing]], options: BuildOptions = ALL_STALE
    ) -> Iterator[tuple[Sequence[Listing], BatchReport]]:
        """Build the batches in order, computing each one while the previous one is written.

        Yields each batch with its report when its rows are committed; a batch that takes too much memory in parts.
        Other processes of the run may build other artifacts of the corpus. Other runs are waited for.
        """
        batches = iter(batches)
        first = next(batches, ())
        if not first:
            return
        writes: list[Future[None]] = []
        with self.lease.on(self.corpus, first[0].artifact_id), _rare_collections(), ThreadPoolExecutor(1) as writer:
            group = Group(self.store, self.corpus, self.lease)
            computed = (self._compute_in_memory(batch, options) for batch in chain([first], batches))
            try:
                for part, work in chain.from_iterable(computed):
                    if writes:
                        writes.pop().result()  # at most two are in memory, and a failed write stops the run
                    into = telemetry.in_context(self._write_into)
                    writes.append(writer.submit(into, group, part, work, options))
                    if options.progress:
                        options.progress(Stage.ARTIFACTS.value, 0, len(part))
                    yield from group.committed()
            finally:
                writes.append(writer.submit(group.commit))  # runs after the writes submitted before it
        for write in writes:
            write.result()
        yield from group.committed()

    def _write_into(self, group: Group, listings: Sequence[Listing], work: BatchWork, options: BuildOptions) -> None:
        try:
            built = self._write(work)
        except MemoryError:
            built = None  # as in _compute_in_memory
        group.add(listings, self._write(self._out_of_memory(listings, options)) if built is None else built)

    def build_batch(self, listings: Sequence[Listing], options: BuildOptions = ALL_STALE) -> BuiltBatch:
        """Compute a batch and write its rows to files, for `commit_group` in this process or another.

        The process that commits holds the lease on the corpus from before this call.
        """
        return self._write(self._compute(listings, options))

    def _compute_in_memory(
        self, listings: Sequence[Listing], options: BuildOptions
    ) -> Iterator[tuple[Sequence[Listing], BatchWork]]:
        """Compute a batch; if that takes too much memory, one half of it after the other.

        Yields each part with its result. A single artifact that takes too much fails.
        """
        try:
            work = self._compute(listings, options)
        except MemoryError:
            work = None  # the error holds the memory until here
        if work is not None:
            yield listings, work
            return
        gc.collect()
        if len(listings) == 1:
            yield listings, self._out_of_memory(listings, options)
            return
        half = len(listings) // 2
        yield from self._compute_in_memory(listings[:half], options)
        yield from self._compute_in_memory(listings[half:], options)

    def _out_of_memory(self, listings: Sequence[Listing], options: BuildOptions) -> BatchWork:
        """Return the result for artifacts that took too much memory: all have failed, and none has rows."""
        batch, ids = Batch(), [listing.artifact_id for listing in listings]
        for artifact_id in ids:
            batch.fail(artifact_id, Stage.SURFACES, ArtifactError(NO_MEMORY, "memory"))
        rows = self.ledger.rows(self.corpus, ids)
        stamps, read = _stamps(listings, rows, options)
        return BatchWork(batch, stamps, read, rows, {}, {}, Embeddings(self.embedder, self.store))

    def remove(self, artifact_ids: Sequence[str]) -> None:
        """Remove artifacts from every table. The caches keep the results that were paid for."""
        with self.lease.on(self.corpus, next(iter(artifact_ids), "")) as lease:
            rows = self.ledger.rows(self.corpus, artifact_ids)
            written = self._put([row.writing(PARTS) for row in rows.values()])
            for table in (*reversed(schemas.PER_ARTIFACT), NODE_EVENTS):
                empty = self.store.dataset(table).schema.empty_table()
                self.store.replace(table, self.corpus, artifact_ids, empty, lease.check_commit)
            if written:
                self.ledger.follow(self.corpus, [], lease.check, gone=written)

    def retract_other_embedders(self) -> None:
        """Remove records whose vectors another embedder made.

        Called after a run, when only artifacts that failed in it still have such records. The ledger marks the removed
        records as to be built again.
        """
        theirs = self.of_another_embedder
        if not self.store.count("records", theirs):
            return
        with self.lease.on(self.corpus) as lease:
            ids = sorted(set(self.store.rows("records", ["artifact_id"], theirs)["artifact_id"].to_pylist()))
            rows = self.ledger.rows(self.corpus, ids).values()
            written = self._put([row.writing([Stage.RECORDS]) for row in rows])
            none = schemas.records(self.dim).empty_table()
            self.store.replace("records", self.corpus, ids, none, lease.check_commit)
            self._put([replace(row, n_records=0) for row in written])

    def collect_unwanted_batches(self) -> None:
        """Collect open batches of synopses that no artifact waits for any more. Called after a run."""
        if self.synopses is not None:
            collect_unwanted(self.synopses.synthesizer, self.spending)

    @property
    def of_another_embedder(self) -> str:
        """SQL filter for records of this corpus that the configured embedder did not make."""
        return f"{equals('corpus', self.corpus)} AND NOT ({equals('embedder_id', self.embedder.id)})"

    # -- computing -------------------------------------------------------------------------------------

    def _compute(self, listings: Sequence[Listing], options: BuildOptions) -> BatchWork:
        ids = [listing.artifact_id for listing in listings]
        rows = self.ledger.rows(self.corpus, ids)
        batch = Batch()
        with Watch(self.corpus, hasattr(self.of.source, "exclude")) as watch:
            with self._span(Stage.ARTIFACTS, len(ids)):
                self._load(ids, rows, options, batch, watch)
            with self._span(Stage.SURFACES, len(ids)):
                decompose(self.strategy, self.synopses, batch, self.of.edges, watch)
        check_batch(batch.sizes.values())
        if options.needs(Stage.SURFACES):
            wanted = {i: self.recipe.surfaces(batch.versions[i]) for i in batch.plans}
            self._require(Stage.SURFACES, batch, lambda i: i in rows and rows[i].surfaces == wanted[i])
        embeddings = Embeddings(self.embedder, self.store, self.dim)
        early = self._before_synopses(batch, embeddings, options)
        with embeddings.making(early, options.progress) as made, self._span(Stage.SYNOPSES, len(batch.shown)):
            synopses = self._synthesize(batch, options)
        with self._span(Stage.CLAIMS, len(batch.plans) if self.of.claims else 0):
            of_claims = self._extract_claims(batch, rows, embeddings, options)
        put_in_context(self.synopses, batch, self.embedder)
        texts = {h: text for i in batch.plans for h, text in batch.texts(i).items()}
        if options.repays(Stage.EMBEDDINGS):
            self._forget_vectors(texts.keys() - of_claims.missing.keys())
        missing = {h: text for h, text in embeddings.load(texts).items() if h not in embeddings.failures}
        embedded = made.result() + of_claims.embedded
        if options.pays(Stage.EMBEDDINGS):
            with self._span(Stage.EMBEDDINGS, len(batch.plans)):
                embedded += embeddings.make(missing, options.progress)
            self._drop_unembedded(batch, embeddings)
        elif options.pays(Stage.RECORDS):
            self._require(Stage.EMBEDDINGS, batch, lambda i: not missing.keys() & batch.texts(i).keys())
        missing = {**early, **of_claims.missing, **missing}
        calls = replace(of_claims.calls, embed=embedded if options.pay else len(missing), synthesize=synopses.calls)
        versions = {i: self._versions(batch, i) for i in batch.plans}
        redo = {i: again for i in versions if (again := _differing(versions[i], rows.get(i), options))}
        stamps, read = _stamps(listings, rows, options)
        model_calls = (synopses, *of_claims.results)
        return BatchWork(batch, stamps, read, rows, versions, redo, embeddings, missing, calls, synopses, model_calls)

    def _span(self, stage: Stage, artifacts: int) -> AbstractContextManager[object]:
        """Return the span of a stage over so many artifacts."""
        labels = {"findingaid.stage": stage.value, "findingaid.corpus": self.corpus}
        duration = "findingaid.stage.duration"
        return telemetry.span(stage.value, duration, labels, {"findingaid.artifacts": artifacts})

    def _load(
        self, ids: Sequence[str], rows: Mapping[str, LedgerRow], options: BuildOptions, batch: Batch, watch: Watch
    ) -> None:
        """Load payloads from the source, or from the artifacts table if that stage is not requested.

        In the latter case, artifacts whose last reading failed fail again for the same reason.
        """
        if Stage.ARTIFACTS in options.stages:
            reads_on = isinstance(self.of.source, ResumableSource) and not options.redoes(Stage.ARTIFACTS)
            read_artifacts(self.of.source, ids, batch, self._stored(ids) if reads_on else {}, watch)
            return
        batch.artifacts |= self._stored(ids)
        batch.versions |= {artifact_id: artifact_version(artifact) for artifact_id, artifact in batch.artifacts.items()}
        for artifact_id in ids:
            if artifact_id in rows and rows[artifact_id].failed_stage == Stage.ARTIFACTS:
                row = rows[artifact_id]
                batch.artifacts.pop(artifact_id, None)
                batch.fail(artifact_id, Stage.ARTIFACTS, ArtifactError(row.failed_message, row.failed_kind))
            elif artifact_id not in batch.artifacts:
                batch.fail(artifact_id, Stage.ARTIFACTS, self._not_current(Stage.ARTIFACTS))

    def _before_synopses(self, batch: Batch, embeddings: Embeddings, options: BuildOptions) -> dict[str, str]:
        """Return the texts without a vector that can be embedded while a model writes the synopses."""
        of = self.synopses
        if of is None or of.context or isinstance(of.synthesizer, Free):
            return {}
        if not options.pays(Stage.EMBEDDINGS) or options.repays(Stage.EMBEDDINGS):
            return {}
        return embeddings.load({h: text for i in batch.plans for h, text in batch.texts(i).items()})

    def _synthesize(self, batch: Batch, options: BuildOptions) -> CallResults:
        """Load synopses from the cache, or have the synthesizer write them."""
        if self.synopses is not None and options.repays(Stage.SYNOPSES):
            producer = self.synopses.synthesizer.id
            self.store.drop("calls", "key", [synopsis_key(producer, shown) for shown in batch.shown.values()])
        pays, again = options.pays(Stage.SYNOPSES), options.repays(Stage.SYNOPSES)
        asked = synthesize(self.synopses, batch, self.spending, self.corpus, pays, options.progress, again)
        if self.synopses is not None and self.synopses.context == "chunk":
            asked += write_chunk_contexts(
                self.synopses, batch, self.spending, self.corpus, pays, options.progress, again
            )
        if self.synopses is not None and options.needs(Stage.SYNOPSES):
            self._require(Stage.SYNOPSES, batch, lambda i: i in batch.synopses and i not in batch.unplaced)
        return asked

    def _extract_claims(
        self, batch: Batch, rows: Mapping[str, LedgerRow], embeddings: Embeddings, options: BuildOptions
    ) -> ClaimCalls:
        """Add claims, without near-duplicates, and the summary nodes over them."""
        if self.of.claims is None:
            return ClaimCalls()
        builder = ClaimBuilder(self.of.claims, self.corpus, self.spending, self.decided, options.progress)
        prepare_extraction(self.strategy, batch)
        if options.repays(Stage.CLAIMS):
            builder.forget(batch.stated)
        claims, asked = builder.claims(batch.stated, batch.versions, options.pays(Stage.CLAIMS))
        batch.claims |= claims
        missing, embedded = self._drop_repeats(builder, batch, embeddings, options)
        if options.needs(Stage.CLAIMS):
            current = {i for i, row in rows.items() if row.claims == claims_version(batch.claims.get(i))}
            self._require(Stage.CLAIMS, batch, lambda i: i in batch.claims and i in current)
        batch.nodes, summarized = builder.nodes(
            batch.claims, options.pays(Stage.SUMMARY_NODES), options.repays(Stage.SUMMARY_NODES)
        )
        if self.of.claims.nodes and options.needs(Stage.SUMMARY_NODES):
            self._require(Stage.SUMMARY_NODES, batch, lambda i: i in batch.nodes)
        calls = Calls(
            extract=asked.calls if Stage.CLAIMS in options.stages else 0,
            summarize=summarized.calls if Stage.SUMMARY_NODES in options.stages else 0,
        )
        return ClaimCalls((asked, summarized), missing, embedded, calls)

    def _drop_repeats(
        self, builder: ClaimBuilder, batch: Batch, embeddings: Embeddings, options: BuildOptions
    ) -> tuple[Mapping[str, str], int]:
        """Drop claims that are near-duplicates of another claim.

        Returns the texts by hash that had no cached vector, and how many of them were embedded.
        """
        if builder.of.near is None:
            return {}, 0
        texts = {text_hash(claim.text): claim.text for of in batch.claims.values() for claim in of.claims}
        if options.repays(Stage.CLAIMS):
            self._forget_vectors(texts)
        missing = embeddings.load(texts)
        embedded = embeddings.make(missing, options.progress) if options.pays(Stage.CLAIMS) else 0
        batch.claims = {i: builder.drop_repeats(of, embeddings.vectors) for i, of in batch.claims.items()}
        return missing, embedded

    def _forget_vectors(self, hashes: Iterable[str]) -> None:
        self.store.drop("embeddings", "key", [call_key(self.embedder.id, h) for h in hashes])

    def _stored(self, ids: Sequence[str]) -> dict[str, Artifact]:
        """Return the artifacts as the artifacts table has them."""
        found = stored(self.store, ids, equals("corpus", self.corpus))
        return {artifact_id: artifact for (_, artifact_id), (artifact, _) in found.items()}

    def _require(self, stage: Stage, batch: Batch, current: Callable[[str], bool]) -> None:
        """Fail artifacts whose prerequisite stage is stale."""
        for artifact_id in [i for i in batch.plans if not current(i)]:
            batch.fail(artifact_id, stage, self._not_current(stage))
            del batch.plans[artifact_id]

    def _not_current(self, stage: Stage) -> ArtifactError:
        return ArtifactError(f"its {stage} are not current: materialize {self.corpus}/{stage} first", "missing")

    def _drop_unembedded(self, batch: Batch, embeddings: Embeddings) -> None:
        for artifact_id in list(batch.plans):
            if bad := embeddings.failures.keys() & batch.texts(artifact_id).keys():
                batch.fail(artifact_id, Stage.EMBEDDINGS, embeddings.failures[min(bad)])
                del batch.plans[artifact_id]

    def _versions(self, batch: Batch, artifact_id: str) -> dict[str, str | None]:
        made_of = self._synopsis_input(batch, artifact_id)
        texts, edges = batch.texts(artifact_id), batch.edges[artifact_id]
        claims = claims_version(batch.claims.get(artifact_id)) if self.recipe.claims_id else NO_CLAIMS
        nodes = nodes_version(batch.nodes.get(artifact_id)) if self.recipe.nodes_id else NO_CLAIMS
        return self.recipe.versions(batch.versions[artifact_id], made_of, claims, nodes, texts, edges)

    def _synopsis_input(self, batch: Batch, artifact_id: str) -> str | None:
        """Return the value that identifies the synopsis in its version.

        - "skipped" if the gate held the synopsis back.
        - A hash of the synthesizer's input if the synopsis is settled.
        - A hash of the substitute text and its producer if the synopsis is still to come.
        - None if there is no substitute either.
        """
        synopsis = batch.synopsis(artifact_id)
        if synopsis.outcome is Outcome.SKIPPED:
            return synopsis.outcome.value
        if synopsis.outcome.settled:
            return synopsis_key("", batch.shown[artifact_id])
        return content_hash(synopsis.producer_id, synopsis.text) if synopsis.text else None

    # -- writing ---------------------------------------------------------------------------------------

    def _write(self, work: BatchWork) -> BuiltBatch:
        """Write the rows of a batch to files that no table refers to yet."""
        with self._span(Stage.RECORDS, len(work.versions)):
            return self._write_rows(work)

    def _write_rows(self, work: BatchWork) -> BuiltBatch:
        def row_of(artifact_id: str) -> LedgerRow:
            return work.rows.get(artifact_id) or LedgerRow(self.corpus, artifact_id)

        tables = self._tables(work)  # built completely before anything is written
        counts = {table: _rows_by_artifact(rows) for table, (_, rows) in tables.items()}
        tables |= self._skipped_rows(work)
        files = self.store.each(tables, lambda table: self.store.write_fragments(table, tables[table][1]))
        after = [self._row_after(work, row_of(i), counts) for i in work.versions]
        failures = {i: failure for i, failure in work.batch.failures.items() if i not in work.versions}
        after += [self._row_after_failure(work, row_of(i), failure) for i, failure in failures.items()]
        return BuiltBatch(
            {table: (ids, files[table]) for table, (ids, _) in tables.items()},
            self._histories(work),
            [row_of(i).writing(again) for i, again in work.redo.items()],
            [row for row in after if row != work.rows.get(row.artifact_id) or row.artifact_id in work.redo],
            report_of(work, self.embedder),
        )

    def _tables(self, work: BatchWork) -> dict[str, tuple[list[str], pa.Table]]:
        """Return table -> (artifacts whose rows are replaced, the new rows)."""
        ids = {part: [i for i, again in work.redo.items() if part in again] for part in PARTS}
        batch = work.batch
        made = {
            "artifacts": artifact_rows(self.corpus, batch, ids[Stage.ARTIFACTS]),
            "surfaces": surface_rows(self.corpus, batch, ids[Stage.SURFACES]),
            EDGES: edge_rows(self.corpus, batch, ids[EDGES]),
            "synopses": synopsis_rows(self.corpus, batch, ids[Stage.SYNOPSES], self.synopses),
            "claims": claim_rows(batch.claims, ids[Stage.CLAIMS]),
            "summary_nodes": node_rows(batch.nodes, ids[Stage.SUMMARY_NODES]),
            "records": record_rows(self.corpus, batch, ids[Stage.RECORDS], self.synopses, work.embeddings),
        }
        return {table: (ids[table], rows) for table, rows in made.items() if ids[table]}

    def _histories(self, work: BatchWork) -> dict[str, pa.Table]:
        """Return the new rows of the histories: anchored summaries and events of summary nodes."""
        found = {}
        if noded := [i for i, again in work.redo.items() if Stage.SUMMARY_NODES in again]:
            found[NODE_EVENTS] = node_event_rows(self.store, self.corpus, {i: work.batch.noded(i).node for i in noded})
        if ids := [i for i, again in work.redo.items() if Stage.SYNOPSES in again and work.batch.synopsis(i).state]:
            latest = {i: rows[-1].summary for i, rows in history(self.store, self.corpus, ids).items()}
            found["summaries"] = summary_rows(self.corpus, work.batch, ids, latest)
        return found

    def _skipped_rows(self, work: BatchWork) -> dict[str, tuple[list[str], pa.Table]]:
        """Return the rows of artifacts that the source skips, which also forget those that it no longer does.

        The records of one that was indexed before stay until the end of the run; see `Run.finish_corpus`.
        """
        rows = {i: (work.stamps[i], reason) for i, reason in work.batch.skipped.items()}
        if rows or self.skipped.of(self.corpus).keys() & work.stamps.keys():
            return {SKIPPED: (sorted(work.stamps), skipped_rows(self.corpus, rows))}
        return {}

    def _row_after(self, work: BatchWork, row: LedgerRow, counts: Mapping[str, Mapping[str, int]]) -> LedgerRow:
        """Return an artifact's ledger row as it is once all its parts are written.

        `counts` maps each table to the number of its new rows, by artifact id.
        """
        batch, wanted, again = work.batch, work.versions[row.artifact_id], work.redo.get(row.artifact_id, [])
        artifact_id = row.artifact_id
        written: dict[str, Any] = {str(part): wanted[part] for part in again}
        written |= {f"n_{part}": counts[part].get(artifact_id, 0) for part in again if part in counts}
        if Stage.ARTIFACTS in again:
            written["bytes"] = payload_bytes(batch.artifacts[artifact_id].raw)
        made = {stage: batch.made(artifact_id, stage) for stage in WRITTEN}
        for stage, of in made.items():
            if stage in again or not of.outcome.settled:
                written[OUTCOMES[stage]] = of.outcome.value if self._wants(stage) else ""
        # A result that was not requested has no version yet. If it failed before, the row has no version either.
        done = all(wanted[part] is not None and (part in again or row.version(part) == wanted[part]) for part in PARTS)
        current = done and all(of.outcome.settled for of in made.values())
        if Stage.CLAIMS in again or row.claims == wanted[Stage.CLAIMS]:
            written |= self._built_from(batch, artifact_id)
        if artifact_id in batch.notes:
            written["notes"] = notes_json(batch.notes[artifact_id])
        written |= {"stamp": work.stamps[artifact_id], "recipe": self.recipe.id if current else ""}
        if failure := next(failures_of(batch, artifact_id), None):
            return _failed(replace(row, **written), failure)
        waits_for = next((of.message for of in made.values() if of.outcome is Outcome.PENDING), "")
        return replace(row, **written, **NOT_FAILED, failed_message=waits_for)

    def _row_after_failure(self, work: BatchWork, row: LedgerRow, failure: Failure) -> LedgerRow:
        failed, listing = _failed(row, failure), work.read.get(row.artifact_id)
        if listing is None:  # the source was not asked
            return replace(failed, failed_key=row.failed_key, retry_in=row.retry_in)
        retry_in = runs_until_retry(failure, failed.failed_runs, listing)
        return replace(failed, failed_key=self._failure_key(listing), retry_in=retry_in)

    def _wants(self, stage: Stage) -> bool:
        """Return whether the corpus wants the output of one of the stages in WRITTEN."""
        return self.synopses is not None if stage is Stage.SYNOPSES else stage in self.of.stages

    def _built_from(self, batch: Batch, artifact_id: str) -> dict[str, Any]:
        """Return the ledger fields that record the origin of claims and summary nodes."""
        claimed, noded = batch.stating(artifact_id), batch.noded(artifact_id)
        ids = [claim.claim_id for claim in claimed.claims]
        return {
            "claims_key": claimed.key,
            "summary_nodes_key": noded.key,
            "refused": len(claimed.refused) + len(noded.refused),
            "decisions": self.decided.touching(artifact_id, ids, bool(self.recipe.nodes_id)),
        }

    def _put(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """Replace ledger rows if they are still as they were read; return them as written."""
        updated = self.ledger.follow(self.corpus, rows, self.lease.check) if rows else None
        return [replace(row, updated=updated) for row in rows]


def _rows_by_artifact(rows: pa.Table) -> dict[str, int]:
    """Count the rows of each artifact."""
    counted = rows["artifact_id"].value_counts()
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Run the garbage collector less often. A batch is many small live objects, scanned in vain each time."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_A_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _differing(wanted: Mapping[str, str | None], row: LedgerRow | None, options: BuildOptions) -> list[str]:
    """Return the parts to redo: those whose version differs, among the requested stages.

    Edges are redone together with surfaces. For a new artifact these are all parts, except claims and summary nodes
    that the corpus does not want: their version is already right in an empty row.
    """
    row = row or LedgerRow("", "")
    asked = {*options.stages, EDGES} if Stage.SURFACES in options.stages else options.stages
    return [part for part in PARTS if part in asked and (options.redoes(part) or row.version(part) != wanted[part])]


def _stamps(
    listings: Sequence[Listing], rows: Mapping[str, LedgerRow], options: BuildOptions
) -> tuple[dict[str, str], dict[str, Listing]]:
    """Return the stamps of the payloads, and the listings of those that are read from the source."""
    if Stage.ARTIFACTS in options.stages:
        return {x.artifact_id: x.stamp for x in listings}, {x.artifact_id: x for x in listings}
    stamps = {x.artifact_id: rows[x.artifact_id].stamp if x.artifact_id in rows else "" for x in listings}
    return stamps, {}


def _failed(row: LedgerRow, failure: Failure) -> LedgerRow:
    """Return the row with the failure recorded.

    The empty recipe makes the next run try again. The versions keep telling what the tables hold.
    """
    return replace(
        row,
        recipe="",
        failed_stage=failure.stage,
        failed_kind=failure.kind,
        failed_message=failure.message,
        failed_runs=row.failed_runs + 1,
        failed_key="",
        retry_in=NEXT_RUN,
    )
