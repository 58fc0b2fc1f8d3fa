"""`plan` and `index`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option, tell
from findingaid.cli.printing import plain_table, progress_bars, say, say_json

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.model import Report


@click.command()
@corpus_option
@common
def plan(aid: FindingAid, corpora: tuple[str, ...], as_json: bool) -> None:
    """Say what `index` would do and cost. Calls no model, writes nothing.

    \b
    Examples:
      findingaid plan
      findingaid plan --corpus docs --json
    """
    report = aid.plan(corpora)
    _print_report(report, as_json, ">to embed", ">to write", "at most ")
    _exit_with(report)


@click.command()
@corpus_option
@click.option("--force", is_flag=True, help="Do every artifact again; calls that were paid for are not repeated.")
@click.option("--pay-again", is_flag=True, help="With --force: ask the models again, too.")
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Accept that a source lists far fewer artifacts than are indexed, and that the log of decisions is gone.",
)
@common
def index(
    aid: FindingAid, corpora: tuple[str, ...], force: bool, pay_again: bool, allow_loss: bool, as_json: bool
) -> None:
    """Bring the index up to date and publish it. Costs what changed.

    Exits with 1 when an artifact or a corpus failed; everything else is published all the same.

    \b
    Examples:
      findingaid index
      findingaid index --corpus docs --set embedder.kind=hash
    """
    with progress_bars(enabled=not as_json) as progress:
        report = aid.index(corpora, force=force, pay_again=pay_again, allow_loss=allow_loss, progress=progress)
    _print_report(report, as_json, ">embedded", ">synopses")
    _exit_with(report)


def _print_report(report: Report, as_json: bool, embed: str, synthesize: str, spent: str = "") -> None:
    if as_json:
        return say_json(report.to_dict())
    table = plain_table(
        "corpus", ">total", ">new", ">changed", ">deleted", ">failed", ">records", embed, synthesize, ">s"
    )
    for name, c in report.corpora.items():
        counts = (c.artifacts, c.new, c.changed, c.deleted, len(c.failed), c.records, c.calls.embed, c.calls.synthesize)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{c.seconds:.1f}")
    say(table)
    for line in report.repaired:
        say(escape(line))
    for name, c in report.corpora.items():
        for line in filter(None, (c.warning, c.spent and f"{spent}{c.spent}", c.left)):
            say(escape(f"{name}: {line}"))
    tell(report.problems())
    return None


def _exit_with(report: Report) -> None:
    if not report.ok:
        sys.exit(1)
