"""Benchmark of Ray workers: how the same batches take less time on more workers.

`python -m benchmarks.ray 1 2 4 8` writes its table in RESULTS.md, in some five minutes. The embedder takes 20
ms a text and the synthesizer 200 ms a call, both by sleeping, so that a machine with two cores can be as many workers.
The start of the workers is not in the times.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import findingaid
from benchmarks import corpus
from benchmarks.figures import machine, timed, write_table
from findingaid.embedding.hashing import HashEmbedder
from findingaid.indexing.options import ALL_STALE
from findingaid.indexing.ray_workers import RayWorkers
from findingaid.indexing.workers import Batch
from findingaid.model import Vectors
from findingaid.store.schemas import PER_ARTIFACT

BATCHES, BATCH, SECTIONS = 8, 64, 5
TEXT_SECONDS, CALL_SECONDS = 0.02, 0.2
BUDGETED = 4
"""Workers of the run with a budget."""

CONFIG = """
store: {store}
embedder: {{kind: "benchmarks.ray:SlowEmbedder"}}
synthesizer: {{kind: custom, function: "benchmarks.ray:write_slowly"}}
executor: {{kind: ray, address: local, cpus: 0.1, actors: {actors}}}
corpora:
  docs:
    source: {{kind: files, root: files, include: ["*.md"]}}
    synopsis: true
"""


@dataclass(frozen=True)
class SlowEmbedder:
    """Hash embedder that takes 20 ms a text."""

    id: str = "slow-hash"
    dim: int = 384
    max_tokens: int | None = None
    inner: HashEmbedder = field(default_factory=HashEmbedder)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        time.sleep(TEXT_SECONDS * len(texts))
        return self.inner.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        return self.inner.embed_query(text)


def write_slowly(text: str, metadata: Mapping[str, Any]) -> str:
    time.sleep(CALL_SECONDS)
    return f"About {text[:60]}"


def write(root: Path, numbers: range) -> None:
    root.mkdir(exist_ok=True)
    for number in numbers:
        sections = (f"# Part {part} of {number}\n\n{corpus.WORDS[part]} {number}. " * 3 for part in range(SECTIONS))
        (root / f"{number:05d}.md").write_text("\n\n".join(sections))


@dataclass
class Build:
    """Time of a build, the commits to the store, and the bytes that were sent to workers and back."""

    seconds: float
    commits: int
    shipped: int


def build(folder: Path, actors: int, **settings: Any) -> Build:
    """Build all batches once every worker has built one."""
    (folder / "findingaid.yaml").write_text(CONFIG.format(store=f"index{actors}{len(settings)}", actors=actors))
    run = findingaid.open(folder / "findingaid.yaml", settings).open_run("benchmark")
    run.prepare()
    listings = list(run.plan("docs").stale)
    due = [listings[start : start + BATCH] for start in range(0, len(listings), BATCH)]
    warm, batches = due[: 2 * actors], due[-BATCHES:]
    with run.workers() as workers:
        assert isinstance(workers, RayWorkers)
        list(workers.build(run.indexer("docs"), [batch[:1] for batch in warm], ALL_STALE))
        while len(workers._idle) < actors:
            list(workers.build(run.indexer("docs"), [batch[:1] for batch in warm], ALL_STALE))
        before = commits(run.store)
        seconds, built = timed(lambda: list(workers.build(run.indexer("docs"), batches, ALL_STALE)))
    assert not any(report.failed for _, report in built)
    return Build(seconds, commits(run.store) - before, sum(map(size, built)))


def commits(store: Any) -> int:
    return sum(store.dataset(table).version for table in (*PER_ARTIFACT, "ledger", "calls", "embeddings"))


def size(built: tuple[Batch, Any]) -> int:
    return len(pickle.dumps(built)) + len(pickle.dumps(ALL_STALE))


def rows(folder: Path, counts: Sequence[int]) -> Iterator[str]:
    payload = sum(path.stat().st_size for path in sorted((folder / "files").iterdir())[-BATCHES * BATCH :])
    one = None
    for actors in counts:
        made = build(folder, actors)
        one = one or made.seconds * actors
        yield row(str(actors), made, one / made.seconds / actors, payload)
    budgeted = build(folder, BUDGETED, **{"budget.calls": 1_000_000})
    yield row(f"{BUDGETED}, with a budget", budgeted, (one or 0) / budgeted.seconds / BUDGETED, payload)


def row(name: str, made: Build, efficiency: float, payload: int) -> str:
    pace = f"{BATCHES / made.seconds:.2f} | {made.commits / made.seconds:.1f}"
    shipped = f"{made.shipped / 1000:,.0f} kB of {payload / 1000:,.0f} kB"
    line = f"| {name} | {made.seconds:.1f} | {efficiency:.2f} | {pace} | {shipped} |"
    print(line, flush=True)
    return line


def main(counts: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "files", range((BATCHES + 2 * max(*counts, BUDGETED)) * BATCH))
        lines = [
            machine(),
            "",
            "| workers | seconds | of linear | batches/s | commits/s | sent, of texts of |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows(folder, counts),
        ]
    write_table("ray", lines)


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or [1, 2, 4, 8])
