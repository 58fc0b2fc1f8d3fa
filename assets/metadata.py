"""Metadata of the partitions of each stage, bounded in size."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import orjson

from findingaid.indexing.indexer import Indexer
from findingaid.model import CLAIM, SUMMARY, WRITTEN, Stage
from findingaid.store import LedgerRow
from findingaid.store.sql import equals
from findingaid_dagster.assets.checks import cut, record_preview, table
from findingaid_dagster.assets.disclosure import filter_failures
from findingaid_dagster.assets.partitions import Partition

PREVIEWED = 5
"""Number of surfaces, claims or points of a summary of an artifact that its partition shows."""

NAMED = 10
"""Number of artifacts that a bucket names: those that changed last, and those that failed."""

NEVER = datetime.min.replace(tzinfo=UTC)


def metadata_of(
    stage: Stage, partition: Partition, shown: Mapping[str, Sequence[Mapping[str, Any]]], previews: bool
) -> dict[str, Any]:
    """Return the metadata of a partition at a stage; `shown` is what `first_rows` found for that stage.

    Without `previews` it has lengths, ids and counts, and no text.
    """
    if partition.is_bucket:
        return _of_bucket(stage, partition, shown, previews)
    return _of_artifact(stage, partition.row, shown[partition.row.artifact_id], previews)


def shown_artifacts(partition: Partition) -> list[str]:
    """Return the artifacts of which the metadata shows something: of a bucket, the one that changed last."""
    return [row.artifact_id for row in _newest(partition)[:1]]


def first_rows(
    indexer: Indexer, stages: Collection[Stage], artifact_ids: Collection[str]
) -> dict[Stage, Mapping[str, Sequence[Mapping[str, Any]]]]:
    """Load what the metadata of these stages shows of each artifact: its first records or claims, or summary node."""
    found: dict[Stage, Mapping[str, Sequence[Mapping[str, Any]]]] = {stage: defaultdict(list) for stage in stages}
    if of_records := {Stage.SURFACES, Stage.SYNOPSES}.intersection(stages):
        found |= dict.fromkeys(of_records, _first_records(indexer, artifact_ids))
    if Stage.CLAIMS in stages:
        found[Stage.CLAIMS] = _first_claims(indexer, artifact_ids)
    if Stage.SUMMARY_NODES in stages:
        found[Stage.SUMMARY_NODES] = _summaries(indexer, artifact_ids)
    return found


def _newest(partition: Partition) -> list[LedgerRow]:
    """Return the rows of a partition, those that changed last first."""
    return sorted(partition.rows, key=lambda row: row.updated or NEVER, reverse=True)


def _of_bucket(
    stage: Stage, bucket: Partition, shown: Mapping[str, Sequence[Mapping[str, Any]]], previews: bool
) -> dict[str, Any]:
    """Return counts of a bucket, the names of its failures, and something of the artifact that changed last."""
    newest, failed = _newest(bucket), bucket.failed(stage)
    found: dict[str, Any] = {"artifacts": len(bucket.rows), "failed": len(failed)}
    if failed:
        found["failed artifacts"] = table(
            [
                {"artifact": row.artifact_id, "kind": failure.kind, "why": failure.message}
                for row in failed[:NAMED]
                for failure in filter_failures([row.failure] if row.failure else [], previews)
            ]
        )
    if stage in WRITTEN:
        return found | Counter(f"outcome {row.outcome(stage) or 'none'}" for row in bucket.rows)
    last, first = newest[0].artifact_id, shown[newest[0].artifact_id]
    match stage:
        case Stage.ARTIFACTS:
            names = ", ".join(cut(row.artifact_id) for row in newest[:NAMED])
            return found | {"bytes": sum(row.bytes for row in bucket.rows), "changed last": names}
        case Stage.SURFACES:
            rows = {"dagster/partition_row_count": sum(row.n_surfaces for row in bucket.rows), "preview of": last}
            return found | rows | {"preview": _preview(_surfaces(first, previews), previews)}
        case Stage.EMBEDDINGS:
            return found | {"texts": sum(row.n_records for row in bucket.rows)}
    return found | {"dagster/partition_row_count": sum(row.n_records for row in bucket.rows)}


def _of_artifact(stage: Stage, row: LedgerRow, shown: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    """Return the metadata of one artifact's partition; `shown` are its first records or claims, or its summary node."""
    outcome = {"outcome": row.outcome(stage)} if stage in WRITTEN else {}
    match stage:
        case Stage.ARTIFACTS:
            return {"bytes": row.bytes}
        case Stage.SURFACES:
            preview = _preview(_surfaces(shown, previews), previews)
            return {"dagster/partition_row_count": row.n_surfaces, "preview": preview}
        case Stage.SYNOPSES:
            return outcome | _of_synopsis(_synopsis(shown), previews)
        case Stage.CLAIMS:
            return outcome | _of_claims(row, shown, previews)
        case Stage.SUMMARY_NODES:
            return outcome | _of_node(shown, previews)
        case Stage.EMBEDDINGS:
            return {"texts": row.n_records}
    return outcome or {"dagster/partition_row_count": row.n_records}


