"""Specs of the assets of a corpus: the source, one for each stage, and the published records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import dagster as dg

from findingaid.corpus import Corpus
from findingaid.errors import ConfigError
from findingaid.indexing.indexer import Indexer
from findingaid.model import Stage
from findingaid.query.search import Field
from findingaid.store import schemas
from findingaid_dagster.assets.keys import PUBLISHED, SOURCE, asset_key, inputs_of, partitions_of

CODE_VERSION = "1"
"""Code version of the published records."""

DESCRIPTIONS = {
    Stage.ARTIFACTS: "Payload and metadata of each artifact, as read from the source. Its data version is their hash.",
    Stage.SURFACES: "Surfaces of each artifact, with their character spans. Strategy: `{}`.",
    Stage.SYNOPSES: "Synopsis of each artifact, or the reason for its lack. Synthesizer: `{}`.",
    Stage.CLAIMS: "Claims of each artifact, with the supporting passages. Extractor: `{}`.",
    Stage.SUMMARY_NODES: "Summary of the current claims of each artifact. Producer: `{}`.",
    Stage.EMBEDDINGS: "Vector of each distinct text, cached by content. Embedder: `{}`.",
    Stage.RECORDS: "Records that people and agents search: text, vector and fields of every surface of an artifact.",
}
"""Description of the asset of each stage, with a place for the id of the component that does the work."""

REQUESTED_TAG = "dagster/from_automation_condition"
"""Tag that Dagster gives the runs of its automation."""

PUBLISHED_DESCRIPTION = (
    "Records that readers see. It is materialized when a publish or a rollback changed them, with numbers of the run."
    " Let downstream assets depend on it. To materialize it alone indexes the whole corpus, as the job `index` does."
)

SOURCE_DESCRIPTION = "Artifacts as listed by the source. Observe this asset to see which partitions are stale."

TEXTS: list[tuple[str, str]] = [
    (Stage.SURFACES, "text"),
    (Stage.SYNOPSES, "text"),
    (Stage.CLAIMS, "text"),
    (Stage.SUMMARY_NODES, "bullets"),
]
"""Columns with the texts that are embedded and searched."""

COLUMNS: dict[Stage, dict[str, list[tuple[str, str]]]] = {
    Stage.ARTIFACTS: {"payload": [(SOURCE, "payload")], "metadata": [(SOURCE, "metadata")]},
    Stage.SURFACES: {
        "text": [(Stage.ARTIFACTS, "payload")],
        "metadata": [(Stage.ARTIFACTS, "metadata")],
    },
    Stage.SYNOPSES: {"text": [(Stage.SURFACES, "text")]},
    Stage.CLAIMS: {"text": [(Stage.ARTIFACTS, "payload")], "quote": [(Stage.ARTIFACTS, "payload")]},
    Stage.SUMMARY_NODES: {"bullets": [(Stage.CLAIMS, "text")], "members": [(Stage.CLAIMS, "claim_id")]},
    Stage.EMBEDDINGS: {"vector": TEXTS},
    Stage.RECORDS: {
        "text": TEXTS,
        "metadata": [(Stage.SURFACES, "metadata")],
        "claim_id": [(Stage.CLAIMS, "claim_id"), (Stage.SUMMARY_NODES, "node_id")],
        "vector": [(Stage.EMBEDDINGS, "vector")],
    },
}
"""Columns of the stages that are made from columns of earlier ones, or from parts of what the source lists."""


@dataclass(frozen=True)
class AssetData:
    """An asset whose spec a translation may change: its corpus, and its part, "source", a stage or "published"."""

    corpus: str
    part: str


Translation = Callable[[dg.AssetSpec, AssetData], dg.AssetSpec]
"""Function that changes the default spec of an asset, in anything but its key, partitions and code version."""


def unchanged(spec: dg.AssetSpec, data: AssetData) -> dg.AssetSpec:
    """Return the default spec."""
    return spec


def source_spec(of: Corpus) -> dg.AssetSpec:
    """Return the spec of the source of a corpus, which depends on the assets that the configuration names."""
    return dg.AssetSpec(
        asset_key(of, SOURCE),
        deps=upstream_of(of),
        description=SOURCE_DESCRIPTION,
        group_name=of.group or of.name,
        owners=of.owners,
        tags=of.tags,
        partitions_def=partitions_of(of.name),
        skippable=True,
    )


def stage_spec(indexer: Indexer, stage: Stage) -> dg.AssetSpec:
    """Return the asset spec of one stage, with its code version in the description.

    The asset is skippable, since only the run decides which partitions get an event.
    """
    of, code_version = indexer.corpus, indexer.recipe.code_version(stage)
    return dg.AssetSpec(
        asset_key(of, stage),
        deps=inputs_of(of, stage),
        description=DESCRIPTIONS[stage].format(code_version),
        code_version=code_version,
        group_name=of.group or of.name,
        owners=of.owners,
        tags=of.tags,
        kinds={"lancedb"},
        partitions_def=partitions_of(of.name),
        metadata=_table(indexer, stage),
        skippable=True,
        automation_condition=upkeep(of, stage),
    )


def upstream_of(of: Corpus) -> list[dg.AssetKey]:
    """Return the assets of others that the source of a corpus is made from."""
    return [dg.AssetKey.from_user_string(key) for key in of.deps]


def published_spec(indexer: Indexer) -> dg.AssetSpec:
    """Return the spec of the asset `CORPUS/published`, which has no partitions."""
    of = indexer.corpus
    return dg.AssetSpec(
        asset_key(of, PUBLISHED),
        deps=[asset_key(of, Stage.RECORDS), *upstream_of(of)],
        description=PUBLISHED_DESCRIPTION,
        code_version=CODE_VERSION,
        group_name=of.group or of.name,
        owners=of.owners,
        tags=of.tags,
        kinds={"lancedb"},
        metadata=_table(indexer, PUBLISHED),
        skippable=True,
    )


def translated(translation: Translation, of: Corpus, part: str, spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return a spec as the translation changes it. Raises ConfigError if it changes what findingaid decides."""
    found = translation(spec, AssetData(of.name, str(part)))
    for name in ("key", "partitions_def", "code_version"):
        if getattr(found, name) != getattr(spec, name):
            hint = ": set dagster.key_prefix instead" if name == "key" else ""
            raise ConfigError(f"translation of {spec.key.to_user_string()}: the {name} cannot be changed{hint}")
    return found


