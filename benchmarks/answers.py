"""The weights and figures of answers, in RESULTS.md: `python -m benchmarks.answers --data DIR [--store DIR]`.

DIR (or $FINDINGAID_DATA) holds the folders clapnq, scifact, locomo and wice; the project's pages are the fifth set. Of
each set some documents are left out, and their questions have no answer. For each question the most relevant claim of
the answer is taken, without a threshold. The set is judged by the weights in use, and by weights fitted to the others.
"""

import argparse
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.beir import load_set, read_lines
from findingaid import Corpus, FindingAid
from findingaid.claims.extraction import ExtractiveClaims
from findingaid.corpus import Claiming
from findingaid.embedding.minilm import MiniLM
from findingaid.metrics import load_cases
from findingaid.query.answers import compose as composing
from findingaid.query.answers.answer_types import stated
from findingaid.query.answers.compose import compose
from findingaid.query.answers.evidence import Question, find_evidence
from findingaid.query.answers.relevance import HIGH, MEDIUM, REFUSED, Measured, estimate_relevance
from findingaid.store import Store
from findingaid.strategies.whole_text import WholeText
from findingaid.testing import MemorySource

PROJECT = Path(__file__).parents[1]
FOREIGN = 20
"""Number of questions of each other set that are put to a set."""


class Asked(NamedTuple):
    """A question, the artifacts that answer it, and where it comes from: own, near, left out or other."""

    query: str
    expected: frozenset[str]
    origin: str


@dataclass(frozen=True)
class Best:
    """Measurements of the most relevant claim of an answer, and whether the answer cites a right artifact."""

    group: str
    origin: str
    above: float
    covered: float
    stated: float
    right: bool


Set = tuple[Mapping[str, str], Sequence[Asked]]


def beir(folder: Path, rng: random.Random, documents: int = 200) -> Set:
    """Return some documents, the questions that they answer, and as many whose documents are left out."""
    given = load_set(folder)
    texts = {str(d["_id"]): f"# {d.get('title', '')}\n\n{d['text']}" for d in given.documents}
    cases = rng.sample(given.cases.cases, min(260, len(given.cases.cases)))
    expected = {case.id: frozenset(name.partition("/")[2] for name in case.expected) for case in cases}
    half = len(cases) // 2
    gone = frozenset().union(*(expected[case.id] for case in cases[half:]))
    kept = frozenset().union(*(expected[case.id] for case in cases[:half])) - gone
    others = [i for i in texts if i not in kept and i not in gone]
    chosen = {*kept, *rng.sample(others, min(documents, len(others)))}
    asked = [Asked(c.query, expected[c.id], "own") for c in cases[:half] if expected[c.id] <= chosen]
    asked += [Asked(c.query, frozenset(), "left out") for c in cases[half:]]
    return {i: texts[i] for i in sorted(chosen)}, asked


def sessions(folder: Path, rng: random.Random, conversations: int = 2) -> Set:
    """Return the sessions of some conversations, questions about these, and as many about the others."""
    given = load_set(folder)
    parents = {str(d["_id"]): str(d["parent"]) for d in given.documents}
    kept = sorted({parent.partition("/")[0] for parent in parents.values()})[:conversations]
    texts: dict[str, str] = {}
    for d in given.documents:
        if d["parent"].partition("/")[0] in kept:
            texts[d["parent"]] = f"{texts.get(d['parent'], '')}{d['text']}\n\n"
    own, left_out = [], []
    for case in rng.sample(given.cases.cases, len(given.cases.cases)):
        there = frozenset(parents[name.partition("/")[2]] for name in case.expected)
        if there <= texts.keys():
            own.append(Asked(case.query, there, "own"))
        else:
            left_out.append(Asked(case.query, frozenset(), "left out"))
    return texts, [*own[:130], *left_out[:130]]


def clapnq(folder: Path, rng: random.Random) -> Set:
    rows = read_lines(folder / "questions.jsonl")
    rng.shuffle(rows)
    texts: dict[str, str] = {}
    for row in rows[:180]:
        texts[row["title"]] = f"{texts.get(row['title'], '# ' + row['title'])}\n\n{row['text']}"
    asked = [Asked(r["question"], frozenset([r["title"]]), "own") for r in rows[:180] if r["answerable"]]
    asked += [Asked(r["question"], frozenset(), "near") for r in rows[:180] if not r["answerable"]]
    return texts, asked + [Asked(r["question"], frozenset(), "left out") for r in rows[180:] if r["title"] not in texts]


def wice(folder: Path, rng: random.Random) -> Set:
    rows = [
        row for row in read_lines(folder / "dev.jsonl") if len(row["evidence"]) < 60 and row["label"] == "supported"
    ]
    rng.shuffle(rows)
    half = len(rows) // 2
    texts = {str(number): "\n\n".join(row["evidence"]) for number, row in enumerate(rows[:half])}
    asked = [Asked(row["claim"], frozenset([str(number)]), "own") for number, row in enumerate(rows[:half])]
    titles = {row["evidence"][0] for row in rows[:half]}  # several rows are about one page
    rest = [row["claim"] for row in rows[half:] if row["evidence"][0] not in titles]
    return texts, asked + [Asked(claim, frozenset(), "left out") for claim in rest]


