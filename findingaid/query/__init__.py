"""Asking the published index."""

from findingaid.query.search import Searcher, fuse
from findingaid.query.show import ArtifactView, CorpusStatus

__all__ = ["ArtifactView", "CorpusStatus", "Searcher", "fuse"]
