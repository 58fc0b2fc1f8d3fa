"""Command line: parses, calls the library, prints. No logic lives here.

Each module holds the commands of one concern; `main` has them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import click

from findingaid import __version__
from findingaid.cli.answering import answer, impact, why
from findingaid.cli.claims import claims
from findingaid.cli.common import config_option, set_option
from findingaid.cli.contexts import context, summary
from findingaid.cli.dagster import dagster_group
from findingaid.cli.evaluating import evaluate
from findingaid.cli.indexing import index, plan
from findingaid.cli.maintenance import publish, purge, rollback, status, verify, versions
from findingaid.cli.searching import neighbours, search, show
from findingaid.cli.serving import serve
from findingaid.cli.starting import completion, config_group, explain_kinds, init
from findingaid.cli.watching import watch

GROUPS: Mapping[str, Sequence[click.Command]] = {
    "Start": (init, config_group, completion, explain_kinds),
    "Index": (plan, index, watch, status),
    "Ask": (search, answer, context, show, summary, neighbours),
    "Review": (claims, why, impact, evaluate),
    "Operate": (verify, versions, publish, rollback, purge, dagster_group),
    "Serve": (serve,),
}
"""Commands by the heading under which the help lists them."""


class GroupedCommands(click.Group):
    """Command group whose help lists the commands by `GROUPS`, each with its whole first sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(command.name or "", command.get_short_help_str(limit=200)) for command in commands]
                )


@click.group(cls=GroupedCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="findingaid")
@config_option
@set_option
def main(**_: object) -> None:
    """Index collections incrementally, and search them with citations that can be opened.

    --config and --set may be given before or after the command; after it they take precedence.
    """


for listed in chain.from_iterable(GROUPS.values()):
    main.add_command(listed)
