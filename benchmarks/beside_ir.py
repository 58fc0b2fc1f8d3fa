"""Searches beside ir 0.1.61: the same artifacts, surfaces and vectors, warm, p50.

The table goes to `RESULTS.md`. ir is not a dependency of this project, but the benchmark needs it. To install
it in its own folder:

    pip install --no-deps --target FOLDER ir==0.1.61 cw dol ef i2 vd
    PYTHONPATH=FOLDER python -m benchmarks.beside_ir
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import ROUNDS, Row, machine, timed, write_table
from benchmarks.search import LENGTH, QUERIES, WARM_UP, Ask, K, texts
from findingaid import Corpus, FindingAid, Surface, SurfacePlan
from findingaid.embedding.hashing import HashEmbedder
from findingaid.model import Mode
from findingaid.store import Store
from findingaid.testing import MemorySource

ARTIFACTS = 10_000
KINDS = ("description", "chunk", "chunk", "chunk")
SHELVES = 100
FASTER = 3


class Paragraphs:
    """Strategy for both tools: the first paragraph is the description of the artifact, the others are its leaves."""

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        paragraphs = zip(KINDS, raw.split("\n\n"), strict=True)
        return SurfacePlan({"shelf": metadata["shelf"]}, [Surface(kind, text, kind) for kind, text in paragraphs])


def searches(folder: Path) -> Iterator[Row]:
    if not find_spec("ir"):
        return
    for what, took, least in _measured(folder):
        faster = least / took
        yield Row(
            f"{what}, {ARTIFACTS * len(KINDS):,} records",
            f"{took * 1000:.1f} ms, ir {least * 1000:.1f} ms: {faster:.1f} × as fast",
            f"≥ {FASTER} ×",
            faster >= FASTER,
        )


def _measured(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield each kind of search with the median seconds of findingaid and of ir."""
    made = iter(texts(ARTIFACTS * len(KINDS), LENGTH, 0))
    artifacts = {f"{i:05d}.md": "\n\n".join(next(made) for _ in KINDS) for i in range(ARTIFACTS)}
    shelves = {artifact_id: {"shelf": i % SHELVES} for i, artifact_id in enumerate(artifacts)}
    mine, theirs = ours(folder, artifacts, shelves), irs(folder, artifacts, shelves)
    for what in theirs:
        yield what, *in_blocks(mine[what], theirs[what])


def in_blocks(mine: Ask, theirs: Ask) -> tuple[float, float]:
    """Return the median seconds of both over the same queries, which run in blocks of one tool after the other.

    With alternating queries, each of ours would wait for cores on which numpy's threads still spin after ir's last
    matrix product.
    """
    asked = texts((WARM_UP + QUERIES // ROUNDS) * ROUNDS, 5, 7)
    took: dict[Ask, list[float]] = {mine: [], theirs: []}
    for i in range(ROUNDS):
        for ask, found in took.items():
            found += [timed(lambda q=query, ask=ask: ask(q))[0] for query in asked[i::ROUNDS]][WARM_UP:]  # type: ignore[misc]  # bound now
    return median(took[mine]), median(took[theirs])


def ours(folder: Path, artifacts: dict[str, str], shelves: dict[str, dict[str, Any]]) -> dict[str, Ask]:
    corpora = {"docs": Corpus("docs", MemorySource(dict(artifacts), shelves), Paragraphs())}
    aid = FindingAid(Store(str(folder / "index")), HashEmbedder(), corpora)
    assert aid.index().ok
    if memory := aid.searcher.reader().memory:
        memory.load()  # as after a search

    def ask(mode: Mode, **asked: Any) -> Ask:
        return lambda query: aid.search(query, K, mode=mode, **asked)

    return {
        "dense": ask("dense"),
        "dense, filtered": ask("dense", where="shelf < 10"),
        "lexical": ask("lexical"),
        "hybrid": ask("hybrid"),
        "collapsed": ask("dense", route="collapsed"),
    }


def irs(folder: Path, artifacts: dict[str, str], shelves: dict[str, dict[str, Any]]) -> dict[str, Ask]:
    os.environ["IR_DATA_DIR"] = str(folder / "ir")
    import ir

    class Strategy:
        def decompose(self, artifact_id: str, raw: str, metadata: Mapping[str, Any]) -> Any:
            plan = Paragraphs().decompose(artifact_id, raw, metadata)
            surfaces = [ir.Surface(artifact_id, s.kind, s.text, s.granularity) for s in plan.surfaces]
            return ir.IndexPlan(dict(plan.filter_fields), surfaces)

    source = ir.CorpusSource.from_mapping(
        artifacts,
        name="docs",
        strategy=Strategy(),
        embedder=lambda many, **_: HashEmbedder().embed(list(many)),
        metadata_of=lambda artifact_id, _: shelves[artifact_id],
    )
    corpus, policy = ir.build(source), ir.collapsed_tree_policy()

    def ask(mode: str, **asked: Any) -> Ask:
        return lambda query: ir.search(corpus, query, k=K, mode=mode, per_artifact=False, **asked)

    return {
        "dense": ask("dense"),
        "dense, filtered": ask("dense", filter={"shelf": {"$lt": 10}}),
        "lexical": ask("lexical"),
        "hybrid": ask("hybrid"),
        "collapsed": lambda query: ir.traverse(query, corpus, policy=policy, k=K),
    }


def table() -> Iterator[str]:
    yield f"{ARTIFACTS:,} artifacts, {machine()}.\n"
    yield f"| | findingaid {version('findingaid')} | ir {version('ir')} | |"
    yield "| --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory(prefix="findingaid-bench-") as folder:
        for what, took, least in _measured(Path(folder)):
            yield f"| {what} | {took * 1000:.1f} ms | {least * 1000:.1f} ms | {least / took:.1f} × as fast |"


def main() -> None:
    if not find_spec("ir"):
        raise SystemExit(__doc__)
    write_table("searches", table())


if __name__ == "__main__":
    main()
