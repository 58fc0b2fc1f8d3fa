"""Command `watch`, and the process that servers start with `--watch`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option, missing_extra, open_configured, print_problems
from findingaid.cli.printing import say, say_json
from findingaid.errors import FindingAidError

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.reports import Report


@click.command()
@corpus_option
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two checks of all sources, for changes that the operating system does not report.",
)
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when standard input ends.")
@common
def watch(aid: FindingAid, corpora: tuple[str, ...], every: float, until_eof: bool, as_json: bool) -> None:
    """Index and publish changes as they happen, until stopped with Ctrl-C.

    The operating system reports changes of local files. Failures are printed, and tried again with the next change.
    A changed configuration is read anew at the next check.

    \b
    Examples:
      findingaid watch
      findingaid watch --corpus docs --every 10
    """
    require_watchfiles()
    for signaled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signaled, signal.default_int_handler)
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    try:
        while True:
            _watch(aid, corpora, every, as_json)
            click.echo(f"{aid.config} has changed and is read anew", err=True)
            aid = _reopen(corpora)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)


def _watch(aid: FindingAid, corpora: Sequence[str], every: float, as_json: bool) -> None:
    """Index changes until the configuration changes: the old one would take back the work of the new one."""
    from findingaid.indexing.watching import Watch

    configured = _content(aid.config)
    aid = replace(aid, executor=None)  # a saved file is indexed here sooner than on a worker that has to start
    chosen = aid.within(corpora or list(aid.corpora)).corpora
    own = [] if aid.store.remote else [Path(aid.store.uri)]
    told: dict[str, list[str]] = {}
    for names in Watch(chosen, every, own).changed(threading.Event()):
        if _content(aid.config) != configured:
            return
        try:
            report = aid.index(names)
        except FindingAidError as error:
            problems, kinds = [str(error)], [type(error).__name__]
        else:
            problems, kinds = list(report.problems()), report.kinds()
            _print_changes(report, as_json)
        key = ",".join(names)
        if problems != told.get(key):
            print_problems(problems, kinds)
        told[key] = problems


def _reopen(corpora: Sequence[str]) -> FindingAid:
    """Return what the changed configuration describes, once it is valid; say why it is not."""
    told = ""
    while True:
        try:
            aid = open_configured()
            aid.within(corpora or list(aid.corpora))
        except FindingAidError as error:
            if str(error) != told:
                print_problems([str(error)], [type(error).__name__])
            told = str(error)
            time.sleep(1)
        else:
            return aid


def _content(file: Path | None) -> bytes:
    try:
        return file.read_bytes() if file else b""
    except OSError:  # gone, or being replaced
        return b""


def _print_changes(report: Report, as_json: bool) -> None:
    """Print a line for each corpus that changed, or one of JSON."""
    changed = {name: of for name, of in report.corpora.items() if of.new or of.changed or of.deleted}
    if changed and as_json:
        say_json(report.to_dict())
    elif changed:
        now = datetime.now().astimezone()
        for name, of in changed.items():
            say(escape(f"{now:%H:%M:%S} {name}: {of}, {of.seconds:.1f} s"))


def _stop_at_eof() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def require_watchfiles() -> None:
    """Raise ConfigError if the library that reports changes of files is not installed."""
    try:
        import watchfiles  # noqa: F401  # needed later
    except ImportError as error:
        raise missing_extra("watch", error) from None


@contextmanager
def watching(arguments: Sequence[str]) -> Iterator[None]:
    """Run `findingaid watch` in a process of its own that ends with this one, even if this one is killed."""
    require_watchfiles()
    command = [sys.executable, "-m", "findingaid", "watch", "--until-eof", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr) as process:  # noqa: S603  # its own program
        try:
            yield
        finally:
            if process.stdin:
                process.stdin.close()
