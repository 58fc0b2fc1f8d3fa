"""Rankings of artifacts for cases, and a cache of the vectors of their queries."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from findingaid.embedding.validation import query_vector
from findingaid.errors import QueryError
from findingaid.identity.hashes import text_hash
from findingaid.metrics.cases import Case
from findingaid.model import Hit, Vectors
from findingaid.protocols import Embedder
from findingaid.text.words import ngrams

TRIGRAM = 3
COVERED = 0.5
"""Share of a passage's word trigrams that a text must have to hold the passage, so that other cuts of it count too."""

OF_A_CASE = ("the query ", "where ")
"""Beginnings of errors that are caused by the case itself, and not by the search options."""

Progress = Callable[[int, int], None]
"""Called with the number of cases to add to the total, and the number of cases just finished."""


@dataclass(frozen=True, slots=True)
class CaseRanking:
    """Search results of a case.

    `artifacts` are "corpus/artifact", best first. `passage` is the rank, counted from 1, of the first record that is of
    an expected artifact and holds the passage; None if there is no such record.
    """

    artifacts: Sequence[str]
    passage: int | None = None


class SupportsSearch(Protocol):
    """Interface that evaluations search with; a finding aid implements it."""

    @property
    def embedder(self) -> Embedder: ...
    @property
    def search(self) -> Callable[..., Sequence[Hit]]: ...


@dataclass(frozen=True)
class CachingEmbedder:
    """Embedder that caches the vectors of queries; with a folder, in one file for each embedder."""

    of: Embedder
    vectors: dict[str, Vectors]
    file: Path | None

    @classmethod
    def kept_in(cls, folder: Path | None, of: Embedder) -> Self:
        """Return the embedder with the query vectors that `folder` holds for it."""
        file = folder / "queries" / f"{text_hash(of.id)}.npz" if folder else None
        vectors: dict[str, Vectors] = {}
        if file:
            with contextlib.suppress(OSError, ValueError, KeyError), np.load(file) as kept:
                vectors = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))
        return cls(of, vectors, file)

    @property
    def id(self) -> str:
        return self.of.id

    @property
    def dim(self) -> int:
        return self.of.dim

    @property
    def max_tokens(self) -> int | None:
        return self.of.max_tokens

    def count_tokens(self, text: str) -> int:
        return self.of.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.of.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        key = text_hash(text)
        if key not in self.vectors:
            self.vectors[key] = query_vector(self.of.embed_query(text))
        return self.vectors[key]

    def keep(self) -> None:
        """Write the cached vectors; a folder that cannot be written is ignored."""
        if not self.file or not self.vectors:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.file.parent, delete=False) as target:
                np.savez(target, keys=np.array(list(self.vectors)), vectors=np.stack(list(self.vectors.values())))
            os.replace(target.name, self.file)


def rank(
    aid: SupportsSearch,
    cases: Sequence[Case],
    depth: int,
    *,
    corpora: Sequence[str] | None = None,
    asked: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[CaseRanking]:
    """Rank `depth` artifacts for each case, fewer if fewer match; `asked` holds further search options."""
    if progress:
        progress(len(cases), 0)
    found = []
    for case in cases:
        found.append(_ranking(aid, case, depth, corpora, asked or {}))
        if progress:
            progress(0, 1)
    if isinstance(aid.embedder, CachingEmbedder):
        aid.embedder.keep()
    return found


def _ranking(
    aid: SupportsSearch, case: Case, depth: int, corpora: Sequence[str] | None, asked: Mapping[str, Any]
) -> CaseRanking:
    def hits(per_artifact: bool) -> Sequence[Hit]:
        try:
            return aid.search(case.query, depth, corpora=corpora, where=case.where, per_artifact=per_artifact, **asked)
        except QueryError as error:
            if case.place and str(error).startswith(OF_A_CASE):
                raise QueryError(f"{case.place}: {error}") from None
            raise

    first = None
    if case.passage:
        records = enumerate(hits(per_artifact=False), 1)
        held = (
            place for place, hit in records if _name(hit) in case.expected and contains_passage(hit.text, case.passage)
        )
        first = next(held, None)
    return CaseRanking(list(dict.fromkeys(_name(hit) for hit in hits(per_artifact=True))), first)


def _name(hit: Hit) -> str:
    return f"{hit.corpus}/{hit.artifact_id}"


def contains_passage(text: str, passage: str) -> bool:
    """Return whether a text has most of a passage, regardless of how the two are cut and spaced."""
    wanted = _trigrams(passage)
    return len(wanted & _trigrams(text)) >= COVERED * len(wanted)


def _trigrams(text: str) -> set[tuple[str, ...]]:
    """Return the trigrams of a text; of a shorter text, all of its words together."""
    words = re.findall(r"\w+", text.lower())
    return set(ngrams(words, min(TRIGRAM, len(words) or 1)))
