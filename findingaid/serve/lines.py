"""Lines of JSON: messages of protocols that send one a line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\u0085\u2028\u2029"}
"""Characters that JSON allows within strings, but some programs take for the end of a line; and their escapes."""


def read_lines(input_: BinaryIO, most: int) -> Iterator[bytes | None]:
    """Yield the lines of an input that are not blank, or None for a line of over `most` bytes, which is discarded."""
    while line := input_.readline(most + 1):
        if len(line) <= most or line.endswith(b"\n"):
            line = line.strip().removeprefix(codecs.BOM_UTF8)
            if line:
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = input_.readline(most)
        yield None


def escape_line_ends(line: str) -> str:
    """Return JSON without characters that some programs take for the end of a line."""
    return line.translate(LINE_ENDS)


def message_id(line: bytes) -> Any:
    """Return the id of a message, however large a number, also of one that holds half an emoji or NaN.

    Return None for a line without an id, or that even Python's lenient parser cannot read.
    """
    try:
        message = json.loads(line.decode(errors="replace"))
        found = message.get("id") if isinstance(message, dict) else None
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return found
