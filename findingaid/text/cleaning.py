"""Text as a reader sees it: without badges, comments, navigation, licence headers, data and link targets."""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from findingaid.text.folding import INVISIBLE, TERMINAL
from findingaid.text.licences import licence_spans
from findingaid.text.markdown import Block, Span, blocks, whole_lines

MARKDOWN = "text/markdown"
RESTRUCTURED = "text/x-rst"

BAR = 3
"""Number of links from which a paragraph that consists only of links counts as a navigation bar."""

BADGE = re.compile(
    r"badge|shields\.io|codecov|coveralls|travis-ci|/workflows/|readthedocs\.[a-z]+/projects", re.IGNORECASE
)
"""Part of the address of an image that shows the state of a project."""

MARKUP = re.compile(r"[\[<&*\\](?:(?<=[\[<])|(?<=&)#?\w+;|(?<=\w\*)\**\w|(?<=\w\\)[^\w\s])")
"""Beginning of every element of Markdown that is removed or replaced. One set of signs comes first, for speed."""

ENTITY = re.compile(r"&#?\w+;")

TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)")

SHOWN = re.compile(
    r"\s(?:alt|caption|description|heading|label|summary|title)\s*=\s*([\"'])(.*?)\1", re.DOTALL | re.IGNORECASE
)
"""Attributes of HTML, and of the components of MDX, whose values are words for readers."""

UNREAD = frozenset({"iframe", "nav", "script", "style"})
"""Tags whose attributes are not for readers."""

INLINE = frozenset(
    """
    a abbr b bdi bdo big cite code data del dfn em font i ins kbd mark q rb ruby s samp small span strong sub sup time
    tt u var wbr
    """.split()  # noqa: SIM905  # a paragraph is easier to read than a list
)
"""Tags that do not separate words."""

RUBY = re.compile(r"<ruby\b[^<>]*>(.*?)</ruby\s*>", re.DOTALL | re.IGNORECASE)
READING = re.compile(r"<rp\b[^<>]*>.*?</rp\s*>|<rt\b[^<>]*>(.*?)(?:</rt\s*>|(?=<rt)|\Z)", re.DOTALL | re.IGNORECASE)

DATA = re.compile(
    r"data:[\w.+-]+/[\w.+-]+;base64,[A-Za-z0-9+/=]*"
    r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{100,}={0,2}"
    r"|^(?:[A-Za-z0-9+/]{60,100}\r?\n){3,}[A-Za-z0-9+/]*={0,2}",
    re.MULTILINE,
)
"""Data in base64, in one run or in lines."""

LONG_RUN = 60
"""Characters without a blank that data has at least, except behind `data:`."""

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

DEFINITION = re.compile(
    r"^ {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*(?:<[A-Za-z][\w+.-]*:[^<>\n]*>|[A-Za-z][\w+.-]*:\S+)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$",
    re.MULTILINE,
)
"""Definition of a link by reference, but not of a footnote, and no text that begins like one."""

DIRECTIVES = re.compile(
    r"^[ \t]*\.\.[ ]+(?:\|[^|\n]+\|[ ]+)?(?:image|figure)::.*(?:\n[ \t]+:\w+:.*)*"
    r"|^[ \t]*\.\.[ ]+_[^:\n]+:[ ].*$"
    r"|<(?:https?://|mailto:)[^<>\s]*>(?=`_)",
    re.MULTILINE,
)
"""Images and link targets of reStructuredText."""

SUBSTITUTED = re.compile(r"^[ \t]*\.\.[ ]+\|([^|\n]+)\|", re.MULTILINE)
SUBSTITUTIONS = re.compile(r"^[ \t]*(?:\|[^|\s](?:[^|\n]*[^|\s])?\|[ \t]*)+$", re.MULTILINE)
NAMES = re.compile(r"\|([^|\n]+)\|")
"""Names that are defined in reStructuredText, mostly of badges, and lines of nothing else."""

