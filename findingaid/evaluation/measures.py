"""What a ranking is worth by known measures, and how sure that is. The measures are those of ir-measures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from findingaid.errors import ConfigError

Numbers = npt.NDArray[np.float64]

MEASURES = ("nDCG@10", "Recall@10", "Recall@100", "MRR", "success@1", "success@5")
"""What is reported of artifacts by default."""

PASSAGE = "passage"
"""passage@k: a hit among the first k records holds the passage that a case names; ours, since it is of texts."""

NAMES = {"nDCG": "nDCG", "Recall": "R", "MRR": "RR", "success": "Success", "precision": "P", "MAP": "AP"}
"""Our names -> those of ir-measures."""

WITHOUT_CUTOFF = ("MRR", "MAP")

DEEPEST = 100
"""Artifacts of a ranking that are looked at, unless a measure asks for more."""

RESAMPLES, FLIPS = 2_000, 10_000
"""Of the bootstrap and of the randomisation test; the latter's p is no smaller than one in the second."""

CONFIDENCE = 95
AT_ONCE = 2_000_000
"""Numbers drawn at once, so that memory stays small however many cases there are."""


def measure_name(text: str) -> str:
    """A measure as it is shown, "nDCG@10" for "ndcg@10". Raises ConfigError that lists the known ones."""
    found = re.fullmatch(r"(\w+?)(?:@([1-9]\d{0,3}))?", text.strip())
    known = {name.lower(): name for name in (*NAMES, PASSAGE)}
    name = known.get(found[1].lower()) if found else None
    if not found or not name or (found[2] is None and name not in WITHOUT_CUTOFF):
        shown = (name if name in WITHOUT_CUTOFF else f"{name}@k" for name in known.values())
        raise ConfigError(f"unknown metric {text!r}. Known: {', '.join(shown)}")
    return f"{name}@{found[2]}" if found[2] else name


def depth_of(measures: Sequence[str]) -> int:
    """How many artifacts a ranking must have for these."""
    return max(int(name.partition("@")[2] or DEEPEST) for name in measures)


def scores(
    expected: Sequence[Mapping[str, int]], rankings: Sequence[Sequence[str]], measures: Sequence[str]
) -> Numbers:
    """A row a case, a column a measure; passage@k is not one that this knows."""
    try:
        import ir_measures
    except ImportError:
        raise ConfigError("evaluations need ir-measures: pip install 'findingaid[evaluation]'") from None

    wanted = {ir_measures.parse_measure(_theirs(name)): column for column, name in enumerate(measures)}
    made = np.zeros((len(expected), len(measures)))
    qrels = {str(row): dict(grades) for row, grades in enumerate(expected)}
    # Scores that fall with the rank, since equal ones would be sorted by id.
    run = {
        str(row): {item: float(len(ranking) - place) for place, item in enumerate(ranking)}
        for row, ranking in enumerate(rankings)
    }
    for metric in ir_measures.iter_calc(list(wanted), qrels, run):
        made[int(metric.query_id), wanted[metric.measure]] = metric.value
    return made


def _theirs(name: str) -> str:
    ours, _, cutoff = name.partition("@")
    return f"{NAMES[ours]}@{cutoff}" if cutoff else NAMES[ours]


def interval(values: Numbers, seed: int = 0) -> tuple[float, float]:
    """The percentile bootstrap's interval of a mean: of 95 in 100 such samples of cases it would lie in here.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    random = np.random.default_rng(seed)
    group = max(1, AT_ONCE // len(values))
    means = [
        values[random.integers(0, len(values), (min(group, RESAMPLES - done), len(values)))].mean(axis=1)
        for done in range(0, RESAMPLES, group)
    ]
    low, high = np.percentile(np.concatenate(means), [(100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2])
    return float(low), float(high)


def p_value(differences: Numbers, seed: int = 0) -> float:
    """How often a mean difference as large comes by chance, when which of the two is which is drawn for each case.

    The two-sided paired randomisation test, Smucker, Allan and Carterette, CIKM 2007,
    https://doi.org/10.1145/1321440.1321528
    """
    random = np.random.default_rng(seed)
    found = abs(differences.sum())
    group = max(1, AT_ONCE // len(differences))
    as_large = 0
    for done in range(0, FLIPS, group):
        signs = random.integers(0, 2, (min(group, FLIPS - done), len(differences)), np.int8) * 2.0 - 1.0
        as_large += int((np.abs(signs @ differences) >= found - 1e-12).sum())
    return (as_large + 1) / (FLIPS + 1)
