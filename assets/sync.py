"""Telling a Dagster instance what the ledger knows: partition keys, and a materialization for every new version.

The ledger is what decides; the instance is a view of it. So the same function serves the `index` job, a
materialization from the UI, and an instance that is behind because the CLI did the work.
"""

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from assets.keys import DEPS, asset_key, partition_key
from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid.store import LedgerRow
from findingaid_dagster.events import event_pointer, log_materializations, logged_data_versions

KEYS_AT_ONCE = 10_000
"""Partition keys a statement; SQLite takes some 32,000 parameters."""

FAILED_INPUT = "failed"
"""The data version recorded for an input that failed, such as a synopsis; when it comes, Dagster sees it as new."""


def sync(
    context: dg.OpExecutionContext,
    indexer: Indexer,
    artifact_ids: Sequence[str] | None = None,
    again: Iterable[Stage] = (),
) -> int:
    """Log what the instance does not know yet of these artifacts, or of the whole corpus; returns the events.

    `again` are stages that were asked for by name and so are logged even when their version is the same.
    """
    rows = indexer.ledger.rows(indexer.corpus, artifact_ids)
    _sync_keys(context.instance, indexer.corpus, rows, whole=artifact_ids is None)
    again = set(again)
    keys = {i: partition_key(i) for i in rows}
    if not again:
        # A records version covers all that came before it: where it is known, everything is.
        known = logged_data_versions(
            context.instance,
            asset_key(indexer.corpus, Stage.RECORDS),
            None if artifact_ids is None else list(keys.values()),
        )
        rows = {i: row for i, row in rows.items() if row.records != known.get(keys[i])}
    logged: dict[Stage, set[str]] = {}
    for stage in Stage:
        known = logged_data_versions(context.instance, asset_key(indexer.corpus, stage), [keys[i] for i in rows])
        logged[stage] = {
            i
            for i, row in rows.items()
            if row.version(stage) is not None
            and (
                stage in again
                or row.version(stage) != known.get(keys[i])
                or any(i in logged[dep] for dep in DEPS[stage])
            )
        }
        pointer = event_pointer(context.instance)
        log_materializations(
            context, [_event(indexer, stage, rows[i], keys[i], pointer) for i in sorted(logged[stage])]
        )
    return sum(map(len, logged.values()))


def _sync_keys(instance: dg.DagsterInstance, corpus: str, rows: Iterable[str], whole: bool) -> None:
    wanted = [partition_key(i) for i in sorted(rows)]
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        instance.add_dynamic_partitions(corpus, wanted[start : start + KEYS_AT_ONCE])
    if whole:
        for key in set(instance.get_dynamic_partitions(corpus)).difference(wanted):
            instance.delete_dynamic_partition(corpus, key)


def _event(indexer: Indexer, stage: Stage, row: LedgerRow, key: str, pointer: int) -> dg.AssetMaterialization:
    version = row.version(stage) or ""
    inputs = {f"{indexer.corpus}/{dep.value}": row.version(dep) or FAILED_INPUT for dep in DEPS[stage]}
    tags = {
        "dagster/code_version": indexer.recipe.code_version(stage),
        "dagster/data_version": version,
        "dagster/data_version_is_user_provided": "true",
        **{f"dagster/input_data_version/{asset}": found for asset, found in inputs.items()},
        **{f"dagster/input_event_pointer/{asset}": str(pointer) for asset in inputs},
    }
    return dg.AssetMaterialization(
        asset_key(indexer.corpus, stage), partition=key, tags=tags, metadata=dict(_metadata(stage, row))
    )


def _metadata(stage: Stage, row: LedgerRow) -> Iterator[tuple[str, int | str]]:
    match stage:
        case Stage.SURFACES:
            yield "dagster/partition_row_count", row.n_surfaces
        case Stage.SYNOPSES:
            yield "outcome", row.synopsis_outcome
        case Stage.RECORDS:
            yield "dagster/partition_row_count", row.n_records
        case _:
            pass
