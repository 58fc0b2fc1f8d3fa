"""Stage 5: what is searched."""

import dagster as dg

from findingaid.plan import Recipe
from findingaid.model import Stage


def records(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """Surfaces and synopsis of each artifact with their vectors, as published to readers."""
    return dg.AssetSpec(
        [corpus, Stage.RECORDS],
        deps=[[corpus, Stage.SURFACES], [corpus, Stage.SYNOPSES], [corpus, Stage.EMBEDDINGS]],
        description="What people and agents search: text, vector and filter fields of every surface, replaced an artifact at a time.",
        code_version=recipe.code_version(Stage.RECORDS),
        kinds={"lancedb"},
    )
