"""Indexer: brings the artifacts of one corpus up to date in the tables of a store.

The `Pipeline` computes a batch, and the `BatchWriter` writes its rows to files. Then a group of batches is committed at
once; see `findingaid.indexing.group_commit`. All of this is done under the lease of the run on the corpus, so that
concurrent runs take turns.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import pyarrow.compute as pc

from findingaid import telemetry
from findingaid.claims.decisions import DecisionLog
from findingaid.claims.events import NODE_EVENTS
from findingaid.claims.model import NOTHING_DECIDED, Decided
from findingaid.claims.standing import replay_decisions
from findingaid.corpus import Corpus
from findingaid.errors import ArtifactError
from findingaid.indexing.batch_jobs import collect_unwanted
from findingaid.indexing.batch_report import report_of
from findingaid.indexing.budget import BudgetTracker
from findingaid.indexing.calls import CallResults
from findingaid.indexing.claims import find_changed_by_decisions
from findingaid.indexing.forecast import Forecast
from findingaid.indexing.group_commit import BuiltBatch, Group
from findingaid.indexing.options import ALL_STALE, BuildOptions
from findingaid.indexing.pipeline import Pipeline, stage_span
from findingaid.indexing.plan import CorpusPlan, split
from findingaid.indexing.recipe import Recipe, recipe_of
from findingaid.indexing.retries import NEVER, failure_key
from findingaid.indexing.work import Batch, new_row
from findingaid.indexing.writer import NOT_FAILED, BatchWriter, failed
from findingaid.model import PARTS, WRITTEN, Failure, Listing, Stage
from findingaid.protocols import Embedder
from findingaid.reports import BatchReport
from findingaid.store import Lease, Ledger, LedgerRow, SkippedArtifacts, Store, schemas
from findingaid.store.skipped import unchanged
from findingaid.store.sql import equals

NO_MEMORY = "building it takes more memory than there is: exclude it, or run where there is more"

OBJECTS_A_COLLECTION = 100_000
"""Threshold of the garbage collector during a build. The default of 700 costs a cold build about 7 % of its time."""


@dataclass(frozen=True)
class Indexer:
    """Indexer of one corpus, into a store."""

    corpus: Corpus
    embedder: Embedder
    store: Store
    spending: BudgetTracker
    log: DecisionLog
    lease: Lease

    @property
    def name(self) -> str:
        """Name of the corpus."""
        return self.corpus.name

    @cached_property
    def recipe(self) -> Recipe:
        return recipe_of(self.corpus, self.embedder)

    @cached_property
    def decided(self) -> Decided:
        """The decisions on this corpus's claims, read once on first access."""
        return replay_decisions(self.name, self.log.all()) if self.corpus.claims else NOTHING_DECIDED

    @cached_property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.corpus, self.recipe, self.embedder, self.store, self.spending, self.decided)

    @cached_property
    def _writer(self) -> BatchWriter:
        return BatchWriter(self.corpus, self.recipe, self.store, self.decided)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store)

    @property
    def skipped(self) -> SkippedArtifacts:
        return SkippedArtifacts(self.store)

    def artifacts_with_new_decisions(self) -> set[str]:
        """Return the artifacts whose claims have new decisions since they were built."""
        of = self.corpus.claims
        known = self.ledger.decisions(self.name) if of else {}
        return find_changed_by_decisions(self.store, self.name, self.decided, bool(of and of.nodes), known)

    def tried(self, listings: Iterable[Listing]) -> dict[str, Failure]:
        """Return the listed artifacts that failed as they are now, in the same recipe."""
        known = self.ledger.tried(self.name)
        before = ((listing, *known[listing.artifact_id]) for listing in listings if listing.artifact_id in known)
        return {x.artifact_id: failure for x, failure, key in before if key == self._key(x)}

    def waiting(self, listings: Iterable[Listing]) -> set[str]:
        """Return the listed artifacts that only wait for an output of a model as they are now, in the same recipe."""
        pending = self.ledger.pending(self.name)
        return {x.artifact_id for x in listings if pending.get(x.artifact_id) == self._key(x)} if pending else set()

    def _key(self, listing: Listing) -> str:
        return failure_key(listing, self.corpus.source, self.recipe.id)

    def handled(self, listings: Collection[Listing]) -> set[str]:
        """Return the listed artifacts that failed, or wait for a model, as they are now and in the same recipe."""
        return self.waiting(listings).union(self.tried(listings))

    def outdated(self, listings: Sequence[Listing]) -> set[str]:
        """Return the listed artifacts that are indexed in another recipe, or that the source skips as they are now."""
        known = self.ledger.columns(self.name, "artifact_id", "recipe")
        made = dict(zip(known["artifact_id"].to_pylist(), known["recipe"].to_pylist(), strict=True))
        skipped = {each.artifact_id for each in unchanged(listings, self.skipped.of(self.name))}
        ids = made.keys() & {listing.artifact_id for listing in listings}
        return {i for i in ids if made[i] != self.recipe.id or i in skipped}

    def begin(self, plan: CorpusPlan) -> None:
        """Record lost parts and the plan's failures in the ledger, so that these artifacts are built again.

        Failures that wait come a run nearer to their next try.
        """
        if plan.forgotten:
            self.skipped.forget(self.name, plan.forgotten)
        failures = {f.artifact_id: f for f in plan.failures}
        waiting = {f.artifact_id for f in plan.waiting if f.retry_in != NEVER}
        if not plan.lost and not failures and not waiting:
            return
        with self.lease.on(self.name):
            rows = self.ledger.rows(self.name, sorted({*plan.lost, *failures, *waiting}))
            lost = self.ledger.lost(self.name) if plan.lost else {}  # again: another run may have been writing them
            after = {i: replace(row, retry_in=row.retry_in - 1) for i, row in rows.items() if i in waiting}
            after |= {i: row.writing(lost[i]) for i, row in rows.items() if i in lost}
            for i, failure in failures.items():
                after[i] = failed(after.get(i) or rows.get(i) or new_row(self.corpus, i), failure)
            self._put(list(after.values()))

    # -- building --------------------------------------------------------------------------------------

    def estimate(self, listings: Sequence[Listing], forecast: Forecast) -> BatchReport:
        """Predict the report of `build` without calling a model.

        `forecast` collects the texts to embed, so that a text shared by several batches is counted once.
        """
        batches = self._compute_in_memory(listings, BuildOptions(pay=False))
        return sum((self._estimate(batch, forecast) for _, batch in batches), BatchReport())

    def _estimate(self, batch: Batch, forecast: Forecast) -> BatchReport:
        fresh = forecast.add(batch.unembedded)
        report = report_of(replace(batch, unembedded={h: batch.unembedded[h] for h in fresh}))
        unwritten = batch.calls.get(Stage.SYNOPSES, CallResults()).unwritten
        records = report.records + sum(work.synopsis_missing for work in batch.live)
        return replace(report, calls=replace(report.calls, embed=len(fresh) + unwritten), records=records)

    def build(self, listings: Sequence[Listing], options: BuildOptions = ALL_STALE) -> BatchReport:
        """Bring these artifacts up to date in the stages of the options. All earlier stages must be current."""
        return sum((report for _, report in self.build_each(split(listings), options)), BatchReport())

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
        with self.lease.on(self.name, first[0].artifact_id), _rare_collections(), ThreadPoolExecutor(1) as writer:
            group = Group(self.store, self.name, self.lease)
            computed = (self._compute_in_memory(batch, options) for batch in chain([first], batches))
            try:
                for part, work in chain.from_iterable(computed):
                    if writes:
                        writes.pop().result()  # at most two are in memory, and a failed write stops the run
                    into = telemetry.in_context(self._write_into)
                    writes.append(writer.submit(into, group, part, work))
                    if options.progress:
                        options.progress(Stage.ARTIFACTS.value, 0, len(part))
                    yield from group.committed()
            finally:
                writes.append(writer.submit(group.commit))  # runs after the writes submitted before it
        for write in writes:
            write.result()
        yield from group.committed()

    def _write_into(self, group: Group, listings: Sequence[Listing], batch: Batch) -> None:
        try:
            built = self._write(batch)
        except MemoryError:
            built = None  # as in _compute_in_memory
        group.add(listings, self._write(self._out_of_memory(listings, batch.options)) if built is None else built)

    def _write(self, batch: Batch) -> BuiltBatch:
        with stage_span(Stage.RECORDS, self.name, len(batch.live)):
            return self._writer.write(batch)

    def _compute_in_memory(
        self, listings: Sequence[Listing], options: BuildOptions
    ) -> Iterator[tuple[Sequence[Listing], Batch]]:
        """Compute a batch; if that takes too much memory, one half of it after the other.

        Yields each part with its result. A single artifact that takes too much fails.
        """
        try:
            work = self.pipeline.compute(listings, options)
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

    def _out_of_memory(self, listings: Sequence[Listing], options: BuildOptions) -> Batch:
        """Return the result for artifacts that took too much memory: all have failed, and none has rows."""
        batch = self.pipeline.open(listings, options)
        for work in batch.works:
            work.fail(Stage.SURFACES, ArtifactError(NO_MEMORY, "memory"))
        return batch

    # -- removing --------------------------------------------------------------------------------------

    def remove(self, artifact_ids: Sequence[str]) -> None:
        """Remove artifacts from every table. The caches keep the results that were paid for."""
        with self.lease.on(self.name, next(iter(artifact_ids), "")) as lease:
            rows = self.ledger.rows(self.name, artifact_ids)
            written = self._put([row.writing(PARTS) for row in rows.values()])
            for table in (*reversed(schemas.PER_ARTIFACT), NODE_EVENTS):
                empty = self.store.dataset(table).schema.empty_table()
                self.store.replace(table, self.name, artifact_ids, empty, lease.check_commit)
            if written:
                self.ledger.follow(self.name, [], lease.check, gone=written)

    def retract_other_embedders(self, *, partial: bool = False) -> None:
        """Remove records whose vectors another embedder made.

        Called after a run, when only artifacts that failed in it still have such records. After a `partial` run others
        may have some too, which are still to be built: then none are removed. The ledger marks the removed records as
        to be built again.
        """
        theirs = self.foreign_records
        if not self.store.count("records", theirs):
            return
        with self.lease.on(self.name) as lease:
            ids = sorted(set(self.store.rows("records", ["artifact_id"], theirs)["artifact_id"].to_pylist()))
            failed = {each.artifact_id for each in self.ledger.failures(self.name) if each.stage not in WRITTEN}
            if partial and not failed.issuperset(ids):
                return
            rows = self.ledger.rows(self.name, ids).values()
            written = self._put([row.writing([Stage.RECORDS]) for row in rows])
            none = schemas.records(self.pipeline.dim).empty_table()
            self.store.replace("records", self.name, ids, none, lease.check_commit)
            self._put([replace(row, n_records=0) for row in written])

    def retract_undecided(self, *, partial: bool = False) -> list[str]:
        """Remove artifacts of which it is not known who may read them by now; return their ids.

        They failed, and were indexed by other access rules or their readers have changed since; or, unless the run was
        `partial`, they could not be listed under these rules, or to be finished. Failures stay in the ledger.
        """
        access_id = self.recipe.access_id
        if not access_id:
            return []
        known = self.ledger.columns(self.name, "artifact_id", "access", "recipe", "failed_stage")
        undecided = pc.not_equal(known["failed_stage"], "")
        if not partial:
            undecided = pc.or_(pc.equal(known["recipe"], ""), pc.not_equal(known["access"], access_id))
        rows = self.ledger.rows(self.name, known["artifact_id"].filter(undecided).to_pylist())
        made = chain.from_iterable(self._readers_in(table, list(rows)) for table in schemas.WITH_READERS)
        gone = sorted({i for i, said in made if rows[i].access != access_id or rows[i].readers != said})
        if gone:
            self.remove(gone)
            failures = {i: {name: getattr(rows[i], name) for name in NOT_FAILED} for i in gone if rows[i].failed_stage}
            self._put([replace(new_row(self.corpus, i), **failure) for i, failure in failures.items()])
        return gone

    def _readers_in(self, table: str, artifact_ids: Sequence[str]) -> Iterable[tuple[str, str]]:
        """Return artifacts that have rows in a table, with the readers of these rows."""
        of = equals("corpus", self.name)
        found = self.store.lookup(table, "artifact_id", artifact_ids, ("artifact_id", "readers"), of)
        return zip(found["artifact_id"].to_pylist(), found["readers"].to_pylist(), strict=True)

    def collect_unwanted_batches(self) -> None:
        """Collect open batches of synopses that no artifact waits for any more. Called after a run."""
        if (synopses := self.pipeline.synopses) is not None:
            collect_unwanted(synopses.synthesizer, self.spending)

    @property
    def foreign_records(self) -> str:
        """SQL filter for records of this corpus that the configured embedder did not make."""
        return f"{equals('corpus', self.name)} AND NOT ({equals('embedder_id', self.embedder.id)})"

    def _put(self, rows: Sequence[LedgerRow]) -> list[LedgerRow]:
        """Replace ledger rows if they are still as they were read; return them as written."""
        updated = self.ledger.follow(self.name, rows, self.lease.check) if rows else None
        return [replace(row, updated=updated) for row in rows]


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Run the garbage collector less often. A batch is many small live objects, scanned in vain each time."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_A_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
