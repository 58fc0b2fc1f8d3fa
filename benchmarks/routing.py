"""The collapsed tree beside bare LanceDB calls that do the same: the best summaries, then the best of their leaves."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import lancedb

from benchmarks.figures import Row, timed
from findingaid import Corpus, FindingAid
from findingaid.embedding.hashing import HashEmbedder
from findingaid.query.hits import COLUMNS
from findingaid.query.reader import LIGHT
from findingaid.store import Store, vectors
from findingaid.store.sql import one_of
from findingaid.strategies.chunked import Chunked
from findingaid.synopses import with_synopsis
from findingaid.testing import MemorySource, ScriptedSynthesizer

SIZES = (10_000, 100_000)
LEAVES = 4
K = 10
ROUNDS = 40
READ = [*LIGHT, *COLUMNS, "_distance"]


def index(folder: Path, records: int) -> FindingAid:
    """As many records: artifacts of a synopsis and four leaves."""
    texts = {
        f"{i:06d}.md": "\n\n".join(f"Artifact {i} says in part {n} what ledger {i * n} holds." for n in range(LEAVES))
        for i in range(records // (LEAVES + 1))
    }
    strategy = with_synopsis(Chunked(chunk_size=60, overlap=0), ScriptedSynthesizer())
    corpora = {"docs": Corpus("docs", MemorySource(dict(texts)), strategy)}
    aid = FindingAid(Store(str(folder / f"index{records}")), HashEmbedder(), corpora)
    assert aid.index().ok
    return aid


def bare(table: Any, vector: Any, probes: int) -> list[dict[str, Any]]:
    """What someone would write who needs it once: no ties broken, no leafless artifact, no score of the summary."""

    def best(where: str, columns: list[str]) -> list[dict[str, Any]]:
        asked = table.search(vector).distance_type("cosine")
        if probes:
            asked = asked.nprobes(probes).refine_factor(vectors.refine(K))
        found: list[dict[str, Any]] = asked.where(where, prefilter=True).select(columns).limit(K).to_list()
        return found

    summaries = best("surface_kind = 'synopsis'", ["artifact_id", "_distance"])
    leaves = f"surface_kind = 'chunk' AND {one_of('artifact_id', [row['artifact_id'] for row in summaries])}"
    return best(leaves, READ)


def collapsed(folder: Path) -> Iterator[Row]:
    for records in SIZES:
        aid = index(folder, records)
        table = lancedb.connect(aid.store.uri).open_table("records")
        index_of = vectors.measured(aid.store.published())
        queries = [f"what does artifact {i} say" for i in range(ROUNDS)]

        def theirs(
            query: str, table: Any = table, aid: FindingAid = aid, probes: int = index_of.probes if index_of else 0
        ) -> list[dict[str, Any]]:
            return bare(table, aid.embedder.embed_query(query), probes)

        def ours(query: str, aid: FindingAid = aid) -> Any:
            return aid.search(query, K, mode="dense", route="collapsed")

        def flat(query: str, aid: FindingAid = aid) -> Any:
            return aid.search(query, K, mode="dense")

        assert all(len(ask(queries[0])) == K for ask in (theirs, ours, flat))
        times = [tuple(timed(_asking(ask, query))[0] for ask in (theirs, ours, flat)) for query in queries]
        least, took, flat_took = (median(column) for column in zip(*times, strict=True))
        ratio = median(our / their for their, our, _ in times)
        yield Row(
            f"collapsed search, {records:,} records, p50",
            f"{took * 1000:.1f} ms, {ratio:.2f} × bare LanceDB's {least * 1000:.1f} ms; flat {flat_took * 1000:.1f} ms",
            "≤ 1.3 ×",
            ratio <= 1.3,
        )


def _asking(ask: Callable[[str], Any], query: str) -> Callable[[], Any]:
    return lambda: ask(query)
