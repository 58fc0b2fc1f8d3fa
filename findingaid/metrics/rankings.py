"""Rankings of artifacts for cases, and query vectors, both cached by all that they depend on."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import orjson

from findingaid.embedding.validation import query_vector
from findingaid.errors import IdentityError, QueryError, StoreError
from findingaid.identity.fingerprints import fingerprint
from findingaid.identity.hashes import bytes_hash, content_hash, text_hash
from findingaid.metrics.cases import Case
from findingaid.model import Hit, Vectors
from findingaid.protocols import Embedder
from findingaid.store import Store
from findingaid.text.words import ngrams

RUNS = "runs"
KEPT_RUNS = 50

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


class Searching(Protocol):
    """Interface that evaluations search with; a finding aid implements it."""

    @property
    def store(self) -> Store: ...
    @property
    def embedder(self) -> Embedder: ...
    @property
    def search_defaults(self) -> object: ...
    @property
    def search(self) -> Callable[..., Sequence[Hit]]: ...


@dataclass(frozen=True)
class Remembering:
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
        if self.file and self.vectors:
            keys, vectors = list(self.vectors), np.stack(list(self.vectors.values()))
            _write(self.file, lambda file: np.savez(file, keys=np.array(keys), vectors=vectors))


def rank(
    aid: Searching,
    cases: Sequence[Case],
    depth: int,
    *,
    corpora: Sequence[str] | None = None,
    asked: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> list[CaseRanking]:
    """Rank `depth` artifacts for each case, fewer if fewer match; `asked` holds further search options.

    Rankings that `folder` has from an earlier run are reused.
    """
    key = _key(aid, corpora, asked or {}, depth) if folder else None
    file = folder / RUNS / f"{key}.json" if folder and key else None
    kept = _read(file)
    missing = {key: case for case in cases if (key := _case_key(case)) not in kept}
    if progress:
        progress(len(missing), 0)
    for key, case in missing.items():
        kept[key] = _ranking(aid, case, depth, corpora, asked or {})
        if progress:
            progress(0, 1)
    if isinstance(aid.embedder, Remembering) and missing:
        aid.embedder.keep()
    if file and missing:
        shown = {key: [ranking.artifacts, ranking.passage] for key, ranking in kept.items()}
        _write(file, lambda target: target.write(orjson.dumps(shown)))
        _drop_oldest(file.parent)
    return [kept[_case_key(case)] for case in cases]


def _ranking(
    aid: Searching, case: Case, depth: int, corpora: Sequence[str] | None, asked: Mapping[str, Any]
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
    return CaseRanking([_name(hit) for hit in hits(per_artifact=True)], first)


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


def _key(aid: Searching, corpora: Sequence[str] | None, asked: Mapping[str, Any], depth: int) -> str | None:
    """Return a key of all that a ranking depends on beside its case; None if a part of the search has no id."""
    try:
        asked = {**asked, "defaults": aid.search_defaults}
        return content_hash(contents_hash(aid.store), aid.embedder.id, corpora, fingerprint(asked), depth, _code())
    except IdentityError:
        return None


def _case_key(case: Case) -> str:
    return content_hash(case.query, case.where, *([case.passage, sorted(case.expected)] if case.passage else []))


def contents_hash(store: Store) -> str:
    """Return a hash that changes with the published data, with decisions, and with the search indexes."""
    records, edges, decisions = store.published(), 0, 0
    with contextlib.suppress(StoreError):  # most searches do not need edges
        edges = store.beside(records, "edges").version
    with contextlib.suppress(StoreError):
        decisions = store.dataset("decisions").version
    fragments = [fragment.metadata for fragment in records.get_fragments()]
    rows = [[[file.path for file in f.files], str(f.deletion_file)] for f in fragments]
    return content_hash(records.uri, records.version, rows, edges, decisions)


@cache
def _code() -> str:
    """Return a hash of the code that ranks, and of the version of lance; another hash means another run."""
    import lance

    library = Path(__file__).parent.parent
    parts = [
        part
        for folder in ("claims", "llm", "query", "store", "text")
        for part in sorted((library / folder).glob("**/*.py"))
    ]
    return content_hash(lance.__version__, [bytes_hash(part.read_bytes()) for part in parts])


def forget_runs(folder: Path) -> None:
    """Delete the cached rankings, which name artifacts that may be gone."""
    shutil.rmtree(folder / RUNS, ignore_errors=True)


def _drop_oldest(folder: Path) -> None:
    """Keep only the newest runs; those of replaced records are never requested again."""
    with contextlib.suppress(OSError):
        for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)[KEPT_RUNS:]:
            file.unlink(missing_ok=True)


def _read(file: Path | None) -> dict[str, CaseRanking]:
    if file is None:
        return {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        return {key: CaseRanking(*parts) for key, parts in orjson.loads(file.read_bytes()).items()}
    return {}


def _write(file: Path, write: Callable[[Any], object]) -> None:
    """Write a file as a whole or not at all; a cache that cannot be written is ignored."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as target:
            write(target)
        os.replace(target.name, file)
