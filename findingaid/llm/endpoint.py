"""Endpoints of models, their connections, and the endpoint of the OpenAI API with its address and credentials."""

from __future__ import annotations

import json
import os
import threading
import unicodedata
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import SecretStr

from findingaid.errors import ConfigError
from findingaid.llm.api_errors import ReportedError, reported_error
from findingaid.llm.background import BackgroundLoop
from findingaid.llm.metering import pay_for
from findingaid.llm.rate_limits import Limits, Sender, StillWanted, always
from findingaid.model import NO_USAGE, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
BASE_URL_ENV = "OPENAI_BASE_URL"

PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_LOCK = threading.Lock()


@dataclass(frozen=True)
class Endpoint:
    """An address, by default $OPENAI_BASE_URL, else OpenAI itself, and the key, if there is one."""

    base_url: str | None = None
    api_key: SecretStr | str | None = field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    default_headers: Mapping[str, SecretStr | str] = field(default_factory=dict, repr=False)
    timeout: float = 120.0
    too_long: str = ""
    """What to do about a text that is too long for the model, for messages."""

    def check(self) -> None:
        """Raise ConfigError if the address is not valid or holds a password."""
        if self.base_url is None:
            return
        try:
            url = urlsplit(self.base_url)
            whole = url.scheme in {"http", "https"} and url.hostname and url.port != 0
        except ValueError:  # a port that is no number of one, or half of an IPv6 address
            whole = False
        if not whole:
            raise ConfigError("base_url: expected an address such as http://localhost:11434/v1")
        if url.username or url.password:
            raise ConfigError("base_url: holds a password: put it in api_key or default_headers")

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes of the place in spans and metrics, by the conventions of OpenTelemetry."""
        return {"gen_ai.provider.name": "openai", "server.address": self.where}

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of an openai client. They include the key.

        Raises ConfigError if the key or a header cannot be sent.
        """
        key = (_plain(self.api_key) if self.api_key else os.environ.get(self.api_key_env, "")).strip()
        own = self.base_url or os.environ.get(BASE_URL_ENV)
        headers = {name: _plain(value).strip() for name, value in self.default_headers.items()}
        _require_header("api_key" if self.api_key else f"${self.api_key_env}", key)
        for name, value in headers.items():
            _require_header(f"default_headers.{name}", value)
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
        key = self.api_key or os.environ.get(self.api_key_env, "")
        return [_plain(value).strip() for value in (key, *self.default_headers.values())]


class Connection:
    """Thread, sender and client of one endpoint."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        import openai  # noqa: F401  # imported here, or the first requests would spend their time on it

        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self.sender = Sender(limits, endpoint.where, endpoint.secrets, endpoint.too_long)
        self._endpoint = endpoint

    @cached_property
    def client(self) -> AsyncOpenAI:
        """Client of the endpoint. Raises ConfigError if it cannot be made, and OpenAIError without a key."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        options = self._endpoint.client_options()
        http = start_client(DefaultAsyncHttpxClient, self._endpoint.timeout)
        self.loop.at_close = http.aclose
        return AsyncOpenAI(**options, http_client=http)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        tokens: int = 0,
        most: Usage = NO_USAGE,
        wanted: StillWanted = always,
        probe: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer. Raises SynthesisError, NotWantedError.

        `tokens` is the estimated size of the request, for the rate limit. Each attempt is paid for as `most`, until its
        usage is known. An error that the answer reports in place of a result is raised. `probe` is the body of a
        request that only an endpoint that is down fails: without one, it counts as down when requests about several
        subjects fail in a row.
        """

        async def request(body: Mapping[str, Any]) -> Any:
            client = self.client  # before it is paid for
            with pay_for(most) as answered:
                answer = _json(await client.post(path, cast_to=bytes, body=body))
                answered(answer)
                if status := reported_error(answer):
                    raise ReportedError(status, answer)
            return answer

        asked = None if probe is None else partial(request, probe)
        return await self.sender.send(partial(request, body), tokens, wanted, asked)


def _json(content: bytes) -> Any:
    """Return the JSON of an answer, in any encoding of Unicode, with or without a byte order mark."""
    return orjson.loads(content.decode(json.detect_encoding(content)))


def connection_of(owner: Any, endpoint: Endpoint, limits: Limits) -> Connection:
    """Return the one connection of `owner`, made on first use.

    A forked process makes its own, since it inherits no threads.
    """
    with _LOCK:
        connection: Connection | None = owner.__dict__.get("_connection")
        if connection is None or connection.process != os.getpid():
            connection = Connection(endpoint, limits)
            owner.__dict__["_connection"] = connection
            weakref.finalize(owner, connection.loop.close)
    return connection


def _require_header(where: str, value: str) -> None:
    """Raise ConfigError if a value cannot be sent in a header. The message does not show the value."""
    wrong = next((character for character in value if not " " <= character <= "~"), None)
    if wrong is not None:
        raise ConfigError(
            f"{where}: character {value.index(wrong) + 1} is {wrong.encode('unicode_escape').decode()}"
            f" ({unicodedata.name(wrong, 'a control character').lower()}), which no header of a request can hold: copy"
            " the key again, without quotes and line feeds"
        )


def start_client(kind: Callable[..., T], timeout: float) -> T:
    """Return an HTTP client of this class, for a client of openai, which would leave a half-made one behind.

    It follows no redirect: keys in headers of one's own, and texts, would go to any host that the endpoint names.
    Raises ConfigError if a proxy or certificates in the environment do not allow one.
    """
    try:
        return kind(timeout=timeout, follow_redirects=False)
    except Exception as error:  # noqa: BLE001  # proxies and certificates raise what they like
        raise ConfigError(_cannot_start(error)) from None


def _cannot_start(error: Exception) -> str:
    """Return a message that names the variables of the environment that the client was made from, without values."""
    names = CERTIFICATES if isinstance(error, OSError) else PROXIES
    given = [name for name in names if os.environ.get(name) or os.environ.get(name.lower())]
    reason = f"{type(error).__name__}: {error.strerror}" if isinstance(error, OSError) else type(error).__name__
    if isinstance(error, ImportError):
        reason = "a proxy of this kind needs a package that is not installed, socksio for socks5"
    cause = f"check {' and '.join(f'${name}' for name in given)}" if given else "check its proxy and its certificates"
    return f"the HTTP client cannot start ({reason}): {cause}"


def _plain(value: SecretStr | str) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
