"""Parts that all commands share: configuration, overrides, JSON, and one-line errors."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, get_args

import click

import findingaid
from findingaid.access import Caller
from findingaid.cli.options import as_option, config_option, json_option, set_option
from findingaid.cli.pandas_later import start_without_pandas
from findingaid.config.loading import parse_override
from findingaid.errors import ArtifactError, ConfigError, FindingAidError, UnreachableError, help_on, visible_line
from findingaid.explain import explanations
from findingaid.model import Mode
from findingaid.query.lookup.freshness import VERIFY
from findingaid.query.search.options import DESCRIPTIONS, FreshnessOption
from findingaid.store.objects import refusal

CHECKED = "checked"
"""Value of --fresh without one."""


class OneLine(click.ClickException):
    """Exception that click prints as one line on stderr, with the command that explains it below; exit status 1."""

    def __init__(self, error: FindingAidError) -> None:
        super().__init__(visible_line(str(error)))
        self._see = help_on(error)

    def show(self, file: IO[Any] | None = None) -> None:
        super().show(file)
        click.echo(f"See: {self._see}", err=True)


def print_problems(problems: Iterable[str], kinds: Iterable[str] = ()) -> None:
    """Print the problems of a partly successful run, a line each, and the command that explains their kinds."""
    if lines := [f"Error: {visible_line(problem)}" for problem in problems]:
        explained = " ".join(kind for kind in kinds if kind in explanations()) or ArtifactError.__name__
        click.echo("\n".join([*lines, f"See: findingaid help {explained}"]), err=True)


def missing_extra(extra: str, error: ImportError) -> ConfigError:
    """Return the error of a command whose extra is not installed."""
    return ConfigError(f"{error.name} is not installed: pip install 'findingaid[{extra}]'")


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Print errors of the library, and of object storage, as one line."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        try:
            return command(*arguments, **named)
        except FindingAidError as error:
            raise OneLine(error) from error
        except OSError as error:
            if reason := refusal(error):
                place = f"{error.filename}: " if error.filename else ""
                raise OneLine(UnreachableError(f"{place}{reason}")) from error
            raise

    return run


def replace_file(file: Path, text: str) -> None:
    """Write a file whole or not at all. Links are followed, and the permissions of a file that is there stay.

    Raises ConfigError if it cannot be written.
    """
    target = file.resolve()
    new = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.write_text(text, "utf-8")
            if target.exists():
                shutil.copymode(target, new)
            os.replace(new, target)
        finally:
            new.unlink(missing_ok=True)
    except UnicodeEncodeError:
        raise ConfigError(f"{file}: cannot be written: a name is not valid UTF-8: rename it") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None


def open_configured() -> findingaid.FindingAid:
    """Return the finding aid that the options of this command describe. Raises ConfigError."""
    start_without_pandas()
    given = click.get_current_context().params
    overrides = dict(map(parse_override, given["overrides"]))
    executor = {"executor.kind": given["executor"]} if given.get("executor") else {}
    aid = findingaid.open(given["config"], overrides | executor)
    return aid.for_caller(Caller.named(given["principals"])) if given.get("principals") else aid


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has, and print errors as one line."""

    @one_line_errors
    @functools.wraps(command)
    def run(
        config: str | None,
        overrides: tuple[str, ...],
        executor: str | None = None,
        principals: tuple[str, ...] = (),
        **arguments: Any,
    ) -> Any:
        return command(open_configured(), **arguments)

    for option in (json_option, set_option, config_option):
        run = option(run)
    return run


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `common`, and the one that says for whom the command reads."""
    return as_option(common(command))


def parse_fresh(_: click.Context, __: click.Parameter, value: str | None) -> FreshnessOption:
    """Return the option --fresh of the library. Raises UsageError for another word than verify."""
    if value not in {None, CHECKED, VERIFY}:
        raise click.UsageError(f"--fresh takes nothing or {VERIFY}, got {value!r}: write --fresh after the arguments")
    return VERIFY if value == VERIFY else value is not None


def search_option(name: str, *declared: str, **how: Any) -> Callable[..., Any]:
    """Return the command-line option for an option of a search, by default with its name and its meaning."""
    return click.option(*(declared or [f"--{name.replace('_', '-')}"]), **{"help": DESCRIPTIONS[name], **how})


fresh_option = search_option("fresh", is_flag=False, flag_value=CHECKED, metavar="[=verify]", callback=parse_fresh)


def _sentence(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str:
    return " ".join(words)


query_argument = click.argument("query", nargs=-1, required=True, metavar="QUERY...", callback=_sentence)
"""The query; it needs no quotes unless the shell would change it."""

corpus_option = click.option("--corpus", "-c", "corpora", multiple=True, help="Only this corpus; may be repeated.")

executor_option = click.option(
    "--executor",
    type=click.Choice(("in_process", "ray")),
    help="Build batches in this process or on a Ray cluster, as `--set executor.kind=…` does.",
)

mode_option = search_option("mode", type=click.Choice(get_args(Mode)), default="hybrid", show_default=True)
surfaces_option = search_option("surfaces", metavar="KIND,…")
where_option = click.option(
    "--where", help="SQL condition on the fields that `status --fields` lists, e.g. \"title LIKE 'lance%'\"."
)
