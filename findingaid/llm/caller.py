"""Calls of a chat model: a request, its answer parsed or the error instead, and many calls at once."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from queue import SimpleQueue
from typing import Any, TypeVar

import orjson

from findingaid.errors import SynthesisError
from findingaid.llm.completions import parse_completion
from findingaid.llm.endpoint import Connection, Endpoint, connection_of
from findingaid.llm.prompts import BYTES_A_TOKEN, Messages, Prompt, estimate_tokens
from findingaid.llm.rate_limits import SUBJECT, Limits, NotWantedError, StillWanted, always
from findingaid.llm.tracing import chat_span
from findingaid.model import NO_USAGE, CallResult, Usage

LOGGER = logging.getLogger("findingaid")

T = TypeVar("T")
Input = TypeVar("Input")

Parse = Callable[[str], T]
"""Function that converts the text of an answer. Raises SynthesisError."""

Work = Callable[[Input, StillWanted], Coroutine[Any, Any, CallResult[T]]]
"""Coroutine function that makes the calls for one input, as long as the result is wanted."""

CHAT = "/chat/completions"

ANSWER_LIMITS = ("max_completion_tokens", "max_tokens")
"""Keys of a request that limit the length of its answer; a server obeys one of them."""

ENVELOPE = 256
"""Upper bound of the tokens that a server adds to one request around its messages, far above any chat template."""

AROUND_A_TEXT = 1_024
"""Upper bound of the bytes around a text in its message: the tags, and the words of the prompt that introduce it."""

UNREAD = 16
"""Most results that wait until the caller takes them, beside the requests under way. A crash loses both."""

CUT_SHARE = 0.5
"""Share of the words of a prompt below which the tokens that a server counted show that it cut the prompt off.

