"""In-memory files and batches of the loopback server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import time
from typing import Any

from findingaid.testing.http import Reply, Request

COUNTED = ("in_progress", "finalizing")
ENDED = ("completed", "expired", "failed", "cancelled")
MOST_REQUESTS = 50_000
WINDOW_SECONDS = 86_400


def _missing(what: str, name: str) -> Reply:
    error = {"message": f"No such {what} object: {name}", "type": "invalid_request_error", "param": "id", "code": None}
    return Reply.of({"error": error}, 404)


def _page(items: Sequence[Mapping[str, Any]], query: Mapping[str, str], limit: int) -> Reply:
    """Return a page of a list, newest first, as selected by `after` and `limit` in the query."""
    newest = list(reversed(items))
    ids = [item["id"] for item in newest]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    limit = int(query.get("limit", limit))
    page = newest[start : start + limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return Reply.of({"object": "list", "data": page, **ends, "has_more": start + limit < len(newest)})


@dataclass
class FilesEndpoint:
    """Endpoint /v1/files: upload, list, retrieve, download, delete."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1), repr=False)

    def add(self, name: str, content: bytes, purpose: str) -> dict[str, Any]:
        """Store a file and return its file object."""
        file_id = f"file-{next(self._numbers):06d}"
        self.contents[file_id] = content
        self.objects[file_id] = {
            "id": file_id,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time()),
            "filename": name,
            "purpose": purpose,
            "status": "processed",
        }
        return self.objects[file_id]

    def reply(self, request: Request, rest: Sequence[str]) -> Reply:
        """Answer a request for files; `rest` has the path segments after `files`."""
        match request.method, *rest:
            case ["POST"]:
                form = request.form()
                name, content = form["file"]
                return Reply.of(self.add(name, content, form["purpose"][1].decode()))
            case ["GET"]:
                purpose = request.query.get("purpose")
                wanted = [file for file in self.objects.values() if purpose in {None, file["purpose"]}]
                return _page(wanted, request.query, 10_000)
            case ["GET", file_id] if file_id in self.objects:
                return Reply.of(self.objects[file_id])
            case ["GET", file_id, "content"] if file_id in self.contents:
                return Reply(200, self.contents[file_id], {"content-type": "application/octet-stream"})
            case ["DELETE", file_id] if file_id in self.objects:
                del self.objects[file_id], self.contents[file_id]
                return Reply.of({"id": file_id, "object": "file", "deleted": True})
        return _missing("File", "/".join(rest))


