"""The sentences of a text's prose, each with where it stands: no headings, code, tables, images or lists of links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from sentencex import segment

from findingaid.front_matter import MATTER
from findingaid.strategies.structure import line_starts

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Span = tuple[int, int]

MARKUP = re.compile(
    r"(?P<code>(?<!`)(?P<fence>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=fence)(?!`))"
    r"|(?P<whole>!\[[^\]]*\](?:\([^()]*\)|\[[^\]]*\])?|\[\^[^\]]+\]|<!--.*?-->)"
    r"|(?P<opens>\[(?=[^\[\]]*\][(\[])|<(?=(?:https?|mailto):)|(?<![\w*])\*{1,3}(?=\S)|(?<!\w)_{1,3}(?=\S)|~~(?=\w)"
    r"|<[A-Za-z][^<>]*>|\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<closes>\]\((?:[^()]|\([^()]*\))*\)|\]\[[^\]]*\]|(?<=\S)\*{1,3}(?![\w*])|(?<=\S)_{1,3}(?!\w)|(?<=\w)~~"
    r"|</[A-Za-z][^<>]*>)",
    re.DOTALL,
)
"""The marks within a paragraph of Markdown, as far as sentences have them."""

LINKS_SHARE = 0.5
"""A paragraph of which more than this is the text of links says where things are, and states little."""

PARAGRAPH = 20_000
"""Characters of a paragraph of Markdown, whose marks take time by its square; what is longer is a listing."""

QUOTED = re.compile(r"\n[ \t]*(?:>[ \t]?)+")

STOPS = re.compile(r"[.!?…]")

BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*|\f")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its marks and line ends; text[start:end] is how it stands there. `code` are its code spans."""

    text: str
    span: Span
    first: bool
    code: tuple[str, ...]


def sentences(text: str, markdown: bool) -> Iterator[Sentence]:
    """Every sentence of the prose, in order; `first` is one that begins a paragraph."""
    for paragraph in _paragraphs(text) if markdown else _blocks(text):
        yield from _of(paragraph)


def plain(text: str) -> str:
    """The words of a passage, without the marks of Markdown, those of quotes at its lines too, white space folded."""
    return " ".join(MARKUP.sub(lambda found: found["inside"] or "", QUOTED.sub("\n", text)).split())


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph's own characters, without what leads its lines, and where each of them stands in the text."""

    text: str
    places: range | list[int]
    markdown: bool


@dataclass
class _Plain:
    """Characters without marks. Each `begins` and `ends` somewhere in the text, marks that belong to it included."""

    places: range | list[int]
    text: str = ""
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    code: list[Span] = field(default_factory=list)
    linked: int = 0
    opened: int | None = None
    link: int | None = None

    @classmethod
    def of(cls, paragraph: _Paragraph) -> _Plain:
        """The characters of a paragraph."""
        made = cls(paragraph.places)
        at = 0
        for found in MARKUP.finditer(paragraph.text) if paragraph.markdown else ():
            made._take(paragraph.text, at, found.start())
            made._mark(found)
            at = found.end()
        made._take(paragraph.text, at, len(paragraph.text))
        return made

    def _take(self, text: str, start: int, end: int) -> None:
        if start == end:
            return
        first = len(self.begins)
        self.text += text[start:end]
        self.begins.extend(self.places[start:end])
        self.ends.extend(place + 1 for place in self.places[start:end])
        if self.opened is not None:
            self.begins[first], self.opened = self.opened, None

    def _mark(self, found: re.Match[str]) -> None:
        start, last = self.places[found.start()], self.places[found.end() - 1]
        if found["code"] or found["opens"]:
            self.opened = start if self.opened is None else self.opened
        if found["code"]:
            begun = len(self.text)
            self._take(found.string, *found.span("inside"))
            self.code.append((begun, len(self.text)))
        elif found["opens"] in {"[", "<"}:
            self.link = len(self.text)
        elif found["closes"] and found["closes"][0] == "]" and self.link is not None:
            self.linked, self.link = self.linked + len(self.text) - self.link, None
        if (found["code"] or found["closes"]) and self.ends:
            self.ends[-1] = last + 1


def _of(paragraph: _Paragraph) -> Iterator[Sentence]:
    words = _Plain.of(paragraph)
    if words.linked > LINKS_SHARE * len(words.text.strip()):
        return
    folded = words.text.replace("\n", " ")  # as long as it was, so that places stay
    masked = folded
    for begin, end in words.code:  # a full stop within code ends no sentence
        masked = f"{masked[:begin]}{STOPS.sub('x', masked[begin:end])}{masked[end:]}"
    at, first = 0, True
    for piece in segment("en", masked):
        sentence = piece.strip()
        start = masked.find(sentence, at) if sentence else -1
        if start < 0:
            continue
        at = start + len(sentence)
        code = tuple(folded[slice(*span)] for span in words.code if start <= span[0] < at)
        yield Sentence(" ".join(folded[start:at].split()), (words.begins[start], words.ends[at - 1]), first, code)
        first = False


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """Those of a Markdown text, list items and quotes included."""
    matter = MATTER.match(text)
    begin = matter.end() if matter else 0
    lines = line_starts(text, begin)
    tokens = _parser().parse(text[begin:])
    for before, inline in pairwise(tokens):
        if before.type == "paragraph_open" and inline.map and (found := _placed(text, lines, inline)):
            yield found


def _placed(text: str, lines: list[int], inline: Token) -> _Paragraph | None:
    """A paragraph with its places: each line of it is the end of a line of the text."""
    made: list[str] = []
    places: list[int] = []
    first, last = inline.map or (0, 0)
    contents = inline.content.split("\n")
    if len(contents) > last - first or len(inline.content) > PARAGRAPH:
        return None
    for i, content in enumerate(contents):
        start = text.find(content, lines[first + i], lines[first + i + 1])
        if start < 0:  # a tab within a list, which the parser took for spaces
            return None
        made.append(content)
        places.extend(range(start, start + len(content)))
        if i + 1 < len(contents):
            made.append("\n")
            places.append(start + len(content))
    return _Paragraph("".join(made), places, markdown=True)


def _blocks(text: str) -> Iterator[_Paragraph]:
    """What blank lines and pages part."""
    ends = [found.span() for found in BLANK_LINES.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    for start, end in zip(starts, [*(start for start, _ in ends), len(text)], strict=True):
        if text[start:end].strip():
            yield _Paragraph(text[start:end].replace("\r", " "), range(start, end), markdown=False)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # here, since most commands never need it

    return MarkdownIt("commonmark").enable("table")
