"""Stage 3: a summary of each artifact."""

import dagster as dg

from assets.keys import stage_spec
from findingaid.model import Stage
from findingaid.plan import Recipe


def synopses(corpus: str, recipe: Recipe) -> dg.AssetSpec:
    """What the synthesizer makes of each artifact; a failed one is tried again by the next run."""
    description = f"A synopsis of each artifact, or why there is none. Synthesizer: `{recipe.synthesizer_id}`."
    return stage_spec(corpus, recipe, Stage.SYNOPSES, description)
