"""What a search has done for it before and after the ranking, by objects, functions or specs of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from findingaid.config import RERANKERS, REWRITERS, SELECTORS, SearchDefaults
from findingaid.errors import QueryError
from findingaid.model import Corpus, Reranker, Rewriter, Selector
from findingaid.query.expand import Expansion, Extent, extent_of
from findingaid.query.request import Request
from findingaid.query.rerank import Reranking, Scores
from findingaid.query.rewrite import Rewrite, queries_of
from findingaid.query.search import After
from findingaid.query.select import Select, Selecting
from findingaid.registry import Registry
from findingaid.store import Store

Spec = str | Mapping[str, Any] | bool | None
"""A kind, keys and values, False for none, None for what the configuration says."""

RewrittenBy = Rewriter | Rewrite | Spec
RerankedBy = Reranker | Scores | Spec
SelectedBy = Selector | Select | Spec


@dataclass(frozen=True)
class Parts:
    """Makes the steps that a search asks for; what it made of a spec is kept, so that a model is loaded once."""

    store: Store
    corpora: Mapping[str, Corpus]
    defaults: SearchDefaults
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def added(
        self,
        request: Request,
        rewrite: RewrittenBy = None,
        rerank: RerankedBy = None,
        rerank_depth: int | None = None,
        select: SelectedBy = None,
        expand: Extent | str | None = None,
    ) -> dict[str, Any]:
        """What these change of a request. Raises ConfigError for a spec that is none, QueryError for anything else."""
        rewriter = self._part(REWRITERS, "rewrite", rewrite, self.defaults.rewrite)
        reranker = self._part(RERANKERS, "rerank", rerank, self.defaults.rerank)
        selector = self._part(SELECTORS, "select", select, self.defaults.select)
        extent = self.defaults.expand if expand is None else expand
        depth = self.defaults.rerank_depth if rerank_depth is None else rerank_depth
        if depth < 1:
            raise QueryError(f"rerank_depth must be at least 1, got {depth}")
        after: list[After] = [Selecting(selector, "\n".join(request.queries))] if selector else []
        if extent is not None and extent is not False and extent != "none":
            after.append(Expansion(extent_of(extent), self.store, self.corpora))
        return {
            "rewrite": rewriter and (lambda queries: _all_queries(queries, rewriter)),
            "rerank": reranker and Reranking(reranker, max(depth, request.wanted), request.queries),
            "after": after,
        }

    def _part(self, registry: Registry[Any], name: str, given: Any, default: Any) -> Any:
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


def _all_queries(queries: Sequence[str], rewriter: Rewriter | Rewrite) -> tuple[str, ...]:
    return tuple(dict.fromkeys(written for query in queries for written in queries_of(query, rewriter)))
