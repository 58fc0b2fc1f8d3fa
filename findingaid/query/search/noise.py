"""Noise of a corpus: the similarity that says nothing, because random records of the corpus have it too.

A cosine has no absolute meaning: unrelated texts have 0.1 with one model and 0.7 with another. So random records of
the corpus are compared with each other. A record that is hardly more similar to the query than they are, and that lacks
most of the query's words, is a weak match.

Questions about unrelated subjects tell own questions from foreign ones slightly better (AUC 0.97 instead of 0.94 over
the collections below). But they would have to be embedded, which costs calls if the embedder is at an endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from findingaid.claims.eligible import NEITHER
from findingaid.store import vectors
from findingaid.store.sql import both, equals
from findingaid.text.analyzer import Lexical, searchable, split_identifiers
from findingaid.text.words import found_stems, salient

if TYPE_CHECKING:
    from findingaid.query.search.reader import Candidate, Reader
    from findingaid.query.search.request import Request

SAMPLE = 256
"""Random records of a corpus that are compared with each other."""

FEWEST = 8
"""Least number of records from which noise can be measured."""

CLEAR = 1.0
"""Standard deviations above the mean from which a similarity counts as more than noise.

Chosen on six collections (SciFact, MetaTool, LoCoMo, QMSum, this project's pages and its code) with the packaged model.
Together with `COVERED` it calls 0 to 17 % of a collection's own questions weak, and 24 to 100 % (median 94 %) of those
that were put to another. At 1.5 it would be 0 to 23 %, and 57 to 100 % (median 95 %).
"""

COVERED = 0.5
"""Share of the query's words from which a record counts as a match by its words."""

QUERIES_KEPT = 64
"""Queries whose words are kept, for all the hits of a search."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Cosine similarities between random records of a corpus: their mean and standard deviation."""

    mean: float
    deviation: float

    def excess(self, score: float) -> float:
        """Return how many standard deviations a dense score is above the mean. Up to `CLEAR` it may be chance."""
        return (score - self.mean) / (self.deviation or 1.0)


def corpus_noise(reader: Reader, corpus: str) -> Noise | None:
    """Return the noise of a corpus, measured once per reader; None for a corpus of fewer than `FEWEST` records."""
    if corpus not in reader.noise:
        reader.noise[corpus] = _measure(reader, corpus)
    return reader.noise[corpus]


def _measure(reader: Reader, corpus: str) -> Noise | None:
    condition = both(equals("corpus", corpus), NEITHER)
    ids = reader.records.to_table(columns=[], filter=condition, with_row_id=True)["_rowid"].to_numpy()
    if len(ids) < FEWEST:
        return None
    chosen = np.random.default_rng(0).choice(ids, min(SAMPLE, len(ids)), replace=False)
    listed = ",".join(map(str, sorted(chosen)))
    found = reader.records.to_table(columns=["vector"], filter=f"_rowid IN ({listed})")["vector"].combine_chunks()
    unit = vectors.unit(found)
    similar = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    return Noise(float(similar.mean()), float(similar.std()))


def covered_share(query: str, text: str, lexical: Lexical) -> float:
    """Return the share of the salient words of a query, in its best form, that a text has."""
    forms = _wanted(query, lexical)
    found = found_stems(frozenset[str]().union(*forms), text, lexical)
    return max((len(form & found) / len(form) for form in forms), default=0.0)


@lru_cache(QUERIES_KEPT)
def _wanted(query: str, lexical: Lexical) -> Sequence[frozenset[str]]:
    """Return the stems of the salient words of a query: as it is, by parts of names, and without separators."""
    forms = (query, split_identifiers(query), " ".join(searchable(query).others))
    found = [frozenset(salient(form, lexical)) for form in dict.fromkeys(forms)]
    return [form for form in found if form]


def is_weak(reader: Reader, request: Request, candidate: Candidate, row: Mapping[str, Any]) -> bool:
    """Return whether a record matches no query better than chance, neither by meaning nor by words.

    A record that a route led to is not judged, since it need not resemble the query.
    """
    if candidate.route or not candidate.ranks:
        return False
    noise = corpus_noise(reader, candidate.corpus)
    dense = (rank.score for rank in candidate.ranks if rank.ranker == "dense")
    if noise is None or any(noise.excess(score) > CLEAR for score in dense):
        return False
    return not _covers(request.queries, row["text"], reader.lexical or Lexical())


def _covers(queries: Sequence[str], text: str, lexical: Lexical) -> bool:
    """Return whether a text covers a query. Other forms of its words are only made if its own do not."""

    def covered(text: str) -> bool:
        return any(covered_share(query, text, lexical) >= COVERED for query in queries)

    return covered(text) or covered(" ".join([text, *searchable(text).others]))
