"""Command `watch`, and the process that servers start with `--watch`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.markup import escape

from findingaid.cli.common import common, corpus_option, missing_extra, print_problems
from findingaid.cli.printing import say, say_json
from findingaid.errors import FindingAidError
from findingaid.identity.inputs import changed_input

if TYPE_CHECKING:
    from findingaid.aid import FindingAid
    from findingaid.corpus import Corpus
    from findingaid.reports import Report

RETRY = 5.0
"""Most seconds between two checks of a configuration or of code that is not valid."""


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
@click.option("--check", is_flag=True, hidden=True, help="Only check what would be watched.")
@common
def watch(aid: FindingAid, corpora: tuple[str, ...], every: float, until_eof: bool, check: bool, as_json: bool) -> None:
    """Index and publish changes as they happen, until stopped with Ctrl-C.

    The operating system reports changes of local files. Failures are printed, and tried again with the next change.
    A changed configuration, prompt or module is read anew at the next check.

    \b
    Examples:
      findingaid watch
      findingaid watch --corpus docs --every 10
    """
    require_watchfiles()
    chosen = aid.within(corpora or list(aid.corpora)).corpora
    if check:
        return
    stop = threading.Event()

    def interrupt(*_: object) -> NoReturn:
        stop.set()  # also if the code that is interrupted takes the exception for an error of its own, and goes on
        raise KeyboardInterrupt

    for signaled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signaled, interrupt)
    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    with suppress(KeyboardInterrupt):
        _watch(aid, chosen, every, as_json, stop)
    click.echo("stopped", err=True)


def _watch(aid: FindingAid, chosen: Mapping[str, Corpus], every: float, as_json: bool, stop: threading.Event) -> None:
    """Index changes until `stop` is set.

    A process whose configuration or code is out of date would take back the work of newer ones.
    """
    from findingaid.indexing.watching import Watch

    aid = replace(aid, executor=None)  # a saved file is indexed here sooner than on a worker that has to start
    own = [] if aid.store.remote else [Path(aid.store.uri)]
    told: dict[str, list[str]] = {}
    for names in Watch(chosen, every, own).changed(stop):
        if changed := changed_input():
            click.echo(f"{changed} has changed and is read anew", err=True)
            _start_anew(every)
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
        changed_input()  # a module that this run loaded counts from now on


def _start_anew(every: float) -> NoReturn:
    """Replace this process by one that reads all files anew, once they are valid; say why they are not."""
    command, told = [sys.executable, *sys.orig_argv[1:]], ""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # that of a module saved twice in a second would be taken for the newer
    check = [*command, "--check"]
    while (done := subprocess.run(check, stdin=subprocess.DEVNULL, capture_output=True, text=True)).returncode:  # noqa: S603  # its own program
        if done.stderr != told:
            click.echo(done.stderr, nl=False, err=True)
        told = done.stderr
        time.sleep(min(every, RETRY))
    os.execv(sys.executable, command)  # noqa: S606  # its own program


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
    """Run `findingaid watch` in a process of its own that ends with this one, even if this one is killed.

    If it ends before, a line says so: the server goes on with what is indexed by then.
    """
    require_watchfiles()
    command = [sys.executable, "-m", "findingaid", "watch", "--until-eof", *arguments]
    over = threading.Event()

    def tell_the_end() -> None:
        status = process.wait()
        if not over.is_set():
            problem = f"the process that watches has ended with status {status}, and no change is indexed any more"
            click.echo(f"Error: {problem}: restart the server", err=True)

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr) as process:  # noqa: S603  # its own program
        threading.Thread(target=tell_the_end, daemon=True).start()
        try:
            yield
        finally:
            over.set()
            if process.stdin:
                process.stdin.close()
