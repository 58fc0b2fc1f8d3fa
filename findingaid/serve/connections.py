"""Connection limits: a maximum number, a deadline for headers, and a deadline for clients to read responses."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

PREFIX = 64
"""Prefix length of an IPv6 network that counts as one caller, because one machine can use every address in it."""


def caller_of(client: Any) -> str:
    """Return the name under which requests of an ASGI client address are counted; all loopback addresses share one."""
    try:
        address = ipaddress.ip_address(client[0])
    except (TypeError, IndexError, ValueError):  # a Unix socket has no address
        return str(client)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "loopback"
    return str(address if address.version == 4 else ipaddress.ip_network((address, PREFIX), strict=False))


@dataclass
class Bounds:
    """Limits on the connections of a server.

    At most `most` connections are open. Each must send its headers within `header_seconds`. A client that stops reading
    its response must continue within `seconds`.
    """

    most: int
    header_seconds: float
    seconds: float
    open: set[BoundedConnection] = field(default_factory=set)

    def admit(self, connection: BoundedConnection) -> None:
        """Accept a connection, and close one if there are too many.

        Connections that are being answered stay open. Among the others, those whose last request was permitted are
        closed last. Then the peer with the most connections loses its oldest one.
        """
        self.open.add(connection)
        if len(self.open) <= self.most:
            return
        held = Counter(each.peer for each in self.open)
        waiting = [each for each in self.open if each.is_waiting]
        min(waiting, key=lambda each: (each.known, -held[each.peer], each.since)).end()

    def leave(self, connection: BoundedConnection) -> None:
        self.open.discard(connection)


class BoundedConnection(H11Protocol):
    """Connection of a server, within `bounds`."""

    bounds: ClassVar[Bounds]
    peer = ""
    known = False
    """Whether its last request passed the guards and was not for an open path."""

    since = 0
    """Place in the order in which connections were opened or last answered; the clock of a loop may stand still."""

    _order: ClassVar[Iterator[int]] = count()

    _overdue: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the server is waiting for a request or for the rest of one."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def end(self) -> None:
        """Close the connection at once and discard unsent data."""
        self.bounds.leave(self)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.peer = caller_of(self.client)
        self._await_headers()
        self.bounds.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.leave(self)
        for timer in (self._overdue, self._unread):
            if timer:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.known = self.cycle.scope["state"].get(KNOWN, False)
        super().on_response_complete()
        self._await_headers()

    def _await_headers(self) -> None:
        """Start the deadline for the headers of the next request; bytes that trickle in do not extend it."""
        if self._overdue:
            self._overdue.cancel()
        self.since = next(self._order)
        self._overdue = self.loop.call_later(self.bounds.header_seconds, self._end_without_headers)

    def _end_without_headers(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.end()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.bounds.seconds, self.end)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()
            self._unread = None


KNOWN = "findingaid.known"
"""Key in the ASGI state: True for a request that passed the guards and was not for an open path."""


def protocol_of(bounds: Bounds) -> type[BoundedConnection]:
    """Return a connection class with these bounds, for uvicorn's `http` option."""
    return type("BoundedConnection", (BoundedConnection,), {"bounds": bounds})
