"""Python packages: distributions installed in this environment, or projects in a folder of repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Gt

from findingaid.errors import ReadError, SourceError, one_line
from findingaid.identity.hashes import text_hash
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.registry import ConfigPath, checked
from findingaid.sources.patterns import shown_name
from findingaid.sources.repositories import Repositories, dependencies, normalise_package_name
from findingaid.text.titles import as_title


@checked
@dataclass(frozen=True)
class Packages:
    """Every distribution on this interpreter's path, or with `root` every project in a folder of repositories.

    The id of a distribution is its normalized name; of duplicates the first is taken, as `import` does. With `root`,
    every folder below it that holds a pyproject.toml is an artifact, and its id is the folder's name.
    """

    root: ConfigPath | None = None
    max_bytes: Annotated[int, Gt(0)] = 20_000_000
    default_strategy: ClassVar[Mapping[str, Any]] = {"name": "Package"}

    def discover(self) -> Discovery:
        if self._repositories:
            return self._repositories.discover()
        first: dict[str, Listing] = {}
        failures: dict[str, Failure] = {}
        for found in distributions():
            try:
                listing = _listing(found)
                _require_findable(found, listing.artifact_id)
            except (OSError, ValueError, ReadError) as error:
                problem = f"its metadata cannot be read: {one_line(error)}"
                failed_id = _id_by_folder(found)
                failures.setdefault(failed_id, Failure(failed_id, "artifacts", "unreadable", problem))
            else:
                first.setdefault(listing.artifact_id, listing)
        unlisted = [failure for failed_id, failure in failures.items() if failed_id not in first]
        return Discovery([first[name] for name in sorted(first)], unlisted)

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a package as `discover` lists it now; None if it is gone. Raises SourceError."""
        if self._repositories:
            return self._repositories.listing(artifact_id)
        try:
            return _listing(_installed(artifact_id))
        except PackageNotFoundError:
            return None
        except (OSError, ValueError, ReadError) as error:
            raise SourceError(f"{artifact_id}: its metadata cannot be read: {one_line(error)}") from None

    def read(self, artifact_id: str) -> Artifact:
        if self._repositories:
            return self._repositories.read(artifact_id)
        try:
            found = _installed(artifact_id)
        except PackageNotFoundError:
            raise ReadError("no longer installed", "missing") from None
        raw = package_of(found)
        if (size := len(raw["readme"].encode("utf-8", "surrogatepass"))) > self.max_bytes:
            raise ReadError(f"readme of {size:,} bytes, more than source.max_bytes = {self.max_bytes:,}", "too_large")
        return Artifact(artifact_id, raw, {"title": as_title(raw["name"]), "version": found.version})

    def watched(self) -> list[Path]:
        """Return the folder of the repositories; none for installed packages, which change rarely."""
        return [self.root] if self.root else []

    @cached_property
    def _repositories(self) -> Repositories | None:
        return Repositories(self.root, self.max_bytes) if self.root else None


def _installed(artifact_id: str) -> Distribution:
    """Return the installation that `discover` lists: the first whose metadata can be read, or else the first.

    Raises PackageNotFoundError.
    """
    first = distribution(artifact_id)
    for found in distributions(name=artifact_id):
        with suppress(OSError, ValueError, ReadError):
            _listing(found)
            return found
    return first


def _listing(found: Distribution) -> Listing:
    """Return the listing of a distribution. Raises ReadError for one without a name, OSError and ValueError."""
    metadata = found.read_text("METADATA") or found.read_text("PKG-INFO") or found.read_text("") or ""
    name = _header(metadata, "Name")
    if not name:
        raise ReadError("it has no name: install it again, or remove what is left of it", "unreadable")
    required = found.read_text("requires.txt") or ""  # what an egg-info requires is not in its PKG-INFO
    stamp = f"{_header(metadata, 'Version')}:{text_hash(metadata + required)}"
    return Listing(normalise_package_name(name), stamp, len(metadata))


def _require_findable(found: Distribution, artifact_id: str) -> None:
    """Raise ReadError for a distribution that is not found by its name: another may be read in its place.

    An upgrade that broke off leaves such folders: "~umpy-1.26.4.dist-info".
    """
    if _folder(found) not in map(_folder, distributions(name=artifact_id)):
        raise ReadError(
            f"its folder is not named for {artifact_id!r}: remove it, or install the package again", "other"
        )


def _folder(found: Distribution) -> Any:
    return getattr(found, "_path", None)


def _id_by_folder(found: Distribution) -> str:
    """Return the id of a distribution by its folder, such as "my_package-1.0.dist-info"."""
    folder = _folder(found)
    return normalise_package_name(shown_name(folder.name).partition("-")[0]) if folder else "a package without a folder"


def package_of(found: Distribution) -> dict[str, Any]:
    """Return a distribution's metadata as the fields that the Package strategy reads."""
    metadata: Message = found.metadata  # type: ignore[assignment]  # PackageMetadata is an email.message.Message
    if not metadata["Name"]:
        raise ReadError("its metadata do not begin with headers: install it again", "unreadable")
    return {
        "name": metadata["Name"],
        "description": _known(metadata.get("Summary")),
        "readme": _known(metadata.get("Description")) or _known(str(metadata.get_payload() or "")),
        "readme_type": (metadata.get("Description-Content-Type") or "text/plain").split(";")[0].strip(),
        "owner": _known(metadata.get("Author"))
        or _known(metadata.get("Author-email"))
        or _known(metadata.get("Maintainer-email")),
        "deps": dependencies(found.requires or ()),
    }


def _known(value: str | None) -> str:
    """Return a value; "" for none, and for the word that older versions of setuptools wrote for none."""
    return value if value and value.strip() not in {"", "UNKNOWN"} else ""


def _header(metadata: str, name: str) -> str | None:
    """Return one header by a regex search: parsing every METADATA file whole takes seconds in a large environment."""
    found = re.search(rf"^{name}:(.+)$", metadata.partition("\n\n")[0], re.MULTILINE | re.IGNORECASE)
    return found[1].strip(" \t") or None if found else None
