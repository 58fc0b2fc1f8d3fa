"""Taking a batch of artifacts through the stages and into the tables, by the protocol that keeps them whole.

Everything is computed and checked before anything is written. Then: the ledger says what is about to be
written, each table gets one commit, the ledger says it is done. A crash anywhere leaves work to do again,
never work that looks done (why the intent is needed: a source that is reverted after a crash).

All of it happens under a lease on the batch's artifacts, so that runs at once do each artifact once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from findingaid.batching import take_in_unwanted
from findingaid.edges import NO_EDGES
from findingaid.errors import ArtifactError
from findingaid.identity import call_key, content_hash, payload_bytes, producer_id
from findingaid.model import (
    EDGES,
    NAMED_CUT_OFF,
    NO_CALLS,
    NO_USAGE,
    NOTHING_CUT_OFF,
    PARTS,
    SYNOPSIS,
    Artifact,
    Calls,
    Corpus,
    CutOff,
    Embedder,
    Failure,
    Listing,
    Outcome,
    ResumableSource,
    Stage,
    Strategy,
    Usage,
)
from findingaid.plan import NO_SYNOPSIS, CorpusPlan, Recipe
from findingaid.spending import Spending, total
from findingaid.stages import (
    Batch,
    Embeddings,
    artifact_of,
    artifact_rows,
    artifact_version,
    decompose,
    edge_rows,
    put_in_context,
    read,
    record_rows,
    summary_rows,
    surface_rows,
    synopsis_rows,
    synthesize,
)
from findingaid.store import Lease, Leases, Ledger, LedgerRow, Store, history, schemas
from findingaid.store.sql import equals, one_of
from findingaid.synopses import WithSynopsis, taken_apart
from findingaid.synthesizing import Asked, Progress, synopsis_key

ALL_STAGES = tuple(Stage)

OBJECTS_A_COLLECTION = 100_000
"""Python's default, 700, costs a cold build some 7 % of its time."""

LEASED_BATCHES = 4
"""Batches claimed at once: each claim costs some 30 ms beside a commit, and others wait for as many batches."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of one batch, or would.

    An artifact whose synopsis failed is published all the same, and counts as new or changed too.
    """

    new: int = 0
    changed: int = 0
    records: int = 0
    failed: Sequence[Failure] = ()
    calls: Calls = NO_CALLS
    tokens: int = 0
    truncated: CutOff = NOTHING_CUT_OFF
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    pending: int = 0
    waiting: str = ""


