"""Telling a Dagster instance what the ledger knows: partition keys, and a materialization for every new version.

The ledger is what decides; the instance is a view of it. So the same function serves the `index` job, a
materialization from the UI, and an instance that is behind because the CLI did the work.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import orjson

from findingaid.indexing import Indexer
from findingaid.model import CLAIM, OF_CLAIMS, SUMMARY, WRITTEN, Corpus, Outcome, Stage
from findingaid.query import corpus_fields
from findingaid.store import LedgerRow
from findingaid.store.sql import equals
from findingaid_dagster.assets.checks import table
from findingaid_dagster.assets.keys import add_partitions, asset_key, deps_of, partition_key, record_columns, source_key
from findingaid_dagster.assets.source import observation, observed_version
from findingaid_dagster.events import event_pointer, latest_event_ids, log_asset_events, logged_data_versions

PREVIEWED = 5
"""Records of an artifact that its partition shows."""

FAILED_INPUT = "failed"
"""The data version recorded for an input that failed, such as a synopsis; when it comes, Dagster sees it as new."""


def sync(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    artifact_ids: Sequence[str] | None = None,
    again: Collection[Stage] = (),
) -> None:
    """Log what the instance does not know yet of these artifacts, or of the whole corpus.

    `again` are the stages of a materialization by name: those are logged, even with the same version, and no
    others, which nobody looked at.
    """
    instance, corpus = context.instance, indexer.corpus
    rows = indexer.ledger.rows(corpus, artifact_ids)
    _sync_keys(instance, corpus, rows, whole=artifact_ids is None)
    keys = {i: partition_key(i) for i in rows}
    asked = None if artifact_ids is None else list(keys.values())
    observed: set[str] = set()
    if not again or Stage.ARTIFACTS in again:
        observed = _observe(context, corpus, {i: row for i, row in rows.items() if _was_read(row)}, keys, asked)
    if not again:
        # A records version covers all that came before it: where it is known, everything is but the source's stamp.
        known = logged_data_versions(instance, asset_key(corpus, Stage.RECORDS), asked)
        rows = {i: row for i, row in rows.items() if row.records != known.get(keys[i]) or i in observed}
    due = _due(instance, indexer.of, rows, keys, observed, again)
    records = _first_records(indexer, set().union(*due.values()))
    written = {Stage.CLAIMS: _first_claims, Stage.SUMMARY_NODES: _summaries}
    for stage, ids in due.items():
        pointer = event_pointer(instance)
        shown = written[stage](indexer, ids) if stage in written else records
        events = [_event(indexer, stage, rows[i], keys[i], pointer, shown[i]) for i in ids]
        if stage is Stage.RECORDS and events:
            events[-1] = events[-1].with_metadata({**events[-1].metadata, **_schema(indexer)})
        log_asset_events(context, events)
    for stage in WRITTEN:
        told = sorted(rows if stage in again else set().union(*due.values()))
        log_asset_events(
            context, [_unsettled(corpus, stage, rows[i], keys[i]) for i in told if _reason(rows[i], stage)]
        )


def _reason(row: LedgerRow, stage: Stage) -> str:
    """Why an artifact has no synopsis, claims or summary node yet; "" where it has some, or needs none."""
    unsettled = row.outcome(stage) in {Outcome.FAILED, Outcome.PENDING}
    return row.failed_message if unsettled and row.failed_stage in {"", stage} else ""


def _unsettled(corpus: str, stage: Stage, row: LedgerRow, key: str) -> dg.AssetObservation:
    """What became of what was not written. No materialization: there is nothing, and the partition is stale."""
    metadata = {"outcome": row.outcome(stage), "reason": _reason(row, stage)}
    return dg.AssetObservation(asset_key(corpus, stage), partition=key, metadata=metadata)


def _schema(indexer: Indexer) -> dict[str, Any]:
    """The columns of a corpus's records as they are now; Dagster shows those of the latest materialization."""
    found = indexer.store.retried(lambda: corpus_fields(indexer.store.dataset("records"), [indexer.corpus]))
    return {"dagster/column_schema": record_columns(found[indexer.corpus])}


def _was_read(row: LedgerRow) -> bool:
    """Whether the row's stamp is that of the last reading: one that failed keeps the stamp of the reading before."""
    return row.artifacts is not None and row.failed_stage in {"", *WRITTEN}


def _due(
    instance: dg.DagsterInstance,
    of: Corpus,
    rows: Mapping[str, LedgerRow],
    keys: Mapping[str, str],
    observed: Collection[str],
    again: Collection[Stage],
) -> dict[Stage, list[str]]:
    """stage -> artifacts to log it of, in the order of the stages."""
    wanted = [keys[i] for i in rows]
    ids = {stage: latest_event_ids(instance, asset_key(of.name, stage), wanted) for stage in of.stages}
    changed: dict[Stage, set[str]] = {}
    due: dict[Stage, list[str]] = {}
    for stage in of.stages:
        known = logged_data_versions(instance, asset_key(of.name, stage), wanted)
        changed[stage] = {i for i, row in rows.items() if row.version(stage) != known.get(keys[i])}
        # A new version of an input must be named by what stands on it, even where that came out the same.
        stale = changed[stage].union(
            *(changed[dep] for dep in deps_of(of, stage)), observed if stage is Stage.ARTIFACTS else ()
        )
        stale |= {
            i for i in rows for dep in deps_of(of, stage) if ids[dep].get(keys[i], 0) > ids[stage].get(keys[i], 0)
        }
        asked = set(rows) if stage in again else set() if again else stale
        due[stage] = sorted(i for i in asked if rows[i].version(stage) is not None)
    return due


