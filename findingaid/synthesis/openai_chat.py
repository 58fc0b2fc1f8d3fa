"""Synopses by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from dataclasses import dataclass

from findingaid.llm.batch_api import BatchClient
from findingaid.llm.parameters import ProducerParameters
from findingaid.registry import checked
from findingaid.synthesis.chat import ChatSynthesizer


@checked
@dataclass(frozen=True)
class OpenAISynthesizer(ChatSynthesizer, ProducerParameters):
    """Asks `model` for each synopsis; see `ProducerParameters`.

    A text longer than `context_tokens` is sent in parts, and the synopses of the parts are then combined. If at least
    `batch_from` synopses are missing at once, they are requested by the batch API, at half the price and within a day.
    """

    def batches(self) -> BatchClient:
        """Return the batch jobs of this synthesizer."""
        return BatchClient(
            self.id, self.endpoint, self.caller.request, self.instructions, self.parse, self.context_tokens
        )