@dataclass
class Work:
    """A batch computed as far as it goes without writing to a table of artifacts.

    `rows` are what the ledger has of its artifacts, `versions` what is wanted of them, `redo` the parts of
    each in which the two differ, and `missing` the texts by hash that had no vector yet.
    """

    batch: Batch
    stamps: Mapping[str, str]
    rows: Mapping[str, LedgerRow]
    versions: dict[str, dict[str, str | None]]
    redo: dict[str, list[str]]
    embeddings: Embeddings
    missing: Mapping[str, str] = field(default_factory=dict)
    calls: Calls = NO_CALLS
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True)
class Indexer:
    """Takes the artifacts of one corpus through the stages, into a store."""

    of: Corpus
    embedder: Embedder
    store: Store
    spending: Spending

    @cached_property
    def _parts(self) -> tuple[Strategy, WithSynopsis | None]:
        return taken_apart(self.of.strategy)

    @property
    def strategy(self) -> Strategy:
        """What cuts, synopses apart."""
        return self._parts[0]

    @property
    def synopses(self) -> WithSynopsis | None:
        """What is said of synopses; None where none are wanted."""
        return self._parts[1]

    @property
    def corpus(self) -> str:
        return self.of.name

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
        edges = producer_id(self.of.edges) if self.of.edges else NO_EDGES
        return Recipe(producer_id(self.strategy), synopses, self.embedder.id, records, edges)

    @property
    def leases(self) -> Leases:
        return Leases(self.store)

    def begin(self, plan: CorpusPlan) -> None:
        """Record in the ledger what was found lost, so that whoever builds an artifact does it again.

        What another run works on is not lost but half written, and is its to record.
        """
        failures = {f.artifact_id: f for f in plan.failures}
        if not plan.lost and not failures:
            return
        with self.leases.claim(self.corpus, sorted({*plan.lost, *failures})) as lease:
            rows = self.ledger.rows(self.corpus, lease.artifact_ids)
            lost = self.ledger.lost(self.corpus) if plan.lost else {}  # again: until now another run may have had them
            after = {i: row.writing(lost[i]) for i, row in rows.items() if i in lost}
            for i in failures.keys() & set(lease.artifact_ids):
                after[i] = _failed(after.get(i) or rows.get(i) or LedgerRow(self.corpus, i), failures[i])
            lease.check()
            self._put(list(after.values()))

    def estimate(self, listings: Sequence[Listing], seen: set[str]) -> BatchReport:
        """What `build` would do; `seen` collects the text hashes to embed, so that batches share them."""
        work = self._compute(listings, ALL_STAGES, force=False, pay=False)
        fresh = work.missing.keys() - seen
        seen.update(fresh)
        calls = Calls(len(fresh) + work.asked.unwritten, work.calls.synthesize)
        report = self._report(replace(work, missing={h: work.missing[h] for h in fresh}, calls=calls))
        return replace(report, records=report.records + len(work.batch.unwritten))

    def build(
        self,
        listings: Sequence[Listing],
        stages: Collection[Stage] = ALL_STAGES,
        force: bool = False,
        pay_again: bool = False,
        progress: Progress | None = None,
    ) -> BatchReport:
        """Bring these artifacts up to date in the given stages; those before them must be current.

        `force` does again what is current; `pay_again` with it also asks the models again. What another run works
        on is waited for.
        """
        by_id = {listing.artifact_id: listing for listing in listings}
        reports: list[BatchReport] = []

        def build(lease: Lease) -> None:
            free = [by_id[i] for i in lease.artifact_ids]
            work = self._compute(free, stages, force, pay=True, pay_again=force and pay_again, progress=progress)
            reports.append(self.commit(work, lease))

        self.leases.in_turn(self.corpus, by_id, build)
        return _together(reports)

    def build_all(
        self,
        batches: Iterable[Sequence[Listing]],
        force: bool = False,
        pay_again: bool = False,
        progress: Progress | None = None,
    ) -> list[BatchReport]:
        """Build batch after batch, each computed while the one before it is written.

        What other runs work on comes last, when they are done with it or gone.
        """
        again = force and pay_again
        reports, rest = self._build_free(batches, force, again, progress)
        while rest:
            self.leases.wait(self.corpus, [listing.artifact_id for listing in rest])
            batches = CorpusPlan(self.corpus, len(rest), rest, ()).batches()
            more, rest = self._build_free(batches, force, again, progress)
            reports += more
        return reports

    def _build_free(
        self, batches: Iterable[Sequence[Listing]], force: bool, pay_again: bool, progress: Progress | None
    ) -> tuple[list[BatchReport], list[Listing]]:
        """Build what no other run works on; returns the rest too."""
        writes: list[Future[BatchReport]] = []
        rest: list[Listing] = []
        with _rare_collections(), ThreadPoolExecutor(1) as writer:
            for group in _groups(batches):
                lease = self.leases.claim(self.corpus, [x.artifact_id for batch in group for x in batch])
                try:
                    free = set(lease.artifact_ids)
                    rest += [x for batch in group for x in batch if x.artifact_id not in free]
                    for batch in filter(None, ([x for x in batch if x.artifact_id in free] for batch in group)):
                        work = self._compute(batch, ALL_STAGES, force, True, pay_again, progress)
                        if writes:
                            writes[-1].result()  # at most two batches are in memory, and a failed write stops the run
                        writes.append(writer.submit(self.commit, work, lease))
                        if progress:
                            progress(Stage.ARTIFACTS.value, 0, len(batch))
                finally:
                    writer.submit(lease.release)  # after all that was submitted before
        return [write.result() for write in writes], rest

    def remove(self, artifact_ids: Sequence[str]) -> None:
        """Take artifacts out of every table; what was paid for them stays in the caches."""
        self.leases.in_turn(self.corpus, artifact_ids, self._remove)

    def _remove(self, lease: Lease) -> None:
        ids = lease.artifact_ids
        rows = self.ledger.rows(self.corpus, ids)
        lease.check()
        self._put([row.writing(PARTS) for row in rows.values()])
        for table in reversed(schemas.PER_ARTIFACT):
            self.store.replace(table, self.corpus, ids, self.store.dataset(table).schema.empty_table())
        self.ledger.put(self.corpus, [], gone=ids)

    def retract_other_embedders(self) -> None:
        """Take out records whose vectors another embedder made; after a run those of artifacts that failed in it.

        What is taken out is remembered as to be made again.
        """
        theirs = self.of_another_embedder
        if not self.store.count("records", theirs):
            return
        ids = sorted(set(self.store.rows("records", ["artifact_id"], theirs)["artifact_id"].to_pylist()))
        self.leases.in_turn(self.corpus, ids, self._retract)

    def take_in_unwanted_batches(self) -> None:
        """Take in batches of synopses that no artifact waits for any more; after a run."""
        if self.synopses is not None:
            take_in_unwanted(self.synopses.synthesizer, self.spending)

    def _retract(self, lease: Lease) -> None:
        where = f"{self.of_another_embedder} AND {one_of('artifact_id', lease.artifact_ids)}"
        ids = sorted(set(self.store.rows("records", ["artifact_id"], where)["artifact_id"].to_pylist()))
        rows = self.ledger.rows(self.corpus, ids).values()
        lease.check()
        self._put([row.writing([Stage.RECORDS]) for row in rows])
        self.store.replace("records", self.corpus, ids, schemas.records(self.embedder.dim).empty_table())
        self._put([replace(row.writing([Stage.RECORDS]), n_records=0) for row in rows])

    @property
    def of_another_embedder(self) -> str:
        """A filter for this corpus's records that the configured embedder did not make."""
        return f"{equals('corpus', self.corpus)} AND NOT ({equals('embedder_id', self.embedder.id)})"

    # -- computing -------------------------------------------------------------------------------------

    def _compute(
        self,
        listings: Sequence[Listing],
        stages: Collection[Stage],
        force: bool,
        pay: bool,
        pay_again: bool = False,
        progress: Progress | None = None,
    ) -> Work:
        ids = [listing.artifact_id for listing in listings]
        rows = self.ledger.rows(self.corpus, ids)
        batch = Batch()
        self._load(ids, stages, force, batch)
        decompose(self.strategy, self.synopses, batch, self.of.edges)
        if _is_input(Stage.SURFACES, stages):
            self._require(Stage.SURFACES, batch, lambda i: i in rows and rows[i].surfaces == self._surfaces(batch, i))
        if pay_again and Stage.SYNOPSES in stages and self.synopses is not None:
            producer = self.synopses.synthesizer.id
            self.store.drop("calls", "key", [synopsis_key(producer, batch.shown[i]) for i in batch.plans])
        writes = pay and Stage.SYNOPSES in stages
        asked = synthesize(self.synopses, batch, self.spending, self.corpus, writes, progress, writes and pay_again)
        if pay and _is_input(Stage.SYNOPSES, stages) and self.synopses is not None:
            self._require(Stage.SYNOPSES, batch, lambda i: i in batch.synopses)
        put_in_context(self.synopses, batch, self.embedder)
        embeddings = Embeddings(self.embedder, self.store)
        texts = {h: text for i in batch.plans for h, text in batch.texts(i).items()}
        if pay_again and Stage.EMBEDDINGS in stages:
            self.store.drop("embeddings", "key", [call_key(self.embedder.id, h) for h in texts])
        missing = embeddings.load(texts)
        calls = Calls(0 if pay else len(missing), asked.calls)
        if pay and Stage.EMBEDDINGS in stages:
            calls = Calls(embeddings.make(missing, progress), asked.calls)
            self._drop_unembedded(batch, embeddings)
        elif pay and Stage.RECORDS in stages:
            self._require(Stage.EMBEDDINGS, batch, lambda i: not missing.keys() & batch.texts(i).keys())
        versions = {i: self._versions(batch, i) for i in batch.plans}
        redo = {i: again for i in versions if (again := _differing(versions[i], rows.get(i), stages, force))}
        stamps = {listing.artifact_id: listing.stamp for listing in listings}
        if Stage.ARTIFACTS not in stages:  # the payload is that of the stamp in the ledger, whatever the source has now
            stamps = {i: rows[i].stamp if i in rows else "" for i in ids}
        return Work(batch, stamps, rows, versions, redo, embeddings, missing, calls, asked)

    def _load(self, ids: Sequence[str], stages: Collection[Stage], force: bool, batch: Batch) -> None:
        """Payloads from the source, or from the artifacts table when that stage is not asked for."""
        if Stage.ARTIFACTS in stages:
            reads_on = isinstance(self.of.source, ResumableSource) and not force
            read(self.of.source, ids, batch, self._stored(ids) if reads_on else {})
            return
        batch.artifacts |= self._stored(ids)
        batch.versions |= {artifact_id: artifact_version(artifact) for artifact_id, artifact in batch.artifacts.items()}
        for artifact_id in ids:
            if artifact_id not in batch.artifacts:
                batch.fail(artifact_id, Stage.ARTIFACTS, self._not_current(Stage.ARTIFACTS))

    def _stored(self, ids: Sequence[str]) -> dict[str, Artifact]:
        """Artifacts as the table has them."""
        columns = ("artifact_id", "payload", "is_text", "metadata")
        found = self.store.lookup("artifacts", "artifact_id", ids, columns, equals("corpus", self.corpus))
        return {row["artifact_id"]: artifact_of(row) for row in found.to_pylist()}

    def _require(self, stage: Stage, batch: Batch, current: Callable[[str], bool]) -> None:
        """Fail the artifacts of which a stage that was not asked for is not current."""
        for artifact_id in [i for i in batch.plans if not current(i)]:
            batch.fail(artifact_id, stage, self._not_current(stage))
            del batch.plans[artifact_id]

    def _not_current(self, stage: Stage) -> ArtifactError:
        return ArtifactError(f"its {stage} are not current: materialize {self.corpus}/{stage} first", "missing")

    def _surfaces(self, batch: Batch, artifact_id: str) -> str | None:
        return self._versions(batch, artifact_id)[Stage.SURFACES]

    def _drop_unembedded(self, batch: Batch, embeddings: Embeddings) -> None:
        for artifact_id in list(batch.plans):
            if bad := embeddings.failures.keys() & batch.texts(artifact_id).keys():
                batch.fail(artifact_id, Stage.EMBEDDINGS, embeddings.failures[min(bad)])
                del batch.plans[artifact_id]

    def _versions(self, batch: Batch, artifact_id: str) -> dict[str, str | None]:
        made_of = self._made_of(batch, artifact_id)
        texts, edges = batch.texts(artifact_id), batch.edges[artifact_id]
        return self.recipe.versions(batch.versions[artifact_id], made_of, texts, edges)

    def _made_of(self, batch: Batch, artifact_id: str) -> str | None:
        """What stands for a synopsis in its version: what was shown, that the gate held it back, or what stands in."""
        synopsis = batch.synopsis(artifact_id)
        if synopsis.outcome is Outcome.SKIPPED:
            return synopsis.outcome.value
        if synopsis.outcome.settled:
            return synopsis_key("", batch.shown[artifact_id])
        return content_hash(synopsis.producer_id, synopsis.text) if synopsis.text else None

    # -- writing ---------------------------------------------------------------------------------------

    def commit(self, work: Work, lease: Lease) -> BatchReport:
        """Write what a batch came to: the intent, the tables, the word that it is done.

        Raises StoreError, with nothing written, when the lease was lost.
        """

        def row_of(artifact_id: str) -> LedgerRow:
            return work.rows.get(artifact_id) or LedgerRow(self.corpus, artifact_id)

        tables = self._tables(work)  # made whole before anything is written
        lease.check()
        self._put([row_of(i).writing(again) for i, again in work.redo.items()])
        # Between intent and word the order of the tables does not matter, so they are written side by side.
        with ThreadPoolExecutor(len(tables) or 1) as pool:
            list(pool.map(lambda table: self.store.replace(table, self.corpus, *tables[table]), tables))
        self._remember(work)
        after = [self._after(work, row_of(i)) for i in work.versions]
        after += [_failed(row_of(i), failure) for i, failure in work.batch.failures.items() if i not in work.versions]
        self._put([row for row in after if row != work.rows.get(row.artifact_id) or row.artifact_id in work.redo])
        return self._report(work)

    def _tables(self, work: Work) -> dict[str, tuple[list[str], pa.Table]]:
        """table -> (artifacts whose rows are replaced, the new rows)."""
        ids = {part: [i for i, again in work.redo.items() if part in again] for part in PARTS}
        batch = work.batch
        made = {
            "artifacts": artifact_rows(self.corpus, batch, ids[Stage.ARTIFACTS]),
            "surfaces": surface_rows(self.corpus, batch, ids[Stage.SURFACES]),
            EDGES: edge_rows(self.corpus, batch, ids[EDGES]),
            "synopses": synopsis_rows(self.corpus, batch, ids[Stage.SYNOPSES], self.synopses),
            "records": record_rows(self.corpus, batch, ids[Stage.RECORDS], self.synopses, work.embeddings),
        }
        return {table: (ids[table], rows) for table, rows in made.items() if ids[table]}

    def _remember(self, work: Work) -> None:
        """Add the anchored summaries that are new to the history of their artifacts."""
        ids = [i for i, again in work.redo.items() if Stage.SYNOPSES in again and work.batch.synopsis(i).state]
        if ids:
            latest = {i: rows[-1].summary for i, rows in history(self.store, self.corpus, ids).items()}
            self.store.append("summaries", summary_rows(self.corpus, work.batch, ids, latest))

    def _after(self, work: Work, row: LedgerRow) -> LedgerRow:
        """An artifact's ledger row once everything of it is written."""
        batch, wanted, again = work.batch, work.versions[row.artifact_id], work.redo.get(row.artifact_id, [])
        synopsis = batch.synopsis(row.artifact_id)
        counts: dict[str, int] = {
            Stage.ARTIFACTS: 1,
            EDGES: len(batch.edges[row.artifact_id]),
            Stage.SURFACES: len(batch.plans[row.artifact_id].surfaces),
            Stage.SYNOPSES: int(synopsis.kept),
            Stage.RECORDS: self._count(batch, row.artifact_id),
        }
        written: dict[str, Any] = {str(part): wanted[part] for part in again}
        written |= {f"n_{part}": counts[part] for part in again if part in counts}
        if Stage.ARTIFACTS in again:
            written["bytes"] = payload_bytes(batch.artifacts[row.artifact_id].raw)
        if Stage.SYNOPSES in again or not synopsis.outcome.settled:
            written["synopsis_outcome"] = synopsis.outcome.value if self.synopses is not None else ""
        current = synopsis.outcome.settled and all(part in again or row.version(part) == wanted[part] for part in PARTS)
        row = replace(
            row,
            stamp=work.stamps[row.artifact_id],
            recipe=self.recipe.id if current else "",
            **written,
        )
        if synopsis.outcome is Outcome.FAILED:
            return _failed(row, _synopsis_failure(row.artifact_id, synopsis.kind, synopsis.message))
        waits_for = synopsis.message if synopsis.outcome is Outcome.PENDING else ""
        return replace(row, failed_stage="", failed_kind="", failed_message=waits_for, failed_runs=0)

    def _put(self, rows: Sequence[LedgerRow]) -> None:
        if rows:
            self.ledger.put(self.corpus, rows)

    def _report(self, work: Work) -> BatchReport:
        batch, redo = work.batch, work.redo
        failed_synopses = [
            _synopsis_failure(i, s.kind, s.message)
            for i, s in batch.synopses.items()
            if s.outcome is Outcome.FAILED and i in work.versions
        ]
        tokens = {h: self.embedder.count_tokens(text) for h, text in work.missing.items()}
        return BatchReport(
            new=sum(i not in work.rows for i in redo),
            changed=sum(i in work.rows for i in redo),
            records=sum(self._count(batch, i) for i in work.versions),
            failed=[
                replace(failure, runs=work.rows[failure.artifact_id].failed_runs + 1)
                if failure.artifact_id in work.rows
                else failure
                for failure in (*batch.failures.values(), *failed_synopses)
            ],
            calls=work.calls,
            tokens=sum(tokens.values()),
            truncated=self._cut_off(work, tokens),
            usage=work.asked.usage,
            cost=work.asked.cost,
            pending=sum(batch.synopsis(i).outcome is Outcome.PENDING for i in work.versions),
            waiting=work.asked.waiting,
        )

    def _cut_off(self, work: Work, tokens: Mapping[str, int]) -> CutOff:
        """What of the texts by hash is longer than the embedder reads."""
        limit = self.embedder.max_tokens
        texts = {h for h, count in tokens.items() if limit and count > limit}
        if not texts:
            return NOTHING_CUT_OFF
        ids = (i for i in work.versions if texts & work.batch.texts(i).keys())
        return CutOff(len(texts), tuple(islice(ids, NAMED_CUT_OFF)))

    def _count(self, batch: Batch, artifact_id: str) -> int:
        """Records of an artifact: its surfaces, and its synopsis where there is one."""
        return len(batch.plans[artifact_id].surfaces) + bool(batch.synopsis(artifact_id).text)


