"""Taking a batch of artifacts through the stages and into the tables, by the protocol that keeps them whole.

Everything is computed and checked before anything is written. Then: the ledger says what is about to be
written, each table gets one commit, the ledger says it is done. A crash anywhere leaves work to do again,
never work that looks done (why the intent is needed: a source that is reverted after a crash).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from findingaid.errors import ArtifactError, ReadError
from findingaid.identity import producer_id, text_hash
from findingaid.model import Calls, Embedder, Failure, Listing, Outcome, Source, Stage, Strategy, Synthesizer
from findingaid.plan import NO_SYNOPSIS, CorpusPlan, Recipe
from findingaid.stages import (
    Batch,
    Embeddings,
    Progress,
    artifact_of,
    artifact_rows,
    artifact_version,
    decompose,
    read,
    record_rows,
    surface_rows,
    synopsis_rows,
    synthesize,
)
from findingaid.store import Ledger, LedgerRow, Store, schemas

ALL_STAGES = tuple(Stage)


@dataclass(frozen=True, slots=True)
class Done:
    """What a batch made of one artifact: the versions it has now, and the first stage that was done again."""

    artifact_id: str
    versions: Mapping[Stage, str | None]
    first: Stage
    surfaces: int
    records: int
    synopsis: Outcome


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of one batch, or would. `done` lists the artifacts of which something was written.

    An artifact whose synopsis failed is published all the same, and counts as new or changed too.
    """

    new: int = 0
    changed: int = 0
    records: int = 0
    done: Sequence[Done] = ()
    failed: Sequence[Failure] = ()
    calls: Calls = Calls()
    truncated: int = 0


@dataclass
class Work:
    """A batch computed as far as it goes without writing to a table of artifacts."""

    batch: Batch
    rows: Mapping[str, LedgerRow]
    versions: dict[str, dict[Stage, str | None]]
    embeddings: Embeddings
    missing: Mapping[str, str] = field(default_factory=dict)
    calls: Calls = Calls()


