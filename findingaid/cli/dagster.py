"""Commands on a Dagster instance. findingaid_dagster does the work: the library itself needs no Dagster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from findingaid.cli.common import common, missing_extra
from findingaid.cli.options import HelpGroup
from findingaid.cli.printing import say, say_json

if TYPE_CHECKING:
    from findingaid.aid import FindingAid


@click.group("dagster", cls=HelpGroup)
def dagster_group() -> None:
    """Maintain the Dagster instance in $DAGSTER_HOME."""


@dagster_group.command()
@common
def prune(aid: FindingAid, as_json: bool) -> None:
    """Delete Dagster's events of artifacts that are gone, for good.

    Logs of runs keep the ids that they name. The job `prune_history` does the same.

    \b
    Examples:
      findingaid dagster prune
      findingaid dagster prune --json
    """
    try:
        history = importlib.import_module("findingaid_dagster.assets.history")
    except ImportError as error:
        raise missing_extra("dagster", error) from None
    done = history.prune_home(aid)
    if as_json:
        return say_json({"partitions": done.partitions, "events": done.events, "bytes": done.size})
    freed = f", {done.size / 1e6:,.1f} MB freed" if done.size else ""
    return say(f"{done.partitions:,} partitions and {done.events:,} events removed{freed}")