def _groups(batches: Iterable[Sequence[Listing]]) -> Iterator[list[Sequence[Listing]]]:
    """Batches by as many as are leased at once."""
    left = iter(batches)
    while group := list(islice(left, LEASED_BATCHES)):
        yield group


def _together(reports: Sequence[BatchReport]) -> BatchReport:
    return BatchReport(
        new=sum(r.new for r in reports),
        changed=sum(r.changed for r in reports),
        records=sum(r.records for r in reports),
        failed=[failure for r in reports for failure in r.failed],
        calls=sum((r.calls for r in reports), NO_CALLS),
        tokens=sum(r.tokens for r in reports),
        truncated=sum((r.truncated for r in reports), NOTHING_CUT_OFF),
        usage=sum((r.usage for r in reports), NO_USAGE),
        cost=total([r.cost for r in reports]),
        pending=sum(r.pending for r in reports),
        waiting=next((r.waiting for r in reports if r.waiting), ""),
    )


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let garbage be collected less often: a batch is many small objects that live, walked each time for nothing."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_A_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _is_input(stage: Stage, stages: Collection[Stage]) -> bool:
    """Whether a stage is not done itself, but something that stands on it is."""
    return stage not in stages and any(later in stages for later in ALL_STAGES[ALL_STAGES.index(stage) + 1 :])


def _differing(
    wanted: Mapping[str, str | None], row: LedgerRow | None, stages: Collection[Stage], force: bool
) -> list[str]:
    """The parts to do again, of those stages and of the edges, which go with surfaces: whose version is another."""
    asked = {*stages, EDGES} if Stage.SURFACES in stages else stages
    return [part for part in PARTS if part in asked and (force or row is None or row.version(part) != wanted[part])]


def _failed(row: LedgerRow, failure: Failure) -> LedgerRow:
    """A row that says what failed; an empty recipe makes the next run try again. Versions tell what the tables hold."""
    return replace(
        row,
        recipe="",
        failed_stage=failure.stage,
        failed_kind=failure.kind,
        failed_message=failure.message,
        failed_runs=row.failed_runs + 1,
    )


def _synopsis_failure(artifact_id: str, kind: str, message: str) -> Failure:
    return Failure(artifact_id, Stage.SYNOPSES.value, kind, message)
