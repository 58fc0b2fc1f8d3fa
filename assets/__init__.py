"""The assets of a corpus: one file a stage says what its asset is, `corpus.py` makes them."""

from findingaid_dagster.assets.checks import corpus_checks, log_checks, table
from findingaid_dagster.assets.corpus import corpus_assets, named
from findingaid_dagster.assets.keys import add_partitions, artifact_id_of, asset_key, partition_key, partitions_of
from findingaid_dagster.assets.source import changed, observation, source
from findingaid_dagster.assets.sync import sync

__all__ = [
    "add_partitions",
    "artifact_id_of",
    "asset_key",
    "changed",
    "corpus_assets",
    "corpus_checks",
    "log_checks",
    "named",
    "observation",
    "partition_key",
    "partitions_of",
    "source",
    "sync",
    "table",
]
