"""The Python distributions installed in this environment; an artifact is a package, its id the normalised name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from typing import Any, ClassVar

from findingaid.errors import ReadError
from findingaid.identity import text_hash
from findingaid.model import Artifact, Discovery, Listing
from findingaid.registry import STRICT


@dataclass(frozen=True)
class Packages:
    """Every distribution on this interpreter's path; of two with one name the first found, as `import` does."""

    __pydantic_config__: ClassVar = STRICT

    def discover(self) -> Discovery:
        first: dict[str, Listing] = {}
        for name, listing in self._installed():
            first.setdefault(name, listing)
        return Discovery([first[name] for name in sorted(first)])

    def read(self, artifact_id: str) -> Artifact:
        try:
            found = distribution(artifact_id)
        except PackageNotFoundError:
            raise ReadError("no longer installed", "missing") from None
        return Artifact(artifact_id, raw := package_of(found), {"title": raw["name"], "version": found.version})

    def _installed(self) -> Iterator[tuple[str, Listing]]:
        for found in distributions():
            metadata = found.read_text("METADATA") or found.read_text("PKG-INFO")
            name = _header(metadata, "Name") if metadata else None
            if metadata and name:
                yield (
                    (key := normalised(name)),
                    Listing(key, f"{_header(metadata, 'Version')}:{text_hash(metadata)}", len(metadata)),
                )


def normalised(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


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
        "deps": sorted({normalised(re.split(r"[^\w.-]", dep, maxsplit=1)[0]) for dep in found.requires or ()}),
    }


def _header(metadata: str, name: str) -> str | None:
    """One header by a search, since parsing every METADATA whole costs seconds for a large environment."""
    found = re.search(rf"^{name}:[ \t]*(.+?)[ \t]*$", metadata, re.MULTILINE | re.IGNORECASE)
    return found.group(1) if found else None
