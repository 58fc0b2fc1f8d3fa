"""Workers on a Ray cluster.

The driver plans, hands batches of listings to actors, and publishes. Each actor opens the configuration and loads the
model once; it reads the artifacts from their source and writes to the store itself. Actors of one run share its budget
through the store, and the rate limits of its endpoints through the coordinator.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Any
from urllib.parse import urlsplit

from findingaid.errors import ConfigError, FindingAidError, StoreError, UnreachableError, one_line
from findingaid.indexing.indexer import Indexer
from findingaid.indexing.options import BuildOptions, Progress
from findingaid.indexing.run import Run
from findingaid.indexing.workers import TRIES, Batch, Workers, lost_batch
from findingaid.llm.rate_limits import Rates, share_rates
from findingaid.reports import BatchReport

LOGGER = logging.getLogger("findingaid")

START_SECONDS = 300.0
"""Longest wait for the first actor: an autoscaling cluster has to start a machine for it."""

TOLD_SECONDS = 30.0
"""Seconds between two log lines about actors that do not start."""

STARTS = 5
"""Consecutive actors that may fail to start. After that no more are started, and the run ends if no other works."""

REASON = 160
"""Maximum characters of Ray's reason in a message. Ray lists every possible cause of an unexpected end."""

POLL_SECONDS = 1.0
"""Seconds between two looks at the progress of the actors."""

CONNECT_SECONDS = 10.0
"""Longest wait for the address of a cluster to accept a connection. Ray itself would try for minutes."""


class Coordinator:
    """Actor that the workers of one run share: the rates of endpoints, and the progress since the last look."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, int | None, int | None], Rates] = {}
        self._progress: list[tuple[str, int, int]] = []

    async def take(self, where: str, requests: int | None, tokens: int | None, amount: int) -> float:
        """Take a request of `amount` tokens from the rates of an endpoint; return the seconds until it may be sent."""
        return self._rates.setdefault((where, requests, tokens), Rates(requests, tokens)).take(amount)

    async def advance(self, stage: str, more: int, done: int) -> None:
        """Add to the progress."""
        self._progress.append((stage, more, done))

    async def drain(self) -> list[tuple[str, int, int]]:
        """Return the progress since the last call."""
        found, self._progress = self._progress, []
        return found


class Worker:
    """Actor that builds batches of one run."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._run: Run | None = None

    def open(self, open_run: Callable[[str], Run], run: str) -> None:
        """Open the run. This is not done by `__init__`, so that an error arrives as it was raised."""

        async def take(where: str, requests: int | None, tokens: int | None, amount: int) -> float:
            wait: float = await self._coordinator.take.remote(where, requests, tokens, amount)
            return wait

        share_rates(take)
        self._run = open_run(run)

    def build(self, corpus: str, target: tuple[str, str], batch: Batch, options: BuildOptions) -> BatchReport:
        """Build a batch. Raises ConfigError if this node would build something else than the driver has planned."""
        assert self._run is not None  # noqa: S101  # the driver calls `open` first
        indexer = self._run.indexer(corpus)
        if target_of(indexer) != target:
            raise _not_installed(
                f"{socket.gethostname()} has another store, other code or models for {corpus} than this run"
            )
        return indexer.build(batch, replace(options, progress=self._advance))

    def _advance(self, stage: str, more: int, done: int) -> None:
        self._coordinator.advance.remote(stage, more, done)


@dataclass(frozen=True)
class RayExecutor:
    """Executor that builds batches on a Ray cluster.

    `open_run` takes the name of a run and opens it in another process, with the same configuration; it must be
    picklable. `address` is passed to `ray.init`: auto, local, HOST:PORT or ray://HOST:PORT. There are at most `actors`
    actors; each reserves `cpus` and `gpus` of a node.
    """

    open_run: Callable[[str], Run]
    address: str = "auto"
    cpus: float = 1
    gpus: float = 0
    actors: int = 4

    @contextmanager
    def workers(self, run: str) -> Iterator[Workers]:
        """Return the workers of a run; nothing is started before the first batch. Raises ConfigError, UnreachableError.

        A connection to Ray that the program has already made is used, and stays.
        """
        workers = RayWorkers(self, run)
        try:
            yield workers
        finally:
            workers.close()


@dataclass
class _Task:
    """Batch to build, with the number of failed attempts and the reason of the last one."""

    batch: Batch
    tries: int = 0
    why: str = ""

    def failed(self, why: str) -> bool:
        """Count a failed attempt; return whether another one is due."""
        self.tries, self.why = self.tries + 1, why
        return self.tries < TRIES


