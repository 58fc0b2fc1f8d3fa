"""One version of the records, and the questions that search, routes and checks put to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from findingaid.errors import StoreError
from findingaid.model import Embedder, Rank, Vectors

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")

LIGHT = ("record_id", "corpus", "artifact_id", "surface_kind", "surface_index")
"""What ranking needs of a record; its text and metadata are read of the hits alone."""

PROBES, REFINE = 50, 10
"""Partitions of a vector index that are searched, and candidates re-ranked by exact distance: recall over 0.99."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record on its way to be a hit. `rowid` finds it in this version; the rest is as a Hit has it."""

    rowid: int
    record_id: str
    corpus: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    score: float
    ranks: tuple[Rank, ...] = ()
    weight: float = 1.0
    route: str = ""
    depth: int = 0
    seed: str = ""


@dataclass(frozen=True)
class Reader:
    """Primitives over one version of the records. Each method that takes a `condition` asks the table once."""

    records: LanceDataset
    embedder: Embedder

    def embed(self, query: str) -> Vectors:
        """The vector of a query, shape (dim,). Raises StoreError where another embedder made the index."""
        if self.made_by not in {None, self.embedder.id}:
            raise StoreError(
                f"the index was made with embedder {self.made_by}, the configuration says {self.embedder.id}:"
                " run `findingaid index`, or set `embedder` back"
            )
        return self.embedder.embed_query(query)

    def dense(self, vector: Vectors, depth: int, condition: str | None = None, query: int = 0) -> list[Candidate]:
        """The records nearest to a vector of shape (dim,), best first, scored by cosine similarity, ties by id.

        Fewer than `depth` only where fewer match.
        """
        rows = self._nearest(vector, depth, condition)
        return self._ranked(rows, "dense", query, lambda row: 1 - float(row["_distance"]))

    def lexical(self, text: str, depth: int, condition: str | None = None, query: int = 0) -> list[Candidate]:
        """The records with the words of a text, best first, scored by BM25, ties by id."""
        rows = self.records.to_table(
            columns=[*LIGHT, "_score"],
            full_text_query={"query": text, "columns": ["text"]},
            filter=condition,
            prefilter=True,
            limit=depth,
            with_row_id=True,
        ).to_pylist()
        return self._ranked(rows, "lexical", query, lambda row: float(row["_score"]))

    def where(self, condition: str, limit: int | None = None) -> list[Candidate]:
        """Records that fulfil a condition, by artifact and place in it, with score 0."""
        rows = self.records.to_table(columns=list(LIGHT), filter=condition, limit=limit, with_row_id=True).to_pylist()
        found = [_candidate(row, 0.0) for row in rows]
        return sorted(found, key=lambda c: (c.corpus, c.artifact_id, c.surface_index))

    def rows_of(self, candidates: Sequence[Candidate], columns: Sequence[str]) -> list[dict[str, Any]]:
        """These columns of some candidates, in their order."""
        if not candidates:
            return []
        listed = ",".join(str(candidate.rowid) for candidate in candidates)
        found = self.records.to_table(columns=list(columns), filter=f"_rowid IN ({listed})", with_row_id=True)
        rows = {row.pop("_rowid"): row for row in found.to_pylist()}
        return [rows[candidate.rowid] for candidate in candidates]

    def at_once(self, *questions: Callable[[], T]) -> list[T]:
        """The answers to several questions, asked at the same time: most of each is waiting for Lance."""
        if len(questions) == 1:
            return [questions[0]()]
        with ThreadPoolExecutor(len(questions)) as pool:
            return [asked.result() for asked in [pool.submit(question) for question in questions]]

    @cached_property
    def size(self) -> int:
        """How many records there are."""
        return int(self.records.count_rows())

    @cached_property
    def made_by(self) -> str | None:
        """The embedder of the vectors; None where there are no records."""
        first = self.records.to_table(columns=["embedder_id"], limit=1)["embedder_id"].to_pylist()
        return first[0] if first else None

    def _nearest(self, vector: Vectors, depth: int, condition: str | None) -> list[dict[str, Any]]:
        asked = {
            "column": "vector",
            "q": vector,
            "k": depth,
            "metric": "cosine",
            "nprobes": PROBES,
            "refine_factor": REFINE,
        }

        def find(use_index: bool) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.records.to_table(
                columns=[*LIGHT, "_distance"],
                nearest={**asked, "use_index": use_index},
                filter=condition,
                prefilter=True,
                with_row_id=True,
            ).to_pylist()
            return rows

        rows = find(use_index=True)
        if len(rows) < depth and self._approximate:
            # An index looks into the nearest partitions only, and a narrow filter can leave those empty.
            return find(use_index=False)
        return rows

    @cached_property
    def _approximate(self) -> bool:
        return any(index.field_names == ["vector"] for index in self.records.describe_indices())

    @staticmethod
    def _ranked(
        rows: Sequence[Mapping[str, Any]], ranker: str, query: int, score: Callable[[Mapping[str, Any]], float]
    ) -> list[Candidate]:
        scored = sorted(((score(row), row) for row in rows), key=lambda pair: (-pair[0], pair[1]["record_id"]))
        return [
            _candidate(row, value, (Rank(ranker, query, rank, value),)) for rank, (value, row) in enumerate(scored, 1)
        ]


def _candidate(row: Mapping[str, Any], score: float, ranks: tuple[Rank, ...] = ()) -> Candidate:
    record = {column: row[column] for column in LIGHT}
    return Candidate(rowid=row["_rowid"], **record, score=score, ranks=ranks)
