"""Command `doctor`."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from findingaid.cli.common import common
from findingaid.cli.printing import say, say_json
from findingaid.doctor import Examined, examine
from findingaid.errors import ConfigError, visible_line

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


@click.command()
@common
def doctor(aid: FindingAid, as_json: bool) -> None:
    """Examine the configuration, the sources, the models, the store and the versions. Exits with 1 if one is not well.

    Lists the sources, opens the tables, and asks the servers of models which models they have. Costs nothing.

    \b
    Examples:
      findingaid doctor
      findingaid doctor --config other.yaml --set embedder.kind=hash
    """
    found = []
    for each in (examine_configuration(aid), *examine(aid)):
        found.append(each)
        if not as_json:
            mark = "[red]no[/red]" if each.problem else "ok"
            say(f"{mark}  {escape(visible_line(f'{each.part}: {each.problem or each.found}'))}")
    if as_json:
        say_json([asdict(each) for each in found])
    if any(each.problem for each in found):
        sys.exit(1)


def examine_configuration(aid: FindingAid) -> Examined:
    """Examine the times of schedules, which only Dagster can read; all else was checked as the file was loaded."""
    if any(corpus.schedule or corpus.backfill_schedule for corpus in aid.corpora.values()):
        with suppress(ImportError):
            schedules = importlib.import_module("findingaid_dagster.pipelines.schedules")
            try:
                schedules.check_schedules(aid.corpora.values())
            except ConfigError as error:
                return Examined("configuration", problem=f"{aid.config}: {error}")
    return Examined("configuration", f"{aid.config}: {', '.join(aid.corpora) or 'no corpus'}")
