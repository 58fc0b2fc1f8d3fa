"""The command line: parses, calls the library, prints. No logic lives here.

A module a concern, each with its commands; `main` has them all.
"""

from __future__ import annotations

import click

from findingaid import __version__
from findingaid.cli.answering import answer, impact, why
from findingaid.cli.claims import claims
from findingaid.cli.contexts import context, summary
from findingaid.cli.evaluating import evaluate
from findingaid.cli.indexing import index, plan
from findingaid.cli.keeping import publish, purge, rollback, status, verify, versions
from findingaid.cli.searching import neighbours, search, show
from findingaid.cli.serving import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="findingaid")
def main() -> None:
    """Index collections incrementally, and search them with citations that can be opened."""


for command in (
    answer, claims, context, evaluate, impact, index, neighbours, plan, publish, purge, rollback, search, serve, show,
    status, summary, verify, versions, why,
):  # fmt: skip
    main.add_command(command)
