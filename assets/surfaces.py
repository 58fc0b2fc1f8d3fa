"""Stage 2: what is indexed of an artifact."""

import dagster as dg

from findingaid.plan import Recipe
from findingaid.model import Stage


def surfaces(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """The units that the corpus's strategy cuts each artifact into."""
    return dg.AssetSpec(
        [corpus, Stage.SURFACES],
        deps=[[corpus, Stage.ARTIFACTS]],
        description=f"What the strategy cuts each artifact into, with character spans. Strategy: `{recipe.strategy_id}`.",
        code_version=recipe.code_version(Stage.SURFACES),
        kinds={"lancedb"},
    )
