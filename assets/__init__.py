"""The five assets of a corpus: one file a stage says what its asset is, `corpus.py` makes them."""

from assets.corpus import corpus_assets
from assets.sync import partition_key, partitions_of, sync

__all__ = ["corpus_assets", "partition_key", "partitions_of", "sync"]
