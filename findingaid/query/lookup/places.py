"""Places of hits on this machine: the file and the line, as an editor or a terminal takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from findingaid.corpus import Corpus
from findingaid.model import Artifact, Hit
from findingaid.query.search.reader import Reader
from findingaid.store.sql import one_of


@runtime_checkable
class HasLocation(Protocol):
    """Source that knows where its artifacts are, such as in files."""

    def place(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Location:
    """Place of a hit: its file on this machine, "" if there is none, and the line, from 1; None if it is unknown.

    `part` is the place in a document that has no lines, see `Hit`. `inside` is the rest of the artifact's path, from
    "/" on, if the file holds several artifacts, as a mailbox does.
    """

    corpus: str
    artifact_id: str
    path: str = ""
    line: int | None = None
    part: str = ""
    inside: str = ""

    def __str__(self) -> str:
        """Return path and place, the path relative to the working folder if that is shorter; else corpus and id."""
        name = (_shortest(self.path) if self.path else f"{self.corpus}/{self.artifact_id}") + self.inside
        return f"{name}:{self.line}" if self.line else ", ".join(filter(None, (name, self.part)))


def _shortest(path: str) -> str:
    with suppress(OSError):  # the working folder was deleted
        return min(path, os.path.relpath(path), key=len)
    return path


def locate_hits(reader: Reader, corpora: Mapping[str, Corpus], hits: Sequence[Hit]) -> list[Location]:
    """Return the place of each hit.

    Only a text that the source has as it is has lines, not one converted from a document or composed of fields.
    """
    within = one_of("corpus", sorted({hit.corpus for hit in hits})) if hits else ""
    known = reader.artifacts({hit.artifact_id for hit in hits}, within) if hits else {}
    artifacts = {key: artifact for key, (artifact, _) in known.items()}
    return [_locate(corpora.get(hit.corpus), artifacts.get((hit.corpus, hit.artifact_id)), hit) for hit in hits]


def _locate(corpus: Corpus | None, artifact: Artifact | None, hit: Hit) -> Location:
    if artifact is None:
        return Location(hit.corpus, hit.artifact_id, part=hit.place)
    path = file_of(corpus, artifact)
    inside = _inside(path, artifact)
    text = artifact.raw
    if inside or not isinstance(text, str) or "text_type" in artifact.metadata or hit.span is None:
        return Location(hit.corpus, hit.artifact_id, path, part=hit.place, inside=inside)
    start, end = hit.span
    known = text[start:end] in {hit.text, hit.metadata.get("quote")}  # else the hit is of an earlier version
    line = line_of(text, start) if known else None
    return Location(hit.corpus, hit.artifact_id, path, None if hit.place else line, hit.place)


def _inside(path: str, artifact: Artifact) -> str:
    """Return the part of an artifact's path that is not in the path of its file, but names a part of the file."""
    own, inside, file = str(artifact.metadata.get("path") or artifact.artifact_id), "", Path(path).as_posix()
    while path and own and not f"/{file}".endswith(f"/{own}"):
        own, _, name = own.rpartition("/")
        inside = f"/{name}{inside}"
    return inside if own else ""


def source_url(source: object, artifact_id: str) -> str:
    """Return the URL of an artifact in its source: that of its file, or of its page on the web; "" without either."""
    if not isinstance(source, HasLocation):
        return ""
    place = source.place(artifact_id)
    if place.startswith(("https://", "http://")):
        return place
    return Path(place).absolute().as_uri() if os.path.isfile(place) else ""


def file_of(corpus: Corpus | None, artifact: Artifact) -> str:
    """Return the file of an artifact on this machine; "" if there is none."""
    if corpus is None or not isinstance(corpus.source, HasLocation):
        return ""
    path = corpus.source.place(str(artifact.metadata.get("path") or artifact.artifact_id))
    return path if os.path.isfile(path) else ""


def line_of(text: str, start: int) -> int:
    """Return the line of a position in a text, counted from 1."""
    return text.count("\n", 0, start) + 1


def span_of_line(text: str, line: int) -> tuple[int, int] | None:
    """Return the span of a line of a text, without its end; None if the text has fewer lines."""
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return None
    start = sum(len(each) + 1 for each in lines[: line - 1])
    return start, start + len(lines[line - 1])
