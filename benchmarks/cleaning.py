"""The figures of "Cleaner texts" in benchmarks/RESULTS.md: `python -m benchmarks.cleaning [--store DIR]`.

Installed packages are indexed with and without `clean`. Of READMEs of more than MOST characters only those that answer
a question are taken, and int8 vectors are used, so that a first run takes minutes. A later one with the same --store
embeds nothing.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.quality import row
from findingaid import Corpus, FindingAid, evaluate
from findingaid.embedding.minilm import MiniLM
from findingaid.metrics import Cases, Evaluation, load_cases
from findingaid.sources.packages import Packages
from findingaid.store import Store
from findingaid.strategies import Package, bound
from findingaid.testing import MemorySource

CASES = Path(__file__).with_name("packages.yaml")
MOST = 8_000
WAYS = {
    "README chunks, hybrid": {"surfaces": ["readme"]},
    "README chunks, dense": {"surfaces": ["readme"], "mode": "dense"},
    "README chunks, lexical": {"surfaces": ["readme"], "mode": "lexical"},
    "all surfaces, hybrid": {},
}


def packages(cases: Cases) -> MemorySource:
    source = Packages()
    wanted = {document.removeprefix("packages/") for case in cases.cases for document in case.expected}
    read = [source.read(listing.artifact_id) for listing in source.discover().listings]
    return MemorySource({a.artifact_id: a.raw for a in read if len(a.raw["readme"]) <= MOST or a.artifact_id in wanted})


def measured(store: Path, clean: bool) -> Iterator[Evaluation]:
    embedder = MiniLM("int8")
    cases = load_cases(CASES)
    corpora = {"packages": Corpus("packages", packages(cases), bound(Package(clean=clean), embedder))}
    aid = FindingAid(Store(str(store)), embedder, corpora)
    records = sum(corpus.records for corpus in aid.index().corpora.values())
    print(f"{'with' if clean else 'without'} `clean`: {records} records were written")
    for way, asked in WAYS.items():
        yield evaluate(aid, cases, name=f"{way}{', clean' if clean else ''}", **asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=Path(".findingaid/cleaning"))
    store = parser.parse_args().store
    both = [list(measured(store, clean)) for clean in (False, True)]
    for raw, clean in zip(*both, strict=True):
        print(row(raw, raw), row(clean, raw), sep="\n")


if __name__ == "__main__":
    main()
