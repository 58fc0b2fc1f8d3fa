"""Stage 5, where a corpus wants them: a summary over the claims of each artifact that are held."""

import dagster as dg

from findingaid.indexing import Indexer
from findingaid.model import Stage
from findingaid_dagster.assets.keys import stage_spec


def summary_nodes(indexer: Indexer) -> dg.AssetSpec:
    """Points that cite the claims they stand on; written again when people retract one of those."""
    description = f"A summary over the claims of each artifact that are held. Producer: `{indexer.recipe.nodes_id}`."
    return stage_spec(indexer, Stage.SUMMARY_NODES, description)
