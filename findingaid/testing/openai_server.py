"""A server on loopback that speaks the OpenAI API, for tests without a network, a key or a bill.

    with OpenAIServer(delay=0.2) as server:
        synthesizer = OpenAISynthesizer("any-model", base_url=server.base_url)
        server.script(faults.rate_limited(retry_after=1), None, faults.server_error())
        ...
        assert server.requests[0].json["model"] == "any-model"

It knows chat completions (without streaming), reranking as Cohere and Jina have it, models, files and batches.
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

from findingaid.testing import faults
from findingaid.testing.batches import Batches, Files
from findingaid.testing.faults import Completion, Fault
from findingaid.testing.http import Reply, Request, read_request, write_reply

CHAT = "/v1/chat/completions"
RERANK = "/v1/rerank"

Judge = Callable[[str, str], float]
"""How well a text answers a query."""


def common_words(query: str, text: str) -> float:
    """The default judgement: the share of the query's words that a text has."""
    words = set(query.lower().split())
    return len(words & set(text.lower().split())) / max(1, len(words))


Answer = Callable[[Request], str | Mapping[str, Any]]
"""What a model writes: a text, or JSON for a schema."""

WORDS = 25
"""How much of a document the default answer takes."""

MARKUP = re.compile(r"</?[\w-]+>|[#*`|]")
BODY_LIMIT = 1 << 16
"""What asyncio reads of a request's head at most; a body may be of any length."""


def first_words(request: Request) -> str:
    """The default answer: the first words of the user's content, without markup."""
    words = " ".join(MARKUP.sub(" ", request.content).split()[:WORDS])
    return f"{words.rstrip('.')}." if words else ""


def count_tokens(text: str) -> int:
    """What the server counts as tokens: words and signs."""
    return len(re.findall(r"\w+|[^\w\s]", text))


@dataclass
class OpenAIServer:
    """Answers what `answer` says after `delay` seconds; `answer` must not block.

    `requests` has every request that came, `most_at_once` how many chat completions were under way at most.
    With an `api_key` others are refused, with `models` other models; without `schemas` a request for JSON of a schema
    is. A batch moves one status on with each look at it, and ends as `batch_end` says, with the first `batch_answers`
    requests answered where that is set.
    """

    answer: Answer = first_words
    judge: Judge = common_words
    delay: float = 0.0
    api_key: str | None = None
    models: Sequence[str] = ()
    schemas: bool = True
    batch_end: Literal["completed", "expired", "failed"] = "completed"
    batch_answers: int | None = None
    requests: list[Request] = field(default_factory=list, init=False)
    most_at_once: int = field(default=0, init=False)
    files: Files = field(default_factory=Files, init=False)
    batches: Batches = field(init=False)
    port: int = field(default=0, init=False)
    _script: deque[Fault | None] = field(default_factory=deque, init=False, repr=False)
    _rules: list[list[Any]] = field(default_factory=list, init=False, repr=False)
    _at_once: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batches = Batches(self.files, self._line)

    @property
    def base_url(self) -> str:
        """What a client takes as its base_url."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def completions(self) -> list[Request]:
        """The requests for chat completions."""
        return [request for request in self.requests if request.path == CHAT]

    def script(self, *faults: Fault | None) -> None:
        """What becomes of the next chat completions, in order of their coming; None for a proper answer."""
        self._script.extend(faults)

    def when(self, predicate: Callable[[Request], bool], fault: Fault, times: int = -1) -> None:
        """Requests of any kind, and lines of a batch, that `predicate` is true of get `fault`, at most `times`."""
        self._rules.append([predicate, fault, times])

    def recover(self) -> None:
        """No more faults."""
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
            pass  # the client went
        finally:
            writer.close()

    def reply(self, request: Request) -> Reply:
        """What is answered to one request."""
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
        completion = completed(request, self.answer(request), schema)
        headers = {"x-request-id": f"req_{completion['id'].removeprefix('chatcmpl-')}"}
        return fault.reply(completion) if fault else Reply.of(completion, headers=headers)

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
        """Status and body for one request of a batch."""
        reply = self._chat(request := Request("POST", CHAT, body=json.dumps(body).encode()), self._rule(request))
        return reply.status, json.loads(reply.body)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "loopback"}


def completed(request: Request, answer: str | Mapping[str, Any], schema: Mapping[str, Any] | None) -> Completion:
    """The chat completion that says `answer`, as JSON of the schema where there is one."""
    if isinstance(answer, str) and schema is None:
        content = answer
    else:
        content = json.dumps(instance(schema or {}, answer) if isinstance(answer, str) else answer, ensure_ascii=False)
    asked = sum(count_tokens(str(message["content"])) for message in request.json["messages"])
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
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        "system_fingerprint": "fp_loopback",
    }


def instance(schema: Mapping[str, Any], text: str, root: Mapping[str, Any] | None = None) -> Any:
    """JSON that is valid for a schema of those OpenAI takes, with `text` where a free string is wanted."""
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
