"""What strategies share: one way from a payload to text, and the tokenizer they may count with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

from findingaid.errors import DecomposeError
from findingaid.model import Embedder, Raw, Segment

TEXT_KEYS = ("text", "content", "body", "page_content")


@runtime_checkable
class WithTokenizer(Protocol):
    """A strategy that cuts by what the embedder can see."""

    def for_embedder(self, embedder: Embedder) -> Self:
        """The same strategy, counting tokens as `embedder` does."""


def text_of(raw: Any, text_key: str | None = None) -> str:
    """The one way from a payload to its text: a string itself, or a mapping's `text_key` or usual text field.

    Raises DecomposeError when a mapping has no such field, naming the fields it has.
    """
    if isinstance(raw, str):
        return raw
    if isinstance(raw, Mapping):
        for key in (text_key,) if text_key else TEXT_KEYS:
            if isinstance(raw.get(key), str):
                return str(raw[key])
        wanted = repr(text_key) if text_key else " or ".join(map(repr, TEXT_KEYS))
        raise DecomposeError(
            f"no text field {wanted}; it has {', '.join(map(str, raw)) or 'no fields'}: set text_key", "parse"
        )
    raise DecomposeError(f"expected text or a mapping, got {type(raw).__name__}", "parse")


def joined(fields: Mapping[str, Any], *keys: str) -> str:
    """The fields that say something, as "name: description"."""
    return ": ".join(str(fields[key]) for key in keys if fields.get(key))


def shown_text(strategy: object, raw: Raw) -> str:
    """The text a synthesizer is shown: what the strategy's own `text(raw)` says, else `text_of` by its text_key."""
    own: Callable[[Raw], str] | None = getattr(strategy, "text", None)
    return own(raw) if own else text_of(raw, getattr(strategy, "text_key", None))


def shown_segments(strategy: object, raw: Raw) -> list[Segment]:
    """The turns of an artifact: what the strategy's own `segments(raw)` says, else the text as one."""
    own: Callable[[Raw], list[Segment]] | None = getattr(strategy, "segments", None)
    return own(raw) if own else [Segment(0, "", shown_text(strategy, raw))]
