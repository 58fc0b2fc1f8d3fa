"""Summary nodes by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from findingaid.claims.forms import SHOWN_OF_REFUSED, draft_of, draft_text, members_of, members_text
from findingaid.claims.nodes import FEWEST, MOST, THEMES
from findingaid.errors import SynthesisError
from findingaid.identity import content_hash
from findingaid.model import Bullet, Draft, Member, Outcome, Synopsis, Usage
from findingaid.registry import STRICT
from findingaid.synthesis.answers import TEXT, failed, form_of, list_of, object_of, parsed
from findingaid.synthesis.extractive import centrality
from findingaid.synthesis.openai_chat import OpenAISynthesizer, Wanted
from findingaid.synthesis.prompting import Messages, Prompt, enclosed, fill, on_a_line, shipped, tokens_of

EXPECTED_TOKENS = 400
"""Of one answer, for a plan."""

NODE_TOKENS = 1_500
"""A summary is asked to be 7 points; what is longer than this is no summary, and none of its parts is taken."""

CLAIM_CHARACTERS = 500
"""Of a claim, as a model is shown it."""

FORM = form_of(
    "summary",
    object_of(
        {
            "bullets": list_of(object_of({"text": TEXT, "claims": list_of({"type": "integer"})})),
            "themes": list_of(TEXT),
            "confidence": {"type": "number"},
        }
    ),
)


class _Said(BaseModel):
    text: str
    claims: list[int]


class _Answer(BaseModel, extra="forbid"):
    bullets: list[_Said]
    themes: list[str] = Field(default_factory=list)
    confidence: float = Field(default=1.0, ge=0, le=1)


@dataclass(frozen=True)
class NodesPrompt(Prompt):
    """The system message for summary nodes."""

    form = "form_nodes"

    @property
    def hash(self) -> str:
        return content_hash(self.system, self.structured, shipped("members"), CLAIM_CHARACTERS)

    def members(self, members: Sequence[Member]) -> Messages:
        """The messages for some claims, each behind its number, on a line, so that none can pass for two."""
        lines = (f"{n}. {' '.join(member.text.split())[:CLAIM_CHARACTERS]}" for n, member in enumerate(members, 1))
        return self.messages(fill(shipped("members"), **enclosed("\n".join(lines))))


@dataclass(frozen=True)
class OpenAINodes(OpenAISynthesizer):
    """Asks `model` for 3 to 7 points over claims, each with those it stands on; the parameters are those of the
    synthesizer "openai".

    `prompt` is a file that says what a summary is to be. Of more claims than `context_tokens` have room for the most
    central are shown. Without `structured` the JSON is asked for in words alone. Claims are cited by their numbers; a
    number that none was shown with is refused, and a point that cites no other.
    """

    version: ClassVar[int] = 1
    form: ClassVar[Mapping[str, Any]] = FORM
    shipped_prompt: ClassVar[str] = "nodes"
    no_batches: ClassVar[str] = "summary nodes are not asked for by batch"
    __pydantic_config__: ClassVar = STRICT

    @cached_property
    def instructions(self) -> NodesPrompt:
        """What the model is told, whatever the claims. Raises ConfigError."""
        return NodesPrompt(self._what, self.structured)

    def calls_for(self, text: str) -> list[Usage]:
        """The one call that claims take."""
        if not text.strip():
            return []
        messages = self.instructions.members(self._fitting(members_of(text)))
        return [Usage(1, sum(tokens_of(message["content"]) for message in messages), EXPECTED_TOKENS)]

    def summarize(self, members: Sequence[Member]) -> Draft | None:
        return draft_of(self.synthesize(members_text(members), {}))

    async def _asked(self, text: str, wanted: Wanted) -> Synopsis:
        members = members_of(text)
        shown = self._fitting(members)
        made = await self._ask(self.instructions.members(shown), wanted)
        if made.outcome is not Outcome.OK:
            return made
        try:
            draft = read(made.text, shown, len(members) - len(shown))
        except SynthesisError as error:
            return failed(error, made.usage)
        return Synopsis(Outcome.OK, draft_text(draft), usage=made.usage)

    def _written(self, content: str) -> Synopsis:
        return Synopsis(Outcome.OK, content)  # `_asked` knows the claims that it is about

    def _fitting(self, members: Sequence[Member]) -> list[Member]:
        """All members, or the most central that fit into one call, in their order."""
        costs = [tokens_of(member.text[:CLAIM_CHARACTERS]) + 2 for member in members]
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
    """The draft that an answer holds; `unseen` claims were too many to be shown. Raises SynthesisError for none.

    Numbers that no claim was shown with are taken out, and with them what cites no other.
    """
    answer = parsed(_Answer, content)
    refused = [f"{unseen:,} claims are too many for one call, and were not shown"] if unseen else []
    bullets: list[Bullet] = []
    for said in answer.bullets:
        text = on_a_line(said.text)
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
        refused.append(f"{len(bullets)} points, of which the first {MOST} are taken")
    if sum(tokens_of(bullet.text) for bullet in bullets[:MOST]) > NODE_TOKENS:
        raise SynthesisError("the answer is too long for a summary", "parse")
    themes = tuple(dict.fromkeys(theme for theme in map(on_a_line, answer.themes) if theme))[:THEMES]
    return Draft(tuple(bullets[:MOST]), themes, answer.confidence, tuple(refused))
