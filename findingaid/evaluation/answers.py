"""Grades of answers to questions whose evidence is known.

    supported           share of the answer's sentences that their quotes support: the quotes have at least four fifths
                        of the sentence's words, as stems and without stop words, and all of its numbers
    judged              share of the answer's sentences that a judge finds supported, if one is given
    evidence            share of the artifacts expected by the qrels that the answer cites
    cited well          share of the cited artifacts that are expected
    citation precision  share of the cited places that share most of their characters with a gold sentence
    citation recall     share of the gold sentences that are cited
    gaps right          share of the words named as gaps that no expected artifact contains
    reference           share of the words of the known answer that the answer has, as stems
    answered            share of questions with any answer

Measures of all questions together, if some of them have no answer in the documents:

    AUROC               probability that a question with an answer has a higher relevance than one without
    refusal precision   share of the questions without an answer among those that were not answered
    refusal recall      share of the questions without an answer that were not answered

Words are compared, not meaning: a sentence that reverses its quote counts as supported, and a paraphrase does not. An
extractive answer consists of its quotes, so `supported` only checks the code there; for models it measures quality. A
case counts only for the measures that it has the data for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from findingaid.aid import FindingAid
from findingaid.claims.extraction import locate_quote
from findingaid.errors import CasesError
from findingaid.metrics import Case, Score
from findingaid.metrics.measures import Numbers, auroc, interval, interval_of
from findingaid.protocols import Verifier
from findingaid.query.answers.answer import Answer, Sentence
from findingaid.query.answers.compose import AGAINST, CONTESTED
from findingaid.query.answers.verification import find_objection, supported_share
from findingaid.query.lookup.passages import read_stored_artifacts
from findingaid.text.words import WORD, salient, stems

MEASURES = (
    "supported", "judged", "evidence", "cited well", "citation precision", "citation recall", "gaps right", "reference",
    "answered",
)  # fmt: skip
OF_REFUSALS = ("AUROC", "refusal precision", "refusal recall")

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
        """Map each measure to its mean over the cases that have it; None if no case has it."""
        return {measure: self._score(measure) for measure in MEASURES} | self._refusals()

    def count(self, measure: str) -> int:
        """Return the number of cases that have a measure."""
        return len(self.graded) if measure in OF_REFUSALS else len(self._values(measure))

    def _refusals(self) -> dict[str, Score | None]:
        """Return the measures of refusals; None if all questions have an answer, or none has."""
        unanswerable = np.array([not graded.case.answerable for graded in self.graded], float)
        if not 0 < unanswerable.sum() < len(unanswerable):
            return dict.fromkeys(OF_REFUSALS)
        relevance = np.array([graded.answer.relevance for graded in self.graded])
        refused = np.array([not graded.answer.sentences for graded in self.graded], float)
        found = (
            (_auroc, (relevance, unanswerable)),
            (share_of, (refused, unanswerable)),
            (share_of, (unanswerable, refused)),
        )
        return {
            name: Score(statistic(*columns), *interval_of(statistic, *columns, seed=self.seed))
            if name == "AUROC" or columns[0].sum()
            else None
            for name, (statistic, columns) in zip(OF_REFUSALS, found, strict=True)
        }

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


def share_of(of: Numbers, those: Numbers) -> float:
    """Return the share of `those` among the cases of `of`; NaN if there are none."""
    return float((of * those).sum() / of.sum()) if of.sum() else float("nan")


def _auroc(relevance: Numbers, unanswerable: Numbers) -> float:
    return auroc(relevance, 1 - unanswerable)


def grade_answers(
    aid: FindingAid,
    cases: Sequence[Case],
    *,
    name: str = "",
    seed: int = 0,
    judge: Verifier | None = None,
    progress: Callable[[int, int], None] | None = None,
    **asked: Any,
) -> Grading:
    """Answer cases from the data that `aid` publishes, with the options `asked`, and grade the answers."""
    if progress:
        progress(len(cases), 0)
    found = []
    for case in cases:
        found.append(grade(aid, case, aid.answer(case.query, where=case.where, **asked), judge))
        if progress:
            progress(0, 1)
    return Grading(name, found, asked, seed)


def grade(aid: FindingAid, case: Case, answer: Answer, judge: Verifier | None = None) -> Graded:
    """Grade an answer by the known evidence and answer of its question. Raises CasesError, ModelError."""
    texts = _texts(aid, case.expected)
    cited = {place.name for places in _places(answer).values() for place in places}
    right = len(cited & case.expected.keys())
    grades = {
        "supported": _share(carried(sentence, answer) for sentence in answer.sentences),
        "judged": _share(not find_objection(judge, _stated(s), _quotes_of(s, answer)) for s in answer.sentences)
        if judge
        else None,
        "evidence": right / len(case.expected) if case.expected else None,
        "cited well": right / len(cited) if cited and case.expected else None,
        "gaps right": _share(stems(texts.values()).isdisjoint(salient(gap)) for gap in answer.gaps)
        if case.expected
        else None,
        "reference": supported_share(case.answer, [sentence.text for sentence in answer.sentences])
        if case.answer
        else None,
        "answered": float(bool(answer.sentences)),
    }
    return Graded(case, answer, grades | _grade_citations(case, answer, texts))


class CitedPlace(NamedTuple):
    """Place that an answer cites: "corpus/artifact" and the span in its text."""

    name: str
    span: tuple[int, int] | None
    quote: str


def _places(answer: Answer) -> dict[str, list[CitedPlace]]:
    """Return the places of each cited claim or quote, by its id."""
    found = {
        claim.claim_id: [CitedPlace(f"{claim.corpus}/{p.artifact_id}", p.span, p.quote) for p in claim.places]
        for claim in answer.claims
    }
    quotes = {q.quote_id: [CitedPlace(f"{q.corpus}/{q.artifact_id}", q.span, q.quote)] for q in answer.quotes}
    return found | quotes


def _grade_citations(case: Case, answer: Answer, texts: Mapping[str, str]) -> dict[str, float | None]:
    """Return the precision and recall of the cited places against the gold sentences; None without these."""
    if not case.gold_sentences:
        return {"citation precision": None, "citation recall": None}
    gold = [_find_gold(case, sentence, texts) for sentence in case.gold_sentences]
    cited = _places(answer).values()
    right = [any(_same(place, one) for place in places for one in gold) for places in cited]
    found = [any(_same(place, one) for places in cited for place in places) for one in gold]
    return {"citation precision": _share(right), "citation recall": _share(found)}


def _find_gold(case: Case, sentence: str, texts: Mapping[str, str]) -> CitedPlace:
    for name, text in texts.items():
        if span := locate_quote(text, sentence):
            return CitedPlace(name, span, sentence)
    raise CasesError(f"{case.place or case.id}: gold sentence {sentence[:60]!r} is in none of the expected artifacts")


def _same(place: CitedPlace, gold: CitedPlace) -> bool:
    """Return whether two places share most of the characters of the shorter one."""
    if place.name != gold.name or place.span is None or gold.span is None:
        return False
    (a, b), (c, d) = place.span, gold.span
    return min(b, d) - max(a, c) > min(b - a, d - c) / 2


def _stated(sentence: Sentence) -> str:
    return sentence.text.removeprefix(AGAINST).removesuffix(CONTESTED)


def _quotes_of(sentence: Sentence, answer: Answer) -> list[str]:
    places = _places(answer)
    return [place.quote for cited_id in sentence.cited_ids for place in places[cited_id]]


def carried(sentence: Sentence, answer: Answer) -> bool:
    """Return whether the quotes of a sentence's evidence have its words and numbers."""
    text, quotes = _stated(sentence), _quotes_of(sentence, answer)
    known = stems(quotes)
    numbers = (word.casefold() for word in WORD.findall(text) if any(map(str.isdigit, word)))
    return supported_share(text, quotes) >= CARRIED and all(number in known for number in numbers)


def _texts(aid: FindingAid, expected: Iterable[str]) -> dict[str, str]:
    """Return the texts of artifacts by "corpus/artifact"."""
    keys = [(corpus, artifact_id) for corpus, _, artifact_id in (name.partition("/") for name in expected)]
    found = aid.searcher.read(lambda reader: read_stored_artifacts(reader.artifacts, aid.corpora, keys))
    return {"/".join(key): kept.text or "" for key, kept in found.items()}


def _share(of: Iterable[bool]) -> float | None:
    values = list(of)
    return sum(values) / len(values) if values else None
