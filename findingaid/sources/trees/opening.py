"""Opening of file trees by the schemes of their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from findingaid.errors import SourceError
from findingaid.sources.addresses import BUCKETS, Address, as_root
from findingaid.sources.trees.archives import ARCHIVES, Archive, open_file
from findingaid.sources.trees.buckets import Bucket
from findingaid.sources.trees.file_systems import FileSystem, Ftp, WebDav
from findingaid.sources.trees.git import Git
from findingaid.sources.trees.tree import WEB, Tree
from findingaid.sources.trees.web import Web

INSTALL = {
    "obstore": (BUCKETS, "remote"),
    "aiohttp": (WEB, "remote"),
    "pygit2": ({"git"}, "git"),
    "requests": ({"github"}, "remote"),
}
"""Map each package to the schemes that need it, and to the extra that installs it."""


def open_tree(address: Address, options: Mapping[str, Any]) -> Tree:
    """Open a tree. Raises SourceError if a package is missing, and any exception of the file system."""
    first, _, rest = address.partition("::")
    scheme, _, inside = first.partition("://")
    try:
        if rest and scheme in ARCHIVES.values():
            outside = as_root(rest)
            opened = open_tree(outside, options).opened() if isinstance(outside, Address) else open_file(outside)
            return Archive(scheme, inside, outside, opened)
        if scheme in BUCKETS:
            return Bucket(address, options)
        if scheme in WEB:
            return Web(address, options)
        if scheme in {"webdav", "dav"}:
            return WebDav(address, options)
        if scheme == "ftp":
            return Ftp(address, options)
        if scheme == "git":
            return Git(inside)
        return FileSystem(address, options)
    except ImportError as error:
        missing = (
            f"needs {p}: pip install 'findingaid[{extra}]'" for p, (of, extra) in INSTALL.items() if scheme in of
        )
        needs = next(missing, " ".join(str(error).split()))
        raise SourceError(f"source.root: {address.shown}: {needs}") from None
