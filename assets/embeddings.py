"""The last stage but one: vectors of surfaces, synopses and claims."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def embeddings(indexer: Indexer) -> dg.AssetSpec:
    """The vectors of everything that is published, kept by content so that no text is embedded twice."""
    description = f"The vector of each distinct text, kept by content. Embedder: `{indexer.recipe.embedder_id}`."
    return stage_spec(indexer, Stage.EMBEDDINGS, description)
