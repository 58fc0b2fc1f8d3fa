"""File trees: what each kind of them does, and how file systems tell of a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any, Protocol, TypeVar

from findingaid.sources.addresses import BUCKETS, Address
from findingaid.sources.change_times import RACY_SECONDS
from findingaid.sources.limits import ARCHIVE_BYTES
from findingaid.sources.tree_filter import TreeFilter

T = TypeVar("T")

REMOTE_READERS = 16
"""Maximum number of concurrent requests."""

DEEPEST = 100
"""Maximum depth of nested folders."""

WEB = frozenset({"http", "https"})

CHECKSUMS = ("e_tag", "ETag", "md5Hash", "content_md5", "checksum", "sha", "hex", "blob_id")
"""Keys under which file systems report a checksum, that is, a value that changes whenever a file's content does."""

TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "modify", "last_write_time")
"""Keys under which file systems report when a file was last written."""

LINK = "a link, and links are followed only in local folders: exclude it"

GIT_LINK = 0o120000


@dataclass(frozen=True, slots=True)
class Entry:
    """A file below the root. `stamp` and `changed` are as in `Listing`; `broken` says why it can never be read."""

    path: str
    stamp: str = ""
    size: int = 0
    broken: str = ""
    changed: float | None = None


@dataclass
class Listed:
    """Entries of a tree, and the folders that could not be listed, each with the exception."""

    entries: list[Entry] = field(default_factory=list)
    unlisted: dict[str, BaseException] = field(default_factory=dict)


class Tree(Protocol):
    """Files below a root, or the root itself as the only file. Every method may raise any exception."""

    def listed(self, wanted: TreeFilter) -> Listed: ...

    def size(self, path: str) -> int | None: ...

    def payload(self, path: str, most: int) -> bytes:
        """Return a file's bytes, or of a longer one the first `most`, so that no more are held in memory."""

    def opened(self) -> tuple[IO[bytes], str]:
        """Open the root as a file, for an archive, and return it with its stamp."""


def readers(address: Address) -> int:
    """Return how many files may be read at once.

    Files in an archive or a repository share one open file with one position, so they are read one at a time.
    """
    return REMOTE_READERS if address.scheme in {*BUCKETS, *WEB, "github"} and "::" not in address else 1


def stamp_of(info: Mapping[str, Any]) -> str:
    """Return a stamp from a file's metadata: a checksum, else time and size, else "".

    The `etag` of a WebDAV server is trusted no more than time and size, from which servers mostly derive it. A file of
    this machine has its inode and the time of its last change of any kind, which no program can set back.
    """
    if checksum := next((info[name] for name in CHECKSUMS if info.get(name)), None):
        return str(checksum)
    tag = info.get("etag") or ""
    if (written := _written(info)) is None:
        return str(tag)
    seconds = seconds_of(written)
    racy = seconds is None or time.time() - seconds < RACY_SECONDS
    here = f":{info['created']}:{info['ino']}" if "ino" in info else ""
    return f"{info.get('size')}:{written}{tag and f':{tag}'}{here}" + "?" * racy


def _written(info: Mapping[str, Any]) -> Any:
    """Return the time of a file's last change as its metadata has it, or None."""
    return next((info[name] for name in TIMES if info.get(name)), None)


def time_of(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last change in seconds since 1970, or None."""
    return seconds_of(_written(info))


def seconds_of(told: Any) -> float | None:
    """Return a time as seconds since 1970, or None if it cannot be parsed."""
    if isinstance(told, str):
        try:
            told = parsedate_to_datetime(told)
        except (ValueError, OverflowError):
            return None
    if isinstance(told, datetime):
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    return float(told) if isinstance(told, int | float) else None


def why_broken(info: Mapping[str, Any]) -> str:
    """Return why a file cannot be read, or "" if it can. File systems report a link in several ways."""
    modes = (str(info.get("mode")), f"{(info.get('external_attr') or 0) >> 16:o}")
    if info.get("islink") or info["type"] == "link" or any(mode.startswith(f"{GIT_LINK:o}"[:3]) for mode in modes):
        return LINK
    return "" if info["type"] == "file" else "not a regular file: exclude it"


def check_archive(size: int) -> None:
    """Raise ValueError for an archive of more than ARCHIVE_BYTES."""
    if size > ARCHIVE_BYTES:
        raise ValueError(f"the archive has more than {ARCHIVE_BYTES:,} bytes")


def found_below(root: str, path: str, get: Callable[[str], T]) -> T:
    """Return the result of `get` for a path below the root, or for the root itself if it is that file."""
    try:
        return get(below(root, path))
    except FileNotFoundError:
        if path != name_of(root):
            raise
        return get(root)


def below(root: str, path: str) -> str:
    """Return the address of a path below a root."""
    return f"{root.rstrip('/')}/{path}".rstrip("/") if root.strip("/") else root + path


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]
