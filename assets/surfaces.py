"""Stage 2: what is indexed of an artifact."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def surfaces(indexer: Indexer) -> dg.AssetSpec:
    """The units that the corpus's strategy cuts each artifact into."""
    description = f"What each artifact is cut into, with character spans. Strategy: `{indexer.recipe.strategy_id}`."
    return stage_spec(indexer, Stage.SURFACES, description)
