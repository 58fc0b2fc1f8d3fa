"""Stage 3: a summary of each artifact."""

import dagster as dg

from findingaid.model import Stage
from findingaid.plan import Recipe
from findingaid_dagster.assets.keys import stage_spec


def synopses(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """What the synthesizer makes of each artifact; a failed one is tried again by the next run."""
    description = f"A synopsis of each artifact, or why there is none. Synthesizer: `{recipe.synthesizer_id}`."
    return stage_spec(corpus, recipe, Stage.SYNOPSES, description)
