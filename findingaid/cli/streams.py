"""Standard streams of commands that programs talk to, kept for the command: no other code writes between its lines."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import BinaryIO, TextIO

import click

OUTPUT = "findingaid.output"
"""Key of a click context: the standard output that is kept for its command."""


def keep_output(context: click.Context, _: click.Parameter, for_programs: bool) -> bool:
    """Keep standard output for what the command itself writes, if programs read it. A callback of an option.

    It is UTF-8, whatever the locale. Whatever other code prints goes to standard error: user code, C libraries and
    child processes included. In a process of its own this lasts until the process ends, since some code prints at exit.
    """
    completing = context.resilient_parsing  # the shell asks for completions, and no command runs
    if for_programs and not completing and OUTPUT not in context.meta:
        context.meta[OUTPUT] = context.with_resource(_kept_output())
    return for_programs


def escape_output() -> None:
    """Have characters that standard output cannot encode, as in a locale of Latin-1, printed as escapes.

    A standard output that is closed is opened on nothing, so that no file takes its descriptor.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def output() -> TextIO | None:
    """Return the standard output that is kept for the command; None if it shares it with other code."""
    context = click.get_current_context(silent=True)
    return context.meta.get(OUTPUT) if context else None


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for a server. Other code then reads no input and prints to standard error."""
    taken_input = _input() if _is_at(sys.stdin, 0) else sys.stdin.buffer
    taken_output = _output() if _is_at(sys.stdout, 1) else sys.stdout.buffer
    sys.stdout = sys.stderr
    return taken_input, taken_output


@contextmanager
def _kept_output() -> Iterator[TextIO]:
    shared = sys.stdout
    own = io.TextIOWrapper(_output(), "utf-8", shared.errors) if _is_at(shared, 1) else None
    sys.stdout = others = sys.stderr
    try:
        yield own or shared
    finally:
        # click never closes the context of a command whose options it refuses. This then runs at some later time.
        if sys.stdout is others:
            sys.stdout = shared
        if own:
            with suppress(OSError):  # its reader is gone
                own.detach()  # otherwise it closes the descriptor


def _is_at(stream: TextIO, descriptor: int) -> bool:
    """Return whether a stream still has its descriptor, and was not replaced by the program that runs this command."""
    try:
        return stream.fileno() == descriptor
    except (AttributeError, OSError):
        return False


@cache
def _input() -> BinaryIO:
    return os.fdopen(_take(0, os.open(os.devnull, os.O_RDONLY)), "rb")


@cache
def _output() -> BinaryIO:
    sys.stdout.flush()
    try:
        instead = os.dup(2)
    except OSError:  # standard error is closed
        instead = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(_take(1, instead), "wb")


def _take(descriptor: int, instead: int) -> int:
    """Point a standard descriptor to `instead`. Return a copy of it as it was, which child processes do not inherit."""
    taken = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(instead, descriptor)
    os.close(instead)
    return taken
