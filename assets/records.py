"""Stage 5: what is searched."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def records(indexer: Indexer) -> dg.AssetSpec:
    """Surfaces and synopsis of each artifact with their vectors, as published to readers."""
    description = "What people and agents search: text, vector and fields of every surface of an artifact."
    return stage_spec(indexer, Stage.RECORDS, description)
