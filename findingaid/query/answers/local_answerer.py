"""Answers written by a model in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from findingaid.llm.chat import Chat, format_of
from findingaid.llm.local import LocalParameters
from findingaid.protocols import Written
from findingaid.query.answers.generation import WrittenAnswer, write_answer
from findingaid.registry import checked


@checked
@dataclass(frozen=True, kw_only=True)
class LocalAnswerer(LocalParameters):
    """Answers by the model at `path`; see `LocalParameters`."""

    @cached_property
    def _chat(self) -> Chat[WrittenAnswer]:
        return Chat(self.caller_of(format_of(WrittenAnswer)), WrittenAnswer)

    def write(self, query: str, evidence: Mapping[str, str], max_chars: int) -> list[Written]:
        return write_answer(self._chat, query, evidence, max_chars)
