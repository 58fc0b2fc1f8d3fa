"""Browsing: the published artifacts, newest first, and their counts by corpus, kind of file and folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from findingaid.errors import QueryError
from findingaid.query.lookup.artifact import read_titles
from findingaid.store.sql import one_of

if TYPE_CHECKING:
    from findingaid.query.search.reader import Key, Reader

VALUES = 50
"""Maximum number of values of a facet; those with the most artifacts are kept."""

SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")


@dataclass(frozen=True, slots=True)
class FacetValue:
    """Value of a facet, and how many artifacts have it."""

    value: str
    artifacts: int


@dataclass(frozen=True, slots=True)
class ListedArtifact:
    """Published artifact and the time of its last change, as its source tells it, else when a run first read it so.

    The time is as of the last run, which may have read a newer version than the published one; "" if it is not known.
    """

    corpus: str
    artifact_id: str
    title: str
    changed: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Published artifacts that match all filters: their number, some of them newest first, and counts by facet.

    A facet counts the artifacts that match the filters of the other facets, most first, so that its values can be
    compared. `folders` are those directly in the chosen folder, as a prefix of artifact ids that ends in "/".
    """

    artifacts: int
    newest: Sequence[ListedArtifact]
    corpora: Sequence[FacetValue]
    suffixes: Sequence[FacetValue]
    folders: Sequence[FacetValue]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Shelf:
    """What to browse: these corpora, or all; ids that begin with `folder`; ids with these suffixes, or all.

    Suffixes are compared without regard to case.
    """

    corpora: Sequence[str] = ()
    suffixes: Sequence[str] = ()
    folder: str = ""


def browse(reader: Reader, keys: Iterable[Key], shelf: Shelf, k: int, offset: int) -> Contents:
    """Return what is on a shelf, out of these published artifacts, with the k after the `offset` newest.

    Raises QueryError for a negative k or offset.
    """
    for option, number in (("k", k), ("offset", offset)):
        if number < 0:
            raise QueryError(f"{option} must be at least 0, got {number}")
    suffixes = {suffix.lower() for suffix in shelf.suffixes}
    found: list[Key] = []
    by_corpus: Counter[str] = Counter()
    by_suffix: Counter[str] = Counter()
    by_folder: Counter[str] = Counter()
    for key in keys:
        corpus, artifact_id = key
        suffix, folder = suffix_of(artifact_id), shelf.folder
        in_corpora = not shelf.corpora or corpus in shelf.corpora
        in_suffixes = not suffixes or suffix in suffixes
        in_folder = artifact_id.startswith(folder)
        by_corpus[corpus] += in_suffixes and in_folder
        by_suffix[suffix] += in_corpora and in_folder
        if in_corpora and in_suffixes and in_folder:
            found.append(key)
            if (name := artifact_id[len(folder) :].partition("/"))[1]:
                by_folder[f"{folder}{name[0]}/"] += 1
    del by_suffix[""]
    newest = _newest(reader, found, k, offset) if k and found else []
    return Contents(len(found), newest, *map(_most_common, (by_corpus, by_suffix, by_folder)))


def _newest(reader: Reader, keys: Sequence[Key], k: int, offset: int) -> list[ListedArtifact]:
    """Return the k artifacts after the `offset` newest; artifacts of the same time are ordered by their ids."""
    corpora = sorted({corpus for corpus, _ in keys})
    rows = reader.store.rows("ledger", ("corpus", "artifact_id", "changed"), one_of("corpus", corpora))
    names, ids, changed = (column.to_pylist() for column in rows.columns)
    times = dict(zip(zip(names, ids, strict=True), changed, strict=True))
    oldest = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(sorted(keys), key=lambda key: times.get(key) or oldest, reverse=True)[offset : offset + k]
    titles = read_titles(reader.records, ordered)
    return [ListedArtifact(*key, titles[key], _text(times.get(key))) for key in ordered]


def _text(at: datetime | None) -> str:
    return at.isoformat(timespec="seconds") if at else ""


def suffix_of(artifact_id: str) -> str:
    """Return the suffix of a file's name in lower case, such as ".md"; "" for none."""
    found = SUFFIX.search(artifact_id)
    return found[0].lower() if found else ""


def _most_common(counted: Counter[str]) -> list[FacetValue]:
    ordered = sorted(counted.items(), key=lambda of: (-of[1], of[0]))
    return [FacetValue(value, many) for value, many in ordered[:VALUES] if many]
