"""What all commands have: the configuration, overrides, JSON, and errors as one line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import IO, Any

import click

import findingaid
from findingaid.config import parse_override
from findingaid.errors import PAGE, FindingAidError, page_of


class OneLine(click.ClickException):
    """A findingaid error as click prints it: one line on stderr, the page about it below, exit status 1."""

    def __init__(self, error: FindingAidError) -> None:
        super().__init__(str(error))
        self._page = page_of(error)

    def show(self, file: IO[Any] | None = None) -> None:
        super().show(file)
        click.echo(f"See {self._page}", err=True)


def tell(problems: Iterable[str]) -> None:
    """Print what went wrong beside what did not, a line each, and where the documentation says more."""
    if lines := [f"Error: {problem}" for problem in problems]:
        click.echo("\n".join([*lines, f"See {PAGE}"]), err=True)


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Errors as one line."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        try:
            return command(*arguments, **named)
        except FindingAidError as error:
            raise OneLine(error) from error

    return run


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options every command has, and errors as one line."""

    @one_line_errors
    @functools.wraps(command)
    def run(config: str | None, overrides: tuple[str, ...], **arguments: Any) -> Any:
        return command(findingaid.open(config, dict(map(parse_override, overrides))), **arguments)

    for option in (json_option, set_option, config_option):
        run = option(run)
    return run


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables.")
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting for this run, e.g. --set embedder.kind=hash.",
)
config_option = click.option(
    "--config", type=click.Path(), help="The configuration. Default: $FINDINGAID_CONFIG, else findingaid.yaml."
)

corpus_option = click.option(
    "--corpus", "-c", "corpora", multiple=True, help="Only this corpus; may be given several times."
)
