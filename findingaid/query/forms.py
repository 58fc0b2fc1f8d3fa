"""How a context pack is put before a model, and how many tokens that takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from findingaid.embedding.tokens import Count
from findingaid.query.pieces import Piece

Form = Literal["text", "json", "messages"]

Message = dict[str, str]

AROUND_A_MESSAGE = 4
"""Tokens that a chat template puts around a message besides its role and content. OpenAI's take 3."""


def rendered(pieces: Sequence[Piece], form: Form) -> str | list[Message]:
    """The pieces in their order.

    Text: each under a line that cites it, what is pinned as it is. JSON: one array of objects with `source` and
    `text`, so that no text can pass for another piece. Messages: what is pinned as the system's, the rest as the
    user's.
    """
    if form == "json":
        said = [{"source": piece.cite, "text": piece.text} for piece in pieces]
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    if form == "text":
        return _text(pieces)
    roles = {
        "system": _text([piece for piece in pieces if piece.kind == "pinned"]),
        "user": _text([piece for piece in pieces if piece.kind != "pinned"]),
    }
    return [{"role": role, "content": content} for role, content in roles.items() if content]


def tokens(pieces: Sequence[Piece], form: Form, count: Count) -> int:
    """The tokens of what `rendered` gives, all of it."""
    made = rendered(pieces, form)
    if isinstance(made, str):
        return count(made) if made else 0
    return sum(count(message["role"]) + count(message["content"]) + AROUND_A_MESSAGE for message in made)


def _text(pieces: Sequence[Piece]) -> str:
    return "\n\n".join(piece.text if piece.kind == "pinned" else f"[{piece.cite}]\n{piece.text}" for piece in pieces)
