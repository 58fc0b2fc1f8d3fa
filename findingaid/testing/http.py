"""Minimal HTTP/1.1 for a loopback server, with replies that break off, trickle or never come."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlsplit

DRIP_PIECES = 20
"""Number of pieces in which a dripping body is sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """Received request. Header names are in lower case; `time` is the `time.monotonic` of its arrival."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    time: float = 0.0

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def content(self) -> str:
        """Content of the last user message of a chat completion request, or ""."""
        users = [m["content"] for m in self.json["messages"] if m["role"] == "user"]
        return str(users[-1]) if users else ""

    def form(self) -> dict[str, tuple[str, bytes]]:
        """Parse the body as a multipart form: field name -> (file name, content)."""
        header = Message()
        header["content-type"] = self.headers.get("content-type", "")
        boundary = b"\r\n--" + str(header.get_param("boundary")).encode()
        fields = {}
        for part in (b"\r\n" + self.body).split(boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            described = Message()
            for line in head.decode().strip().splitlines():
                name, _, value = line.partition(":")
                described[name] = value.strip()
            name = str(described.get_param("name", header="content-disposition"))
            fields[name] = (described.get_filename("") or "", content)
        return fields


@dataclass(frozen=True, slots=True)
class Reply:
    """Response of the server.

    `cut` closes the connection in the middle of the body, `hang` sends nothing, and `drip` is the number of seconds
    over which the body is sent.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    drip: float = 0.0
    hang: bool = False

    @classmethod
    def of(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """Create a reply with a JSON body."""
        return cls(status, json.dumps(value).encode(), headers or {})


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request of a connection, or None when the client has closed it."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b"".join([chunk async for chunk in _chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body, monotonic())


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int((await reader.readline()).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


async def write_reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Send a reply, and return whether the connection can be reused."""
    if reply.hang:
        await reader.read(1)  # returns when the client disconnects
        return False
    headers = {"content-type": "application/json", **reply.headers, "content-length": str(len(reply.body))}
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    if reply.cut:
        writer.write(reply.body[: len(reply.body) // 2])
    elif reply.drip:
        size = math.ceil(len(reply.body) / DRIP_PIECES)
        for start in range(0, len(reply.body), size):
            writer.write(reply.body[start : start + size])
            await writer.drain()
            await asyncio.sleep(reply.drip / DRIP_PIECES)
    else:
        writer.write(reply.body)
    await writer.drain()
    return not reply.cut
