"""Python projects in a folder of repositories, as packages."""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from findingaid.errors import ReadError, SourceError
from findingaid.identity.hashes import content_hash
from findingaid.model import Artifact, Discovery, Failure, Listing, Note
from findingaid.sources.files import RACY_NANOSECONDS, Files, is_folder, leads_nowhere
from findingaid.sources.patterns import shown_name
from findingaid.text.decoding import decode
from findingaid.text.titles import as_title

PROJECT = "pyproject.toml"

ELSEWHERE = "the readme that pyproject.toml names is not in its folder, and is not read"

README_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".rst": "text/x-rst"}


@dataclass(frozen=True)
class Repositories:
    """Every folder directly below `root` that holds a pyproject.toml. The id is the folder's name."""

    root: Path
    max_bytes: int

    def discover(self) -> Discovery:
        self._files.resolve()
        listings: list[Listing] = []
        failures: list[Failure] = []
        emptied: dict[str, float] = {}
        try:
            entries = sorted(os.scandir(self.root), key=lambda entry: entry.name)
        except OSError as error:
            raise SourceError(f"source.root: {self.root}: {error.strerror or error}") from error
        now = time.time_ns()
        for name in (entry.name for entry in entries if is_folder(entry)):
            if name.startswith("."):
                continue
            try:
                name.encode()
                listings += self._listing(name, now)
                if not os.listdir(self.root / name):
                    found = os.stat(self.root / name)
                    emptied[f"{name}/"] = max(found.st_mtime, found.st_ctime)
            except UnicodeEncodeError:
                shown = shown_name(name)
                failures.append(Failure(shown, "artifacts", "encoding", "folder name is not valid UTF-8: rename it"))
            except OSError as error:
                message = f"folder cannot be listed: {error.strerror or error}"
                failures.append(Failure(name, "artifacts", "unreadable", message))
        unknown = [shown_name(entry.name) for entry in entries if leads_nowhere(entry)]
        return Discovery(listings, failures, unknown, emptied=emptied)

    def _listing(self, name: str, now: int) -> list[Listing]:
        """Return the listing of a folder, or [] if it has no pyproject.toml.

        The stamp covers all files in the folder, since any of them may be the readme that the project names.
        """
        stats = {e.name: e.stat() for e in os.scandir(self.root / name) if _is_file(e)}
        if PROJECT not in stats:
            return []
        marks = {key: (s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for key, s in stats.items()}
        newest = max(max(s.st_mtime_ns, s.st_ctime_ns) for s in stats.values())
        racy = now - newest < RACY_NANOSECONDS
        stamp = content_hash(sorted((os.fsencode(key).hex(), mark) for key, mark in marks.items()))
        changed = max(s.st_mtime for s in stats.values())
        return [Listing(name, stamp + "?" * racy, stats[PROJECT].st_size, changed)]

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a repository as `discover` lists it now; None if it is gone. Raises SourceError."""
        try:
            return next(iter(self._listing(artifact_id, time.time_ns())), None)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) and self.root.is_dir():
                return None
            raise SourceError(f"source.root: {self.root}: {error.strerror or error}") from error

    def read(self, artifact_id: str) -> Artifact:
        where = f"{artifact_id}/{PROJECT}"
        try:
            parsed = tomllib.loads(self._files.payload(where).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ReadError(f"{where}: not TOML: {error}", "parse") from error
        poetry = _mapping(_mapping(parsed.get("tool")).get("poetry"))
        project = _mapping(parsed.get("project")) or poetry
        if not project:
            raise ReadError(f"{where}: no [project] table", "parse")
        readme, readme_type, notes = self._readme(artifact_id, project.get("readme"))
        raw = {
            "name": str(project.get("name") or artifact_id),
            "description": str(project.get("description") or ""),
            "readme": readme,
            "readme_type": readme_type,
            "owner": _owner(project.get("authors")) or _owner(project.get("maintainers")),
            "deps": dependencies([*_list(project.get("dependencies")), *_mapping(poetry.get("dependencies"))]),
        }
        metadata = {
            "title": as_title(str(raw["name"])),
            "version": str(project.get("version") or ""),
            "path": artifact_id,
        }
        return Artifact(artifact_id, raw, metadata, notes)

    def _readme(self, folder: str, named: Any) -> tuple[str, str, Sequence[Note]]:
        """Return the text and the media type of the readme, and the notes on it.

        That is the file that the project names, if it is in the folder, or else a file called readme.

        The pyproject.toml may also contain the text itself.
        """
        table = _mapping(named)
        if isinstance(text := table.get("text"), str):
            return text, str(table.get("content-type") or "text/plain"), ()
        beside = {e.name for e in os.scandir(self.root / folder) if _is_file(e)}
        usual = sorted(name for name in beside if name.lower().split(".")[0] == "readme")
        name = named if isinstance(named, str) else table.get("file")
        found = name if name in beside else next(iter(usual), None)
        lost = [] if name is None or name == found else [Note("readme", ELSEWHERE)]
        if found is None:
            return "", "text/plain", lost
        text, _, notes = decode(self._files.payload(f"{folder}/{found}"))
        guessed = README_TYPES.get(Path(found).suffix.lower(), "text/plain")
        return text, str(table.get("content-type") or guessed), [*lost, *notes]

    @cached_property
    def _files(self) -> Files:
        return Files(self.root, max_bytes=self.max_bytes)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a regular file; a link to itself is not one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _owner(people: Any) -> str:
    """Return the name of the first person listed, as {name, email} or as Poetry's "Name <email>"."""
    first = next(iter(_list(people)), "")
    if isinstance(first, str):
        return first.split("<")[0].strip() or first
    return str(_mapping(first).get("name") or _mapping(first).get("email") or "")


def normalise_package_name(name: str) -> str:
    """Return a distribution's name in the form that package indexes compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dependencies(requirements: Iterable[Any]) -> list[str]:
    """Return the names of the required distributions, each once. Python itself, which Poetry lists, is left out."""
    names = {
        normalise_package_name(re.split(r"[^\w.-]", str(required).strip(), maxsplit=1)[0]) for required in requirements
    }
    return sorted(names - {"", "python"})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
