"""Benchmarks of searches compared with bare LanceDB calls that do the same retrieval.

Both use the same table, probes and columns. The figures are medians (p50) of warm queries. A million records take
minutes to write, so they are measured only with FINDINGAID_BENCH_MILLION=1.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Self, get_args

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.rerankers import RRFReranker

from benchmarks.figures import ROUNDS, Row, timed
from findingaid.access import Caller, readers_text
from findingaid.embedding.hashing import HashEmbedder
from findingaid.model import SYNOPSIS, Mode, Vectors
from findingaid.query.search import Request, Searcher
from findingaid.query.search.hits import HIT_COLUMNS
from findingaid.query.search.request import Route
from findingaid.query.search.routing import Collapsed
from findingaid.query.search.vector_memory import CANDIDATE_COLUMNS
from findingaid.store import Publisher, Store, repair, schemas, upkeep, vectors
from findingaid.store.sql import one_of

SIZES = (10_000, 100_000, *([1_000_000] if os.environ.get("FINDINGAID_BENCH_MILLION") else []))
WORDS, ZIPF, LENGTH = 30_000, 1.1, 160
TOPICS, SPREAD = 2_000, 0.9
QUERIES, WARM_UP, K = 40, 5, 10
SURFACES = 5
BATCH = 50_000
ALLOWED = 0.5
READ = [*CANDIDATE_COLUMNS, *HIT_COLUMNS]
NEAR = [*READ, "_distance"]

SHARES = {"all": 1, "tenth": 10, "thousandth": 1_000, "few": 10_000}
"""Groups that may read one of so many artifacts."""

Rows = list[dict[str, Any]]
Ask = Callable[[str], object]


@dataclass(frozen=True)
class Topics:
    """Embedder that clusters texts around two thousand centres, as a model clusters texts of one topic."""

    inner: ClassVar = HashEmbedder()
    dim: ClassVar = 384
    id: ClassVar = "topics-384"
    max_tokens: ClassVar = None

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed(self, texts: list[str]) -> Vectors:
        centres = self.inner.embed([f"topic {hash_of(text) % TOPICS}" for text in texts])
        found: Vectors = centres + SPREAD * self.inner.embed(texts)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector


def hash_of(text: str) -> int:
    return sum(text.encode()[:64])


def texts(count: int, length: int, seed: int) -> list[str]:
    """Generate texts with a Zipf distribution of words, as in natural language."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, WORDS + 1) ** ZIPF
    drawn = rng.choice(WORDS, (count, length), p=shares / shares.sum())
    lengths = rng.integers(length // 2, length + 1, count).tolist()  # equal lengths would tie most scores
    return [" ".join(f"w{word}" for word in row[:n]) for row, n in zip(drawn.tolist(), lengths, strict=True)]


def build(folder: Path, size: int) -> Store:
    """Build a published index of `size` records with a filterable number.

    Each artifact has a synopsis and four chunks.
    """
    store = Store(str(folder / f"index{size}"))
    embedder = Topics()
    repair.prepare(store, embedder.dim)
    for start in range(0, size, BATCH):
        store.replace("records", "docs", [], rows(start, min(BATCH, size - start), embedder))
    upkeep.compact(store)
    upkeep.update_indexes(store)
    Publisher(store).publish()
    return store


def readers_of(artifact: int) -> str:
    """Return the readers of an artifact: all, one in ten, a thousand and 10,000, and one of 2,000 groups."""
    some = [name for name, every in SHARES.items() if artifact % every == 0]
    return readers_text([*(f"group:{name}" for name in some), f"group:g{artifact % 2_000}"])


def rows(start: int, count: int, embedder: Topics) -> pa.Table:
    made = texts(count, LENGTH, start)
    numbers = range(start, start + count)
    kinds = [SYNOPSIS if n % SURFACES == 0 else "chunk" for n in numbers]
    fixed = {"corpus": "docs", "title": "", "artifact_version": "1", "producer_id": "", "embedder_id": embedder.id}
    fixed |= {"claim_id": "", "evidence": ""}
    columns = {name: [value] * count for name, value in fixed.items()} | {
        "surface_kind": kinds,
        "granularity": kinds,
        "record_id": [f"{random.Random(n).getrandbits(128):032x}" for n in numbers],
        "artifact_id": [f"{n // SURFACES:07d}.md" for n in numbers],
        "readers": [readers_of(n // SURFACES) for n in numbers],
        "surface_index": [n % SURFACES for n in numbers],
        "text": made,
        "lexical": made,
        "shown": [None] * count,
        "span_start": [0] * count,
        "span_end": [len(text) for text in made],
        "metadata": [json.dumps({"shelf": n % 100}) for n in numbers],
    }
    flat = pa.array(embedder.embed(made).astype(np.float16).ravel())
    columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, embedder.dim)
    return pa.table(columns, schema=schemas.records(embedder.dim))


def searches(folder: Path) -> Iterator[Row]:
    for size in SIZES:
        store = build(folder, size)
        yield from beside_bare(store, size)


def beside_bare(store: Store, size: int) -> Iterator[Row]:
    bare, searcher = Bare.of(store), Searcher(store, Topics())
    if memory := searcher.reader().memory:
        memory.load()  # as after a search

    def ours(mode: Mode, where: str | None = None, route: Route | None = None) -> Ask:
        return lambda query: searcher.search(Request((query,), K, mode=mode, where=where, route=route))

    filtered = "shelf < 10"
    pairs: dict[str, tuple[Ask, Ask]] = {
        "dense": (ours("dense"), bare.dense),
        "lexical": (ours("lexical"), bare.lexical),
        "hybrid": (ours("hybrid"), bare.hybrid),
        "dense, filtered": (ours("dense", filtered), lambda query: bare.dense(query, filtered)),
        "dense, collapsed": (ours("dense", route=Collapsed()), bare.collapsed),
    }
    for what, (mine, theirs) in pairs.items():
        took, least = compared(mine, theirs)
        ratio = took / least
        yield Row(
            f"{what}, {size:,} records{' by index' if bare.probes else ''}",
            f"{took * 1000:.1f} ms, bare LanceDB {least * 1000:.1f} ms: {ratio:.2f} ×",
            f"≤ {ALLOWED} ×",
            ratio <= ALLOWED,
        )


def permissions(folder: Path) -> Iterator[Row]:
    """Compare searches of callers with the same searches without permissions, in alternation."""
    size = 100_000
    store = build(folder, size)
    searcher = Searcher(store, Topics())
    if memory := searcher.reader().memory:
        memory.load()
    many = Caller.of(groups=[f"group:g{n}" for n in range(1_000)])
    callers = {f"1 of {every:,}": Caller.of(groups=[f"group:{name}"]) for name, every in SHARES.items()}
    for who, caller in {**callers, "1,000 groups": many}.items():
        views = [searcher.in_view(store.for_caller(each)) for each in (caller, None)]  # both have seen no words yet
        said, worst = [], 0.0
        for mode in get_args(Mode):
            asked = [lambda query, of=of, mode=mode: of.search(Request((query,), K, mode=mode)) for of in views]
            took, least = compared(*asked)
            worst = max(worst, took / least)
            said.append(f"{mode} {took * 1000:.1f} ms, {took / least:.2f} ×")
        yield Row(f"a caller who may read {who}, {size:,} records", "; ".join(said), "≤ 1.3 ×", worst <= 1.3)


@dataclass(frozen=True)
class Bare:
    """Bare LanceDB calls as in a one-off script, without tie-breaking or checks."""

    table: Any
    probes: int
    embed_query: Callable[[str], Vectors]

    @classmethod
    def of(cls, store: Store) -> Self:
        records = store.published()
        table = lancedb.connect(store.uri).open_table("records")
        table.checkout(records.version)
        found = vectors.measured(records)
        return cls(table, found.probes if found else 0, Topics().embed_query)

    def dense(self, query: str, where: str | None = None) -> Rows:
        return self._near(self.table.search(self.embed_query(query)), NEAR, where)

    def lexical(self, query: str) -> Rows:
        found: Rows = self.table.search(query, query_type="fts").limit(K).select([*READ, "_score"]).to_list()
        return found

    def hybrid(self, query: str) -> Rows:
        asked = self.table.search(query_type="hybrid").vector(self.embed_query(query)).text(query)
        return self._near(asked.rerank(RRFReranker()), READ)

    def collapsed(self, query: str) -> Rows:
        """Find the best synopses, then return the best chunks of their artifacts."""
        vector = self.embed_query(query)
        best = self._near(self.table.search(vector), ["artifact_id", "_distance"], f"surface_kind = '{SYNOPSIS}'")
        leaves = f"surface_kind = 'chunk' AND {one_of('artifact_id', [row['artifact_id'] for row in best])}"
        return self._near(self.table.search(vector), NEAR, leaves)

    def _near(self, asked: Any, columns: list[str], where: str | None = None) -> Rows:
        asked = asked.distance_type("cosine").limit(K).select(columns)
        if self.probes:
            asked = asked.nprobes(self.probes).refine_factor(vectors.refine(K))
        found: Rows = (asked.where(where) if where else asked).to_list()
        return found


def compared(mine: Ask, bare: Ask) -> tuple[float, float]:
    """Return the median seconds of both over the same queries; neither gets a query twice.

    They take turns in being the first to ask, since Lance keeps what the first one read of its index.
    """
    took: dict[Ask, list[float]] = {mine: [], bare: []}
    for number, query in enumerate(texts(QUERIES + WARM_UP, 5, 7)):
        for ask in (mine, bare) if number % 2 else (bare, mine):
            took[ask].append(timed(lambda q=query, ask=ask: ask(q))[0])  # type: ignore[misc]  # bound now
    return median(took[mine][WARM_UP:]), median(took[bare][WARM_UP:])


FIRST = """
import time; start = time.perf_counter(); parts = {}
def part(name):
    global start
    now = time.perf_counter(); parts[name] = now - start; start = now
import numpy, pyarrow, pydantic, yaml, click, rich.console, rich.progress, rich.table; part("libraries")
import findingaid, findingaid.cli; part("findingaid")
aid = findingaid.open(CONFIG); part("configuration")
import pandas; part("pandas, which pyarrow imports where it is installed")
import lance; part("lance")
aid.embedder.embed_query("load the model"); part("model")
aid.searcher.reader(); part("opening the table")
aid.search("what is a ledger"); part("search")
aid.search("what is a lease"); part("the next one")
import json; print(json.dumps(parts))
"""


def first_search(folder: Path) -> Iterator[Row]:
    """Measure the first search in a new process with the real model, and break down its time.

    It searches this repository's documents. Modules are compiled to bytecode, as in an installed package: the run that
    builds the index writes the bytecode.
    """
    config = folder / "findingaid.yaml"
    docs = Path(__file__).parent.parent / "docs"
    config.write_text(f'store: index\ncorpora: {{docs: {{source: {{kind: files, root: {docs}, include: ["*.md"]}}}}}}')
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}

    def run(*arguments: str) -> str:
        return subprocess.check_output([sys.executable, *arguments], text=True, env=environment)

    run("-m", "findingaid", "index", "--config", str(config))
    search = ("-m", "findingaid", "search", "what is a ledger", "--config", str(config))
    rounds = [
        (timed(lambda: run(*search))[0], json.loads(run("-c", FIRST.replace("CONFIG", repr(str(config))))))
        for _ in range(ROUNDS + 1)
    ][1:]
    whole = min(took for took, _ in rounds)
    parts = {name: min(run[name] for _, run in rounds) for name in rounds[0][1]}
    said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
    yield Row("first search in a new process, by the command line", f"{whole:.2f} s: {said}", "≤ 2 s", whole <= 2)
