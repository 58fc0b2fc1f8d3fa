"""Reader of one published version: the records, the tables beside them, and the queries that search runs on them.

A request is answered by one reader, which is passed along, so that all of its parts are of one version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import orjson

from findingaid.embedding.minilm import differing_precision
from findingaid.embedding.validation import changed_dimensions, query_vector
from findingaid.errors import StoreError
from findingaid.model import SUMMARY, Artifact, Rank, Vectors
from findingaid.query.search.edges import NoteNames
from findingaid.query.search.vector_memory import CANDIDATE_COLUMNS, LoadedVectors, Row, VectorMemory
from findingaid.store import Publisher, Store, schemas, vectors
from findingaid.store.artifacts import read_artifacts
from findingaid.store.lexical import COLUMN, made_with
from findingaid.store.permitted import Permitted
from findingaid.store.sql import both, equals, one_of
from findingaid.text.analyzer import Lexical, LexicalQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.query import FullTextQuery

    from findingaid.query.search.noise import Noise
    from findingaid.query.search.probes import ProbeScores

T = TypeVar("T")

Key = tuple[str, str]
"""(corpus, artifact id)."""

CONCURRENT_QUERIES = 16
"""Queries that run concurrently. Each mostly waits for Lance, which has threads of its own."""

TIES = 10_000
"""Rough limit on how deep a ranking is read to find all records that tie with its last one."""

EXACT_LIMIT = 10_000
"""Most records matching a condition for which exact search in memory is used. Lance would instead scan every vector of
the table, or search an index."""

CACHED_CONDITIONS = 4
"""Conditions whose matching records stay in memory with their vectors (least recently used is dropped)."""

CACHED_PLACES = 16
"""Conditions whose matching records are remembered where all vectors are in memory (as above)."""

CACHED_QUERIES = 64
"""Texts whose words to look for are remembered (as above)."""

BM25_WORDS = 32
"""Words of a query whose best BM25 score is looked up. In a longer query each further word counts as their average."""


class QueryEmbedder(Protocol):
    """Part of an embedder that a reader needs."""

    @property
    def id(self) -> str: ...

    def embed_query(self, text: str) -> Vectors: ...


class Term(NamedTuple):
    """Word that lexical search looks for, or phrase."""

    text: str
    is_phrase: bool = False


class RowHit(NamedTuple):
    """Entry of a ranking: the record's row id in this version, its score, and the columns read so far."""

    rowid: int
    score: float
    row: Row | None = None
    ranks: tuple[Rank, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """Record on its way to becoming a hit. `rowid` locates it in this version; the other fields are those of a Hit."""

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
        """Artifact that the record belongs to."""
        return self.corpus, self.artifact_id

    @classmethod
    def of(cls, row: Mapping[str, Any], found: RowHit) -> Candidate:
        """Combine a ranking entry with the `CANDIDATE_COLUMNS` of its record."""
        return cls(
            found.rowid, **{column: row[column] for column in CANDIDATE_COLUMNS}, score=found.score, ranks=found.ranks
        )


def read_node_members(records: LanceDataset) -> Mapping[str, Sequence[str]]:
    """Map the record id of each summary node to the ids of the claims that it summarizes."""
    condition = both(equals("surface_kind", SUMMARY), f"NOT {equals('claim_id', '')}")
    found = records.to_table(columns=["record_id", "metadata"], filter=condition)
    metadata = map(orjson.loads, found["metadata"].to_pylist())
    return {i: said["members"] for i, said in zip(found["record_id"].to_pylist(), metadata, strict=True)}


@dataclass(frozen=True)
class Reader:
    """Primitives over one version of the records, and facts about that version that are computed once.

    Each method that takes a `condition` queries the table once, and again only if the result was too short.
    """

    records: LanceDataset
    embedder: QueryEmbedder
    store: Store

    exact_limit: int = EXACT_LIMIT
    """Most records matching a condition that are searched in memory; 0 always lets Lance search."""

    filters: dict[tuple[str, ...], str] = field(default_factory=dict)
    """(filter as given, corpora) -> the filter as passed to Lance, for filters that passed validation."""

    probed: dict[tuple[str, ...], ProbeScores] = field(default_factory=dict)
    """Corpora -> the scores of probes in them, as far as they were measured, see `probe_scores`."""

    within: Sequence[str] = ()
    """Corpora that may be read; () for all. Scores must not reveal which words other corpora contain."""

    noise: dict[str, Noise | None] = field(default_factory=dict)
    """Corpus -> its noise, as far as it was measured, see `corpus_noise`."""

    memory: VectorMemory | None = None
    """Vectors of all these records, as soon as they are in memory."""

    _maxima: dict[Term, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if refused := schemas.records_problem(self.records.schema):
            raise StoreError(f"the index has {refused}: run `findingaid index`")

    def beside(self, table: str) -> LanceDataset:
        """Return the version of one of `schemas.OF_RECORDS` that belongs to these records. Raises StoreError."""
        return self._beside(table)

    @cached_property
    def _beside(self) -> Callable[[str], LanceDataset]:
        return cache(partial(self.store.beside, self.records))

    def note_names(self, corpus: str) -> NoteNames:
        """Return the names by which the notes of a corpus link to each other."""
        return self._note_names(corpus)

    @cached_property
    def _note_names(self) -> Callable[[str], NoteNames]:
        return cache(lambda corpus: NoteNames(self.beside("artifacts"), self.beside("edges"), corpus))

    def artifacts(self, ids: Iterable[str], where: str | None = None) -> dict[Key, tuple[Artifact, str]]:
        """Map (corpus, artifact id) to the artifact as published and its version; missing artifacts are left out."""
        return read_artifacts(self.beside("artifacts"), ids, where)

    def embed(self, query: str) -> Vectors:
        """Return the vector of a query, shape (dim,).

        Raises StoreError if another embedder made the index, or another model under its name, and EmbedError for a
        vector that is not finite or of zeros.
        """
        self.require_embedder()
        vector = query_vector(self.embedder.embed_query(query))
        if len(vector) != self._dim:
            raise StoreError(f"embedder: {changed_dimensions(self.embedder.id, len(vector), self._dim)}")
        return vector

    @cached_property
    def _dim(self) -> int:
        """Dimensions of the records' vectors. Lance takes a millisecond to make a schema."""
        return int(self.records.schema.field("vector").type.list_size)

    def require_embedder(self) -> None:
        """Raise StoreError if another embedder made the index."""
        made, configured = self.embedder_id, self.embedder.id
        if made is None or made == configured:
            return
        precision = differing_precision(made, configured)
        run = "publish` to end the rollback" if Publisher(self.store).withdrawn() else "index`"
        raise StoreError(
            f"the index was made with embedder {made}, the configuration says {configured}: run `findingaid {run},"
            f" set {f'`embedder.precision: {precision}`' if precision else '`embedder` back'}, or restart a server"
            " whose configuration has changed since"
        )

    def nearest(
        self,
        vector: Vectors,
        depth: int,
        condition: str | None = None,
        selective: bool = False,
        columns: Sequence[str] = (),
    ) -> list[RowHit]:
        """Return the records nearest to a vector of shape (dim,), best first, by cosine similarity, ties by id.

        Returns fewer than `depth` only if fewer match. Pass `selective` for a condition that few records match and that
        is unlikely to be used again: its records are not kept in memory, and no vector index is used, since the index
        would probe partitions that contain none of them.
        """
        loaded, places = self._vectors(condition, selective)

        def find(many: int) -> list[RowHit]:
            if loaded:
                return _row_hits(loaded, *loaded.nearest(vector, many, places), columns)
            table = self._nearest(vector, many, condition, selective, columns)
            return [RowHit(row.pop("_rowid"), 1 - row.pop("_distance"), row or None) for row in table.to_pylist()]

        return self._best(depth, find)

    def similarities(self, vector: Vectors, rowids: Sequence[int]) -> list[RowHit]:
        """Return the cosine similarity of a vector of shape (dim,) to each of some records, best first.

        Only the vectors of these records are read: a nearest-neighbour query would scan all of them.
        """
        if loaded := self._loaded:
            return _row_hits(loaded, *loaded.nearest(vector, len(rowids), loaded.places(rowids)), ())
        listed = ",".join(map(str, rowids))
        few = LoadedVectors.matching(self.records, f"_rowid IN ({listed})", len(rowids))
        return _row_hits(few, *few.nearest(vector, len(rowids)), ()) if few else []

    def matching(
        self, text: str, depth: int, condition: str | None = None, columns: Sequence[str] = ()
    ) -> list[RowHit]:
        """Return the records that contain words of a text, best first, scored by BM25, ties by id."""

        def find(many: int) -> list[RowHit]:
            table = self._matching(text, many, condition, columns)
            return [RowHit(row.pop("_rowid"), row.pop("_score"), row or None) for row in table.to_pylist()]

        return self._best(depth, find)

    def where(self, condition: str) -> list[Candidate]:
        """Return records that match a condition, ordered by artifact and position in it, with score 0."""
        rows = self.records.to_table(columns=list(CANDIDATE_COLUMNS), filter=condition, with_row_id=True).to_pylist()
        found = [Candidate.of(row, RowHit(row["_rowid"], 0.0)) for row in rows]
        return sorted(found, key=lambda c: (c.corpus, c.artifact_id, c.surface_index))

    def candidates(self, found: Sequence[RowHit]) -> list[Candidate]:
        """Turn ranking entries into candidates, in the same order; read the rows that are still missing."""
        unread = [f for f in found if f.row is None]
        read = dict(zip((f.rowid for f in unread), self.rows_of(unread, CANDIDATE_COLUMNS), strict=True))
        return [Candidate.of(f.row or read[f.rowid], f) for f in found]

    def rows_of(self, placed: Sequence[RowHit | Candidate], columns: Sequence[str]) -> list[Row]:
        """Return the given columns of some records, in the order of the records."""
        if not placed:
            return []
        if loaded := self._loaded:
            places = loaded.places([p.rowid for p in placed])
            rows = loaded.read(places, [name for name in columns if name in CANDIDATE_COLUMNS])
            if others := [name for name in columns if name not in CANDIDATE_COLUMNS]:
                read = self.records.take(places.tolist(), columns=others).to_pylist()
                rows = [row | more for row, more in zip(rows or [{}] * len(read), read, strict=True)]
            return rows
        listed = ",".join(str(p.rowid) for p in placed)
        found = self.records.to_table(columns=list(columns), filter=f"_rowid IN ({listed})", with_row_id=True)
        by_rowid = {row.pop("_rowid"): row for row in found.to_pylist()}
        return [by_rowid[p.rowid] for p in placed]

    def in_order(self, found: Sequence[RowHit]) -> list[RowHit]:
        """Sort by score, ties by record id. Only the ids of tied records are read from the table."""
        ordered = sorted(found, key=lambda f: (-f.score, f.rowid))
        same = (pair for pair in pairwise(ordered) if pair[0].score == pair[1].score)
        tied = {f.rowid: f for pair in same for f in pair}
        if not tied:
            return ordered
        ids = {c.rowid: c.record_id for c in self.candidates(list(tied.values()))}
        return sorted(ordered, key=lambda f: (-f.score, ids.get(f.rowid, "")))

    def run_concurrently(self, *queries: Callable[[], T]) -> list[T]:
        """Run several queries concurrently and return their results. The queries must not call this method."""
        first, *others = queries
        running: list[Future[T]] = [_pool().submit(query) for query in others]
        return [first(), *(future.result() for future in running)]

    @property
    def in_memory(self) -> bool:
        """Whether the vectors and `CANDIDATE_COLUMNS` of all records are in memory."""
        return self._loaded is not None

    # -- words -----------------------------------------------------------------------------------------

    def terms_without_maximum(self, text: str) -> list[Term]:
        """Return the words of a text without a loaded maximum. `matching` loads those of phrases."""
        query = self._query(text)
        words = dict.fromkeys((*query.words[:BM25_WORDS], *query.others))
        return [term for term in map(Term, words) if term not in self._maxima]

    def load_maximum(self, term: Term) -> float | None:
        """Return the best BM25 score that any record has for a term, from the cache after the first call."""
        from lance.query import MatchQuery, PhraseQuery

        if term not in self._maxima:
            wanted = PhraseQuery(term.text, COLUMN) if term.is_phrase else MatchQuery(term.text, COLUMN)
            best = self._find(wanted, 1, self._scope, ())["_score"].to_pylist()
            self._maxima[term] = best[0] if best else None
        return self._maxima[term]

    def max_bm25(self, text: str) -> float:
        """Return the highest BM25 score that a record could have for a text: the sum of the best scores of its terms.

        Only the words with a loaded maximum are summed, and the sum is scaled to the number of words. A word that no
        record contains counts as a maximally rare word. It counts 0 if Lance's own stop-word list is in use, since it
        may be a stop word. Other forms of words, and phrases, count 0 if no record has them.
        """
        query = self._query(text)
        counted = query.words[:BM25_WORDS]
        found = [most for word in counted for most in (self._maxima.get(Term(word)),) if most is not None]
        known = self.lexical is not None and self.lexical.listed is not None
        missing = (len(counted) - len(found)) * math.log(2 * self.size + 2) if known else 0.0
        of_words = (sum(found) + missing) * len(query.words) / max(1, len(counted))
        more = [*map(Term, query.others), *(Term(phrase, True) for phrase in query.phrases)]
        return of_words + sum(self._maxima.get(term) or 0.0 for term in more)

    @cached_property
    def _query(self) -> Callable[[str], LexicalQuery]:
        """Function text -> query, which a search calls up to three times for a text."""
        return lru_cache(CACHED_QUERIES)((self.lexical or Lexical()).query)

    # -- facts about this version ----------------------------------------------------------------------

    @cached_property
    def size(self) -> int:
        """Number of records in the corpora that may be read."""
        return int(self.records.count_rows(self._scope))

    @cached_property
    def embedder_id(self) -> str | None:
        """Id of the embedder that made the vectors; None if there are no records."""
        first = self.records.to_table(columns=["embedder_id"], limit=1)["embedder_id"].to_pylist()
        return first[0] if first else None

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """Surface kinds of the records of each corpus."""
        found = self.records.to_table(columns=["corpus", "surface_kind"]).group_by(["corpus", "surface_kind"])
        pairs = [(row["corpus"], row["surface_kind"]) for row in found.aggregate([]).to_pylist()]
        return {corpus: frozenset(kind for c, kind in pairs if c == corpus) for corpus, _ in pairs}

    @cached_property
    def summarized_by_model(self) -> frozenset[str]:
        """Corpora with summary records, such as synopses, that a language model wrote."""
        from findingaid.llm.parameters import OPENAI

        written = f"producer_id LIKE '%{OPENAI}-%' AND granularity <> 'chunk'"
        found = self.records.to_table(columns=["corpus"], filter=both(equals("claim_id", ""), written))
        return frozenset(found["corpus"].unique().to_pylist())

    @cached_property
    def titles(self) -> Mapping[Key, str]:
        """Title of every artifact, sorted by (corpus, artifact id)."""
        found = self.records.to_table(columns=["corpus", "artifact_id", "title"])
        once = found.group_by(found.column_names).aggregate([])
        columns = (once[name].to_pylist() for name in found.column_names)
        return {(corpus, artifact): title for corpus, artifact, title in sorted(zip(*columns, strict=True))}

    @cached_property
    def node_members(self) -> Mapping[str, Sequence[str]]:
        """Ids of the claims that each summary node summarizes, by the node's record id."""
        return read_node_members(self.records)

    @cached_property
    def _scope(self) -> str | None:
        """Condition that selects the corpora that may be read; None if these are all corpora."""
        return one_of("corpus", self.within) if self.within and not set(self.within) >= self.kinds.keys() else None

    @cached_property
    def lexical(self) -> Lexical | None:
        """Settings of the full-text index; None if it was made without any."""
        return made_with(self.records)

    @cached_property
    def _index(self) -> vectors.Measured | None:
        indexed = any(index.field_names == ["vector"] for index in self.records.describe_indices())
        return (vectors.measured(self.records) or vectors.UNKNOWN) if indexed else None

    # -- queries ---------------------------------------------------------------------------------------

    def _nearest(
        self, vector: Vectors, depth: int, condition: str | None, selective: bool, columns: Sequence[str]
    ) -> pa.Table:
        def find(how: Mapping[str, Any]) -> pa.Table:
            return self.records.to_table(
                columns=[*columns, "_distance"],
                nearest={"column": "vector", "q": vector, "k": depth, "metric": "cosine", **how},
                filter=condition,
                prefilter=True,
                with_row_id=True,
            )

        if self._index and not selective and depth <= vectors.INDEX_DEPTH:
            rows = find({"nprobes": self._index.probes, "refine_factor": vectors.refine(depth)})
            if len(rows) == depth:
                return rows
        # An index probes the nearest partitions only, and a selective filter can leave those empty.
        return find({"use_index": False})

    def _vectors(self, condition: str | None, selective: bool) -> tuple[LoadedVectors | None, Any]:
        """Return vectors that are in memory, and the places of those that match a condition, or None for all.

        Without vectors of all records, those of the few that match are loaded. Returns None if there are too many.
        """
        if loaded := self._loaded:
            find = self._places if selective else self._cached_places
            return loaded, find(loaded, condition) if condition or self._limited else None
        load = self._load_matching if selective else self._load_cached
        return (load(condition) if (condition or self._limited) and self.exact_limit else None), None

    @property
    def _limited(self) -> bool:
        """Whether there are records that the caller may not read; each query of the table leaves them out."""
        return isinstance(self.records, Permitted) and self.records.limited

    @property
    def _loaded(self) -> LoadedVectors | None:
        return self.memory.loaded if self.memory else None

    @cached_property
    def _cached_places(self) -> Callable[[LoadedVectors, str | None], Any]:
        return lru_cache(CACHED_PLACES)(self._places)

    def _places(self, loaded: LoadedVectors, condition: str | None) -> Any:
        found = self.records.to_table(columns=[], filter=condition, with_row_id=True)["_rowid"].to_numpy()
        return np.sort(loaded.places(found))

    @cached_property
    def _load_cached(self) -> Callable[[str | None], LoadedVectors | None]:
        return lru_cache(CACHED_CONDITIONS)(self._load_matching)

    def _load_matching(self, condition: str | None) -> LoadedVectors | None:
        return LoadedVectors.matching(self.records, condition, self.exact_limit)

    def _matching(self, text: str, depth: int, condition: str | None, columns: Sequence[str]) -> pa.Table:
        from lance.query import BooleanQuery, MatchQuery, Occur, PhraseQuery

        # A plain string would be parsed as syntax, such as quotes.
        query = self._query(text)
        words = MatchQuery(query.text, COLUMN)
        phrases = [PhraseQuery(phrase, COLUMN) for phrase in query.phrases if self.load_maximum(Term(phrase, True))]
        # A query of several clauses scores every record with any of the words: six times as slow for 30 words.
        wanted = BooleanQuery([(Occur.SHOULD, each) for each in (words, *phrases)]) if phrases else words
        return self._find(wanted, depth, condition, columns)

    def _find(self, wanted: FullTextQuery, depth: int, condition: str | None, columns: Sequence[str]) -> pa.Table:
        return self.records.to_table(
            columns=[*columns, "_score"],
            full_text_query=wanted,
            filter=condition,
            prefilter=True,
            limit=depth,
            with_row_id=True,
        )

    def _best(self, depth: int, find: Callable[[int], list[RowHit]]) -> list[RowHit]:
        """Return the best `depth` entries by score, then id. If the last one ties with entries behind it, read on.

        Reading stops beyond `TIES`, so that a very long tie may be cut before all its ids were compared.
        """
        asked = depth + 1
        while True:
            found = sorted(find(asked), key=lambda f: -f.score)
            whole = len(found) < asked or found[depth - 1].score > found[-1].score
            if whole or asked > max(TIES, depth + 1):
                break
            asked *= 4
        return self.in_order(found)[:depth]


def _row_hits(loaded: LoadedVectors, places: Any, scores: Any, columns: Sequence[str]) -> list[RowHit]:
    """Return ranking entries, with their rows if `CANDIDATE_COLUMNS` cover the requested columns."""
    known = bool(columns) and set(columns) <= set(CANDIDATE_COLUMNS)
    rows = loaded.read(places) if known else [None] * len(places)
    found = zip(loaded.rowids[places].tolist(), scores.tolist(), rows, strict=True)
    return [RowHit(rowid, score, row) for rowid, score, row in found]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONCURRENT_QUERIES, "findingaid-search")
