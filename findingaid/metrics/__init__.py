"""Retrieval metrics: cases, rankings, measures with confidence intervals, and comparisons."""

from findingaid.metrics.cases import Case, Cases, load_cases
from findingaid.metrics.measures import MEASURES, measure_name
from findingaid.metrics.rankings import CachingEmbedder, CaseRanking, SupportsSearch
from findingaid.metrics.results import Comparison, Difference, Evaluation, Score, evaluate_search

__all__ = [
    "MEASURES",
    "CachingEmbedder",
    "Case",
    "CaseRanking",
    "Cases",
    "Comparison",
    "Difference",
    "Evaluation",
    "Score",
    "SupportsSearch",
    "evaluate_search",
    "load_cases",
    "measure_name",
]
