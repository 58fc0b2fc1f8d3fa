"""Registries of rerankers, selectors and rewriters, and the defaults of every search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from findingaid.protocols import Reranker, Rewriter, Selector
from findingaid.query.search.request import Route
from findingaid.registry import Registry

RERANKERS: Registry[Reranker] = Registry(
    "reranker",
    "kind",
    Reranker,
    "findingaid.rerankers",
    {
        "cross-encoder": "findingaid.query.search.rerank:CrossEncoderReranker",
        "endpoint": "findingaid.query.search.rerank:EndpointReranker",
    },
)


SELECTORS: Registry[Selector] = Registry(
    "selector",
    "kind",
    Selector,
    "findingaid.selectors",
    {
        "conservative": "findingaid.query.search.select:Conservative",
        "gap": "findingaid.query.search.select:Gap",
        "openai": "findingaid.query.search.select:OpenAISelector",
        "threshold": "findingaid.query.search.select:Threshold",
    },
)


REWRITERS: Registry[Rewriter] = Registry(
    "rewriter", "kind", Rewriter, "findingaid.rewriters", {"openai": "findingaid.query.search.rewrite:OpenAIRewriter"}
)


def _require_share(value: Any) -> Any:
    if value == "rrf" or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1):
        return value
    raise ValueError("expected a number from 0 to 1, or rrf")


Blend = Annotated[float | Literal["rrf"], BeforeValidator(_require_share)]
"""Share of the dense score in a hybrid score, or "rrf" for reciprocal rank fusion."""


@dataclass(frozen=True)
class SearchDefaults:
    """Components and defaults built from `SearchSettings`."""

    rewrite: Rewriter | None = None
    rerank: Reranker | None = None
    rerank_depth: int = 30
    select: Selector | None = None
    expand: int | str | None = None
    memory: int = 512
    """Megabytes that the vectors of an index may take in the memory of a process; 0 leaves them in the table."""

    blend: Blend = 0.5
    route: Route | None = None
