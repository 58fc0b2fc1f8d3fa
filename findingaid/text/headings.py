"""Headings of texts by their media type: Markdown, and reStructuredText as docutils reads its section titles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from findingaid.text import markdown
from findingaid.text.cleaning import MARKDOWN, RESTRUCTURED
from findingaid.text.markdown import Span

SIGN = r"[!-/:-@\[-`{-~]"
SECTION_TITLE = re.compile(
    rf"(?:(?:\A|\n)(?P<over>(?P<sign>{SIGN})(?P=sign)+)[ \t]*\n[ \t]*|(?:\A|\n)[ \t]*\n|\A)(?P<title>\S[^\n]*)\n"
    rf"(?P<under>(?P<line>{SIGN})(?P=line)+)[ \t]*(?=\n|\Z)"
)
"""Title of a section, alone in its block, with a line of one sign below it, or one above it and one below it."""

ROLE = re.compile(r"(?::[\w:.+-]+:)?(?<!`)`++([^`<]*[^`<\s])(?:\s*<[^`]*>)?`+_{0,2}")
"""Words in a role, a link or a literal of reStructuredText."""

SHORT = 4
"""Length from which docutils takes a line that is shorter than its title for an underline all the same."""


def headings_in(text: str, media_type: str) -> Iterator[tuple[int, str, Span]]:
    """Yield (level, title without markup, span of its lines) for each heading; none for other media types.

    Sections of reStructuredText have levels by the order in which their signs appear first
    (https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html#sections).
    """
    if media_type == MARKDOWN:
        yield from markdown.headings(text)
    elif media_type == RESTRUCTURED:
        yield from _restructured(text)


def _restructured(text: str) -> Iterator[tuple[int, str, Span]]:
    levels: list[tuple[str, str]] = []
    for found in SECTION_TITLE.finditer(text.replace("\r\n", " \n") if "\r" in text else text):
        title, over, under = found["title"].rstrip(), found["over"] or "", found["under"]
        if (over and over != under) or len(under) < min(len(title), SHORT):
            continue
        style = over[:1], under[0]
        if style not in levels:
            levels.append(style)
        begin = found.start("over") if over else found.start("title")
        yield levels.index(style) + 1, ROLE.sub(r"\1", title), (begin, found.end())
