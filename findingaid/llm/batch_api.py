"""Jobs of the Batch API: many requests at half the price, within a day.

A job is created only once, even if the process dies while creating it. Every job carries a tag, a hash of the
producer's id and the requests' keys. `submit` first looks for a file and a job with that tag. For this, its caller
stores the tag and the keys before `submit`, and the job's id after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import orjson

from findingaid.errors import ConfigError, SynthesisError
from findingaid.identity.hashes import content_hash
from findingaid.llm.api_errors import interpret_exception, interpret_status, mask_secrets, server_words
from findingaid.llm.caller import ChatRequest, Parse
from findingaid.llm.completions import parse_completion
from findingaid.llm.endpoint import Endpoint, start_client
from findingaid.llm.prompts import Prompt, estimate_tokens
from findingaid.model import Outcome, Synopsis, SynthesizerInput

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""Limits of one job, from the API reference."""

TAG = "findingaid"
"""Metadata key of a job that holds its tag."""

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
UNKNOWN = "unknown"
"""Status of a job that the endpoint does not know, or no longer knows."""

CLIENT_RETRIES = 3
"""Retries by the client itself of every call but the creation of a job. These calls are few and safe to repeat."""

LOOK_AGAIN = (1.0, 4.0)
"""Seconds to wait between attempts to find a job whose creation was not confirmed."""


