"""Stage 2: what is indexed of an artifact."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe


def surfaces(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """The units that the corpus's strategy cuts each artifact into."""
    return dg.AssetSpec(
        [corpus, Stage.SURFACES],
        deps=[[corpus, Stage.ARTIFACTS]],
        description=f"What each artifact is cut into, with character spans. Strategy: `{recipe.strategy_id}`.",
        code_version=recipe.code_version(Stage.SURFACES),
        kinds={"lancedb"},
    )
