"""Hits in the order of a reranker, which reads each text beside the query."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Gt
from pydantic import BaseModel, ValidationError

from findingaid.errors import ModelError
from findingaid.model import Hit, Rank, Reranker
from findingaid.query.called import calling, named
from findingaid.query.service import Service
from findingaid.registry import STRICT

if TYPE_CHECKING:
    from findingaid.query.request import Request

DEPTH = 50
"""Hits that are reranked where no depth is said: what is below is seldom an answer, and each costs a model's pass."""

Scores = Callable[[str, Sequence[str]], Sequence[float]]


def rerank(query: str, hits: Sequence[Hit], reranker: Reranker | Scores) -> list[Hit]:
    """All of `hits`, with the reranker's scores, best first; equal ones stay in their order.

    Raises ModelError where the reranker fails, or does not give one finite number a text.
    """
    return by_scores(hits, _scores(query, [hit.text for hit in hits], reranker)) if hits else []


def by_scores(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    """Hits with these scores, best first; equal ones stay in their order."""
    scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)


def _scores(query: str, texts: Sequence[str], reranker: Reranker | Scores) -> list[float]:
    score = reranker.scores if isinstance(reranker, Reranker) else reranker
    with calling(named("reranker", reranker)):
        scores = [float(found) for found in score(query, texts)]
    if len(scores) != len(texts):
        raise ModelError(f"{named('reranker', reranker)}: gave {len(scores)} scores for {len(texts)} texts", "parse")
    if wrong := [found for found in scores if not math.isfinite(found)]:
        raise ModelError(f"{named('reranker', reranker)}: gave {wrong[0]} as a score", "parse")
    return scores


@dataclass(frozen=True)
class Reranking:
    """The step of a search that puts its best `depth` hits in a reranker's order, for what was asked at first.

    Of several queries that were asked the mean of the scores counts.
    """

    reranker: Reranker | Scores
    depth: int
    queries: Sequence[str]

    def rerank(self, request: Request, hits: Sequence[Hit]) -> Sequence[Hit]:
        if not hits:
            return hits
        texts = [hit.text for hit in hits]
        of_each = [_scores(query, texts, self.reranker) for query in self.queries]
        ranked = by_scores(hits, [sum(found) / len(of_each) for found in zip(*of_each, strict=True)])
        if not request.explain:
            return ranked
        places = {hit.record_id: Rank("search", 0, place, hit.score) for place, hit in enumerate(hits, 1)}
        return [
            replace(hit, ranks=(*hit.ranks, places[hit.record_id], Rank("reranker", 0, place, hit.score)))
            for place, hit in enumerate(ranked, 1)
        ]


@dataclass(frozen=True)
class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers: a folder, or a name on the Hugging Face hub.

    It is loaded with the first query, and once. Scores are between 0 and 1. `max_length` is in tokens of query and
    text together, by default what the model sees.
    """

    model: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    device: str | None = None
    revision: str | None = None
    batch_size: Annotated[int, Gt(0)] = 32
    max_length: Annotated[int, Gt(0)] | None = None
    __pydantic_config__: ClassVar = STRICT

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        from torch.nn import Sigmoid

        found = self._encoder.predict(
            [(query, text) for text in texts],
            batch_size=self.batch_size,
            show_progress_bar=False,
            activation_fn=Sigmoid(),  # instead of the model's own, so that scores of all models are on one scale
        )
        return [float(score) for score in found]

    @cached_property
    def _encoder(self) -> Any:
        from sentence_transformers import CrossEncoder

        name = str(Path(self.model).expanduser())
        try:
            encoder: Any = CrossEncoder(
                name, device=self.device, revision=self.revision, max_length=self.max_length, trust_remote_code=False
            )
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ModelError(f"reranker.model: {self.model!r} cannot be loaded: {said[0]}", "missing") from error
        if encoder.num_labels != 1:
            raise ModelError(
                f"reranker.model: {self.model!r} tells {encoder.num_labels} classes apart: name one that gives a score"
            )
        return encoder


class _Judged(BaseModel):
    index: int
    relevance_score: float


class _Results(BaseModel):
    results: list[_Judged]


@dataclass(frozen=True, kw_only=True)
class EndpointReranker(Service):
    """A `/rerank` endpoint as of Cohere, Jina, vLLM, llama.cpp, LiteLLM and others, at `base_url`."""

    base_url: str
    api_key_env: str = "RERANK_API_KEY"
    __pydantic_config__: ClassVar = STRICT

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        body = {"model": self.model, "query": query, "documents": list(texts), "top_n": len(texts)}
        try:
            results = _Results.model_validate(self.post("/rerank", body)).results
        except ValidationError:
            raise self.error("the answer has no results with index and relevance_score") from None
        judged = {result.index: result.relevance_score for result in results}
        if sorted(result.index for result in results) != list(range(len(texts))):
            raise self.error(f"the answer does not judge each of {len(texts)} texts once, but {sorted(judged)[:20]}")
        return [judged[place] for place in range(len(texts))]
