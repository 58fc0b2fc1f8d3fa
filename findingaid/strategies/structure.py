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
from html import unescape
from itertools import accumulate, pairwise
from typing import Any

from cmarkgfm.cmark import Options, markdown_to_html

from findingaid.front_matter import MATTER

LINE_END = re.compile(r"\r\n?|\n")
"""What ends a line for CommonMark and for Python alike; str.splitlines knows more."""

TAG = re.compile(r'<(?:(/?)(?:blockquote|li)\b|h([1-6]) data-sourcepos="(\d+):[^"]*">(.*?)</h\2>)', re.DOTALL)
"""In the HTML of a text: what a heading may stand within, and a heading with its first line and its title."""

ATX = re.compile(r" {0,3}#{1,6}(?:\s|\Z)")
UNDERLINE = re.compile(r" {0,3}(?:=+|-+)\s*")
"""How the line of a heading of one line begins, and the last line of any other."""

MARKUP = re.compile(r"<[^>]*>")

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
        for level, title, span in _headings(text, begin):
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


def _headings(text: str, begin: int) -> Iterator[tuple[int, str, Span]]:
    """(level, title without markup, span) of the headings of the document itself.

    Of cmark's HTML, in which all that the text says is escaped, so that its own tags can be told by a pattern.
    """
    lines = line_starts(text, begin)
    body = text[begin:].encode("utf-8", "replace").decode()  # half a pair of surrogates is no UTF-8
    depth = 0
    for tag in TAG.finditer(markdown_to_html(body, Options.CMARK_OPT_SOURCEPOS)):
        closing, level, line, title = tag.groups()
        if level is None:
            depth += -1 if closing else 1
        elif not depth:
            start, last = lines[int(line) - 1], int(line)
            if not ATX.match(text, start):
                last = next(n + 1 for n in range(last, len(lines)) if UNDERLINE.fullmatch(text, lines[n], lines[n + 1]))
            yield int(level), unescape(MARKUP.sub("", title)), (start, lines[last])


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
    if "\r" not in text:
        starts = [*accumulate((len(line) + 1 for line in text[begin:].split("\n")), initial=begin)]
        return [*starts[:-1], len(text)]
    return [begin, *(found.end() for found in LINE_END.finditer(text, begin)), len(text)]
