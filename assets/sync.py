"""Synchronization of a Dagster instance with the ledger: partition keys, and a materialization per new version.

The ledger is authoritative, and the instance is a view of it. The same function therefore serves the `index` job, a
materialization from the UI, and an instance that is behind because the CLI did the work.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import orjson

from findingaid.corpus import Corpus
from findingaid.indexing.indexer import Indexer
from findingaid.model import CLAIM, SUMMARY, WRITTEN, Outcome, Stage
from findingaid.query.search import corpus_fields
from findingaid.store import LedgerRow
from findingaid.store.sql import equals
from findingaid_dagster.assets.checks import cut, record_preview, table
from findingaid_dagster.assets.disclosure import filter_failures, filter_reason
from findingaid_dagster.assets.keys import SOURCE, add_partitions, asset_key, deps_of, inputs_of, partition_key
from findingaid_dagster.assets.source import observation, observed_version
from findingaid_dagster.assets.specs import record_columns
from findingaid_dagster.internals.events import (
    current_data_version,
    event_pointer,
    latest_event_ids,
    log_asset_events,
    logged_data_versions,
    spec_inputs,
)

PREVIEWED = 5
"""Number of surfaces, claims or points of a summary of an artifact that its partition shows."""

LOGGED_AT_ONCE = 1000
"""Number of artifacts whose records are in memory while their events are logged."""

FAILED_INPUT = "failed"
"""Data version recorded for a failed input, such as a synopsis. Once the input exists, Dagster sees it as new."""


def sync(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    artifact_ids: Sequence[str] | None = None,
    again: Collection[Stage] | None = None,
    previews: bool = False,
    *,
    visible: bool = True,
) -> None:
    """Log everything about these artifacts, or the whole corpus, that the instance does not know yet.

    `again` are the stages that a materialization selected. Only these are logged, even at the same version, since the
    run did not touch the other stages. Records are logged only if readers see them, as `visible` tells, and artifacts
    that failed are not. Texts are logged only with `previews`.
    """
    instance, corpus = context.instance, indexer.corpus
    rows = indexer.ledger.rows(corpus, artifact_ids)
    _sync_keys(instance, corpus, rows, whole=artifact_ids is None)
    keys = {i: partition_key(i) for i in rows}
    asked = None if artifact_ids is None else list(keys.values())
    observed: set[str] = set()
    if again is None or Stage.ARTIFACTS in again:
        observed = _observe(context, indexer.of, {i: row for i, row in rows.items() if _was_read(row)}, keys, asked)
    if again is None:
        # The version of the records covers all earlier stages: if it is known, only the stamp of the source may be new.
        known = logged_data_versions(instance, asset_key(indexer.of, Stage.RECORDS), asked)
        rows = {i: row for i, row in rows.items() if row.records != known.get(keys[i]) or i in observed}
    due = _due(instance, indexer.of, rows, keys, observed, again)
    if not visible:
        del due[Stage.RECORDS]
    ids = sorted(set().union(*due.values()))
    for start in range(0, len(ids), LOGGED_AT_ONCE):
        part = set(ids[start : start + LOGGED_AT_ONCE])
        logged = {stage: [i for i in of if i in part] for stage, of in due.items()}
        _log(context, indexer, logged, rows, keys, previews)
    built = set().union(*(of for stage, of in due.items() if stage is not Stage.RECORDS))
    for stage in WRITTEN:
        told = sorted(rows if stage in (again or ()) else built)
        log_asset_events(
            context,
            [_unsettled(indexer.of, stage, rows[i], keys[i], previews) for i in told if _is_unsettled(rows[i], stage)],
        )


def _log(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    due: Mapping[Stage, Sequence[str]],
    rows: Mapping[str, LedgerRow],
    keys: Mapping[str, str],
    previews: bool,
) -> None:
    """Log a materialization of each stage, in order, for the artifacts that are due."""
    records = _first_records(indexer, set().union(*due.values()))
    written = {Stage.CLAIMS: _first_claims, Stage.SUMMARY_NODES: _summaries}
    for stage, ids in due.items():
        pointer, added = event_pointer(context.instance), _added_inputs(context, indexer.of, stage)
        shown = written[stage](indexer, ids) if stage in written else records
        events = [
            _event(indexer, stage, rows[i], keys[i], pointer, added, _metadata(stage, rows[i], shown[i], previews))
            for i in ids
        ]
        if stage is Stage.RECORDS and events and previews:
            events[-1] = events[-1].with_metadata({**events[-1].metadata, **_schema(indexer)})
        log_asset_events(context, events)


def _added_inputs(context: dg.OpExecutionContext, of: Corpus, stage: Stage) -> dict[dg.AssetKey, str]:
    """Map each input that is in the spec of the code location, and is not findingaid's own, to its data version.

    Without its version in each event, Dagster would call it a new dependency, and the partition stale, for ever.
    """
    added = spec_inputs(context, asset_key(of, stage)).difference(inputs_of(of, stage))
    return {key: current_data_version(context.instance, key) for key in added}


def _is_unsettled(row: LedgerRow, stage: Stage) -> bool:
    """Check whether the output of this stage failed or is pending, and the ledger has the reason."""
    unsettled = row.outcome(stage) in {Outcome.FAILED, Outcome.PENDING}
    return bool(unsettled and row.failed_stage in {"", stage} and row.failed_message)


def _unsettled(of: Corpus, stage: Stage, row: LedgerRow, key: str, previews: bool) -> dg.AssetObservation:
    """Return an observation of the failed or pending output of a stage.

    It is not a materialization, because there is no output and the partition stays stale.
    """
    metadata = {"outcome": row.outcome(stage)}
    if row.failure:
        (failure,) = filter_failures([row.failure], previews)
        metadata |= {"kind": failure.kind, "reason": failure.message}
    else:
        metadata |= {"reason": filter_reason(row.failed_message, previews)}
    return dg.AssetObservation(asset_key(of, stage), partition=key, metadata=metadata)


def _schema(indexer: Indexer) -> dict[str, Any]:
    """Return the current columns of a corpus's records; Dagster shows those of the latest materialization."""
    found = indexer.store.retried(lambda: corpus_fields(indexer.store.dataset("records"), [indexer.corpus]))
    return {"dagster/column_schema": record_columns(found[indexer.corpus])}


