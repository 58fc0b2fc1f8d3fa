"""Edges of a published version.

Wiki links are resolved here and not when they are indexed, since any other artifact may change what a name leads to.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import orjson

from findingaid.store.sql import any_of, both, equals, of_artifacts
from findingaid.text.wiki_links import OPEN, wiki_name

if TYPE_CHECKING:
    from lance import LanceDataset

    from findingaid.query.search.reader import Key, Reader

SOURCE, TARGET = ("corpus", "artifact_id"), ("target_corpus", "target_id")
"""Columns of the two ends of an edge."""

EDGE_COLUMNS = (*SOURCE, *TARGET, "kind", "section", "position", "span_start", "span_end")

NOTE_SUFFIXES = (".md", ".markdown")
"""Ends of file names that wiki links leave out."""

IS_WIKI_LINK = f"starts_with(target_id, '{OPEN}')"


@dataclass(frozen=True)
class NoteNames:
    """Names by which the wiki links of a corpus name its artifacts; letter case counts only among several.

    A name leads to the artifact with that path, else to one whose path ends so, else to one with that alias. Of
    several, one in or below the folder of the linking note comes first, then the one with the shortest path, then the
    one that is written as the link is.
    """

    artifacts: LanceDataset
    edges: LanceDataset
    corpus: str

    def find(self, name: str, source: str) -> str | None:
        """Return the id of the artifact that a name leads to from the artifact `source`, or None."""
        wanted = _key(name)
        if wanted.startswith(("./", "../")):
            wanted = posixpath.normpath(posixpath.join("/", posixpath.dirname(_key(source)), wanted))
        found = [i for i in self._by_last_part.get(_last(wanted), ()) if any(_ends(p, wanted) for p in _paths(i))]
        folder = source[: source.rfind("/") + 1]
        return min(
            found or self._by_alias.get(wanted, ()),
            key=lambda i: (
                wanted.lstrip("/") not in _paths(i),
                not i.startswith(folder),
                len(i),
                _last(normalize("NFC", name)) not in normalize("NFC", i),
                i,
            ),
            default=None,
        )

    def spelled(self, artifact_id: str) -> str:
        """Return the id of the artifact that this names in any form of Unicode; itself if there is none."""
        found = self._by_spelling
        return found.get(artifact_id) or found.get(normalize("NFC", artifact_id), artifact_id)

    def targets(self, artifact_id: str) -> list[str]:
        """Return the targets of wiki links that may lead to an artifact, depending on where the links are."""
        names = {*map(_last, _paths(artifact_id)), *self._aliases.get(artifact_id, ())} if self._linked else ()
        return sorted({target for name in names for target in self._linked.get(name, ())})

    @cached_property
    def _linked(self) -> Mapping[str, Collection[str]]:
        """Map the name in a wiki link, and the last part of it, to targets."""
        rows = self.edges.to_table(columns=[TARGET[1]], filter=both(equals(TARGET[0], self.corpus), IS_WIKI_LINK))
        found = defaultdict[str, list[str]](list)
        for target in rows[TARGET[1]].unique().to_pylist():
            key = _key(wiki_name(target))
            for name in {key, _last(key)}:
                found[name].append(target)
        return found

    @cached_property
    def _by_last_part(self) -> Mapping[str, Sequence[str]]:
        return _inverted((i, map(_last, _paths(i))) for i in self._ids)

    @cached_property
    def _by_spelling(self) -> Mapping[str, str]:
        ids = [i for i in self._ids if not i.isascii()]
        return {normalize("NFC", i): i for i in ids} | {i: i for i in ids}

    @cached_property
    def _ids(self) -> Sequence[str]:
        rows = self.artifacts.to_table(columns=[SOURCE[1]], filter=equals(SOURCE[0], self.corpus))
        return sorted(rows[SOURCE[1]].to_pylist())

    @cached_property
    def _by_alias(self) -> Mapping[str, Sequence[str]]:
        return _inverted(self._aliases.items())

    @cached_property
    def _aliases(self) -> Mapping[str, Sequence[str]]:
        of = both(equals(SOURCE[0], self.corpus), """contains(metadata, '"aliases"')""")
        rows = self.artifacts.to_table(columns=[SOURCE[1], "metadata"], filter=of).to_pylist()
        said = {row[SOURCE[1]]: orjson.loads(row["metadata"]).get("aliases") for row in rows}
        return {
            i: [_key(one) for one in names if isinstance(one, str)]
            for i, names in said.items()
            if isinstance(names, list)
        }


def _key(name: str) -> str:
    return normalize("NFC", name).casefold()


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _ends(path: str, wanted: str) -> bool:
    """Return whether a path is the one that is wanted, or ends with it unless that begins at the root."""
    return f"/{path}" == wanted or f"/{path}".endswith(f"/{wanted}")


def _paths(artifact_id: str) -> set[str]:
    """Return the path of an artifact as links may say it: with its suffix and, for a note, without."""
    path = _key(artifact_id)
    return {path, *(path.removesuffix(suffix) for suffix in NOTE_SUFFIXES)}


def _inverted(pairs: Iterable[tuple[str, Iterable[str]]]) -> Mapping[str, Sequence[str]]:
    found = defaultdict[str, list[str]](list)
    for artifact_id, names in pairs:
        for name in set(names):
            found[name].append(artifact_id)
    return found


def read_edges(
    reader: Reader, along: Collection[Key] = (), against: Collection[Key] = (), where: str | None = None
) -> list[dict[str, Any]]:
    """Return the edges that lead from the artifacts `along`, and those that lead to the artifacts `against`."""
    ends = {(corpus, normalize(form, i)) for corpus, i in against for form in ("NFC", "NFD")} | {*against}
    ends |= {(corpus, target) for corpus, i in against for target in reader.note_names(corpus).targets(i)}
    parts = [of_artifacts(along)] * bool(along) + [of_artifacts(ends, *TARGET)] * bool(ends)
    if not parts:
        return []
    rows = reader.beside("edges").to_table(columns=list(EDGE_COLUMNS), filter=both(any_of(*parts), where)).to_pylist()
    found = with_ends(reader, rows)
    return [row for row in found if _end(row, SOURCE) in along or _end(row, TARGET) in against]


def with_ends(reader: Reader, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield edges with the id of the artifact that they lead to as `target_id`, and the name in a wiki link as `link`.

    A wiki link that leads nowhere keeps its target; those that lead to their own note are left out.
    """
    for row in rows:
        row["link"] = wiki_name(row[TARGET[1]])
        if row["link"]:
            found = reader.note_names(row[TARGET[0]]).find(row["link"], row[SOURCE[1]])
            row[TARGET[1]] = found or row[TARGET[1]]
        elif not row[TARGET[1]].isascii():
            row[TARGET[1]] = reader.note_names(row[TARGET[0]]).spelled(row[TARGET[1]])
        if not row["link"] or _end(row, SOURCE) != _end(row, TARGET):
            yield row


def _end(row: Mapping[str, Any], columns: tuple[str, str]) -> Key:
    return row[columns[0]], row[columns[1]]