def pages() -> Set:
    docs = PROJECT / "docs"
    texts = {str(path.relative_to(docs)): path.read_text() for path in sorted(docs.rglob("*.md"))}
    cases = load_cases(PROJECT / "docs/cases.yaml").cases
    return texts, [Asked(c.query, frozenset(name.partition("/")[2] for name in c.expected), "own") for c in cases]


def measure(name: str, given: Set, foreign: Sequence[str], store: Path) -> Iterator[Best]:
    texts, asked = given
    corpus = Corpus(name, MemorySource(dict(texts)), WholeText(), claims=Claiming(ExtractiveClaims()))
    aid = FindingAid(Store(str(store / name)), MiniLM(), {name: corpus})
    aid.index()
    for one in (*asked, *(Asked(query, frozenset(), "other") for query in foreign)):
        evidence = find_evidence(aid.searcher, Question(one.query, 3, [name]))
        if claims := compose(evidence, 3, 4000).claims:
            best = max(claims, key=evidence.relevance)
            covered = len(best.words & evidence.terms.keys()) / len(evidence.terms)
            says = stated(one.query, best.text)
            cited = {place.artifact_id for claim in claims for place in claim.places}
            yield Best(name, one.origin, best.above or 0.0, covered, says, bool(cited & one.expected))


def fitted(found: Sequence[Best]) -> np.ndarray[Any, Any]:
    """Return the constant and the weights of a logistic regression in which every set counts the same."""
    given = np.array([[1.0, m.above, m.covered] for m in found])
    right = np.array([m.right for m in found], float)
    groups = [m.group for m in found]
    share = np.array([len(found) / groups.count(group) for group in groups])
    weights = np.zeros(3)
    for _ in range(50):  # Newton's method
        p = 1 / (1 + np.exp(-given @ weights))
        bend = (given * (share * p * (1 - p))[:, None]).T @ given
        weights -= np.linalg.solve(bend + 0.01 * np.eye(3), given.T @ ((p - right) * share))
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FINDINGAID_DATA"))
    parser.add_argument("--store", type=Path, default=Path(".findingaid/answers"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of the sets by --data or $FINDINGAID_DATA")
    rng = random.Random(0)
    data = Path(given.data)
    sets = {
        "clapnq": clapnq(data / "clapnq", rng),
        "scifact": beir(data / "scifact", rng),
        "locomo": sessions(data / "locomo", rng),
        "wice": wice(data / "wice", rng),
        "pages": pages(),
    }
    composing.REFUSED = 1e-9  # type: ignore[attr-defined]  # what the threshold would refuse is measured too
    found: list[Best] = []
    for name, one in sets.items():
        others = [a.query for other in sets.values() if other is not one for a in rng.sample(list(other[1]), FOREIGN)]
        found += measure(name, one, others, given.store)
        print(f"{name}: {len(one[0])} documents, {sum(m.group == name for m in found)} questions with any claim")
    report(found)


def report(found: Sequence[Best]) -> None:
    """Print the figures of the weights in use, and of weights that are fitted to the other sets."""
    fits = {group: fitted([m for m in found if m.group != group]) for group in {m.group for m in found}}
    given = np.array([[1.0, m.above, m.covered] for m in found])
    unseen = np.array([1 / (1 + np.exp(-fits[m.group] @ row)) for m, row in zip(found, given, strict=True)])
    print(f"weights fitted to all sets: {np.round(fitted(found), 2)}")
    figures(
        "weights in use", found, np.array([estimate_relevance(Measured(m.covered, m.above, m.stated)) for m in found])
    )
    figures("weights fitted to the other sets", found, unseen)


def figures(name: str, found: Sequence[Best], relevance: np.ndarray[Any, Any]) -> None:
    right, origin = np.array([m.right for m in found]), np.array([m.origin for m in found])
    print(f"{name}: {len(found)} questions, {right.sum()} with a right answer")
    for of, those in {"right": right, **{o: origin == o for o in ("own", "left out", "near", "other")}}.items():
        p = relevance[those]
        print(f"  {of}: {len(p)}, answered {(p >= REFUSED).mean():.1%}, at least medium {(p >= MEDIUM).mean():.1%}")
    for low, high in ((0.0, REFUSED), (REFUSED, MEDIUM), (MEDIUM, HIGH), (HIGH, 1.01)):
        held = right[(relevance >= low) & (relevance < high)]
        print(f"  relevance {low:.1f} to {high:.1f}: {len(held)}, right {held.mean():.1%}")


if __name__ == "__main__":
    main()
