"""Asking the published index."""

from findingaid.query.fields import Field, corpus_fields
from findingaid.query.search import Searcher, fuse
from findingaid.query.show import ArtifactView, CorpusStatus

__all__ = ["ArtifactView", "CorpusStatus", "Field", "Searcher", "corpus_fields", "fuse"]
