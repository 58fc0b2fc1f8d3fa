"""Reranking of hits by a model that reads each text together with the query."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt
from pydantic import BaseModel, ValidationError

from findingaid.embedding.sentence import EXTRA
from findingaid.errors import ModelError, SynthesisError
from findingaid.llm.endpoint import connection_of
from findingaid.llm.parameters import EndpointParameters
from findingaid.model import Hit, Rank
from findingaid.protocols import Reranker
from findingaid.query.search.onnx_cross_encoder import OnnxCrossEncoder, graph_in
from findingaid.query.search.user_code import component_name, convert_exceptions
from findingaid.registry import checked, said

ScoreFunction = Callable[[str, Sequence[str]], Sequence[float]]


def _score_texts(query: str, texts: Sequence[str], reranker: Reranker | ScoreFunction) -> list[float]:
    """Return one finite score for each text. Raises ModelError if the reranker fails, or returns anything else."""
    score = reranker.scores if isinstance(reranker, Reranker) else reranker
    with convert_exceptions(component_name("reranker", reranker)):
        scores = [float(found) for found in score(query, texts)]
    if len(scores) != len(texts):
        raise ModelError(
            f"{component_name('reranker', reranker)}: returned {len(scores)} scores for {len(texts)} texts", "parse"
        )
    if wrong := [found for found in scores if not math.isfinite(found)]:
        raise ModelError(f"{component_name('reranker', reranker)}: returned {wrong[0]} as a score", "parse")
    return scores


@dataclass(frozen=True)
class RerankStep:
    """Search step that reranks the best `depth` hits, by the original queries and not the rewritten ones.

    With several queries, a hit's score is the mean of its scores for each query.
    """

    reranker: Reranker | ScoreFunction
    depth: int
    queries: Sequence[str]

    def rerank(self, hits: Sequence[Hit], explain: bool = False) -> Sequence[Hit]:
        """Return the same hits with new scores, best first; equal scores keep their order. Raises ModelError."""
        if not hits:
            return hits
        texts = [hit.text for hit in hits]
        start = time.perf_counter()
        of_each = [_score_texts(query, texts, self.reranker) for query in self.queries]
        means = (sum(found) / len(of_each) for found in zip(*of_each, strict=True))
        scored = [replace(hit, score=score) for hit, score in zip(hits, means, strict=True)]
        ranked = sorted(scored, key=lambda hit: -hit.score)
        if not explain:
            return ranked
        cost = f"{len(texts) * len(of_each)} texts in {time.perf_counter() - start:.2f} s"
        places = {hit.record_id: Rank("search", 0, place, hit.score) for place, hit in enumerate(hits, 1)}
        return [
            replace(hit, ranks=(*hit.ranks, places[hit.record_id], Rank("reranker", 0, place, hit.score, cost=cost)))
            for place, hit in enumerate(ranked, 1)
        ]


@checked
@dataclass(frozen=True)
class CrossEncoderReranker:
    """Reranker that runs a sentence-transformers cross-encoder: a folder, or a name on the Hugging Face hub.

    The model is loaded once, on the first query. Scores are between 0 and 1. `max_length` is the length of query and
    text together, in tokens; the default is the model's own limit. A folder with a graph in ONNX runs on the CPU
    through onnxruntime, without torch, unless a `device` is set.
    """

    model: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    device: str | None = None
    revision: str | None = None
    batch_size: Annotated[int, Gt(0)] = 32
    max_length: Annotated[int, Gt(0)] | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if self._graph:
            return self._graph.scores(query, texts)
        encoder = self._encoder  # says what to install, where the import of torch would not
        from torch.nn import Sigmoid

        found = encoder.predict(
            [(query, text) for text in texts],
            batch_size=self.batch_size,
            show_progress_bar=False,
            activation_fn=Sigmoid(),  # instead of the model's own, so that all models score on one scale
        )
        return [float(score) for score in found]

    @cached_property
    def _graph(self) -> OnnxCrossEncoder | None:
        """The model as a graph, if it is a folder with one and no device is set. Raises ModelError."""
        folder = Path(self.model).expanduser()
        if self.device is not None or graph_in(folder) is None:
            return None
        try:
            return OnnxCrossEncoder(folder, self.max_length, self.batch_size)
        except Exception as error:  # noqa: BLE001  # onnxruntime and tokenizers raise errors of their own
            raise ModelError(f"reranker.model: {self.model!r} cannot be loaded: {said(error)}", "missing") from None

    @cached_property
    def _encoder(self) -> Any:
        encoder = load_cross_encoder(
            "reranker", self.model, device=self.device, revision=self.revision, max_length=self.max_length
        )
        if encoder.num_labels != 1:
            raise ModelError(
                f"reranker.model: {self.model!r} has {encoder.num_labels} output classes:"
                " choose a model with a single score"
            )
        return encoder


def load_cross_encoder(family: str, model: str, **options: Any) -> Any:
    """Load a sentence-transformers cross-encoder for a component of a family. Raises ModelError."""
    try:
        from sentence_transformers import CrossEncoder
    except ModuleNotFoundError:
        raise ModelError(f"{family}: {model!r} needs sentence-transformers: pip install '{EXTRA}'", "missing") from None
    try:
        return CrossEncoder(str(Path(model).expanduser()), trust_remote_code=False, **options)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{family}.model: {model!r} cannot be loaded: {lines[0]}", "missing") from error


class _Judged(BaseModel):
    index: int
    relevance_score: float


class _Results(BaseModel):
    results: list[_Judged]


@checked
@dataclass(frozen=True, kw_only=True)
class EndpointReranker(EndpointParameters):
    """Reranker that calls a `/rerank` endpoint at `base_url`, such as Cohere, Jina, vLLM, llama.cpp or LiteLLM."""

    base_url: str
    api_key_env: str = "RERANK_API_KEY"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        body = {"model": self.model, "query": query, "documents": list(texts), "top_n": len(texts)}
        connection = connection_of(self, self.endpoint, self.limits)
        try:
            answer = connection.loop.submit(connection.post("/rerank", body)).result()
            results = _Results.model_validate(answer).results
        except SynthesisError as error:
            raise self._error(str(error), error.kind) from None
        except ValidationError:
            raise self._error("the answer has no results with index and relevance_score") from None
        judged = {result.index: result.relevance_score for result in results}
        if sorted(result.index for result in results) != list(range(len(texts))):
            raise self._error(
                f"the answer must score each of {len(texts)} texts once, got scores for {sorted(judged)[:20]}"
            )
        return [judged[place] for place in range(len(texts))]

    def _error(self, message: str, kind: str = "parse") -> ModelError:
        return ModelError(f"{self.model} at {self.endpoint.where}: {message}", kind)
