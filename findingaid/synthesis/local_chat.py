"""Synopses by a model in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from findingaid.llm.local import LOCAL_CONTEXT, LocalParameters
from findingaid.registry import checked
from findingaid.synthesis.chat import SYNOPSIS_TOKENS, ChatSynthesizer


@checked
@dataclass(frozen=True, kw_only=True)
class LocalSynthesizer(ChatSynthesizer, LocalParameters):
    """Asks the model at `path` for each synopsis; see `LocalParameters`.

    A text longer than `context_tokens` is written about in parts, and the synopses of the parts are then combined.
    """

    context_tokens: Annotated[int, Ge(2 * SYNOPSIS_TOKENS)] = LOCAL_CONTEXT
