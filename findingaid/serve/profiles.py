"""Profiles of the MCP server: the capabilities that become tools, and how much of each is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from findingaid.config.settings import ServeSettings
from findingaid.serve.capabilities import CAPABILITIES, Capability
from findingaid.serve.search_fetch import SEARCH_FETCH


@dataclass(frozen=True)
class Offer:
    """How a profile offers a capability: its inputs and their defaults, its outputs, and when to use it."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    description: str
    defaults: Mapping[str, Any] = field(default_factory=dict)


AGENT: Mapping[str, Offer] = {
    "search": Offer(
        ("query", "corpora", "where", "detail", "max_tokens", "cursor"),
        ("hits", "next_cursor"),
        "Find passages by meaning and by words. Start here. Each hit is the best passage of a file, with record_id,"
        " artifact_id, corpus, title, url, score and a snippet; open an id with show. Weak hits may be off the subject."
        " next_cursor, if there, leads to more; per_artifact=false finds further passages of the same files.",
        {"detail": "snippet", "per_artifact": True},
    ),
    "show": Offer(
        ("id", "corpus", "offset", "level", "file", "max_tokens"),
        ("corpus", "artifact_id", "title", "outline", "offset", "text", "next"),
        "Read a text by the id of an artifact, record or claim. Returns an outline with offsets and a part of the text;"
        " next is the call that reads on.",
    ),
    "answer": Offer(
        ("query", "corpora", "where", "depth", "llm", "max_tokens"),
        ("answer", "claims", "quotes", "gaps", "passages", "meta"),
        "Answer a question, with a citation behind every sentence. gaps lists words of the question that nothing"
        " covers; meta.note says if the answer is weak or empty.",
    ),
    "context": Offer(
        ("query", "corpora", "where", "budget_tokens", "pinned"),
        ("rendered", "tokens", "dropped"),
        "Get the texts that matter for a question in one call, packed into budget_tokens, each with its source. Use it"
        " instead of search and several show.",
    ),
    "corpora": Offer(
        ("corpora",),
        ("corpora", "columns", "llm"),
        "List the corpora, and the fields that where can name. Call it before you filter a search.",
    ),
    "why": Offer(
        ("id", "corpora"),
        ("links",),
        "Trace a claim, record or artifact to its source, link by link. Use it to check a citation.",
    ),
    "propose_claim": Offer(
        ("corpus", "artifact_id", "text", "quote", "type", "reason"),
        ("claim_id", "review", "evidence"),
        "Propose a claim that an artifact states, with the supporting quote word for word. A person decides on it.",
    ),
}
"""Tools for agents that have little room for descriptions: at most seven, with at most six inputs each."""


def capabilities_of(settings: ServeSettings) -> Sequence[Capability]:
    """Return the capabilities of the MCP server's profile, with its default budget for results."""
    if settings.profile == "search-fetch":
        return SEARCH_FETCH
    chosen = list(CAPABILITIES) if settings.profile == "full" else [_offered(name) for name in AGENT]
    return [_within_budget(capability, settings.max_tokens) for capability in chosen]


def _offered(name: str) -> Capability:
    (capability,) = (c for c in CAPABILITIES if c.name == name)
    offer = AGENT[name]
    return replace(
        capability,
        description=offer.description,
        offered=offer.inputs,
        outputs=offer.outputs,
        defaults=offer.defaults,
    )


def _within_budget(capability: Capability, max_tokens: int) -> Capability:
    """Set the default of `max_tokens`. A context pack has a budget of its own, and a proposal is short."""
    if "max_tokens" not in capability.input.model_fields:
        return capability
    return replace(capability, defaults={**capability.defaults, "max_tokens": max_tokens})
