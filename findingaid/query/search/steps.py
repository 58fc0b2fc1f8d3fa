"""Optional steps of a search (rewrite, rerank, select, expand), created from objects, functions or specs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from findingaid.corpus import Corpus
from findingaid.errors import QueryError
from findingaid.protocols import Rewriter
from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS, SearchDefaults
from findingaid.query.search.expand import ExpansionStep, Extent, parse_extent
from findingaid.query.search.options import (
    DESCRIPTIONS,
    RerankerOption,
    RewriterOption,
    SearchOptions,
    SelectorOption,
)
from findingaid.query.search.request import PostProcessor, Request
from findingaid.query.search.rerank import RerankStep
from findingaid.query.search.rewrite import RewriteFunction, rewrite_query
from findingaid.query.search.routing import resolve_route
from findingaid.query.search.select import SelectionStep
from findingaid.registry import Registry


@dataclass(frozen=True)
class SearchSteps:
    """Factory of the steps that a search requests. Caches the object made from a spec, so that a model loads once."""

    corpora: Mapping[str, Corpus]
    defaults: SearchDefaults
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def request(self, query: str | Sequence[str], k: int, corpora: Sequence[str], options: SearchOptions) -> Request:
        """Return the request of a search with these options. None is the default of an option, or the configured one.

        Raises TypeError for an unknown option, ConfigError for an invalid spec, QueryError for other invalid options.
        """
        if unknown := sorted(options.keys() - DESCRIPTIONS.keys()):
            raise TypeError(f"search() got an unexpected keyword argument {unknown[0]!r}")
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        steps = {name: given.pop(name, None) for name in ("rewrite", "rerank", "rerank_depth", "select", "expand")}
        blend = given.pop("blend", self.defaults.blend)
        route = resolve_route(given.pop("route")) if "route" in given else self.defaults.route
        queries = (query,) if isinstance(query, str) else tuple(query)
        request = Request(queries, k, corpora=corpora, blend=None if blend == "rrf" else blend, route=route, **given)
        return replace(request, **self.request_fields(request, **steps))

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
