"""Loopback server that speaks the OpenAI API, for tests without a network, an API key or costs.

    with OpenAIServer(delay=0.2) as server:
        synthesizer = OpenAISynthesizer("any-model", base_url=server.base_url)
        server.script(faults.rate_limited(retry_after=1), None, faults.server_error())
        ...
        assert server.requests[0].json["model"] == "any-model"

It supports chat completions (without streaming), embeddings, reranking in the format of Cohere and Jina, models, files
and batches.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import sha256
from time import time
from typing import Any, Literal, Self

from findingaid.embedding.hashing import HashEmbedder
from findingaid.testing import faults
from findingaid.testing.batches import BatchesEndpoint, FilesEndpoint
from findingaid.testing.faults import Completion, Fault
from findingaid.testing.http import Reply, Request, read_request, write_reply

CHAT = "/v1/chat/completions"

Judge = Callable[[str, str], float]
"""Function of (query, text) that returns a relevance score."""


def common_words(query: str, text: str) -> float:
    """Return the share of the query's words that a text contains; the default judge."""
    words = set(query.lower().split())
    return len(words & set(text.lower().split())) / max(1, len(words))


Answer = Callable[[Request], str | Mapping[str, Any]]
"""Function that returns the output of the model for a request: a text, or JSON for a schema."""

WORDS = 25
"""Number of words that the default answer takes from a document."""

TOKEN = re.compile(r"\w+|[^\w\s]")
MARKUP = re.compile(r"</?[\w-]+>|[#*`|]")
BODY_LIMIT = 1 << 16
"""Maximum bytes of a request's head, which asyncio enforces; a body may be of any length."""


