"""Synopses by the batch API: at half the price, within a day.

A batch is created once even by a process that dies while it does so: it carries a tag, a hash of what is asked,
and who submits the same again looks for a file and a batch with that tag first. What a caller keeps for that is the
tag and the keys, before `submit`; and the batch's id, after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import orjson

from findingaid.errors import SynthesisError
from findingaid.identity import content_hash
from findingaid.model import Outcome, Shown, Synopsis
from findingaid.synthesis.answers import trouble_of, trouble_of_status
from findingaid.synthesis.openai_chat import OpenAISynthesizer
from findingaid.synthesis.prompting import tokens_of

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""The limits of one batch, from the reference of the API."""

TAG = "findingaid"
"""The key of a batch's metadata that holds its tag."""

ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
UNKNOWN = "unknown"
"""The status of a batch that the endpoint does not know, or not any more."""

CLIENT_RETRIES = 3
"""Of everything but the creation of a batch, by the client itself: these are few and harmless to repeat."""

LOOK_AGAIN = (1.0, 4.0)
"""Seconds after which to look for a batch whose creation was not confirmed."""


@dataclass(frozen=True)
class BatchInput:
    """The file of one batch: a line a request, and the keys these have."""

    keys: Sequence[str]
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class BatchState:
    """How far a batch is; `results` by key, filled once it has ended."""

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
class OpenAIBatches:
    """The batches of one synthesizer."""

    synthesizer: OpenAISynthesizer
    most_requests: int = MOST_REQUESTS
    most_bytes: int = MOST_BYTES

    def takes(self, text: str) -> bool:
        """Whether a text can be sent in a batch: it takes one call, since nothing in a batch can wait for another."""
        return bool(text.strip()) and tokens_of(text) <= self.synthesizer.context_tokens

    def inputs(self, shown: Iterable[tuple[str, Shown]]) -> Iterator[BatchInput]:
        """The files for (key, what is shown), each within the limits of a batch. A key has at most 64 characters."""
        keys: list[str] = []
        lines: list[bytes] = []
        size = 0
        for key, one in shown:
            body = self.synthesizer.request(self.synthesizer.instructions.document(one.text))
            line = orjson.dumps({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}) + b"\n"
            if keys and (len(keys) == self.most_requests or size + len(line) > self.most_bytes):
                yield BatchInput(keys, b"".join(lines))
                keys, lines, size = [], [], 0
            keys.append(key)
            lines.append(line)
            size += len(line)
        if keys:
            yield BatchInput(keys, b"".join(lines))

    def tag(self, keys: Iterable[str]) -> str:
        """What a batch over these keys is known by."""
        return content_hash("batch", self.synthesizer.id, sorted(keys))

    def find(self, tag: str) -> str | None:
        """The id of the batch with a tag, the newest where there are several; None where there is none.

        Raises SynthesisError where the endpoint does not answer.
        """
        found = self._found(tag)
        return found.id if found else None

    def submit(self, batch: BatchInput) -> str:
        """Send a batch off unless it is under way; its id. Raises SynthesisError."""
        tag = self.tag(batch.keys)
        found = self._found(tag)
        if found and found.status not in ENDED:
            return found.id
        with self._said_plainly():
            file_id = self._uploaded(tag) or self._upload(tag, batch.content)
        return self._create(tag, file_id, found.id if found else None)

    def withdraw(self, tag: str) -> None:
        """Delete what was uploaded for a batch that was never made. Raises SynthesisError."""
        with self._said_plainly():
            if file_id := self._uploaded(tag):
                self._client.files.delete(file_id)

    def ended(self, batch_id: str) -> bool:
        """Whether a batch will have no more results than it has. Raises SynthesisError."""
        with self._said_plainly():
            return self._client.batches.retrieve(batch_id).status in ENDED

    def poll(self, batch_id: str, keys: Iterable[str] = ()) -> BatchState:
        """How far a batch is, with the results once it has ended, also those of one that ended early.

        Of `keys`, those that then have no result have failed: with all of a batch that was refused, and as not tried
        where it came to an end before them. Raises SynthesisError.
        """
        import openai

        with self._said_plainly():
            try:
                batch = self._client.batches.retrieve(batch_id)
            except openai.NotFoundError:
                return BatchState(batch_id, UNKNOWN, message=f"the endpoint does not know the batch {batch_id}")
            results: dict[str, Synopsis] = {}
            if batch.status in ENDED:
                for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
                    with suppress(openai.NotFoundError):  # it was taken in before, by a process that died then
                        results |= self._results(file_id)
        message = _message(batch)
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
        return BatchState(batch_id, batch.status, total, completed, failed, message, results)

    def cancel(self, batch_id: str) -> None:
        """Have no more requests of a batch answered; those that are stay. Raises SynthesisError."""
        with self._said_plainly():
            self._client.batches.cancel(batch_id)

    def clean(self, batch_id: str) -> None:
        """Delete the files of a batch at the endpoint, which hold the texts. Raises SynthesisError."""
        import openai

        with self._said_plainly():
            batch = self._client.batches.retrieve(batch_id)
            for file_id in filter(None, (batch.input_file_id, batch.output_file_id, batch.error_file_id)):
                with suppress(openai.NotFoundError):
                    self._client.files.delete(file_id)

    def _uploaded(self, tag: str) -> str | None:
        """The file of an upload after which the process died."""
        files = self._client.files.list(purpose="batch")
        return next((file.id for file in files if file.filename == _file_name(tag)), None)

    def _upload(self, tag: str, content: bytes) -> str:
        return self._client.files.create(file=(_file_name(tag), content), purpose="batch").id

    def _found(self, tag: str) -> Batch | None:
        with self._said_plainly():
            batches = self._client.batches.list(limit=100)
            return next((batch for batch in batches if (batch.metadata or {}).get(TAG) == tag), None)

    def _create(self, tag: str, file_id: str, before: str | None) -> str:
        """Create a batch. What is not confirmed may have been done all the same, so it is looked for, not repeated."""
        create = self._client.with_options(max_retries=0).batches.create
        try:
            with self._said_plainly():
                return create(input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h", metadata={TAG: tag}).id
        except SynthesisError as error:
            if error.kind not in {"timeout", "transport", "parse"}:
                raise
            for seconds in (*LOOK_AGAIN, 0.0):
                if (found := self.find(tag)) not in {None, before}:
                    return str(found)
                sleep(seconds)
            raise

    def _results(self, file_id: str) -> dict[str, Synopsis]:
        lines = self._client.files.content(file_id).content.splitlines()
        return dict(self._result(orjson.loads(line)) for line in lines if line.strip())

    def _result(self, line: Any) -> tuple[str, Synopsis]:
        """Key and synopsis of one line of an output or error file."""
        response = line.get("response") or {}
        body = response.get("body")
        if response.get("status_code") == 200:
            return line["custom_id"], self.synthesizer.read(body)
        error = line.get("error") or (body.get("error") if isinstance(body, Mapping) else None) or {}
        if not response:
            message = f"not tried: {error.get('code')}: {error.get('message')}"
            return line["custom_id"], Synopsis(Outcome.FAILED, kind="unavailable", message=message)
        trouble = trouble_of_status(response.get("status_code", 0), error, {})
        return line["custom_id"], Synopsis(Outcome.FAILED, kind=trouble.kind, message=trouble.message)

    @contextmanager
    def _said_plainly(self) -> Iterator[None]:
        """Errors of the client become SynthesisError, without secrets."""
        import openai

        try:
            yield
        except (openai.OpenAIError, orjson.JSONDecodeError) as error:
            trouble = trouble_of(error, self.synthesizer.where).without(self.synthesizer.secrets)
            raise SynthesisError(trouble.message, trouble.kind) from None

    @cached_property
    def _client(self) -> OpenAI:
        from openai import OpenAI

        return OpenAI(**self.synthesizer.client_options() | {"max_retries": CLIENT_RETRIES})


def _file_name(tag: str) -> str:
    return f"findingaid-{tag}.jsonl"


def _message(batch: Batch) -> str:
    """What became of a batch, in one line."""
    problems = (batch.errors.data if batch.errors else None) or []
    said = f"the batch {batch.id} is {batch.status}"
    return f"{said}: {problems[0].code}: {problems[0].message}" if problems else said
