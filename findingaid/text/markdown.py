"""Headings and other blocks of Markdown with their spans, by pulldown-cmark. Front matter is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from findingaid.text.front_matter import MATTER

LINE_END = re.compile(r"\r\n?|\n")
"""Line ends that CommonMark and Python agree on; str.splitlines splits at more characters."""

Span = tuple[int, int]
"""Start and end of a part of a text, in characters."""

Event = tuple[Any, Any]
"""Event of the parser, such as {"Text": "word"}, {"Start": "Strong"} or "SoftBreak", and its range in bytes."""

MAYBE_HEADING = re.compile(r"(?:^|\r) {0,3}(?:#{1,6}(?:\s|$)|=+[ \t]*(?:\r|$)|-+[ \t]*(?:\r|$))", re.MULTILINE)
"""Line that is a heading, or underlines one, if it is not in a code block, HTML or the like."""

CONTAINERS = frozenset({"BlockQuote", "Item"})

INLINES = frozenset({"Emphasis", "Strong", "Strikethrough", "Link", "Image"})
"""Elements within a block that have a start and an end."""


@dataclass(slots=True)
class Block:
    """Heading, paragraph, code block, or cell of a table; `kind` is the parser's name for it.

    The words of a list item that has no blank lines are of the kind "Item".
    """

    kind: str
    span: Span
    events: Sequence[Event]
    places: Sequence[int]
    """Offset in characters of each byte of the text."""

    def place(self, found: Mapping[str, int]) -> Span:
        """Return the span in characters of the range of an event."""
        return _span(found, found, self.places)

    @property
    def is_prose(self) -> bool:
        return self.kind in {"Paragraph", "Item"}

    @property
    def words(self) -> str:
        """Words without markup, images and HTML; a line end is a space."""
        return _words(self.events)


def headings(text: str) -> Iterator[tuple[int, str, Span]]:
    """Yield (level, title without markup, span of its lines) for the headings that are not in a quote or a list."""
    if not MAYBE_HEADING.search(text):
        return
    events, places = _parse(text, tables=False)
    title: list[Event] = []
    containers = 0
    for found in events:
        event, at = found
        if "Start" in event:
            name = _name(event["Start"])
            containers += name in CONTAINERS
            if name == "Heading":
                title = []
        elif "End" in event:
            name = _name(event["End"])
            containers -= name in CONTAINERS
            if name == "Heading" and not containers:
                level = int(event["End"]["Heading"][1])
                yield level, _words(title), whole_lines(text, _span(at, at, places))
        title.append(found)


def blocks(text: str, *, tables: bool = True, wiki_links: bool = False) -> Iterator[Block]:
    """Yield the blocks of a text with words. With `tables` off, a table is a paragraph."""
    events, places = _parse(text, tables, wiki_links)
    run: list[Event] = []
    for found in events:
        event, at = found
        edge = next(iter(event)) if isinstance(event, dict) else event
        name = _name(event[edge]) if edge in {"Start", "End"} else edge
        if name in INLINES or (edge == name and edge != "Rule"):
            run.append(found)
        elif run:
            words_of_item = edge == "Start" or name in {"Item", "Rule"}
            yield _item(text, run, places) if words_of_item else Block(name, _span(at, at, places), run, places)
            run = []


def _item(text: str, run: Sequence[Event], places: Sequence[int]) -> Block:
    """Return the words that are directly in a list item.

    The first event may begin after a backslash, and the last may end before its markup, as in [link][].
    """
    start, end = _span(run[0][1], run[-1][1], places)
    start -= text.endswith("\\", 0, start)
    return Block("Item", (start, whole_lines(text, (start, end))[1]), run, places)


def _span(first: Any, last: Any, places: Sequence[int]) -> Span:
    return int(places[first["start"]]), int(places[last["end"]])


def whole_lines(text: str, span: Span) -> Span:
    """Extend a span to the lines that it touches, including the end of the last."""
    start, end = span
    start = text.rfind("\n", 0, start) + 1
    start = max(start, text.rfind("\r", start, span[0]) + 1)
    if text[end - 1 : end] not in {"\r", "\n"}:
        found = LINE_END.search(text, end)
        end = found.end() if found else len(text)
    return start, end


def _name(tag: Any) -> str:
    return tag if isinstance(tag, str) else next(iter(tag))


def _words(events: Iterable[Event]) -> str:
    words: list[str] = []
    images = 0
    for event, _ in events:
        match event:
            case {"Text": text} | {"Code": text} if not images:
                words.append(text)
            case "SoftBreak" | "HardBreak":
                words.append(" ")
            case {"Start": {"Image": _}}:
                images += 1
            case {"End": "Image"}:
                images -= 1
    return "".join(words)


def _parse(text: str, tables: bool, wiki_links: bool = False) -> tuple[Iterable[Event], Sequence[int]]:
    """Return the events of a text, and the offset in characters of each of their bytes."""
    import numpy as np  # both imported here, since most commands never need them
    from pyromark import Options, events_with_range

    matter = MATTER.match(text)
    begin = matter.end() if matter else 0
    body = text[begin:].encode("utf-8", "replace")  # a lone surrogate cannot be encoded
    places: Any = range(begin, begin + len(body) + 1)
    if not body.isascii():
        begins = np.frombuffer(body, np.int8) >= -64  # whether a character begins with a byte
        places = begin + np.concatenate([[0], np.cumsum(begins)])
    # {#id} behind a heading is none of its words
    options = Options.ENABLE_HEADING_ATTRIBUTES | Options.ENABLE_STRIKETHROUGH
    options |= Options.ENABLE_TABLES if tables else 0
    options |= Options.ENABLE_WIKILINKS if wiki_links else 0
    return events_with_range(body.decode(), options=options), places