No common tokenizer takes two words for one token.
"""

GRACE_SECONDS = 5.0
"""How long requests under way may continue after the caller has left, so that paid answers are kept."""


@dataclass(frozen=True)
class ChatRequest:
    """Request to a chat model, apart from its messages. Without a `response_format`, the answer is free text."""

    model: str
    response_format: Mapping[str, Any] | None = None
    temperature: float | None = None
    seed: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def body(self, messages: Messages) -> dict[str, Any]:
        """Return the body of the request."""
        asked = {
            "temperature": self.temperature,
            "seed": self.seed,
            "max_completion_tokens": self.max_output_tokens,
            "reasoning_effort": self.reasoning_effort,
            "response_format": self.response_format,
        }
        given = {key: value for key, value in asked.items() if value is not None}
        return {"model": self.model, "messages": messages, **given, **self.extra}

    @property
    def answer_limit(self) -> int | None:
        """Maximum tokens of an answer; None if nothing limits it."""
        body = self.body([])
        return max((body[key] for key in ANSWER_LIMITS if isinstance(body.get(key), int)), default=None)

    def most(self, messages: Messages) -> Usage:
        """Return the maximum usage of one request. No tokenizer makes more tokens of a text than the text has bytes."""
        sent = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        return Usage(1, sent + self._around, self.answer_limit or 0)

    def most_of(self, calls: Sequence[Usage], around: int = AROUND_A_TEXT) -> Usage | None:
        """Return the maximum usage of estimated calls, each sent once; None if nothing limits the answers.

        `around` is the maximum bytes in the messages of a call that its estimate leaves out.
        """
        limit = self.answer_limit
        if limit is None:
            return None
        around += self._around
        return Usage(len(calls), sum(BYTES_A_TOKEN * call.input_tokens + around for call in calls), limit * len(calls))

    @cached_property
    def _around(self) -> int:
        """Maximum tokens of a request, without those of its messages."""
        return ENVELOPE + len(orjson.dumps(self.body([]), default=str))


@dataclass(frozen=True, eq=False)
class Caller:
    """Caller of one chat model: within the limits of its endpoint, with retries, paid from the budget of a run.

    Calls run in a background thread, so that programs with or without an event loop may use it.
    """

    endpoint: Endpoint
    limits: Limits
    request: ChatRequest
    kept: dict[str, CallResult[Any]] = field(default_factory=dict, init=False, repr=False)
    """Results that were paid for but not taken, by the key of their input."""

    told: list[str] = field(default_factory=list, init=False, repr=False)
    """Warning about the endpoint, once it was given."""

    @property
    def connection(self) -> Connection:
        """Connection to the endpoint, made on first use."""
        return connection_of(self, self.endpoint, self.limits)

    def ask(self, messages: Messages, parse: Parse[T]) -> CallResult[T]:
        """Make one call and wait for its result."""
        return self.connection.loop.submit(self.call(messages, parse)).result()

    async def call(self, messages: Messages, parse: Parse[T], wanted: StillWanted = always) -> CallResult[T]:
        """Make one call. Raises NotWantedError."""
        tokens = sum(estimate_tokens(message["content"]) for message in messages)
        most = self.request.most(messages)
        body = self.request.body(messages)
        try:
            with chat_span(body, self.endpoint.attributes) as observe:
                completion = await self.connection.post(CHAT, body, tokens, most, wanted)
                observe(completion)
        except SynthesisError as error:
            return CallResult(error=error)
        result = parse_completion(completion, parse, self.endpoint.secrets)
        self._warn_of_cut(messages, result.usage.input_tokens)
        return result

    def _warn_of_cut(self, messages: Messages, read: int) -> None:
        """Log, once, that the server counted far fewer tokens than a prompt must have."""
        if not read or self.told:
            return
        words = sum(len(message["content"].split()) for message in messages)
        if read < CUT_SHARE * words:
            self.told.append(
                f"{self.request.model} at {self.endpoint.where} read {read:,} tokens of a prompt of {words:,} words, by"
                " its own count: if it cuts prompts off, raise its context (num_ctx of Ollama), or lower context_tokens"
            )
            LOGGER.warning("%s", self.told[0])

    async def call_each(
        self, requests: Sequence[Messages], parse: Parse[T], wanted: StillWanted = always
    ) -> CallResult[list[T]]:
        """Make several calls and return the list of their values, or the first error. Raises NotWantedError.

        After an error no further requests are sent, since the whole has failed.
        """
        failed = False

        async def call(messages: Messages) -> CallResult[T] | None:
            nonlocal failed
            try:
                result = await self.call(messages, parse, lambda: wanted() and not failed)
            except NotWantedError:
                if not wanted():
                    raise
                return None
            failed |= result.error is not None
            return result

        made = [result for result in await asyncio.gather(*map(call, requests)) if result]
        usage = sum((result.usage for result in made), NO_USAGE)
        return CallResult(made, usage).map(lambda results: [result.get() for result in results])

    async def call_document(
        self, prompt: Prompt, text: str, tokens: int, part_template: str, parse: Parse[T], wanted: StillWanted
    ) -> CallResult[list[T]]:
        """Make the call for a text, or one for each part if it has more than `tokens` tokens. Raises NotWantedError."""
        if estimate_tokens(text) <= tokens:
            return await self.call_each([prompt.about("document", text)], parse, wanted)
        parts = await asyncio.to_thread(prompt.parts, part_template, text, tokens)
        return await self.call_each(parts, parse, wanted)

    def run(self, given: Input, key: str, work: Work[Input, T]) -> CallResult[T]:
        """Run `work` for one input and wait for its result."""
        return self.connection.loop.submit(self._result(given, key, work, always)).result()

    def run_all(
        self,
        inputs: Iterable[Input],
        key: Callable[[Input], str],
        work: Work[Input, T],
        subject: Callable[[Input], str] | None = None,
    ) -> Generator[tuple[int, CallResult[T]]]:
        """Run `work` for many inputs; yield results in the order in which they arrive, with the index of the input.

        `subject` names what an input is about, if several are about the same; see `rate_limits.SUBJECT`.
        The background thread takes an input whenever a request slot is free and at most UNREAD results wait to be
        yielded. If `inputs` end early, no more requests are sent, and the results under way are still yielded. If the
        iterator is closed instead, results that arrive within a few seconds are kept for the next request with the same
        `key`.
        """
        results: SimpleQueue[tuple[int, str, CallResult[T]] | None] = SimpleQueue()
        closed = threading.Event()
        places = enumerate(inputs)
        room = asyncio.Semaphore(self.limits.concurrency + UNREAD)

        async def worker() -> None:
            while True:
                await room.acquire()
                if closed.is_set() or not (place := next(places, None)):
                    room.release()  # of the next worker
                    return
                index, given = place
                name = key(given)
                SUBJECT.set(subject(given) if subject else name)
                try:
                    result = await self._result(given, name, work, lambda: not closed.is_set())
                except NotWantedError:
                    return
                if closed.is_set():
                    self._keep(name, result)
                else:
                    results.put((index, name, result))

        async def workers() -> None:
            await asyncio.gather(*(worker() for _ in range(self.limits.concurrency)))

        loop = self.connection.loop
        running = loop.submit(workers())
        running.add_done_callback(lambda _: results.put(None))
        try:
            while found := results.get():
                index, _, result = found
                loop.later(0, room.release)
                yield index, result
            running.result()  # raises the error of `inputs`, if any
        finally:
            closed.set()
            loop.later(0, partial(self._keep_unread, results))
            loop.later(0, room.release)  # wakes the workers, which see that it is closed
            loop.later(GRACE_SECONDS, running.cancel)

    async def _result(self, given: Input, key: str, work: Work[Input, T], wanted: StillWanted) -> CallResult[T]:
        return self.kept.pop(key, None) or await work(given, wanted)

    def _keep_unread(self, results: SimpleQueue[tuple[int, str, CallResult[T]] | None]) -> None:
        while not results.empty():
            if unread := results.get():
                self._keep(*unread[1:])

    def _keep(self, key: str, result: CallResult[Any]) -> None:
        if result.error is None:
            self.kept[key] = result
