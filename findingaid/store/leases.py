"""Who works on which artifacts, so that runs at once share the work instead of doing all of it twice.

A lease names artifacts of a corpus. It is renewed by a thread while its process lives, and is dead once it has run
out or its process is gone: a killed run holds nothing for long. Whoever claims drops the dead ones, so a lease that
is still in the table was taken by nobody else.

Leases run out by the clock: hosts that share a store must agree on the time to some seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Self

import pyarrow as pa

from findingaid.errors import FindingAidError, StoreError
from findingaid.store import schemas
from findingaid.store.sql import equals
from findingaid.store.store import Store

LOGGER = logging.getLogger("findingaid")

TTL = timedelta(seconds=60)

POLL_SECONDS = 0.5
"""How often a run that waits for another looks again."""

PROCESS = secrets.token_hex(8)
"""Tells this process from an earlier one with the same number; in a container that is often 1."""


@dataclass(frozen=True, slots=True)
class Held:
    """A row of the leases table."""

    owner: str
    host: str
    pid: int
    corpus: str
    artifact_ids: Sequence[str]
    expires: datetime

    @property
    def live(self) -> bool:
        return self.expires > _now() and not (self.host == this_host() and self._gone())

    def _gone(self) -> bool:
        """Whether the process, one of this host, no longer exists."""
        if self.pid == os.getpid():
            return not self.owner.startswith(PROCESS)
        if os.name != "posix":  # where asking for a process may end it
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # another user's
            return False
        return False

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host.split('/')[0]}"


NOBODY = Held("", "", 0, "", (), datetime.fromtimestamp(0, UTC))
"""A row that is always there, so that two claims always have a row in common and conflict."""


class Leases:
    """The leases of a store. Claims of the same artifact never both succeed, from wherever they come."""

    def __init__(self, store: Store, ttl: timedelta = TTL) -> None:
        self.ttl = ttl
        self._store = store

    def claim(self, corpus: str, artifact_ids: Iterable[str]) -> Lease:
        """Take what is free of these artifacts, at once; the lease says what that is."""
        since = _now()
        wanted = list(artifact_ids)
        free: list[str] = []
        owner = f"{PROCESS}-{secrets.token_hex(8)}"

        def take(rows: list[Held]) -> list[Held] | None:
            live = [row for row in rows if row.live]
            taken = {i for row in live if row.corpus == corpus for i in row.artifact_ids}
            free[:] = [i for i in wanted if i not in taken]
            mine = Held(owner, this_host(), os.getpid(), corpus, free, _now() + self.ttl)
            return [*live, mine] if free else None

        if wanted:
            self.edit(take)
        return Lease(self, owner, corpus, free, since)

    @contextmanager
    def alone(self, at: str) -> Iterator[None]:
        """Keep all others from something that has a name, after waiting for who is at it."""
        while True:
            with self.claim(at, [at]) as lease:
                if lease.artifact_ids:
                    yield
                    return
            time.sleep(POLL_SECONDS)

    def in_turn(self, corpus: str, artifact_ids: Iterable[str], do: Callable[[Lease], None]) -> None:
        """Do something with all these artifacts under a lease: first with those that are free, then with the rest.

        Nothing is held while it waits, so two that want what the other has never wait for each other.
        """
        rest = list(artifact_ids)
        while rest:
            with self.claim(corpus, rest) as lease:
                if lease.artifact_ids:
                    do(lease)
            rest = lease.not_held(rest)
            self.wait(corpus, rest)

    def wait(self, corpus: str, artifact_ids: Iterable[str]) -> None:
        """Until one of these artifacts is free; says on whom it waits. To be called with nothing held."""
        wanted = set(artifact_ids)
        told: set[str] = set()
        while wanted:
            holders = [(row, wanted.intersection(row.artifact_ids)) for row in self.held(corpus)]
            if set().union(*(ids for _, ids in holders)) != wanted:
                return
            for row, ids in holders:
                if ids and row.owner not in told:
                    LOGGER.warning("waiting for %d artifacts of %s that %s works on", len(ids), corpus, row)
                    told.add(row.owner)
            time.sleep(POLL_SECONDS)

    def held(self, corpus: str | None = None) -> list[Held]:
        """The live leases, of one corpus or of all."""
        where = None if corpus is None else equals("corpus", corpus)
        return [row for row in _parsed(self._store.rows("leases", schemas.LEASES.names, where)) if row.live]

    def edit(self, change: Callable[[list[Held]], list[Held] | None]) -> None:
        """Put other leases in the place of all there are, in one commit; None leaves them."""

        def edit(table: pa.Table) -> pa.Table | None:
            rows = change(_parsed(table))
            return None if rows is None else _table([NOBODY, *rows])

        self._store.rewrite("leases", _table([NOBODY]), edit)


class Lease:
    """Artifacts on which nobody else works until this is left; may be none."""

    def __init__(self, leases: Leases, owner: str, corpus: str, artifact_ids: Sequence[str], since: datetime) -> None:
        self.artifact_ids = tuple(artifact_ids)
        self._leases = leases
        self._owner = owner
        self._corpus = corpus
        self._left = threading.Event()
        self._sure_until = since + leases.ttl / 2
        if artifact_ids:
            threading.Thread(target=self._keep, name=f"lease {owner}", daemon=True).start()

    def not_held(self, artifact_ids: Iterable[str]) -> list[str]:
        """Those of these artifacts that are not in this lease."""
        mine = set(self.artifact_ids)
        return [i for i in artifact_ids if i not in mine]

    def check(self) -> None:
        """Make sure before something is written that nobody else has these artifacts. Raises StoreError.

        Nobody drops a lease that has half of its time left, so only one that has less is looked at.
        """
        if self.artifact_ids and _now() >= self._sure_until and self._renewed() is None:
            raise StoreError(
                f"{self._corpus}: the lease on {len(self.artifact_ids)} artifacts ran out and was dropped by another"
                " run: nothing of them was written, run again"
            )

    def _keep(self) -> None:
        while not self._left.wait((self._leases.ttl / 3).total_seconds()):
            try:
                if self._renewed() is None:
                    return  # `check` says so where it matters
            except (FindingAidError, OSError, RuntimeError, ValueError) as error:
                LOGGER.warning("the lease on artifacts of %s is not renewed, trying again: %s", self._corpus, error)

    def _renewed(self) -> Held | None:
        """The lease with its time begun anew, also where that was over; None where another run dropped it."""
        mine: list[Held] = []
        since = _now()

        def renew(rows: list[Held]) -> list[Held] | None:
            mine[:] = [replace(row, expires=_now() + self._leases.ttl) for row in rows if row.owner == self._owner]
            return [*(row for row in rows if row.owner != self._owner and row.live), *mine] if mine else None

        self._leases.edit(renew)
        if not mine:
            return None
        self._sure_until = since + self._leases.ttl / 2
        return mine[0]

    def release(self) -> None:
        """Let others have these artifacts. An error is logged only, so that it hides none before it."""
        self._left.set()
        if not self.artifact_ids:
            return
        try:
            self._leases.edit(self._without)
        except (FindingAidError, OSError, RuntimeError, ValueError) as error:
            LOGGER.warning("a lease on artifacts of %s is not released, it will run out: %s", self._corpus, error)

    def _without(self, rows: list[Held]) -> list[Held] | None:
        rest = [row for row in rows if row.owner != self._owner]
        return rest if len(rest) < len(rows) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@cache
def this_host() -> str:
    """What tells hosts apart, and on one host containers: processes with the same one see each other's numbers."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:  # no Linux
        parts.append(f"{uuid.getnode():x}")
    return "/".join(parts)


def _now() -> datetime:
    return datetime.now(UTC)


def _parsed(table: pa.Table) -> list[Held]:
    return [Held(**row) for row in table.to_pylist() if row["owner"]]


def _table(rows: Sequence[Held]) -> pa.Table:
    columns = {name: [getattr(row, name) for row in rows] for name in schemas.LEASES.names}
    return pa.table(columns, schema=schemas.LEASES)
