"""Entries: rows of tables, items of a list of tasks, objects of JSON, and lines with a name and a value.

Each is a statement, such as "year: 2024; cost: 640 SEK". That of a named value or an object begins with its section, as
in "server.beta: memory: 64 GB".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import chain, islice, takewhile
from statistics import mode
from typing import NamedTuple

from orjson import loads

from findingaid.text.markdown import Span
from findingaid.text.words import LETTERS

DELIMITED = {"text/csv": ",;|", "text/tab-separated-values": "\t"}
"""Delimiters that tables of these media types may have."""

SETTINGS = frozenset(
    {
        "application/geo+json",
        "application/json",
        "application/jsonl",
        "application/toml",
        "application/yaml",
        "text/plain",
        "text/x-java-properties",
    }
)
"""Media types whose lines may have a name and a value, or be objects of JSON."""

NAMED = re.compile(
    r"""
    ^[ \t]*(?:[-*][ \t]+)?
    (?P<name>["']?[^\W\d][^:="'\n]{0,60}?["']?)
    [ \t]*(?::[ \t]|=)[ \t]*
    (?P<value>[^\s\[{|>&].*)$
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A line with a name and a value, up to its end: `retention_days: 45`, `"night_from": "22:30",`, `PORT=8080`."""

SECTION = re.compile(r"[ \t]*\[+([^\[\]{}\n]+)\]+[ \t]*(?:[#;].*)?")
"""Head of a section in INI or TOML."""

PARENT = re.compile(
    r"""[ \t]*(?:[-*][ \t]+)?["']?([^\W\d][^:="'\n{}\[\]]{0,60}?)["']?[ \t]*(?:[:=][ \t]*)?(?<=[:= \t{\[])[{\[]?"""
)
"""Line with the name of the indented lines below it, in YAML or JSON."""

ITEM = re.compile(r"[ \t]*[-*][ \t]")

OBJECT = re.compile(r"""(?:["'](?P<name>[^"'\n]{1,60})["'][ \t]*:[ \t]*)?(?P<object>\{[^{}:\n]*+:[^{}\n]*+\})""")
"""Object of JSON on one line with none within, and its name."""

TASK = re.compile(r"^[ \t]*[-*+][ \t]+(\[[ xX]\][ \t]+\S.*)", re.MULTILINE)
"""Item of a list of tasks in Markdown."""

LABELLED = re.compile(r"[^\W\d][^:.!?]{0,60}: \S.*")
"""Statement without a full stop that has a label, such as "Password: in the safe"."""

ASKS = re.compile(r"(?:^|(?<=; ))[^;]*[?？؟](?:; |$)")  # noqa: RUF001  # in any script
"""Part of an entry that is a question."""

ANSWER = re.compile(r"(?:^|.*\W)(?:a|answer|antwort|lösung|reply|response|result|solution|value)", re.IGNORECASE)
"""Name of an answer, in which a number says something. Other numbers before a question are ids and dates."""

UNKNOWN = re.compile(r"[\W_]*(?:(?:n/?a|nil|none|null|tbd|todo|unknown)\b)?[\W_]*", re.IGNORECASE)
"""Value that says nothing."""

TABLE = re.compile(r"^(?:[ \t]*\|.*\|[ \t\r]*(?:\n|\Z))+", re.MULTILINE)
RULE = re.compile(r"(?=[^-]*-)[\s|:-]*")
CELL_END = re.compile(r"(?<!\\)\|")
BOLD = re.compile(r"(\*\*|__)(.+)\1")
LINE = re.compile(r"[^\r\n]+")
WHOLE_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")

QUOTED = re.compile(r"""(?:\A|(?<=[\n\r,;|\t]))"(?>(?:[^"]++|"")*)("?)""")
"""Cell in quotes, with its end or up to the end of the text. A quote within another cell, as for inches, is none."""

FIRST_ROWS = 20
"""Rows of a table of which one names its columns."""

LONGEST_TABLE = 100_000
"""Characters above a part of a table in which its first row is looked for."""

QUOTES = " \t\"'"


class Entry(NamedTuple):
    """Words of an entry, its span in the text, and of a named value the names of its section, with which it begins."""

    words: str
    span: Span
    within: str = ""


def entries(text: str, media_type: str, before: str = "") -> Iterator[Entry]:
    """Yield the rows and the named values of a text, or of a part of it that follows the text `before`."""
    if media_type in DELIMITED:
        yield from _delimited(text, DELIMITED[media_type], before)
    elif media_type in SETTINGS:
        above = before[-LONGEST_TABLE:]
        for words, (start, end), within in _settings(above + text):
            if start >= len(above):
                yield Entry(words, (start - len(above), end - len(above)), within)
    else:
        yield from _markdown(text, before)


def only_asks(words: str) -> bool:
    """Return whether an entry is a question without an answer: beside it are empty values, and numbers before it."""
    before, *after = (map(_named, part.split("; ")) for part in ASKS.split(words))
    values = [value for name, value in before if LETTERS.search(value) or ANSWER.fullmatch(name)]
    values += [value for _, value in chain(*after)]
    return bool(after) and all(UNKNOWN.fullmatch(value) for value in values)


def _named(part: str) -> tuple[str, str]:
    name, _, value = part.rpartition(":")
    return name, value


def _settings(text: str) -> Iterator[Entry]:
    """Yield the lines with a name and a value, and the objects on a line, each with the names of what it is in.

    Those are the section, the less indented lines above it, and the first entry of its own item of a list.
    """
    begun = False
    within: list[tuple[float, str]] = []  # indentations, and names; "" for an item of which no entry is known yet
    for line in LINE.finditer(text):
        words = line[0].strip()
        if not words or words.startswith(("#", ";", "//")):
            continue
        indented = len(line[0]) - len(line[0].lstrip(" \t")) + (0.5 if ITEM.match(line[0]) else 0.0)
        while within and within[-1][0] >= indented:
            within.pop()
        if section := SECTION.fullmatch(words):
            within = [(-1, section[1].strip(QUOTES))]
        elif found := NAMED.match(text, line.start()):
            value = found["value"].rstrip(" \t\r").removesuffix(",")
            named = f"{found['name'].strip(QUOTES)}: {value.strip(QUOTES)}"
            span = found.start(), found.start() + len(found[0].rstrip())
            yield Entry(_within(within) + named, span, _within(within))
            _begin_item(within, indented, named)
        elif parent := PARENT.fullmatch(words):
            within.append((indented, parent[1]))
        elif words == "{" and begun:  # within a list
            within.append((indented, ""))
        else:
            yield from (Entry(_within(within) + named, span) for named, span in _objects(line))
        begun = True


def _objects(line: re.Match[str]) -> Iterator[tuple[str, Span]]:
    """Yield the names and values of each object of JSON on a line that has no other within."""
    for found in OBJECT.finditer(line[0]):
        with suppress(ValueError):
            cells = {name: value for name, value in loads(found["object"]).items() if value is not None}
            values = [", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in cells.values()]
            named = f"{found['name']}: " if found["name"] else ""
            yield named + _statement([*cells], values), (line.start() + found.start(), line.start() + found.end())


def _within(names: Sequence[tuple[float, str]]) -> str:
    return "".join(f"{name}{'; ' if ': ' in name else ': '}" for _, name in names if name)


def _begin_item(within: list[tuple[float, str]], indented: float, named: str) -> None:
    """Add an entry to the names of what the next lines are in, if it is the first of its item of a list."""
    if not indented.is_integer():
        within.append((indented, named))
    elif within and not within[-1][1]:
        within[-1] = within[-1][0], named


def _delimited(text: str, delimiters: str, before: str) -> Iterator[Entry]:
    """Yield the rows of a table. They have the names of its columns if it is certain which cell is in which."""
    if any(not cell[1] for cell in QUOTED.finditer(before)):
        return  # the part begins within a cell
    whole = before + text
    heads = {each: _head(whole, each) for each in delimiters}
    rows = {each: list(_records(text, each)) for each in delimiters}
    widths = {each: len(columns) for each, (columns, _) in heads.items()}
    fits = {each: (sum(len(row) == widths[each] > 1 for row, _ in rows[each]), widths[each]) for each in delimiters}
    delimiter = max(delimiters, key=lambda each: fits[each])
    sure = list(fits.values()).count(fits[delimiter]) == 1 or all(each == rows[delimiter] for each in rows.values())
    columns, end = heads[delimiter]
    for cells, span in rows[delimiter]:
        if cells != columns:
            named = sure and len(columns) == len(cells) and len(before) + span[0] > end
            yield Entry(_statement(columns if named else [], cells if sure else [text[slice(*span)]]), span)


def _head(text: str, delimiter: str) -> tuple[Sequence[str], int]:
    """Return the row with the names of the columns, and its end; no names if it is not certain which row has them.

    Exports, such as those of banks, may begin with lines that have few cells.
    """
    first = [*islice(_records(text, delimiter), FIRST_ROWS)]
    width = mode(len(cells) for cells, _ in first) if first else 0
    for i, (cells, (_, end)) in enumerate(first):
        filled = len([cell for cell in cells if cell.strip()])
        if 2 * filled > width or filled == width - 1:
            certain = i == 0 or all(len(row) == width for row, _ in first[i:])
            return (cells, end) if certain else ([], 0)
    return [], 0


def _records(text: str, delimiter: str) -> Iterator[tuple[Sequence[str], Span]]:
    """Yield the cells of each row that is sound, and its span. Cells in quotes may have line ends."""
    start = end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for line in WHOLE_LINE.finditer(text):
            end = line.end()
            yield line[0]

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        cells: Sequence[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            pass
        if cells:
            yield cells, (start, start + len(text[start:end].rstrip("\r\n")))
        start = end


def _markdown(text: str, before: str) -> Iterator[Entry]:
    """Yield the tasks, and the rows of tables with the columns that the row above the rule names."""
    tasks = (
        Entry(found[1].rstrip(), (found.start(1), found.start(1) + len(found[1].rstrip())))
        for found in TASK.finditer(text)
    )
    yield from merge(tasks, _rows(text, before), key=lambda entry: entry.span)


def _rows(text: str, before: str) -> Iterator[Entry]:
    for table in TABLE.finditer(text):
        rows = list(LINE.finditer(text, *table.span()))
        above = [] if table.start() else _last_rows(before)
        lines = [*above, *(row[0] for row in rows)]
        named = len(lines) > 1 and RULE.fullmatch(lines[1])
        columns = _row(lines[0]) if named else ()
        for row in rows[max(0, 2 - len(above)) :] if named else rows:
            yield Entry(_statement(columns, _row(row[0])), row.span())


def _last_rows(before: str) -> list[str]:
    """Return the rows of a table that a text ends within."""
    lines = reversed(before[-LONGEST_TABLE:].splitlines())
    return [*takewhile(lambda line: line.lstrip().startswith("|"), lines)][::-1]


def _row(line: str) -> Sequence[str]:
    cells = (cell.strip() for cell in CELL_END.split(line.strip().removeprefix("|").removesuffix("|")))
    return [(bold[2] if (bold := BOLD.fullmatch(cell)) else cell).replace("\\|", "|") for cell in cells]


def _statement(columns: Sequence[str], cells: Sequence[str]) -> str:
    names = [column.strip() for column in columns] + [""] * len(cells)
    return "; ".join(
        f"{name}: {value}" if name else value
        for name, value in zip(names, (" ".join(cell.split()) for cell in cells), strict=False)
        if value
    )
