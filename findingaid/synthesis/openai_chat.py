"""Synopses by a model behind any endpoint that speaks the OpenAI API."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import orjson
from annotated_types import Ge, Gt
from pydantic import SecretStr

from findingaid.errors import ConfigError, SynthesisError
from findingaid.identity import content_hash, text_hash
from findingaid.model import NO_USAGE, Outcome, Shown, Synopsis, Usage
from findingaid.registry import STRICT, ConfigPath
from findingaid.synthesis.answers import FORM, SYNOPSIS_TOKENS, failed, read, synopsis_of
from findingaid.synthesis.endpoint import Connection, Endpoint, connection_of
from findingaid.synthesis.line import Limits, NotWantedError
from findingaid.synthesis.prompting import Messages, Prompt, parts_of, shipped, tokens_of

if TYPE_CHECKING:
    from findingaid.synthesis.batch import OpenAIBatches

EXPECTED_TOKENS = 160
"""Of one answer, for a plan: the 120 words asked for."""

GRACE_SECONDS = 5.0
"""How long requests under way go on when nobody waits any more, so that what is paid is kept."""

OWN_KEYS = frozenset({"messages", "model", "n", "response_format", "stream"})
"""What `extra` may not change, because an answer is read by it."""

Wanted = Callable[[], bool]


@dataclass(frozen=True)
class OpenAISynthesizer:
    """Asks `model` for each synopsis: OpenAI, Azure, vLLM, Ollama, llama.cpp and other servers of this API.

    `base_url` is by default what OPENAI_BASE_URL says, else OpenAI itself; the key is `api_key`, else what the
    variable `api_key_env` holds, and servers of one's own may need none. `prompt` is a file that says what to write;
    that a text is data, and the form of the answer, is said beside it always. With `structured` the answer is JSON
    of a schema, which a server must know. A text longer than `context_tokens` is sent in parts, whose synopses then
    make one. `extra` is added to each request as it is. Where `batch_from` synopses or more are missing at once they
    are asked for by the batch API, at half the price and within a day.

    The text alone is sent, no metadata: a synopsis is kept by the text it is of.
    """

    model: str
    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: dict[str, SecretStr] = field(default_factory=dict, repr=False)
    prompt: ConfigPath | None = None
    structured: bool = True
    temperature: Annotated[float, Ge(0)] | None = None
    seed: int | None = None
    max_output_tokens: Annotated[int, Gt(0)] | None = 4096
    reasoning_effort: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    context_tokens: Annotated[int, Ge(2 * SYNOPSIS_TOKENS)] = 16_000
    concurrency: Annotated[int, Gt(0)] = 8
    requests_per_minute: Annotated[int, Gt(0)] | None = None
    tokens_per_minute: Annotated[int, Gt(0)] | None = None
    timeout: Annotated[float, Gt(0)] = 120.0
    retries: Annotated[int, Ge(0)] = 5
    batch_from: Annotated[int, Gt(0)] | None = None
    version: ClassVar[int] = 1
    """Raised when the same model, prompt and parameters are asked otherwise."""
    form: ClassVar[Mapping[str, Any]] = FORM
    """What a structured answer is held to."""
    shipped_prompt: ClassVar[str] = "synopsis"
    """What is asked for without a `prompt` of one's own."""
    no_batches: ClassVar[str] = ""
    """Why there is no `batch_from`, where there is none."""

    __pydantic_config__: ClassVar = STRICT

    def __post_init__(self) -> None:
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", SecretStr(self.api_key))
        if own := OWN_KEYS & set(self.extra):
            raise ConfigError(f"extra.{min(own)}: is not for extra to set")
        self.endpoint.check()
        if not self.instructions.what.strip():
            raise ConfigError(f"prompt: {self.prompt} is empty")
        if self.no_batches and self.batch_from is not None:
            raise ConfigError(f"batch_from: {self.no_batches}")

    @cached_property
    def instructions(self) -> Prompt:
        """What the model is told, whatever the text. Raises ConfigError."""
        return Prompt(self._what, self.structured)

    @cached_property
    def _what(self) -> str:
        """What is asked for, in the words of the prompt."""
        if self.prompt is None:
            return shipped(self.shipped_prompt)
        try:
            return Path(self.prompt).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is no UTF-8 text"
            raise ConfigError(f"prompt: {self.prompt} cannot be read: {reason}") from None

    @cached_property
    def id(self) -> str:
        """Of the model, every word it is sent beside the text, and the parameters that change what it writes.

        Not of `base_url` and `default_headers`: the same model behind another address writes the same, and a moved
        gateway is no reason to pay for everything again. Not of `max_output_tokens` either, which only makes a
        synopsis fail that is then asked for anew.
        """
        asked = (self.temperature, self.seed, self.reasoning_effort, self.extra, self.context_tokens)
        return f"openai-{self.model}-{content_hash(self.version, self.instructions.hash, *asked)[:12]}"

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        synopsis = self._engine.loop.submit(self._outcome(text, lambda: True)).result()
        if synopsis.outcome is Outcome.FAILED:
            raise SynthesisError(synopsis.message, synopsis.kind)
        return synopsis.text

    def synthesize_all(self, shown: Iterable[Shown]) -> Iterator[tuple[int, Synopsis]]:
        """Synopses in the order they come, each with its place in `shown`.

        `shown` is taken from as requests come free, in another thread: one that ends early stops the sending, and
        what is under way still comes. When the iterator is closed instead, answers that come within a few seconds
        are kept for the next who asks for these texts.
        """
        results: SimpleQueue[tuple[int, Shown, Synopsis] | None] = SimpleQueue()
        closed = threading.Event()
        engine = self._engine

        def keep_unread() -> None:
            while not results.empty():
                if unread := results.get():
                    engine.keep(*unread[1:])

        work = engine.loop.submit(self._work(shown, results, closed))
        work.add_done_callback(lambda _: results.put(None))
        try:
            while result := results.get():
                index, _, synopsis = result
                yield index, synopsis
            work.result()  # raises what `shown` raised
        finally:
            closed.set()
            engine.loop.later(0, keep_unread)
            engine.loop.later(GRACE_SECONDS, work.cancel)

    def calls_for(self, text: str) -> list[Usage]:
        """The calls that a text will take, foreseen without one: its parts, then what puts them together.

        Tokens are estimates. Fewer calls are made where a part has nothing to say.
        """
        if not text.strip():
            return []
        parts = parts_of(text, self.context_tokens)
        around = tokens_of(self.instructions.system)
        calls = [around + tokens_of(part) for part in parts]
        left = len(parts)
        while left > 1:
            sizes = [len(group) for group in _groups(range(left), self._at_once)]
            calls += [around + size * EXPECTED_TOKENS for size in sizes if size > 1]
            left = len(sizes)
        return [Usage(1, tokens, EXPECTED_TOKENS) for tokens in calls]

    def estimate(self, text: str) -> Usage:
        """The calls and tokens of a synopsis, without a call."""
        return sum(self.calls_for(text), NO_USAGE)

    def batches(self) -> OpenAIBatches:
        """Where its batches are sent."""
        from findingaid.synthesis.batch import OpenAIBatches

        return OpenAIBatches(self)

    def request(self, messages: Messages) -> dict[str, Any]:
        """The body of one request."""
        asked: dict[str, Any] = {
            "temperature": self.temperature,
            "seed": self.seed,
            "max_completion_tokens": self.max_output_tokens,
            "reasoning_effort": self.reasoning_effort,
            "response_format": self.form if self.structured else None,
        }
        given = {key: value for key, value in asked.items() if value is not None}
        return {"model": self.model, "messages": messages, **given, **self.extra}

    def client_options(self) -> dict[str, Any]:
        """What an openai client is made with; it holds the key."""
        return self.endpoint.client_options()

    @property
    def where(self) -> str:
        """The endpoint's host, for messages."""
        return self.endpoint.where

    @property
    def secrets(self) -> list[str]:
        """What no message may hold."""
        return self.endpoint.secrets

    @property
    def endpoint(self) -> Endpoint:
        """Where it asks, and as whom."""
        return Endpoint(self.base_url, self.api_key, self.api_key_env, self.default_headers, self.timeout)

    @property
    def _at_once(self) -> int:
        """How many synopses of parts are put together in one call, so that they fit however long they are."""
        return self.context_tokens // SYNOPSIS_TOKENS

    async def _work(
        self, shown: Iterable[Shown], results: SimpleQueue[tuple[int, Shown, Synopsis] | None], closed: threading.Event
    ) -> None:
        places = enumerate(shown)

        async def worker() -> None:
            while not closed.is_set() and (place := next(places, None)):
                index, one = place
                try:
                    synopsis = await self._outcome(one.text, lambda: not closed.is_set())
                except NotWantedError:
                    return
                if closed.is_set():
                    self._engine.keep(one, synopsis)
                else:
                    results.put((index, one, synopsis))

        await asyncio.gather(*(worker() for _ in range(self.concurrency)))

    async def _outcome(self, text: str, wanted: Wanted) -> Synopsis:
        if not text.strip():
            return Synopsis(Outcome.EMPTY)
        if kept := self._engine.kept.pop(text_hash(text), None):
            return kept
        return await self._asked(text, wanted)

    async def _asked(self, text: str, wanted: Wanted) -> Synopsis:
        """What becomes of a text that has something in it."""
        if tokens_of(text) <= self.context_tokens:
            return await self._ask(self.instructions.document(text), wanted)
        parts = await asyncio.to_thread(parts_of, text, self.context_tokens)
        asked = [self.instructions.part(part, i, len(parts)) for i, part in enumerate(parts, 1)]
        return await self._together(await self._each(asked, wanted), wanted)

    async def _together(self, made: Sequence[Synopsis], wanted: Wanted) -> Synopsis:
        """One answer of those of the parts; failed where one of these is."""
        used = sum((synopsis.usage for synopsis in made), NO_USAGE)
        if failed := next((synopsis for synopsis in made if synopsis.outcome is Outcome.FAILED), None):
            return replace(failed, usage=used)
        whole = await self._combined(made, wanted)
        return replace(whole, usage=used + whole.usage)

    async def _combined(self, made: Sequence[Synopsis], wanted: Wanted) -> Synopsis:
        """What answers of parts come to, with what is used for that."""
        said = [synopsis for synopsis in made if synopsis.outcome is Outcome.OK]
        if len(said) <= 1:
            return replace(said[0] if said else Synopsis(Outcome.EMPTY), usage=NO_USAGE)
        groups = _groups([synopsis.text for synopsis in said], self._at_once)
        asked = [self.instructions.combine(group) for group in groups if len(group) > 1]
        # A synopsis that is left over alone goes on as it is.
        alone = [Synopsis(Outcome.OK, group[0]) for group in groups if len(group) == 1]
        return await self._together([*await self._each(asked, wanted), *alone], wanted)

    async def _each(self, asked: Sequence[Messages], wanted: Wanted) -> list[Synopsis]:
        """An answer for each; once one failed no further one is asked for, since the whole is lost."""
        failed = False

        async def one(messages: Messages) -> Synopsis | None:
            nonlocal failed
            try:
                synopsis = await self._ask(messages, lambda: wanted() and not failed)
            except NotWantedError:
                if not wanted():
                    raise
                return None
            failed |= synopsis.outcome is Outcome.FAILED
            return synopsis

        return [made for made in await asyncio.gather(*map(one, asked)) if made]

    async def _ask(self, messages: Messages, wanted: Wanted) -> Synopsis:
        tokens = sum(tokens_of(message["content"]) for message in messages)
        try:
            completion = await self._engine.line.ask(lambda: self._send(messages), tokens, wanted)
        except SynthesisError as error:
            return failed(error)
        return self.read(completion)

    def read(self, completion: Any) -> Synopsis:
        """What came of a request, whatever was answered."""
        return read(completion, self._written)

    def _written(self, content: str) -> Synopsis:
        """What a model wrote, as it is kept. Raises SynthesisError."""
        return synopsis_of(content, self.structured)

    async def _send(self, messages: Messages) -> Any:
        body = self.request(messages)
        known = {key: body.pop(key) for key in ("model", "messages")}
        response = await self._engine.client.chat.completions.with_raw_response.create(**known, extra_body=body)
        return orjson.loads(response.content)

    @property
    def _engine(self) -> _Engine:
        """What runs the requests, made when first used."""
        limits = Limits(self.concurrency, self.requests_per_minute, self.tokens_per_minute, self.timeout, self.retries)
        engine: _Engine = connection_of(self, _Engine, self.endpoint, limits)
        return engine


class _Engine(Connection):
    """The connection of one synthesizer, and what it was paid for in vain."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(endpoint, limits)
        self.kept: dict[str, Synopsis] = {}
        """Text hash -> what was paid for and taken by nobody."""

    def keep(self, shown: Shown, synopsis: Synopsis) -> None:
        if synopsis.outcome is not Outcome.FAILED:
            self.kept[text_hash(shown.text)] = synopsis


def _groups(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