@dataclass
class RayWorkers:
    """Actors of one run on a Ray cluster.

    Each actor has one batch at a time. The batch of an actor that dies goes to another actor, which waits for the
    leases of the first to end.
    """

    executor: RayExecutor
    run: str
    _connected: bool = False
    _coordinator: Any = None
    _idle: list[Any] = field(default_factory=list)
    _starting: dict[Any, Any] = field(default_factory=dict)
    _busy: dict[Any, tuple[Any, _Task]] = field(default_factory=dict)
    _left: deque[_Task] = field(default_factory=deque)
    _since: float = 0.0
    _told: float = 0.0
    _failed_starts: int = 0
    _failed_start: str = ""

    def build(
        self, indexer: Indexer, batches: Iterable[Batch], options: BuildOptions
    ) -> Iterator[tuple[Batch, BatchReport]]:
        """See `Workers.build`."""
        self._left = deque(map(_Task, batches))
        arguments = (indexer.name, target_of(indexer))
        sent = replace(options, progress=None)
        while self._left or self._busy:
            self._start()
            while self._left and self._idle:
                actor, task = self._idle.pop(), self._left.popleft()
                self._busy[actor.build.remote(*arguments, task.batch, sent)] = (actor, task)
            yield from self._finished()
            self._relay(options.progress)

    def close(self) -> None:
        """Kill the actors, and leave the cluster."""
        if self._coordinator is None:
            return
        import ray

        for actor in (*self._idle, *self._starting.values(), *(actor for actor, _ in self._busy.values())):
            ray.kill(actor)
        ray.kill(self._coordinator)
        if self._connected:
            ray.shutdown()

    def _start(self) -> None:
        """Start an actor for each waiting batch, up to the number in the settings."""
        if self._coordinator is None:
            self._connected = connect(self.executor.address)
        import ray

        if self._coordinator is None:
            survives = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
            self._coordinator = ray.remote(Coordinator).options(**survives).remote()
            self._since = self._told = time.monotonic()
        if self._failed_starts >= STARTS:
            return
        there = len(self._idle) + len(self._starting) + len(self._busy)
        for _ in range(min(self.executor.actors - there, len(self._left) - len(self._idle) - len(self._starting))):
            resources = {"num_cpus": self.executor.cpus, "num_gpus": self.executor.gpus}
            actor: Any = ray.remote(Worker).options(**resources).remote(self._coordinator)
            self._starting[actor.open.remote(self.executor.open_run, self.run)] = actor

    def _finished(self) -> Iterator[tuple[Batch, BatchReport]]:
        """Wait for the next actors to start or to finish; yield batches that are built or given up."""
        import ray

        done, _ = ray.wait([*self._starting, *self._busy], timeout=POLL_SECONDS)
        for ref in done:
            if ref in self._starting:
                self._started(ref)
                continue
            actor, task = self._busy.pop(ref)
            try:
                report: BatchReport = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                self._idle.append(actor)
                if not _worth_retrying(error.cause):
                    raise _cause(error) from None
                why = f"the last time: {one_line(error.cause)}"
            except ray.exceptions.RayActorError:
                with suppress(Exception):
                    ray.kill(actor)  # it may still run, on a node that cannot be reached
                why = "or its worker was killed"
            else:
                self._idle.append(actor)
                yield task.batch, report
                continue
            LOGGER.warning("a batch of %d artifacts failed, %s", len(task.batch), why)
            if task.failed(why):
                self._left.append(task)
            else:
                yield task.batch, lost_batch(task.batch, task.why)
        self._check_started()

    def _started(self, ref: Any) -> None:
        import ray

        actor = self._starting.pop(ref)
        try:
            ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ImportError):
                raise _not_installed(f"an actor did not start: {one_line(error.cause)}") from None
            raise _cause(error) from None
        except ray.exceptions.RayActorError as error:
            self._failed_starts += 1
            reason = str(error).strip().splitlines()[-1].strip()  # the lines before it are a traceback
            self._failed_start = shorten(reason, REASON, placeholder=" …")
            LOGGER.warning("an actor did not start: %s", self._failed_start)
        else:
            self._failed_starts = 0
            self._idle.append(actor)

    def _check_started(self) -> None:
        """Log that actors do not start. Raises ConfigError if none works after START_SECONDS, or STARTS failed."""
        now = time.monotonic()
        if self._idle or self._busy:
            self._since = self._told = now
            return
        if self._failed_starts >= STARTS:
            raise ConfigError(
                f"executor: {STARTS} actors in a row did not start: {self._failed_start}: give every node of the Ray"
                " cluster enough memory, and install the same versions on it"
            )
        wanted = f"{self.executor.cpus:g} CPUs and {self.executor.gpus:g} GPUs"
        if now - self._since > START_SECONDS:
            raise ConfigError(
                f"executor: no node of the Ray cluster had {wanted} free for {START_SECONDS:.0f} s:"
                " lower executor.cpus and executor.gpus, or add nodes"
            )
        if now - self._told > TOLD_SECONDS:
            self._told = now
            LOGGER.warning("waiting for a node of the Ray cluster with %s free", wanted)

    def _relay(self, progress: Progress | None) -> None:
        """Report the progress of the actors."""
        import ray

        for advance in ray.get(self._coordinator.drain.remote()):
            if progress:
                progress(*advance)


def target_of(indexer: Indexer) -> tuple[str, str]:
    """Return the store that an indexer writes to, and the id of everything that can change what it writes."""
    return indexer.store.uri, indexer.recipe.id


def connect(address: str) -> bool:
    """Connect to a Ray cluster; return False if this process already is. Raises ConfigError, UnreachableError."""
    try:
        import ray
    except ImportError:
        raise ConfigError("executor.kind: ray is not installed: pip install 'findingaid[ray]'") from None
    if ray.is_initialized():
        return False
    _require_listener(address)
    local: Any = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **local)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UnreachableError(f"executor.address: no Ray cluster at {address}: {one_line(error)}") from None
    return True


def _require_listener(address: str) -> None:
    """Raise ConfigError for an invalid address, and UnreachableError if nothing listens there."""
    if address in {"auto", "local"}:
        return
    url = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if url.scheme not in {"", "ray"} or not host or not port:
        raise ConfigError(f"executor.address: expected auto, local, HOST:PORT or ray://HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise UnreachableError(f"executor.address: no Ray cluster at {address}: {one_line(error)}") from None


def _not_installed(why: str) -> ConfigError:
    return ConfigError(f"executor: {why}: install the same versions on every node of the Ray cluster")


def _worth_retrying(cause: BaseException) -> bool:
    """Return whether a batch may succeed in another attempt: if the store, or its lease, failed."""
    return isinstance(cause, StoreError | UnreachableError | OSError)


def _cause(error: Any) -> BaseException:
    """Return the exception that an actor raised; errors of findingaid as they are, so that they stay one line."""
    cause: BaseException = error.cause
    return cause if isinstance(cause, FindingAidError) else error
