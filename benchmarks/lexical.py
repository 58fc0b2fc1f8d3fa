"""The figures of "Identifiers and other scripts" in RESULTS.md: `python -m benchmarks.lexical [--data DIR]`.

Lexical search alone is measured twice: with words split at blanks and punctuation only, and as it is. DIR
(or $FINDINGAID_DATA) holds sets in BEIR's layout. The other sets are made here: functions of Python's standard library,
found by their names in other styles, and the sentences of sentences.yaml.
"""

import argparse
import ast
import os
import random
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import yaml

from benchmarks.beir import BeirSet, index_set, load_set
from findingaid.embedding.hashing import HashEmbedder
from findingaid.metrics import Case, Cases, Evaluation, evaluate_search
from findingaid.strategies.whole_text import WholeText
from findingaid.text.analyzer import BORDER, Searchable

SENTENCES = Path(__file__).with_name("sentences.yaml")
LIBRARIES = ("argparse", "asyncio", "email", "http", "logging", "threading", "unittest", "urllib", "xml", "zipfile")
SHOWN = 1_000
"""Characters of a function that are indexed."""

MEASURE = "nDCG@10"

MOST = 250
"""Questions of a kind."""

Parts = tuple[str, ...]


def functions() -> Iterator[tuple[str, str, str]]:
    """Yield the id, name and source of documented functions with names of several parts."""
    root = Path(sysconfig.get_path("stdlib"))
    for library in LIBRARIES:
        for path in sorted([*root.glob(f"{library}.py"), *root.glob(f"{library}/**/*.py")]):
            source = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef) and len(parts(node.name)) > 1 and ast.get_docstring(node):
                    text = ast.get_source_segment(source, node) or ""
                    yield f"{path.relative_to(root)}:{node.lineno}", node.name, text[:SHOWN]


def parts(name: str) -> Parts:
    return tuple(part.lower() for part in BORDER.split(name) if part)


def camel(of: Parts) -> str:
    return of[0] + "".join(part.capitalize() for part in of[1:])


STYLES: Mapping[str, Callable[[Parts], str]] = {
    "get_user_name": "_".join,
    "getUserName": camel,
    "get user name": " ".join,
    "user name": lambda of: " ".join(of[1:]),
}


def identifier_sets() -> Iterator[BeirSet]:
    """Yield a set for each style of the names in the texts, and each style of the questions."""
    every = list(functions())
    documents = [{"_id": i, "text": text} for i, _, text in every]
    for kind, wanted in (("snake_case", True), ("camelCase", False)):
        named = sorted({parts(name) for _, name, _ in every if ("_" in name.strip("_")) is wanted})
        for style, write in STYLES.items():
            by_query: dict[str, dict[str, int]] = defaultdict(dict)
            for of in named:
                sought = of[1:] if style == "user name" else of
                if len(sought) > 1:
                    by_query[write(of)] = {f"names/{i}": 1 for i, name, _ in every if has(parts(name), sought, style)}
            cases = [Case(query, query, expected) for query, expected in by_query.items()]
            few = random.Random(0).sample(cases, min(MOST, len(cases)))
            yield BeirSet("names", Path("names"), documents, Cases(f"{kind} names by {style!r}", few))


def has(name: Parts, sought: Parts, style: str) -> bool:
    """Return whether a name is the one sought, or has its parts in a row if only parts are sought."""
    if style != "user name":
        return name == sought
    return any(name[i : i + len(sought)] == sought for i in range(len(name)))


def sentence_sets() -> Iterator[BeirSet]:
    for language, pairs in yaml.safe_load(SENTENCES.read_text(encoding="utf-8")).items():
        documents = [{"_id": str(i), "text": text} for i, (text, _) in enumerate(pairs)]
        cases = [Case(str(i), query, {f"{language}/{i}": 1}) for i, (_, query) in enumerate(pairs)]
        yield BeirSet(language, Path(language), documents, Cases(f"{language} sentences", cases))


def measured(folder: Path, given: BeirSet, name: str) -> Evaluation:
    aid = index_set(given, folder / given.corpus, HashEmbedder(), WholeText())
    return evaluate_search(aid, given.cases.expecting(), asked={"mode": "lexical"}, name=f"{given.cases.name}: {name}")


def compare(folder: Path, given: BeirSet) -> str:
    """Return the row of a set: its name, queries, nDCG@10 of both ways, and the difference with its interval."""
    now = measured(folder / "now", given, "words and parts")
    with ExitStack() as simple:
        simple.enter_context(patch("findingaid.store.lexical.TOKENIZER", "simple"))
        for module in ("findingaid.indexing.rows", "findingaid.text.analyzer"):
            simple.enter_context(patch(f"{module}.searchable", lambda text: Searchable(text, ())))
        simple.enter_context(patch("findingaid.text.analyzer.phrases", lambda _: []))
        before = measured(folder / "simple", given, "blanks and punctuation")
    change = now.versus(before).differences[MEASURE]
    values = [found.scores[MEASURE].mean() for found in (before, now)]
    cells = [given.cases.name, f"{len(given.cases.cases):,}", *(f"{value:.3f}" for value in values)]
    return f"| {' | '.join(cells)} | {change.value:+.3f} [{change.low:+.3f}, {change.high:+.3f}] |"


def sets(data: Path | None) -> Sequence[BeirSet]:
    public = [load_set(path.parent) for path in sorted(data.glob("*/corpus.jsonl"))] if data else []
    return [*identifier_sets(), *sentence_sets(), *public]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FINDINGAID_DATA"))
    with tempfile.TemporaryDirectory() as folder:
        for given in sets(parser.parse_args().data):
            print(compare(Path(folder), given), flush=True)


if __name__ == "__main__":
    main()
