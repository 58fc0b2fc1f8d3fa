"""Search request: everything that a search depends on besides the index and the embedder."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, get_args, runtime_checkable

from findingaid.errors import QueryError, brief
from findingaid.model import SUMMARY, Hit, Mode
from findingaid.query.search.reader import Candidate, Reader
from findingaid.query.search.rerank import RerankStep
from findingaid.store.sql import equals, one_of

MAX_QUERY_CHARS = 10_000
"""Most characters of a query. An embedder reads about the first thousand."""

MAX_QUERIES = 32
"""Most queries of one search; each is embedded and ranked separately."""

MAX_DEPTH = 10_000
"""Last hit that paging can reach. To get all records, read the table."""


@dataclass(frozen=True, slots=True)
class Recency:
    """Preference for newer records: a score is halved for every `half_life` days of age, by the time in `field`.

    A record without a time counts as one half-life old; a record dated in the future counts as new.
    """

    field: str
    half_life: float


@dataclass(frozen=True, slots=True)
class Request:
    """Search request.

    - `where`: an SQL filter; `Searcher.search` validates it before any step runs.
    - `surfaces`: only these surface kinds; () for all.
    - `weights`: surface kind -> factor of its scores.
    - `blend`: share of the dense score in a hybrid score; None fuses by reciprocal rank.
    - `timeout`: in seconds.
    - `tiers`: tiers of claims that may be shown, if `surfaces` includes claims; None for the configured tiers.
    - `use_summaries`: search summary nodes in addition to everything else.
    - `shown`: condition of the records that may be shown; set by the searcher.
    """

    queries: tuple[str, ...]
    k: int = 10
    offset: int = 0
    mode: Mode = "hybrid"
    corpora: Sequence[str] = ()
    surfaces: Sequence[str] = ()
    tiers: Sequence[str] | None = None
    use_summaries: bool = False
    where: str | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    blend: float | None = 0.5
    per_artifact: bool = False
    recency: Recency | None = None
    timeout: float | None = None
    explain: bool = False
    rewrite: Callable[[Sequence[str]], tuple[str, ...]] | None = None
    route: Route | None = None
    rerank: RerankStep | None = None
    post_processors: Sequence[PostProcessor] = ()
    shown: str | None = None

    @property
    def hits_needed(self) -> int:
        """Number of hits needed to fill the page."""
        return self.offset + self.k

    @property
    def scores_from_ranks(self) -> bool:
        """Whether scores come from reciprocal rank fusion, and so do not measure similarity."""
        return self.blend is None and (self.mode == "hybrid" or len(self.queries) > 1)

    @property
    def condition(self) -> str | None:
        """All filters as one SQL expression; None without filters."""
        asked = (*self.surfaces, SUMMARY) if self.surfaces and self.use_summaries else self.surfaces
        return self.condition_of(asked)

    def condition_of(self, surfaces: Sequence[str]) -> str | None:
        """Return all filters as one SQL expression, with the given surface kinds in place of the requested ones.

        An empty sequence means every kind. Returns None without filters.
        """
        columns = (("corpus", self.corpora), ("surface_kind", surfaces))
        parts = [one_of(column, values) for column, values in columns if values]
        return " AND ".join([*parts, *filter(None, (self.shown, self.where))]) or None

    def check(self) -> None:
        """Raise QueryError for a request that is invalid for any index."""
        for problem in (*_query_problems(self.queries), *_number_problems(self)):
            raise QueryError(problem)


def _query_problems(queries: Sequence[str]) -> Iterator[str]:
    if not queries or not all(query.strip() for query in queries):
        yield "the query is empty: give it at least one word"
    if len(queries) > MAX_QUERIES:
        yield f"{len(queries):,} queries at once, at most {MAX_QUERIES}: ask in several searches"
    for query in queries:
        if len(query) > MAX_QUERY_CHARS:
            yield f"the query has {len(query):,} characters, at most {MAX_QUERY_CHARS:,}: shorten it"
        if not any(_is_meaningful(character) for character in query):
            yield f"the query {brief(query)} is only punctuation: give it at least one word"


def _is_meaningful(character: str) -> bool:
    """Return whether a character carries meaning: letters, marks, digits and pictures."""
    category = unicodedata.category(character)
    return category[0] in "LNM" or category == "So"


def _number_problems(request: Request) -> Iterator[str]:
    if request.mode not in get_args(Mode):
        yield f"unknown mode {request.mode!r}. Known: {', '.join(get_args(Mode))}"
    if request.k < 1:
        yield f"k must be at least 1, got {request.k}"
    if request.offset < 0:
        yield f"offset must be at least 0, got {request.offset}"
    if request.hits_needed > MAX_DEPTH:
        yield (
            f"k plus offset must be at most {MAX_DEPTH:,}, got {request.hits_needed:,}: to get all records, read the"
            " table `records`"
        )
    if request.blend is not None and not 0 <= request.blend <= 1:
        yield f"blend, the share of dense, must be from 0 to 1, got {request.blend:g}"
    for kind, weight in request.weights.items():
        if not 0 < weight < math.inf:
            yield f"the weight of {kind} must be above 0, got {weight:g}: to leave out kinds, use `surfaces`"
    if request.recency and not 0 < request.recency.half_life < math.inf:
        yield f"the half-life of {request.recency.field} must be above 0 days, got {request.recency.half_life:g}"
    if request.timeout is not None and not request.timeout > 0:
        yield f"timeout must be above 0 seconds, got {request.timeout:g}"


@runtime_checkable
class Route(Protocol):
    """Route from candidates to other candidates, such as from a synopsis to the rest of its artifact."""

    @property
    def closed(self) -> bool:
        """Whether too few candidates are accepted; if false, the search reads deeper and runs the route again."""

    def scope(self, request: Request) -> str | None:
        """Return the condition of the records that the query itself ranks, such as summaries only."""

    def route(self, reader: Reader, request: Request, ranked: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates in their new order."""


class PostProcessor(Protocol):
    """Step that changes the hits of a page: drops some, or adds text or claims."""

    def process(self, reader: Reader, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return the hits in their final form."""


LEAVES = "chunk"
"""Granularity of leaves."""

IS_LEAF = equals("granularity", LEAVES)

IS_SUMMARY = f"NOT ({IS_LEAF})"
"""Condition of summary records: those of any other granularity."""
