"""What is asked of the index: everything that a search depends on, besides the index and the embedder."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from findingaid.errors import QueryError, brief
from findingaid.model import SUMMARY, Mode
from findingaid.store.sql import one_of

if TYPE_CHECKING:
    from findingaid.query.search import After, Rerank, Route

LONGEST = 10_000
"""Characters of a query. An embedder reads the first thousand or so of them."""

MOST_QUERIES = 32
"""Queries of one search; each is embedded and ranked for itself."""

DEEPEST = 10_000
"""Hits that can be paged to. Whoever wants all records reads the table."""


@dataclass(frozen=True, slots=True)
class Recency:
    """What is younger counts more: a record's score is halved for every `half_life` days of its age by a time field.

    A record without the time counts as one that is a half-life old; one of the future as new.
    """

    field: str
    half_life: float


@dataclass(frozen=True, slots=True)
class Request:
    """A search. `where` is SQL, which `Searcher.search` checks before any step sees it.

    `surfaces` keeps these kinds, `weights` multiplies the scores of some. `blend` is the share of dense in a hybrid
    score; None fuses by reciprocal ranks. `timeout` is in seconds. `tiers` are those of the claims that may be shown,
    where kinds of claims are asked for; `shown` is the condition of what may be, which the searcher sets. With
    `use_summaries` summary nodes are found beside everything else.
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
    rerank: Rerank | None = None
    after: Sequence[After] = ()
    shown: str | None = None

    @property
    def wanted(self) -> int:
        """How many hits there must be for the page to be full."""
        return self.offset + self.k

    @property
    def condition(self) -> str | None:
        """All filters as one SQL expression."""
        asked = (*self.surfaces, SUMMARY) if self.surfaces and self.use_summaries else self.surfaces
        return self.condition_of(asked)

    def condition_of(self, surfaces: Sequence[str]) -> str | None:
        """The filters, with other surface kinds in the place of those asked for; none for every kind."""
        columns = (("corpus", self.corpora), ("surface_kind", surfaces))
        parts = [one_of(column, values) for column, values in columns if values]
        return " AND ".join([*parts, *filter(None, (self.shown, self.where))]) or None

    def check(self) -> None:
        """Raises QueryError for what no index could answer."""
        for problem in (*_of_queries(self.queries), *_of_numbers(self)):
            raise QueryError(problem)


def _of_queries(queries: Sequence[str]) -> Iterator[str]:
    if not queries or not all(query.strip() for query in queries):
        yield "the query is empty: give it at least one word"
    if len(queries) > MOST_QUERIES:
        yield f"{len(queries):,} queries at once, at most {MOST_QUERIES}: ask in several searches"
    for query in queries:
        if len(query) > LONGEST:
            yield f"the query has {len(query):,} characters, at most {LONGEST:,}: ask for less at once"
        if not any(_says(character) for character in query):
            yield f"the query {brief(query)} is only punctuation: give it at least one word"


def _says(character: str) -> bool:
    """Whether a character stands for something: letters, digits, pictures."""
    category = unicodedata.category(character)
    return category[0] in "LNM" or category == "So"


def _of_numbers(request: Request) -> Iterator[str]:
    if request.mode not in get_args(Mode):
        yield f"unknown mode {request.mode!r}. Known: {', '.join(get_args(Mode))}"
    if request.k < 1:
        yield f"k must be at least 1, got {request.k}"
    if request.offset < 0:
        yield f"offset must be at least 0, got {request.offset}"
    if request.wanted > DEEPEST:
        yield f"k and offset together are at most {DEEPEST:,}, got {request.wanted:,}: read the table records for all"
    if request.blend is not None and not 0 <= request.blend <= 1:
        yield f"blend is the share of dense, from 0 to 1, got {request.blend:g}"
    for kind, weight in request.weights.items():
        if not 0 < weight < math.inf:
            yield f"the weight of {kind} must be above 0, got {weight:g}: leave kinds out by `surfaces`"
    if request.recency and not 0 < request.recency.half_life < math.inf:
        yield f"the half-life of {request.recency.field} must be above 0 days, got {request.recency.half_life:g}"
    if request.timeout is not None and not request.timeout > 0:
        yield f"timeout must be above 0 seconds, got {request.timeout:g}"