@dataclass(frozen=True)
class Indexer:
    """One corpus and where it is kept."""

    corpus: str
    source: Source
    strategy: Strategy
    synthesizer: Synthesizer | None
    embedder: Embedder
    store: Store

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store)

    @property
    def recipe(self) -> Recipe:
        synthesizer_id = NO_SYNOPSIS if self.synthesizer is None else self.synthesizer.id
        return Recipe(producer_id(self.strategy), synthesizer_id, self.embedder.id, schemas.RECORDS_VERSION)

    def begin(self, plan: CorpusPlan) -> None:
        """Record in the ledger what was found lost, so that whoever builds an artifact does it again."""
        rows = self.ledger.rows(self.corpus, list(plan.lost)) if plan.lost else {}
        self._put([row.writing(plan.lost[i]) for i, row in rows.items()])
        known = self.ledger.rows(self.corpus, [f.artifact_id for f in plan.failures]) if plan.failures else {}
        failed = (_failed(known.get(f.artifact_id) or LedgerRow(self.corpus, f.artifact_id), f) for f in plan.failures)
        self._put([row for row in failed if row != known.get(row.artifact_id)])

    def estimate(self, listings: Sequence[Listing], seen: set[str]) -> BatchReport:
        """What `build` would do; `seen` collects the text hashes to embed, so that batches share them."""
        work = self._compute(listings, ALL_STAGES, pay=False, progress=None)
        redo = self._all_redo(work, ALL_STAGES, force=False)
        fresh = work.missing.keys() - seen
        seen.update(fresh)
        report = self._report(replace(work, calls=Calls(len(fresh) + work.calls.synthesize, work.calls.synthesize)), redo)
        return replace(report, records=report.records + work.calls.synthesize)

    def build(
        self,
        listings: Sequence[Listing],
        stages: Collection[Stage] = ALL_STAGES,
        force: bool = False,
        progress: Progress | None = None,
    ) -> BatchReport:
        """Bring these artifacts up to date in the given stages; those before them must be current."""
        work = self._compute(listings, stages, pay=True, progress=progress)
        redo = self._all_redo(work, stages, force)
        self._write(work, redo, {listing.artifact_id: listing.stamp for listing in listings})
        return self._report(work, redo)

    def remove(self, artifact_ids: Sequence[str]) -> None:
        """Take artifacts out of every table; what was paid for them stays in the caches."""
        rows = self.ledger.rows(self.corpus, artifact_ids)
        self._put([row.writing(ALL_STAGES) for row in rows.values()])
        for table in reversed(schemas.PER_ARTIFACT):
            self.store.replace(table, self.corpus, artifact_ids, self.store.dataset(table).schema.empty_table())
        self.ledger.put(self.corpus, [], gone=artifact_ids)

    # -- computing -------------------------------------------------------------------------------------

    def _compute(self, listings: Sequence[Listing], stages: Collection[Stage], pay: bool, progress: Progress | None) -> Work:
        ids = [listing.artifact_id for listing in listings]
        rows = self.ledger.rows(self.corpus, ids)
        batch = Batch()
        self._load(ids, stages, batch)
        decompose(self.strategy, batch)
        if Stage.SURFACES not in stages:
            self._require_surfaces(batch, rows)
        asks = synthesize(self.synthesizer, batch, self.store, pay and Stage.SYNOPSES in stages, progress)
        if pay and Stage.SYNOPSES not in stages:
            _drop(batch, Stage.SYNOPSES, [i for i in batch.plans if self.synthesizer and i not in batch.synopses], "synopses are not current")
        embeddings = Embeddings(self.embedder, self.store)
        texts = {h: text for i in batch.plans for h, text in batch.texts(i).items()}
        missing = embeddings.load(texts)
        calls = Calls(0 if pay else len(missing), asks)
        if pay and Stage.EMBEDDINGS in stages:
            calls = Calls(embeddings.make(missing, progress), asks)
            self._drop_unembedded(batch, embeddings)
        elif pay and Stage.RECORDS in stages:
            _drop(batch, Stage.EMBEDDINGS, [i for i in batch.plans if missing.keys() & batch.texts(i).keys()], "embeddings are not current")
        versions = {i: self._versions(batch, i) for i in batch.plans}
        return Work(batch, rows, versions, embeddings, missing, calls)

    def _load(self, ids: Sequence[str], stages: Collection[Stage], batch: Batch) -> None:
        """Payloads from the source, or from the artifacts table when that stage is not asked for."""
        if Stage.ARTIFACTS in stages:
            read(self.source, ids, batch)
            return
        columns = ("corpus", "artifact_id", "payload", "is_text", "metadata")
        found = self.store.lookup("artifacts", "artifact_id", ids, columns).to_pylist()
        batch.artifacts |= {row["artifact_id"]: artifact_of(row) for row in found if row["corpus"] == self.corpus}
        for artifact_id in ids:
            if artifact_id not in batch.artifacts:
                batch.fail(artifact_id, Stage.ARTIFACTS, ReadError(self._first("artifacts", "was never read"), "missing"))

    def _require_surfaces(self, batch: Batch, rows: Mapping[str, LedgerRow]) -> None:
        stale = [i for i in batch.plans if i not in rows or rows[i].surfaces != self._versions(batch, i)[Stage.SURFACES]]
        _drop(batch, Stage.SURFACES, stale, self._first("surfaces", "surfaces are not current"))

    def _first(self, stage: str, what: str) -> str:
        return f"{what}: materialize {self.corpus}/{stage} first"

    def _drop_unembedded(self, batch: Batch, embeddings: Embeddings) -> None:
        for artifact_id in list(batch.plans):
            if bad := embeddings.failures.keys() & batch.texts(artifact_id).keys():
                batch.fail(artifact_id, Stage.EMBEDDINGS, embeddings.failures[min(bad)])
                del batch.plans[artifact_id]

    def _versions(self, batch: Batch, artifact_id: str) -> dict[Stage, str | None]:
        synopsis = batch.synopses.get(artifact_id)
        failed = synopsis is not None and synopsis.outcome is Outcome.FAILED
        version = artifact_version(batch.artifacts[artifact_id])
        shown = text_hash(batch.shown[artifact_id]) if self.synthesizer is not None else ""
        return self.recipe.versions(version, shown, failed, batch.texts(artifact_id))

    def _all_redo(self, work: Work, stages: Collection[Stage], force: bool) -> dict[str, list[Stage]]:
        """artifact id -> the stages to do again, where there are any."""
        return {i: again for i in work.versions if (again := self._redo(work, i, stages, force))}

    def _redo(self, work: Work, artifact_id: str, stages: Collection[Stage], force: bool) -> list[Stage]:
        """The stages whose version differs from the one the ledger has."""
        row = work.rows.get(artifact_id)
        wanted = work.versions[artifact_id]
        return [s for s in ALL_STAGES if s in stages and (force or row is None or row.version(s) != wanted[s])]

    # -- writing ---------------------------------------------------------------------------------------

    def _write(self, work: Work, redo: Mapping[str, list[Stage]], stamps: Mapping[str, str]) -> None:
        def row_of(artifact_id: str) -> LedgerRow:
            return work.rows.get(artifact_id) or LedgerRow(self.corpus, artifact_id)

        tables = self._tables(work, redo)  # made whole before anything is written
        self._put([row_of(i).writing(again) for i, again in redo.items()])
        for table, (ids, rows) in tables.items():
            self.store.replace(table, self.corpus, ids, rows)
        after = [self._after(work, row_of(i), redo.get(i, []), stamps[i]) for i in work.versions]
        after += [_failed(row_of(i), failure) for i, failure in work.batch.failures.items() if i not in work.versions]
        self._put([row for row in after if row != work.rows.get(row.artifact_id) or row.artifact_id in redo])

    def _tables(self, work: Work, redo: Mapping[str, list[Stage]]) -> dict[str, tuple[list[str], object]]:
        """table -> (artifacts whose rows are replaced, the new rows)."""
        ids = {stage: [i for i, again in redo.items() if stage in again] for stage in ALL_STAGES}
        batch = work.batch
        producer = self.recipe.synthesizer_id
        made = {
            "artifacts": artifact_rows(self.corpus, [batch.artifacts[i] for i in ids[Stage.ARTIFACTS]]),
            "surfaces": surface_rows(self.corpus, {i: batch.plans[i] for i in ids[Stage.SURFACES]}),
            "synopses": synopsis_rows(self.corpus, {i: batch.synopses[i] for i in ids[Stage.SYNOPSES] if i in batch.synopses}, producer),
            "records": record_rows(self.corpus, batch, ids[Stage.RECORDS], self.synthesizer, work.embeddings, self.embedder),
        }
        return {table: (ids[Stage(table)], rows) for table, rows in made.items() if ids[Stage(table)]}

    def _after(self, work: Work, row: LedgerRow, again: Collection[Stage], stamp: str) -> LedgerRow:
        """The ledger row once everything in `again` is written."""
        batch, wanted = work.batch, work.versions[row.artifact_id]
        synopsis = batch.synopses.get(row.artifact_id)
        counts = {
            Stage.ARTIFACTS: 1,
            Stage.SURFACES: len(batch.plans[row.artifact_id].surfaces),
            Stage.SYNOPSES: int(synopsis is not None and synopsis.outcome is not Outcome.FAILED),
            Stage.RECORDS: self._count(batch, row.artifact_id),
        }
        row = replace(
            row,
            stamp=stamp,
            synopsis_outcome=(synopsis.outcome if synopsis else Outcome.SKIPPED).value,
            failed_stage="",
            failed_kind="",
            failed_message="",
            **{stage.value: wanted[stage] for stage in again},
            **{f"n_{stage.value}": counts[stage] for stage in again if stage in counts},
        )
        current = all(row.version(stage) == wanted[stage] for stage in ALL_STAGES)
        if synopsis is not None and synopsis.outcome is Outcome.FAILED:
            return _failed(row, _synopsis_failure(row.artifact_id, synopsis.kind, synopsis.message))
        return replace(row, recipe=self.recipe.id if current else "")

    def _put(self, rows: Sequence[LedgerRow]) -> None:
        if rows:
            self.ledger.put(self.corpus, rows)

    def _report(self, work: Work, redo: Mapping[str, list[Stage]]) -> BatchReport:
        batch = work.batch
        failed_synopses = [
            _synopsis_failure(i, s.kind, s.message) for i, s in batch.synopses.items() if s.outcome is Outcome.FAILED and i in work.versions
        ]
        limit = self.embedder.max_tokens
        return BatchReport(
            new=sum(i not in work.rows for i in redo),
            changed=sum(i in work.rows for i in redo),
            records=sum(self._count(batch, i) for i in work.versions),
            done=[self._done(work, i, again[0]) for i, again in redo.items()],
            failed=[*batch.failures.values(), *failed_synopses],
            calls=work.calls,
            truncated=sum(self.embedder.count_tokens(t) > limit for t in work.missing.values()) if limit else 0,
        )

    def _count(self, batch: Batch, artifact_id: str) -> int:
        """Records of an artifact: its surfaces, and its synopsis where there is one."""
        synopsis = batch.synopses.get(artifact_id)
        return len(batch.plans[artifact_id].surfaces) + int(synopsis is not None and synopsis.outcome is Outcome.OK)

    def _done(self, work: Work, artifact_id: str, first: Stage) -> Done:
        synopsis = work.batch.synopses.get(artifact_id)
        outcome = synopsis.outcome if synopsis else Outcome.SKIPPED
        surfaces = len(work.batch.plans[artifact_id].surfaces)
        return Done(artifact_id, work.versions[artifact_id], first, surfaces, self._count(work.batch, artifact_id), outcome)


def _drop(batch: Batch, stage: Stage, artifact_ids: Sequence[str], message: str) -> None:
    for artifact_id in artifact_ids:
        batch.fail(artifact_id, stage, ArtifactError(message, "missing"))
        del batch.plans[artifact_id]


def _failed(row: LedgerRow, failure: Failure) -> LedgerRow:
    """A row that says what failed; an empty recipe makes the next run try again. Versions tell what the tables hold."""
    return replace(row, recipe="", failed_stage=failure.stage, failed_kind=failure.kind, failed_message=failure.message)


def _synopsis_failure(artifact_id: str, kind: str, message: str) -> Failure:
    return Failure(artifact_id, Stage.SYNOPSES.value, kind, message)
