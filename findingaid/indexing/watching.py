"""Watching of sources: by reports of the operating system on changed files, and at intervals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from findingaid.corpus import Corpus
from findingaid.protocols import LocalSource

QUIET_MS = 50
"""Milliseconds without a change after which a run starts, so that a burst of changes takes one run."""

LONGEST_MS = 1_000
"""Milliseconds after which a run starts even if changes go on."""

LOOK_MS = 1_000
"""Milliseconds between two checks for folders that appeared, vanished or were replaced."""


class Watch:
    """Watch over the sources of corpora.

    The operating system reports changes of local files. It does not report those of other sources, nor of folders on a
    network. Therefore all sources count as changed every `interval` seconds. `ignored` are folders in which the program
    itself writes.
    """

    def __init__(self, corpora: Mapping[str, Corpus], interval: float, ignored: Sequence[Path] = ()) -> None:
        self._paths = {name: _watched(of) for name, of in corpora.items()}
        self._interval = interval
        self._ignored = [path.resolve() for path in ignored]
        self._next = 0.0

    def changed(self, stop: threading.Event) -> Iterator[list[str]]:
        """Yield the names of the corpora that may have changed, until `stop` is set: first all, then as they change.

        Corpora that change while the caller works on these are yielded next.
        """
        yield list(self._paths)
        there = self._there()
        while not stop.is_set():
            self._next = time.monotonic()  # all again: some may have changed before the reports began
            for changes in _changes(there, stop):
                now = self._there()
                found = self._concerned(changes)
                found |= {n for n, paths in self._paths.items() if any(now.get(p) != there.get(p) for p in paths)}
                if time.monotonic() >= self._next:
                    self._next = time.monotonic() + self._interval
                    found = set(self._paths)
                if found:
                    yield [name for name in self._paths if name in found]
                if now != there:  # a folder that was replaced reports nothing any more
                    there = now
                    break

    def _there(self) -> dict[Path, tuple[int, int]]:
        """Map the watched paths that exist to their device and inode."""
        found = {}
        for path in {path for paths in self._paths.values() for path in paths}:
            try:
                stat = path.stat()
            except OSError:
                continue
            found[path] = (stat.st_dev, stat.st_ino)
        return found

    def _concerned(self, changed: set[Path]) -> set[str]:
        own = {path for path in changed if any(path.is_relative_to(folder) for folder in self._ignored)}
        return {
            name
            for name, paths in self._paths.items()
            if any(path.is_relative_to(watched.resolve()) for watched in paths for path in changed - own)
        }


def _changes(there: Iterable[Path], stop: threading.Event) -> Iterator[set[Path]]:
    """Yield the paths that change at or below these, and nothing every LOOK_MS, until `stop` is set."""
    from watchfiles import watch

    if not there:
        while not stop.wait(LOOK_MS / 1000):
            yield set()
        return
    for changes in watch(
        *there,
        watch_filter=None,
        debounce=LONGEST_MS,
        step=QUIET_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    ):
        yield {Path(path) for _, path in changes}


def _watched(of: Corpus) -> list[Path]:
    return [path.absolute() for path in of.source.watched()] if isinstance(of.source, LocalSource) else []
