"""Search over the published index."""

from findingaid.query.search.filters.fields import Field, corpus_fields
from findingaid.query.search.hits import Hits
from findingaid.query.search.reader import Candidate, Reader
from findingaid.query.search.request import PostProcessor, Recency, Request, Route
from findingaid.query.search.searcher import Searcher

__all__ = [
    "Candidate",
    "Field",
    "Hits",
    "PostProcessor",
    "Reader",
    "Recency",
    "Request",
    "Route",
    "Searcher",
    "corpus_fields",
]  # fmt: skip
