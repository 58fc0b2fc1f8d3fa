"""Leases on artifacts, so that concurrent runs share the work instead of doing all of it twice.

A lease names artifacts of a corpus, or the keys of calls and vectors that are being made. A thread renews it while its
process lives. It is dead once it has expired or its process no longer exists, so a killed run holds nothing for long.
Each new claim drops dead leases, but one of its own process only if it takes an artifact of it: a process that was
suspended goes on. A lease that is still in the table was therefore not taken over.

A purge takes a lease on the whole store, which excludes all others. Commits without a lease on artifacts (decisions,
and the end of a run) are made in `visit`, which keeps purges out.

Leases expire by the clock: hosts that share a store must agree on the time to within a few seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

import pyarrow as pa

from findingaid.errors import FindingAidError, StoreError
from findingaid.store import schemas
from findingaid.store.locks import this_host
from findingaid.store.sql import equals
from findingaid.store.store import Store

LOGGER = logging.getLogger("findingaid")

TTL = timedelta(seconds=60)

WHOLE_STORE = "*"
"""Corpus name in the lease of a purge, which leaves nothing free."""

VISIT = "*visit"
"""Corpus name in a lease that only keeps purges out."""

PUBLISHING = "*publishing"
"""Name that is locked while readers are moved to another version. Where it is a lease, a waiting purge permits it."""

BRIEF = (VISIT, PUBLISHING)
"""Brief leases: a purge waits for these, and fails while artifacts are held."""

RUN = "a run with"
"""Corpus name in the lease of a whole run, which names its embedder; not a valid name of a corpus."""

VISITORS_SECONDS = 600
"""How long a purge waits for brief leases. The longest ones belong to runs that build an index."""

POLL_SECONDS = 0.5
"""Polling interval of a run that waits for another run."""

SOON_SECONDS = 0.05
"""Polling interval while waiting for a brief lease."""

PROCESS = secrets.token_hex(8)
"""Distinguishes this process from an earlier one with the same process id, which in a container is often 1."""


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

    @property
    def own(self) -> bool:
        """Whether it is of this process."""
        return self.pid == os.getpid() and self.owner.startswith(PROCESS) and self.host == this_host()

    def _gone(self) -> bool:
        """Check whether the process, on this host, no longer exists."""
        if self.pid == os.getpid():
            return not self.owner.startswith(PROCESS)
        if os.name != "posix":  # there `os.kill` may end the process
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # a process of another user
            return False
        return False

    @property
    def does(self) -> str:
        """The activity of its process, as worded in errors."""
        if self.corpus == WHOLE_STORE:
            return "purges"
        if self.corpus == RUN:
            return "indexes"
        return "is publishing or recording a decision" if self.corpus in BRIEF else f"works on {self.corpus}"

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host.split('/')[0]}"


NOBODY = Held("", "", 0, "", (), datetime.fromtimestamp(0, UTC))
"""A row that is always present, so that any two claims rewrite a common row and conflict."""


class Leases:
    """The leases of a store. Two claims of the same artifact never both succeed, even from different machines."""

    def __init__(self, store: Store, ttl: timedelta = TTL) -> None:
        self.ttl = ttl
        self._store = store

    def claim(self, corpus: str, artifact_ids: Iterable[str]) -> Lease:
        """Take the free ones among these artifacts, without waiting; the lease lists them."""
        since = _now()
        wanted = list(artifact_ids)
        free: list[str] = []
        owner = _owner()

        def take(rows: list[Held]) -> list[Held] | None:
            live = [row for row in rows if row.live]
            taken = {i for row in live if row.corpus == corpus for i in row.artifact_ids}
            purging = corpus != PUBLISHING and any(row.corpus == WHOLE_STORE for row in live)
            free[:] = [] if purging else [i for i in wanted if i not in taken]
            mine = Held(owner, this_host(), os.getpid(), corpus, free, _now() + self.ttl)
            taking = set(free)
            kept = [row for row in _late(rows) if row.corpus != corpus or taking.isdisjoint(row.artifact_ids)]
            return [*live, *kept, mine] if free else None

        if wanted:
            self.edit(take)
        return Lease(self, owner, corpus, free, since)

    @contextmanager
    def join(self, embedder: str) -> Iterator[None]:
        """Keep out purges, and runs with another embedder or other table schemas; other runs may join.

        Waits for a purge in progress. Raises StoreError when a run with another embedder or schema is in progress.
        """
        owner = _owner()
        purging: list[Held] = []
        made_with = f"{embedder} (tables {schemas.EDITION})"

        def take(rows: list[Held]) -> list[Held] | None:
            live = [row for row in rows if row.live]
            purging[:] = [row for row in live if row.corpus == WHOLE_STORE]
            if purging:
                return None
            for row in live:
                if row.corpus == RUN and list(row.artifact_ids) != [made_with]:
                    raise StoreError(
                        f"{row} writes to {self._store.uri} with {row.artifact_ids[0]}, and this run has {made_with}:"
                        " wait until it ends, or give this run its own store"
                    )
            return [*live, *_late(rows), Held(owner, this_host(), os.getpid(), RUN, [made_with], _now() + self.ttl)]

        while True:
            since = _now()
            self.edit(take)
            if not purging:
                break
            time.sleep(POLL_SECONDS)
        with Lease(self, owner, RUN, [made_with], since):
            yield

    @contextmanager
    def visit(self) -> Iterator[Lease]:
        """Keep purges out; several visits may be held at the same time. Waits for a purge in progress."""
        with self._waited_for(VISIT, secrets.token_hex(8)) as lease:
            yield lease

    @contextmanager
    def whole_store(self) -> Iterator[Lease]:
        """Keep all other processes from writing: new leases wait from now on, and brief ones are waited for.

        Before that, with nothing held, it waits for runs that are about to end. Raises StoreError, with nothing held,
        when another process works on artifacts or purges, and when it has waited for VISITORS_SECONDS.
        """
        until = time.monotonic() + VISITORS_SECONDS
        others: list[Held] = []
        owner = _owner()

        def take(rows: list[Held]) -> list[Held] | None:
            live = [row for row in rows if row.live]
            others[:] = [row for row in live if row.corpus not in BRIEF]
            mine = Held(owner, this_host(), os.getpid(), WHOLE_STORE, [WHOLE_STORE], _now() + self.ttl)
            return None if others else [*live, mine]

        while True:
            since = _now()
            self.edit(take)
            if not others:
                break
            if working := [row for row in others if row.corpus != RUN]:
                raise _not_purged(working[0])
            self._await_end(others[0], until)
        with Lease(self, owner, WHOLE_STORE, [WHOLE_STORE], since) as lease:
            while visitors := [row for row in self.held() if row.corpus in BRIEF]:
                self._await_end(visitors[0], until)
            yield lease

    def _await_end(self, row: Held, until: float) -> None:
        if time.monotonic() > until:
            raise _not_purged(row)
        time.sleep(SOON_SECONDS)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Keep all other processes from moving readers to another version, after waiting for the one that does.

        On one machine a lock of the operating system is enough.
        """
        with self.alone(PUBLISHING) if self._store.remote else self._store.alone(PUBLISHING):
            yield

    @contextmanager
    def alone(self, at: str) -> Iterator[None]:
        """Lock a name against all other processes, after waiting for the one that holds it."""
        with self._waited_for(at, at):
            yield

    @contextmanager
    def _waited_for(self, corpus: str, item: str) -> Iterator[Lease]:
        told: set[str] = set()
        while True:
            with self.claim(corpus, [item]) as lease:
                if lease.artifact_ids:
                    yield lease
                    return
            for row in self.held(WHOLE_STORE):
                if row.owner not in told:
                    LOGGER.warning("waiting for %s, which purges", row)
                    told.add(row.owner)
            time.sleep(SOON_SECONDS if corpus in BRIEF else POLL_SECONDS)

    def in_turn(self, corpus: str, artifact_ids: Iterable[str], do: Callable[[Lease], None]) -> None:
        """Call `do` with leases that together cover all these artifacts: first the free ones, then the rest.

        Nothing is held while it waits, so processes that want each other's artifacts never deadlock.
        """
        rest = list(artifact_ids)
        while rest:
            with self.claim(corpus, rest) as lease:
                if lease.artifact_ids:
                    do(lease)
            rest = lease.not_held(rest)
            self.wait(corpus, rest)

    def wait(self, corpus: str, artifact_ids: Iterable[str]) -> None:
        """Wait until one of these artifacts is free, and log which process holds them. Call it with nothing held."""
        wanted = set(artifact_ids)
        told: set[str] = set()
        while wanted:
            held = [row for row in self.held() if row.corpus in {corpus, WHOLE_STORE}]
            holders = [
                (row, wanted if row.corpus == WHOLE_STORE else wanted.intersection(row.artifact_ids)) for row in held
            ]
            if set().union(*(ids for _, ids in holders)) != wanted:
                return
            for row, ids in holders:
                if ids and row.owner not in told:
                    of = corpus if " of " in corpus else f"artifacts of {corpus}"
                    what = f"{len(ids)} {of} that" if row.corpus == corpus else "a purge that"
                    LOGGER.warning("waiting for %s %s works on", what, row)
                    told.add(row.owner)
            time.sleep(POLL_SECONDS)

    def working(self) -> list[Held]:
        """Return the live leases of processes that may be between two commits: not brief ones, nor that of a purge."""
        return [row for row in self.held() if row.corpus not in {*BRIEF, WHOLE_STORE}]

    def held(self, corpus: str | None = None) -> list[Held]:
        """Return the live leases of one corpus or of all; leases of whole runs only when `corpus` is RUN."""
        where = f"NOT ({equals('corpus', RUN)})" if corpus is None else equals("corpus", corpus)
        return [row for row in _parsed(self._store.rows("leases", schemas.LEASES.names, where)) if row.live]

    def edit(self, change: Callable[[list[Held]], list[Held] | None]) -> None:
        """Replace all leases with the result of `change`, in one commit; None changes nothing."""

        def edit(table: pa.Table) -> pa.Table | None:
            rows = change(_parsed(table))
            return None if rows is None else _table([NOBODY, *rows])

        self._store.rewrite("leases", _table([NOBODY]), edit)


