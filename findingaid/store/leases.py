"""Leases, so that concurrent runs over one corpus take turns instead of doing the work twice.

A run holds a lease on the corpus that it works on, one corpus at a time. It keeps out every other run; processes of the
same run share the corpus, each with a row of its own. A thread renews the row while its process lives. A lease is dead
once it has expired or its process no longer exists, so a killed run holds nothing for long. Each new lease drops dead
ones, but one of its own process only if it stands in its way: a process that was suspended goes on. A lease that is
still in the table was therefore not taken over. Without the locks of one machine, a dead lease is dropped only once the
tables refuse all commits that were begun under it, see `Store.fence`.

A purge takes a lease on the whole store, which excludes all others. Commits outside of a corpus (decisions, and the end
of a run) are made in `visit`, which keeps purges out.

Leases expire by the clock: hosts that share a store must agree on the time to within a few seconds. A lease with much
more time left than any is given is dead too: its clock was ahead and has been set back.

On object storage they are the rows of the table `leases`. In a folder they are in a small file, which takes a tenth of
the time of a commit to a table.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import orjson
import pyarrow as pa

from findingaid.errors import FindingAidError, StoreError
from findingaid.store import schemas
from findingaid.store.locks import this_host
from findingaid.store.store import Store
from findingaid.store.tables import LOCKS

LOGGER = logging.getLogger("findingaid")

Tell = Callable[[str], object]
"""Callback for a line that says which process is waited for."""

TTL = timedelta(seconds=60)

MOST_LEFT = 10 * TTL
"""More time than a lease has left while the clock that it was written by is right."""

WHOLE_STORE = "*"
"""Name in the lease of a purge. Names of corpora do not start with an asterisk."""

VISIT = "*visit"
"""Name in a lease that only keeps purges out."""

PUBLISHING = "*publishing"
"""Name that is locked while readers are moved to another version. Where it is a lease, a waiting purge permits it."""

BRIEF = (VISIT, PUBLISHING)
"""Brief leases: a purge waits for these, and fails while a run holds any other."""

NO_CORPUS = "*run"
"""Name in the lease of a run that works on no corpus, as while it waits for one."""

SHARED = (VISIT, NO_CORPUS)

VISITORS_SECONDS = 600
"""How long a purge waits for brief leases. The longest ones belong to runs that build an index."""

POLL_SECONDS = 0.5
"""Polling interval of a run that waits for another run."""

SOON_SECONDS = 0.05
"""Polling interval while waiting for a brief lease."""

PROCESS = secrets.token_hex(8)
"""Distinguishes this process from an earlier one with the same process id, which in a container is often 1."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it is stored."""

    owner: str
    host: str
    pid: int
    name: str
    run: str
    part: str
    made_with: str
    expires: datetime

    @property
    def live(self) -> bool:
        in_time = timedelta(0) < self.expires - _now() < MOST_LEFT
        return in_time and not (self.host == this_host() and self._gone())

    @property
    def own(self) -> bool:
        """Whether it is of this process."""
        return self.pid == os.getpid() and self.owner.startswith(PROCESS) and self.host == this_host()

    @property
    def of_corpus(self) -> bool:
        """Whether its run works on a corpus, and may be between two commits."""
        return not self.name.startswith("*")

    def waits_for(self, row: LeaseRow) -> bool:
        """Check whether this lease cannot be taken while another one is held."""
        if row.name == WHOLE_STORE:
            return self.name != PUBLISHING
        if self.name == WHOLE_STORE:
            return row.name not in BRIEF
        same_run = bool(self.run) and self.run == row.run and self.part != row.part
        return self.name == row.name and self.name not in SHARED and not same_run

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
        """The activity of its process, as worded in messages."""
        if self.of_corpus:
            return f"works on {self.name}"
        if self.name == WHOLE_STORE:
            return "purges"
        return "is publishing or recording a decision" if self.name in BRIEF else "indexes"

    def __str__(self) -> str:
        process = f"process {self.pid} on host {self.host.split('/')[0]}"
        return f"run {self.run} ({process})" if self.run else process


NOBODY = LeaseRow("", "", 0, "", "", "", "", datetime.fromtimestamp(0, UTC))
"""A row that is always in the table, so that any two leases that are taken rewrite a common row and conflict."""


