"""Files below a URL as artifacts, with the same ids, patterns and limits as files in a local folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from findingaid.errors import ReadError, SourceError
from findingaid.model import Discovery, Failure, Listing
from findingaid.request_limits import seconds_left
from findingaid.sources.addresses import NO_ANSWER, Address, reason
from findingaid.sources.limits import SILENT, SILENT_SECONDS
from findingaid.sources.local import too_large
from findingaid.sources.patterns import shown_name
from findingaid.sources.tree_filter import TreeFilter
from findingaid.sources.trees.buckets import Bucket
from findingaid.sources.trees.opening import open_tree
from findingaid.sources.trees.tree import Entry, Tree, readers


class Remote:
    """A remote tree. Every discovery opens it anew, and files are read from the tree of the last discovery."""

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        self.address = address
        self.readers = readers(address)
        self._options = options
        self._tree: Tree | None = None
        self._sizes: dict[str, int] = {}
        self._silent = 0  # files in a row that got no answer, the last of them at this time
        self._silent_at = 0.0
        self._opening = threading.Lock()
        self._places = threading.Semaphore(self.readers)

    def discover(self, wanted: TreeFilter) -> Discovery:
        """List the tree. Raises SourceError. A folder that cannot be listed is reported as unknown, not as deleted."""
        try:
            opened = open_tree(self.address, self._options)
            listed = opened.listed(wanted)
        except SourceError:
            raise
        except Exception as error:  # noqa: BLE001  # a file system may raise anything
            raise SourceError(f"source.root: {self.address.shown}: {self._reason(error)}") from None
        self._tree, self._silent = opened, 0
        self._sizes = {entry.path: entry.size for entry in listed.entries}
        failures = [
            Failure(path, "artifacts", "unreadable", f"folder cannot be listed: {self._reason(error)}")
            for path, error in listed.unlisted.items()
        ]
        failures += [failure for entry in listed.entries if (failure := _failure(entry))]
        broken = {failure.artifact_id for failure in failures}
        listings = [
            Listing(e.path, e.stamp, e.size, e.changed) for e in listed.entries if shown_name(e.path) not in broken
        ]
        return Discovery(sorted(listings, key=lambda x: x.artifact_id), failures, sorted(listed.unlisted))

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a file as `discover` lists it now; None if it is gone. Raises SourceError.

        Only object storage can be asked for one file, at the cost of one request. Others raise NotImplementedError.
        """
        try:
            opened = self._opened()
            found = opened.entry(artifact_id) if isinstance(opened, Bucket) else None
        except FileNotFoundError:
            return None
        except SourceError:
            raise
        except Exception as error:  # noqa: BLE001  # a file system may raise anything
            raise SourceError(f"source.root: {self.address.shown}: {self._reason(error)}") from None
        if found is None:
            self._tree = None  # so that a file that is read to know it is read as it is now
            raise NotImplementedError(f"source.root: {self.address.shown}: cannot be asked for a single file")
        return Listing(found.path, found.stamp, found.size, found.changed)

    def payload(self, artifact_id: str, max_bytes: int) -> bytes:
        """Return a file's bytes. Raises ReadError.

        No more than `readers` threads read at once, whoever they read for. After SILENT files in a row without an
        answer, none is asked for until the next listing, or SILENT_SECONDS.
        """
        if not self._places.acquire(timeout=seconds_left()):
            raise ReadError("not read within the time of the request, since others are", "timeout")
        try:
            return self._payload(artifact_id, max_bytes)
        finally:
            self._places.release()

    def _payload(self, artifact_id: str, max_bytes: int) -> bytes:
        if self._silent >= SILENT and time.monotonic() < self._silent_at + SILENT_SECONDS:
            raise ReadError(f"not asked for, since {SILENT} files in a row got no answer", "timeout")
        if ".." in artifact_id.split("/"):
            raise ReadError("the name leads out of the root", "outside_root")
        try:
            opened = self._opened()
            size = self._sizes.get(artifact_id) or _size(opened, artifact_id)
            content = opened.payload(artifact_id, max_bytes + 1) if size <= max_bytes else b""
        except SourceError as error:
            raise ReadError(str(error), "unreadable") from None
        except Exception as error:  # noqa: BLE001  # a file system may raise anything; it fails this artifact alone
            why = self._reason(error)
            self._silent = self._silent + 1 if why.startswith(NO_ANSWER) else 0
            self._silent_at = time.monotonic()
            raise ReadError(f"cannot be read: {why}", _kind(error)) from None
        self._silent = 0
        if max(size, len(content)) > max_bytes:
            raise too_large(size, max_bytes)
        if size and len(content) != size and len(content) != (size := _size(opened, artifact_id)):
            broken = "broken off" if len(content) < size else "does the server want a sign-in?"
            raise ReadError(f"sent with {len(content):,} instead of {size:,} bytes: {broken}", "transport")
        return content

    def _opened(self) -> Tree:
        with self._opening:
            if self._tree is None:
                self._tree = open_tree(self.address, self._options)
            return self._tree

    def _reason(self, error: BaseException) -> str:
        return reason(error, self.address, self._options)


def _size(opened: Tree, path: str) -> int:
    """Return the size that the tree reports; 0 if that fails, since reading then reports the error."""
    try:
        return opened.size(path) or 0
    except Exception:  # noqa: BLE001  # a file system may raise anything
        return 0


def _failure(entry: Entry) -> Failure | None:
    shown = shown_name(entry.path)
    if shown != entry.path:
        return Failure(shown, "artifacts", "encoding", "file name is not valid UTF-8: rename it or exclude it")
    if not {"", ".", ".."}.isdisjoint(entry.path.split("/")):
        return Failure(shown, "artifacts", "outside_root", "the path is not below the root: exclude it")
    return Failure(shown, "artifacts", "unreadable", entry.broken) if entry.broken else None


def _kind(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "transport"
        case RuntimeError() if "password" in str(error):  # of zipfile
            return "encrypted"
        case _:
            return "unreadable"
