"""Synopses by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt
from pydantic import BaseModel

from findingaid.errors import SynthesisError
from findingaid.identity.hashes import text_hash
from findingaid.llm.batch_api import BatchClient
from findingaid.llm.completions import TEXT, object_schema, parse_json, response_format, short_text
from findingaid.llm.parameters import ProducerParameters
from findingaid.llm.prompts import Messages, Prompt, estimate_tokens, load_template, split_text, to_one_line
from findingaid.llm.rate_limits import StillWanted
from findingaid.model import CallResult, Synopsis, SynthesizerInput, Usage
from findingaid.registry import checked
from findingaid.synthesis.chunk_contexts import ChunkContexts

SYNOPSIS_TOKENS = 1_000
"""Longest synopsis, in tokens. The prompt asks for 120 words; a longer answer than this is rejected as a whole."""

EXPECTED_TOKENS = 160
"""Expected tokens of one answer, for a plan: the 120 words asked for."""

RESPONSE_FORMAT = response_format("synopsis", object_schema({"synopsis": TEXT}))


class _Answer(BaseModel, extra="forbid", strict=True):
    synopsis: str


@checked
@dataclass(frozen=True)
class OpenAISynthesizer(ProducerParameters):
    """Asks `model` for each synopsis; see `ProducerParameters`.

    A text longer than `context_tokens` is sent in parts, and the synopses of the parts are then combined. Only the text
    is sent, no metadata, because synopses are cached by their text. If at least `batch_from` synopses are missing at
    once, they are requested by the batch API, at half the price and within a day.
    """

    context_tokens: Annotated[int, Ge(2 * SYNOPSIS_TOKENS)] = 16_000
    batch_from: Annotated[int, Gt(0)] | None = None
    response_format = RESPONSE_FORMAT
    version: ClassVar[int] = 1
    """Version of the requests. Increment it when the same model, prompt and parameters lead to different requests."""

    @cached_property
    def instructions(self) -> Prompt:
        """Prompt with the system message, which does not depend on the text."""
        return Prompt(self.task("synopsis"), "form_json" if self.structured else "form_text")

    @cached_property
    def id(self) -> str:
        templates = load_template("document"), load_template("part"), load_template("combine")
        return self.producer_id(self.version, self.instructions.system, *templates)

    @cached_property
    def chunk_contexts(self) -> ChunkContexts:
        """Writer of the contexts of chunks, by the same model."""
        return ChunkContexts(self)

    def batches(self) -> BatchClient:
        """Return the batch jobs of this synthesizer."""
        return BatchClient(
            self.id, self.endpoint, self.caller.request, self.instructions, self.parse, self.context_tokens
        )

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return self.caller.run(text, text_hash(text), self._synopsis).get()

    def synthesize_all(self, shown: Iterable[SynthesizerInput]) -> Iterator[tuple[int, Synopsis]]:
        """Yield synopses in the order in which they arrive, each with its index in `shown`; see `Caller.run_all`."""
        with closing(self.caller.run_all((one.text for one in shown), text_hash, self._synopsis)) as results:
            for index, result in results:
                yield index, result.to_synopsis()

    def calls_for(self, text: str) -> list[Usage]:
        """Predict the calls that a text takes: one for each part, then those that combine the parts.

        Tokens are estimates. Fewer calls are made if a part has nothing to say.
        """
        if not text.strip():
            return []
        parts = split_text(text, self.context_tokens)
        around = estimate_tokens(self.instructions.system)
        calls = [around + estimate_tokens(part) for part in parts]
        left = len(parts)
        while left > 1:
            sizes = [len(group) for group in self._groups(range(left))]
            calls += [around + size * EXPECTED_TOKENS for size in sizes if size > 1]
            left = len(sizes)
        return [Usage(1, tokens, EXPECTED_TOKENS) for tokens in calls]

    async def _synopsis(self, text: str, wanted: StillWanted) -> CallResult[str]:
        if not text.strip():
            return CallResult("")
        parts = await self.caller.call_document(
            self.instructions, text, self.context_tokens, "part", self.parse, wanted
        )
        return await self._combined(parts, wanted)

    async def _combined(self, parts: CallResult[list[str]], wanted: StillWanted) -> CallResult[str]:
        """Combine the synopses of parts into one; the usage includes that of the parts."""
        said = [text for text in parts.value or () if text]
        if len(said) <= 1:
            return parts.map(lambda _: "".join(said))
        groups = self._groups(said)
        # A synopsis that is left alone in its group needs no call.
        asked = [self._combine(group) for group in groups if len(group) > 1]
        alone = [group[0] for group in groups if len(group) == 1]
        made = await self.caller.call_each(asked, self.parse, wanted)
        usage = parts.usage + made.usage
        return await self._combined(CallResult(made.value, usage, made.error).map(lambda texts: texts + alone), wanted)

    def _combine(self, synopses: Sequence[str]) -> Messages:
        return self.instructions.about("combine", "\n\n".join(synopses), parts=len(synopses))

    def _groups(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """Return groups of the synopses that one call combines. They fit even if each has the maximum length."""
        size = self.context_tokens // SYNOPSIS_TOKENS
        return [items[start : start + size] for start in range(0, len(items), size)]

    def accepts(self, text: str) -> bool:
        """Return whether a cached synopsis passes the checks of an answer."""
        try:
            return short_text(text, SYNOPSIS_TOKENS, "a synopsis") == text
        except SynthesisError:
            return False

    def parse(self, content: str) -> str:
        """Return the synopsis that a model wrote, "" if it has nothing to say. Raises SynthesisError."""
        if self.structured:
            content = parse_json(_Answer, content).synopsis
            if not to_one_line(content):
                return ""
        return short_text(content, SYNOPSIS_TOKENS, "a synopsis")
