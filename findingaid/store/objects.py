"""Object storage below a store: what its errors mean, without secrets, and what no call of a table does.

Everything goes through Lance's own client, so that one set of options and variables serves all.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ASIDE = ".damaged-"
"""Stands between the name of a damaged table and a number, in the name it is kept under."""

CAUSES = (
    (r"NoSuchBucket|ContainerNotFound", "the bucket does not exist: create it, or correct `store`"),
    (
        r"status code: 40[13]|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|ExpiredToken",
        "the credentials are refused: check the key in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in"
        " `storage_options`, and what it may do with the bucket",
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
    (r"did not match any known pattern", "no bucket in the URI: write s3://BUCKET/PREFIX"),
)
"""What the errors of Lance's client say -> what is wrong and what to do; the first that fits."""

MISSING = "404 Not Found"
"""One object that is not there is not the storage's fault."""


def trouble(error: BaseException, options: Mapping[str, str]) -> str | None:
    """Why object storage did not do what was asked; None for an error that is about what it holds."""
    text = str(error)
    if "conflict" in text.lower():
        return None
    for pattern, reason in CAUSES:
        if re.search(pattern, text):
            return reason
    if "Error performing" in text and MISSING not in text:
        return f"it does not answer as it should: {without_secrets(first_line(error), options)}"
    return None


def first_line(error: BaseException, folder: str = "") -> str:
    """What an error says, without where in Lance's source it says so, and without a folder that is known."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    # Else a long path would leave no room for what is said of it, before the end is cut off.
    line = line.replace(f"{folder.lstrip('/')}/", "") if folder else line
    return re.sub(r",? ?/\S+\.rs:\d+(:\d+)?$", "", line)[:300]


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """A text without addresses and without the value of any option."""
    text = re.sub(r"https?://\S+", "…", text)
    for value in sorted(options.values(), key=len, reverse=True):
        if value not in {"true", "false"}:
            text = text.replace(value, "…")
    return text


class Objects:
    """The objects below a URI, as names relative to it."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        from lance.file import LanceFileSession

        self._session = LanceFileSession(uri, storage_options=dict(options) or None)

    def set_aside(self, folder: str, table: str) -> None:
        """Move a damaged table to a name of its own. A copy is whole before anything is deleted."""
        taken = sum(name.startswith(f"{table}{ASIDE}") for name in self._folders())
        names = sorted(self._session.list(folder))
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                local = Path(scratch) / "object"
                self._session.download_file(name, local)
                self._session.upload_file(local, name.replace(folder, f"{table}{ASIDE}{taken + 1}", 1))
        self._delete(names)

    def drop_set_aside(self) -> None:
        """Delete all that was ever set aside."""
        for folder in self._folders():
            if ASIDE in folder:
                self._delete(self._session.list(folder))

    def _folders(self) -> Iterator[str]:
        yield from self._session.list_with_delimiter().common_prefixes

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self._session.delete_file(name)
