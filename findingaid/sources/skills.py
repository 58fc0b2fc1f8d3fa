"""Agent skills: folders with a SKILL.md. An artifact is a skill, its id the folder's name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from annotated_types import Gt, MinLen

from findingaid.errors import ReadError, SourceError
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.protocols import BundledFile
from findingaid.registry import checked
from findingaid.sources.addresses import Address, ConfigRoot, StorageOptions
from findingaid.sources.files import Files
from findingaid.text.decoding import decode
from findingaid.text.front_matter import FrontMatter
from findingaid.text.titles import as_title

FILES = "[Ss][Kk][Ii][Ll][Ll].[Mm][Dd]"
"""Names of a skill's file. The specification has SKILL.md, and its reference library also reads skill.md."""

NAMED = 20
"""Number of files that an error message lists."""


@checked
@dataclass(frozen=True)
class Skills:
    """Every folder below `roots` that holds a SKILL.md. If two have the same name, the one of the earlier root is kept.

    The payload is a mapping of name, description, body and parent (the folder that contains the skill's). Listing reads
    no file, so the id is the folder's name and not the name in the front matter.
    """

    roots: Annotated[tuple[ConfigRoot, ...], MinLen(1)]
    hidden: bool = False
    max_bytes: Annotated[int, Gt(0)] = 1_000_000
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    default_strategy: ClassVar[Mapping[str, Any]] = {"name": "Skill"}

    @property
    def readers(self) -> int:
        """Best number of skills to read at once."""
        return min(files.readers for files in self._below)

    def watched(self) -> list[Path]:
        """Return the roots that are on this machine."""
        return [path for files in self._below for path in files.watched()]

    def leave_out(self, own: Iterable[str]) -> None:
        """Never list these files and folders, which the program itself writes."""
        for files in self._below:
            files.leave_out(own)

    def discover(self) -> Discovery:
        self._places.clear()
        listings: list[Listing] = []
        failures: list[Failure] = []
        unknown = False
        emptied: dict[str, float] = {}
        for files in self._below:
            found = files.discover()
            for listing in found.listings:
                place = _Place(files, listing.artifact_id)
                first = self._places.setdefault(place.name, place)
                if first is place:
                    listings.append(place.listing(listing))
                else:
                    message = f"duplicate skill {place.name!r} (first at {first}); keeping the first"
                    failures.append(Failure(str(place), "artifacts", "duplicate", message))
            failures += self._failures(files, found.failures)
            unknown = unknown or bool(found.unknown)
            emptied |= {os.path.join(files.place(folder), ""): changed for folder, changed in found.emptied.items()}
        # It is not known which skills are in a folder that cannot be listed, so none is taken for deleted.
        listings.sort(key=lambda x: x.artifact_id)
        return Discovery(listings, failures, ("",) if unknown else (), emptied=emptied)

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a skill as `discover` lists it now; None if it is gone. Raises SourceError."""
        try:
            place = self._place(artifact_id)
        except ReadError:
            return None
        found = place.files.listing(place.path)
        return found and place.listing(found)

    def read(self, artifact_id: str) -> Artifact:
        place = self._place(artifact_id)
        text, _, notes = decode(place.files.payload(place.path))
        front = FrontMatter.of(text)
        name = str(front.fields.get("name") or place.name)
        description = front.fields.get("description")
        if front.problem or not isinstance(description, str) or not description.strip():
            problem = front.problem or "has no description"
            raise ReadError(f"{place}:{front.line}: the front matter {problem}", "parse")
        body = text[front.end :].strip()
        raw = {"name": name, "description": description.strip(), "body": body, "parent": place.parent}
        metadata = {"title": as_title(name), "parent": place.parent, "path": place.path}
        return Artifact(artifact_id, raw, metadata, (*notes, *front.notes))

    def bundled(self, artifact_id: str) -> tuple[Sequence[BundledFile], Sequence[str]]:
        """Return the other files in the skill's folder, and a message for each file or folder that failed.

        Files of nested skills are left out. Raises ReadError if the skill or its folder is gone.
        """
        files, start = self._around(self._place(artifact_id))
        try:
            found = files.discover()
        except SourceError as error:
            raise ReadError(f"its folder no longer exists: {error}", "missing") from None
        listed = [replace(x, artifact_id=x.artifact_id[len(start) :]) for x in found.listings if _in(start, x)]
        skills = {path.parent for path in map(PurePosixPath, (x.artifact_id for x in listed)) if is_skill(path)}
        skills.discard(PurePosixPath())
        bundled = [
            BundledFile(x.artifact_id, x.size)
            for x in listed
            if not is_skill(path := PurePosixPath(x.artifact_id)) and skills.isdisjoint(path.parents)
        ]
        return bundled, [f"{x.artifact_id[len(start) :]}: {x.message}" for x in found.failures if _in(start, x)]

    def bundled_text(self, artifact_id: str, path: str) -> str:
        listed, _ = self.bundled(artifact_id)
        if path not in {file.path for file in listed}:
            known = ", ".join(file.path for file in listed[:NAMED]) + (", …" if len(listed) > NAMED else "")
            raise ReadError(f"no bundled file {path!r}. Known: {known or 'none'}", "missing")
        files, start = self._around(self._place(artifact_id))
        return decode(files.payload(start + path)).text

    def _place(self, artifact_id: str) -> _Place:
        """Return the place of a skill. Raises ReadError for an unknown one."""
        if artifact_id not in self._places:
            self.discover()
        if (place := self._places.get(artifact_id)) is None:
            raise ReadError("no longer exists", "missing")
        return place

    def _around(self, place: _Place) -> tuple[Files, str]:
        """Return the files around a SKILL.md, and the prefix of their paths."""
        return place.files.below("" if place.folder == PurePosixPath() else str(place.folder))

    def _failures(self, files: Files, failures: Sequence[Failure]) -> Iterator[Failure]:
        """Yield failures under the names of their skills, or under their paths if the name belongs to another skill."""
        for failure in failures:
            place = _Place(files, failure.artifact_id)
            artifact_id = str(place) if place.name in self._places else place.name
            yield replace(failure, artifact_id=artifact_id, message=f"{place}: {failure.message}")

    @cached_property
    def _below(self) -> list[Files]:
        only, options = (f"**/{FILES}",), self.storage_options
        return [Files(root, only, (), self.hidden, self.max_bytes, options) for root in self.roots]

    @cached_property
    def _places(self) -> dict[str, _Place]:
        return {}


def is_skill(path: PurePosixPath) -> bool:
    """Return whether a file is the one that describes a skill."""
    return path.name.lower() == "skill.md"


def _in(start: str, found: Listing | Failure) -> bool:
    return found.artifact_id.startswith(start)


@dataclass(frozen=True)
class _Place:
    """Path below a root, either of a SKILL.md or of a folder that could not be listed."""

    files: Files
    path: str

    @property
    def folder(self) -> PurePosixPath:
        path = PurePosixPath(self.path)
        return path.parent if is_skill(path) else path

    @property
    def name(self) -> str:
        return self.folder.name or self.root_name

    def listing(self, found: Listing) -> Listing:
        """Return the listing of the skill from that of its file, of which a move changes nothing."""
        stamp = found.stamp and f"{self}:{found.stamp}"
        return replace(found, artifact_id=self.name, stamp=stamp)

    @property
    def parent(self) -> str:
        """The folder that contains the skill's folder: its path below the root, or the root's own name."""
        return self.root_name if self.folder.parent == PurePosixPath() else str(self.folder.parent)

    @property
    def root_name(self) -> str:
        root = self.files.root
        return root.name if isinstance(root, Address) else Path(root).resolve().name

    def __str__(self) -> str:
        return self.files.place(self.path)