QUOTING = frozenset(
    {"application/geo+json", "application/json", "application/jsonl", "application/toml", "application/yaml"}
)
QUOTED = re.compile(r'"(?>(?:[^"\\\n]++|\\.)*)"')
ESCAPED_BLANK = re.compile(r"\\(?:[^fnrt]|([fnrt]))", re.DOTALL)
"""Media types with strings in double quotes, such a string, and an escape in it: of a line end or a tab, or another."""

WORD = re.compile(r"\w")
EMPTY_LINES = re.compile(r"(?<![ \t])[ \t]*+\n(?:[ \t]*+\n)+")


Edit = tuple[int, int, str | None]
"""Span of a text, and what a reader sees in its place; None for a border between words."""


@dataclass(frozen=True)
class Noise:
    """Spans of a text that a reader does not see as they are, in order, without overlaps."""

    text: str
    edits: Sequence[Edit]

    @classmethod
    def of(cls, text: str, media_type: str = "") -> Noise:
        """Find the noise of a text, which may be Markdown, reStructuredText, code or plain."""
        return cls(text, _merged(_edits(text, media_type)))

    def removed(self, start: int, end: int) -> str | None:
        """Return text[start:end] without noise: None if it has no noise, "" if no word is left.

        Words that were separated by noise only are separated by a blank, unless a reader sees them as one.
        """
        first = bisect_right(self.edits, start, key=lambda edit: edit[1])
        last = bisect_left(self.edits, end, key=lambda edit: edit[0])
        if first == last:
            return None
        made, apart = "", False
        for stop, resume, seen in (*self.edits[first:last], (end, end, "")):
            for piece in (self.text[start : min(stop, end)], seen if stop >= start else ""):
                if piece:
                    made += f" {piece}" if apart and made[-1:].isalnum() and piece[:1].isalnum() else piece
                    apart = False
            apart = apart or seen is None
            start = max(start, resume)
        return EMPTY_LINES.sub("\n\n", made).strip() if WORD.search(made) else ""


def _edits(text: str, media_type: str) -> list[Edit]:
    found: list[Edit] = []
    if "data:" in text or max(map(len, text.split()), default=0) >= LONG_RUN:
        found += ((*match.span(), None) for match in DATA.finditer(text) if _is_data(match[0]))
    if "\x1b" in text or "\b" in text:
        found += ((*match.span(), "") for match in TERMINAL.finditer(text))
    if not text.isascii():
        found += ((*match.span(), "") for match in INVISIBLE.finditer(text))
    if media_type in QUOTING and "\\" in text:
        found += _escaped_blanks(text)
    if media_type == MARKDOWN:
        found += _in_markdown(text) if MARKUP.search(text) else ()
    else:
        found += ((*match.span(), None) for match in DIRECTIVES.finditer(text))
        names = {*SUBSTITUTED.findall(text)}
        for line in SUBSTITUTIONS.finditer(text) if names or media_type == RESTRUCTURED else ():
            if media_type == RESTRUCTURED or names.issuperset(NAMES.findall(line[0])):
                found.append((*line.span(), None))
        found += ((*span, None) for span in licence_spans(text))
    return found


def _escaped_blanks(text: str) -> Iterator[Edit]:
    for quoted in QUOTED.finditer(text):
        for escape in ESCAPED_BLANK.finditer(text, *quoted.span()):
            if escape[1]:
                yield *escape.span(), None


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


def _in_markdown(text: str) -> Iterator[Edit]:
    code: list[Span] = []
    for block in blocks(text):
        if block.kind == "CodeBlock":
            code.append(block.span)
        elif block.kind == "HtmlBlock":
            yield from _in_html(text, block.span)
        elif block.is_prose and _navigates(block):
            yield *whole_lines(text, block.span), None
        else:
            yield from _inline(text, block)
    rubies = ((match, _ruby(match[1])) for match in RUBY.finditer(text))
    for match, seen in (*rubies, *((match, None) for match in DEFINITION.finditer(text))):
        before = bisect_right(code, match.start(), key=lambda span: span[0])
        if not before or code[before - 1][1] <= match.start():
            yield *match.span(), seen


