"""Options of a search: the one list for the facade, context packs, evaluations, the command line and servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

# Before Python 3.12, Pydantic requires this TypedDict.
from typing_extensions import TypedDict

from findingaid.model import Mode
from findingaid.protocols import Reranker, Rewriter, Selector
from findingaid.query.search.components import Blend
from findingaid.query.search.request import Recency, Route
from findingaid.query.search.rerank import ScoreFunction
from findingaid.query.search.rewrite import RewriteFunction
from findingaid.query.search.select import SelectFunction
from findingaid.query.search.walks import Policy

F = TypeVar("F", bound=Callable[..., Any])

Spec = str | Mapping[str, Any] | bool | None
"""A kind, or a mapping with kind and settings; False for none, True or None for the configured one.

True raises QueryError if none is configured."""

RewriterOption = Rewriter | RewriteFunction | Spec
RerankerOption = Reranker | ScoreFunction | Spec
SelectorOption = Selector | SelectFunction | Spec

FreshnessOption = bool | Literal["verify"]
"""Whether to check freshness: by stamps, or with "verify" by reading the artifacts again."""


class SearchOptions(TypedDict, total=False):
    """Options of a search, as keyword arguments, each with its meaning."""

    corpora: Annotated[Sequence[str] | None, "Only these corpora. Default: all."]
    mode: Annotated[Mode, "Ranking: by meaning, by words, or both."]
    where: Annotated[str | None, "SQL condition on the columns and fields of records, see `fields`."]
    surfaces: Annotated[Sequence[str] | None, "Only these surface kinds; the only way to find claims."]
    tiers: Annotated[Sequence[str] | None, "Only claims of these tiers. Default: those in `review.answer_from`."]
    weights: Annotated[Mapping[str, float] | None, "Surface kind -> factor of its scores."]
    blend: Annotated[
        Blend | None, "Share of the dense score in a hybrid score; rrf: fuse by ranks. Default: 0.5, or as configured."
    ]
    per_artifact: Annotated[bool, "Only the best record of each artifact."]
    recency: Annotated[Recency | None, "Halve a score for every half-life, in days, of age by a time field."]
    offset: Annotated[int, "Number of hits to skip, for the next page."]
    timeout: Annotated[float | None, "Time limit in seconds."]
    explain: Annotated[bool, "Show how each score is computed."]
    route: Annotated[
        str | Route | Policy | None,
        "Route by way of summaries or edges: flat, auto, boost, collapsed, gate or neighbours. collapsed and gate are"
        " hierarchical (parent-child) retrieval. A number sets how many summaries are followed: gate:3."
        " Default: flat, or as configured.",
    ]
    rewrite: Annotated[RewriterOption, "Also search for the query in other words: openai."]
    rerank: Annotated[RerankerOption, "Rerank the best hits: cross-encoder, endpoint."]
    rerank_depth: Annotated[int | None, "Number of best hits to rerank; at least all that are wanted."]
    select: Annotated[SelectorOption, "Keep only as many hits as are enough: conservative, gap, …"]
    expand: Annotated[
        int | str | None, "Extend each hit by this number of neighbours, to its section or to its artifact."
    ]
    use_summaries: Annotated[bool, "Also search summary nodes; show each with its best claims."]
    summary_top_k: Annotated[int, "Number of claims shown with a summary node."]
    fresh: Annotated[
        FreshnessOption,
        "Say whether each source still has the indexed version (fresh: current, changed, gone or unknown). verify also"
        " reads the sources again, and says whether a quoted text is still there.",
    ]


DESCRIPTIONS: Mapping[str, str] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(SearchOptions, include_extras=True).items()
}
"""Option of a search -> its meaning."""


def listing_options(function: F) -> F:
    """Add the options of a search to the docstring of a function, for `help`."""
    listed = "\n".join(f"        - `{name}`: {text}" for name, text in DESCRIPTIONS.items())
    function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n        Options:\n\n{listed}\n"
    return function
