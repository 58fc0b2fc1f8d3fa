"""Python packages: the distributions installed in this environment, or the projects in a folder of repositories."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from typing import Annotated, Any, ClassVar

from annotated_types import Gt

from findingaid.errors import ReadError
from findingaid.identity import text_hash
from findingaid.model import Artifact, Discovery, Listing
from findingaid.registry import STRICT, ConfigPath
from findingaid.sources.repositories import Repositories, dependencies, normalised


@dataclass(frozen=True)
class Packages:
    """Every distribution on this interpreter's path, its id the normalised name; of two the first, as `import` does.

    With `root`, the folders below it that hold a pyproject.toml instead, the id being the folder's name.
    """

    root: ConfigPath | None = None
    max_bytes: Annotated[int, Gt(0)] = 20_000_000
    __pydantic_config__: ClassVar = STRICT

    def discover(self) -> Discovery:
        if self._repositories:
            return self._repositories.discover()
        first: dict[str, Listing] = {}
        for name, listing in self._installed():
            first.setdefault(name, listing)
        return Discovery([first[name] for name in sorted(first)])

    def read(self, artifact_id: str) -> Artifact:
        if self._repositories:
            return self._repositories.read(artifact_id)
        try:
            found = distribution(artifact_id)
        except PackageNotFoundError:
            raise ReadError("no longer installed", "missing") from None
        raw = package_of(found)
        if (size := len(raw["readme"].encode("utf-8", "surrogatepass"))) > self.max_bytes:
            raise ReadError(f"readme of {size:,} bytes, more than source.max_bytes = {self.max_bytes:,}", "too_large")
        return Artifact(artifact_id, raw, {"title": raw["name"], "version": found.version})

    @cached_property
    def _repositories(self) -> Repositories | None:
        return Repositories(self.root, self.max_bytes) if self.root else None

    def _installed(self) -> Iterator[tuple[str, Listing]]:
        for found in distributions():
            metadata = found.read_text("METADATA") or found.read_text("PKG-INFO")
            name = _header(metadata, "Name") if metadata else None
            if metadata and name:
                yield (
                    (key := normalised(name)),
                    Listing(key, f"{_header(metadata, 'Version')}:{text_hash(metadata)}", len(metadata)),
                )


def package_of(found: Distribution) -> dict[str, Any]:
    """A distribution's metadata as the fields that the Package strategy knows."""
    metadata: Message = found.metadata  # type: ignore[assignment]  # PackageMetadata is an email.message.Message
    readme = metadata.get("Description") or str(metadata.get_payload() or "")
    return {
        "name": metadata["Name"],
        "description": metadata.get("Summary") or "",
        "readme": readme if readme.strip() not in {"", "UNKNOWN"} else "",
        "readme_type": (metadata.get("Description-Content-Type") or "text/plain").split(";")[0].strip(),
        "owner": metadata.get("Author") or metadata.get("Author-email") or metadata.get("Maintainer-email") or "",
        "deps": dependencies(found.requires or ()),
    }


def _header(metadata: str, name: str) -> str | None:
    """One header by a search, since parsing every METADATA whole costs seconds for a large environment."""
    found = re.search(rf"^{name}:[ \t]*(.+?)[ \t]*$", metadata, re.MULTILINE | re.IGNORECASE)
    return found.group(1) if found else None