class Lease:
    """Lease on a set of artifacts, possibly empty: no other process works on them until it is released."""

    def __init__(self, leases: Leases, owner: str, corpus: str, artifact_ids: Sequence[str], since: datetime) -> None:
        self.artifact_ids = tuple(artifact_ids)
        self._leases = leases
        self._owner = owner
        self._corpus = corpus
        self._left = threading.Event()
        self._sure_until = since + leases.ttl / 2
        self._keeper = threading.Thread(target=self._keep, name=f"lease {owner}", daemon=True)
        if artifact_ids:
            self._keeper.start()

    def not_held(self, artifact_ids: Iterable[str]) -> list[str]:
        """Return the artifacts that are not in this lease."""
        mine = set(self.artifact_ids)
        return [i for i in artifact_ids if i not in mine]

    def check(self) -> None:
        """Raise StoreError when another run has dropped this lease; call it before each commit.

        A lease with half of its time left is never dropped, so only one with less is read and renewed.
        """
        if self.artifact_ids and _now() >= self._sure_until and self._renewed() is None:
            raise StoreError(
                f"{self._named} expired and was removed by another run: nothing more is written, run again"
            )

    def check_commit(self, _: object) -> None:
        """Call `check`, in the form that `Store.replace` and `Store.append` expect."""
        self.check()

    @property
    def _named(self) -> str:
        if self._corpus in {WHOLE_STORE, *BRIEF}:
            return "the lease of this process"
        return f"{self._corpus}: the lease on {len(self.artifact_ids)} artifacts"

    def _keep(self) -> None:
        while not self._left.wait((self._leases.ttl / 3).total_seconds()):
            try:
                if self._renewed() is None:
                    return  # `check` raises for it before a commit
            except (FindingAidError, OSError, RuntimeError, ValueError) as error:
                LOGGER.warning("%s is not renewed, trying again: %s", self._named, error)

    def _renewed(self) -> Held | None:
        """Renew the lease, even after it expired, and return its row; None if another run dropped it."""
        mine: list[Held] = []
        since = _now()

        def renew(rows: list[Held]) -> list[Held] | None:
            mine[:] = [replace(row, expires=_now() + self._leases.ttl) for row in rows if row.owner == self._owner]
            return (
                [*(row for row in rows if row.owner != self._owner and (row.live or row.own)), *mine] if mine else None
            )

        self._leases.edit(renew)
        if not mine:
            return None
        self._sure_until = since + self._leases.ttl / 2
        return mine[0]

    def release(self) -> None:
        """Release these artifacts. Errors are only logged for debugging: an earlier one mostly has the same cause.

        Waits for a renewal in progress: an interpreter that ends while another thread is inside Lance aborts.
        """
        self._left.set()
        if not self.artifact_ids:
            return
        self._keeper.join()
        try:
            self._leases.edit(self._without)
        except (FindingAidError, OSError, RuntimeError, ValueError) as error:
            LOGGER.debug("%s is not released and will expire: %s", self._named, error)

    def _without(self, rows: list[Held]) -> list[Held] | None:
        rest = [row for row in rows if row.owner != self._owner]
        return rest if len(rest) < len(rows) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _not_purged(row: Held) -> StoreError:
    return StoreError(f"not purged: {row} {row.does}: wait until it ends")


def _owner() -> str:
    return f"{PROCESS}-{secrets.token_hex(8)}"


def _late(rows: Iterable[Held]) -> list[Held]:
    """Return the leases of this process that ran out, while it was suspended, and that nobody took."""
    return [row for row in rows if row.own and not row.live]


def _now() -> datetime:
    return datetime.now(UTC)


def _parsed(table: pa.Table) -> list[Held]:
    return [Held(**row) for row in table.to_pylist() if row["owner"]]


def _table(rows: Sequence[Held]) -> pa.Table:
    columns = {name: [getattr(row, name) for row in rows] for name in schemas.LEASES.names}
    return pa.table(columns, schema=schemas.LEASES)
