"""One version of the records, and the questions that search, routes and checks put to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import orjson

from findingaid.errors import StoreError
from findingaid.model import SUMMARY, Rank, Vectors
from findingaid.store import schemas, vectors
from findingaid.store.lexical import Lexical, made_with
from findingaid.store.sql import both, equals, one_of

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

T = TypeVar("T")
Row = dict[str, Any]

Key = tuple[str, str]
"""(corpus, artifact id)."""

LIGHT = ("record_id", "corpus", "artifact_id", "surface_kind", "surface_index", "granularity")
"""What steps need to know of a record; its text and metadata are read of the hits alone."""

AT_ONCE = 16
"""Questions that are asked at the same time; most of each is waiting for Lance, which has threads of its own."""

TIES = 10_000
"""How deep a ranking is read, at most, for the rest of those that tie with its last."""

FEW = 10_000
"""So many records that fulfil a condition are compared one by one, in memory; a search by Lance would look at every
vector of the table, or for more of them into an index."""

KEPT = 4
"""Conditions whose few records stay in memory, the last ones used."""

WEIGHED_WORDS = 32
"""Words of a query whose weight is looked up; those of a longer one weigh as much as these on average."""


class Asking(Protocol):
    """What a reader needs of an embedder."""

    @property
    def id(self) -> str: ...

    def embed_query(self, text: str) -> Vectors: ...


class Found(NamedTuple):
    """What a ranking knows of a record: where in this version it is, how good, and the columns that were read."""

    rowid: int
    score: float
    row: Row | None = None
    ranks: tuple[Rank, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record on its way to be a hit. `rowid` finds it in this version; the rest is as a Hit has it."""

    rowid: int
    record_id: str
    corpus: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    granularity: str
    score: float
    ranks: tuple[Rank, ...] = ()
    weight: float = 1.0
    route: str = ""
    depth: int = 0
    seed: str = ""

    @property
    def artifact(self) -> Key:
        """Whose record it is."""
        return self.corpus, self.artifact_id

    @classmethod
    def of(cls, row: Mapping[str, Any], found: Found) -> Candidate:
        """What was found, with the `LIGHT` columns of its record."""
        return cls(found.rowid, **{column: row[column] for column in LIGHT}, score=found.score, ranks=found.ranks)


def members_of(records: LanceDataset) -> Mapping[str, Sequence[str]]:
    """Record id of each summary node -> ids of the claims that it is a summary of."""
    condition = both(equals("surface_kind", SUMMARY), f"NOT {equals('claim_id', '')}")
    found = records.to_table(columns=["record_id", "metadata"], filter=condition)
    metadata = map(orjson.loads, found["metadata"].to_pylist())
    return {i: said["members"] for i, said in zip(found["record_id"].to_pylist(), metadata, strict=True)}


@dataclass(frozen=True)
class Few:
    """All records of a condition: their vectors, of length 1, and what steps need to know of them."""

    vectors: Vectors
    rows: pa.Table

    def nearest(self, vector: Vectors, depth: int, columns: Sequence[str]) -> list[Found]:
        """The nearest, best first; with their rows if those have the columns."""
        # Not as a product of matrices, in which equal vectors can come out unequal by where they stand.
        similar = np.einsum("ij,j->i", self.vectors, vector / (np.linalg.norm(vector) or 1))
        best = np.argsort(-similar, kind="stable")[:depth]
        rows = self.rows.take(best).to_pylist()
        known = bool(columns) and set(columns) <= set(LIGHT)
        return [
            Found(row.pop("_rowid"), float(score), row if known else None)
            for score, row in zip(similar[best], rows, strict=True)
        ]


