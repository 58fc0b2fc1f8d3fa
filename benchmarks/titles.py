"""The figures of "Titles" in RESULTS.md: `python -m benchmarks.titles --data DIR [--store DIR]`.

DIR (or $FINDINGAID_DATA) holds clapnq and scifact. Titles are metadata here, apart from the texts. Of scifact, all
documents that answer a claim are taken, and OTHERS more. int8 vectors are used, so that a first run takes minutes.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.beir import load_set
from benchmarks.quality import row
from findingaid import Corpus, FindingAid, evaluate
from findingaid.embedding.minilm import MiniLM
from findingaid.metrics import Cases, Evaluation, load_cases
from findingaid.metrics.cases import Case
from findingaid.protocols import Source
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies import Chunked, bound
from findingaid.testing import MemorySource

OTHERS = 700
CUTS = {"chunks": Chunked(), "chunks, titles": Chunked(titles=True)}


def titled(documents: Mapping[str, Mapping[str, Any]]) -> MemorySource:
    """Return a source of plain texts, each with its title as metadata."""
    metadata = {name: {"title": d["title"], "media_type": "text/plain"} for name, d in documents.items()}
    return MemorySource({name: d["text"] for name, d in documents.items()}, metadata)


def clapnq(folder: Path) -> tuple[Source, Cases]:
    asked = [json.loads(line) for line in (folder / "questions.jsonl").open(encoding="utf-8")]
    cases = [Case(q["id"], q["question"], {f"clapnq/{q['id']}": 1}) for q in asked if q["answerable"]]
    return titled({q["id"]: q for q in asked}), Cases("clapnq", cases)


def scifact(folder: Path) -> tuple[Source, Cases]:
    given = load_set(folder)
    wanted = {document for case in given.cases.cases for document in case.expected}
    documents = {f"scifact/{d['_id']}": d for d in given.documents}
    others = random.Random(0).sample(sorted(documents.keys() - wanted), OTHERS)
    return titled({name.removeprefix("scifact/"): documents[name] for name in [*wanted, *others]}), given.cases


def own_docs(_: Path) -> tuple[Source, Cases]:
    return Files(Path("docs"), include=("**/*.md",)), load_cases("docs/cases.yaml")


SETS = {"clapnq": clapnq, "docs": own_docs, "scifact": scifact}


def measured(name: str, source: Source, cases: Cases, store: Path) -> Iterator[Evaluation]:
    embedder = MiniLM()
    for cut, strategy in CUTS.items():
        corpora = {name: Corpus(name, source, bound(strategy, embedder))}
        aid = FindingAid(Store(str(store / name)), embedder, corpora)
        aid.index()
        for mode in ("hybrid", "dense", "lexical"):
            yield evaluate(aid, cases, name=f"{cut}, {mode}", mode=mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FINDINGAID_DATA"))
    parser.add_argument("--store", type=Path, default=Path(".findingaid/titles"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of the sets by --data or $FINDINGAID_DATA")
    for name, load in SETS.items():
        evaluations = list(measured(name, *load(given.data / name), given.store))
        print(f"\n{name}\n")
        for plain, with_titles in zip(evaluations[:3], evaluations[3:], strict=True):
            print(row(plain, plain), row(with_titles, plain), sep="\n", flush=True)


if __name__ == "__main__":
    main()
