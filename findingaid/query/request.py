"""What is asked of the index: everything that a search depends on, besides the index and the embedder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from findingaid.model import Mode
from findingaid.store.sql import one_of

if TYPE_CHECKING:
    from findingaid.query.search import After, Rerank, Route


@dataclass(frozen=True, slots=True)
class Recency:
    """What is younger counts more: a record's score is halved for each `half_life` days of age by a time field."""

    field: str
    half_life: float


@dataclass(frozen=True, slots=True)
class Request:
    """A search. `where` is SQL, which `Searcher.search` checks before anything else sees it.

    `surfaces` keeps these kinds, `weights` multiplies the scores of some. `blend` is the share of dense in a hybrid
    score, None for reciprocal rank fusion. `timeout` is in seconds.
    """

    queries: tuple[str, ...]
    k: int = 10
    offset: int = 0
    mode: Mode = "hybrid"
    corpora: Sequence[str] = ()
    surfaces: Sequence[str] = ()
    where: str | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    blend: float | None = None
    per_artifact: bool = False
    recency: Recency | None = None
    timeout: float | None = None
    explain: bool = False
    rewrite: Callable[[Sequence[str]], tuple[str, ...]] | None = None
    route: Route | None = None
    rerank: Rerank | None = None
    after: Sequence[After] = ()

    @property
    def wanted(self) -> int:
        """How many hits there must be for the page to be full."""
        return self.offset + self.k

    @property
    def condition(self) -> str | None:
        """All filters as one SQL expression."""
        return self.condition_of(self.surfaces)

    def condition_of(self, surfaces: Sequence[str]) -> str | None:
        """The filters, with other surface kinds in the place of those asked for; none for every kind."""
        parts = [
            one_of(column, values)
            for column, values in (("corpus", self.corpora), ("surface_kind", surfaces))
            if values
        ]
        return " AND ".join([*parts, self.where] if self.where else parts) or None