def _was_read(row: LedgerRow) -> bool:
    """Check whether the last reading succeeded: after a failed one, the row keeps the stamp of the one before."""
    return row.artifacts is not None and not _is_failed(row)


def _is_failed(row: LedgerRow, stage: Stage | None = None) -> bool:
    """Check whether an artifact failed as a whole, or in the output that a model writes for this stage."""
    return row.failed_stage not in {"", *WRITTEN} or (stage in WRITTEN and row.outcome(stage) == Outcome.FAILED)


def _due(
    instance: dg.DagsterInstance,
    of: Corpus,
    rows: Mapping[str, LedgerRow],
    keys: Mapping[str, str],
    observed: Collection[str],
    again: Collection[Stage] | None,
) -> dict[Stage, list[str]]:
    """Map each stage, in order, to the artifacts whose materialization is to be logged."""
    wanted = [keys[i] for i in rows]
    ids = {stage: latest_event_ids(instance, asset_key(of, stage), wanted) for stage in of.stages}
    changed: dict[Stage, set[str]] = {}
    due: dict[Stage, list[str]] = {}
    for stage in of.stages:
        known = logged_data_versions(instance, asset_key(of, stage), wanted)
        changed[stage] = {i for i, row in rows.items() if row.version(stage) != known.get(keys[i])}
        # A stage must name the new version of an input, even if its own output is unchanged.
        stale = changed[stage].union(
            *(changed[dep] for dep in deps_of(of, stage)), observed if stage is Stage.ARTIFACTS else ()
        )
        stale |= {
            i for i in rows for dep in deps_of(of, stage) if ids[dep].get(keys[i], 0) > ids[stage].get(keys[i], 0)
        }
        asked = stale if again is None else set(rows) if stage in again else set()
        due[stage] = sorted(i for i in asked if rows[i].version(stage) is not None and not _is_failed(rows[i], stage))
    return due


def _observe(
    context: dg.OpExecutionContext,
    of: Corpus,
    rows: Mapping[str, LedgerRow],
    keys: Mapping[str, str],
    asked: Sequence[str] | None,
) -> set[str]:
    """Log the stamps at which artifacts were read, if the instance has not seen them.

    Returns the artifacts whose source was observed, by this call or before, after their latest materialization.
    Dagster shows those as stale until they are logged again.
    """
    asset = asset_key(of, SOURCE)
    known = logged_data_versions(context.instance, asset, asked, observed=True)
    stamps = {i: observed_version(row.stamp) for i, row in rows.items()}
    unseen = sorted(i for i, stamp in stamps.items() if stamp and stamp != known.get(keys[i]))
    log_asset_events(context, [observation(of, keys[i], stamps[i]) for i in unseen])
    observed = latest_event_ids(context.instance, asset, asked, observed=True)
    made = latest_event_ids(context.instance, asset_key(of, Stage.ARTIFACTS), asked)
    return {i for i in rows if observed.get(keys[i], 0) > made.get(keys[i], 0)}


def _sync_keys(instance: dg.DagsterInstance, corpus: str, rows: Iterable[str], whole: bool) -> None:
    wanted = [partition_key(i) for i in sorted(rows)]
    add_partitions(instance, corpus, wanted)
    if whole:
        for key in set(instance.get_dynamic_partitions(corpus)).difference(wanted):
            instance.delete_dynamic_partition(corpus, key)


