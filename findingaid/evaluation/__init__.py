"""How well known questions find what they should: cases, rankings, measures with intervals, comparisons."""

from findingaid.evaluation.cases import BeirSet, Case, Cases, load_cases, load_set
from findingaid.evaluation.measures import MEASURES, measure_name
from findingaid.evaluation.results import Comparison, Difference, Evaluation, Score, evaluated
from findingaid.evaluation.running import Ranking, Remembering, Searching, forget_runs

__all__ = [
    "MEASURES",
    "BeirSet",
    "Case",
    "Cases",
    "Comparison",
    "Difference",
    "Evaluation",
    "Ranking",
    "Remembering",
    "Score",
    "Searching",
    "evaluated",
    "forget_runs",
    "load_cases",
    "load_set",
    "measure_name",
]
