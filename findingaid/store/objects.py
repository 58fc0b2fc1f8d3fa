"""Storage below a store: explanations of its errors, without secrets, and operations on single objects.

All access goes through Lance's own client, so that one set of options and environment variables is enough.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ASIDE = ".damaged-"
"""Infix in the name of a damaged table that was set aside, between the table's name and a number."""

CAUSES = (
    (r"NoSuchBucket|ContainerNotFound", "the bucket does not exist: create it, or correct `store`"),
    (
        r"status code: 40[13]|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|ExpiredToken",
        "the credentials are refused: check the key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in"
        " `storage_options`, and its permissions on the bucket",
    ),
    (
        r"Failed to get AWS credentials|credentials? provider",
        "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role gives them",
    ),
    (r"status code: 30\d|PermanentRedirect", "the bucket is in another region: set `region` in `storage_options`"),
    (r"HTTP error: builder error", "an endpoint without TLS needs `allow_http: true` in `storage_options`"),
    (
        r"HTTP error",
        "no answer from the endpoint: is it running, and are `endpoint` and `region` in `storage_options` right?",
    ),
    (r"No object store provider", "unknown kind of URI: use a folder, s3://, gs:// or az://"),
    (r"Failed to resolve region", "the bucket is not found: correct `store`, or set `region` in `storage_options`"),
    (r"no Azure account name", "no storage account: set `account_name` in `storage_options`"),
    (r"did not match any known pattern", "no bucket in the URI: write s3://BUCKET/PREFIX"),
)
"""Pattern in errors of Lance's client -> cause and remedy; the first match is used."""

OF_CLIENT = re.compile(r"Error performing|Invalid user input|Generic (?!memory)\w+ error(?!.*\brange\b)")
"""Marks of an error of the storage's client, which says nothing about the content of the store.

A range beyond the end of an object, or of its copy in memory, tells that the object is cut.
"""

MISSING = "404 Not Found"
"""Error text for a single missing object, which is not a failure of the storage."""


OF_THE_CONTENT = frozenset(
    {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EINVAL, errno.EPIPE}
)
"""Operating-system errors about the content of the store or about another program. All others are refusals."""

REMEDIES = {
    errno.EACCES: "let this user read and write the files of the store",
    errno.EPERM: "let this user read and write the files of the store",
    errno.EROFS: "the disk is read-only",
    errno.ENOSPC: "make room on the disk and run again",
    errno.EDQUOT: "make room on the disk, or have the quota raised, and run again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the machine has too many open files",
}
LOOK = "look at the disk or the mount, then run again"

SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
"""End of the message with which Rust, and so Lance, reports an operating-system error."""

OF_LANCE = re.compile(r"\.rs:\d+|LanceError")
"""Marks of an error of Lance: a place in its source, or the name of its error type."""


def refusal(error: BaseException, folder: str = "") -> str | None:
    """Return why the operating system refuses access to a folder's files; None for an error about their content."""
    text = str(error)
    found = SYSTEM_ERROR.search(text)
    number = int(found[1]) if found else error.errno if isinstance(error, OSError) else None
    if number is None or number in OF_THE_CONTENT:
        return None
    file = re.search(rf"{re.escape(folder)}/(.*?)['\":]", f"{text}:") if folder else None
    place = f"{file[1]}: " if file else ""
    return f"{place}{os.strerror(number)}: {REMEDIES.get(number, LOOK)}; nothing was lost"


def trouble(error: BaseException, options: Mapping[str, str]) -> str | None:
    """Return why object storage failed; None for a conflict, and for an error about its content."""
    text = str(error)
    if "conflict" in text.lower():
        return None
    for pattern, reason in CAUSES:
        if re.search(pattern, text):
            return reason
    if OF_CLIENT.search(text) and MISSING not in text:
        return f"its answer is not valid: {without_secrets(first_line(error), options)}"
    return None


def first_line(error: BaseException, folder: str = "") -> str:
    """Return the first line of an error, at most 300 characters.

    The place in Lance's source, and the path of the given folder, are left out.
    """
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    # Otherwise a long path would leave no room for the message, whose end is cut off.
    line = line.replace(f"{folder.lstrip('/')}/", "") if folder else line
    return re.sub(r",? ?/\S+\.rs:\d+(:\d+)?$", "", line)[:300]


SHORTEST_SECRET = 4
"""Characters of an option from which on it may be a secret. Shorter ones, such as "no", are parts of many words."""


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Remove addresses and the values of all options from a text."""
    text = re.sub(r"https?://\S+", "…", text)
    for value in sorted(options.values(), key=len, reverse=True):
        if len(value) >= SHORTEST_SECRET and value not in {"true", "false"}:
            text = text.replace(value, "…")
    return text


class Objects:
    """Objects below a URI, by names relative to it."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        from lance.file import LanceFileSession

        self._session = LanceFileSession(uri, storage_options=dict(options) or None)

    def names(self, folder: str) -> list[str]:
        """Return the names of all objects below a folder, without the path."""
        return [name.rpartition("/")[2] for name in self._session.list(folder)]

    def set_aside(self, folder: str, table: str) -> None:
        """Move a damaged table to a new name. Nothing is deleted before the copy is complete."""
        taken = sum(name.startswith(f"{table}{ASIDE}") for name in self._folders())
        names = sorted(self._session.list(folder))
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                local = Path(scratch) / "object"
                self._session.download_file(name, local)
                self._session.upload_file(local, name.replace(folder, f"{table}{ASIDE}{taken + 1}", 1))
        self._delete(names)

    def drop_set_aside(self) -> None:
        """Delete all tables that were set aside."""
        for folder in self._folders():
            if ASIDE in folder:
                self._delete(self._session.list(folder))

    def _folders(self) -> Iterator[str]:
        yield from self._session.list_with_delimiter().common_prefixes

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self._session.delete_file(name)
