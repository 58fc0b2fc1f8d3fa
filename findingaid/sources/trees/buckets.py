"""Object storage, by the client that also stores the tables."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from findingaid.sources.addresses import Address
from findingaid.sources.limits import ListingLimits
from findingaid.sources.tree_filter import TreeFilter
from findingaid.sources.trees.tree import (
    REMOTE_READERS,
    Entry,
    Listed,
    check_archive,
    found_below,
    name_of,
    stamp_of,
    time_of,
)

CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
"""Object-storage options that configure the HTTP client rather than the storage."""

PAGE = 999
"""Fewest objects of a full page of S3, which has 1,000. The client hides the one that represents the root."""

UNSORTED = "--x-s3"
"""End of the names of S3's directory buckets, in which no listing can begin after a path."""


class Bucket:
    """Object storage: one listing of all keys with their ETags. Uses the client that also stores the tables."""

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        from obstore.store import from_url

        scheme, _, place = address.partition("://")
        bucket, _, key = place.partition("/")
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
        client: Any = {name: text for name, text in texts.items() if name in CLIENT_OPTIONS}
        config: Any = {name: text for name, text in texts.items() if name not in CLIENT_OPTIONS}
        self._store = from_url(f"{scheme}://{bucket}", config=config, client_options=client or None)
        self._root = key.strip("/")
        self._may_stop_early = scheme.startswith("s3") and not bucket.endswith(UNSORTED)

    def listed(self, wanted: TreeFilter) -> Listed:
        prefix = f"{self._root}/" if self._root else ""
        found = self._metas()
        if not found and self._root:
            found, prefix = [self._store.head(self._root)], self._root.removesuffix(name_of(self._root))
        named = [(m["path"].removeprefix(prefix), m) for m in found if m["path"].startswith(prefix)]
        often = Counter(path for path, _ in named)
        entries: dict[str, Entry | None] = {path: _entry_of(path, m) for path, m in named if wanted.file(path)}
        with ThreadPoolExecutor(REMOTE_READERS) as pool:
            unsure = [path for path, entry in entries.items() if not (entry and entry.size) or often[path] > 1]
            entries |= zip(unsure, pool.map(self._asked, unsure), strict=True)
        return Listed([entry for entry in entries.values() if entry])

    def _metas(self) -> list[Any]:
        """Return all objects as the client lists them.

        The client takes a page without a token for the last one. Some servers send no tokens, and those that know only
        the first version of ListObjects also ignore where a listing is to begin.
        """
        found: list[Any] = []
        limits = ListingLimits()
        last, more = None, True
        while more:
            known = len(found)
            for chunk in self._store.list(self._root or None, offset=last):
                limits.count(len(chunk))
                if last and any(m["path"] < last for m in chunk):
                    raise OSError(f"the server lists no more than {known:,} objects: does it know ListObjectsV2?")
                found += [m for m in chunk if m["path"] != last]
            more = self._may_stop_early and len(found) - known >= PAGE
            last = max((m["path"] for m in found), default=None)
        return found

    def _asked(self, path: str) -> Entry | None:
        """Return an object as the server tells of it alone, or None. Raises any exception of the client.

        Web consoles keep an empty object `sub/` to represent a folder, and the client lists it as `sub`, which another
        object may be called.
        """
        with suppress(FileNotFoundError):
            return self.entry(path)
        return None

    def entry(self, path: str) -> Entry:
        """Return an object. Raises FileNotFoundError."""
        return _entry_of(path, found_below(self._root, path, self._store.head))

    def size(self, path: str) -> int | None:
        return int(found_below(self._root, path, self._store.head)["size"])

    def payload(self, path: str, most: int) -> bytes:
        content = bytearray()
        for chunk in found_below(self._root, path, self._store.get).stream():
            content += chunk
            if len(content) >= most:
                break
        return bytes(content[:most])

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        for chunk in self._store.get(self._root).stream():
            file.write(chunk)
            check_archive(file.tell())
        file.seek(0)
        return file, stamp_of(self._store.head(self._root))


def _entry_of(path: str, meta: Mapping[str, Any]) -> Entry:
    """Return an object of a bucket."""
    return Entry(path, stamp_of(meta), meta["size"], changed=time_of(meta))
