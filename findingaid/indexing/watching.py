"""Watching of sources: by reports of the operating system on changed files, and at intervals."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from findingaid.corpus import Corpus
from findingaid.errors import one_line
from findingaid.protocols import LocalSource

LOGGER = logging.getLogger("findingaid")

QUIET_MS = 50
"""Milliseconds without a change after which a run starts, so that a burst of changes takes one run."""

LONGEST_MS = 1_000
"""Milliseconds after which a run starts even if changes go on."""

LOOK_MS = 1_000
"""Milliseconds between two checks for folders that appeared, vanished or were replaced."""


class Watch:
    """Watch over the sources of corpora.

    The operating system reports changes of local files. It does not report those of other sources, nor of folders on a
    network, and its number of watched folders is limited. Therefore all sources count as changed every `interval`
    seconds. `ignored` are folders in which the program itself writes.
    """

    def __init__(self, corpora: Mapping[str, Corpus], interval: float, ignored: Sequence[Path] = ()) -> None:
        self._sources = {name: of.source for name, of in corpora.items()}
        self._interval = interval
        self._ignored = ignored
        self._next = 0.0
        self._said = ""

    def changed(self, stop: threading.Event) -> Iterator[list[str]]:
        """Yield the names of the corpora that may have changed, until `stop` is set: first all, then as they change.

        Corpora that change while the caller works on these are yielded next.
        """
        yield list(self._sources)
        there = self._there()
        while not stop.is_set():
            self._next = time.monotonic()  # all again: some may have changed before the reports began
            for changes in self._changes(there, stop):
                now = self._there()
                found = self._concerned(changes, there)
                found |= {name for name in self._sources if now[name] != there[name]}
                if time.monotonic() >= self._next:
                    self._next = time.monotonic() + self._interval
                    found = set(self._sources)
                if found:
                    yield [name for name in self._sources if name in found]
                if now != there:  # a folder that was replaced reports nothing any more
                    there = now
                    break

    def _there(self) -> dict[str, dict[Path, tuple[int, int]]]:
        """Map each corpus to its watched paths that exist, without links, each with its device and inode."""
        found: dict[str, dict[Path, tuple[int, int]]] = {}
        for name, source in self._sources.items():
            found[name] = {}
            for path in source.watched() if isinstance(source, LocalSource) else ():
                try:
                    real = path.resolve(strict=True)
                    stat = real.stat()
                except OSError:
                    continue
                found[name][real] = (stat.st_dev, stat.st_ino)
        return found

    def _concerned(self, changed: set[Path], there: Mapping[str, Iterable[Path]]) -> set[str]:
        ignored = [path.resolve() for path in self._ignored] if changed else []
        own = {path for path in changed if any(path.is_relative_to(folder) for folder in ignored)}
        return {
            name
            for name, watched in there.items()
            if any(path.is_relative_to(folder) for folder in watched for path in changed - own)
        }

    def _changes(self, there: Mapping[str, Iterable[Path]], stop: threading.Event) -> Iterator[set[Path]]:
        """Yield the paths that change, as `_reports` does, and nothing every LOOK_MS while there are no reports.

        Without reports, the reason is logged once, and they are asked for again after the interval.
        """
        try:
            yield from self._reports({path for watched in there.values() for path in watched}, stop)
        except (OSError, RuntimeError) as error:  # watchfiles raises its own RuntimeError, too
            self._say(error)
            again = time.monotonic() + self._interval
            while time.monotonic() < again and not stop.wait(min(LOOK_MS / 1000, self._interval)):
                yield set()

    def _say(self, error: Exception) -> None:
        """Log why changes are not reported, unless that was the last line logged."""
        if (said := _why_unwatched(error, self._interval)) != self._said:
            LOGGER.warning(said)
            self._said = said

    def _reports(self, paths: set[Path], stop: threading.Event) -> Iterator[set[Path]]:
        """Yield the paths that change at or below these, and nothing every LOOK_MS, until `stop` is set.

        If some folders may not be watched, that is logged, and the reports end after the interval, to be asked for
        again. Raises OSError and RuntimeError if the system reports no changes.
        """
        from watchfiles import watch

        if not paths:
            while not stop.wait(LOOK_MS / 1000):
                yield set()
            return
        look_again, limited = 0.0, False
        for changes in watch(
            *paths,
            watch_filter=None,
            debounce=LONGEST_MS,
            step=QUIET_MS,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            yield {Path(path) for _, path in changes}
            if time.monotonic() >= look_again:
                if limited:
                    return
                look_again = time.monotonic() + self._interval
                if limit := _limit_reached(min(paths)):
                    limited = True
                    self._say(limit)
                else:
                    self._said = ""


def _limit_reached(path: Path) -> OSError | None:
    """Return the error of watching one more folder, or None if that works.

    watchfiles ignores the limit for folders below those that it is given, as it ignores those without permission.
    """
    from watchfiles import watch

    try:
        next(watch(path, recursive=False, rust_timeout=1, yield_on_timeout=True), None)
    except OSError as error:
        return error
    return None


def _why_unwatched(error: Exception, interval: float) -> str:
    """Return a line on why the system reports no changes, with the remedy and with what happens instead."""
    limits = {"watch limit": "fs.inotify.max_user_watches", "open files": "fs.inotify.max_user_instances"}
    limit = next((name for part, name in limits.items() if part in str(error)), "")
    remedy = f"; raise the limit with `sudo sysctl {limit}=1048576`, or watch fewer folders" if limit else ""
    why = one_line(error).partition(" about [")[0]  # where notify names its folders and its own type
    return (
        f"not every change of a file is reported by the operating system ({why}): all sources are looked at every"
        f" {interval:g} s{remedy}"
    )
