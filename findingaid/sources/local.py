"""Local files and folders, opened so that no link leads out of their root.

A path is opened first, and then the opened file is checked, by the place that the system names or, if it names none, by
the place that the path resolves to. So a folder that is replaced by a link is noticed at whatever moment that happens.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

from findingaid.errors import ReadError

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a file, which may have become a pipe since it was listed: do not wait for its writer."""

TOO_LARGE = "too_large"

READS = 3
"""How often to read a file that changes while it is being read."""


def read_file(root: str, path: str, max_bytes: int) -> bytes:
    """Return a file's bytes, all read at one moment; `root` is a real path.

    Raises ReadError for a file that leads outside the root, is too large, or is being written, and OSError.
    """
    for _ in range(READS):
        with open(open_below(root, path), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise ReadError("not a regular file: exclude it", "unreadable")
            content = b"" if before.st_size > max_bytes else file.read(before.st_size + 1)
            if len(content) > before.st_size:  # it grows, or it is a file whose size the system does not know
                content += file.read(max_bytes + 1 - len(content))
            after = os.fstat(file.fileno())
        if max(before.st_size, len(content)) > max_bytes:
            raise too_large(before.st_size, max_bytes)
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return content
    raise ReadError(f"changed each of {READS} times that it was read: the next run tries again", "changed")


def too_large(size: int, max_bytes: int) -> ReadError:
    """Return the error for a file that is too large; its `size` may be unknown, or told as less."""
    told = f"{size:,} bytes, " if size > max_bytes else ""
    return ReadError(f"{told}more than source.max_bytes = {max_bytes:,}: exclude it or raise the limit", TOO_LARGE)


@contextmanager
def listed(root: str, path: str) -> Iterator[list[os.DirEntry[str]]]:
    """Yield the entries of a folder by name, which can be looked at until the block ends. Raises ReadError and OSError.

    `path` is relative to the real path `root`, and "" for the root itself.
    """
    if os.scandir not in os.supports_fd:  # Windows
        with os.scandir(os.path.join(root, path)) as entries:
            yield sorted(entries, key=attrgetter("name"))
        return
    folder = _open(root, path)
    try:
        with os.scandir(folder) as entries:
            yield sorted(entries, key=attrgetter("name"))
    finally:
        os.close(folder)


def open_below(root: str, path: str) -> int:
    """Open a file for reading and return its descriptor. Raises ReadError if it is not below the root, and OSError."""
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ReadError(f"the name leads outside the root {root}", "outside_root")
    return _open(root, path)


def real_below(root: str, path: str) -> str:
    """Return a path without links, relative to the root. Raises ReadError if it leads outside, and OSError."""
    real = os.path.realpath(os.path.join(root, path), strict=True)
    _require_below(root, real)
    return os.path.relpath(real, root)


def _open(root: str, path: str) -> int:
    """Open a file or folder, and return its descriptor. Raises ReadError if it is not below the root, and OSError."""
    place = os.path.join(root, path)
    opened = os.open(place, FLAGS)
    try:
        _require_below(root, _place_of(opened, place))
    except BaseException:
        os.close(opened)
        raise
    return opened


def _place_of(opened: int, place: str) -> str:
    """Return the real path of an open file, which was opened at `place`. Raises OSError."""
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    except OSError:  # a system without such a folder
        real = os.path.realpath(place, strict=True)
        if not os.path.samestat(os.fstat(opened), os.stat(real)):
            raise OSError("it was replaced while it was opened") from None
        return real


def _require_below(root: str, real: str) -> None:
    """Raise ReadError for a real path that is not below the root."""
    if real != root and not real.startswith(os.path.join(root, "")):
        message = f"link leads outside the root, to {real}: exclude it, or set source.root above both (now {root})"
        raise ReadError(message, "outside_root")
