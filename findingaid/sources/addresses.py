"""Roots of sources: local folders, or URLs whose credentials are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import BeforeValidator, ValidationInfo

HERE = "file://"

BUCKETS = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})

NO_CREDENTIALS = frozenset({"abfs", "abfss", "git", "github"})
"""Schemes whose URLs have something other than credentials before the "@"."""

LINK = re.compile(r"(?P<scheme>[\w+.-]+)://(?:(?P<user>[^/]*)@)?(?P<place>[^?]*)(?:\?(?P<query>.*))?", re.DOTALL)

SPLIT_SECRETS = re.compile(r"[:&=]")
SHORTEST_SECRET = 3
"""Minimum length of a secret.

Shorter parts of a URL are not secrets, and redacting them would leave no readable text.
"""

NO_ANSWER = "no answer"
"""Beginning of the cause when a server cannot be reached, or is silent."""

CAUSES = (
    (
        r'invalid path: .*?Path "(?P<key>[^"]*)"',
        r'an object is called "\g<key>", which the client cannot list: rename or delete it',
    ),
    (r"NoSuchBucket|ContainerNotFound", "the bucket does not exist"),
    (
        r"(status code: |: )40[13]( |, message)|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|ExpiredToken"
        r"|^PermissionDeniedError|^UnauthenticatedError",
        "access is refused: check the key, in the environment or in `storage_options`",
    ),
    (
        r"Failed to get AWS credentials|credentials? provider|CredentialProvider",
        "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run where a role gives them, or set"
        " `skip_signature: true` in `storage_options` for a public bucket",
    ),
    (r"status code: 30\d|PermanentRedirect", "the bucket is in another region: set `region` in `storage_options`"),
    (r"HTTP error: builder error", "an endpoint without TLS needs `allow_http: true` in `storage_options`"),
    (
        r"^FileNotFoundError|(status code: |: )404( |, message)|\] No such file or directory",
        "there is no such file or folder",
    ),
    (r"^\w*Timeout\w*:|: timed out", f"{NO_ANSWER} in time"),
    (r"(status code: |: )(?P<code>5\d\d)( |, message)", r"the server fails with \g<code>: try again later"),
    (
        r"HTTP error|^Client(Connector|OS)\w*Error|^Connect\w*Error|^ServerDisconnectedError|^gaierror"
        r"|^NoValidConnectionsError",
        f"{NO_ANSWER}: is the host right, running and reachable?",
    ),
)
"""Map error messages of file systems, prefixed with their type, to the cause in plain words. The first match wins."""


class Address(str):
    """URL, or several URLs chained by "::" as in fsspec. Its repr and `shown` hide credentials."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def scheme(self) -> str:
        return self.partition("::")[0].partition("://")[0]

    @property
    def shown(self) -> str:
        """The URL without credentials and query."""
        return "::".join(_shown(link) for link in self.split("::"))

    @property
    def name(self) -> str:
        """Folder-like name: the last part of the path, or of the URL that contains it."""
        parts = [part for link in self.shown.split("::") for part in reversed(link.partition("://")[2].split("/"))]
        return next((part for part in (*parts, self.shown.rpartition("/")[2]) if part), self.scheme)

    def secrets(self) -> Iterator[str]:
        """Yield the parts of the URL that must never be shown."""
        for link in self.split("::"):
            found = LINK.fullmatch(link)
            if found and found["scheme"] not in NO_CREDENTIALS and found["user"]:
                yield from (found["user"], *SPLIT_SECRETS.split(found["user"]))
            if found and found["query"]:
                yield from (found["query"], *SPLIT_SECRETS.split(found["query"]))


def _shown(link: str) -> str:
    found = LINK.fullmatch(link)
    if found is None:
        return link
    user = f"{found['user']}@" if found["user"] and found["scheme"] in NO_CREDENTIALS else ""
    return f"{found['scheme']}://{user}{found['place']}"


def credentials_in(uri: str) -> bool:
    """Return whether a URI of a store or a bucket holds a user, a password or a query.

    A secret may contain a "/". "s3://KEY:SEC/RET@BUCKET" is recognized by its ":", which no bucket name contains.
    """
    scheme, separator, place = uri.partition("://")
    if not separator or scheme == "file":
        return False
    authority = place.partition("/")[0]
    user = ("@" in authority and scheme not in NO_CREDENTIALS) or ("@" in place and ":" in authority)
    return user or "?" in place


def as_root(root: Path | str) -> Path | Address:
    """Parse a root: text that contains "://" or "::" is a URL, anything else is a path."""
    text = str(root)
    if isinstance(root, Path) or text.startswith(HERE) or not ("://" in text or "::" in text):
        return root if isinstance(root, Path) else Path(text.removeprefix(HERE))
    return Address(text)


def _configured(value: Any, info: ValidationInfo) -> Path | Address:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError(f"expected a folder or a URL, got {value!r}")  # for pydantic
    root, base = as_root(value), (info.context or {}).get("base") or Path()
    if isinstance(root, Address) and root.scheme in BUCKETS and credentials_in(root.partition("::")[0]):
        raise ValueError("holds credentials in the URL: put them into storage_options, or into the environment")
    return (
        Address("::".join(_beside(link, base) for link in root.split("::")))
        if isinstance(root, Address)
        else (base / root.expanduser())
    )


def _beside(link: str, base: Path) -> str:
    """Return one link of a chained URL; if it contains a local path, that is resolved against the folder `base`."""
    scheme, separator, place = link.partition("://")
    if not separator:
        return str(base / Path(link).expanduser()) if "/" in link or "." in link else link
    if scheme == "git":
        repository, _, inside = place.partition(":")
        return f"git://{base / Path(repository).expanduser()}:{inside}"
    return link


ConfigRoot = Annotated[Path | str, BeforeValidator(_configured)]
"""Folder or URL. In a configuration, a path in it is relative to the folder of the configuration file."""


def _named(options: Any) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise ValueError("expected names and values, as in {endpoint: ..., region: ...}")  # noqa: TRY004  # for pydantic
    return {str(name): value for name, value in options.items() if value is not None and value != ""}


StorageOptions = Annotated[Mapping[str, Any], BeforeValidator(_named)]
"""Options for the file system, next to its URL. Empty text counts as unset, so that it can stand for a default."""


def reason(error: BaseException, address: Address, options: Mapping[str, Any]) -> str:
    """Return a one-line message for a file-system error, without addresses, credentials or values of options."""
    text = f"{type(error).__name__}: {error}"
    for pattern, cause in CAUSES:
        if found := re.search(pattern, text):
            return found.expand(cause)
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    line = re.sub(r"(?<![\w+.-])[\w+.-]+://\S+", "…", line)
    for secret in sorted({*address.secrets(), *_texts(options)}, key=len, reverse=True):
        for written in (secret, unquote(secret)):
            line = line.replace(written, "…") if len(written) >= SHORTEST_SECRET else line
    return line[:300]


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts and numbers within options, which may be nested."""
    if isinstance(value, Mapping):
        for within in value.values():
            yield from _texts(within)
    elif isinstance(value, list | tuple):
        for within in value:
            yield from _texts(within)
    elif value is not None and not isinstance(value, bool) and str(value) not in {"true", "false"}:
        yield str(value)