def event_metadata(of: Corpus, part: str, uri: str) -> dict[str, Any]:
    """Return the columns and the address of a table, for an event: `dagster-openlineage` does not read specs."""
    return {**_column_metadata(of, part), "uri": uri}


def _table(indexer: Indexer, part: str) -> dict[str, object]:
    """Return the metadata of an asset that is a table of the store."""
    return {
        **_column_metadata(indexer.corpus, part),
        "dagster/table_name": _stage_of(part).value,
        "dagster/uri": indexer.store.uri,
    }


def _stage_of(part: str) -> Stage:
    """Return the stage whose table an asset is: the published records are a version of those of the last stage."""
    return Stage.RECORDS if part == PUBLISHED else Stage(part)


def _column_metadata(of: Corpus, part: str) -> dict[str, Any]:
    """Return the columns of a stage or of the published records, and the columns of other assets they are made from."""
    return {
        "dagster/column_schema": _columns(_stage_of(part)),
        "dagster/column_lineage": dg.TableColumnLineage(_column_lineage(of, part)),
    }


def _column_lineage(of: Corpus, part: str) -> dict[str, list[dg.TableColumnDep]]:
    if part == PUBLISHED:
        records = asset_key(of, Stage.RECORDS)
        return {name: [dg.TableColumnDep(records, name)] for name in schemas.records(1).names}
    stage = Stage(part)
    inputs = inputs_of(of, stage)
    found = {
        column: [dg.TableColumnDep(key, name) for dep, name in deps if (key := asset_key(of, dep)) in inputs]
        for column, deps in COLUMNS[stage].items()
    }
    return {column: deps for column, deps in found.items() if deps}


def upkeep(corpus: Corpus, stage: Stage) -> dg.AutomationCondition[dg.AssetKey]:
    """Return the condition under which Dagster's automation requests a partition.

    It requests a partition once for each reason, and all stages in one run. The reason lapses if another run does the
    work first, but not with a run that was requested for an earlier reason. A partition that failed is not requested
    again until it changes. A new code version is left to the sensor that observes, since only the ledger
    knows what was built with another.
    """
    condition = dg.AutomationCondition
    if stage is not Stage.ARTIFACTS:
        return condition.asset_matches(asset_key(corpus, Stage.ARTIFACTS), condition.will_be_requested())
    by_automation = condition.any_new_update_has_run_tags(tag_keys={REQUESTED_TAG})
    handled = condition.newly_requested() | (condition.newly_updated() & ~by_automation)
    observed = condition.any_deps_match(condition.data_version_changed()).with_label("the source changed")
    missing = condition.newly_missing()
    lacking = missing.since(handled) & ~condition.execution_failed()
    # Wait a tick before acting on a missing partition: the job adds partitions just before it logs their events.
    remade = (lacking & ~missing).with_label("missing")
    stages = [condition.asset_matches(asset_key(corpus, each), remade) for each in corpus.stages]
    due = reduce(or_, stages, observed.since(handled))
    # The job logs only at its end the records of what it is at.
    at_work = condition.in_progress() | condition.asset_matches(
        asset_key(corpus, Stage.RECORDS), condition.in_progress()
    )
    return (due & ~at_work).with_label("upkeep")


def _columns(stage: Stage) -> dg.TableSchema:
    schema = schemas.FIXED.get(stage) or schemas.records(1)
    return dg.TableSchema(
        [
            # Drop the vector length from the type: only the embedder knows it, and it is not loaded here.
            dg.TableColumn(field.name, str(field.type).split("[")[0], schemas.description(field))
            for field in schema
        ]
    )


def record_columns(fields: Sequence[Field]) -> dg.TableSchema:
    """Return the columns of a corpus's records, including the filter fields found in them."""
    own = [dg.TableColumn(f.name, f.type, f"filter field of {f.records:,} records") for f in fields]
    return dg.TableSchema([*_columns(Stage.RECORDS).columns, *own])
