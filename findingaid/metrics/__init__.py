"""Retrieval metrics: cases, rankings, measures with confidence intervals, and comparisons."""

from findingaid.metrics.cases import BeirSet, Case, Cases, load_cases, load_set
from findingaid.metrics.measures import MEASURES, measure_name
from findingaid.metrics.rankings import CaseRanking, Remembering, Searching, forget_runs
from findingaid.metrics.results import Comparison, Difference, Evaluation, Score, evaluate_search

__all__ = [
    "MEASURES",
    "BeirSet",
    "Case",
    "CaseRanking",
    "Cases",
    "Comparison",
    "Difference",
    "Evaluation",
    "Remembering",
    "Score",
    "Searching",
    "evaluate_search",
    "forget_runs",
    "load_cases",
    "load_set",
    "measure_name",
]