def _event(
    indexer: Indexer,
    stage: Stage,
    row: LedgerRow,
    key: str,
    pointer: int,
    added: Mapping[dg.AssetKey, str],
    metadata: Mapping[str, Any],
) -> dg.AssetMaterialization:
    """Return the event of one partition; `added` are inputs that a team gave the asset, with their data versions."""
    version = row.version(stage) or ""
    own = {asset_key(indexer.of, dep): row.version(dep) or FAILED_INPUT for dep in deps_of(indexer.of, stage)}
    if stage is Stage.ARTIFACTS:
        own = {asset_key(indexer.of, SOURCE): observed_version(row.stamp)}
    inputs = {asset.to_user_string(): found for asset, found in {**own, **added}.items()}
    tags = {
        "dagster/code_version": indexer.recipe.code_version(stage),
        "dagster/data_version": version,
        "dagster/data_version_is_user_provided": "true",
        **{f"dagster/input_data_version/{asset}": found for asset, found in inputs.items()},
        **{f"dagster/input_event_pointer/{asset}": str(pointer) for asset in inputs},
    }
    return dg.AssetMaterialization(asset_key(indexer.of, stage), partition=key, tags=tags, metadata=metadata)


def _metadata(stage: Stage, row: LedgerRow, shown: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    """Return the metadata of one artifact's partition; `shown` are its first records or claims, or its summary node."""
    match stage:
        case Stage.ARTIFACTS:
            return {"bytes": row.bytes}
        case Stage.CLAIMS:
            return _of_claims(row, shown, previews)
        case Stage.SUMMARY_NODES:
            return _of_node(row, shown, previews)
        case Stage.EMBEDDINGS:
            return {"texts": row.n_records}
    surfaces = [record for record in shown if record["surface_kind"] not in {CLAIM, SUMMARY}]
    synopsis = next((record for record in surfaces if record["producer_id"]), None)
    if stage is Stage.SURFACES:
        own = [record_preview(record, previews) for record in surfaces if record is not synopsis]
        return {"dagster/partition_row_count": row.n_surfaces, "preview": _preview(own, previews)}
    if stage is Stage.SYNOPSES:
        return {"outcome": row.synopsis_outcome, **_of_synopsis(synopsis, previews)}
    return {"dagster/partition_row_count": row.n_records}


def _of_synopsis(synopsis: Mapping[str, Any] | None, previews: bool) -> dict[str, Any]:
    if synopsis is None:
        return {}
    text = synopsis["text"]
    return {
        "written by": synopsis["producer_id"],
        **({"synopsis": cut(text)} if previews else {"characters": len(text)}),
    }


def _of_claims(row: LedgerRow, claims: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    found = {"outcome": row.claims_outcome, "refused": row.refused, "dagster/partition_row_count": row.n_claims}
    if not claims:
        return found
    names = ("type", "text", "evidence", "confidence") if previews else ("claim_id", "evidence", "confidence")
    return found | {"preview": table([{name: claim[name] for name in names} for claim in claims])}


def _of_node(row: LedgerRow, nodes: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"outcome": row.summary_nodes_outcome}
    if not nodes:
        return found
    points = orjson.loads(nodes[0]["bullets"])
    if not previews:
        return found | {"points": len(points)}
    return found | {"summary": dg.MetadataValue.md("\n".join(f"- {cut(text)}" for text, _ in points[:PREVIEWED]))}


def _preview(surfaces: Sequence[Mapping[str, Any]], previews: bool) -> dg.TableMetadataValue | str:
    """Return the texts of surfaces as a table, or their lengths in a line, which takes a fifth of the space."""
    if not previews:
        return ", ".join(f"{s['surface_kind']} of {s['characters']:,} characters" for s in surfaces)
    return table([{"kind": s["surface_kind"], "index": s["surface_index"], "text": s["text"]} for s in surfaces])


def _first_records(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Load the first records of each artifact, by artifact id."""
    columns = (
        "corpus",
        "artifact_id",
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
            shown[row["artifact_id"]].append(row)
    return shown


def _first_claims(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Load the first claims of each artifact, by artifact id."""
    columns = ("artifact_id", "claim_id", "position", "type", "text", "evidence", "confidence")
    where = f"position < {PREVIEWED} AND {equals('corpus', indexer.corpus)}"
    found = indexer.store.lookup("claims", "artifact_id", artifact_ids, columns, where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.sort_by("position").to_pylist():
        shown[row["artifact_id"]].append(row)
    return shown


def _summaries(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Load the summary node of each artifact that has one, by artifact id."""
    where = equals("corpus", indexer.corpus)
    found = indexer.store.lookup("summary_nodes", "artifact_id", artifact_ids, ("artifact_id", "bullets"), where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.to_pylist():
        shown[row["artifact_id"]] = [row]
    return shown
