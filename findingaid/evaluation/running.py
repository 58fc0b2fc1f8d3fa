"""Putting cases to an index: rankings of artifacts, kept by what they depend on, as are the queries' vectors."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import orjson

from findingaid.errors import QueryError, StoreError
from findingaid.evaluation.cases import Case
from findingaid.identity import bytes_hash, content_hash, describe, text_hash
from findingaid.model import Embedder, Hit, Vectors
from findingaid.store import Store

RUNS = "runs"
KEPT_RUNS = 50

TRIGRAM = 3
COVERED = 0.5
"""The share of a passage's word trigrams that a text must have to hold it, so that another cut of it counts."""

OF_A_CASE = ("the query ", "where ")
"""How errors begin that are about what the case itself says, and not about how it is asked."""

Progress = Callable[[int, int], None]
"""Called with how many more cases there are, and how many more are done."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a case found: artifacts as "corpus/artifact", best first, and the place of the first record, counted
    from 1, that is of an artifact expected and holds the passage."""

    artifacts: Sequence[str]
    passage: int | None = None


class Searching(Protocol):
    """What can be asked: a finding aid."""

    @property
    def store(self) -> Store: ...
    @property
    def embedder(self) -> Embedder: ...
    @property
    def search(self) -> Callable[..., Sequence[Hit]]: ...


@dataclass(frozen=True)
class Remembering:
    """An embedder that remembers the vectors of queries, in a file an embedder where there is a folder."""

    of: Embedder
    vectors: dict[str, Vectors]
    file: Path | None

    @classmethod
    def kept_in(cls, folder: Path | None, of: Embedder) -> Self:
        """With what is kept of this embedder there."""
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
            self.vectors[key] = self.of.embed_query(text)
        return self.vectors[key]

    def keep(self) -> None:
        """Write what is remembered; a folder that cannot be written is done without."""
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
) -> list[Ranking]:
    """A ranking of `depth` artifacts a case, fewer where fewer match; `aid` is asked with `asked` beside its query.

    Those that `folder` has of an earlier run are not made again.
    """
    file = folder / RUNS / f"{_key(aid, corpora, asked or {}, depth)}.json" if folder else None
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
) -> Ranking:
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
        held = (place for place, hit in records if _name(hit) in case.expected and holds(hit.text, case.passage))
        first = next(held, None)
    return Ranking([_name(hit) for hit in hits(per_artifact=True)], first)


def _name(hit: Hit) -> str:
    return f"{hit.corpus}/{hit.artifact_id}"


def holds(text: str, passage: str) -> bool:
    """Whether a text has most of a passage, however the two are cut and spaced."""
    wanted = set(_trigrams(passage))
    return len(wanted & set(_trigrams(text))) >= COVERED * len(wanted)


def _trigrams(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return zip(*(words[i:] for i in range(min(TRIGRAM, len(words)))), strict=False)


def _key(aid: Searching, corpora: Sequence[str] | None, asked: Mapping[str, Any], depth: int) -> str:
    """Of everything that a ranking depends on beside its case."""
    return content_hash(contents(aid.store), aid.embedder.id, corpora, describe(asked), depth, _code())


def _case_key(case: Case) -> str:
    return content_hash(case.query, case.where, *([case.passage, sorted(case.expected)] if case.passage else []))


def contents(store: Store) -> str:
    """Changes with what is published, with what was decided of it, and by which indexes it is searched."""
    records, edges, decisions = store.published(), 0, 0
    with contextlib.suppress(StoreError):  # of those that most searches need not
        edges = store.edges_of(records).version
    with contextlib.suppress(StoreError):
        decisions = store.dataset("decisions").version
    fragments = [fragment.metadata for fragment in records.get_fragments()]
    rows = [[[file.path for file in f.files], str(f.deletion_file)] for f in fragments]
    return content_hash(records.uri, records.version, rows, edges, decisions)


@cache
def _code() -> str:
    """Of the code that ranks, and of the library that answers: a run of other code is another run."""
    import lance

    library = Path(__file__).parent.parent
    parts = [part for folder in ("claims", "query", "store") for part in sorted((library / folder).glob("**/*.py"))]
    return content_hash(lance.__version__, [bytes_hash(part.read_bytes()) for part in parts])


def forget_runs(folder: Path) -> None:
    """Drop the rankings that are kept, which name artifacts that may be gone."""
    shutil.rmtree(folder / RUNS, ignore_errors=True)


def _drop_oldest(folder: Path) -> None:
    """Keep the newest runs alone: those of replaced records are never asked for again."""
    with contextlib.suppress(OSError):
        for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)[KEPT_RUNS:]:
            file.unlink(missing_ok=True)


def _read(file: Path | None) -> dict[str, Ranking]:
    if file is None:
        return {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        return {key: Ranking(*parts) for key, parts in orjson.loads(file.read_bytes()).items()}
    return {}


def _write(file: Path, write: Callable[[Any], object]) -> None:
    """All of a file or nothing of it; a cache that cannot be written is done without."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as target:
            write(target)
        os.replace(target.name, file)
