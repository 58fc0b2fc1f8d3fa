"""Dagster assets of a corpus: `corpus.py` describes and builds those of the stages."""

from findingaid_dagster.assets.checks import corpus_checks, log_checks, table
from findingaid_dagster.assets.corpus import corpus_assets, named
from findingaid_dagster.assets.disclosure import filter_failures, filter_report, filter_skipped
from findingaid_dagster.assets.failures import FAILED_TAG, HELD, fail_run
from findingaid_dagster.assets.history import prune_history
from findingaid_dagster.assets.keys import add_partitions, artifact_id_of, asset_key, partition_key, partitions_of
from findingaid_dagster.assets.progress import logged
from findingaid_dagster.assets.published import news, publications, read_published, usage_numbers
from findingaid_dagster.assets.source import changed_partitions, observation, source
from findingaid_dagster.assets.specs import AssetData, Translation, unchanged
from findingaid_dagster.assets.sync import sync

__all__ = [
    "FAILED_TAG",
    "HELD",
    "AssetData",
    "Translation",
    "add_partitions",
    "artifact_id_of",
    "asset_key",
    "changed_partitions",
    "corpus_assets",
    "corpus_checks",
    "fail_run",
    "filter_failures",
    "filter_report",
    "filter_skipped",
    "log_checks",
    "logged",
    "named",
    "news",
    "observation",
    "partition_key",
    "partitions_of",
    "prune_history",
    "publications",
    "read_published",
    "source",
    "sync",
    "table",
    "unchanged",
    "usage_numbers",
]
