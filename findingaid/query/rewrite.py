"""A query in other words, to be searched for beside the query itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt
from pydantic import BaseModel, ConfigDict

from findingaid.errors import ModelError
from findingaid.model import Rewriter
from findingaid.query.called import calling, named
from findingaid.query.service import ChatService, as_data, prompt
from findingaid.registry import STRICT
from findingaid.synthesis.prompting import fill, on_a_line

LONGEST = 1_000
"""Characters of a query that a model may write; what is longer is no query but an answer."""

Rewrite = Callable[[str], str | Sequence[str]]


def queries_of(query: str, rewriter: Rewriter | Rewrite) -> list[str]:
    """The query itself, always first, and what the rewriter makes of it, each once.

    Raises ModelError where the rewriter fails, or gives what is no text.
    """
    rewrite = rewriter.rewrite if isinstance(rewriter, Rewriter) else rewriter
    with calling(named("rewriter", rewriter)):
        written = rewrite(query)
        others = [written] if isinstance(written, str) else list(written)
    if wrong := [other for other in others if not isinstance(other, str)]:
        raise ModelError(f"{named('rewriter', rewriter)}: gave a {type(wrong[0]).__name__}, expected texts", "parse")
    found: dict[str, str] = {}
    for text in (query, *(other for other in others if other.strip())):
        found.setdefault(_plain(text), text)
    return list(found.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


class _Rewritten(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Queries")
    queries: list[str]


@dataclass(frozen=True, kw_only=True)
class OpenAIRewriter(ChatService):
    """Asks a chat model for up to `queries` others, at an OpenAI-compatible endpoint."""

    queries: Annotated[int, Gt(0)] = 3
    __pydantic_config__: ClassVar = STRICT

    def rewrite(self, query: str) -> list[str]:
        system = fill(prompt("rewrite"), queries=self.queries)
        found = self.ask(system, as_data(query), _Rewritten).queries
        written = [on_a_line(each) for each in found]
        if any(len(each) > LONGEST for each in written):
            raise self.error(f"the answer has a query of more than {LONGEST:,} characters")
        return [each for each in written if each][: self.queries]
