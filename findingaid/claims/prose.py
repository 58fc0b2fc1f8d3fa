"""The sentences of a text's prose, each with where it stands: no headings, code, tables, images or lists of links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from sentencex import segment

from findingaid.front_matter import MATTER
from findingaid.strategies.structure import line_starts

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


@dataclass(frozen=True)
class _Plain:
    """Characters without marks. Each `begins` and `ends` somewhere in the text, marks that belong to it included."""

    text: str
    begins: list[int]
    ends: list[int]
    code: list[Span]
    linked: int

    @classmethod
    def of(cls, text: str, places: range | list[int], markdown: bool = True) -> _Plain:
        if not markdown:
            return cls(text, list(places), [place + 1 for place in places], [], 0)
        made: list[str] = []
        begins: list[int] = []
        ends: list[int] = []
        code: list[Span] = []
        opened: int | None = None
        link: int | None = None
        linked = 0

        def take(start: int, end: int) -> None:
            nonlocal opened
            if start == end:
                return
            made.extend(text[start:end])
            first = len(begins)
            begins.extend(places[start:end])
            ends.extend(place + 1 for place in places[start:end])
            if opened is not None:
                begins[first], opened = opened, None

        at = 0
        for found in MARKUP.finditer(text):
            take(at, found.start())
            at = found.end()
            if found["code"]:
                opened = places[found.start()] if opened is None else opened
                begun = len(made)
                take(*found.span("inside"))
                code.append((begun, len(made)))
                ends[-1] = places[at - 1] + 1
            elif found["opens"]:
                opened = places[found.start()] if opened is None else opened
                link = len(made) if found["opens"] in "[<" else link
            elif found["closes"]:
                if ends:
                    ends[-1] = places[at - 1] + 1
                if found["closes"][0] == "]" and link is not None:
                    linked, link = linked + len(made) - link, None
        take(at, len(text))
        return cls("".join(made), begins, ends, code, linked)


def _of(paragraph: _Paragraph) -> Iterator[Sentence]:
    words = _Plain.of(paragraph.text, paragraph.places, paragraph.markdown)
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
    return MarkdownIt("commonmark").enable("table")
