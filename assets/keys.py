"""What the assets are called in Dagster: keys, partitions, and which stage stands on which."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid.store import schemas

DEPS: Mapping[Stage, Sequence[Stage]] = {
    Stage.ARTIFACTS: (),
    Stage.SURFACES: (Stage.ARTIFACTS,),
    Stage.SYNOPSES: (Stage.SURFACES,),
    Stage.EMBEDDINGS: (Stage.SURFACES, Stage.SYNOPSES),
    Stage.RECORDS: (Stage.SURFACES, Stage.SYNOPSES, Stage.EMBEDDINGS),
}

NOT_IN_A_KEY = re.compile(r"[%\x00-\x1f\x7f]|\.\.\.")


def asset_key(corpus: str, stage: Stage) -> dg.AssetKey:
    """The asset of one stage of a corpus."""
    return dg.AssetKey([corpus, stage.value])


def source_key(corpus: str) -> dg.AssetKey:
    """The source of a corpus, as an asset that is only observed."""
    return dg.AssetKey([corpus, "source"])


def stage_spec(indexer: Indexer, stage: Stage, description: str) -> dg.AssetSpec:
    """What all five assets have in common; skippable, since which partitions get an event is decided as they run."""
    corpus = indexer.of
    return dg.AssetSpec(
        asset_key(corpus.name, stage),
        deps=[asset_key(corpus.name, dep) for dep in DEPS[stage]] or [source_key(corpus.name)],
        description=description,
        code_version=indexer.recipe.code_version(stage),
        group_name=corpus.group or corpus.name,
        owners=corpus.owners,
        tags=corpus.tags,
        kinds={"lancedb"},
        metadata={"dagster/column_schema": _columns(stage), "dagster/table_name": stage.value},
        skippable=True,
    )


def _columns(stage: Stage) -> dg.TableSchema:
    schema = schemas.FIXED.get(stage) or schemas.records(1)
    return dg.TableSchema(
        [
            # How wide a vector is only its embedder knows, which is not loaded for this.
            dg.TableColumn(field.name, str(field.type).split("[")[0], schemas.description(field))
            for field in schema
        ]
    )


def partitions_of(corpus: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a corpus: one key an artifact."""
    return dg.DynamicPartitionsDefinition(name=corpus)


def partition_key(artifact_id: str) -> str:
    """An artifact's partition key: its id, with what Dagster does not take in a key percent-encoded."""
    return NOT_IN_A_KEY.sub(lambda found: "".join(f"%{ord(c):02X}" for c in found.group()), artifact_id)


def artifact_id_of(key: str) -> str:
    """The artifact of a partition key."""
    return unquote(key)
