"""JSON lines server: one request per input line, one response per output line.

    {"id": 1, "method": "search", "params": {"query": "how are versions compared"}}
    {"id": 1, "result": {"hits": [...], ...}}
    {"id": 1, "error": {"kind": "query", "message": "..."}}

Responses come in the order of the requests. An invalid line gets an error response; only the end of the input ends the
session.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import Any, BinaryIO

import orjson

from findingaid.config.settings import ServeSettings
from findingaid.serve.errors import InputError, TooLargeError, problem_of
from findingaid.serve.limits import WorkerPool
from findingaid.serve.lines import escape_line_ends, message_id, read_lines
from findingaid.serve.session import Session

log = logging.getLogger("findingaid.serve")


def serve_jsonl(session: Session, settings: ServeSettings, input_: BinaryIO, output: BinaryIO) -> None:
    """Answer requests until the input ends, or until nobody reads the output any more."""
    try:
        answer_requests(session, settings, input_, output)
    except BrokenPipeError:  # the reader closed the pipe
        log.info("the output was closed")


def answer_requests(session: Session, settings: ServeSettings, input_: BinaryIO, output: BinaryIO) -> None:
    """Answer the requests of `input_` on `output`, one line at a time."""
    work = WorkerPool.of_one(settings)
    try:
        for line in read_lines(input_, settings.body_bytes):
            answer = orjson.dumps(_answer(session, work, line, settings.body_bytes))
            output.write(escape_line_ends(f"{answer.decode()}\n").encode())
            output.flush()
    finally:
        work.close()


def _answer(session: Session, work: WorkerPool, line: bytes | None, most: int) -> dict[str, Any]:
    sent = {"id": orjson.Fragment(json.dumps(message_id(line or b"")))}
    try:
        said = _read(line, most)
        return {**sent, "result": work.wait(partial(_called, session, said))}
    except Exception as error:  # any error becomes a response, so that the session continues
        problem = problem_of(error)
        if problem.kind == "internal":
            log.exception("a request failed")
        return {**sent, **problem.to_dict()}


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
        orjson.dumps(said.get("id"))
    except TypeError:  # orjson parses deeper nesting than it can serialize
        raise InputError("the id is nested too deeply") from None
    return said


def _called(session: Session, said: dict[str, Any]) -> dict[str, Any]:
    method, unknown = said.get("method"), sorted(said.keys() - {"id", "method", "params", "jsonrpc"})
    if not isinstance(method, str) or unknown:
        reason = f"unknown key {unknown[0][:80]!r}" if unknown else "method must name a capability"
        raise InputError(f"{reason}: a request has id, method and params")
    params = said.get("params")
    return session.call(method, {} if params is None else params)
