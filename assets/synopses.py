"""Stage 3: a summary of each artifact."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def synopses(indexer: Indexer) -> dg.AssetSpec:
    """What the synthesizer makes of each artifact; a failed one is tried again by the next run."""
    description = f"A synopsis of each artifact, or why there is none. Synthesizer: `{indexer.recipe.synthesizer_id}`."
    return stage_spec(indexer, Stage.SYNOPSES, description)
