"""Options that commands and groups of commands share. Importing them loads nothing else of findingaid."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import click

from findingaid.cli.streams import keep_output


class TextFile(click.File):
    """Parameter for the text of a file in any encoding: PowerShell writes UTF-16, and other programs a mark."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from findingaid.errors import ReadError, visible_line
        from findingaid.text.decoding import decode

        try:
            text, _, notes = decode(super().convert(value, param, ctx).read())
        except ReadError as error:
            self.fail(f"{value}: {error}", param, ctx)
        for note in notes:
            click.echo(visible_line(f"{value}: {note}"), err=True)
        return text.replace("\r\n", "\n")


class HelpGroup(click.Group):
    """Command group whose help lists its commands in whole sentences, and that suggests a command for a wrong one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := get_close_matches(args[0], self.list_commands(ctx), 1):
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]}?", ctx) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def format_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, heading: str, names: Iterable[str]
    ) -> None:
        """List these commands under a heading."""
        commands = ((name, self.get_command(ctx, name)) for name in names)
        with formatter.section(heading):
            formatter.write_dl([(name, c.get_short_help_str(limit=200)) for name, c in commands if c])


def _nearest(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return the value given to this command, else the one given to its group."""
    if value is not None:
        context.meta[option.name or ""] = value
    return context.meta.get(option.name or "")


def join_overrides(context: click.Context, _: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return all values of `--set`: those of the groups first, then the command's own, which win."""
    context.meta["--set"] = (*context.meta.get("--set", ()), *values)
    return tuple(context.meta["--set"])


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=keep_output, help="Print JSON for programs instead of tables."
)
csv_option = click.option(
    "--csv", "as_csv", is_flag=True, callback=keep_output, help="Print CSV for programs instead of tables."
)
as_option = click.option(
    "--as",
    "principals",
    multiple=True,
    metavar="PRINCIPAL",
    help="Read as this user:NAME, group:NAME or public may; may be repeated. Default: everything.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no notes on stderr.")
set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=join_overrides,
    metavar="KEY=VALUE",
    help="Override a setting for this run, e.g. --set embedder.kind=hash.",
)
config_option = click.option(
    "--config",
    type=click.Path(),
    callback=_nearest,
    help="Configuration file. Default: $FINDINGAID_CONFIG, else findingaid.yaml here or in a folder above.",
)
