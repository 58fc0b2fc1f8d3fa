"""Stage 1: what the source holds."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe


def artifacts(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """Payload and metadata of each artifact, read from the corpus's source."""
    return dg.AssetSpec(
        [corpus, Stage.ARTIFACTS],
        description="Payload and metadata of each artifact, as read from the source. Its data version is their hash.",
        code_version=recipe.code_version(Stage.ARTIFACTS),
        kinds={"lancedb"},
    )
