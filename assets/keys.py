"""What the assets are called in Dagster: keys, partitions, and which stage stands on which."""

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from urllib.parse import unquote

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import INPUTS, Corpus, Stage
from findingaid.query import Field
from findingaid.store import schemas

KEYS_AT_ONCE = 10_000
"""Partition keys a statement; SQLite takes some 32,000 parameters."""

NOT_IN_A_KEY = re.compile(r"[%\x00-\x1f\x7f]|\.\.\.")


def asset_key(corpus: str, stage: Stage) -> dg.AssetKey:
    """The asset of one stage of a corpus."""
    return dg.AssetKey([corpus, stage.value])


def source_key(corpus: str) -> dg.AssetKey:
    """The source of a corpus, as an asset that is only observed."""
    return dg.AssetKey([corpus, "source"])


def deps_of(corpus: Corpus, stage: Stage) -> list[Stage]:
    """The stages of a corpus that one of them stands on."""
    return [dep for dep in INPUTS[stage] if dep in corpus.stages]


def stage_spec(indexer: Indexer, stage: Stage, description: str) -> dg.AssetSpec:
    """What all assets of a corpus have in common; skippable, since what gets an event is decided as they run."""
    corpus = indexer.of
    return dg.AssetSpec(
        asset_key(corpus.name, stage),
        deps=[asset_key(corpus.name, dep) for dep in deps_of(corpus, stage)] or [source_key(corpus.name)],
        description=description,
        code_version=indexer.recipe.code_version(stage),
        group_name=corpus.group or corpus.name,
        owners=corpus.owners,
        tags=corpus.tags,
        kinds={"lancedb"},
        metadata={"dagster/column_schema": _columns(stage), "dagster/table_name": stage.value},
        skippable=True,
        automation_condition=upkeep(corpus, stage),
    )


def upkeep(corpus: Corpus, stage: Stage) -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey]:
    """When Dagster's automation requests a partition: once for each reason, and all stages in one run.

    A run that did the work on its own sets the reason aside. What fails is not requested again before it changes.
    """
    condition = dg.AutomationCondition
    if stage is not Stage.ARTIFACTS:
        return condition.asset_matches(asset_key(corpus.name, Stage.ARTIFACTS), condition.will_be_requested())
    handled = condition.newly_requested() | condition.newly_updated()
    observed = condition.any_deps_match(condition.data_version_changed()).with_label("the source changed")
    missing = condition.newly_missing()
    # Missing is believed a tick later, since the job adds the partitions of a batch just before it logs them.
    remade = ((missing | condition.code_version_changed()).since(handled) & ~missing).with_label("missing, or new code")
    stages = [condition.asset_matches(asset_key(corpus.name, each), remade) for each in corpus.stages]
    due = reduce(or_, stages, observed.since(handled))
    return (due & ~condition.in_progress()).with_label("upkeep")


def _columns(stage: Stage) -> dg.TableSchema:
    schema = schemas.FIXED.get(stage) or schemas.records(1)
    return dg.TableSchema(
        [
            # How wide a vector is only its embedder knows, which is not loaded for this.
            dg.TableColumn(field.name, str(field.type).split("[")[0], schemas.description(field))
            for field in schema
        ]
    )


def record_columns(fields: Sequence[Field]) -> dg.TableSchema:
    """The columns of a corpus's records, with the filter fields that were found in them."""
    own = [dg.TableColumn(f.name, f.type, f"filter field of {f.records:,} records") for f in fields]
    return dg.TableSchema([*_columns(Stage.RECORDS).columns, *own])


def partitions_of(corpus: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a corpus: one key an artifact."""
    return dg.DynamicPartitionsDefinition(name=corpus)


def add_partitions(instance: dg.DagsterInstance, corpus: str, keys: Sequence[str]) -> None:
    """Add partitions to a corpus; those that are there already stay as they are."""
    for start in range(0, len(keys), KEYS_AT_ONCE):
        instance.add_dynamic_partitions(corpus, keys[start : start + KEYS_AT_ONCE])


def partition_key(artifact_id: str) -> str:
    """An artifact's partition key: its id, with what Dagster does not take in a key percent-encoded."""
    return NOT_IN_A_KEY.sub(lambda found: "".join(f"%{ord(c):02X}" for c in found.group()), artifact_id)


def artifact_id_of(key: str) -> str:
    """The artifact of a partition key."""
    return unquote(key)
