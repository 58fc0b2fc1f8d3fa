"""JSON lines server: one request per input line, one response per output line.

    {"id": 1, "method": "search", "params": {"query": "how are versions compared"}}
    {"id": 1, "result": {"hits": [...], ...}}
    {"id": 1, "error": {"kind": "query", "message": "..."}}

Responses come in the order of the requests. An invalid line gets an error response; only the end of the input ends the
session.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import orjson

from findingaid.config.settings import ServeSettings
from findingaid.serve.errors import InputError, TooLargeError, problem_of
from findingaid.serve.limits import WorkerPool
from findingaid.serve.session import Session

log = logging.getLogger("findingaid.serve")


def serve_jsonl(session: Session, settings: ServeSettings) -> None:
    """Answer requests from standard input until it ends.

    Responses go to a copy of standard output. Standard output itself is redirected to standard error, so that prints of
    other code cannot mix with the responses.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep other code's prints out of the responses
        try:
            answer_requests(session, settings, sys.stdin.buffer, output)
        except BrokenPipeError:  # the reader closed the pipe
            log.info("the output was closed")


def answer_requests(session: Session, settings: ServeSettings, input_: BinaryIO, output: BinaryIO) -> None:
    """Answer the requests of `input_` on `output`, one line at a time."""
    work = WorkerPool.of_one(settings)
    try:
        for line in _lines(input_, settings.body_bytes):
            if line is None or line.strip():
                answer = _answer(session, work, line, settings.body_bytes)
                output.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
                output.flush()
    finally:
        work.close()


def _lines(input_: BinaryIO, most: int) -> Iterator[bytes | None]:
    """Yield the lines of an input, or None for a line longer than `most` bytes, whose content is discarded."""
    while line := input_.readline(most + 1):
        if len(line) <= most or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = input_.readline(most)
        yield None


def _answer(session: Session, work: WorkerPool, line: bytes | None, most: int) -> dict[str, Any]:
    said: Any = None
    try:
        said = _read(line, most)
        return {"id": said.get("id"), "result": work.wait(partial(_called, session, said))}
    except Exception as error:  # any error becomes a response, so that the session continues
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
        raise InputError(f"the line is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise InputError('expected an object such as {"id": 1, "method": "search", "params": {"query": "…"}}')
    try:
        return said | {"id": orjson.Fragment(orjson.dumps(said.get("id")))}
    except TypeError:  # orjson parses deeper nesting than it can serialize
        raise InputError("the id is nested too deeply") from None


def _called(session: Session, said: dict[str, Any]) -> dict[str, Any]:
    method, unknown = said.get("method"), sorted(said.keys() - {"id", "method", "params", "jsonrpc"})
    if not isinstance(method, str) or unknown:
        reason = f"unknown key {unknown[0][:80]!r}" if unknown else "method must name a capability"
        raise InputError(f"{reason}: a request has id, method and params")
    return session.call(method, said.get("params", {}))
