"""Grades of answers to questions whose evidence is known.

    supported   share of an answer's sentences that the quotes of their claims carry: the quotes have, as stems, at
                least four fifths of the sentence's words that are not stop words, and all of its numbers
    evidence    share of the artifacts that answer a question, by its qrels, that the answer cites
    cited well  share of the cited artifacts that answer the question
    gaps right  share of the words named as gaps that no artifact which answers the question has
    reference   share of the words of the known answer that the answer has, as stems
    answered    share of questions with any answer

Words are compared, not meaning: a sentence that reverses its quote is supported, one in other words is not. An
extractive answer is made of its quotes, so `supported` checks the machinery there; for models, it measures quality. A
case that lacks the data for a measure, such as gaps, does not count for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from findingaid.aid import FindingAid
from findingaid.metrics import Case, Score
from findingaid.metrics.measures import interval
from findingaid.query.answers.compose import AGAINST, CONTESTED, Answer, Sentence
from findingaid.query.answers.verification import supported_share
from findingaid.query.lookup.passages import read_stored_artifacts
from findingaid.text.words import WORD, salient, stems

MEASURES = ("supported", "evidence", "cited well", "gaps right", "reference", "answered")

CARRIED = 0.8
"""Minimum share of a sentence's words that the quotes of its claims must have."""


@dataclass(frozen=True)
class Graded:
    """Grades of one case; None for a measure that does not apply."""

    case: Case
    answer: Answer
    grades: Mapping[str, float | None]


@dataclass(frozen=True)
class Grading:
    """Grades of all cases, answered with the options `asked`. The same seed gives the same intervals."""

    name: str
    graded: Sequence[Graded]
    asked: Mapping[str, Any]
    seed: int = 0

    @cached_property
    def scores(self) -> dict[str, Score | None]:
        """measure -> mean over the cases that have it; None if no case has it."""
        return {measure: self._score(measure) for measure in MEASURES}

    def count(self, measure: str) -> int:
        """Return the number of cases that have a measure."""
        return len(self._values(measure))

    def _score(self, measure: str) -> Score | None:
        values = self._values(measure)
        return Score(float(values.mean()), *interval(values, self.seed)) if len(values) else None

    def _values(self, measure: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        found = (graded.grades[measure] for graded in self.graded)
        return np.array([value for value in found if value is not None], np.float64)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "asked": dict(self.asked),
            "n": len(self.graded),
            "scores": {name: score and {"n": self.count(name), **asdict(score)} for name, score in self.scores.items()},
            "cases": [
                {"id": g.case.id, "grades": dict(g.grades), **g.answer.to_dict()} for g in self.graded
            ],
        }  # fmt: skip


def grade_answers(
    aid: FindingAid,
    cases: Sequence[Case],
    *,
    name: str = "",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **asked: Any,
) -> Grading:
    """Answer cases from the data that `aid` publishes, with the options `asked`, and grade the answers."""
    if progress:
        progress(len(cases), 0)
    found = []
    for case in cases:
        found.append(grade(aid, case, aid.answer(case.query, where=case.where, **asked)))
        if progress:
            progress(0, 1)
    return Grading(name, found, asked, seed)


def grade(aid: FindingAid, case: Case, answer: Answer) -> Graded:
    """Grade an answer by the known evidence and answer of its question."""
    texts = _texts(aid, case.expected)
    cited = {f"{claim.corpus}/{place.artifact_id}" for claim in answer.claims for place in claim.places}
    right = len(cited & case.expected.keys())
    grades = {
        "supported": _share(carried(sentence, answer) for sentence in answer.sentences),
        "evidence": right / len(case.expected),
        "cited well": right / len(cited) if cited else None,
        "gaps right": _share(stems(texts).isdisjoint(salient(gap)) for gap in answer.gaps),
        "reference": supported_share(case.answer, [sentence.text for sentence in answer.sentences])
        if case.answer
        else None,
        "answered": float(bool(answer.sentences)),
    }
    return Graded(case, answer, grades)


def carried(sentence: Sentence, answer: Answer) -> bool:
    """Return whether the quotes of a sentence's claims have its words and numbers."""
    text = sentence.text.removeprefix(AGAINST).removesuffix(CONTESTED)
    quotes = [p.quote for claim in answer.claims if claim.claim_id in sentence.claim_ids for p in claim.places]
    known = stems(quotes)
    numbers = (word.casefold() for word in WORD.findall(text) if any(map(str.isdigit, word)))
    return supported_share(text, quotes) >= CARRIED and all(number in known for number in numbers)


def _texts(aid: FindingAid, expected: Iterable[str]) -> list[str]:
    keys = [(corpus, artifact_id) for corpus, _, artifact_id in (name.partition("/") for name in expected)]
    return [kept.text or "" for kept in read_stored_artifacts(aid.store, aid.corpora, keys).values()]


def _share(of: Iterable[bool]) -> float | None:
    values = list(of)
    return sum(values) / len(values) if values else None
