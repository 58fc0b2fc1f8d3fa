"""Optional steps of a search (rewrite, rerank, select, expand), created from objects, functions or specs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from findingaid.corpus import Corpus
from findingaid.errors import QueryError
from findingaid.protocols import Reranker, Rewriter, Selector
from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS, SearchDefaults
from findingaid.query.search.expand import ExpansionStep, Extent, parse_extent
from findingaid.query.search.request import PostProcessor, Request
from findingaid.query.search.rerank import RerankStep, ScoreFunction
from findingaid.query.search.rewrite import RewriteFunction, rewrite_query
from findingaid.query.search.select import SelectFunction, SelectionStep
from findingaid.registry import Registry

Spec = str | Mapping[str, Any] | bool | None
"""A kind, or a mapping with kind and settings; False for none, True or None for the configured one.

True raises QueryError if none is configured."""

RewriterOption = Rewriter | RewriteFunction | Spec
RerankerOption = Reranker | ScoreFunction | Spec
SelectorOption = Selector | SelectFunction | Spec


@dataclass(frozen=True)
class SearchSteps:
    """Factory of the steps that a search requests. Caches the object made from a spec, so that a model loads once."""

    corpora: Mapping[str, Corpus]
    defaults: SearchDefaults
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def request_fields(
        self,
        request: Request,
        rewrite: RewriterOption = None,
        rerank: RerankerOption = None,
        rerank_depth: int | None = None,
        select: SelectorOption = None,
        expand: Extent | str | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a request (rewrite, rerank, post_processors) that these options set.

        Raises ConfigError for an invalid spec, QueryError for any other invalid option.
        """
        rewriter = self._component(REWRITERS, "rewrite", rewrite, self.defaults.rewrite)
        reranker = self._component(RERANKERS, "rerank", rerank, self.defaults.rerank)
        selector = self._component(SELECTORS, "select", select, self.defaults.select)
        extent = self.defaults.expand if expand is None else expand
        depth = self.defaults.rerank_depth if rerank_depth is None else rerank_depth
        if depth < 1:
            raise QueryError(f"rerank_depth must be at least 1, got {depth}")
        post_processors: list[PostProcessor] = [SelectionStep(selector, "\n".join(request.queries))] if selector else []
        if extent is not None and extent is not False and extent != "none":
            post_processors.append(ExpansionStep(parse_extent(extent), self.corpora))
        return {
            "rewrite": rewriter and (lambda queries: _rewrite_all(queries, rewriter)),
            "rerank": reranker and RerankStep(reranker, max(depth, request.hits_needed), request.queries),
            "post_processors": post_processors,
        }

    def _component(self, registry: Registry[Any], name: str, given: Any, default: Any) -> Any:
        if given is None or given is False:
            return default if given is None else None
        if given is True:
            if default is None:
                raise QueryError(f"{name}: the configuration has no search.{name} to use: name a kind")
            return default
        if isinstance(given, str | Mapping):
            spec = {"kind": given} if isinstance(given, str) else dict(given)
            key = json.dumps([name, spec], sort_keys=True, default=repr)
            if key not in self._made:
                self._made[key] = registry.create(spec, name)
            return self._made[key]
        if registry.is_member(given) or callable(given):
            return given
        raise QueryError(f"{name}: expected a {registry.family}, a function or a kind, got a {type(given).__name__}")


def _rewrite_all(queries: Sequence[str], rewriter: Rewriter | RewriteFunction) -> tuple[str, ...]:
    return tuple(dict.fromkeys(written for query in queries for written in rewrite_query(query, rewriter)))
