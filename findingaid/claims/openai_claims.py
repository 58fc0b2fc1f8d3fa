"""Claims by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from dataclasses import dataclass

from findingaid.claims.chat_claims import ChatClaims
from findingaid.llm.parameters import ProducerParameters
from findingaid.registry import checked


@checked
@dataclass(frozen=True)
class OpenAIClaims(ChatClaims, ProducerParameters):
    """Statements that `model` finds in a text, each with the passage that supports it; see `ProducerParameters`.

    `prompt` is a file that defines a claim. A text longer than `context_tokens` is sent in parts, and its claims are
    those of its parts. Without `structured`, only the prompt asks for JSON. A claim whose quote is not in the text is
    refused.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_batches("claims cannot be requested by batch")
