"""Locks of the operating system, so that the processes of one machine write to a table in turn.

A lock is released by the system when its process ends, however it ends. A process that is stopped, as by SIGSTOP or
`docker pause`, keeps it. So the owner of a lock names itself in a file beside it, and a thread touches that file while
the process runs. Whoever waits says for whom, and gives up once the owner has made no progress for longer than a lease
lasts. An owner that works, however long, is waited for.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from findingaid.errors import StoreError

LOGGER = logging.getLogger("findingaid")

POLL_SECONDS = 0.01
LOOK_SECONDS = 0.5
"""How often the owner of a lock is looked at by a process that waits for it."""

TELL_SECONDS = 3.0
"""How long a process waits before it says for whom."""

BEAT_SECONDS = 5.0
"""How often a process touches the files of the locks that it holds."""

STALLED_SECONDS = 75.0
"""How long a lock is waited for while its owner makes no progress. It is longer than leases last, so that those of a
stopped process have expired."""

STOPPED = frozenset("Tt")
"""States of a process that was stopped, as Linux names them."""


@contextmanager
def locked(path: Path, name: str) -> Iterator[None]:
    """Hold a lock against all other processes and threads of this machine, after waiting for its owner.

    `name` is the name of the table, for messages. Raises StoreError when the owner makes no progress, OSError and
    NotImplementedError where the folder cannot be written or has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    owner = path.with_name(f"{path.name}.owner")
    waiting = _Waiting(owner, name)
    while True:
        try:
            lock.acquire(timeout=LOOK_SECONDS, poll_interval=POLL_SECONDS)
            break
        except Timeout:
            waiting.look()
    try:
        with _HELD.naming(owner):
            yield
    finally:
        lock.release()


class _Waiting:
    """Wait of a process for a lock: what it has seen of the owner's progress."""

    def __init__(self, owner: Path, name: str) -> None:
        self._owner, self._name = owner, name
        self._since = self._progress = time.monotonic()
        self._seen: object = None
        self._told = False

    def look(self) -> None:
        """Look at the owner; say for whom this process waits. Raises StoreError for an owner without progress."""
        now, seen = time.monotonic(), _read(self._owner)
        if seen != self._seen:
            self._seen, self._progress = seen, now
        if now - self._progress > STALLED_SECONDS:
            raise StoreError(
                f"{_describe(self._owner)} holds {self._name} and has made no progress for"
                f" {now - self._progress:.0f} seconds: nothing was written; let it go on, or end it, and run again"
            )
        if not self._told and now - self._since > TELL_SECONDS:
            self._told = True
            LOGGER.warning("waiting for %s, which holds %s", _describe(self._owner), self._name)


class _Held:
    """Files that name this process as the owner of locks; a thread touches them while it holds any."""

    def __init__(self) -> None:
        self._files: set[Path] = set()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def naming(self, owner: Path) -> Iterator[None]:
        """Name this process as the owner, as long as this is entered."""
        _write(owner, f"{os.getpid()} {this_host()}\n")
        with self._guard:
            self._files.add(owner)
            if self._thread is None or not self._thread.is_alive():  # a process that was forked has none
                self._thread = threading.Thread(target=self._beat, name="locks", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._guard:
                self._files.discard(owner)

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._guard:
                for owner in self._files:
                    with suppress(OSError):
                        os.utime(owner)


_HELD = _Held()


def _write(owner: Path, line: str) -> None:
    """Write a line over the beginning of a file. To empty the file first would take a hundred times as long."""
    file = os.open(owner, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def _read(owner: Path) -> tuple[int, str] | None:
    """Return the state of an owner's file, which changes with its progress and with another owner."""
    try:
        return owner.stat().st_mtime_ns, owner.read_text()
    except OSError:
        return None


def _describe(owner: Path) -> str:
    """Return the process that an owner's file names, as in "process 12 (stopped) on host a"."""
    try:
        pid, _, host = owner.read_text().partition("\n")[0].partition(" ")
    except OSError:
        return "another process"
    if not host:
        return "another process"
    stopped = " (stopped)" if host == this_host() and _state(pid) in STOPPED else ""
    return f"process {pid}{stopped} on host {host.split('/')[0]}"


def _state(pid: str) -> str:
    """Return the state of a process on Linux as one letter; "" elsewhere."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


@cache
def this_host() -> str:
    """Return an id of this host or container; processes with the same one see each other's process ids."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux
        parts.append(f"{uuid.getnode():x}")
    return "/".join(parts)
