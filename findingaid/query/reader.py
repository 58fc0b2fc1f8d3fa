"""One version of the records, and the questions that search, routes and checks put to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from findingaid.errors import StoreError
from findingaid.model import Rank, Vectors
from findingaid.store import schemas, vectors
from findingaid.store.lexical import Lexical, made_with

if TYPE_CHECKING:
    from lance import LanceDataset

T = TypeVar("T")
Row = dict[str, Any]

Key = tuple[str, str]
"""(corpus, artifact id)."""

LIGHT = ("record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "granularity")
"""What ranking needs of a record; its text and metadata are read of the hits alone."""

AT_ONCE = 16
"""Questions that are asked at the same time; most of each is waiting for Lance, which has threads of its own."""

TIES = 10_000
"""How deep a ranking is read, at most, for the rest of those that tie with its last."""

WEIGHED_WORDS = 32
"""Words of a query whose weight is looked up; those of a longer one weigh as much as these on average."""


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
    granularity: str = "chunk"

    @property
    def artifact(self) -> Key:
        """Whose record it is."""
        return self.corpus, self.artifact_id


@dataclass(frozen=True)
class Reader:
    """Primitives over one version of the records, and what they learn of it once.

    Each method that takes a `condition` asks the table once, and a second time only where the first was not enough.
    """

    records: LanceDataset
    _weights: dict[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = (self.records.schema.metadata or {}).get(schemas.VERSION_KEY, b"none").decode()
        if found != schemas.RECORDS_VERSION:
            raise StoreError(
                f"the index has records of schema {found}, this version of findingaid reads {schemas.RECORDS_VERSION}:"
                " run `findingaid index`"
            )

    def dense(
        self, vector: Vectors, depth: int, condition: str | None = None, query: int = 0, narrow: bool = False
    ) -> list[Candidate]:
        """The records nearest to a vector of shape (dim,), best first, scored by cosine similarity, ties by id.

        Fewer than `depth` only where fewer match. Where the condition is `narrow` no index is asked first: it would
        look into partitions that have none of the few.
        """

        def find(many: int) -> list[tuple[float, Row]]:
            return [(1 - row["_distance"], row) for row in self._nearest(vector, many, condition, narrow)]

        return self._best("dense", query, depth, find)

    def lexical(self, text: str, depth: int, condition: str | None = None, query: int = 0) -> list[Candidate]:
        """The records with words of a text, best first, scored by BM25, ties by id."""

        def find(many: int) -> list[tuple[float, Row]]:
            return [(row["_score"], row) for row in self._matching(text, many, condition)]

        return self._best("lexical", query, depth, find)

    def where(self, condition: str, limit: int | None = None) -> list[Candidate]:
        """Records that fulfil a condition, by artifact and place in it, with score 0."""
        rows = self.records.to_table(columns=list(LIGHT), filter=condition, limit=limit, with_row_id=True).to_pylist()
        found = [_candidate(row, 0.0) for row in rows]
        return sorted(found, key=lambda c: (c.corpus, c.artifact_id, c.surface_index))

    def rows_of(self, candidates: Sequence[Candidate], columns: Sequence[str]) -> list[Row]:
        """These columns of some candidates, in their order."""
        if not candidates:
            return []
        listed = ",".join(str(candidate.rowid) for candidate in candidates)
        found = self.records.to_table(columns=list(columns), filter=f"_rowid IN ({listed})", with_row_id=True)
        rows = {row.pop("_rowid"): row for row in found.to_pylist()}
        return [rows[candidate.rowid] for candidate in candidates]

    def at_once(self, *questions: Callable[[], T]) -> list[T]:
        """The answers to several questions, asked at the same time; a question must not ask so itself."""
        first, *others = questions
        asked: list[Future[T]] = [_pool().submit(question) for question in others]
        return [first(), *(answer.result() for answer in asked)]

    # -- words -----------------------------------------------------------------------------------------

    def words(self, text: str) -> list[str]:
        """The words of a text that lexical search looks for, each once."""
        return (self._lexical or Lexical()).words(text)

    def unweighed(self, text: str) -> list[str]:
        """Those of the words of a text that `weigh` is still to be asked for."""
        return [word for word in self.words(text)[:WEIGHED_WORDS] if word not in self._weights]

    def weigh(self, word: str) -> None:
        """Learn the best score that any record has for a word."""
        best = self._matching(word, 1, None)
        self._weights[word] = best[0]["_score"] if best else None

    def attainable(self, text: str) -> float:
        """What a record could score that had each word of a text as well as any does: the sum of the best scores.

        A word that no record has counts with the weight of one so rare, unless it may be a stop word of Lance's.
        """
        all_words = self.words(text)
        weighed = all_words[:WEIGHED_WORDS]
        found = [weight for word in weighed for weight in (self._weights.get(word),) if weight is not None]
        known = self._lexical is not None and self._lexical.listed is not None
        missing = (len(weighed) - len(found)) * math.log(2 * self.size + 2) if known else 0.0
        return (sum(found) + missing) * len(all_words) / max(1, len(weighed))

    # -- what is known of this version -----------------------------------------------------------------

    @cached_property
    def size(self) -> int:
        """How many records there are."""
        return int(self.records.count_rows())

    @cached_property
    def made_by(self) -> str | None:
        """The embedder of the vectors; None where there are no records."""
        first = self.records.to_table(columns=["embedder_id"], limit=1)["embedder_id"].to_pylist()
        return first[0] if first else None

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """corpus -> the surface kinds of its records."""
        found = self.records.to_table(columns=["corpus", "surface_kind"]).group_by(["corpus", "surface_kind"])
        pairs = [tuple(row.values()) for row in found.aggregate([]).to_pylist()]
        return {corpus: frozenset(kind for c, kind in pairs if c == corpus) for corpus, _ in pairs}

    @cached_property
    def _lexical(self) -> Lexical | None:
        return made_with(self.records)

    @cached_property
    def _vector_index(self) -> vectors.Quality | None:
        indexed = any(index.field_names == ["vector"] for index in self.records.describe_indices())
        return (vectors.quality(self.records) or vectors.UNKNOWN) if indexed else None

    # -- asking ----------------------------------------------------------------------------------------

    def _nearest(self, vector: Vectors, depth: int, condition: str | None, narrow: bool) -> list[Row]:
        index = None if narrow else self._vector_index

        def find(how: Mapping[str, Any]) -> list[Row]:
            rows: list[Row] = self.records.to_table(
                columns=[*LIGHT, "_distance"],
                nearest={"column": "vector", "q": vector, "k": depth, "metric": "cosine", **how},
                filter=condition,
                prefilter=True,
                with_row_id=True,
            ).to_pylist()
            return rows

        if index is not None and depth <= vectors.INDEX_DEPTH:
            rows = find({"nprobes": index.probes, "refine_factor": vectors.refine(depth)})
            if len(rows) == depth:
                return rows
        # An index looks into the nearest partitions only, and a narrow filter can leave those empty.
        return find({"use_index": False})

    def _matching(self, text: str, depth: int, condition: str | None) -> list[Row]:
        from lance.query import MatchQuery

        rows: list[Row] = self.records.to_table(
            columns=[*LIGHT, "_score"],
            full_text_query=MatchQuery(text, "text"),  # a text alone would be read as syntax, such as a phrase's quotes
            filter=condition,
            prefilter=True,
            limit=depth,
            with_row_id=True,
        ).to_pylist()
        return rows

    @staticmethod
    def _best(ranker: str, query: int, depth: int, find: Callable[[int], list[tuple[float, Row]]]) -> list[Candidate]:
        """The best by score and id: where the last ties with what comes after it, all of those are looked at."""
        asked = depth + 1
        while True:
            found = sorted(find(asked), key=lambda scored: (-scored[0], scored[1]["record_id"]))
            whole = len(found) < asked or found[depth - 1][0] > found[-1][0]
            if whole or asked > max(TIES, depth + 1):
                break
            asked *= 4
        return [
            _candidate(row, score, (Rank(ranker, query, rank, score),))
            for rank, (score, row) in enumerate(found[:depth], 1)
        ]


def _candidate(row: Mapping[str, Any], score: float, ranks: tuple[Rank, ...] = ()) -> Candidate:
    record = {column: row[column] for column in LIGHT}
    return Candidate(rowid=row["_rowid"], **record, score=score, ranks=ranks)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, "findingaid-search")
