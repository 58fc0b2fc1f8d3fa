"""Output: plain tables on a terminal or in a file, JSON for programs, bars while something is under way."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from findingaid.aid import ProgressOf

SNIPPET = 160
"""Characters of a hit's text that a table shows."""


def plain_table(*columns: str) -> Table:
    """A plain table; a column whose name begins with ">" holds numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.lstrip(">"), overflow="fold", justify="right" if column.startswith(">") else "left")
    return table


def say(what: Table | str) -> None:
    """Print for people."""
    # Not a terminal: no colour, and no line folded to a guessed width.
    console = Console(width=None if sys.stdout.isatty() else 160, soft_wrap=isinstance(what, str))
    console.print(what, highlight=False)


def say_json(value: dict[str, Any] | Sequence[Any]) -> None:
    """Print for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def snippet(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1] + "…"


@contextmanager
def progress_bars(enabled: bool) -> Iterator[ProgressOf | None]:
    """Bars for artifacts and texts, on a terminal only."""
    console = Console(stderr=True)
    if not enabled or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:

        def of_corpus(corpus: str) -> Callable[[str, int, int], None]:
            tasks: dict[str, TaskID] = {}

            def advance(stage: str, more: int, done: int) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(escape(f"{corpus}: {stage}"), total=0)
                task = tasks[stage]
                bars.update(task, total=(bars.tasks[task].total or 0) + more, advance=done)

            return advance

        yield of_corpus
