"""Stage 2: what is indexed of an artifact."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe
from findingaid_dagster.assets.keys import stage_spec


def surfaces(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """The units that the corpus's strategy cuts each artifact into."""
    description = f"What each artifact is cut into, with character spans. Strategy: `{recipe.strategy_id}`."
    return stage_spec(corpus, recipe, Stage.SURFACES, description)
