"""Stage 1: what the source holds."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def artifacts(indexer: Indexer) -> dg.AssetSpec:
    """Payload and metadata of each artifact, read from the corpus's source."""
    description = "Payload and metadata of each artifact, as read from the source. Its data version is their hash."
    return stage_spec(indexer, Stage.ARTIFACTS, description)
