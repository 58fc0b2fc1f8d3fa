"""Removal of markup that distracts a search: badges, comments, navigation, licence headers, data and link targets."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from findingaid.text.licences import licence_spans
from findingaid.text.markdown import Block, Span, blocks, whole_lines

MARKDOWN = "text/markdown"

BAR = 3
"""Number of links from which a paragraph that consists only of links counts as a navigation bar."""

BADGE = re.compile(
    r"badge|shields\.io|codecov|coveralls|travis-ci|/workflows/|readthedocs\.[a-z]+/projects", re.IGNORECASE
)
"""Part of the address of an image that shows the state of a project."""

MARKUP = re.compile(r"[\[<]")
"""First character of every element of Markdown that is removed."""

DATA = re.compile(
    r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=]*"
    r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{100,}={0,2}"
    r"|^(?:[A-Za-z0-9+/]{60,100}\r?\n){3,}[A-Za-z0-9+/]*={0,2}",
    re.MULTILINE,
)
"""Data in base64, in one run or in lines."""

DIGEST_CHARACTERS = 128
"""Characters of the longest digest in common use, SHA-512 in hexadecimal."""

HEX = re.compile(r"[0-9a-fA-F]+")
REPEATED = re.compile(r"(.)\1{3,}")
KINDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

DATA_RUN = 2.7
"""Average length of the runs of one kind of characters from which a text is no data: in base64 it is 2."""

HTML = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|nav)\b.*?(?:</\1\s*>|\Z)|</?[A-Za-z][^<>]*>", re.DOTALL | re.IGNORECASE
)
"""Comment, tag, or an element whose content is not for readers. One that is not closed extends to the end."""

ANCHOR = re.compile(r"<a\b[^<>]*>.*?(?:</a\s*>|\Z)", re.DOTALL | re.IGNORECASE)

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
"""Beginning of an address elsewhere, or on the same page."""

DEFINITION = re.compile(r"^ {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*<?[A-Za-z][\w+.-]*:\S.*$", re.MULTILINE)
"""Definition of a link by reference, but not of a footnote."""

DIRECTIVES = re.compile(
    r"^[ \t]*\.\.[ ]+(?:\|[^|\n]+\|[ ]+)?(?:image|figure)::.*(?:\n[ \t]+:\w+:.*)*"
    r"|^[ \t]*\.\.[ ]+_[^:\n]+:[ ].*$"
    r"|^[ \t]*(?:\|[^|\s][^|\n]*\|[ \t]*)+$"
    r"|<(?:https?://|mailto:)[^<>\s]*>(?=`_)",
    re.MULTILINE,
)
"""Images, link targets and substitutions of reStructuredText."""

WORD = re.compile(r"\w")
EMPTY_LINES = re.compile(r"(?<![ \t])[ \t]*+\n(?:[ \t]*+\n)+")


@dataclass(frozen=True)
class Noise:
    """Spans of a text that are markup without content, in order, without overlaps."""

    text: str
    spans: Sequence[Span]

    @classmethod
    def of(cls, text: str, media_type: str = "") -> Noise:
        """Find the noise of a text, which may be Markdown, reStructuredText, code or plain."""
        return cls(text, _merged(_spans(text, media_type)))

    def removed(self, start: int, end: int) -> str | None:
        """Return text[start:end] without noise: None if it has no noise, "" if no word is left.

        Words that were separated by noise only are separated by a blank.
        """
        first = bisect_right(self.spans, start, key=lambda span: span[1])
        last = bisect_left(self.spans, end, key=lambda span: span[0])
        if first == last:
            return None
        made = ""
        for stop, resume in (*self.spans[first:last], (end, end)):
            piece = self.text[start : min(stop, end)]
            made += f" {piece}" if made[-1:].isalnum() and piece[:1].isalnum() else piece
            start = max(start, resume)
        return EMPTY_LINES.sub("\n\n", made).strip() if WORD.search(made) else ""


def _spans(text: str, media_type: str) -> list[Span]:
    found = [match.span() for match in DATA.finditer(text) if _is_data(match[0])]
    if media_type == MARKDOWN:
        found += _in_markdown(text) if MARKUP.search(text) else ()
    else:
        found += (match.span() for match in DIRECTIVES.finditer(text))
        found += licence_spans(text)
    return found


def _is_data(run: str) -> bool:
    """Return whether letters and digits are data in base64 or hexadecimal, and no path, name or digest.

    Data changes between words, upper case and digits at every other character, words and paths do not.
    """
    if run.startswith("data:"):
        return True
    if len(run) <= DIGEST_CHARACTERS and HEX.fullmatch(run):
        return False
    kinds = REPEATED.sub(r"\1", run)
    return len(kinds) < DATA_RUN * len(KINDS.findall(kinds)) and run.count("/") <= max(4, len(run) / 16)


def _in_markdown(text: str) -> Iterator[Span]:
    code: list[Span] = []
    for block in blocks(text):
        if block.kind == "CodeBlock":
            code.append(block.span)
        elif block.kind == "HtmlBlock":
            yield from _in_html(text, block.span)
        elif block.is_prose and _navigates(block):
            yield whole_lines(text, block.span)
        else:
            yield from _inline(block)
    for match in DEFINITION.finditer(text):
        before = bisect_right(code, match.start(), key=lambda span: span[0])
        if not before or code[before - 1][1] <= match.start():
            yield match.span()


def _in_html(text: str, span: Span) -> Iterator[Span]:
    anchors = list(ANCHOR.finditer(text, *span))
    beside = ANCHOR.sub("", text[slice(*span)]) if len(anchors) >= BAR else "words"
    if WORD.search(HTML.sub("", beside)):
        yield from (match.span() for match in HTML.finditer(text, *span))
    else:
        yield span


def _navigates(block: Block) -> bool:
    """Return whether a block consists only of links: a navigation bar, or the table of contents of its page."""
    targets: list[str] = []
    depth = 0
    for event, _ in block.events:
        match event:
            case {"Start": {"Link": link}}:
                targets.append(link["dest_url"])
                depth += 1
            case {"Start": {"Image": _}}:
                depth += 1
            case {"End": "Link" | "Image"}:
                depth -= 1
            case {"Text": words} | {"Code": words} if not depth and WORD.search(words):
                return False
    if block.kind == "Paragraph" and len(targets) >= BAR:
        return True
    return bool(targets) and all(target.startswith("#") for target in targets)


def _inline(block: Block) -> Iterator[Span]:
    """Yield the spans of HTML, of badges, and of the markup and addresses of links and other images.

    A link with a relative address stays whole, because the name of that page says what the link is about.
    """
    opened: list[_Element] = []
    for event, place in block.events:
        span = block.place(place)
        match event:
            case {"InlineHtml": _}:
                yield span
            case {"Start": {"Link": link}}:
                opened.append(_Element(span, kept=not ADDRESS.match(link["dest_url"])))
            case {"Start": {"Image": image}}:
                opened.append(_Element(span, badge=bool(BADGE.search(image["dest_url"]))))
            case {"End": "Link" | "Image"} if opened:
                yield from opened.pop().around
        if opened and span[0] > opened[-1].span[0]:
            opened[-1].take(span)


@dataclass(slots=True)
class _Element:
    """Link or image, and the span of its words. Of a `badge` everything is noise, of a `kept` element nothing."""

    span: Span
    badge: bool = False
    kept: bool = False
    words: Span | None = None

    def take(self, span: Span) -> None:
        """Add a span to the words."""
        self.words = (self.words[0] if self.words else span[0], span[1])

    @property
    def around(self) -> Iterator[Span]:
        """Spans of the element that are noise."""
        if self.badge or self.words is None:
            yield self.span
        elif not self.kept:
            yield self.span[0], self.words[0]
            yield self.words[1], self.span[1]


def _merged(spans: Iterable[Span]) -> list[Span]:
    made: list[Span] = []
    for start, end in sorted(spans):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(end, made[-1][1]))
        elif start < end:
            made.append((start, end))
    return made
