"""Endpoints of models, their connections, and the endpoint of the OpenAI API with its address and credentials."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import orjson
from pydantic import SecretStr

from findingaid.errors import ConfigError
from findingaid.llm.background import BackgroundLoop
from findingaid.llm.metering import pay_for
from findingaid.llm.rate_limits import Limits, Sender, Wanted, always
from findingaid.model import NO_USAGE, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
BASE_URL_ENV = "OPENAI_BASE_URL"

_LOCK = threading.Lock()


class Connection(Protocol):
    """Connection to a model: the loop that its calls run on, and the process that made it."""

    process: int
    loop: BackgroundLoop

    async def post(
        self, path: str, body: Mapping[str, Any], tokens: int = 0, most: Usage = NO_USAGE, wanted: Wanted = always
    ) -> Any:
        """Send a request and return the JSON of its answer. Raises SynthesisError, NotWantedError.

        `tokens` is the estimated size of the request, for the rate limit. Each attempt is paid for as `most`, until its
        usage is known.
        """


class ModelEndpoint(Protocol):
    """Place where a model runs."""

    @property
    def where(self) -> str:
        """Name of the place, for messages."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes of the place in spans and metrics, by the conventions of OpenTelemetry."""

    def connect(self, limits: Limits) -> Connection:
        """Return a new connection that keeps to the limits."""


@dataclass(frozen=True)
class Endpoint:
    """An address, by default $OPENAI_BASE_URL, else OpenAI itself, and the key, if there is one."""

    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: Mapping[str, SecretStr | str] = field(default_factory=dict, repr=False)
    timeout: float = 120.0

    def check(self) -> None:
        """Raise ConfigError if the address is not valid or holds a password."""
        if self.base_url is None:
            return
        url = urlsplit(self.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ConfigError("base_url: expected an address such as http://localhost:11434/v1")
        if url.username or url.password:
            raise ConfigError("base_url: holds a password: put it in api_key or default_headers")

    @property
    def attributes(self) -> Mapping[str, str]:
        return {"gen_ai.provider.name": "openai", "server.address": self.where}

    def connect(self, limits: Limits) -> Connection:
        return HttpConnection(self, limits)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of an openai client. They include the key."""
        key = _plain(self.api_key) if self.api_key else os.environ.get(self.api_key_env)
        own = self.base_url or os.environ.get(BASE_URL_ENV)
        headers = {name: _plain(value) for name, value in self.default_headers.items()}
        # A self-hosted server needs no key, but the client insists on one; for OpenAI itself it is right to.
        return {
            "api_key": key or ("none" if own or headers else None),
            "base_url": self.base_url,
            "default_headers": headers,
            "timeout": self.timeout,
            "max_retries": 0,
        }

    @property
    def where(self) -> str:
        """The endpoint's host, for messages."""
        return urlsplit(self.base_url or os.environ.get(BASE_URL_ENV) or OPENAI_URL).netloc.rpartition("@")[2]

    @property
    def secrets(self) -> list[str]:
        """Values that no message may contain."""
        options = self.client_options()
        return [
            value for value in (options["api_key"], *options["default_headers"].values()) if value not in {None, "none"}
        ]


class HttpConnection:
    """Thread, sender and client of one endpoint."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        import openai  # noqa: F401  # imported here, or the first requests would spend their time on it

        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self.sender = Sender(limits, endpoint.where, endpoint.secrets)
        self._options = endpoint.client_options()

    @cached_property
    def client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(**self._options)
        self.loop.at_close = client.close
        return client

    async def post(
        self, path: str, body: Mapping[str, Any], tokens: int = 0, most: Usage = NO_USAGE, wanted: Wanted = always
    ) -> Any:
        """Send a request, with retries."""

        async def request() -> Any:
            with pay_for(most) as answered:
                answer = orjson.loads(await self.client.post(path, cast_to=bytes, body=body))
                answered(answer)
            return answer

        return await self.sender.send(request, tokens, wanted)


def connection_of(owner: Any, endpoint: ModelEndpoint, limits: Limits) -> Connection:
    """Return the one connection of `owner`, made on first use.

    A forked process makes its own, since it inherits no threads.
    """
    with _LOCK:
        connection: Connection | None = owner.__dict__.get("_connection")
        if connection is None or connection.process != os.getpid():
            connection = endpoint.connect(limits)
            owner.__dict__["_connection"] = connection
            weakref.finalize(owner, connection.loop.close)
    return connection


def _plain(value: SecretStr | str) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
