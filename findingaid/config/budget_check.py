"""Check that a budget can be enforced: every model that a run calls needs a bound, and for money a price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from findingaid.claims.forms import draft_calls, extraction_calls
from findingaid.corpus import Corpus
from findingaid.indexing.budget import NO_BUDGET, Bounded, Budget, OfModel, Price, most_counted
from findingaid.protocols import Synthesizer
from findingaid.strategies.with_synopsis import split_synopsis


def check_budget(budget: Budget, prices: Mapping[str, Price], corpora: Iterable[Corpus]) -> None:
    """Raise ConfigError for a model whose use the budget cannot bound before a call."""
    if budget == NO_BUDGET:
        return
    for writer in _writers(corpora):
        most_counted(budget, prices, writer, "")


def _writers(corpora: Iterable[Corpus]) -> Iterator[Synthesizer]:
    """Yield every component that calls a model in a run over these corpora."""
    for corpus in corpora:
        _, of = split_synopsis(corpus.strategy)
        parts: list[object] = [of.synthesizer, of.fallback] if of else []
        if corpus.claims:
            nodes = corpus.claims.nodes
            parts += [extraction_calls(corpus.claims.extractor), draft_calls(nodes) if nodes else None]
        yield from (part for part in parts if isinstance(part, Synthesizer) and isinstance(part, Bounded | OfModel))