def _observe(
    context: dg.OpExecutionContext,
    corpus: str,
    rows: Mapping[str, LedgerRow],
    keys: Mapping[str, str],
    asked: Sequence[str] | None,
) -> set[str]:
    """Log the stamps that artifacts were read at and the instance has not seen.

    Returns the artifacts whose source was observed after they were materialized, by this or before: Dagster calls
    those stale until they are logged again.
    """
    asset = source_key(corpus)
    known = logged_data_versions(context.instance, asset, asked, observed=True)
    stamps = {i: observed_version(row.stamp) for i, row in rows.items()}
    unseen = sorted(i for i, stamp in stamps.items() if stamp and stamp != known.get(keys[i]))
    log_asset_events(context, [observation(corpus, keys[i], stamps[i]) for i in unseen])
    observed = latest_event_ids(context.instance, asset, asked, observed=True)
    made = latest_event_ids(context.instance, asset_key(corpus, Stage.ARTIFACTS), asked)
    return {i for i in rows if observed.get(keys[i], 0) > made.get(keys[i], 0)}


def _sync_keys(instance: dg.DagsterInstance, corpus: str, rows: Iterable[str], whole: bool) -> None:
    wanted = [partition_key(i) for i in sorted(rows)]
    add_partitions(instance, corpus, wanted)
    if whole:
        for key in set(instance.get_dynamic_partitions(corpus)).difference(wanted):
            instance.delete_dynamic_partition(corpus, key)


def _event(
    indexer: Indexer, stage: Stage, row: LedgerRow, key: str, pointer: int, shown: Sequence[Mapping[str, Any]]
) -> dg.AssetMaterialization:
    version = row.version(stage) or ""
    inputs = {f"{indexer.corpus}/{dep.value}": row.version(dep) or FAILED_INPUT for dep in deps_of(indexer.of, stage)}
    if stage is Stage.ARTIFACTS:
        inputs = {source_key(indexer.corpus).to_user_string(): observed_version(row.stamp)}
    tags = {
        "dagster/code_version": indexer.recipe.code_version(stage),
        "dagster/data_version": version,
        "dagster/data_version_is_user_provided": "true",
        **{f"dagster/input_data_version/{asset}": found for asset, found in inputs.items()},
        **{f"dagster/input_event_pointer/{asset}": str(pointer) for asset in inputs},
    }
    return dg.AssetMaterialization(
        asset_key(indexer.corpus, stage), partition=key, tags=tags, metadata=_metadata(stage, row, shown)
    )


def _metadata(stage: Stage, row: LedgerRow, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What Dagster shows of one artifact's partition; `records` are its first, in plan order."""
    if stage in OF_CLAIMS:
        return _metadata_of_claims(stage, row, records)
    cut = [record for record in records if record["surface_kind"] not in {CLAIM, SUMMARY}]
    synopsis = next((record for record in cut if record["producer_id"]), None)
    match stage:
        case Stage.ARTIFACTS:
            return {"bytes": row.bytes}
        case Stage.SURFACES:
            own = [record for record in cut if record is not synopsis]
            return {"dagster/partition_row_count": row.n_surfaces, "preview": _preview(own, "text")}
        case Stage.SYNOPSES:
            text = {"synopsis": synopsis["text"], "written by": synopsis["producer_id"]} if synopsis else {}
            return {"outcome": row.synopsis_outcome, **text}
        case Stage.EMBEDDINGS:
            return {"texts": row.n_records}
    return {"dagster/partition_row_count": row.n_records, "preview": _preview(records, "record_id")}


def _metadata_of_claims(stage: Stage, row: LedgerRow, shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same of claims, `shown` being the first of them, and of the summary node, if there is one."""
    if stage is Stage.CLAIMS:
        preview = {"preview": table(shown)} if shown else {}
        counts = {"refused": row.refused, "dagster/partition_row_count": row.n_claims}
        return {"outcome": row.claims_outcome, **counts, **preview}
    summary = {"summary": dg.MetadataValue.md(str(shown[0]["text"]))} if shown else {}
    return {"outcome": row.summary_nodes_outcome, **summary}


def _preview(records: Sequence[Mapping[str, Any]], *columns: str) -> dg.TableMetadataValue:
    return table(
        [{"kind": r["surface_kind"], "index": r["surface_index"], **{c: r[c] for c in columns}} for r in records]
    )


def _first_records(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """artifact id -> its first records."""
    columns = (
        "corpus",
        "artifact_id",
        "record_id",
        "surface_kind",
        "surface_index",
        "text",
        "text_start",
        "producer_id",
    )
    found = indexer.store.lookup("records", "artifact_id", artifact_ids, columns, f"surface_index < {PREVIEWED}")
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(found.to_pylist(), key=lambda row: row["surface_index"]):
        if row["corpus"] == indexer.corpus:
            shown[row["artifact_id"]].append(row | {"text": row["text"][row["text_start"] :]})
    return shown


def _first_claims(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """artifact id -> its first claims."""
    columns = ("artifact_id", "position", "type", "text", "evidence", "confidence")
    where = f"position < {PREVIEWED} AND {equals('corpus', indexer.corpus)}"
    found = indexer.store.lookup("claims", "artifact_id", artifact_ids, columns, where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.sort_by("position").to_pylist():
        del row["position"]
        shown[row.pop("artifact_id")].append(row)
    return shown


def _summaries(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """artifact id -> its summary node's points as a list of Markdown, if it has one."""
    where = equals("corpus", indexer.corpus)
    found = indexer.store.lookup("summary_nodes", "artifact_id", artifact_ids, ("artifact_id", "bullets"), where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.to_pylist():
        shown[row["artifact_id"]] = [{"text": "\n".join(f"- {text}" for text, _ in orjson.loads(row["bullets"]))}]
    return shown