class Leases:
    """The leases of a store. Two that exclude each other are never both held, even on different machines."""

    def __init__(self, store: Store, ttl: timedelta = TTL) -> None:
        self.ttl = ttl
        self._store = store

    def of_run(self, run: str, embedder: str, tell: Tell) -> Lease:
        """Return the lease of a run, which holds nothing yet.

        Processes that are given the same `run` share a corpus; with "" the run has no other process.
        """
        return Lease(self, run, f"{embedder} (tables {schemas.EDITION})", tell)

    def alone(self, name: str) -> AbstractContextManager[Lease]:
        """Lock a name against all other processes, after waiting for the one that holds it."""
        return Lease(self).on(name)

    def visit(self) -> AbstractContextManager[Lease]:
        """Keep purges out; several visits may be held at the same time. Waits for a purge in progress."""
        return Lease(self).on(VISIT)

    @contextmanager
    def whole_store(self) -> Iterator[Lease]:
        """Keep all other processes from writing: new leases wait from now on, and brief ones are waited for.

        Raises StoreError, with nothing held, when another process indexes or purges, and when brief leases are held for
        longer than VISITORS_SECONDS.
        """
        until = time.monotonic() + VISITORS_SECONDS
        with Lease(self) as lease:
            if others := lease.try_take(WHOLE_STORE):
                raise _not_purged(others[0])
            while visitors := [row for row in self.held() if row.name in BRIEF]:
                if time.monotonic() > until:
                    raise _not_purged(visitors[0])
                time.sleep(SOON_SECONDS)
            yield lease

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Keep all other processes from moving readers to another version, after waiting for the one that does.

        On one machine a lock of the operating system is enough.
        """
        with self.alone(PUBLISHING) if self._store.remote else self._store.lock(PUBLISHING):
            yield

    def working(self) -> list[LeaseRow]:
        """Return the live leases on corpora, whose processes may be between two commits."""
        return [row for row in self.held() if row.of_corpus]

    def held(self, name: str | None = None) -> list[LeaseRow]:
        """Return the live leases of one name, or all."""
        remote = self._store.remote
        rows = _parsed(self._store.rows("leases", schemas.LEASES.names)) if remote else self._read()
        return [row for row in rows if row.live and name in {None, row.name}]

    def claim(self, mine: LeaseRow) -> list[LeaseRow]:
        """Write a row in place of the one that its owner has. If live leases exclude it, return those instead.

        Its owner then holds no corpus any more: runs that want each other's corpora never deadlock. Raises StoreError
        if a run with another embedder or other table schemas is in progress.
        """
        others: list[LeaseRow] = []
        dead: list[LeaseRow] = []
        fenced: list[LeaseRow] = []

        def take(rows: list[LeaseRow]) -> list[LeaseRow] | None:
            before = [row for row in rows if row.owner == mine.owner]
            rest = [row for row in rows if row.owner != mine.owner]
            live = [row for row in rest if row.live]
            suspended = [row for row in rest if not row.live and row.own and not mine.waits_for(row)]
            kept = [*live, *(suspended if mine.name != WHOLE_STORE else ())]
            dead[:] = [row for row in rest if row not in kept]
            if any(row not in fenced for row in dead):
                return None
            self._require_same(mine, live)
            others[:] = [row for row in live if mine.waits_for(row)]
            if others:
                waiting = [replace(row, name=NO_CORPUS) for row in before if row.name != NO_CORPUS]
                return [*rest, *waiting] if waiting else None
            return [*kept, mine]

        self.edit(take)
        while any(row not in fenced for row in dead):
            self._store.fence()
            fenced[:] = dead
            self.edit(take)
        return others

    def _require_same(self, mine: LeaseRow, live: list[LeaseRow]) -> None:
        """Raise StoreError if one of these live leases is of a run with another embedder or other table schemas."""
        for row in live:
            if mine.made_with and row.made_with not in {"", mine.made_with}:
                raise StoreError(
                    f"{row} writes to {self._store.uri} with {row.made_with}, and this run has {mine.made_with}:"
                    " wait until it ends, or give this run its own store"
                )

    def edit(self, change: Callable[[list[LeaseRow]], list[LeaseRow] | None]) -> None:
        """Replace all leases with the result of `change`, in one commit; None changes nothing."""

        def edit(table: pa.Table) -> pa.Table | None:
            rows = change(_parsed(table))
            return None if rows is None else _table([NOBODY, *rows])

        if self._store.remote:
            self._store.rewrite("leases", _table([NOBODY]), edit)
            return
        with self._store.lock("leases"), self._store.storage_errors():
            rows = change(self._read())
            if rows is not None:
                new = self._file.with_suffix(".new")
                new.write_bytes(orjson.dumps(rows))
                new.replace(self._file)

    @property
    def _file(self) -> Path:
        return Path(self._store.uri) / LOCKS / "leases.json"

    def _read(self) -> list[LeaseRow]:
        """Return the rows of the file. One that was lost, or cut off as the machine went down, holds nothing."""
        with self._store.storage_errors():
            try:
                rows = orjson.loads(self._file.read_bytes())
            except (FileNotFoundError, NotADirectoryError, orjson.JSONDecodeError):
                return []
        return [LeaseRow(**row | {"expires": datetime.fromisoformat(row["expires"])}) for row in rows]


class Lease:
    """Lease on one name at a time, mostly a corpus, that a thread renews.

    It is held until the end of the outermost `with` that has it or `on`.
    """

    def __init__(self, leases: Leases, run: str = "", made_with: str = "", tell: Tell = LOGGER.warning) -> None:
        self._leases = leases
        self._run = run
        self._made_with = made_with
        self._tell = tell
        self._owner = f"{PROCESS}-{secrets.token_hex(8)}"
        self._name = ""
        self._depth = 0
        self._sure_until = _now()
        self._left = threading.Event()
        self._keeper: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Whether it is taken, and keeps purges out."""
        return self._keeper is not None

    @contextmanager
    def on(self, name: str, part: str = "") -> Iterator[Self]:
        """Hold a name, see `take`, until the end of the outermost `with`."""
        with self:
            self.take(name, part)
            yield self

    def join(self) -> None:
        """Keep out purges, and runs with another embedder or other table schemas; other runs may join."""
        if not self.held:
            self.take(NO_CORPUS)

    def leave_corpus(self) -> None:
        """Let other runs work on the corpus that is held, if any, and go on to keep purges out."""
        if self.held:
            self.take(NO_CORPUS)

    def take(self, name: str, part: str = "") -> bool:
        """Hold a name in place of the one before, after waiting for others; return whether it had to wait.

        Other processes of the run may hold the same corpus for another `part` of the work, and not for the same: the
        process that replaces a lost one waits until that one can no longer write.
        """
        if name == self._name:
            return False
        told: set[str] = set()
        while others := self.try_take(name, part):
            for row in others:
                if row.owner not in told and (row.of_corpus or row.name == WHOLE_STORE):
                    self._tell(f"waiting for {row}, which {row.does}")
                told.add(row.owner)
            time.sleep(SOON_SECONDS if name in BRIEF else POLL_SECONDS)
        return bool(told)

    def try_take(self, name: str, part: str = "") -> list[LeaseRow]:
        """Hold a name in place of the one before, or return the leases that exclude it."""
        since = _now()
        row = LeaseRow(
            self._owner, this_host(), os.getpid(), name, self._run, part, self._made_with, since + self._leases.ttl
        )
        others = self._leases.claim(row)
        self._name = (NO_CORPUS if self.held else "") if others else name
        if not others:
            self._sure_until = since + self._leases.ttl / 2
            self._begin_renewing()
        return others

    def check(self) -> None:
        """Raise StoreError when another run has dropped this lease; call it before each commit.

        A lease with half of its time left is never dropped, so only one with less, or more than it was given, is read
        and renewed.
        """
        sure = timedelta(0) < self._sure_until - _now() <= self._leases.ttl / 2
        if not sure and not self._renew():
            raise StoreError(f"{self} expired and was removed by another run: nothing more is written, run again")

    def check_commit(self, _: object) -> None:
        """Call `check`, in the form that `Store.replace` and `Store.append` expect."""
        self.check()

    def __str__(self) -> str:
        return "the lease of this process" if self._name.startswith("*") else f"{self._name}: the lease of this run"

    def _begin_renewing(self) -> None:
        if self._keeper is None:
            self._left.clear()
            self._keeper = threading.Thread(target=self._keep, name=f"lease {self._owner}", daemon=True)
            self._keeper.start()

    def _keep(self) -> None:
        while not self._left.wait((self._leases.ttl / 3).total_seconds()):
            try:
                if not self._renew():
                    return  # `check` raises for it before a commit
            except (FindingAidError, OSError, RuntimeError, ValueError) as error:
                LOGGER.warning("%s is not renewed, trying again: %s", self, error)

    def _renew(self) -> bool:
        """Renew the lease, even after it expired; return False if another run dropped it."""
        found = False
        since = _now()

        def renew(rows: list[LeaseRow]) -> list[LeaseRow] | None:
            nonlocal found
            found = any(row.owner == self._owner for row in rows)
            until = _now() + self._leases.ttl
            kept = (replace(row, expires=until) if row.owner == self._owner else row for row in rows)
            return [row for row in kept if row.live or row.own] if found else None

        self._leases.edit(renew)
        if found:
            self._sure_until = since + self._leases.ttl / 2
        return found

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._release()

    def _release(self) -> None:
        """Release the lease. Errors are only logged for debugging: an earlier one mostly has the same cause.

        Waits for a renewal in progress: an interpreter that ends while another thread is inside Lance aborts.
        """
        if self._keeper is None:
            return
        self._left.set()
        self._keeper.join()
        self._keeper = None
        try:
            self._leases.edit(self._without)
        except (FindingAidError, OSError, RuntimeError, ValueError) as error:
            LOGGER.debug("%s is not released and will expire: %s", self, error)
        self._name = ""

    def _without(self, rows: list[LeaseRow]) -> list[LeaseRow] | None:
        rest = [row for row in rows if row.owner != self._owner]
        return rest if len(rest) < len(rows) else None


def _not_purged(row: LeaseRow) -> StoreError:
    return StoreError(f"not purged: {row} {row.does}: wait until it ends")


def _now() -> datetime:
    return datetime.now(UTC)


def _parsed(table: pa.Table) -> list[LeaseRow]:
    return [LeaseRow(**row) for row in table.to_pylist() if row["owner"]]


def _table(rows: list[LeaseRow]) -> pa.Table:
    columns = {name: [getattr(row, name) for row in rows] for name in schemas.LEASES.names}
    return pa.table(columns, schema=schemas.LEASES)