@dataclass(frozen=True)
class BatchJobInput:
    """Input file of one job, with one line per request, and the keys of these requests."""

    keys: Sequence[str]
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class BatchJobState:
    """Progress of a job; `results`, by key, are filled once it has ended."""

    batch_id: str
    status: str
    total: int = 0
    completed: int = 0
    failed: int = 0
    message: str = ""
    results: Mapping[str, Synopsis] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> bool:
        return self.status != UNKNOWN

    @property
    def ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class BatchClient:
    """Jobs of one producer, which asks by `prompt` for each text of at most `context_tokens`, and parses the answer."""

    producer_id: str
    endpoint: Endpoint
    request: ChatRequest
    prompt: Prompt
    parse: Parse[str]
    context_tokens: int
    most_requests: int = MOST_REQUESTS
    most_bytes: int = MOST_BYTES

    def takes(self, text: str) -> bool:
        """Return whether a text can be sent in a job: it must not be blank, and one call must be enough for it.

        A request in a job cannot wait for the result of another.
        """
        return bool(text.strip()) and estimate_tokens(text) <= self.context_tokens

    def inputs(self, shown: Iterable[tuple[str, SynthesizerInput]]) -> Iterator[BatchJobInput]:
        """Yield input files for pairs of a key and an input, each within the limits of a job.

        A key has at most 64 characters.
        """
        keys: list[str] = []
        lines: list[bytes] = []
        size = 0
        for key, one in shown:
            body = self.request.body(self.prompt.about("document", one.text))
            request = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}
            line = orjson.dumps(request) + b"\n"
            if keys and (len(keys) == self.most_requests or size + len(line) > self.most_bytes):
                yield BatchJobInput(keys, b"".join(lines))
                keys, lines, size = [], [], 0
            keys.append(key)
            lines.append(line)
            size += len(line)
        if keys:
            yield BatchJobInput(keys, b"".join(lines))

    def tag(self, keys: Iterable[str]) -> str:
        """Return the tag of a job with these keys."""
        return content_hash("batch", self.producer_id, sorted(keys))

    def find(self, tag: str) -> str | None:
        """Return the id of the newest job with a tag, or None if there is none.

        Raises SynthesisError if the endpoint does not answer.
        """
        found = self._find(tag)
        return found.id if found else None

    def submit(self, batch: BatchJobInput) -> str:
        """Submit a job, unless one with its tag is under way, and return its id. Raises SynthesisError."""
        tag = self.tag(batch.keys)
        found = self._find(tag)
        if found and found.status not in ENDED:
            return found.id
        with self._errors_converted():
            file_id = self._find_file(tag) or self._upload(tag, batch.content)
        return self._create(tag, file_id, found.id if found else None)

    def withdraw(self, tag: str) -> None:
        """Delete the file uploaded for a job that was never created. Raises SynthesisError."""
        with self._errors_converted():
            if file_id := self._find_file(tag):
                self._client.files.delete(file_id)

    def poll(self, batch_id: str, keys: Iterable[str] = ()) -> BatchJobState:
        """Return the progress of a job, with its results once it has ended, even if it ended early.

        Those of `keys` that have no result by then have failed: with the job's own error if it was refused, otherwise
        as not tried. Raises SynthesisError.
        """
        import openai

        with self._errors_converted():
            try:
                batch = self._client.batches.retrieve(batch_id)
            except openai.NotFoundError:
                return BatchJobState(batch_id, UNKNOWN, message=f"the endpoint does not know the batch {batch_id}")
            results: dict[str, Synopsis] = {}
            if batch.status in ENDED:
                for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
                    with suppress(openai.NotFoundError):  # an earlier process took it in, and then died
                        for key, synopsis in self._read_results(file_id):
                            if key not in results or results[key].outcome is Outcome.FAILED:
                                results[key] = synopsis
        message = mask_secrets(_status_message(batch), self.endpoint.secrets)
        if batch.status in ENDED:
            refused = batch.status == "failed"
            left = Synopsis(
                Outcome.FAILED,
                kind="other" if refused else "unavailable",
                message=message if refused else f"not tried: {message}",
            )
            results = dict.fromkeys(keys, left) | results
        counts = batch.request_counts
        total, completed, failed = (counts.total, counts.completed, counts.failed) if counts else (0, 0, 0)
        return BatchJobState(batch_id, batch.status, total, completed, failed, message, results)

    def cancel(self, batch_id: str) -> None:
        """Cancel the remaining requests of a job; answers that exist are kept. Raises SynthesisError."""
        with self._errors_converted():
            self._client.batches.cancel(batch_id)

    def clean(self, batch_id: str) -> None:
        """Delete a job's files at the endpoint, since they hold the texts. Raises SynthesisError."""
        import openai

        with self._errors_converted():
            batch = self._client.batches.retrieve(batch_id)
            for file_id in filter(None, (batch.input_file_id, batch.output_file_id, batch.error_file_id)):
                with suppress(openai.NotFoundError):
                    self._client.files.delete(file_id)

    def _find_file(self, tag: str) -> str | None:
        """Return the id of a file that was uploaded before a crash, if there is one."""
        files = self._client.files.list(purpose="batch")
        return next((file.id for file in files if file.filename == _file_name(tag)), None)

    def _upload(self, tag: str, content: bytes) -> str:
        return self._client.files.create(file=(_file_name(tag), content), purpose="batch").id

    def _find(self, tag: str) -> Batch | None:
        with self._errors_converted():
            batches = self._client.batches.list(limit=100)
            return next((batch for batch in batches if (batch.metadata or {}).get(TAG) == tag), None)

    def _create(self, tag: str, file_id: str, before: str | None) -> str:
        """Create a job and return its id.

        A creation that is not confirmed may have succeeded. The job is then looked for instead of created again.
        """
        create = self._client.with_options(max_retries=0).batches.create
        try:
            with self._errors_converted():
                return create(input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h", metadata={TAG: tag}).id
        except SynthesisError as error:
            if error.kind not in {"timeout", "transport", "parse"}:
                raise
            for seconds in (*LOOK_AGAIN, 0.0):
                if (found := self.find(tag)) not in {None, before}:
                    return str(found)
                sleep(seconds)
            raise

    def _read_results(self, file_id: str) -> Iterator[tuple[str, Synopsis]]:
        """Yield the key and synopsis of each line of an output or error file that names its key.

        Lines are parsed one by one, so that one that cannot be read costs no other its result.
        """
        for text in self._client.files.content(file_id).content.splitlines():
            with suppress(ValueError, RecursionError):
                line = json.loads(text)  # orjson refuses a line with half of a surrogate pair
                if isinstance(line, Mapping) and isinstance(line.get("custom_id"), str):
                    yield line["custom_id"], self._read_line(line)

    def _read_line(self, line: Mapping[str, Any]) -> Synopsis:
        response, error = line.get("response"), line.get("error")
        if not response:
            said = f"{error.get('code')}: {error.get('message')}" if isinstance(error, Mapping) else server_words(error)
            said = mask_secrets(said, self.endpoint.secrets)
            return Synopsis(Outcome.FAILED, kind="unavailable", message=f"not tried: {said}")
        status, body = (response.get(key) if isinstance(response, Mapping) else None for key in ("status_code", "body"))
        if status == 200:
            return parse_completion(body, self.parse, self.endpoint.secrets).to_synopsis()
        if not isinstance(status, int):
            return Synopsis(Outcome.FAILED, kind="parse", message="the result of the batch has no status")
        failure = interpret_status(status, body or error, {}, self.endpoint.too_long)
        failure = failure.without(self.endpoint.secrets)
        return Synopsis(Outcome.FAILED, kind=failure.kind, message=failure.message)

    @contextmanager
    def _errors_converted(self) -> Iterator[None]:
        """Convert errors of the client to SynthesisError, without secrets."""
        import openai

        try:
            yield
        except (ConfigError, openai.OpenAIError, orjson.JSONDecodeError) as error:
            failure = interpret_exception(error, self.endpoint.where).without(self.endpoint.secrets)
            raise SynthesisError(failure.message, failure.kind) from None

    @cached_property
    def _client(self) -> OpenAI:
        from openai import DefaultHttpxClient, OpenAI

        options = self.endpoint.client_options() | {"max_retries": CLIENT_RETRIES}
        return OpenAI(**options, http_client=start_client(DefaultHttpxClient, self.endpoint.timeout))


def _file_name(tag: str) -> str:
    return f"findingaid-{tag}.jsonl"


def _status_message(batch: Batch) -> str:
    """Return the status of a job, with its first error, in one line."""
    problems = (batch.errors.data if batch.errors else None) or []
    said = f"the batch {batch.id} is {batch.status}"
    return f"{said}: {problems[0].code}: {problems[0].message}" if problems else said
