"""Rendering of a context pack for a model, and token counts of the result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from findingaid.embedding.tokens import Count
from findingaid.query.context.pieces import Piece

Form = Literal["text", "json", "messages"]

Message = dict[str, str]

AROUND_A_MESSAGE = 4
"""Tokens that a chat template adds to a message besides its role and content. OpenAI's templates add 3."""


BOUNDARY = 8
"""Tokens by which the count of the whole may differ from the sum of its parts for each added piece.

A tenth of the piece's own tokens comes on top."""


def render(pieces: Sequence[Piece], form: Form) -> str | list[Message]:
    """Render the pieces in their order.

    - "text": each piece under a line with its citation; pinned pieces without one.
    - "json": one array of objects with `source` and `text`, so that no text can pass for another piece.
    - "messages": pinned pieces as the system message, all others as the user message.
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


def count_tokens(pieces: Sequence[Piece], form: Form, count: Count) -> int:
    """Count the tokens of the whole result of `render`."""
    made = render(pieces, form)
    if isinstance(made, str):
        return count(made) if made else 0
    return sum(count(message["role"]) + count(message["content"]) + AROUND_A_MESSAGE for message in made)


def _object(piece: Piece) -> str:
    return json.dumps({"source": piece.label, "text": piece.text}, ensure_ascii=False, separators=(",", ":"))


def _block(piece: Piece) -> str:
    return piece.text if piece.kind == "pinned" else f"[{piece.label}]\n{piece.text}"


def _text(pieces: Sequence[Piece]) -> str:
    return "\n\n".join(map(_block, pieces))


class TokenBudget:
    """Budget check for one more piece that avoids counting the whole pack each time.

    The token count of the whole can differ from the sum of its parts, but only at the joints. So the whole is counted
    only if that difference could decide, or each time with `always`.
    """

    def __init__(self, budget: int, form: Form, count: Count, always: bool = False) -> None:
        self._budget, self._form, self._count, self._always = budget, form, count, always
        self._used, self._unsure = count_tokens([], form, count), 0

    def admit(self, piece: Piece, kept: Sequence[Piece], whole: Sequence[Piece]) -> bool:
        """Return whether `whole`, which is `kept` plus the piece, is within the budget; if so, record it as kept."""
        if self._always:
            return count_tokens(whole, self._form, self._count) <= self._budget
        own = self._count(_object(piece) if self._form == "json" else _block(piece))
        unsure = BOUNDARY + own // 10
        if self._unsure and self._used + self._unsure + own + unsure > self._budget:
            self._used, self._unsure = count_tokens(kept, self._form, self._count), 0
        if self._used + own - unsure > self._budget:
            return False
        if self._used + self._unsure + own + unsure <= self._budget:
            self._used, self._unsure = self._used + own, self._unsure + unsure
            return True
        counted = count_tokens(whole, self._form, self._count)
        if counted <= self._budget:
            self._used, self._unsure = counted, 0
        return counted <= self._budget
