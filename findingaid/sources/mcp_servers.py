"""MCP servers, and requests for their tools through the official SDK, several at once.

Importing the SDK takes a second, so it is imported only when servers are asked.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from urllib.parse import unquote_plus, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError, model_validator

from findingaid.errors import SourceError
from findingaid.registry import ConfigPath, said

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.types import Tool

EXTRA = "findingaid[mcp]"

# Escape sequences would reach a terminal. Invisible characters (text direction, tags, zero width) would reach a model
# unseen by readers.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)

VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

THREAD = "findingaid-mcp"

SHORTEST_SECRET = 6
"""Minimum length of a secret.

Shorter values of env or headers ("1", "true") are not secrets, and redacting them would remove words from messages.
"""

STDERR_TAIL = 4_000
SHOWN = 200

EVENT_BYTES = 100_000_000
"""Maximum size of one server-sent event; a page of tools is one event."""


def _unshown(value: object) -> object:
    """Check a value that may be a secret, since pydantic's own error messages would show it."""
    if not isinstance(value, str | int | float):
        raise ValueError("expected a text")  # noqa: TRY004  # for pydantic
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names_to_texts(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("expected names and values")  # noqa: TRY004  # for pydantic
    return value


def _texts(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list of texts")  # noqa: TRY004  # for pydantic
    return value


Text = Annotated[SecretStr, BeforeValidator(_unshown)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_texts)]
Named = Annotated[dict[str, Text], BeforeValidator(_names_to_texts)]


class Server(BaseModel):
    """Address of one server: a `command` that speaks over its standard streams, or a `url` of streamable HTTP.

    `${NAME}` and `${NAME:-default}` in any value refer to an environment variable, looked up when the server is asked.
    A command is run in `cwd`, with `env` and the variables that every program needs (PATH, HOME, USER, ...), nothing
    else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)
    type: str | None = None
    command: Text | None = None
    args: Texts = ()
    env: Named = {}
    cwd: ConfigPath = Path()
    url: Text | None = None
    headers: Named = {}

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            raise ValueError("expected a mapping with a command or a url")  # noqa: TRY004  # for pydantic
        return value

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Server:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either a command or a url")
        known = ("stdio",) if self.command else ("http", "streamable-http", "streamableHttp", "streamable_http")
        if self.type not in (None, *known):
            raise ValueError(f"type {self.type!r} is not supported. Known: {', '.join(known[:2])}")
        return self


@dataclass(frozen=True)
class ServerProblem:
    """Reason why a server did not list its tools, in one line without secrets; `kind` is as in ArtifactError."""

    kind: str
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class ToolProblem:
    """Reason why an entry of a list of tools is not one, and its name, "" if it has none."""

    name: str
    message: str


Answer = list["Tool | ToolProblem"] | ServerProblem


def list_server_tools(servers: Mapping[str, Server], timeout: float) -> dict[str, Answer]:
    """Return the tools of every server, or the problem of each that failed. Raises SourceError if the SDK is missing.

    The calls run in a thread with its own event loop, so that this also works inside a running loop. If interrupted, it
    stops the servers before it returns.
    """
    try:
        import mcp  # noqa: F401  # for its own error message when it is missing
        from anyio.from_thread import start_blocking_portal
    except ImportError as error:
        raise SourceError(f"source: MCP servers need the SDK ({said(error)}): pip install '{EXTRA}'") from None
    with start_blocking_portal(name=THREAD) as portal:
        return portal.call(_ask_all, servers, timeout)


async def _ask_all(servers: Mapping[str, Server], timeout: float) -> dict[str, Answer]:
    import anyio

    _be_quiet()
    answers: dict[str, Answer] = dict.fromkeys(servers, ServerProblem("other", "was not asked"))

    async def one(name: str, server: Server) -> None:
        answers[name] = await _Call(server, timeout).answer()

    async with anyio.create_task_group() as tasks:
        for name, server in servers.items():
            tasks.start_soon(one, name, server)
    return answers


class _Call:
    """One request for the tools of one server."""

    def __init__(self, server: Server, timeout: float) -> None:
        self.server = server
        self.timeout = timeout
        self.secrets: set[str] = set()
        self.refused = ""
        self.tools: list[Any] = []
        """Tools as the server sent them."""
        self.unread = ""
        """Reason why the last message that is none could not be parsed."""

    async def answer(self) -> Answer:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
            try:
                return await self._tools(stderr)
            except Exception as error:  # noqa: BLE001  # a server may fail in any way; it fails alone
                kind, message = self._reason(_innermost(error))
                tail = self._shown(_last_line(stderr))
        return ServerProblem(kind, f"{message}; its last output: {tail}" if tail else message)

    async def _tools(self, stderr: TextIO) -> list[Tool | ToolProblem]:
        import anyio
        from mcp import Client

        seen: set[str | None] = set()
        cursor: str | None = None
        with anyio.fail_after(self.timeout):
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack, stderr)
                client = await stack.enter_async_context(Client(self._tapped(transport), cache=None))
                while client.server_capabilities.tools and cursor not in seen:
                    seen.add(cursor)
                    page = await client.list_tools(cursor=cursor)
                    if not (cursor := page.next_cursor):  # some servers end with an empty one
                        return [self._parsed(tool) for tool in self.tools]
        if seen:
            raise SourceError("its pages of tools repeat")
        return []

    @asynccontextmanager
    async def _tapped(self, transport: Transport) -> AsyncIterator[tuple[Any, Any]]:
        """Connect a transport, and take the tools out of its messages before the SDK parses them.

        The SDK refuses a whole page for one tool that is not valid, and leaves out others without a word.
        """
        from anyio import create_memory_object_stream, create_task_group
        from mcp.shared.message import SessionMessage

        def noted(item: SessionMessage | Exception) -> SessionMessage | Exception:
            if isinstance(item, Exception):
                self.unread = _first_of(item) if isinstance(item, ValidationError) else said(item)
            elif isinstance(tools := (getattr(item.message, "result", None) or {}).get("tools"), list):
                self.tools += tools
                tools.clear()
            return item

        async def pass_on() -> None:
            async with send:
                async for item in read:
                    await send.send(noted(item))

        send, receive = create_memory_object_stream[SessionMessage | Exception]()
        async with transport as (read, write), create_task_group() as tasks, receive:
            tasks.start_soon(pass_on)
            yield receive, write
            tasks.cancel_scope.cancel()

    def _parsed(self, sent: Any) -> Tool | ToolProblem:
        from mcp.types import Tool

        try:
            return Tool.model_validate(sent, by_name=False)
        except ValidationError as error:
            name = sent.get("name") if isinstance(sent, dict) else None
            return ToolProblem(name if isinstance(name, str) else "", self._shown(f"not a tool: {_first_of(error)}"))

    async def _transport(self, stack: AsyncExitStack, stderr: TextIO) -> Transport:
        import httpx2
        from mcp import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        async def note(response: httpx2.Response) -> None:
            if response.request.method == "POST":  # others may be refused without harm
                refused = response.status_code >= HTTPStatus.BAD_REQUEST
                self.refused = f"HTTP {response.status_code} {response.reason_phrase}" if refused else ""

        server = self.server
        env, headers = (
            {name: self._filled(value, secret=True) for name, value in values.items()}
            for values in (server.env, server.headers)
        )
        if server.command is not None:
            command, *args = (self._filled(value) for value in (server.command, *server.args))
            return stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=server.cwd), stderr)
        url = self._filled(server.url)
        self.secrets |= _secrets_of(url)
        client = httpx2.AsyncClient(headers=headers, timeout=self.timeout, event_hooks={"response": [note]})
        await stack.enter_async_context(client)
        return streamable_http_client(url, http_client=client, max_sse_event_size=EVENT_BYTES)

    def _filled(self, value: SecretStr | None, secret: bool = False) -> str:
        """Return a value with environment variables filled in; these are recorded as secrets.

        With `secret`, the whole value and its words are recorded too. Raises SourceError for a variable that is not
        set.
        """

        def variable(match: re.Match[str]) -> str:
            found = os.environ.get(match[1])
            if not found and match[2] is not None:
                found = match[2]
            if found is None:
                raise SourceError(f"${match[1]} is not set in the environment")
            self.secrets.add(found)
            return found

        text = VARIABLE.sub(variable, value.get_secret_value() if value else "")
        self.secrets |= {text, *text.split()} if secret else set()
        return text

    def _reason(self, error: BaseException) -> tuple[str, str]:
        """Return the kind and the message of an error."""
        import httpx2
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        match error:
            case TimeoutError():
                late = f"has not answered within source.timeout = {self.timeout:g} seconds"
                unread = f", and sent a message that cannot be parsed: {self.unread}" if self.unread else ""
                return "timeout", self._shown(f"{late}{unread}")
            case MCPError() if self.refused:
                return "refused", f"answered {self._shown(self.refused)}"
            case MCPError(code=code) if code == CONNECTION_CLOSED:
                return "transport", "ended before it answered"
            case MCPError():
                first_line = error.message.partition("\n")[0]
                return "refused", f"answered with the error: {self._shown(first_line)}"
            case ValidationError():
                return "parse", self._shown(f"answered with something else than a list of tools: {_first_of(error)}")
            case SourceError():
                return "other", str(error)
            case OSError():
                return "transport", self._shown(f"cannot be started: {error.strerror or error}: {error.filename}")
            case httpx2.HTTPError():
                return "transport", self._shown(f"cannot be reached: {said(error)}")
        return "other", self._shown(said(error))

    def _shown(self, text: str) -> str:
        """Return text of a server as one line of bounded length, without secrets and without control characters."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***")
        line = " ".join(UNSEEN.sub(" ", text).split())
        return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _first_of(error: ValidationError) -> str:
    """Return the place and the message of the first error of a validation."""
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))


def _innermost(error: BaseException) -> BaseException:
    """Return the first error of nested exception groups, which task groups raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _last_line(stderr: TextIO) -> str:
    """Return the last line that a server wrote to stderr."""
    end = stderr.seek(0, os.SEEK_END)
    start = stderr.seek(max(0, end - STDERR_TAIL))
    whole = stderr.read().splitlines()[1 if start else 0 :]  # the first may be the end of a longer line
    return next((line for line in reversed(whole) if line.strip()), "")


def _secrets_of(url: str) -> set[str]:
    """Return the password and the query's values of a URL, both as written and decoded."""
    parts = urlsplit(url)
    stand = {pair.partition("=")[2] for pair in parts.query.split("&")} | {parts.password or ""}
    return stand | {unquote_plus(value) for value in stand}


def _be_quiet() -> None:
    """Keep the SDK's log records of these calls out of every log.

    They hold addresses with keys, and the output of servers.

    Nothing is lost, since `Problem` reports the errors.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] in {"mcp", "httpx2", "httpcore2"}:
            logging.getLogger(name).addFilter(_of_others)


def _of_others(record: logging.LogRecord) -> bool:
    return record.threadName != THREAD
