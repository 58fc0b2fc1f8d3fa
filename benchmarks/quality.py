"""The quality figures of RESULTS.md: `python -m benchmarks.quality --data DIR [--store DIR]`.

DIR (or $FINDINGAID_DATA) holds sets in BEIR's layout, a folder each. The first run embeds every text in four cuts,
some minutes per thousand documents; with --store a second run takes seconds.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.beir import BeirSet, index_set, load_set
from findingaid.embedding.minilm import MiniLM
from findingaid.metrics import Evaluation, evaluate_search
from findingaid.strategies import bound
from findingaid.strategies.chunked import Chunked
from findingaid.strategies.whole_text import WholeText
from findingaid.strategies.with_synopsis import with_synopsis
from findingaid.synthesis.extractive import Extractive

SHOWN = ("nDCG@10", "Recall@10")

CUTS: Mapping[str, Any] = {
    "whole texts": WholeText(),
    "chunks": Chunked(),
    "chunks, synopses": with_synopsis(Chunked(), Extractive()),
    "chunks, synopses as context": with_synopsis(Chunked(), Extractive(), context=True),
}

WHOLE: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("whole texts", "dense", {"mode": "dense"}),
    ("whole texts", "lexical", {"mode": "lexical"}),
    ("whole texts", "hybrid by ranks", {"blend": "rrf"}),
    ("whole texts", "hybrid", {}),
)
ROUTES: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("chunks", "flat", {}),
    ("chunks, synopses", "flat", {}),
    ("chunks, synopses", "boost", {"route": "boost"}),
    ("chunks, synopses", "collapsed", {"route": "collapsed"}),
    ("chunks, synopses", "gate", {"route": "gate"}),
    ("chunks, synopses as context", "flat", {"surfaces": ["chunk"]}),
    ("chunks, synopses as context", "boost", {"route": "boost"}),
)


def measured(folder: Path, given: BeirSet, ways: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Iterator[Evaluation]:
    embedder = MiniLM()
    for cut, way, asked in ways:
        of_cut = folder / given.corpus / f"cut{list(CUTS).index(cut)}"
        aid = index_set(given, of_cut, embedder, bound(CUTS[cut], embedder))
        found = evaluate_search(aid, given.cases.expecting(), asked=asked, name=f"{cut}: {way}")
        print(given.corpus, found.name, *(f"{name} {found.score(name)}" for name in SHOWN), file=sys.stderr)
        yield found


def row(found: Evaluation, base: Evaluation) -> str:
    scores = [score for name in SHOWN if (score := found.score(name))]
    cells = [f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]" for score in scores]
    change = found.versus(base).differences[SHOWN[0]]
    beside = "" if found is base else f"{change.value:+.3f} (p = {change.p:.2g})"
    return f"| {found.name} | {' | '.join(cells)} | {beside} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FINDINGAID_DATA"))
    parser.add_argument("--store", type=Path, default=Path(".findingaid/quality"))
    parser.add_argument("--only", action="append", help="a set by its folder's name")
    parser.add_argument("--whole", action="store_true", help="only whole texts: no chunks, synopses and routes")
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of the sets by --data or $FINDINGAID_DATA")
    for folder in sorted(path.parent for path in given.data.glob("*/corpus.jsonl")):
        if given.only and folder.name not in given.only:
            continue
        found = load_set(folder)
        print(
            f"\n**{folder.name}**: {len(found.documents):,} documents, {len(found.cases.expecting().cases):,} queries\n"
        )
        for base, ways in ((3, WHOLE), (0, ROUTES))[: 1 if given.whole else 2]:
            evaluations = list(measured(given.store, found, ways))
            print(f"| hybrid unless said | {' | '.join(SHOWN)} | nDCG@10 beside {evaluations[base].name} |")
            print("| --- | --- | --- | --- |")
            for evaluation in evaluations:
                print(row(evaluation, evaluations[base]))
            print(flush=True)


if __name__ == "__main__":
    main()
