"""Relevance of a claim to a question: the estimated probability that it answers it, from two measurements.

- `covered`: the share of the question's salient words that the claim has, as stems.
- `above`: by how many deviations the claim's dense score is above those of unrelated questions, see
  `findingaid.query.search.probes`. None for an embedder without meaning; then words alone decide.

The probability is logistic: 1 / (1 + exp(-(0.7 above + 4.3 covered - 7.6))), or with words alone
1 / (1 + exp(-(8.4 covered - 4.2))). The weights were fitted to questions with known evidence, see
`benchmarks/answers.py` and docs/answers.md.
"""

from __future__ import annotations

import math
from typing import Literal

Confidence = Literal["high", "medium", "low"]

BY_MEANING = (-7.6, 0.7, 4.3)
"""Constant, weight of `above` and weight of `covered`."""

BY_WORDS = (-4.2, 8.4)
"""Constant and weight of `covered`, for an embedder without meaning."""

REFUSED = 0.2
"""Relevance below which a claim is not cited.

Measured: 1 % of the questions about other subjects reach it, and 96 % of those that are answered rightly.
"""

MEDIUM, HIGH = 0.5, 0.8
"""Least relevance of an answer with medium and with high confidence."""


def estimate_relevance(covered: float, above: float | None) -> float:
    """Return the estimated probability, from 0 to 1, that a claim with these measurements answers the question."""
    if above is None:
        constant, weight = BY_WORDS
        return _logistic(constant + weight * covered)
    constant, by_score, by_words = BY_MEANING
    return _logistic(constant + by_score * above + by_words * covered)


def confidence_of(relevance: float, *, contested: bool, stable: bool, gaps: bool) -> Confidence:
    """Return the confidence in an answer whose most relevant claim has this relevance.

    Low if a cited claim is contested, at most medium if no claim has some word of the question. Without such a gap,
    medium becomes high if people approved all cited claims as stable.
    """
    if contested or relevance < MEDIUM:
        return "low"
    return "high" if not gaps and (stable or relevance >= HIGH) else "medium"


def percent(relevance: float) -> str:
    """Return a relevance in percent, without claiming certainty at either end."""
    return "below 1%" if relevance < 0.01 else "above 99%" if relevance > 0.99 else f"{relevance:.0%}"


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))
