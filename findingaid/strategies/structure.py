"""Where a text has its joints: the headings of Markdown, the definitions of Python, the pages of a document.

Spans are of characters.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt

from findingaid.front_matter import MATTER

LINE_END = re.compile(r"\r\n?|\n")
"""What ends a line for CommonMark and for Python alike; str.splitlines knows more."""

JOINT = re.compile(
    r"\n(?:(#{1,6})(?:[ \t]+([^\n]*?))?(?:[ \t]+#+)?[ \t]*(?=\n|\Z)"
    r"|([ \t]*)(`{3,}|~{3,})([^\n]*)"
    r"|[ \t]*(<)"
    r"|(?<=[^\n]\n) {0,3}(=+|-+)[ \t]*(?=\n|\Z)"
    r"|( {1,3}#{1,6}(?:\s|\Z)|[ \t]*(?:[-+*]|\d+[.)])[ \t]+(?:```|~~~)))"
)
"""What may be a heading or bear on one; what ends the line before leads, to be found fast. In this order: a heading at
the very start of its line; a fence; HTML; what underlines a heading; and what takes a parser to tell."""

HTML_ENDS = (
    (re.compile(r"<a(?:\s[^<>\n]*)?></a>"), re.compile(r"")),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<[!?]"), re.compile(r"\Z")),
    (re.compile(r"<(?:pre|script|style|textarea)(?=[\s>]|\Z)", re.IGNORECASE),
     re.compile(r"</(?:pre|script|style|textarea)>|\Z", re.IGNORECASE)),
    (re.compile(r"<"), re.compile(r"\n[ \t]*(?=\n)|\Z")),
)  # fmt: skip
"""How a block of HTML begins, and where it ends at the latest: an anchor is none, some end at a closing mark, most at a
blank line."""

INDENTED = 4
"""Spaces that make a line one of indented code."""

UNDERLINES = str.maketrans({"=": "#", "-": "##"})

Span = tuple[int, int]


@dataclass(frozen=True)
class Headings:
    """The headings of a Markdown text, each with its span and the path of titles down to it."""

    text: str
    spans: Sequence[Span]
    paths: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, text: str) -> Headings:
        """Those of the document itself, not of quotes, lists, code or front matter."""
        found = MATTER.match(text)
        begin = found.end() if found else 0
        spans: list[Span] = []
        paths: list[tuple[str, ...]] = []
        above: list[tuple[int, str]] = []
        plain = _plain(text, begin)
        for level, title, span in _parsed(text, begin) if plain is None else plain:
            above = [*((n, t) for n, t in above if n < level), (level, " ".join(title.split()))]
            spans.append(span)
            paths.append(tuple(t for _, t in above if t))
        return cls(text, spans, paths)

    def above(self, start: int, end: int) -> tuple[str, ...]:
        """The path at a chunk's start; a chunk that begins with headings is below the last of these."""
        i = bisect_right(self.spans, start, key=lambda span: span[0]) - 1
        while i + 1 < len(self.spans) and self.spans[i + 1][0] < end:
            body = max(start, self.spans[i][1]) if i >= 0 else start
            if self.text[body : self.spans[i + 1][0]].strip():
                break
            i += 1
        return self.paths[i] if i >= 0 else ()


@dataclass(frozen=True)
class Pages:
    """The pages of a text that form feeds part, counted from 1; `ends` are the places of these."""

    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> Pages:
        return cls([found.start() for found in re.finditer("\f", text)])

    def fields(self, start: int, end: int) -> dict[str, Any]:
        """The `page` that a span begins on, and where it goes on to others the first and last of its `pages`."""
        first, last = (bisect_right(self.ends, at) + 1 for at in (start, end - 1))
        return {"page": first} | ({"pages": [first, last]} if last > first else {})


def _plain(text: str, begin: int) -> list[tuple[int, str, Span]] | None:
    """(level, title, span) of headings where nothing in a text makes them hard to tell, else None."""
    if "\r" in text or "\0" in text:
        return None
    found: list[tuple[int, str, Span]] = []
    body = f"\n{text[begin:]}"
    fence, html_end, inner_end = "", 0, 0
    for joint in JOINT.finditer(body):
        marks, title, indent, ticks, info, html, underline, hard = joint.groups()
        if fence or joint.start() < inner_end:
            fence = "" if ticks and fence and _closes(fence, indent, ticks, info) else fence
        elif html:
            html_end = max(html_end, _html_end(body, joint.start(6)))
        elif hard or joint.start() < html_end:
            return None
        elif indent:
            inner_end = _inner_fence_end(body, joint.end(), indent, ticks, info)
            if not inner_end:
                return None
        elif ticks:
            fence = ticks if ticks[0] == "~" or "`" not in info else ""
        else:
            start = joint.start() if marks else body.rfind("\n", 0, joint.start())
            if underline and (start < html_end or not _stands_alone(body, start)):
                return None
            level = len(marks or underline[0].translate(UNDERLINES))
            title = title or body[start : joint.start()]
            found.append((level, title.strip(), (begin + start, min(begin + joint.end(), len(text)))))
    return found