@dataclass(frozen=True)
class Reader:
    """Primitives over one version of the records, and what they learn of it once.

    Each method that takes a `condition` asks the table once, and again only where the answer was not enough.
    """

    records: LanceDataset
    embedder: Asking
    edges: Callable[[], LanceDataset]
    """Opens the edges that belong to these records."""

    few: int = FEW
    """The most records of a condition that are searched in memory; 0 has Lance search, whatever the condition."""

    filters: dict[tuple[str, ...], str] = field(default_factory=dict)
    """(filter as it was asked, corpora) -> filter as the table is to read it, of those that were found good."""

    within: Sequence[str] = ()
    """The only corpora that may be looked into; () for all. A score must not tell which words others have."""

    _weights: dict[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = (self.records.schema.metadata or {}).get(schemas.VERSION_KEY, b"none").decode()
        if made != schemas.RECORDS_VERSION:
            raise StoreError(
                f"the index has records of schema {made}, this version of findingaid reads {schemas.RECORDS_VERSION}:"
                " run `findingaid index`"
            )

    def embed(self, query: str) -> Vectors:
        """The vector of a query, shape (dim,). Raises StoreError where another embedder made the index."""
        if self.made_by not in {None, self.embedder.id}:
            raise StoreError(
                f"the index was made with embedder {self.made_by}, the configuration says {self.embedder.id}:"
                " run `findingaid index`, or set `embedder` back"
            )
        return self.embedder.embed_query(query)

    def nearest(
        self,
        vector: Vectors,
        depth: int,
        condition: str | None = None,
        narrow: bool = False,
        columns: Sequence[str] = (),
    ) -> list[Found]:
        """The records nearest to a vector of shape (dim,), best first, scored by cosine similarity, ties by id.

        Fewer than `depth` only where fewer match. Where the condition is `narrow`, and hardly asked twice, no index is
        asked: it would look into partitions that have none of the few.
        """
        few = (self._few_of if narrow else self._few_kept)(condition) if condition and self.few else None

        def find(many: int) -> list[Found]:
            if few:
                return few.nearest(vector, many, columns)
            table = self._nearest(vector, many, condition, narrow, columns)
            return [Found(row.pop("_rowid"), 1 - row.pop("_distance"), row or None) for row in table.to_pylist()]

        return self._best(depth, find)

    def matching(self, text: str, depth: int, condition: str | None = None, columns: Sequence[str] = ()) -> list[Found]:
        """The records with words of a text, best first, scored by BM25, ties by id."""

        def find(many: int) -> list[Found]:
            table = self._matching(text, many, condition, columns)
            return [Found(row.pop("_rowid"), row.pop("_score"), row or None) for row in table.to_pylist()]

        return self._best(depth, find)

    def where(self, condition: str, limit: int | None = None) -> list[Candidate]:
        """Records that fulfil a condition, by artifact and place in it, with score 0."""
        rows = self.records.to_table(columns=list(LIGHT), filter=condition, limit=limit, with_row_id=True).to_pylist()
        found = [Candidate.of(row, Found(row["_rowid"], 0.0)) for row in rows]
        return sorted(found, key=lambda c: (c.corpus, c.artifact_id, c.surface_index))

    def candidates(self, found: Sequence[Found]) -> list[Candidate]:
        """What was found, in its order, as the steps of a search take it; reads what was not read with it."""
        unread = [f for f in found if f.row is None]
        read = dict(zip((f.rowid for f in unread), self.rows_of(unread, LIGHT), strict=True))
        return [Candidate.of(f.row or read[f.rowid], f) for f in found]

    def rows_of(self, placed: Sequence[Found | Candidate], columns: Sequence[str]) -> list[Row]:
        """These columns of some records, in their order."""
        if not placed:
            return []
        listed = ",".join(str(p.rowid) for p in placed)
        found = self.records.to_table(columns=list(columns), filter=f"_rowid IN ({listed})", with_row_id=True)
        rows = {row.pop("_rowid"): row for row in found.to_pylist()}
        return [rows[p.rowid] for p in placed]

    def in_order(self, found: Sequence[Found]) -> list[Found]:
        """By score, ties by record id; asks the table for the ids of what ties, if anything does."""
        ordered = sorted(found, key=lambda f: (-f.score, f.rowid))
        same = (pair for pair in pairwise(ordered) if pair[0].score == pair[1].score)
        tied = {f.rowid: f for pair in same for f in pair}
        if not tied:
            return ordered
        ids = {c.rowid: c.record_id for c in self.candidates(list(tied.values()))}
        return sorted(ordered, key=lambda f: (-f.score, ids.get(f.rowid, "")))

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
        best = self._matching(word, 1, self._scope, ())["_score"].to_pylist()
        self._weights[word] = best[0] if best else None

    def attainable(self, text: str) -> float:
        """What a record could score that had each word of a text as well as any does: the sum of the best scores.

        A word that no record has counts with the weight of one so rare, unless it may be a stop word of Lance's.
        """
        every = self.words(text)
        weighed = every[:WEIGHED_WORDS]
        found = [weight for word in weighed for weight in (self._weights.get(word),) if weight is not None]
        known = self._lexical is not None and self._lexical.listed is not None
        missing = (len(weighed) - len(found)) * math.log(2 * self.size + 2) if known else 0.0
        return (sum(found) + missing) * len(every) / max(1, len(weighed))

    # -- what is known of this version -----------------------------------------------------------------

    @cached_property
    def size(self) -> int:
        """How many records there are."""
        return int(self.records.count_rows(self._scope))

    @cached_property
    def made_by(self) -> str | None:
        """The embedder of the vectors; None where there are no records."""
        first = self.records.to_table(columns=["embedder_id"], limit=1)["embedder_id"].to_pylist()
        return first[0] if first else None

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """corpus -> the surface kinds of its records."""
        found = self.records.to_table(columns=["corpus", "surface_kind"]).group_by(["corpus", "surface_kind"])
        pairs = [(row["corpus"], row["surface_kind"]) for row in found.aggregate([]).to_pylist()]
        return {corpus: frozenset(kind for c, kind in pairs if c == corpus) for corpus, _ in pairs}

    @cached_property
    def artifacts(self) -> Mapping[Key, str]:
        """Every artifact and its title, by id."""
        found = self.records.to_table(columns=["corpus", "artifact_id", "title"])
        once = found.group_by(found.column_names).aggregate([])
        columns = (once[name].to_pylist() for name in found.column_names)
        return {(corpus, artifact): title for corpus, artifact, title in sorted(zip(*columns, strict=True))}

    @cached_property
    def members(self) -> Mapping[str, Sequence[str]]:
        """See `members_of`."""
        return members_of(self.records)

    @cached_property
    def _scope(self) -> str | None:
        """The condition of all that may be looked into."""
        return one_of("corpus", self.within) if self.within and not set(self.within) >= self.kinds.keys() else None

    @cached_property
    def _lexical(self) -> Lexical | None:
        return made_with(self.records)

    @cached_property
    def _index(self) -> vectors.Measured | None:
        indexed = any(index.field_names == ["vector"] for index in self.records.describe_indices())
        return (vectors.measured(self.records) or vectors.UNKNOWN) if indexed else None

    # -- asking ----------------------------------------------------------------------------------------

    def _nearest(
        self, vector: Vectors, depth: int, condition: str | None, narrow: bool, columns: Sequence[str]
    ) -> pa.Table:
        def find(how: Mapping[str, Any]) -> pa.Table:
            return self.records.to_table(
                columns=[*columns, "_distance"],
                nearest={"column": "vector", "q": vector, "k": depth, "metric": "cosine", **how},
                filter=condition,
                prefilter=True,
                with_row_id=True,
            )

        if self._index and not narrow and depth <= vectors.INDEX_DEPTH:
            rows = find({"nprobes": self._index.probes, "refine_factor": vectors.refine(depth)})
            if len(rows) == depth:
                return rows
        # An index looks into the nearest partitions only, and a narrow filter can leave those empty.
        return find({"use_index": False})

    @cached_property
    def _few_kept(self) -> Callable[[str], Few | None]:
        return lru_cache(KEPT)(self._few_of)

    def _few_of(self, condition: str) -> Few | None:
        """The records of a condition; None if they are more than few."""
        columns = [*LIGHT, "vector"]
        found = self.records.to_table(columns=columns, filter=condition, limit=self.few + 1, with_row_id=True)
        if len(found) > self.few:
            return None
        return Few(vectors.unit(found["vector"].combine_chunks()), found.drop_columns("vector"))

    def _matching(self, text: str, depth: int, condition: str | None, columns: Sequence[str]) -> pa.Table:
        from lance.query import MatchQuery

        return self.records.to_table(
            columns=[*columns, "_score"],
            full_text_query=MatchQuery(text, "text"),  # a text alone would be read as syntax, such as a phrase's quotes
            filter=condition,
            prefilter=True,
            limit=depth,
            with_row_id=True,
        )

    def _best(self, depth: int, find: Callable[[int], list[Found]]) -> list[Found]:
        """The best by score and id: where the last ties with what comes after it, all of those are looked at."""
        asked = depth + 1
        while True:
            found = sorted(find(asked), key=lambda f: -f.score)
            whole = len(found) < asked or found[depth - 1].score > found[-1].score
            if whole or asked > max(TIES, depth + 1):
                break
            asked *= 4
        return self.in_order(found)[:depth]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, "findingaid-search")