def first_words(request: Request) -> str:
    """Return the first words of the user's content, without markup, or else NOTHING; the default answer."""
    words = " ".join(MARKUP.sub(" ", request.content).split()[:WORDS])
    return f"{words.rstrip('.')}." if any(map(str.isalnum, words)) else "NOTHING"


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text; every word and every punctuation mark is one."""
    return len(TOKEN.findall(text))


@dataclass
class OpenAIServer:
    """Loopback server that answers chat completions with `answer` after `delay` seconds; `answer` must not block.

    - `requests` records every request. `most_at_once` is the maximum number of concurrent chat completions.
    - If `api_key` is set, requests with another key are refused. If `models` is set, other models are refused. Without
      `schemas`, requests for JSON of a schema are refused.
    - With `limited`, answers are cut at `max_completion_tokens`.
    - Each retrieval of a batch advances it by one status, until `batch_end`. If `batch_answers` is set, only that many
      requests of a batch are answered.
    - Embeddings have so many `dimensions`, and are those of the hash embedder, but longer than 1. They are those of the
      model that is `loaded`, whatever the name in the request.
    """

    answer: Answer = first_words
    judge: Judge = common_words
    delay: float = 0.0
    api_key: str | None = None
    models: Sequence[str] = ()
    schemas: bool = True
    limited: bool = True
    batch_end: Literal["completed", "expired", "failed"] = "completed"
    batch_answers: int | None = None
    dimensions: int = 32
    loaded: str = ""
    requests: list[Request] = field(default_factory=list, init=False)
    most_at_once: int = field(default=0, init=False)
    files: FilesEndpoint = field(default_factory=FilesEndpoint, init=False)
    batches: BatchesEndpoint = field(init=False)
    port: int = field(default=0, init=False)
    _script: deque[Fault | None] = field(default_factory=deque, init=False, repr=False)
    _rules: list[list[Any]] = field(default_factory=list, init=False, repr=False)
    _at_once: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batches = BatchesEndpoint(self.files, self._line)

    @property
    def base_url(self) -> str:
        """Value for the `base_url` of a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def completions(self) -> list[Request]:
        """Recorded requests for chat completions."""
        return [request for request in self.requests if request.path == CHAT]

    def script(self, *faults: Fault | None) -> None:
        """Queue faults for the next chat completions in order of arrival; None stands for a normal answer."""
        self._script.extend(faults)

    def when(self, predicate: Callable[[Request], bool], fault: Fault, times: int = -1) -> None:
        """Answer matching requests with `fault`, at most `times` times, or always if `times` is negative.

        The predicate is tried on requests of every kind and on the lines of a batch.
        """
        self._rules.append([predicate, fault, times])

    def recover(self) -> None:
        """Remove all scripted and conditional faults."""
        self._script.clear()
        self._rules.clear()

    def __enter__(self) -> Self:
        started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), daemon=True)
        self._thread.start()
        self.port = started.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self, started: Future[int]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        try:
            server = await asyncio.start_server(connected, "127.0.0.1", self.port, limit=BODY_LIMIT, backlog=1024)
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_request(reader):
                self.requests.append(request)
                chat = request.path == CHAT
                self._at_once += chat
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    if chat and self.delay:
                        await asyncio.sleep(self.delay)
                    usable = await write_reply(reader, writer, self.reply(request))
                finally:
                    self._at_once -= chat
                if not usable:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client disconnected
        finally:
            writer.close()

    def reply(self, request: Request) -> Reply:
        """Return the reply to a request."""
        wrong_key = self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}"
        if wrong_key:
            return faults.unauthorized().reply({})
        chat = request.path == CHAT
        fault = (self._script.popleft() if chat and self._script else None) or self._rule(request)
        match request.method, request.path.removeprefix("/v1/").split("/"):
            case _ if fault and not chat:
                return fault.reply({})
            case "POST", ["chat", "completions"]:
                return self._chat(request, fault)
            case "POST", ["embeddings"]:
                return self._embed(request)
            case "POST", ["rerank"]:
                return self._rerank(request)
            case "GET", ["models"]:
                return Reply.of({"object": "list", "data": [_model(name) for name in self.models]})
            case "GET", ["models", name] if name in self.models:
                return Reply.of(_model(name))
            case _, ["files", *rest]:
                return self.files.reply(request, rest)
            case _, ["batches", *rest]:
                return self.batches.reply(request, rest, self.batch_end, self.batch_answers)
        message = f"Invalid URL ({request.method} {request.path})"
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        return Reply.of({"error": error}, 404)

    def _rule(self, request: Request) -> Fault | None:
        for rule in self._rules:
            predicate, fault, times = rule
            if times and predicate(request):
                rule[2] -= 1
                found: Fault = fault
                return found
        return None

    def _chat(self, request: Request, fault: Fault | None) -> Reply:
        model = request.json["model"]
        schema = (request.json.get("response_format") or {}).get("json_schema", {}).get("schema")
        if self.models and model not in self.models:
            fault = faults.model_not_found(model)
        elif schema and not self.schemas:
            fault = faults.unsupported("response_format.json_schema")
        completion = completed(request, self.answer(request), schema, self.limited)
        headers = {"x-request-id": f"req_{completion['id'].removeprefix('chatcmpl-')}"}
        return fault.reply(completion) if fault else Reply.of(completion, headers=headers)

    def _embed(self, request: Request) -> Reply:
        asked = request.json
        if self.models and asked["model"] not in self.models:
            return faults.model_not_found(asked["model"]).reply({})
        if "" in asked["input"]:
            return Reply.of({"error": {"message": "'$.input' is invalid", "type": "invalid_request_error"}}, 400)
        # Not of length 1, and in another order than asked, as some servers answer.
        vectors = 3 * HashEmbedder(self.dimensions).embed([self.loaded + text for text in asked["input"]])
        data = [{"object": "embedding", "index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
        tokens = sum(map(count_tokens, asked["input"]))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Reply.of({"object": "list", "data": data[::-1], "model": asked["model"], "usage": usage})

    def _rerank(self, request: Request) -> Reply:
        asked = request.json
        if self.models and asked["model"] not in self.models:
            return faults.model_not_found(asked["model"]).reply({})
        judged = [
            {"index": i, "relevance_score": self.judge(asked["query"], text)}
            for i, text in enumerate(asked["documents"])
        ]
        best = sorted(judged, key=lambda result: -result["relevance_score"])[: asked.get("top_n")]
        tokens = count_tokens(asked["query"]) + sum(map(count_tokens, asked["documents"]))
        return Reply.of({"model": asked["model"], "results": best, "usage": {"total_tokens": tokens}})

    def _line(self, body: Any) -> tuple[int, Any]:
        """Return the status and body for one request of a batch."""
        reply = self._chat(request := Request("POST", CHAT, body=json.dumps(body).encode()), self._rule(request))
        return reply.status, json.loads(reply.body)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "loopback"}


def first_tokens(text: str, count: int | None) -> str:
    """Return a text up to the end of its first `count` tokens, or all of it if `count` is None."""
    ends = [found.end() for found in TOKEN.finditer(text)]
    return text if count is None or len(ends) <= count else text[: ends[count - 1]]


def completed(
    request: Request, answer: str | Mapping[str, Any], schema: Mapping[str, Any] | None, limited: bool = True
) -> Completion:
    """Return a chat completion with `answer` as its content.

    With a schema, a text becomes valid JSON of the schema. With `limited`, the content is cut at
    `max_completion_tokens` of the request.
    """
    if isinstance(answer, str) and schema is None:
        content = answer
    else:
        content = json.dumps(instance(schema or {}, answer) if isinstance(answer, str) else answer, ensure_ascii=False)
    asked = sum(count_tokens(str(message["content"])) for message in request.json["messages"])
    limit = request.json.get("max_completion_tokens") if limited else None
    whole, content = content, first_tokens(content, limit)
    said = count_tokens(content)
    return {
        "id": f"chatcmpl-{sha256(request.body).hexdigest()[:24]}",
        "object": "chat.completion",
        "created": int(time()),
        "model": request.json["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop" if content == whole else "length",
            }
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        "system_fingerprint": "fp_loopback",
    }


def instance(schema: Mapping[str, Any], text: str, root: Mapping[str, Any] | None = None) -> Any:
    """Return JSON that is valid for a schema of the kind that OpenAI accepts, with `text` as each free string."""
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for key in str(schema["$ref"]).removeprefix("#/").split("/"):
            target = target[key]
        return instance(target, text, root)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return instance(schema[key][0], text, root)
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", ())), None))
    return _plain_instance(schema, text, root)


def _plain_instance(schema: Mapping[str, Any], text: str, root: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            return {name: instance(value, text, root) for name, value in schema.get("properties", {}).items()}
        case "array":
            return [instance(schema.get("items", {}), text, root)] * max(1, schema.get("minItems", 1))
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
    return text[: schema.get("maxLength", len(text))]
