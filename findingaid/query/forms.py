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


BOUNDARY = 8
"""Tokens, and a tenth of a piece, by which a whole may differ from its parts where one piece more is put in."""


def rendered(pieces: Sequence[Piece], form: Form) -> str | list[Message]:
    """The pieces in their order.

    Text: each under a line that cites it, what is pinned as it is. JSON: one array of objects with `source` and
    `text`, so that no text can pass for another piece. Messages: what is pinned as the system's, the rest as the
    user's.
    """
    if form == "json":
        return f"[{','.join(map(_object, pieces))}]"
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


def _object(piece: Piece) -> str:
    return json.dumps({"source": piece.cite, "text": piece.text}, ensure_ascii=False, separators=(",", ":"))


def _block(piece: Piece) -> str:
    return piece.text if piece.kind == "pinned" else f"[{piece.cite}]\n{piece.text}"


def _text(pieces: Sequence[Piece]) -> str:
    return "\n\n".join(map(_block, pieces))


class Room:
    """Whether one piece more fits, as counting the whole would say.

    No sum of parts is what a tokenizer makes of the whole, but they differ only where parts meet. So the whole is
    counted where that could decide; with `always` each time.
    """

    def __init__(self, budget: int, form: Form, count: Count, always: bool = False) -> None:
        self._budget, self._form, self._count, self._always = budget, form, count, always
        self._used, self._unsure = tokens([], form, count), 0

    def has(self, piece: Piece, kept: Sequence[Piece], whole: Sequence[Piece]) -> bool:
        """Whether `whole`, which is `kept` and the piece, is within the budget; then it counts as kept."""
        if self._always:
            return tokens(whole, self._form, self._count) <= self._budget
        own = self._count(_object(piece) if self._form == "json" else _block(piece))
        unsure = BOUNDARY + own // 10
        if self._unsure and self._used + self._unsure + own + unsure > self._budget:
            self._used, self._unsure = tokens(kept, self._form, self._count), 0
        if self._used + own - unsure > self._budget:
            return False
        if self._used + self._unsure + own + unsure <= self._budget:
            self._used, self._unsure = self._used + own, self._unsure + unsure
            return True
        counted = tokens(whole, self._form, self._count)
        if counted <= self._budget:
            self._used, self._unsure = counted, 0
        return counted <= self._budget
