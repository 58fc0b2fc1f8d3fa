"""Output: plain tables on a terminal or in a file, JSON for programs, progress bars."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from findingaid.cli.streams import output
from findingaid.errors import UNSEEN, visible, visible_line
from findingaid.model import Stage
from findingaid.reports import duration

if TYPE_CHECKING:
    from findingaid.indexing.run import ProgressOf

IMPORTED = time.monotonic()

NO_TERMINAL = 160
"""Width of output that goes to a file or a program."""

NUMBERS = re.compile(r"\[\n([-+.\deE,\s]+)\]")
"""List of numbers in indented JSON, such as a span, which is easier to read on one line."""

SNIPPET = 160
"""Characters of a hit's text that a table shows."""


class PlainTable(Table):
    """A table whose cells show control and invisible characters as escapes, so that the terminal does not obey them.

    Texts are shown on one line. Give a cell of several lines as `lines`.
    """

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        shown = (visible_line(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*shown, style=style, end_section=end_section)


def plain_table(*columns: str) -> PlainTable:
    """Return a plain table. A column whose name begins with ">" is right-aligned, for numbers."""
    table = PlainTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.lstrip(">"), overflow="fold", justify="right" if column.startswith(">") else "left")
    return table


def lines(*texts: str) -> Text:
    """Return a cell of a table that has a line for each text."""
    return Text("\n".join(map(visible_line, texts)))


def say_line(text: str) -> None:
    """Print a text that names artifacts on one line, whatever their ids contain."""
    say(escape(visible_line(text)))


def say(what: RenderableType, line: int = 1) -> None:
    """Print a table or text for people; strings are markup.

    On a terminal, anything longer than the screen goes through the pager, which less begins at `line`.
    """
    # Not a terminal: no colour, and no line folded to a guessed width.
    console = Console(width=None if sys.stdout.isatty() else NO_TERMINAL, soft_wrap=isinstance(what, str | Text))
    with console.capture() as captured:
        console.print(visible(what) if isinstance(what, str) else what, highlight=False)
    shown = captured.get()
    if not sys.stdout.isatty() and not isinstance(what, str | Text):  # rich fills the lines of other things with spaces
        shown = "\n".join(each.rstrip(" ") for each in shown.split("\n"))
    _page(shown, console.height, line)


def _page(text: str, height: int, line: int) -> None:
    if not sys.stdout.isatty() or text.count("\n") < height:
        return click.echo(text, nl=False)
    os.environ["LESS"] = f"{os.environ.get('LESS') or '-R'} +{line}g"  # for the pager: click passes the environment
    return click.echo_via_pager(text)


def say_json(value: dict[str, Any] | Sequence[Any]) -> None:
    """Print JSON for programs. Numbers that JSON does not have, such as NaN, become null."""
    plain = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
    text = json.dumps(plain, ensure_ascii=False, indent=2)
    # A text within the JSON has no line end, so that this finds lists only; nor has it, outside, what _write escapes.
    text = NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    _write(f"{text}\n")


def say_json_lines(lines: Iterable[str]) -> None:
    """Print lines of JSON for programs, one object each."""
    for line in lines:
        _write(f"{line}\n")


def say_plain(text: str, err: bool = False) -> None:
    """Print a text as it is, except for control and invisible characters, which are printed as escapes."""
    click.echo(visible(text), err=err)


def say_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as CSV for programs, with a header; lists and mappings are JSON."""
    written = csv.writer(found := io.StringIO(), lineterminator="\n")
    if rows:
        written.writerow(rows[0])
    for row in rows:
        written.writerow([_csv_cell(value) for value in row.values()])
    _write(found.getvalue())


def _write(text: str) -> None:
    """Write a text for programs, with control and invisible characters as escapes of JSON."""
    click.echo(UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text), output(), nl=False)


def _csv_cell(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def snippet(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1] + "…"


def seconds_since_start() -> float:
    """Return the age of this process, with the start of Python; without /proc, the time since this was imported."""
    try:
        started = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(Path("/proc/uptime").read_text().split()[0]) - started
    except (OSError, ValueError, IndexError):
        return time.monotonic() - IMPORTED


class Pace(ProgressColumn):
    """Rate of a bar on average, and the time left where the total of the bar is known for the whole run."""

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time or task.elapsed
        if not task.completed or not elapsed:
            return Text("")
        rate = task.completed / elapsed
        left = duration((task.remaining or 0) / rate) if task.fields["whole"] and task.remaining else ""
        return Text(f"{rate:,.1f}/s{f', about {left} left' if left else ''}")


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    """Print the log of the library, which has lines on the progress of a long run, as plain lines."""
    logger, handler = logging.getLogger("findingaid"), logging.StreamHandler(sys.stderr)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def progress_bars(enabled: bool) -> Iterator[ProgressOf | None]:
    """Show progress bars for artifacts and texts. Without a terminal, yield None and print the log of the library."""
    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        with _log_on_stderr():
            yield None
        return
    from findingaid.indexing.plan import BATCH_ARTIFACTS

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Pace())
    with Progress(*columns, console=console, transient=True) as bars:

        def of_corpus(corpus: str) -> Callable[[str, int, int], None]:
            tasks: dict[str, TaskID] = {}
            batchwise: set[str] = set()  # stages that learn their total batch by batch

            def advance(stage: str, more: int, done: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(escape(visible(f"{corpus}: {stage}")), total=0, whole=True)
                task = tasks[stage]
                total = (bars.tasks[task].total or 0) + more
                several = stage == Stage.ARTIFACTS and total > BATCH_ARTIFACTS
                batchwise.update([stage for stage in Stage if stage != Stage.ARTIFACTS] if several else [])
                bars.update(task, total=total, advance=done, whole=stage not in batchwise)

            return advance

        yield of_corpus
