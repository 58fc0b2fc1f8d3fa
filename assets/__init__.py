"""Dagster assets of a corpus: `corpus.py` describes and builds those of the stages."""

from findingaid_dagster.assets.checks import complete_checks, corpus_checks, log_checks, shows_unlisted, table
from findingaid_dagster.assets.corpus import build_step, corpus_assets, has_artifact_partitions, log_remarks, named
from findingaid_dagster.assets.disclosure import (
    filter_failures,
    filter_notes,
    filter_report,
    filter_skipped,
    keeps_history,
    may_quote,
)
from findingaid_dagster.assets.failures import (
    FAILED_TAG,
    HELD,
    STORE_TAG,
    fail_run,
    forget_failure,
    known_failures,
    log_failed,
    new_failures,
    store_tag,
)
from findingaid_dagster.assets.history import prune_history
from findingaid_dagster.assets.keys import (
    PUBLISHED,
    SOURCE,
    Keys,
    add_partitions,
    artifact_id_of,
    asset_key,
    keys_in_use,
    keys_of,
    partition_key,
    partitions_of,
    select_artifacts,
)
from findingaid_dagster.assets.partitions import read_partitions, read_selected
from findingaid_dagster.assets.published import changed_publications, publications, read_published, usage_numbers
from findingaid_dagster.assets.source import changed_partitions, observation, source
from findingaid_dagster.assets.specs import AssetData, Translation, unchanged
from findingaid_dagster.assets.sync import changed_versions, sync, unlogged_partitions
from findingaid_dagster.assets.upstream import Inputs, input_versions

__all__ = [
    "FAILED_TAG",
    "HELD",
    "PUBLISHED",
    "SOURCE",
    "STORE_TAG",
    "AssetData",
    "Inputs",
    "Keys",
    "Translation",
    "add_partitions",
    "artifact_id_of",
    "asset_key",
    "build_step",
    "changed_partitions",
    "changed_publications",
    "changed_versions",
    "complete_checks",
    "corpus_assets",
    "corpus_checks",
    "fail_run",
    "filter_failures",
    "filter_notes",
    "filter_report",
    "filter_skipped",
    "forget_failure",
    "has_artifact_partitions",
    "input_versions",
    "keeps_history",
    "keys_in_use",
    "keys_of",
    "known_failures",
    "log_checks",
    "log_failed",
    "log_remarks",
    "may_quote",
    "named",
    "new_failures",
    "observation",
    "partition_key",
    "partitions_of",
    "prune_history",
    "publications",
    "read_partitions",
    "read_published",
    "read_selected",
    "select_artifacts",
    "shows_unlisted",
    "source",
    "store_tag",
    "sync",
    "table",
    "unchanged",
    "unlogged_partitions",
    "usage_numbers",
]
