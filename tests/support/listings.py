"""Stamps of local files for tests that copy a store and write its files anew."""

from __future__ import annotations

from os import stat_result
from types import SimpleNamespace
from typing import cast

from findingaid.model import Listing
from findingaid.sources import files

read_listing = files._listing


def listing_by_time(artifact_id: str, found: stat_result, now: int) -> Listing:
    """Return the listing of a local file by its size and time alone, which a copy of the file has, too."""
    copied = SimpleNamespace(
        st_size=found.st_size,
        st_mtime=found.st_mtime,
        st_mtime_ns=found.st_mtime_ns,
        st_ctime_ns=found.st_mtime_ns,
        st_ino=0,
    )
    return read_listing(artifact_id, cast("stat_result", copied), now)
