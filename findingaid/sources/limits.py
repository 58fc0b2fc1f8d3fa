"""Limits of listings and reads, so that a tree or a file without end is refused instead of taking memory and time."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TypeVar

from findingaid.errors import ReadError

T = TypeVar("T")

ENTRIES = 2_000_000
"""Most files and folders of one listing."""

FOLDERS = 10_000
"""Most folders of one listing, if each takes a request."""

SECONDS = 600.0
"""Longest time of one listing."""

SAME_ABOVE = 3
"""Number of folders above one, with the same entries as it has, from which on it is not entered.

A web server that shows the same page for every address, and a link to a folder above, would nest without end.
"""

ANSWER_SECONDS = 60.0
SLOWEST = 50_000
"""Longest time that a server may take to begin an answer, and the least bytes a second of the rest."""

SILENT = 5
SILENT_SECONDS = 60.0
"""Pages or files in a row without an answer after which the server is taken to be down, and for how long."""

PAGE_BYTES = 20_000_000
"""Largest page of links."""

ARCHIVE_BYTES = 2_000_000_000
UNPACKED_BYTES = 20_000_000_000
"""Largest archive that is downloaded, and most bytes that one may unpack to."""


def answer_in_time(ask: Callable[[], T], received: Callable[[], int] = int, seconds: float | None = None) -> T:
    """Return the answer of a server whose client may wait without end.

    Raises TimeoutError when it takes longer than `seconds`, by default ANSWER_SECONDS, and the time that the bytes
    `received` so far may take. The client is then left behind in a daemon thread, which the process does not wait for.
    """
    patience = ANSWER_SECONDS if seconds is None else seconds
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001  # raised again in the calling thread
            answer.set_exception(error)

    begun = time.monotonic()
    threading.Thread(target=run, daemon=True).start()
    while (left := begun + patience + received() / SLOWEST - time.monotonic()) > 0:
        wait((answer,), left)
        if answer.done():
            return answer.result()
    raise TimeoutError(f"no answer within {patience:.0f} s")


def breaks_off(page: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether a page lacks its end, in an answer of which the client cannot tell, since no end was announced."""
    announced = "Content-Length" in headers or "Transfer-Encoding" in headers
    return not announced and b"<html" in (lower := page.lower()) and b"</html" not in lower


GZIP_ENCODINGS = frozenset({"gzip", "x-gzip"})


def unzip_answer(headers: Mapping[str, str]) -> zlib._Decompress | None:
    """Return what unpacks an answer; None if it is not packed. Unlike that of web clients, it knows the end.

    Raises ReadError for an encoding other than gzip.
    """
    encoding = headers.get("Content-Encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        return None
    if encoding not in GZIP_ENCODINGS:
        raise ReadError(f"sent as {encoding}, which was not asked for", "unreadable")
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def unzipped_whole(unzip: zlib._Decompress) -> bool:
    """Return whether a packed answer ended, as its first part. zlib reads no further parts."""
    return unzip.eof and not unzip.unused_data


PACKED_IN_PART = "the answer broke off, or is packed in several parts"


@dataclass
class ListingLimits:
    """Counts of one listing. Every method raises ValueError when a limit is passed, with the remedy."""

    folders: int = FOLDERS
    entries_left: int = field(default_factory=lambda: ENTRIES)
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def count(self, entries: int) -> None:
        """Count entries that were listed."""
        self.entries_left -= entries
        if self.entries_left < 0:
            raise _no_end(f"more than {ENTRIES:,} files and folders")
        self.check_time()

    def count_folders(self, folders: int) -> None:
        """Count folders that are to be listed, each by a request."""
        self.folders -= folders
        if self.folders < 0:
            raise _no_end(f"more than {FOLDERS:,} folders")

    def check_time(self) -> None:
        """Check that the listing has not taken too long."""
        if time.monotonic() > self.until:
            raise _no_end(f"not listed within {SECONDS:,.0f} s")


def _no_end(what: str) -> ValueError:
    return ValueError(f"{what}: exclude folders, or divide it among corpora with roots below it")
