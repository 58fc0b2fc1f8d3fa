"""Command line: parses, calls the library, prints. No logic lives here.

Each module holds the commands of one concern. `main` imports a module when one of its commands is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from findingaid import __version__
from findingaid.cli.options import HelpGroup, config_option, set_option
from findingaid.cli.streams import escape_output

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "starting:init",
        "add": "starting:add",
        "config": "starting:config_group",
        "doctor": "doctor:doctor",
        "completion": "starting:completion",
        "help": "starting:explain_kinds",
    },
    "Index": {
        "plan": "indexing:plan",
        "index": "indexing:index",
        "watch": "watching:watch",
        "status": "maintenance:status",
    },
    "Ask": {
        "search": "searching:search",
        "answer": "answering:answer",
        "browse": "searching:browse",
        "context": "contexts:context",
        "show": "searching:show",
        "summary": "contexts:summary",
        "neighbours": "searching:neighbours",
    },
    "Review": {
        "claims": "claims:claims",
        "why": "answering:why",
        "impact": "answering:impact",
        "eval": "evaluating:evaluate",
    },
    "Operate": {
        "verify": "maintenance:verify",
        "access": "access:access",
        "versions": "maintenance:versions",
        "publish": "maintenance:publish",
        "rollback": "maintenance:rollback",
        "purge": "maintenance:purge",
        "dagster": "dagster:dagster_group",
    },
    "Serve": {"serve": "serving:serve", "mcp": "clients:mcp_group"},
}
"""Module and attribute of each command, by the heading under which the help lists it."""


class LazyCommands(HelpGroup):
    """Command group that imports a command when it is used; its help lists them by `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for places in COMMANDS.values() for name in places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = next((places[cmd_name] for places in COMMANDS.values() if cmd_name in places), None)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(f"findingaid.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, places in COMMANDS.items():
            self.format_section(ctx, formatter, heading, places)


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="findingaid")
@config_option
@set_option
def main(**_: object) -> None:
    """Index collections incrementally, and search them with citations that can be opened.

    --config and --set may be given before or after the command; after it they take precedence.
    """
    escape_output()
