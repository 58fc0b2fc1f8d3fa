"""Stage 4: vectors of surfaces and synopses."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe


def embeddings(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """The vectors of everything that is published, kept by content so that no text is embedded twice."""
    return dg.AssetSpec(
        [corpus, Stage.EMBEDDINGS],
        deps=[[corpus, Stage.SURFACES], [corpus, Stage.SYNOPSES]],
        description=f"The vector of each distinct text, kept by content. Embedder: `{recipe.embedder_id}`.",
        code_version=recipe.code_version(Stage.EMBEDDINGS),
        kinds={"lancedb"},
    )