@dataclass
class BatchesEndpoint:
    """Endpoint /v1/batches: create, list, retrieve, cancel. Each retrieval advances a batch by one status."""

    files: FilesEndpoint
    answer: Callable[[Any], tuple[int, Any]]
    """Request body -> status and body of its response."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1), repr=False)

    def reply(self, request: Request, rest: Sequence[str], end: str, answers: int | None) -> Reply:
        """Answer a request for batches; `rest` has the path segments after `batches`.

        `end` is the final status of a batch. `answers` is the number of requests of a batch that are answered, None for
        all.
        """
        match request.method, *rest:
            case ["POST"]:
                return self._create(request.json)
            case ["GET"]:
                return _page(list(self.objects.values()), request.query, 20)
            case ["GET", batch_id] if batch_id in self.objects:
                self._advance(batch := self.objects[batch_id], end, answers)
                return Reply.of(batch)
            case ["POST", batch_id, "cancel"] if batch_id in self.objects:
                batch = self.objects[batch_id]
                if batch["status"] not in ENDED:
                    _enter(batch, "cancelling")
                return Reply.of(batch)
        return _missing("Batch", "/".join(rest))

    def _create(self, asked: Mapping[str, Any]) -> Reply:
        if asked["input_file_id"] not in self.files.objects:
            return _missing("File", asked["input_file_id"])
        batch_id = f"batch_{next(self._numbers):06d}"
        now = int(time())
        stamps = (*COUNTED, *ENDED, "cancelling")
        self.objects[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "errors": None,
            "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"],
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "expires_at": now + WINDOW_SECONDS,
            **{f"{status}_at": None for status in stamps},
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": asked.get("metadata"),
        }
        return Reply.of(self.objects[batch_id])

    def lines(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the requests of a batch, parsed from its input file."""
        content = self.files.contents[batch["input_file_id"]]
        return [json.loads(line) for line in content.splitlines() if line.strip()]

    def _advance(self, batch: dict[str, Any], end: str, answers: int | None) -> None:
        match batch["status"]:
            case "validating" if problem := self._problem(batch, end):
                batch["errors"] = {"object": "list", "data": [problem]}
                _enter(batch, "failed")
            case "validating":
                batch["request_counts"]["total"] = len(self.lines(batch))
                _enter(batch, "in_progress")
            case "in_progress":
                _enter(batch, "finalizing")
            case "finalizing":
                self._finish(batch, answers)
                _enter(batch, end)
            case "cancelling":
                self._finish(batch, answers or 0, expired=False)
                _enter(batch, "cancelled")

    def _problem(self, batch: Mapping[str, Any], end: str) -> dict[str, Any] | None:
        """Return the problem with a batch's input file, worded as by the real API, or None.

        When batches are to end as failed, every batch has a problem.
        """
        try:
            lines = self.lines(batch)
        except ValueError:
            return _problem("invalid_json_line", "A line of the input file is not valid JSON.", 1)
        keys = [line.get("custom_id") for line in lines]
        if end == "failed":
            return _problem("token_limit_exceeded", "Enqueued token limit reached for this model.", None)
        if not lines:
            return _problem("empty_file", "The input file is empty.", None)
        if len(lines) > MOST_REQUESTS:
            return _problem("too_many_tasks", f"The batch has more than {MOST_REQUESTS} requests.", None)
        if len(set(keys)) < len(keys):
            twice = next(i for i, key in enumerate(keys) if key in keys[:i])
            return _problem("duplicate_custom_id", "The custom_id is used more than once.", twice + 1)
        wrong = [i for i, line in enumerate(lines, 1) if line.get("url") != batch["endpoint"]]
        return _problem("mismatched_url", "The url does not match the endpoint.", wrong[0]) if wrong else None

    def _finish(self, batch: dict[str, Any], answers: int | None, expired: bool = True) -> None:
        """Answer the first `answers` requests, or all if None; with `expired`, the others get expiry errors."""
        lines = self.lines(batch)
        done = lines if answers is None else lines[:answers]
        written: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for line in done:
            status, body = self.answer(line["body"])
            response = {"status_code": status, "request_id": f"req_{line['custom_id']}", "body": body}
            written[status == 200].append(_result(line["custom_id"], response=response))
        for line in lines[len(done) :] if expired else ():
            message = "This request could not be executed before the completion window expired."
            error = {"code": "batch_expired", "message": message}
            written[False].append(_result(line["custom_id"], error=error))
        # The real API returns results in arbitrary order, so these are reversed.
        for ok, key in ((True, "output_file_id"), (False, "error_file_id")):
            if rows := written[ok]:
                content = "".join(json.dumps(row) + "\n" for row in reversed(rows)).encode()
                batch[key] = self.files.add(f"{batch['id']}_{key}.jsonl", content, "batch_output")["id"]
        counts = {"total": len(lines), "completed": len(written[True]), "failed": len(written[False])}
        batch["request_counts"] = counts


def _enter(batch: dict[str, Any], status: str) -> None:
    batch["status"] = status
    batch[f"{status}_at"] = int(time())


def _problem(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": None}


def _result(key: str, response: Any = None, error: Any = None) -> dict[str, Any]:
    return {"id": f"batch_req_{key}", "custom_id": key, "response": response, "error": error}
