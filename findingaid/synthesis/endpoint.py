"""Where an endpoint of the OpenAI API is, what it is told of who asks, and the connection to it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from findingaid.errors import ConfigError
from findingaid.synthesis.line import BackgroundLoop, Limits, Line

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
BASE_URL_ENV = "OPENAI_BASE_URL"

_LOCK = threading.Lock()


@dataclass(frozen=True)
class Endpoint:
    """The address, by default what OPENAI_BASE_URL says, else OpenAI itself; and the key, if there is one."""

    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: Mapping[str, SecretStr | str] = field(default_factory=dict, repr=False)
    timeout: float = 120.0

    def check(self) -> None:
        """Raises ConfigError for an address that is none, or that holds a password."""
        if self.base_url is None:
            return
        url = urlsplit(self.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ConfigError("base_url: expected an address such as http://localhost:11434/v1")
        if url.username or url.password:
            raise ConfigError("base_url: holds a password: put it in api_key or default_headers")

    def client_options(self) -> dict[str, Any]:
        """What an openai client is made with; it holds the key."""
        key = _plain(self.api_key) if self.api_key else os.environ.get(self.api_key_env)
        own = self.base_url or os.environ.get(BASE_URL_ENV)
        headers = {name: _plain(value) for name, value in self.default_headers.items()}
        # Servers of one's own need none, but the client insists; for OpenAI itself it is right to.
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
        """What no message may hold."""
        options = self.client_options()
        return [
            value for value in (options["api_key"], *options["default_headers"].values()) if value not in {None, "none"}
        ]


class Connection:
    """The thread, the line and the client of one endpoint."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        import openai  # noqa: F401  # here, since the first requests would pay for it out of their time

        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self.line = Line(limits, endpoint.where, endpoint.secrets)
        self._options = endpoint.client_options()

    @cached_property
    def client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(**self._options)
        self.loop.at_close = client.close
        return client


def connection_of(owner: Any, made: type[Connection], endpoint: Endpoint, limits: Limits) -> Any:
    """The one connection of `owner`, made when first used; threads do not come along into a forked process."""
    with _LOCK:
        connection: Connection | None = owner.__dict__.get("_connection")
        if connection is None or connection.process != os.getpid():
            connection = made(endpoint, limits)
            owner.__dict__["_connection"] = connection
            weakref.finalize(owner, connection.loop.close)
    return connection


def _plain(value: SecretStr | str) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
