"""Stage 4, where a corpus wants claims: what each artifact states."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def claims(indexer: Indexer) -> dg.AssetSpec:
    """The statements that the extractor finds in each artifact, each with the passage that says so."""
    description = f"What each artifact states, with the passages. Extractor: `{indexer.recipe.claims_id}`."
    return stage_spec(indexer, Stage.CLAIMS, description)
