"""Embedder that calls an endpoint in the format of the OpenAI API."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt
from pydantic import BaseModel, BeforeValidator, ValidationError

from findingaid.embedding.prompts import Prompts, preset_of
from findingaid.embedding.shortening import shorten
from findingaid.errors import ConfigError, EmbedError, SynthesisError
from findingaid.llm.endpoint import connection_of
from findingaid.llm.parameters import EndpointParameters
from findingaid.model import Vectors
from findingaid.registry import checked

CHARACTERS = 3
"""Characters of a token, fewer than in most text, so that an estimate is rarely too low."""

DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Length of the vectors of known models. That of other models is learned by a request."""


PROBE = "dimensions"
"""Text that every model can embed."""


def _decoded(embedding: Any) -> Any:
    """Return the numbers of a vector in base64, the form that some servers use whatever was asked for."""
    if isinstance(embedding, list) and bool in map(type, embedding):
        raise ValueError("true and false are no numbers")
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4").tolist()
    except ValueError:
        raise ValueError("expected numbers, or float32 in base64") from None


class _Vector(BaseModel):
    index: int
    embedding: Annotated[list[float], BeforeValidator(_decoded)]


class _Vectors(BaseModel):
    data: list[_Vector]


@checked
@dataclass(frozen=True, kw_only=True)
class OpenAIEmbedder(EndpointParameters):
    """Embedder that calls `/embeddings` at `base_url`: OpenAI, vLLM, TEI, Ollama, llama.cpp and other servers.

    `revision` is any name for the state of the model, which may change at the endpoint: a new one embeds everything
    again. `query_prompt` and `document_prompt` precede each query and text; by default they are those of a well-known
    model. With `dimensions`, vectors are shortened to their first numbers, which suits only Matryoshka models.
    `max_tokens` is what the model reads of a text; without it, texts are cut by characters. Tokens are estimated.
    `batch_size` is the number of texts in a request.
    """

    revision: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    dimensions: Annotated[int, Gt(0)] | None = None
    max_tokens: Annotated[int, Gt(0)] | None = None
    batch_size: Annotated[int, Gt(0)] = 64
    too_long: ClassVar[str] = "set embedder.max_tokens to what the model reads"

    @property
    def id(self) -> str:
        """Identifier of model and prompts, without the address: the same model elsewhere makes the same vectors."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"openai-{self.model}{revision}{self._prompts.id}{f'-{self.dimensions}d' if self.dimensions else ''}"

    @cached_property
    def dim(self) -> int:
        return self.dimensions or DIMENSIONS.get(self.model) or len(self._request([PROBE])[0])

    def count_tokens(self, text: str) -> int:
        return math.ceil(len(text) / CHARACTERS)

    def embed(self, texts: Sequence[str]) -> Vectors:
        prompt = self._prompts.document or ""
        asked = [prompt + text for text in texts]
        batches = [asked[at : at + self.batch_size] for at in range(0, len(asked), self.batch_size)]
        found = [shorten(self._request(batch), self.dimensions) for batch in batches]
        return np.concatenate(found) if found else np.empty((0, self.dim), np.float32)

    def embed_query(self, text: str) -> Vectors:
        try:
            vector: Vectors = shorten(self._request([(self._prompts.query or "") + text]), self.dimensions)[0]
        except ConfigError as error:  # who asks a server cannot change its configuration
            raise EmbedError(str(error), "auth") from None
        return vector

    @cached_property
    def _prompts(self) -> Prompts:
        return Prompts(self.query_prompt, self.document_prompt).over(preset_of(self.model))

    def _request(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of these texts, as the endpoint gives them."""
        connection = connection_of(self, self.endpoint, self.limits)
        probe = None if texts == [PROBE] else self._body([PROBE])
        try:
            answer = connection.loop.submit(connection.post("/embeddings", self._body(texts), probe=probe)).result()
            found = _Vectors.model_validate(answer).data
        except SynthesisError as error:
            raise self._error(error, texts) from None
        except ValidationError:
            raise EmbedError(f"{self._where}: the answer has no data with index and embedding", "parse") from None
        by_index = {vector.index: vector.embedding for vector in found}
        places = list(range(len(texts)))
        lengths = {len(vector) for vector in by_index.values()}
        if sorted(vector.index for vector in found) != places or len(lengths) > 1 or 0 in lengths:
            raise EmbedError(
                f"{self._where}: expected a vector of the same length for each of {len(texts)} texts", "parse"
            )
        with np.errstate(over="ignore"):  # infinite then, and refused
            return np.asarray([by_index[place] for place in places], np.float32)

    def _body(self, texts: Sequence[str]) -> dict[str, Any]:
        # An empty text is an error for most servers.
        return {"model": self.model, "input": [text or " " for text in texts], "encoding_format": "float"}

    def _error(self, error: SynthesisError, texts: Sequence[str]) -> Exception:
        """Return an error of the configuration if no text can be embedded, else one of these texts."""
        message = f"{self._where}: {error}"
        if error.kind in {"auth", "budget"} and (texts == [PROBE] or not self._answers()):
            return ConfigError(f"embedder: {message}")
        return EmbedError(message, error.kind)

    def _answers(self) -> bool:
        """Return whether the endpoint embeds any text. A firewall before it may forbid single texts."""
        try:
            self._request([PROBE])
        except (ConfigError, EmbedError):
            return False
        return True

    @property
    def _where(self) -> str:
        return f"{self.model} at {self.endpoint.where}"
