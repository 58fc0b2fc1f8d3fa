"""Helpers shared by strategies: conversion of a payload to text, and binding to a tokenizer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Protocol, Self, runtime_checkable

from pydantic import AfterValidator

from findingaid.errors import DecomposeError
from findingaid.model import RESERVED_KINDS, Artifact, Raw, Segment, SurfacePlan
from findingaid.protocols import Embedder, Strategy

TEXT_KEYS = ("text", "content", "body", "page_content")

FITTING = {"Package": "readme", "Skill": "description", "ClaudeSession": "turns"}
"""Shipped strategies for payloads that are mappings, each with a field that such a payload has."""


@runtime_checkable
class WithTokenizer(Protocol):
    """Strategy whose chunks depend on the number of tokens that the embedder reads."""

    def for_embedder(self, embedder: Embedder) -> Self:
        """Return the same strategy, which then counts tokens as `embedder` does."""


def text_of(raw: Any, text_key: str | None = None) -> str:
    """Return the text of a payload: a string itself, or a mapping's `text_key` or usual text field.

    Strategies share this conversion. Raises DecomposeError if a mapping has no such field; the error names the fields
    that the mapping has.
    """
    if isinstance(raw, str):
        return raw
    if isinstance(raw, Mapping):
        for key in (text_key,) if text_key else TEXT_KEYS:
            if isinstance(raw.get(key), str):
                return str(raw[key])
        wanted = repr(text_key) if text_key else " or ".join(map(repr, TEXT_KEYS))
        fitting = [name for name, field in FITTING.items() if field in raw]
        remedy = f"set text_key, or the strategy {' or '.join(fitting)}" if fitting else "set text_key"
        raise DecomposeError(
            f"no text field {wanted}; it has {', '.join(map(str, raw)) or 'no fields'}: {remedy}", "parse"
        )
    raise DecomposeError(f"expected text or a mapping, got {type(raw).__name__}", "parse")


def validate_surface_kind(kind: str) -> str:
    """Return a surface kind of a strategy. Raises ValueError if findingaid uses it for records of its own."""
    if kind in RESERVED_KINDS:
        raise ValueError(f"the surface kind {kind!r} is reserved for {RESERVED_KINDS[kind]}: choose another")
    return kind


SurfaceKind = Annotated[str, AfterValidator(validate_surface_kind)]
"""Type of a parameter that names a surface kind."""


def join_fields(fields: Mapping[str, Any], *keys: str) -> str:
    """Join the non-empty fields, as in "name: description"."""
    return ": ".join(str(fields[key]) for key in keys if fields.get(key))


CONTEXT_SHARE = 4
"""Divisor for the length of a context: at most a quarter of the tokens that the embedder reads.

Chunks leave that free.
"""


def heading_path(title: str, surface_metadata: Mapping[str, Any]) -> str:
    """Return the title and the headings above a chunk, as in "Title > Part > Section"."""
    return " > ".join(dict.fromkeys(filter(None, [title, *surface_metadata.get("headings", ())])))


def first_words(text: str, tokens: int | None, count: Callable[[str], int]) -> str:
    """Return the longest run of first words of a text that has at most this number of tokens by `count`."""
    if tokens is None or count(text) <= tokens:
        return text
    words = text.split()
    return " ".join(words[: bisect_right(range(1, len(words) + 1), tokens, key=lambda n: count(" ".join(words[:n])))])


def shown_text(strategy: Strategy, artifact: Artifact, plan: SurfacePlan | None = None) -> str:
    """Return the text that a synthesizer is shown, see `TextStrategy`. `plan` saves decomposing the artifact again."""
    if callable(own := getattr(strategy, "text", None)):
        if not isinstance(text := own(artifact.raw), str):
            raise DecomposeError(f"expected text, got {type(text).__name__}", "parse")
        return text
    plan = plan or strategy.decompose(artifact.artifact_id, artifact.raw, artifact.metadata)
    if any(surface.span and "field" not in surface.metadata for surface in plan.surfaces):
        with suppress(DecomposeError):
            return text_of(artifact.raw, getattr(strategy, "text_key", None))
    return "\n\n".join(surface.text for surface in plan.surfaces)


def shown_segments(strategy: Strategy, artifact: Artifact, plan: SurfacePlan | None = None) -> list[Segment]:
    """Return the turns of an artifact: from the strategy's own `segments(raw)`, or else its text as a single turn."""
    own: Callable[[Raw], list[Segment]] | None = getattr(strategy, "segments", None)
    return own(artifact.raw) if own else [Segment(0, "", shown_text(strategy, artifact, plan))]
