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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from findingaid.batching import take_in_unwanted
from findingaid.claiming import Asking, changed_by_decisions, claim_rows, claims_version, node_rows, nodes_version
from findingaid.claims.events import NODE_EVENTS, remember_nodes
from findingaid.claims.model import NOTHING_DECIDED, Decided, nothing_decided
from findingaid.edges import NO_EDGES
from findingaid.errors import ArtifactError
from findingaid.identity import call_key, content_hash, payload_bytes, producer_id, text_hash
from findingaid.model import (
    EDGES,
    INPUTS,
    PARTS,
    SYNOPSIS,
    WRITTEN,
    Artifact,
    Calls,
    Corpus,
    Embedder,
    Failure,
    Listing,
    Outcome,
    ResumableSource,
    Stage,
    Strategy,
)
from findingaid.plan import NO_CLAIMS, NO_SYNOPSIS, CorpusPlan, Recipe
from findingaid.reporting import BatchReport, OfClaims, Work, failures_of, report_of, together
from findingaid.spending import Spending
from findingaid.stages import (
    Batch,
    Embeddings,
    artifact_rows,
    artifact_version,
    decompose,
    edge_rows,
    put_in_context,
    read,
    record_rows,
    show_claims,
    stored,
    summary_rows,
    surface_rows,
    synopsis_rows,
    synthesize,
)
from findingaid.store import Lease, Leases, Ledger, LedgerRow, Store, history, schemas
from findingaid.store.ledger import OUTCOMES
from findingaid.store.sql import equals, one_of
from findingaid.synopses import WithSynopsis, taken_apart
from findingaid.synthesizing import Asked, Progress, synopsis_key

ALL_STAGES = tuple(Stage)

OBJECTS_A_COLLECTION = 100_000
"""Python's default, 700, costs a cold build some 7 % of its time."""

LEASED_BATCHES = 4
"""Batches claimed at once: each claim costs some 30 ms beside a commit, and others wait for as many batches."""


@dataclass(frozen=True)
class How:
    """What of a batch is to be done: which stages, whether again, and whether models may be asked, or asked again."""

    stages: Collection[Stage] = ALL_STAGES
    force: bool = False
    pay: bool = True
    pay_again: bool = False
    progress: Progress | None = None

    def pays(self, stage: Stage) -> bool:
        """Whether a stage may ask for what is not kept."""
        return self.pay and stage in self.stages

    def repays(self, stage: Stage) -> bool:
        """Whether a stage is to ask for what is kept, too."""
        return self.pay_again and self.pays(stage)

    def needs(self, stage: Stage) -> bool:
        """Whether a stage is not done itself, but something that stands on it is."""
        return self.pay and stage not in self.stages and any(stage in INPUTS[later] for later in self.stages)


