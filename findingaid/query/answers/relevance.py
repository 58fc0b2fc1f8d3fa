"""Relevance of evidence to a question: the estimated probability that it answers it, from two measurements.

- `covered`: the share of the question's salient words that the claim or the sentence has, as stems.
- `above`: by how many deviations its dense score is above those of unrelated questions, see
  `findingaid.query.search.probes`. For a sentence of a passage, the sum of those of the sentence and of the passage.
  None for an embedder without meaning; then words alone decide.

The probability is logistic: 1 / (1 + exp(-(constant + weight above + weight covered))). The weights were fitted to
questions with known evidence, see `benchmarks/answers.py` and benchmarks/RESULTS.md.
"""

from __future__ import annotations

import math
from typing import Literal

Confidence = Literal["high", "medium", "low"]

ClaimsStanding = Literal["contested", "unreviewed", "working", "actionable", "stable"]
"""How far claims can be relied on, weakest first."""

Weights = tuple[float, float, float]
"""Constant, weight of `above` and weight of `covered`."""

OF_CLAIM: Weights = (-7.6, 0.7, 4.3)
OF_SENTENCE: Weights = (-8.7, 0.5, 1.5)

BY_WORDS = (-4.2, 8.4)
"""Constant and weight of `covered`, for an embedder without meaning."""

REFUSED = 0.2
"""Relevance below which nothing is cited.

Measured with claims: 1 % of the questions about other subjects reach it, and 96 % of those that are answered rightly.
"""

BESIDE = 0.05
"""Relevance below which a sentence is not cited beside one that reaches `REFUSED`. It may add to an answer."""

MEDIUM, HIGH = 0.5, 0.8
"""Least relevance of an answer with medium confidence, and of one from passages alone with high confidence."""


def estimate_relevance(covered: float, above: float | None, weights: Weights = OF_CLAIM) -> float:
    """Return the estimated probability, from 0 to 1, that evidence with these measurements answers the question."""
    if above is None:
        constant, weight = BY_WORDS
        return _logistic(constant + weight * covered)
    constant, by_score, by_words = weights
    return _logistic(constant + by_score * above + by_words * covered)


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
