"""Parameters that the producers by a model have in common, as a configuration gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt, MinLen
from pydantic import SecretStr

from findingaid.errors import ConfigError
from findingaid.identity.hashes import content_hash
from findingaid.identity.inputs import read_input
from findingaid.llm.caller import Caller, ChatRequest
from findingaid.llm.endpoint import Endpoint
from findingaid.llm.prompts import load_template
from findingaid.llm.rate_limits import Limits
from findingaid.model import NO_USAGE, Usage
from findingaid.registry import ConfigPath

AT_ONCE = 8
"""Default of the concurrent requests to an endpoint; further ones wait."""

LEAST_CONTEXT = 2_000
"""Minimum of `context_tokens`."""

OWN_KEYS = frozenset({"messages", "model", "n", "response_format", "stream"})
"""Keys that `extra` may not set, because the parsing of answers depends on them."""

OPENAI = "openai"
"""Beginning of the ids of all producers that ask a language model."""


@dataclass(frozen=True)
class EndpointParameters:
    """`model` at `base_url`; the key is `api_key`, else the value of the environment variable `api_key_env`.

    `base_url` defaults to OPENAI_BASE_URL, or else to OpenAI itself. A local server may need no key. A request that
    gets no answer within `timeout` seconds is sent again, `retries` times at most.
    """

    model: Annotated[str, MinLen(1)]
    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: dict[str, SecretStr] = field(default_factory=dict, repr=False)
    timeout: Annotated[float, Gt(0)] = 30.0
    retries: Annotated[int, Ge(0)] = 2
    too_long: ClassVar[str] = ""
    """What to do about a text that is too long for the model, for messages."""

    def __post_init__(self) -> None:
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", SecretStr(self.api_key))
        self.endpoint.check()

    @property
    def endpoint(self) -> Endpoint:
        """Address and credentials of the endpoint."""
        return Endpoint(
            self.base_url, self.api_key, self.api_key_env, self.default_headers, self.timeout, self.too_long
        )

    @property
    def limits(self) -> Limits:
        """Limits on the requests to the endpoint."""
        return Limits(AT_ONCE, None, None, self.timeout, self.retries)


@dataclass(frozen=True)
class ProducerParameters(EndpointParameters):
    """Parameters of a producer that a run calls: OpenAI, Azure, vLLM, Ollama, llama.cpp and other servers of this API.

    `prompt` is a file that says what to write. The instructions that texts are data, and the form of the answer, are
    always added to it. With `structured` the answer is JSON that follows a schema, a feature that the server must
    support. `extra` is added to each request as it is. Raises ConfigError for invalid parameters.
    """

    prompt: ConfigPath | None = None
    structured: bool = True
    temperature: Annotated[float, Ge(0)] | None = None
    seed: int | None = None
    max_output_tokens: Annotated[int, Gt(0)] | None = 4096
    context_tokens: Annotated[int, Ge(LEAST_CONTEXT)] = 16_000
    reasoning_effort: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    concurrency: Annotated[int, Gt(0)] = AT_ONCE
    requests_per_minute: Annotated[int, Gt(0)] | None = None
    tokens_per_minute: Annotated[int, Gt(0)] | None = None
    timeout: Annotated[float, Gt(0)] = 120.0
    retries: Annotated[int, Ge(0)] = 5
    too_long: ClassVar[str] = "lower context_tokens"
    response_format: ClassVar[Mapping[str, Any]] = {}
    """Form of an answer, as the request has it if answers are structured."""

    def __post_init__(self) -> None:
        if own := OWN_KEYS & set(self.extra):
            raise ConfigError(f"extra.{min(own)}: cannot be set by extra")
        super().__post_init__()
        if self._own_task is not None and not self._own_task.strip():
            raise ConfigError(f"prompt: {self.prompt} is empty")

    def task(self, default: str) -> str:
        """Return the text of the prompt file, or else of the shipped prompt `default`."""
        return load_template(default) if self._own_task is None else self._own_task

    @cached_property
    def _own_task(self) -> str | None:
        """Text of the prompt file, read once; None without one. Raises ConfigError."""
        if self.prompt is None:
            return None
        try:
            return read_input(Path(self.prompt))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is not UTF-8 text"
            raise ConfigError(f"prompt: {self.prompt} cannot be read: {reason}") from None

    @property
    def limits(self) -> Limits:
        return Limits(self.concurrency, self.requests_per_minute, self.tokens_per_minute, self.timeout, self.retries)

    @cached_property
    def caller(self) -> Caller:
        """Caller of the model."""
        request = ChatRequest(
            self.model,
            self.response_format if self.structured else None,
            self.temperature,
            self.seed,
            self.max_output_tokens,
            self.reasoning_effort,
            self.extra,
        )
        return Caller(self.endpoint, self.limits, request)

    def calls_for(self, given: Any) -> list[Usage]:
        """Predict the calls that one input takes. Tokens are estimates."""
        raise NotImplementedError

    def estimate(self, given: Any) -> Usage:
        """Return the estimated usage for one input, without a call."""
        return sum(self.calls_for(given), NO_USAGE)

    def most(self, given: Any) -> Usage | None:
        """Return the maximum usage for one input if each request is sent once; None if nothing limits the answers."""
        return self.caller.request.most_of(self.calls_for(given))

    def producer_id(self, version: int, *prompt: object) -> str:
        """Return an id from the model, `version`, the parts of the `prompt`, and the parameters that change the output.

        It leaves out `base_url` and `default_headers`: the same model behind another address writes the same, and
        moving a gateway should not cost everything again. It leaves out `max_output_tokens`, too: too low a limit only
        makes a call fail, and failures are retried anyway.
        """
        parameters = (self.temperature, self.seed, self.reasoning_effort, self.extra, self.context_tokens)
        return f"{OPENAI}-{self.model}-{content_hash(version, content_hash(*prompt), *parameters)[:12]}"