@dataclass(frozen=True)
class Indexer:
    """Takes the artifacts of one corpus through the stages, into a store."""

    of: Corpus
    embedder: Embedder
    store: Store
    spending: Spending
    decisions: Callable[[str], Decided] = nothing_decided
    """Gives what people decided of the claims of a corpus, as it is now."""

    @cached_property
    def decided(self) -> Decided:
        """What people had decided when this was first asked."""
        return self.decisions(self.corpus) if self.of.claims else NOTHING_DECIDED

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
        return Recipe(producer_id(self.strategy), synopses, self.embedder.id, records, edges, *self._of_claims_ids())

    def _of_claims_ids(self) -> tuple[str, str]:
        """The ids of what is made of claims, and of summary nodes."""
        of = self.of.claims
        if of is None:
            return NO_CLAIMS, NO_CLAIMS
        near = "" if of.near is None else f"-{content_hash(of.near, self.embedder.id)[:8]}"
        return f"{of.extractor.id}{near}", f"{of.nodes.id}-{of.at_least}" if of.nodes else NO_CLAIMS

    @property
    def leases(self) -> Leases:
        return Leases(self.store)

    def decided_anew(self) -> set[str]:
        """The artifacts of whose claims people decided something since they were built."""
        nodes = bool(self.of.claims and self.of.claims.nodes)
        known = self.ledger.decisions(self.corpus) if self.of.claims else {}
        return changed_by_decisions(self.store, self.corpus, self.decided, nodes, known)

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
        work = self._compute(listings, How(pay=False))
        fresh = work.missing.keys() - seen
        seen.update(fresh)
        calls = replace(work.calls, embed=len(fresh) + work.asked.unwritten)
        report = report_of(replace(work, missing={h: work.missing[h] for h in fresh}, calls=calls), self.embedder)
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
        how = How(stages, force, True, force and pay_again, progress)
        reports: list[BatchReport] = []

        def build(lease: Lease) -> None:
            free = [by_id[i] for i in lease.artifact_ids]
            reports.append(self.commit(self._compute(free, how), lease))

        self.leases.in_turn(self.corpus, by_id, build)
        return together(reports)

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
        how = How(ALL_STAGES, force, True, force and pay_again, progress)
        reports, rest = self._build_free(batches, how)
        while rest:
            self.leases.wait(self.corpus, [listing.artifact_id for listing in rest])
            batches = CorpusPlan(self.corpus, len(rest), rest, ()).batches()
            more, rest = self._build_free(batches, how)
            reports += more
        return reports

    def _build_free(self, batches: Iterable[Sequence[Listing]], how: How) -> tuple[list[BatchReport], list[Listing]]:
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
                        work = self._compute(batch, how)
                        if writes:
                            writes[-1].result()  # at most two batches are in memory, and a failed write stops the run
                        writes.append(writer.submit(self.commit, work, lease))
                        if how.progress:
                            how.progress(Stage.ARTIFACTS.value, 0, len(batch))
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
        self.store.replace(NODE_EVENTS, self.corpus, ids, schemas.NODE_EVENTS.empty_table())
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

    def _compute(self, listings: Sequence[Listing], how: How) -> Work:
        ids = [listing.artifact_id for listing in listings]
        rows = self.ledger.rows(self.corpus, ids)
        batch = Batch()
        self._load(ids, how, batch)
        decompose(self.strategy, self.synopses, batch, self.of.edges)
        if how.needs(Stage.SURFACES):
            wanted = {i: self.recipe.surfaces(batch.versions[i]) for i in batch.plans}
            self._require(Stage.SURFACES, batch, lambda i: i in rows and rows[i].surfaces == wanted[i])
        asked = self._synthesize(batch, how)
        embeddings = Embeddings(self.embedder, self.store)
        of_claims = self._state(batch, rows, embeddings, how)
        put_in_context(self.synopses, batch, self.embedder)
        texts = {h: text for i in batch.plans for h, text in batch.texts(i).items()}
        if how.repays(Stage.EMBEDDINGS):
            self._forget_vectors(texts.keys() - of_claims.missing.keys())
        missing = embeddings.load(texts)
        embedded = of_claims.embedded
        if how.pays(Stage.EMBEDDINGS):
            embedded += embeddings.make(missing, how.progress)
            self._drop_unembedded(batch, embeddings)
        elif how.pays(Stage.RECORDS):
            self._require(Stage.EMBEDDINGS, batch, lambda i: not missing.keys() & batch.texts(i).keys())
        missing = {**of_claims.missing, **missing}
        calls = replace(of_claims.calls, embed=embedded if how.pay else len(missing), synthesize=asked.calls)
        versions = {i: self._versions(batch, i) for i in batch.plans}
        redo = {i: again for i in versions if (again := _differing(versions[i], rows.get(i), how))}
        stamps = {listing.artifact_id: listing.stamp for listing in listings}
        if Stage.ARTIFACTS not in how.stages:  # the payload is that of the stamp in the ledger, whatever there is now
            stamps = {i: rows[i].stamp if i in rows else "" for i in ids}
        every = (asked, *of_claims.asked)
        return Work(batch, stamps, rows, versions, redo, embeddings, missing, calls, asked, every)

    def _load(self, ids: Sequence[str], how: How, batch: Batch) -> None:
        """Payloads from the source, or from the artifacts table when that stage is not asked for."""
        if Stage.ARTIFACTS in how.stages:
            reads_on = isinstance(self.of.source, ResumableSource) and not how.force
            read(self.of.source, ids, batch, self._stored(ids) if reads_on else {})
            return
        batch.artifacts |= self._stored(ids)
        batch.versions |= {artifact_id: artifact_version(artifact) for artifact_id, artifact in batch.artifacts.items()}
        for artifact_id in ids:
            if artifact_id not in batch.artifacts:
                batch.fail(artifact_id, Stage.ARTIFACTS, self._not_current(Stage.ARTIFACTS))

    def _synthesize(self, batch: Batch, how: How) -> Asked:
        """Synopses, from the cache or from who writes them."""
        if self.synopses is not None and how.repays(Stage.SYNOPSES):
            producer = self.synopses.synthesizer.id
            self.store.drop("calls", "key", [synopsis_key(producer, batch.shown[i]) for i in batch.plans])
        pays, again = how.pays(Stage.SYNOPSES), how.repays(Stage.SYNOPSES)
        asked = synthesize(self.synopses, batch, self.spending, self.corpus, pays, how.progress, again)
        if self.synopses is not None and how.needs(Stage.SYNOPSES):
            self._require(Stage.SYNOPSES, batch, lambda i: i in batch.synopses)
        return asked

    def _state(self, batch: Batch, rows: Mapping[str, LedgerRow], embeddings: Embeddings, how: How) -> OfClaims:
        """Claims, those near another left out by their vectors, and the summary nodes over them."""
        if self.of.claims is None:
            return OfClaims()
        asking = Asking(self.of.claims, self.corpus, self.spending, self.decided, how.progress)
        show_claims(self.strategy, batch)
        if how.repays(Stage.CLAIMS):
            asking.forget(batch.stated)
        batch.claims, asked = asking.claims(batch.stated, batch.versions, how.pays(Stage.CLAIMS))
        missing, embedded = self._told_apart(asking, batch, embeddings, how)
        if how.needs(Stage.CLAIMS):
            current = {i for i, row in rows.items() if row.claims == claims_version(batch.claims.get(i))}
            self._require(Stage.CLAIMS, batch, lambda i: i in batch.claims and i in current)
        batch.nodes, summarized = asking.nodes(
            batch.claims, how.pays(Stage.SUMMARY_NODES), how.repays(Stage.SUMMARY_NODES)
        )
        if self.of.claims.nodes and how.needs(Stage.SUMMARY_NODES):
            self._require(Stage.SUMMARY_NODES, batch, lambda i: i in batch.nodes)
        calls = Calls(
            extract=asked.calls if Stage.CLAIMS in how.stages else 0,
            summarize=summarized.calls if Stage.SUMMARY_NODES in how.stages else 0,
        )
        return OfClaims((asked, summarized), missing, embedded, calls)

    def _told_apart(
        self, asking: Asking, batch: Batch, embeddings: Embeddings, how: How
    ) -> tuple[Mapping[str, str], int]:
        """Leave out claims near another; returns the texts by hash that had no vector yet, and how many now have."""
        if asking.of.near is None:
            return {}, 0
        texts = {text_hash(claim.text): claim.text for of in batch.claims.values() for claim in of.claims}
        if how.repays(Stage.CLAIMS):
            self._forget_vectors(texts)
        missing = embeddings.load(texts)
        embedded = embeddings.make(missing, how.progress) if how.pays(Stage.CLAIMS) else 0
        batch.claims = {i: asking.settled(of, embeddings.vectors) for i, of in batch.claims.items()}
        return missing, embedded

    def _forget_vectors(self, hashes: Iterable[str]) -> None:
        self.store.drop("embeddings", "key", [call_key(self.embedder.id, h) for h in hashes])

    def _stored(self, ids: Sequence[str]) -> dict[str, Artifact]:
        """Artifacts as the table has them."""
        found = stored(self.store, ids, equals("corpus", self.corpus))
        return {artifact_id: artifact for (_, artifact_id), (artifact, _) in found.items()}

    def _require(self, stage: Stage, batch: Batch, current: Callable[[str], bool]) -> None:
        """Fail the artifacts of which a stage that was not asked for is not current."""
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
        made_of = self._made_of(batch, artifact_id)
        texts, edges = batch.texts(artifact_id), batch.edges[artifact_id]
        claims = claims_version(batch.claims.get(artifact_id)) if self.recipe.claims_id else NO_CLAIMS
        nodes = nodes_version(batch.nodes.get(artifact_id)) if self.recipe.nodes_id else NO_CLAIMS
        return self.recipe.versions(batch.versions[artifact_id], made_of, claims, nodes, texts, edges)

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
        return report_of(work, self.embedder)

    def _tables(self, work: Work) -> dict[str, tuple[list[str], pa.Table]]:
        """table -> (artifacts whose rows are replaced, the new rows)."""
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

    def _remember(self, work: Work) -> None:
        """Add the anchored summaries and the summary nodes that are new to the histories of their artifacts."""
        noded = [i for i, again in work.redo.items() if Stage.SUMMARY_NODES in again]
        if noded:
            remember_nodes(self.store, self.corpus, {i: work.batch.noded(i).node for i in noded})
        ids = [i for i, again in work.redo.items() if Stage.SYNOPSES in again and work.batch.synopsis(i).state]
        if ids:
            latest = {i: rows[-1].summary for i, rows in history(self.store, self.corpus, ids).items()}
            self.store.append("summaries", summary_rows(self.corpus, work.batch, ids, latest))

    def _after(self, work: Work, row: LedgerRow) -> LedgerRow:
        """An artifact's ledger row once everything of it is written."""
        batch, wanted, again = work.batch, work.versions[row.artifact_id], work.redo.get(row.artifact_id, [])
        artifact_id = row.artifact_id
        counts: dict[str, int] = {
            Stage.ARTIFACTS: 1,
            EDGES: len(batch.edges[artifact_id]),
            Stage.SURFACES: len(batch.plans[artifact_id].surfaces),
            Stage.SYNOPSES: int(batch.synopsis(artifact_id).kept),
            Stage.CLAIMS: len(batch.stating(artifact_id).claims),
            Stage.SUMMARY_NODES: int(batch.noded(artifact_id).node is not None),
            Stage.RECORDS: batch.count(artifact_id),
        }
        written: dict[str, Any] = {str(part): wanted[part] for part in again}
        written |= {f"n_{part}": counts[part] for part in again if part in counts}
        if Stage.ARTIFACTS in again:
            written["bytes"] = payload_bytes(batch.artifacts[artifact_id].raw)
        made = {stage: batch.made(artifact_id, stage) for stage in WRITTEN}
        for stage, of in made.items():
            if stage in again or not of.outcome.settled:
                written[OUTCOMES[stage]] = of.outcome.value if self._wants(stage) else ""
        # What nobody was asked for has no version yet, and neither has the row where it failed before.
        done = all(wanted[part] is not None and (part in again or row.version(part) == wanted[part]) for part in PARTS)
        current = done and all(of.outcome.settled for of in made.values())
        if Stage.CLAIMS in again or row.claims == wanted[Stage.CLAIMS]:
            written |= self._built_from(batch, artifact_id)
        row = replace(row, stamp=work.stamps[artifact_id], recipe=self.recipe.id if current else "", **written)
        if failure := next(failures_of(batch, artifact_id), None):
            return _failed(row, failure)
        waits_for = next((of.message for of in made.values() if of.outcome is Outcome.PENDING), "")
        return replace(row, failed_stage="", failed_kind="", failed_message=waits_for, failed_runs=0)

    def _wants(self, stage: Stage) -> bool:
        """Whether one of the stages WRITTEN is to write for this corpus."""
        return self.synopses is not None if stage is Stage.SYNOPSES else stage in self.of.stages

    def _built_from(self, batch: Batch, artifact_id: str) -> dict[str, Any]:
        """What the ledger has of where claims and summary nodes came from."""
        claimed, noded = batch.stating(artifact_id), batch.noded(artifact_id)
        ids = [claim.claim_id for claim in claimed.claims]
        return {
            "claims_key": claimed.key,
            "summary_nodes_key": noded.key,
            "refused": len(claimed.refused) + len(noded.refused),
            "decisions": self.decided.touching(artifact_id, ids, bool(self.recipe.nodes_id)),
        }

    def _put(self, rows: Sequence[LedgerRow]) -> None:
        if rows:
            self.ledger.put(self.corpus, rows)


def _groups(batches: Iterable[Sequence[Listing]]) -> Iterator[list[Sequence[Listing]]]:
    """Batches by as many as are leased at once."""
    left = iter(batches)
    while group := list(islice(left, LEASED_BATCHES)):
        yield group


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let garbage be collected less often: a batch is many small objects that live, walked each time for nothing."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_A_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _differing(wanted: Mapping[str, str | None], row: LedgerRow | None, how: How) -> list[str]:
    """The parts to do again, of the stages asked for and of the edges, which go with surfaces: of another version.

    A new artifact has its parts to do but for those that are not wanted, as nothing is there of them.
    """
    row = row or LedgerRow("", "")
    asked = {*how.stages, EDGES} if Stage.SURFACES in how.stages else how.stages
    return [part for part in PARTS if part in asked and (how.force or row.version(part) != wanted[part])]


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
