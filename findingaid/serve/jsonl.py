"""The capabilities as lines of JSON: a request on each line of the input, its answer on a line of the output.

    {"id": 1, "method": "search", "params": {"query": "how are versions compared"}}
    {"id": 1, "result": {"hits": [...], ...}}
    {"id": 1, "error": {"kind": "query", "message": "..."}}

Answers come in the order of the requests. Whatever is wrong with a line is its answer; only the end of the input ends
the session.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import orjson

from findingaid.config import ServeSettings
from findingaid.serve.problems import InputError, TooLargeError, problem_of
from findingaid.serve.session import Session
from findingaid.serve.work import Work

log = logging.getLogger("findingaid.serve")


def run(session: Session, settings: ServeSettings) -> None:
    """Answer what stands on the standard input until it ends."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
        try:
            speak(session, settings, sys.stdin.buffer, output)
        except BrokenPipeError:  # nobody reads the answers any more
            log.info("the output was closed")


def speak(session: Session, settings: ServeSettings, input_: BinaryIO, output: BinaryIO) -> None:
    """Answer one line after another."""
    work = Work(settings.at_once, settings.waiting, settings.timeout)
    try:
        for line in _lines(input_, settings.body_bytes):
            if line is None or line.strip():
                answer = _answer(session, work, line, settings.body_bytes)
                output.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
                output.flush()
    finally:
        work.close()


def _lines(input_: BinaryIO, most: int) -> Iterator[bytes | None]:
    """The lines of an input; None for one that is too long, of which no more is kept."""
    while line := input_.readline(most + 1):
        if len(line) <= most or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = input_.readline(most)
        yield None


def _answer(session: Session, work: Work, line: bytes | None, most: int) -> dict[str, Any]:
    said: Any = None
    try:
        said = _read(line, most)
        return {"id": said.get("id"), "result": work.wait(partial(_called, session, said))}
    except Exception as error:  # whatever it is, the session goes on
        problem = problem_of(error)
        if problem.kind == "internal":
            log.exception("a request failed")
        return {"id": said.get("id") if isinstance(said, dict) else None, **problem.to_dict()}


def _read(line: bytes | None, most: int) -> dict[str, Any]:
    if line is None:
        raise TooLargeError(f"the line has more than {most:,} bytes")
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the line is no JSON: {error}") from None
    if not isinstance(said, dict):
        raise InputError('expected an object such as {"id": 1, "method": "search", "params": {"query": "…"}}')
    try:
        return said | {"id": orjson.Fragment(orjson.dumps(said.get("id")))}
    except TypeError:  # it reads what is nested deeper than it writes
        raise InputError("the id is nested too deeply") from None


def _called(session: Session, said: dict[str, Any]) -> dict[str, Any]:
    method, unknown = said.get("method"), sorted(said.keys() - {"id", "method", "params", "jsonrpc"})
    if not isinstance(method, str) or unknown:
        reason = f"{unknown[0][:80]!r} is not known" if unknown else "method is to name what is asked"
        raise InputError(f"{reason}: a request has id, method and params")
    return session.call(method, said.get("params", {}))
