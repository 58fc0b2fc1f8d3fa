"""Stage 3: a summary of each artifact."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe


def synopses(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """What the synthesizer makes of each artifact; a failed one is tried again by the next run."""
    return dg.AssetSpec(
        [corpus, Stage.SYNOPSES],
        deps=[[corpus, Stage.SURFACES]],
        description=f"A synopsis of each artifact, or why there is none. Synthesizer: `{recipe.synthesizer_id}`.",
        code_version=recipe.code_version(Stage.SYNOPSES),
        kinds={"lancedb"},
    )
