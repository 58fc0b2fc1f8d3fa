"""Signs that converters leave out: of raised numbers, of struck words, and of words that Markdown takes for markup.

Without them, ten to the sixth would read 106, an old price like the one in force, and nobody would find "<name>".
"""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"[-+\u2212\u2013]?[0-9]*[-+\u2212\u2013]?")
RAISED = str.maketrans(
    "0123456789-+\u2212\u2013", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a\u207b\u207b"
)
"""Digits and signs, and the characters that show them raised."""

TAG = re.compile(r"<(?=/?[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|\Z)|[!?]|\Z)")
"""Sign that begins a tag or a comment of HTML, of which the rest may follow in the next run of a text."""

HEADING = re.compile(r"\A(\s*)(?=#{1,6}\s)")
UNDERLINE = re.compile(r"\A(\s*)(?=(?:-+|=+)\s*\Z)")
"""Place before signs that begin a heading of Markdown, and before a line of signs that makes one of the line above."""

STRUCK = "~~"
"""Mark of Markdown before and after words that are struck out."""

IS_STRUCK = "self::s or self::del or self::strike"


def raised(text: str) -> str:
    """Return a number in raised characters, which is an exponent or the number of a note; any other text as it is."""
    return text.translate(RAISED) if NUMBER.fullmatch(text) else text


def escape_tags(text: str) -> str:
    """Put a backslash before each sign that Markdown would take for the beginning of a tag or a comment."""
    return TAG.sub(r"\\<", text)


def escape_heading(text: str) -> str:
    """Put a backslash before the first signs of a text that Markdown would take for the beginning of a heading."""
    return HEADING.sub(r"\1\\", text)


def escape_line(text: str) -> str:
    """Put a backslash before a line of signs by which Markdown would make a heading of the line above."""
    return UNDERLINE.sub(r"\1\\", text)


def escape_cell(text: str) -> str:
    """Put a backslash before each sign that Markdown would take for the end of a cell."""
    return text.replace("|", r"\|")


def struck(text: str) -> str:
    """Return words as struck out."""
    return f"{STRUCK}{text}{STRUCK}" if text.strip() else text


def strike_out(element: Any) -> None:
    """Put the content of an element of HTML into one that strikes it out.

    Not if a part of it is struck out already, or it is within one that is, or has paragraphs of its own.
    """
    blocks = ".//p | .//div | .//table | .//tr | .//td | .//ul | .//ol | .//li"
    if element.xpath(f"ancestor-or-self::*[{IS_STRUCK}] | .//*[{IS_STRUCK}] | {blocks}"):
        return
    inner = element.makeelement("s")
    inner.text, element.text = element.text, None
    inner.extend(list(element))
    element.append(inner)
