"""The Python projects in a folder of repositories, as the packages they make."""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from findingaid.errors import ReadError, SourceError
from findingaid.identity import content_hash
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.sources.files import RACY_NANOSECONDS, Files, decode

PROJECT = "pyproject.toml"

README_TYPES = {".md": "text/markdown", ".markdown": "text/markdown", ".rst": "text/x-rst"}


@dataclass(frozen=True)
class Repositories:
    """Every folder directly below `root` that holds a pyproject.toml; the id is the folder's name."""

    root: Path
    max_bytes: int

    def discover(self) -> Discovery:
        listings: list[Listing] = []
        failures: list[Failure] = []
        try:
            names = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        except OSError as error:
            raise SourceError(f"source.root: {self.root}: {error.strerror or error}") from error
        now = time.time_ns()
        for name in names:
            if name.startswith("."):
                continue
            try:
                name.encode()
                listings += self._listing(name, now)
            except UnicodeEncodeError:
                shown = os.fsencode(name).decode("utf-8", "backslashreplace")
                failures.append(Failure(shown, "artifacts", "encoding", "folder name is not valid UTF-8: rename it"))
            except OSError as error:
                message = f"folder cannot be listed: {error.strerror or error}"
                failures.append(Failure(name, "artifacts", "unreadable", message))
        return Discovery(listings, failures)

    def _listing(self, name: str, now: int) -> list[Listing]:
        """A stamp over all files beside the pyproject.toml, since any of them may be the readme it names."""
        stats = {e.name: e.stat() for e in os.scandir(self.root / name) if e.is_file()}
        if PROJECT not in stats:
            return []
        marks = {key: (s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for key, s in stats.items()}
        newest = max(max(s.st_mtime_ns, s.st_ctime_ns) for s in stats.values())
        racy = now - newest < RACY_NANOSECONDS
        stamp = content_hash(sorted((os.fsencode(key).hex(), mark) for key, mark in marks.items()))
        return [Listing(name, stamp + "?" * racy, stats[PROJECT].st_size)]

    def read(self, artifact_id: str) -> Artifact:
        where = f"{artifact_id}/{PROJECT}"
        try:
            parsed = tomllib.loads(self._files.payload(where).decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ReadError(f"{where}: no TOML: {error}", "parse") from error
        poetry = _mapping(_mapping(parsed.get("tool")).get("poetry"))
        project = _mapping(parsed.get("project")) or poetry
        if not project:
            raise ReadError(f"{where}: no [project] table", "parse")
        readme, readme_type = self._readme(artifact_id, project.get("readme"))
        raw = {
            "name": str(project.get("name") or artifact_id),
            "description": str(project.get("description") or ""),
            "readme": readme,
            "readme_type": readme_type,
            "owner": _owner(project.get("authors")) or _owner(project.get("maintainers")),
            "deps": dependencies([*_list(project.get("dependencies")), *_mapping(poetry.get("dependencies"))]),
        }
        metadata = {"title": raw["name"], "version": str(project.get("version") or ""), "path": artifact_id}
        return Artifact(artifact_id, raw, metadata)

    def _readme(self, folder: str, named: Any) -> tuple[str, str]:
        """The readme that the project names, if it stands beside the pyproject.toml, else one called so."""
        table = _mapping(named)
        if isinstance(text := table.get("text"), str):
            return text, str(table.get("content-type") or "text/plain")
        beside = {e.name for e in os.scandir(self.root / folder) if e.is_file()}
        usual = sorted(name for name in beside if name.lower().split(".")[0] == "readme")
        name = named if isinstance(named, str) else table.get("file")
        found = name if name in beside else next(iter(usual), None)
        if found is None:
            return "", "text/plain"
        text, _ = decode(self._files.payload(f"{folder}/{found}"))
        guessed = README_TYPES.get(Path(found).suffix.lower(), "text/plain")
        return text, str(table.get("content-type") or guessed)

    @cached_property
    def _files(self) -> Files:
        return Files(self.root, max_bytes=self.max_bytes)


def _owner(people: Any) -> str:
    """The first of a project's people: {name, email}, or Poetry's "Name <email>"."""
    first = next(iter(_list(people)), "")
    if isinstance(first, str):
        return first.split("<")[0].strip() or first
    return str(_mapping(first).get("name") or _mapping(first).get("email") or "")


def normalised(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dependencies(requirements: Iterable[Any]) -> list[str]:
    """The names of the distributions required, each once, without Python itself, as Poetry lists it."""
    names = {normalised(re.split(r"[^\w.-]", str(required).strip(), maxsplit=1)[0]) for required in requirements}
    return sorted(names - {"", "python"})


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
