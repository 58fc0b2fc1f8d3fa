"""Contexts of chunks: a sentence by a model that places a chunk in its document (contextual retrieval).

The document is the first part of every request about its chunks, so that endpoints that cache prefixes read it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import orjson

from findingaid.identity.hashes import text_hash, to_json
from findingaid.llm.caller import Caller
from findingaid.llm.completions import short_text
from findingaid.llm.parameters import ProducerParameters
from findingaid.llm.prompts import Prompt, as_data, estimate_tokens, load_template, split_text
from findingaid.llm.rate_limits import StillWanted
from findingaid.model import CallResult, Synopsis, SynthesizerInput, Usage

CONTEXT_TOKENS = 200
"""Longest context, in tokens. The prompt asks for 40 words."""

EXPECTED_TOKENS = 50
"""Expected tokens of an answer, for a plan."""

BEGINNING = 80
"""Characters of a chunk by which the part of a long document that it is in is found."""


@dataclass(frozen=True)
class ChunkContexts:
    """Writer of the contexts of chunks, with the model and the parameters of a synthesizer.

    It is a synthesizer whose text is one of the `inputs`: a document and a chunk of it, as JSON.
    """

    of: ProducerParameters
    version: ClassVar[int] = 1

    @property
    def model(self) -> str:
        return self._caller.request.model

    @cached_property
    def id(self) -> str:
        return f"{self._asking.producer_id(self.version, self._prompt.system, load_template('chunk'))}-chunk"

    def inputs(self, document: str, chunks: Iterable[str]) -> list[str]:
        """Return the input for each chunk. Of a document that is too long, it has the part that the chunk is in."""
        parts = split_text(document, self.of.context_tokens)
        return [
            to_json([next((part for part in parts if chunk[:BEGINNING] in part), parts[0]), chunk]) for chunk in chunks
        ]

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return self._caller.run(text, text_hash(text), self._context).get()

    def synthesize_all(self, shown: Sequence[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
        """Yield contexts in the order in which they arrive, each with its index in `shown`; see `Caller.run_all`."""
        texts = (one.text for one in shown)
        with closing(self._caller.run_all(texts, text_hash, self._context, _document_hash)) as results:
            for index, result in results:
                yield index, result.to_synopsis()

    def estimate(self, text: str) -> Usage:
        """Return the estimated tokens of a context, without a call."""
        return Usage(1, estimate_tokens(self._prompt.system) + estimate_tokens(text), EXPECTED_TOKENS)

    def most(self, text: str) -> Usage | None:
        """Return the maximum usage of a context if its request is sent once; None if nothing limits the answer."""
        return self._caller.request.most_of([self.estimate(text)])

    @cached_property
    def _asking(self) -> ProducerParameters:
        """Parameters of the synthesizer, for answers that are plain text."""
        return replace(self.of, structured=False, prompt=None)

    @cached_property
    def _caller(self) -> Caller:
        return self._asking.caller

    @cached_property
    def _prompt(self) -> Prompt:
        return Prompt(load_template("chunk_context"), "form_context")

    async def _context(self, text: str, wanted: StillWanted) -> CallResult[str]:
        document, chunk = orjson.loads(text)
        messages = self._prompt.about("chunk", document, chunk=as_data(chunk))
        return await self._caller.call(messages, self._parse, wanted)

    def _parse(self, content: str) -> str:
        """Return the context that a model wrote, "" if it has nothing to say. Raises SynthesisError."""
        return short_text(content, CONTEXT_TOKENS, "the context of a chunk")


def _document_hash(text: str) -> str:
    """Return the hash of the document of an input, or of the part that the chunk is in."""
    return text_hash(orjson.loads(text)[0])
