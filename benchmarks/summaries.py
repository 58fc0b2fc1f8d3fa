"""Routes by way of summaries that a language model wrote: `python -m benchmarks.summaries --data DIR [--store DIR]`.

DIR (or $FINDINGAID_DATA) holds sets in BEIR's layout whose documents are parts of a parent, such as the turns of a
session, with the parents' summaries in `synopses.jsonl` (_id, text). The parents are indexed as artifacts, their parts
as chunks. Searches are graded by the parts that they find.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.beir import BeirSet, load_set, read_lines
from benchmarks.quality import SHOWN, row
from findingaid import Corpus, FindingAid
from findingaid.embedding.minilm import MiniLM
from findingaid.evaluation.searches import sample_cases
from findingaid.metrics import Evaluation, evaluate_search
from findingaid.model import Artifact, Hit, Surface, SurfacePlan
from findingaid.store import Store
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis.extractive import Extractive
from findingaid.testing import MemorySource

WAYS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("by a model", "flat", {}),
    ("by a model", "auto", {"route": "auto"}),
    ("by a model", "collapsed", {"route": "collapsed"}),
    ("extractive", "boost", {"route": "boost"}),
    ("extractive", "auto", {"route": "auto"}),
    ("by a model", "lexical", {"mode": "lexical"}),
    ("by a model", "dense", {"mode": "dense"}),
    ("by a model", "gate", {"route": "gate"}),
    ("extractive", "collapsed", {"route": "collapsed"}),
)


@dataclass(frozen=True)
class Parts:
    """Strategy that makes a chunk of each part of an artifact."""

    id: ClassVar[str] = "parts-1"

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any]) -> SurfacePlan:
        surfaces = [Surface("chunk", part["text"], metadata={"part": part["_id"]}) for part in raw["parts"]]
        return SurfacePlan({**metadata, "parent": artifact_id}, surfaces)


@dataclass(frozen=True)
class Given:
    """Synthesizer that returns the summary that a set has for an artifact."""

    synopses: Mapping[str, str] = field(repr=False)
    id: ClassVar[str] = "openai-given"
    reads_artifact: ClassVar[bool] = True

    def synthesize(self, text: str, metadata: Mapping[str, Any]) -> str:
        return ""

    def synthesize_artifact(self, text: str, metadata: Mapping[str, Any], artifact: Artifact) -> str:
        return self.synopses.get(artifact.artifact_id, "")


@dataclass(frozen=True)
class SearchOfParts:
    """Search whose hits are named by the parts that they show."""

    aid: FindingAid
    corpus: str

    @property
    def embedder(self) -> Any:
        return self.aid.embedder

    def search(self, query: str, k: int, **asked: Any) -> Sequence[Hit]:
        hits = self.aid.search(query, k, **asked | {"surfaces": ["chunk"], "per_artifact": False})
        return [replace(hit, corpus=self.corpus, artifact_id=hit.metadata["part"]) for hit in hits]


def index(given: BeirSet, strategy: Any, folder: Path) -> FindingAid:
    """Index the parents of a set's documents."""
    parents: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for document in given.documents:
        parents[str(document["parent"])].append(document)
    corpus = Corpus(
        given.corpus, MemorySource({parent: {"parts": parts} for parent, parts in parents.items()}), strategy
    )
    aid = FindingAid(Store(str(folder / "index")), MiniLM(), {given.corpus: corpus}, evaluations=folder)
    report = aid.index()
    if not report.ok:
        raise SystemExit(f"{given.corpus} could not be indexed")
    return aid.remembering()


def measure(given: BeirSet, folder: Path) -> Iterator[Evaluation]:
    synopses = {synopsis["_id"]: synopsis["text"] for synopsis in read_lines(given.folder / "synopses.jsonl")}
    writers: Mapping[str, Any] = {"by a model": Given(synopses), "extractive": Extractive()}
    aids = {
        name: index(given, with_synopsis(Parts(), writer), folder / given.corpus / name.replace(" ", "-"))
        for name, writer in writers.items()
    }
    for writer, way, asked in WAYS:
        name = f"synopses {writer}: {way}"
        yield evaluate_search(SearchOfParts(aids[writer], given.corpus), given.cases, SHOWN, asked=asked, name=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FINDINGAID_DATA"))
    parser.add_argument("-n", dest="count", type=int, default=1_000, help="queries of a set, drawn by hash")
    parser.add_argument("--store", type=Path, default=Path(".findingaid/summaries"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of the sets by --data or $FINDINGAID_DATA")
    for file in sorted(given.data.glob("*/synopses.jsonl")):
        found = load_set(file.parent)
        chosen = sample_cases(found.cases.cases, given.count, seed=0)
        found = replace(found, cases=replace(found.cases, cases=chosen))
        evaluations = measure(found, given.store)
        base = next(evaluations)
        print(f"\n**{found.corpus}**: {len(found.documents):,} documents, {len(chosen):,} queries\n")
        print(f"| hybrid unless said | {' | '.join(SHOWN)} | nDCG@10 beside {base.name} |")
        print("| --- | --- | --- | --- |")
        for evaluation in chain([base], evaluations):
            print(row(evaluation, base), flush=True)


if __name__ == "__main__":
    main()
