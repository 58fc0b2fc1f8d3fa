"""Relevance of evidence to a question: the estimated probability that it answers it, from measurements.

The probability is logistic: 1 / (1 + exp(-(constant + the weighted sum of the measurements))). The weights were fitted
to questions with known evidence, see `benchmarks/answers.py`, `benchmarks/confidence.py` and benchmarks/RESULTS.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Confidence = Literal["high", "medium", "low"]

ClaimsStanding = Literal["contested", "unreviewed", "working", "actionable", "stable"]
"""How far claims can be relied on, weakest first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a claim or a sentence against a question.

    - `covered`: the share of the question's salient words that it has, as stems; `in_context` with the sentence before
      it, the title and the headings, `in_passage` with its whole passage.
    - `above`: by how many deviations its dense score is above those of unrelated questions, see
      `findingaid.query.search.probes`. For a sentence, the sum of those of the sentence and of its passage. None for an
      embedder without meaning; then words alone decide.
    - `stated`: how far it states what the question asks for, from 0 to 1, see `answer_types`.
    - `whole`: whether it is a row of a table or a named value that has all of several salient words. Embeddings tell
      little of names and codes, so that a row with a rare name can be far from the question that it answers.
    """

    covered: float
    above: float | None = None
    stated: float = 1.0
    in_context: float = 0.0
    in_passage: float = 0.0
    whole: bool = False


class Weights(NamedTuple):
    """Constant of a probability, and the weights of the measurements."""

    constant: float
    above: float = 0.0
    covered: float = 0.0
    in_context: float = 0.0
    in_passage: float = 0.0
    stated: float = 2.2


OF_CLAIM = Weights(-9.8, above=0.7, covered=4.3)
OF_SENTENCE = Weights(-10.75, above=0.37, covered=0.7, in_context=1.6, in_passage=1.4, stated=2.7)
BY_WORDS = Weights(-6.4, covered=8.4)
"""Weights for an embedder without meaning."""

REFUSED = 0.2
"""Relevance below which nothing is cited.

Measured with claims: 1 % of the questions about other subjects reach it, and 92 % of those that are answered rightly.
"""

BESIDE = 0.2
"""Share of the best sentence's relevance that another sentence must have to be cited beside it."""

ALIKE = 0.8
"""Share of the best sentence's relevance from which another one answers as well."""

MEDIUM, HIGH = 0.5, 0.8
"""Least relevance of an answer with medium confidence, and of one from passages alone with high confidence."""


UNSTATED = 0.45
"""Most relevance of evidence that states nothing of what is asked for. Its confidence is low."""


def estimate_relevance(found: Measured, weights: Weights = OF_CLAIM) -> float:
    """Return the estimated probability, from 0 to 1, that evidence with these measurements answers the question."""
    if found.above is None:
        weights = BY_WORDS
    probability = _logistic(
        weights.constant
        + weights.above * (found.above or 0.0)
        + weights.covered * found.covered
        + weights.in_context * found.in_context
        + weights.in_passage * found.in_passage
        + weights.stated * found.stated
    )
    if not found.stated:
        return min(probability, UNSTATED)
    return max(probability, MEDIUM) if found.whole else probability


def confidence_of(relevance: float, standing: ClaimsStanding | None, *, quotes: bool, gaps: bool) -> Confidence:
    """Return the confidence in an answer by the relevance of its best evidence and the standing of its claims.

    Low if a cited claim is contested, at most medium if no evidence has some word of the question. Otherwise an answer
    from claims alone is high if people approved all of them as stable. Without claims the relevance decides.
    """
    if standing == "contested" or relevance < MEDIUM:
        return "low"
    certain = relevance >= HIGH if standing is None else standing == "stable" and not quotes
    return "high" if certain and not gaps else "medium"


def percent(relevance: float) -> str:
    """Return a relevance in percent, without claiming certainty at either end."""
    return "below 1%" if relevance < 0.01 else "above 99%" if relevance > 0.99 else f"{relevance:.0%}"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
