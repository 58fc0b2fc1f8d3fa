"""Dense, lexical and hybrid search over the published records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from findingaid.errors import QueryError, StoreError
from findingaid.model import Embedder, Hit, Mode, Vectors
from findingaid.query.where import checked
from findingaid.store import Store
from findingaid.store.sql import one_of

if TYPE_CHECKING:
    from lance import LanceDataset

COLUMNS = (
    "record_id",
    "artifact_id",
    "corpus",
    "surface_kind",
    "surface_index",
    "text",
    "text_start",
    "span_start",
    "span_end",
    "metadata",
)

RRF_K = 60
"""The constant of reciprocal rank fusion; 60 is the value of its paper, and flat between 20 and 100."""

CANDIDATES = 100
"""How deep each ranking is fused, at least."""

PROBES, REFINE = 50, 10
"""Partitions of a vector index that are searched, and candidates re-ranked by exact distance: recall over 0.99."""


@dataclass(frozen=True)
class Searcher:
    """Queries against the published version of a store."""

    store: Store
    embedder: Embedder

    def search(
        self,
        query: str,
        k: int = 10,
        corpora: Sequence[str] | None = None,
        mode: Mode = "hybrid",
        where: str | None = None,
        surfaces: Sequence[str] | None = None,
    ) -> list[Hit]:
        """The k best records; fewer only where fewer match the filters."""
        return self.store.retried(lambda: self._search(query, k, corpora, mode, where, surfaces))

    def _search(
        self,
        query: str,
        k: int,
        corpora: Sequence[str] | None,
        mode: Mode,
        where: str | None,
        surfaces: Sequence[str] | None,
    ) -> list[Hit]:
        if not query.strip():
            raise QueryError("the query is empty: give it at least one word")
        if k < 1:
            raise QueryError(f"k must be at least 1, got {k}")
        if mode not in get_args(Mode):
            raise QueryError(f"unknown mode {mode!r}. Known: {', '.join(get_args(Mode))}")
        records = self.store.published()
        condition = self._condition(records, corpora, where, surfaces)
        if records.count_rows() == 0:
            return []
        if mode == "lexical":
            return [_hit(row, row["_score"]) for row in self._lexical(records, query, k, condition)]
        if mode == "dense":
            return [_hit(row, 1 - row["_distance"]) for row in self._dense(records, query, k, condition)]
        depth = max(CANDIDATES, k)
        dense = self._dense(records, query, depth, condition)
        lexical = self._lexical(records, query, depth, condition)
        rows = {row["record_id"]: row for row in (*dense, *lexical)}
        scores = fuse([[row["record_id"] for row in ranking] for ranking in (dense, lexical)])
        return [_hit(rows[record], score) for record, score in scores[:k]]

    def _condition(
        self, records: LanceDataset, corpora: Sequence[str] | None, where: str | None, surfaces: Sequence[str] | None
    ) -> str | None:
        """All filters as one SQL expression. Raises QueryError for one that the table cannot answer."""
        filters = (("corpus", corpora), ("surface_kind", surfaces))
        parts = [one_of(column, values) for column, values in filters if values]
        if where:
            with self.store.reached():
                parts.append(checked(where, self.store, records, corpora or ()))
        return " AND ".join(parts) or None

    def _dense(self, records: LanceDataset, query: str, k: int, condition: str | None) -> list[dict[str, Any]]:
        self._check_embedder(records)
        rows = nearest(records, self.embedder.embed_query(query), k, condition)
        return sorted(rows, key=lambda row: (row["_distance"], row["record_id"]))

    def _lexical(self, records: LanceDataset, query: str, k: int, condition: str | None) -> list[dict[str, Any]]:
        asked = {"query": query, "columns": ["text"]}
        rows = records.to_table(
            columns=[*COLUMNS, "_score"], full_text_query=asked, filter=condition, prefilter=True, limit=k
        ).to_pylist()
        return sorted(rows, key=lambda row: (-row["_score"], row["record_id"]))

    def _check_embedder(self, records: LanceDataset) -> None:
        made_by = records.to_table(columns=["embedder_id"], limit=1)["embedder_id"][0].as_py()
        if made_by != self.embedder.id:
            raise StoreError(
                f"the index was made with embedder {made_by}, the configuration says {self.embedder.id}:"
                " run `findingaid index`, or set `embedder` back"
            )


def nearest(records: LanceDataset, vector: Vectors, k: int, condition: str | None) -> list[dict[str, Any]]:
    """The k records nearest to a vector of shape (dim,) by cosine distance; fewer only where fewer match."""
    asked = {
        "column": "vector",
        "q": vector,
        "k": k,
        "metric": "cosine",
        "nprobes": PROBES,
        "refine_factor": REFINE,
    }

    def find(use_index: bool) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = records.to_table(
            columns=[*COLUMNS, "_distance"],
            nearest={**asked, "use_index": use_index},
            filter=condition,
            prefilter=True,
        ).to_pylist()
        return rows

    rows = find(use_index=True)
    if len(rows) < k and any(index.field_names == ["vector"] for index in records.describe_indices()):
        # An index looks into the nearest partitions only, and a narrow filter can leave those empty.
        return find(use_index=False)
    return rows


def fuse(rankings: Iterable[Sequence[str]]) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: (id, sum of 1 / (60 + rank)), best first, ties by id; ranks count from 1.

    Cormack, Clarke and Büttcher, SIGIR 2009, https://doi.org/10.1145/1571941.1572114
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))


def _hit(row: Mapping[str, Any], score: float) -> Hit:
    span = None if row["span_start"] is None else (row["span_start"], row["span_end"])
    return Hit(
        record_id=row["record_id"],
        artifact_id=row["artifact_id"],
        corpus=row["corpus"],
        surface_kind=row["surface_kind"],
        surface_index=row["surface_index"],
        score=float(score),
        text=row["text"][row["text_start"] :],
        span=span,
        metadata=json.loads(row["metadata"]),
    )
