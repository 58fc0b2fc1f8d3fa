"""References between artifacts, in both directions, as published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from findingaid.errors import NotFoundError, QueryError, brief
from findingaid.query.lookup.artifact import read_titles
from findingaid.query.search.edges import SOURCE, TARGET, read_edges, with_ends
from findingaid.query.search.hits import span_of
from findingaid.query.search.reader import Key, Reader
from findingaid.store.sql import one_of
from findingaid.text.wiki_links import OPEN


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Artifact at the other end of an edge; `title` is None if it is not published.

    `section` is the anchor of the heading that is referred to, and `span` is the place of the reference in the
    referring text. `link` is the name in a wiki link. For a SUMMARIZES edge, `section` is the id of the claim or of the
    node, `span` the claim's place, and `title` its text.
    """

    corpus: str
    artifact_id: str
    kind: str
    section: str
    span: tuple[int, int] | None
    title: str | None
    link: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReferenceCount:
    """Artifact, and how many artifacts refer to it; `title` is None if it is not published."""

    corpus: str
    artifact_id: str
    references: int
    title: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def find_neighbours(
    reader: Reader,
    artifact_id: str,
    corpora: Sequence[str],
    within: Sequence[str],
    kinds: Sequence[str] | None = None,
    reverse: bool = False,
) -> list[Neighbour]:
    """Return the artifacts that an artifact refers to, in text order; with `reverse`, those that refer to it, by id.

    `corpora` are those in which the artifact may be. Edges to corpora outside `within`, which the caller may read, are
    not followed. Raises QueryError for an id that is in several corpora, or unknown.
    """
    records, keys = reader.records, [(corpus, artifact_id) for corpus in corpora]
    here, there = (TARGET, SOURCE) if reverse else (SOURCE, TARGET)
    rows = read_edges(reader, **{"against" if reverse else "along": keys}, where=one_of(there[0], within))
    found = {row[here[0]] for row in rows}
    if len(found) > 1:
        raise QueryError(f"{artifact_id!r} is in several corpora, {', '.join(sorted(found))}: name one by --corpus")
    if not rows and not read_titles(records, [(corpus, artifact_id) for corpus in corpora]):
        raise NotFoundError(f"no published artifact {brief(artifact_id)}: `findingaid search` shows ids")
    rows = [row for row in rows if not kinds or row["kind"] in kinds]
    known = read_titles(records, [(row[there[0]], row[there[1]]) for row in rows])
    rows.sort(key=lambda row: (row[there[0]], row[there[1]], row["position"]) if reverse else row["position"])
    return [_neighbour(row, (row[there[0]], row[there[1]]), known) for row in rows]


def _neighbour(row: Mapping[str, Any], key: Key, known: Mapping[Key, str]) -> Neighbour:
    return Neighbour(*key, row["kind"], row["section"], span_of(row), known.get(key), row["link"])


def find_most_referenced(
    reader: Reader, k: int, corpora: Sequence[str], within: Sequence[str], kinds: Sequence[str] | None = None
) -> list[ReferenceCount]:
    """Return the k artifacts of these corpora that most artifacts of `within` refer to, most first.

    Raises QueryError if k is less than 1.
    """
    if k < 1:
        raise QueryError(f"k must be at least 1, got {k}")
    records, edges = reader.records, reader.beside("edges")
    conditions = [one_of(TARGET[0], corpora), one_of(SOURCE[0], within), *([one_of("kind", kinds)] if kinds else [])]
    found = edges.to_table(columns=[*SOURCE, *TARGET], filter=" AND ".join(conditions))
    if pc.any(pc.starts_with(found[TARGET[1]], OPEN)).as_py():
        found = pa.Table.from_pylist(list(with_ends(reader, found.to_pylist())), found.schema)
    once: pa.Table = found.group_by([*SOURCE, *TARGET]).aggregate([])
    counted = once.group_by(list(TARGET)).aggregate([([], "count_all")])
    order = [("count_all", "descending"), *((column, "ascending") for column in TARGET)]
    best = counted.sort_by(order).slice(0, min(k, len(counted))).to_pylist()
    known = read_titles(records, [(row[TARGET[0]], row[TARGET[1]]) for row in best])
    keys = [((row[TARGET[0]], row[TARGET[1]]), row["count_all"]) for row in best]
    return [ReferenceCount(*key, count, known.get(key)) for key, count in keys]
