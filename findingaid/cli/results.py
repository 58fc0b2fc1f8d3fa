"""Search results on a terminal: places, passages with the words of the query, and the editor at a place."""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from findingaid.errors import ConfigError, visible, visible_line
from findingaid.model import SUMMARY, Hit, Mode
from findingaid.query.lookup.artifact import SHORT_VERSION
from findingaid.query.lookup.freshness import HasFreshness
from findingaid.query.lookup.places import Location
from findingaid.query.search.hits import HitGroup
from findingaid.text.analyzer import Lexical, split_identifiers
from findingaid.text.structure import PAGE_SIGN
from findingaid.text.words import find_words, salient

LINES = 4
"""Most lines of a passage in a list of hits."""

LINE_CHARS = 400
"""Most characters of one of these lines; a paragraph is often a single line."""

NO_WORDS = f"{string.whitespace}{PAGE_SIGN}"
"""Characters of lines that are left out."""

WEAK = "nothing matches well; these are the nearest:"

SCORES = {
    "dense": "score: cosine similarity of query and text, from -1 to 1",
    "lexical": "score: BM25, by how often and how prominently a text has the query's words; 0 and more",
    "hybrid": "score: from 0 to 1; one part for the meaning (dense), one for the words (lexical)",
}
"""Explanation of the scores of each mode."""


@dataclass(frozen=True)
class Highlighter:
    """Highlights the words of queries in texts, in any form."""

    queries: Sequence[str]
    lexical: Lexical = field(default_factory=Lexical)

    def highlight(self, text: str) -> Text:
        """Return a text with the words of the queries marked."""
        shown = Text(text)
        for start, end in self.spans(text):
            shown.stylize("bold yellow", start, end)
        return shown

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the places of the words of the queries in a text."""
        return [(start, end) for start, end, _ in find_words(self._stems, text, self.lexical)]

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(stem for query in self.queries for stem in salient(split_identifiers(query), self.lexical))

    def excerpt(self, text: str) -> str:
        """Return the lines of a text that have most of the queries' words, at most `LINES`, as they are in the text."""
        lines = [line for line in textwrap.dedent(text.expandtabs(4)).splitlines() if line.strip(NO_WORDS)]
        counts = [len(self.spans(line)) for line in lines]
        starts = range(max(1, len(lines) - LINES + 1))
        first = max(starts, key=lambda start: sum(counts[start : start + LINES]), default=0)
        shown = [self._cut(line) for line in lines[first : first + LINES]]
        return "\n".join(["…"] * (first > 0) + shown + ["…"] * (first + LINES < len(lines)))

    def _cut(self, line: str) -> str:
        """Cut a long line around the first word of the queries that is in it."""
        if len(line) <= LINE_CHARS:
            return line
        first = next(iter(self.spans(line)), (0, 0))[0]
        start = 0 if first < LINE_CHARS // 2 else line.rfind(" ", 0, first - LINE_CHARS // 4) + 1
        shown = line[start : start + LINE_CHARS]
        return "… " * (start > 0) + shown + " …" * (start + LINE_CHARS < len(line))


def render_hits(
    groups: Sequence[HitGroup], locations: Sequence[Location], words: Highlighter, explained: Mode | None
) -> RenderableType:
    """Render groups of hits, numbered, each with its place and the best lines of its passage."""
    blocks: list[RenderableType] = [Text(WEAK, "yellow")] if groups and all(group.best.weak for group in groups) else []
    for number, (group, location) in enumerate(zip(groups, locations, strict=True), 1):
        blocks += _render_group(number, group, location, words, explained is not None)
    return Group(*blocks, *([Text(SCORES[explained], "dim")] if explained else []))


def _render_group(
    number: int, group: HitGroup, location: Location, words: Highlighter, explained: bool
) -> Iterator[RenderableType]:
    hit, indent = group.best, 3
    marks = [("  weak", "yellow")] if hit.weak else []
    marks += [(visible(fresh_words(hit)), "dim" if hit.fresh == "current" else "yellow")] if hit.fresh else []
    yield Text.assemble(
        (f"{number:<{indent}}", "dim"), (visible_line(str(location)), "bold"), f"  {hit.score:.3f}", *marks,
        (visible_line(f"  {_describe(hit, location)}"), "dim"),
    )  # fmt: skip
    node = hit.surface_kind == SUMMARY
    yield Padding(words.highlight(visible(hit.text if node else words.excerpt(hit.text))), (0, 0, 0, indent))
    if node:
        for claim in group.others:
            text = Text.assemble((f"{_surface(claim)}  ", "dim"), words.highlight(visible(claim.text)))
            yield Padding(text, (0, 0, 0, 2 * indent))
    elif group.others:
        holder = "file" if location.path else "artifact"
        yield Padding(Text(f"+{len(group.others)} more in this {holder}", "dim"), (0, 0, 0, indent))
    if explained:
        yield Padding(Text(visible("\n".join(hit.why())), "dim"), (0, 0, 0, indent))


def fresh_words(shown: HasFreshness) -> str:
    """Return the freshness of something that is shown, with a space before it; "" if it was not asked for."""
    if not shown.fresh:
        return ""
    return f"  {shown.fresh}{f' {shown.fresh_note}' if shown.fresh_note else ''}"


def format_freshness(seconds: float) -> str:
    """Return one line on the time that a check of freshness took."""
    return f"sources checked in {seconds * 1000:,.0f} ms"


def _describe(hit: Hit, location: Location) -> str:
    """Describe a record: its corpus if the place does not name it, its surface and its span."""
    return f"{hit.corpus}  {_surface(hit)}" if location.path else _surface(hit)


def _surface(hit: Hit) -> str:
    span = f" {printed_span(hit.span, hit.artifact_version)}" if hit.span else ""
    return f"{hit.surface_kind} {hit.surface_index}{span}"


def printed_span(span: tuple[int, int], version: str) -> str:
    """Return a span with the beginning of the version in which it is, as `show` reads it: [30:75]@1f2e3d4c."""
    return f"[{span[0]}:{span[1]}]{f'@{version[:SHORT_VERSION]}' if version else ''}"


def mark_passage(text: str, span: tuple[int, int] | None) -> Text:
    """Return a text with a passage marked, also without colours."""
    if span is None:
        return Text(visible(text))
    shown = Text(visible(text[: span[0]]))
    shown.append(f">>{visible(text[slice(*span)])}<<", "reverse")
    return shown.append(visible(text[span[1] :]))


def open_in_editor(location: Location) -> None:
    """Open the file of a hit in $VISUAL or $EDITOR, at its line. Raises ConfigError if the editor cannot be started."""
    command = editor_command(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "", location)
    try:
        subprocess.run(command, check=False)  # noqa: S603  # the user's own editor
    except OSError as error:
        raise ConfigError(f"$VISUAL or $EDITOR: {command[0]!r} cannot be started: {error.strerror}") from None


def editor_command(editor: str, location: Location) -> list[str]:
    """Return the command that opens a file at its line. Editors without a known option get the file alone."""
    program, *options = shlex.split(editor)
    name = os.path.basename(program).removesuffix(".exe")
    line = location.line or 1
    if name in {"code", "code-insiders", "codium", "cursor", "windsurf"}:
        return [program, *options, "-g", f"{location.path}:{line}"]
    if name in {"hx", "helix", "subl", "zed"}:
        return [program, *options, f"{location.path}:{line}"]
    if name in {"vi", "vim", "nvim", "gvim", "view", "nano", "emacs", "emacsclient", "micro", "joe", "kak", "less"}:
        return [program, *options, f"+{line}", location.path]
    return [program, *options, location.path]
