"""Confidence of answers against being right, in RESULTS.md: `python -m benchmarks.confidence [--data DIR]`.

The first set is tests/data/household: notes, mails, invoices, tables and settings of a family, and 60 questions, of
which 20 have no answer; haushalt is one in German, with 24 questions and 8 without an answer. An answer is right if it
has the known words. With --data, the passages of DIR/clapnq are the last set; there an answer is right if it cites a
gold sentence.
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import findingaid
from benchmarks.beir import read_lines
from findingaid import Corpus, FindingAid
from findingaid.embedding.minilm import MiniLM
from findingaid.evaluation.answers import OF_REFUSALS, Graded, grade_answers
from findingaid.metrics import Case, load_cases
from findingaid.metrics.measures import auroc
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource

DATA = Path(__file__).parents[1] / "tests/data"


def household(name: str, store: Path) -> tuple[FindingAid, list[Case]]:
    config = store.with_suffix(".yaml")
    config.write_text(f"store: {store}\ncorpora:\n  {name}:\n    source: {{kind: files, root: {DATA / name}}}\n")
    return findingaid.open(config), list(load_cases(DATA / f"{name}.yaml").cases)


def clapnq(folder: Path, store: Path) -> tuple[FindingAid, list[Case]]:
    rows = read_lines(folder / "questions.jsonl")
    texts = {row["id"]: f"# {row['title']}\n\n{row['text']}" for row in rows}
    aid = FindingAid(Store(str(store)), MiniLM(), {"clapnq": Corpus("clapnq", MemorySource(texts), WholeText())})
    return aid, [
        Case(
            row["id"],
            row["question"],
            {f"clapnq/{row['id']}": 1} if row["answerable"] else {},
            gold_sentences=tuple(row["gold_sentences"]) if row["answerable"] else (),
            answerable=row["answerable"],
        )
        for row in rows
    ]


def right(graded: Graded) -> bool:
    """Return whether an answer has the known words, or cites a gold sentence."""
    if graded.case.answer:
        return any(graded.case.answer.casefold() in s.text.casefold() for s in graded.answer.sentences)
    return bool(graded.grades["citation recall"])


def report(name: str, aid: FindingAid, cases: list[Case]) -> Iterator[str]:
    aid.index()
    grading = grade_answers(aid, cases)
    yield f"{name}: {len(cases)} questions, {sum(case.answerable for case in cases)} with an answer"
    for measure in (*OF_REFUSALS, "citation precision", "citation recall"):
        if score := grading.scores[measure]:
            yield f"  {measure} {score}"
    answered = [graded for graded in grading.graded if graded.answer.sentences]
    yield f"  right against wrong: AUROC {_auroc(answered):.3f}"
    for level in ("low", "medium", "high"):
        those = [right(graded) for graded in answered if graded.answer.confidence == level]
        yield f"  {level}: {len(those)} answers, {sum(those)} right" + (f", {np.mean(those):.0%}" if those else "")
    for graded in answered:
        if not right(graded) and graded.answer.confidence != "low":
            yield f"    {graded.answer.confidence}, not right: {graded.case.query} {graded.answer.answer[:200]}"


def _auroc(graded: Iterable[Graded]) -> float:
    found = [(one.answer.relevance, float(right(one))) for one in graded]
    return auroc(*np.array(found).T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that has clapnq")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("household", "haushalt"):
            print(*report(name, *household(name, Path(folder) / name)), sep="\n")
        if given.data:
            print(*report("clapnq", *clapnq(given.data / "clapnq", Path(folder) / "clapnq")), sep="\n")


if __name__ == "__main__":
    main()