def _surfaces(records: Sequence[Mapping[str, Any]], previews: bool) -> list[dict[str, Any]]:
    """Return the records of surfaces that the strategy cut, as previews show them."""
    synopsis = _synopsis(records)
    own = [record for record in records if record["surface_kind"] not in {CLAIM, SUMMARY}]
    return [record_preview(record, previews) for record in own if record is not synopsis]


def _synopsis(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    own = (record for record in records if record["surface_kind"] not in {CLAIM, SUMMARY})
    return next((record for record in own if record["producer_id"]), None)


def _of_synopsis(synopsis: Mapping[str, Any] | None, previews: bool) -> dict[str, Any]:
    if synopsis is None:
        return {}
    text = synopsis["text"]
    return {
        "written by": synopsis["producer_id"],
        **({"synopsis": cut(text)} if previews else {"characters": len(text)}),
    }


def _of_claims(row: LedgerRow, claims: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"refused": row.refused, "dagster/partition_row_count": row.n_claims}
    if not claims:
        return found
    names = ("type", "text", "evidence", "confidence") if previews else ("claim_id", "evidence", "confidence")
    return found | {"preview": table([{name: claim[name] for name in names} for claim in claims])}


def _of_node(nodes: Sequence[Mapping[str, Any]], previews: bool) -> dict[str, Any]:
    if not nodes:
        return {}
    points = orjson.loads(nodes[0]["bullets"])
    if not previews:
        return {"points": len(points)}
    return {"summary": dg.MetadataValue.md("\n".join(f"- {cut(text)}" for text, _ in points[:PREVIEWED]))}


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
        "shown",
        "producer_id",
    )
    found = indexer.store.lookup("records", "artifact_id", artifact_ids, columns, f"surface_index < {PREVIEWED}")
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(found.to_pylist(), key=lambda row: row["surface_index"]):
        if row["corpus"] == indexer.name:
            shown[row["artifact_id"]].append(row)
    return shown


def _first_claims(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Load the first claims of each artifact, by artifact id."""
    columns = ("artifact_id", "claim_id", "position", "type", "text", "evidence", "confidence")
    where = f"position < {PREVIEWED} AND {equals('corpus', indexer.name)}"
    found = indexer.store.lookup("claims", "artifact_id", artifact_ids, columns, where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.sort_by("position").to_pylist():
        shown[row["artifact_id"]].append(row)
    return shown


def _summaries(indexer: Indexer, artifact_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Load the summary node of each artifact that has one, by artifact id."""
    where = equals("corpus", indexer.name)
    found = indexer.store.lookup("summary_nodes", "artifact_id", artifact_ids, ("artifact_id", "bullets"), where)
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.to_pylist():
        shown[row["artifact_id"]] = [row]
    return shown
