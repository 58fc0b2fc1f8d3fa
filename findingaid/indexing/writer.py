"""Writer: the rows of a computed batch, in files that no table refers to yet, and its rows of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from findingaid.claims.events import NODE_EVENTS, node_event_rows
from findingaid.claims.model import Decided
from findingaid.corpus import Corpus
from findingaid.identity.hashes import payload_bytes
from findingaid.indexing.batch_report import report_of
from findingaid.indexing.group_commit import BuiltBatch
from findingaid.indexing.recipe import Recipe
from findingaid.indexing.retries import NEXT_RUN, failure_key, runs_until_retry
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
from findingaid.indexing.work import NO_CLAIMS, NO_NODE, ArtifactWork, Batch
from findingaid.model import EDGES, PARTS, WRITTEN, Failure, Outcome, Stage
from findingaid.store import LedgerRow, SkippedArtifacts, Store, history
from findingaid.store.ledger import OUTCOMES, notes_json
from findingaid.store.skipped import TABLE as SKIPPED
from findingaid.store.skipped import skipped_rows
from findingaid.strategies.with_synopsis import split_synopsis

NOT_FAILED: Mapping[str, Any] = {
    name: getattr(LedgerRow("", ""), name)
    for name in ("failed_stage", "failed_kind", "failed_runs", "failed_key", "retry_in")
}
"""Fields of the ledger row of an artifact that did not fail."""


@dataclass(frozen=True)
class BatchWriter:
    """Writes the batches of one corpus."""

    corpus: Corpus
    recipe: Recipe
    store: Store
    decided: Decided

    def write(self, batch: Batch) -> BuiltBatch:
        """Write the rows of a batch to files that no table refers to yet."""
        tables = self._tables(batch)  # built completely before anything is written
        counts = {table: _rows_by_artifact(rows) for table, (_, rows) in tables.items()}
        tables |= self._skipped_rows(batch)
        files = self.store.each(tables, lambda table: self.store.write_fragments(table, tables[table][1]))
        after = [(work, self._row_after(work, counts)) for work in batch.live]
        after += [(work, self._row_after_failure(work, work.failure)) for work in batch.works if work.failure]
        return BuiltBatch(
            {table: (ids, files[table]) for table, (ids, _) in tables.items()},
            self._histories(batch),
            [work.row.writing(work.redo) for work in batch.live if work.redo],
            [row for work, row in after if work.is_new or work.redo or row != work.row],
            report_of(batch),
        )

    def _tables(self, batch: Batch) -> dict[str, tuple[list[str], pa.Table]]:
        """Return table -> (artifacts whose rows are replaced, the new rows)."""
        name, (_, synopses) = self.corpus.name, split_synopsis(self.corpus.strategy)
        redone = {part: [work for work in batch.live if part in work.redo] for part in PARTS}
        made = {
            "artifacts": artifact_rows(name, redone[Stage.ARTIFACTS]),
            "surfaces": surface_rows(name, redone[Stage.SURFACES]),
            EDGES: edge_rows(name, redone[EDGES]),
            "synopses": synopsis_rows(name, redone[Stage.SYNOPSES], synopses),
            "claims": claim_rows(redone[Stage.CLAIMS]),
            "summary_nodes": node_rows(redone[Stage.SUMMARY_NODES]),
            "records": record_rows(name, redone[Stage.RECORDS], synopses, batch.embeddings),
        }
        return {table: (_ids(redone[table]), rows) for table, rows in made.items() if redone[table]}

    def _histories(self, batch: Batch) -> dict[str, pa.Table]:
        """Return the new rows of the histories: anchored summaries and events of summary nodes."""
        found, name = {}, self.corpus.name
        if summarized := [work for work in batch.live if Stage.SUMMARY_NODES in work.redo]:
            nodes = {work.artifact_id: (work.node or NO_NODE).node for work in summarized}
            found[NODE_EVENTS] = node_event_rows(self.store, name, nodes)
        if anchored := [work for work in batch.live if Stage.SYNOPSES in work.redo and work.synopsis.state]:
            found["summaries"] = summary_rows(name, anchored, history(self.store, name, _ids(anchored)))
        return found

    def _skipped_rows(self, batch: Batch) -> dict[str, tuple[list[str], pa.Table]]:
        """Return the rows of artifacts that the source skips, which also forget those that it no longer does.

        The records of one that was indexed before stay until the end of the run; see `Run.finish_corpus`.
        """
        rows = {work.artifact_id: (work.stamp, work.skipped) for work in batch.works if work.skipped}
        ids = _ids(batch.works)
        if rows or SkippedArtifacts(self.store).of(self.corpus.name).keys() & set(ids):
            return {SKIPPED: (sorted(ids), skipped_rows(self.corpus.name, rows))}
        return {}

    def _row_after(self, work: ArtifactWork, counts: Mapping[str, Mapping[str, int]]) -> LedgerRow:
        """Return an artifact's ledger row as it is once all its parts are written.

        `counts` maps each table to the number of its new rows, by artifact id.
        """
        row, wanted, again = work.row, work.versions, work.redo
        written: dict[str, Any] = {str(part): wanted[part] for part in again}
        written |= {f"n_{part}": counts[part].get(work.artifact_id, 0) for part in again if part in counts}
        if Stage.ARTIFACTS in again:
            written["bytes"] = payload_bytes(work.payload.raw)
        results = {stage: work.result(stage) for stage in WRITTEN}
        for stage, result in results.items():
            if stage in again or not result.outcome.settled:
                written[OUTCOMES[stage]] = result.outcome.value if self._wants(stage) else ""
        # A result that was not requested has no version yet. If it failed before, the row has no version either.
        done = all(wanted[part] is not None and (part in again or row.version(part) == wanted[part]) for part in PARTS)
        settled = all(result.outcome.settled for result in results.values())
        if Stage.CLAIMS in again or row.claims == wanted[Stage.CLAIMS]:
            written |= self._built_from(work)
        if work.notes is not None:
            written["notes"] = notes_json(work.notes)
        written |= self._readers(work)
        current = done and settled and written.get("access", row.access) == self.recipe.access_id
        written |= {"stamp": work.stamp, "recipe": self.recipe.id if current else "", "changed": _changed(work)}
        if failure := next(work.failures(), None):
            return replace(failed(replace(row, **written), failure), failed_key=self._key(work))
        waits = {"failed_message": ""}
        if pending := next((result for result in results.values() if result.outcome is Outcome.PENDING), None):
            waits = {"failed_message": pending.message, "failed_key": self._key(work)}
        return replace(row, **{**written, **NOT_FAILED, **waits})

    def _row_after_failure(self, work: ArtifactWork, failure: Failure) -> LedgerRow:
        said = self._readers(work)
        # The table has the artifact with its readers of before.
        row = replace(failed(work.row, failure), failed_key=self._key(work), **said)
        if row.readers != work.row.readers:  # its row in the table has those of before
            row = row.writing([Stage.ARTIFACTS])
        if work.listing is None:
            return replace(row, retry_in=work.row.retry_in)
        return replace(row, retry_in=runs_until_retry(failure, row.failed_runs, work.listing))

    def _readers(self, work: ArtifactWork) -> dict[str, Any]:
        """Return the ledger fields that say who may read an artifact, if it was read; it may have failed after that."""
        return {} if work.notes is None else {"readers": work.readers, "access": self.recipe.access_id}

    def _key(self, work: ArtifactWork) -> str:
        """Return what a failure depends on; that of the failure before if the source was not asked."""
        if work.listing is None:
            return work.row.failed_key
        return failure_key(work.listing, self.corpus.source, self.recipe.id)

    def _wants(self, stage: Stage) -> bool:
        """Return whether the corpus wants the output of one of the stages in WRITTEN."""
        if stage is Stage.SYNOPSES:
            return split_synopsis(self.corpus.strategy)[1] is not None
        return stage in self.corpus.stages

    def _built_from(self, work: ArtifactWork) -> dict[str, Any]:
        """Return the ledger fields that record the origin of claims and summary nodes."""
        claims, node = work.claims or NO_CLAIMS, work.node or NO_NODE
        ids = [claim.claim_id for claim in claims.claims]
        return {
            "claims_key": claims.key,
            "summary_nodes_key": node.key,
            "refused": len(work.refused()),
            "decisions": self.decided.touching(work.artifact_id, ids, bool(self.recipe.nodes_id)),
        }


def _changed(work: ArtifactWork) -> datetime | None:
    """Return when an artifact last changed, as the ledger has it."""
    told, row = work.listing and work.listing.changed_at, work.row
    if told or work.listing is None or (row.changed and row.artifacts == work.version):
        return told or row.changed
    return datetime.now(UTC)


def failed(row: LedgerRow, failure: Failure) -> LedgerRow:
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


def _ids(works: Sequence[ArtifactWork]) -> list[str]:
    return [work.artifact_id for work in works]


def _rows_by_artifact(rows: pa.Table) -> dict[str, int]:
    """Count the rows of each artifact."""
    counted = rows["artifact_id"].value_counts()
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
