"""Stage 5: what is searched."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe


def records(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """Surfaces and synopsis of each artifact with their vectors, as published to readers."""
    return dg.AssetSpec(
        [corpus, Stage.RECORDS],
        deps=[[corpus, Stage.SURFACES], [corpus, Stage.SYNOPSES], [corpus, Stage.EMBEDDINGS]],
        description="What people and agents search: text, vector and fields of every surface of an artifact.",
        code_version=recipe.code_version(Stage.RECORDS),
        kinds={"lancedb"},
    )
