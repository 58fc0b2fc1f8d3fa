"""Figures of answers over sets in RESULTS.md: `python -m benchmarks.grading DIR [--no-claims] [-n N] [--depth N]`.

DIR is a set in BEIR's layout. Its documents are indexed whole, with extractive claims or none.
"""

import argparse
from pathlib import Path

from benchmarks.beir import index_set, load_set
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.corpus import Claiming
from findingaid.embedding.minilm import MiniLM
from findingaid.evaluation.answers import grade_answers
from findingaid.evaluation.searches import sample_cases
from findingaid.strategies.whole_text import WholeText


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path)
    parser.add_argument("--claims", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("-n", dest="count", type=int, default=1_000_000, help="questions, drawn by hash")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--store", type=Path, default=Path(".findingaid/grading"))
    given = parser.parse_args()
    found, claims = load_set(given.set), Claiming(ExtractiveClaims()) if given.claims else None
    store = given.store / f"{found.corpus}{'' if claims else '-without-claims'}"
    aid = index_set(found, store, MiniLM(), WholeText(), claims)
    grading = grade_answers(aid, sample_cases(found.cases.cases, given.count, seed=0), depth=given.depth)
    print("| measure | cases | value |\n| --- | --- | --- |")
    for name, score in grading.scores.items():
        print(f"| {name} | {grading.count(name):,} | {score or ''} |")


if __name__ == "__main__":
    main()
