"""Headings of texts by their media type: Markdown, reStructuredText, AsciiDoc, Org and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator

from findingaid.text import markdown
from findingaid.text.cleaning import MARKDOWN, RESTRUCTURED
from findingaid.text.markdown import Span

Heading = tuple[int, str, Span]
"""Level from 1 on, title without markup, and span of its lines."""

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

ASCIIDOC_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
ASCIIDOC_BLOCK = re.compile(r"([-.+/=*_])\1{3,}|--|```.*|[|,:!]===")
"""First line of a block of AsciiDoc that ends with the same line and has no sections, such as a listing or a table."""

ABOVE_TITLE = re.compile(r"\[.*\]|//.*|:!?\w[\w!-]*:.*|(?:ifn?def|ifeval|endif|include)::.*|=.*|")
"""Line of AsciiDoc below which a title may begin: blank, an attribute, a comment, a directive or another title."""

UNDERLINES = "=-~^+"
"""Signs below a title of AsciiDoc, by level."""

ORG_TITLE = re.compile(r"^(?:(\*+)[ \t]|#\+title:)(.*)$", re.MULTILINE | re.IGNORECASE)
ORG_UNSHOWN = re.compile(r"\A(?:(?:TODO|DONE)\b\s*)?(?:\[#\w\])?|\s:[\w@#%:]+:\Z")
"""State, priority and tags of a headline."""


def _in_braces(depth: int) -> str:
    """Return the pattern of words of one paragraph, with groups in braces down to a depth."""
    sign = r"[^{}\n]|\n(?![ \t]*\n)"
    return f"(?>(?:{sign}|\\{{{_in_braces(depth - 1)}\\}})*)" if depth else f"(?>(?:{sign})*)"


LATEX_LEVELS = ("title", "part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
LATEX_TITLE = re.compile(
    r"\\begin\{(?P<literal>verbatim\*?|Verbatim|lstlisting|minted|comment)\}.*?(?:\\end\{(?P=literal)\}|\Z)"
    r"|(?<!\\)%[^\n]*"
    rf"|\\(?P<level>{'|'.join(LATEX_LEVELS)})\*?\s*+(?:\[[^][\n]*\]\s*+)?"
    rf"\{{(?P<title>{_in_braces(4)})\}}",
    re.DOTALL,
)
"""Title of a section of LaTeX, or text that has none: a comment or one that is set as it is written."""

PARAMETER = re.compile(r"(?<!\\)#\d")
"""Parameter of a command that the text defines."""

LATEX_UNSHOWN = re.compile(r"\\(?:label|footnote|thanks|index)\s*\{[^{}]*\}")
LATEX_MARKUP = re.compile(r"\\\\|~|\\[A-Za-z]+\*?[ \t]*|[{}]|\\(?=[&%$#_{}])")


def headings_in(text: str, media_type: str) -> Iterator[Heading]:
    """Yield the headings of a text in order; none for other media types."""
    if parse := PARSERS.get(media_type):
        yield from parse(text)


def _restructured(text: str) -> Iterator[Heading]:
    """Yield the titles of sections, with levels by the order in which their signs appear first.

    Source: https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html#sections
    """
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


def _asciidoc(text: str) -> Iterator[Heading]:
    """Yield the titles of the document and of its sections, which have one sign more at each level.

    Source: https://docs.asciidoctor.org/asciidoc/latest/sections/titles-and-levels/
    """
    lines = [(found.start(), found[0].rstrip()) for found in re.finditer(r"[^\n]*\n?", text)]
    block, before = "", ""
    for (begin, line), (after, below) in zip(lines, [*lines[1:], (len(text), "")], strict=True):
        opens = ABOVE_TITLE.fullmatch(before)
        if block:
            block, line = "" if line == block else block, ""
        elif opens and (found := ASCIIDOC_TITLE.fullmatch(line)):
            yield len(found[1]), found[2].removesuffix(f" {found[1]}").rstrip(), (begin, begin + len(line))
        elif opens and _underlined(line, below):
            yield UNDERLINES.index(below[0]) + 1, line, (begin, after + len(below))
            block = below
        elif ASCIIDOC_BLOCK.fullmatch(line):
            block = "```" if line.startswith("```") else line
            line = ""
        before = line


def _underlined(title: str, line: str) -> bool:
    """Return whether a line underlines a title of AsciiDoc: one sign, as often as the title is long, or one off."""
    if not line or line[0] not in UNDERLINES or line != line[0] * len(line):
        return False
    return len(line) > 1 and abs(len(title) - len(line)) <= 1 and re.search(r"\w", title) is not None


def _org(text: str) -> Iterator[Heading]:
    """Yield the title of the document and those of headlines. Source: https://orgmode.org/worg/org-syntax.html"""
    for found in ORG_TITLE.finditer(text):
        if title := ORG_UNSHOWN.sub("", found[2].strip()).strip():
            yield len(found[1] or "") + 1, title, found.span()


def _latex(text: str) -> Iterator[Heading]:
    """Yield the title of the document and those of parts, chapters, sections and paragraphs."""
    for found in LATEX_TITLE.finditer(text):
        if found["title"] and not PARAMETER.search(found["title"]):
            title = LATEX_MARKUP.sub(
                lambda m: " " if m[0] in ("~", r"\\") else "", LATEX_UNSHOWN.sub("", found["title"])
            )
            yield LATEX_LEVELS.index(found["level"]) + 1, " ".join(title.split()), found.span()


PARSERS = {
    MARKDOWN: markdown.headings,
    RESTRUCTURED: _restructured,
    "text/x-asciidoc": _asciidoc,
    "text/x-org": _org,
    "application/x-tex": _latex,
}
