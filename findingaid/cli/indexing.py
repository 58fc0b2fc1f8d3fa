"""Commands `plan` and `index`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from findingaid.cli.common import common, corpus_option, executor_option, print_problems
from findingaid.cli.printing import plain_table, progress_bars, say, say_json, say_line, seconds_since_start
from findingaid.reports import duration

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.reports import Report


INTERRUPTED = 130
"""Exit status after Ctrl-C, as of a shell."""


@click.command()
@corpus_option
@common
def plan(aid: FindingAid, corpora: tuple[str, ...], as_json: bool) -> None:
    """Print the work that `index` would do, its cost and its time. Calls no paid model and writes nothing.

    The speed of an embedder on this machine is measured on a few texts, if there are at least a hundred to embed. The
    text of scans is recognized, which takes as long as in the run.

    \b
    Examples:
      findingaid plan
      findingaid plan --corpus docs --json
    """
    report = aid.plan(corpora)
    _print_report(report, as_json, ">to embed", ">to write", "at most ")
    for name, c in report.corpora.items() if not as_json else ():
        if pages := sum(note.count for note in c.noted if note.kind == "recognized"):
            takes = f"takes about {duration(c.seconds)} here, as in this plan"
            say_line(f"{name}: reading it, with the text of {pages:,} pages to recognize, {takes}")
    _exit_with(report)


@click.command()
@corpus_option
@click.option("--artifact", "artifacts", multiple=True, metavar="ID", help="Only this artifact; may be repeated.")
@click.option("--force", is_flag=True, help="Rebuild every artifact; paid calls are not repeated.")
@click.option(
    "--stage", "stages", multiple=True, metavar="NAME", help="With --force: rebuild only this stage; may be repeated."
)
@click.option("--pay-again", is_flag=True, help="With --force: also call the models again.")
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Accept that a source lists far fewer artifacts than are indexed, and that the log of decisions is lost.",
)
@executor_option
@common
def index(
    aid: FindingAid,
    corpora: tuple[str, ...],
    artifacts: tuple[str, ...],
    stages: tuple[str, ...],
    force: bool,
    pay_again: bool,
    allow_loss: bool,
    as_json: bool,
) -> None:
    """Bring the index up to date and publish it. Only changes cost work.

    Exits with 1 if an artifact or a corpus failed; everything else is published.

    \b
    Examples:
      findingaid index
      findingaid index --corpus docs --set embedder.kind=hash
      findingaid index --artifact guide.md --force --pay-again --stage synopses
      findingaid index --executor ray --set executor.address=local
    """
    try:
        with progress_bars(enabled=not as_json) as progress:
            report = aid.index(
                corpora,
                artifacts=artifacts,
                stages=stages,
                force=force,
                pay_again=pay_again,
                allow_loss=allow_loss,
                progress=progress,
            )
    except KeyboardInterrupt:
        click.echo("stopped: what is done is kept; run `findingaid index` to go on", err=True)
        sys.exit(INTERRUPTED)
    _print_report(report, as_json, ">embedded", ">synopses")
    _exit_with(report)


def _print_report(report: Report, as_json: bool, embed: str, synthesize: str, spent: str = "") -> None:
    if as_json:
        return say_json(report.to_dict())
    table = plain_table(
        "corpus", ">total", ">new", ">changed", ">deleted", ">failed", ">passages", embed, synthesize, ">s"
    )
    for name, c in report.corpora.items():
        counts = (c.artifacts, c.new, c.changed, c.deleted, len(c.failed), c.records, c.calls.embed, c.calls.synthesize)
        shown = ("-" if c.error else f"{count:,}" for count in counts)
        table.add_row(name, *shown, f"{c.seconds:.1f}")
    say(table)
    say(f"took {seconds_since_start():.1f} s in all")
    if report.embed_seconds is not None:
        texts = sum(c.calls.embed for c in report.corpora.values())
        pace = f"{texts / report.embed_seconds:,.0f} a second, measured on a few of them"
        say(f"embedding {texts:,} texts takes about {duration(report.embed_seconds)} here ({pace})")
    for line in filter(None, (*report.repaired, report.held)):
        say_line(line)
    for name, c in report.corpora.items():
        for line in filter(None, (*c.remarks, *c.warnings, c.spent and f"{spent}{c.spent}")):
            say_line(f"{name}: {line}")
    print_problems(report.problems(), report.kinds())
    return None


def _exit_with(report: Report) -> None:
    if not report.ok:
        sys.exit(1)
