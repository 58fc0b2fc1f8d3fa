"""Query rewriting: queries in other words, searched for in addition to the original query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from annotated_types import Gt
from pydantic import BaseModel, ConfigDict

from findingaid.errors import ModelError
from findingaid.llm.chat import Chat, ChatParameters
from findingaid.llm.completions import ModelText
from findingaid.llm.prompts import as_data, fill_template, load_template, to_one_line
from findingaid.protocols import Rewriter
from findingaid.query.search.user_code import component_name, convert_exceptions
from findingaid.registry import checked

MAX_REWRITE_CHARS = 1_000
"""Most characters of a query written by a model. A longer text is an answer, not a query."""

RewriteFunction = Callable[[str], str | Sequence[str]]


def rewrite_query(query: str, rewriter: Rewriter | RewriteFunction) -> list[str]:
    """Return the query itself, always first, then the rewriter's queries, without duplicates and blank texts.

    Raises ModelError if the rewriter fails, or returns something other than text.
    """
    rewrite = rewriter.rewrite if isinstance(rewriter, Rewriter) else rewriter
    with convert_exceptions(component_name("rewriter", rewriter)):
        written = rewrite(query)
        others = [written] if isinstance(written, str) else list(written)
    if wrong := [other for other in others if not isinstance(other, str)]:
        raise ModelError(
            f"{component_name('rewriter', rewriter)}: returned a {type(wrong[0]).__name__}, expected texts", "parse"
        )
    found: dict[str, str] = {}
    for text in (query, *(other for other in others if other.strip())):
        found.setdefault(_normalize(text), text)
    return list(found.values())


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


class _Rewritten(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, title="Queries")
    queries: list[ModelText]


@checked
@dataclass(frozen=True, kw_only=True)
class OpenAIRewriter(ChatParameters):
    """Rewriter that asks a chat model for up to `queries` other queries, at an OpenAI-compatible endpoint."""

    queries: Annotated[int, Gt(0)] = 3

    @cached_property
    def _chat(self) -> Chat[_Rewritten]:
        return self.chat(_Rewritten)

    def rewrite(self, query: str) -> list[str]:
        system = fill_template(load_template("rewrite"), queries=self.queries)
        found = self._chat.ask(system, as_data(query)).queries
        written = [to_one_line(each) for each in found]
        if any(len(each) > MAX_REWRITE_CHARS for each in written):
            raise self._chat.error(f"the answer has a query of more than {MAX_REWRITE_CHARS:,} characters")
        return [each for each in written if each][: self.queries]