def _stands_alone(text: str, start: int) -> bool:
    """Whether the line after `start` is a paragraph of the document: after a blank one, and beginning with a letter."""
    return text[start - 1 : start] in ("", "\n") and text[start + 1].isalpha()


def _closes(fence: str, indent: str, ticks: str, info: str) -> bool:
    return ticks.startswith(fence) and not info.strip() and not indent.strip(" ") and len(indent) < INDENTED


def _inner_fence_end(text: str, start: int, indent: str, ticks: str, info: str) -> int:
    """Where an indented fence ends of which all lines are indented like it; 0 where that takes a parser to tell.

    Whatever it is, a fence of its own, one in a list, or indented text, no line of it is a heading of the document.
    """
    if "\t" in indent or "`" in info:
        return 0
    while start < len(text):
        end = text.find("\n", start + 1)
        end = len(text) if end < 0 else end
        line = text[start + 1 : end]
        if (bare := line.strip(" \t")) and not line.startswith(indent):
            return 0
        if bare.startswith(ticks) and not bare.strip(ticks[0]):
            return end if line[len(indent)] == ticks[0] else 0
        start = end
    return 0


def _html_end(text: str, start: int) -> int:
    """Where a block of HTML that begins at `start` ends at the latest."""
    end = next(end for begin, end in HTML_ENDS if begin.match(text, start))
    found = end.search(text, start + 2)
    return found.end() if found else len(text)


def _parsed(text: str, begin: int) -> Iterator[tuple[int, str, Span]]:
    """The same by a parser of CommonMark, which takes ten times as long."""
    lines = line_starts(text, begin)
    tokens = MarkdownIt("commonmark").disable("inline").parse(text[begin:])
    for opening, title in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            yield int(opening.tag[1:]), title.content, (lines[opening.map[0]], lines[opening.map[1]])


def python_pieces(text: str, fits: Callable[[str], bool]) -> Iterator[Span] | None:
    """Spans that cover a Python source, cut where functions and classes begin; None for what does not parse.

    Neighbours stay together as long as they fit; a class that does not is cut into its methods. What still
    does not fit is for the caller to cut.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the source: they are not ours to mend
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = line_starts(text)
    return _definitions(text, lines, tree.body, (0, len(text)), fits)


def _definitions(
    text: str, lines: Sequence[int], body: Sequence[ast.stmt], within: Span, fits: Callable[[str], bool]
) -> Iterator[Span]:
    """What stands before the first definition, then each definition with what follows it, packed."""
    inner: list[tuple[int, ast.stmt | None]] = [(within[0], None)]
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = min(node.lineno for node in (statement, *statement.decorator_list)) - 1
            while line and text[lines[line - 1] : lines[line]].lstrip().startswith("#"):
                line -= 1  # a comment above belongs to what it is about
            inner.append((max(lines[line], inner[-1][0]), statement))
    run: list[Span] = []
    for (start, found), (end, _) in pairwise([*inner, (within[1], None)]):
        if isinstance(found, ast.ClassDef) and not fits(text[start:end]):
            yield from _packed(text, run, fits)
            yield from _definitions(text, lines, found.body, (start, end), fits)
            run = []
        else:
            run.append((start, end))
    yield from _packed(text, run, fits)


def _packed(text: str, pieces: Sequence[Span], fits: Callable[[str], bool]) -> Iterator[Span]:
    """Neighbours joined as long as they fit together."""
    if not pieces:
        return
    start, end = pieces[0]
    for piece_start, piece_end in pieces[1:]:
        if not fits(text[start:piece_end]):
            yield start, end
            start = piece_start
        end = piece_end
    yield start, end


def line_starts(text: str, begin: int = 0) -> list[int]:
    """Where each line from `begin` on starts, and where the last one ends."""
    return [begin, *(found.end() for found in LINE_END.finditer(text, begin)), len(text)]
