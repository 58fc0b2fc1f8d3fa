"""Asking the published index."""

from findingaid.query.fields import Field, corpus_fields
from findingaid.query.hits import Hits
from findingaid.query.reader import Candidate, Reader
from findingaid.query.request import Recency, Request
from findingaid.query.search import After, Rerank, Route, Searcher
from findingaid.query.show import ArtifactView, CorpusStatus

__all__ = [
    "After", "ArtifactView", "Candidate", "CorpusStatus", "Field", "Hits", "Reader", "Recency", "Request", "Rerank",
    "Route", "Searcher", "corpus_fields",
]  # fmt: skip
