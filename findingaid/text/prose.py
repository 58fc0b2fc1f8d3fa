"""Sentences of a text's prose with their spans; headings, code, tables, images and lists of links are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from findingaid.text.markdown import Span, blocks
from findingaid.text.sentences import split_statements

MARKUP = re.compile(
    r"(?=[`!\[\]<*_~\\])(?:"  # says at once that most characters are no markup
    r"(?P<code>(?<!`)(?P<fence>`+)(?!`)(?P<inside>.+?)(?<!`)(?P=fence)(?!`))"
    r"|(?P<whole>!\[[^\]]{0,500}\](?:\([^()]*\)|\[[^\]]*\])?|\[\^[^\]]{1,500}\]|<!--(?:(?!<!--).)*?-->)"
    r"|(?P<opens>\[(?=[^\[\]]*\][(\[])|<(?=(?:https?|mailto):)|(?<![\w*])\*{1,3}(?=\S)|(?<!\w)_{1,3}(?=\S)|~~(?=\w)"
    r"|<[A-Za-z][^<>]*>|\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<closes>\]\((?:[^()]|\([^()]*\))*\)|\]\[[^\]]*\]|(?<=\S)\*{1,3}(?![\w*])|(?<=\S)_{1,3}(?!\w)|(?<=\w)~~"
    r"|</[A-Za-z][^<>]*>))",
    re.DOTALL,
)
"""Inline markup of Markdown that occurs in sentences."""

LINKS_SHARE = 0.5
"""Largest share of link text in a paragraph. A paragraph with more is a list of links, and is skipped."""

PARAGRAPH = 20_000
"""Most characters of a Markdown paragraph: matching its markup takes quadratic time, and a longer one is a listing."""

QUOTED = re.compile(r"[\r\n][ \t>]+")

STOPS = re.compile(r"[.!?…]")

BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*|[\f\u240c]")


@dataclass(frozen=True, slots=True)
class ProseSentence:
    """Sentence without markup and line ends.

    `span` is (start, end): text[start:end] is the sentence in the original text, with markup. `first` marks the first
    sentence of a paragraph. `code` has its code spans.
    """

    text: str
    span: Span
    first: bool
    code: tuple[str, ...]


def prose_sentences(text: str, markdown: bool) -> Iterator[ProseSentence]:
    """Yield every sentence of the prose, in order."""
    for paragraph in _paragraphs(text) if markdown else _blocks(text):
        yield from _of(paragraph)


def without_markup(text: str) -> str:
    """Return a passage without inline markup and quote marks of Markdown, with white space folded."""
    return " ".join(MARKUP.sub(lambda found: found["inside"] or "", QUOTED.sub("\n", text)).split())


@dataclass(frozen=True)
class _Paragraph:
    """Characters of a paragraph, without the prefixes of its lines, and the offset of each character in the text."""

    text: str
    places: range | list[int]
    markdown: bool


@dataclass
class _Plain:
    """Characters without markup. `begins` and `ends` give the offsets of each in the text, adjacent markup included."""

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
        """Strip the markup from a paragraph."""
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
        places = self.places[start:end]
        self.begins.extend(places)
        if isinstance(places, range):
            self.ends.extend(range(places.start + 1, places.stop + 1))
        else:
            self.ends.extend([place + 1 for place in places])
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


def _of(paragraph: _Paragraph) -> Iterator[ProseSentence]:
    words = _Plain.of(paragraph)
    if words.linked > LINKS_SHARE * len(words.text.strip()):
        return
    folded = words.text.replace("\n", " ")  # same length, so that offsets stay valid
    masked = folded
    for begin, end in words.code:  # a full stop within code does not end a sentence
        masked = f"{masked[:begin]}{STOPS.sub('x', masked[begin:end])}{masked[end:]}"
    at, first = 0, True
    for piece in split_statements(masked):
        sentence = piece.strip()
        start = masked.find(sentence, at) if sentence else -1
        if start < 0:
            continue
        at = start + len(sentence)
        code = tuple(folded[slice(*span)] for span in words.code if start <= span[0] < at)
        yield ProseSentence(" ".join(folded[start:at].split()), (words.begins[start], words.ends[at - 1]), first, code)
        first = False


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    """Yield the paragraphs of a Markdown text, including those in list items and quotes, except very long ones."""
    for block in blocks(text):
        start, end = block.span
        if block.is_prose and end - start <= PARAGRAPH:
            lines = []
            for prefix in QUOTED.finditer(text, start, end):
                lines.append(range(start, prefix.start() + 1))
                start = prefix.end()
            lines.append(range(start, end))
            words = "".join(text[line.start : line.stop] for line in lines).replace("\r", " ")
            yield _Paragraph(words, lines[0] if len(lines) == 1 else list(chain(*lines)), markdown=True)


def _blocks(text: str) -> Iterator[_Paragraph]:
    """Yield the blocks of a plain text, separated by blank lines and form feeds."""
    ends = [found.span() for found in BLANK_LINES.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    for start, end in zip(starts, [*(start for start, _ in ends), len(text)], strict=True):
        if text[start:end].strip():
            yield _Paragraph(text[start:end].replace("\r", " "), range(start, end), markdown=False)
