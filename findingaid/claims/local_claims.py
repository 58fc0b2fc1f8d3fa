"""Claims by a model in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from findingaid.claims.chat_claims import ChatClaims
from findingaid.llm.local import LOCAL_CONTEXT, LocalParameters
from findingaid.llm.parameters import LEAST_CONTEXT
from findingaid.registry import checked


@checked
@dataclass(frozen=True, kw_only=True)
class LocalClaims(ChatClaims, LocalParameters):
    """Statements that the model at `path` finds in a text, each with the passage that supports it.

    See `LocalParameters`. A claim whose quote is not in the text is refused.
    """

    context_tokens: Annotated[int, Ge(LEAST_CONTEXT)] = LOCAL_CONTEXT
