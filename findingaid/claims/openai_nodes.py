"""Summary nodes by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pydantic import BaseModel, Field

from findingaid.claims.forms import SHOWN_OF_REFUSED, members_text
from findingaid.claims.nodes import FEWEST, MOST, THEMES
from findingaid.errors import SynthesisError
from findingaid.llm.completions import TEXT, ModelText, array_schema, object_schema, parse_json, response_format
from findingaid.llm.parameters import ProducerParameters
from findingaid.llm.prompts import Messages, Prompt, estimate_tokens, load_template, to_one_line
from findingaid.llm.rate_limits import StillWanted
from findingaid.model import CallResult, Usage
from findingaid.protocols import Bullet, Draft, Member
from findingaid.registry import checked
from findingaid.synthesis.extractive import centrality

EXPECTED_TOKENS = 400
"""Estimated tokens of one answer, for a plan."""

NODE_TOKENS = 1_500
"""Maximum tokens of a summary of at most 7 points. A longer answer is not a summary, and no part of it is used."""

CLAIM_CHARACTERS = 500
"""Maximum characters of a claim that a model is shown."""

RESPONSE_FORMAT = response_format(
    "summary",
    object_schema(
        {
            "bullets": array_schema(object_schema({"text": TEXT, "claims": array_schema({"type": "integer"})})),
            "themes": array_schema(TEXT),
            "confidence": {"type": "number"},
        }
    ),
)


class _Bullet(BaseModel):
    text: ModelText
    claims: list[int]


class _Answer(BaseModel, extra="forbid"):
    bullets: list[_Bullet]
    themes: list[ModelText] = Field(default_factory=list)
    confidence: float = Field(default=1.0, ge=0, le=1)


@checked
@dataclass(frozen=True)
class OpenAINodes(ProducerParameters):
    """Summary nodes by `model`: 3 to 7 points over claims, each citing claims; see `ProducerParameters`.

    `prompt` is a file that says how to summarize. If the claims do not fit into `context_tokens`, only the most central
    are shown. Without `structured`, only the prompt asks for JSON. Claims are cited by their numbers. A number that no
    claim was shown with is refused, and so is a point that cites no other.
    """

    response_format = RESPONSE_FORMAT
    version: ClassVar[int] = 1

    @cached_property
    def instructions(self) -> Prompt:
        """Prompt with the system message, the same for all claims."""
        return Prompt(self.task("nodes"), "form_nodes")

    @cached_property
    def id(self) -> str:
        words = self.instructions.system, self.structured, load_template("members"), CLAIM_CHARACTERS
        return self.producer_id(self.version, *words)

    def calls_for(self, members: Sequence[Member]) -> list[Usage]:
        """Return the one call that claims take; no call without claims."""
        if not members:
            return []
        messages = self._messages(self._fitting(members))
        return [Usage(1, sum(estimate_tokens(message["content"]) for message in messages), EXPECTED_TOKENS)]

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        return self.caller.run(members, members_text(members), self._draft).get()

    def call_all(self, inputs: Iterable[Sequence[Member]]) -> Generator[tuple[int, CallResult[Draft | None]]]:
        return self.caller.run_all(inputs, members_text, self._draft)

    async def _draft(self, members: Sequence[Member], wanted: StillWanted) -> CallResult[Draft | None]:
        if not members:
            return CallResult(None)
        shown = self._fitting(members)
        unseen = len(members) - len(shown)
        return await self.caller.call(self._messages(shown), lambda content: read(content, shown, unseen), wanted)

    def _messages(self, members: Sequence[Member]) -> Messages:
        """Return the messages for claims, each numbered and on one line, so that none can pass for two."""
        lines = (f"{n}. {' '.join(member.text.split())[:CLAIM_CHARACTERS]}" for n, member in enumerate(members, 1))
        return self.instructions.about("members", "\n".join(lines))

    def _fitting(self, members: Sequence[Member]) -> list[Member]:
        """Return all members, or the most central that fit into one call, in their order."""
        costs = [estimate_tokens(member.text[:CLAIM_CHARACTERS]) + 2 for member in members]
        if sum(costs) <= self.context_tokens:
            return list(members)
        central = centrality([member.text for member in members])
        kept: set[int] = set()
        left = self.context_tokens
        for i in sorted(range(len(members)), key=lambda i: (-central[i], i)):
            if costs[i] <= left:
                kept.add(i)
                left -= costs[i]
        return [member for i, member in enumerate(members) if i in kept]


def read(content: str, members: Sequence[Member], unseen: int = 0) -> Draft:
    """Parse an answer into a draft; `unseen` claims did not fit into the call. Raises SynthesisError.

    Numbers that no claim was shown with are removed, and so are points that cite no other.
    """
    answer = parse_json(_Answer, content)
    refused = [f"{unseen:,} claims did not fit into the call and were left out"] if unseen else []
    bullets: list[Bullet] = []
    for said in answer.bullets:
        text = to_one_line(said.text)
        known = tuple(dict.fromkeys(members[n - 1].claim_id for n in said.claims if 1 <= n <= len(members)))
        if wrong := [n for n in said.claims if not 1 <= n <= len(members)]:
            refused.append(f"{text[:SHOWN_OF_REFUSED]!r} cites {', '.join(map(str, wrong))}, of {len(members)} claims")
        elif not known:
            refused.append(f"{text[:SHOWN_OF_REFUSED]!r} cites no claim")
        if text and known:
            bullets.append(Bullet(text, known))
    if len(bullets) < min(FEWEST, len(members)):
        raise SynthesisError(
            f"the answer has {len(bullets)} points that cite a claim, expected {FEWEST} to {MOST}", "parse"
        )
    if len(bullets) > MOST:
        refused.append(f"{len(bullets)} points, only the first {MOST} are kept")
    if sum(estimate_tokens(bullet.text) for bullet in bullets[:MOST]) > NODE_TOKENS:
        raise SynthesisError("the answer is too long for a summary", "parse")
    themes = tuple(dict.fromkeys(theme for theme in map(to_one_line, answer.themes) if theme))[:THEMES]
    return Draft(tuple(bullets[:MOST]), themes, answer.confidence, tuple(refused))