def _ruby(text: str) -> str:
    """Return the base text of a ruby in one piece, and the readings that stand above it."""
    readings = "".join(found[1] or "" for found in READING.finditer(text))
    return html.unescape(HTML.sub("", f"{READING.sub('', text)} {readings} ")) if readings else text


def _in_html(text: str, span: Span) -> Iterator[Edit]:
    anchors = list(ANCHOR.finditer(text, *span))
    beside = ANCHOR.sub("", text[slice(*span)]) if len(anchors) >= BAR else "words"
    if WORD.search(HTML.sub(lambda found: _seen(found[0]) or "", beside)):
        yield from ((*match.span(), _seen(match[0])) for match in HTML.finditer(text, *span))
        yield from ((*match.span(), html.unescape(match[0])) for match in ENTITY.finditer(text, *span))
    else:
        yield *span, None


def _seen(tag: str) -> str | None:
    """Return what a reader sees of a tag or a comment: the words of its attributes, nothing, or a border of words."""
    found = TAG.match(tag)
    name = found[1].lower() if found else ""
    if "=" in tag and name and name not in UNREAD and not BADGE.search(tag):
        words = " ".join(html.unescape(said[2]) for said in SHOWN.finditer(tag))
        if WORD.search(words):
            return f" {words} "
    return "" if not name or name in INLINE else None


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


def _inline(text: str, block: Block) -> Iterator[Edit]:
    """Yield the edits for HTML, badges, entities, escapes, and the markup and addresses of links and other images.

    A link with a relative address stays whole, because the name of that page says what the link is about. Emphasis
    stays, too, except within a word.
    """
    yield from _decoded(text, block)
    opened: list[_Element] = []
    for event, place in block.events:
        span = block.place(place)
        within = _is_within_word(text, span)
        match event:
            case {"InlineHtml": tag}:
                yield *span, _seen(tag)
            case {"Start": {"Link": link}}:
                opened.append(_Element(span, within, kept=not within and not ADDRESS.match(link["dest_url"])))
            case {"Start": {"Image": image}}:
                opened.append(_Element(span, badge=bool(BADGE.search(image["dest_url"]))))
            case {"Start": "Emphasis" | "Strong"}:
                opened.append(_Element(span, within, kept=not within))
            case {"End": "Link" | "Image" | "Emphasis" | "Strong"} if opened:
                yield from opened.pop().around
        if opened and span[0] > opened[-1].span[0]:
            opened[-1].take(span)


def _decoded(text: str, block: Block) -> Iterator[Edit]:
    """Yield the edits for the entities of a block, and for the backslashes before signs."""
    last = -1
    for event, place in block.events:
        if "Text" in event:
            start, end = block.place(place)
            if "&" in text[start:end] and event["Text"] != text[start:end]:
                yield start, end, event["Text"]
            if start == last + 1 and text[last] == "\\":
                yield last, start, ""
            last = end


def _is_within_word(text: str, span: Span) -> bool:
    """Return whether a letter or digit stands directly before or behind a span."""
    start, end = span
    return text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()


@dataclass(slots=True)
class _Element:
    """Link, image or emphasis, and the span of its words. Of a `badge` everything is noise, of a `kept` one nothing.

    The words of one `within` a word are a part of it.
    """

    span: Span
    within: bool = False
    badge: bool = False
    kept: bool = False
    words: Span | None = None

    def take(self, span: Span) -> None:
        """Add a span to the words."""
        self.words = (self.words[0] if self.words else span[0], span[1])

    @property
    def around(self) -> Iterator[Edit]:
        """Edits for the parts of the element that are noise."""
        seen = "" if self.within else None
        if self.badge or (self.words is None and not self.kept):
            yield *self.span, None
        elif self.words and not self.kept:
            yield self.span[0], self.words[0], seen
            yield self.words[1], self.span[1], seen


def _merged(edits: Iterable[Edit]) -> list[Edit]:
    """Return edits in order; one within another is left out, and those that overlap become one."""
    made: list[Edit] = []
    for start, end, seen in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if made and start < made[-1][1]:
            if end > made[-1][1]:
                made[-1] = (made[-1][0], end, None)
        elif start < end:
            made.append((start, end, seen))
    return made
