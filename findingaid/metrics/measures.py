"""Retrieval measures of rankings, computed by ir-measures, with confidence intervals and significance tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from findingaid.errors import ConfigError

Numbers = npt.NDArray[np.float64]

MEASURES = ("nDCG@10", "Recall@10", "Recall@100", "MRR", "success@1", "success@5")
"""Measures of artifacts that are reported by default."""

PASSAGE = "passage"
"""passage@k: a hit among the first k records holds the passage that a case names. Computed here, as it needs texts."""

NAMES = {"nDCG": "nDCG", "Recall": "R", "MRR": "RR", "success": "Success", "precision": "P", "MAP": "AP"}
"""Names used here -> names of ir-measures."""

WITHOUT_CUTOFF = ("MRR", "MAP")

DEEPEST = 100
"""Number of artifacts in a ranking for a measure without a cutoff."""

RESAMPLES, FLIPS = 2_000, 10_000
"""Samples of the bootstrap and of the randomisation test; the smallest p of the test is 1 / (FLIPS + 1)."""

SET_RESAMPLES = 1_000
"""Samples of the bootstrap of a statistic that is computed anew for each sample."""

CONFIDENCE = 0.95
AT_ONCE = 2_000_000
"""Maximum numbers drawn at once, so that memory use stays small for any number of cases."""


def measure_name(text: str) -> str:
    """Return the name of a measure as shown, "nDCG@10" for "ndcg@10". Raises ConfigError that lists the known ones."""
    found = re.fullmatch(r"(\w+?)(?:@([1-9]\d{0,3}))?", text.strip())
    known = {name.lower(): name for name in (*NAMES, PASSAGE)}
    name = known.get(found[1].lower()) if found else None
    if not found or not name or (found[2] is None and name not in WITHOUT_CUTOFF):
        shown = (name if name in WITHOUT_CUTOFF else f"{name}@k" for name in known.values())
        raise ConfigError(f"unknown metric {text!r}. Known: {', '.join(shown)}")
    return f"{name}@{found[2]}" if found[2] else name


def depth_of(measures: Sequence[str]) -> int:
    """Return the number of artifacts that a ranking must have for these measures."""
    return max(int(name.partition("@")[2] or DEEPEST) for name in measures)


def scores(
    expected: Sequence[Mapping[str, int]], rankings: Sequence[Sequence[str]], measures: Sequence[str]
) -> Numbers:
    """Return a matrix of scores: one row per case, one column per measure. passage@k is not supported.

    Raises ConfigError if ir-measures is not installed.
    """
    try:
        import ir_measures
    except ImportError:
        raise ConfigError("evaluations need ir-measures: pip install 'findingaid[evaluation]'") from None

    wanted = {ir_measures.parse_measure(_theirs(name)): column for column, name in enumerate(measures)}
    made = np.zeros((len(expected), len(measures)))
    qrels = {str(row): dict(grades) for row, grades in enumerate(expected)}
    # Scores fall with the rank, because equal scores would be sorted by id.
    run = {
        str(row): {item: float(len(ranking) - place) for place, item in enumerate(ranking)}
        for row, ranking in enumerate(rankings)
    }
    for metric in ir_measures.iter_calc(list(wanted), qrels, run) if wanted else ():
        made[int(metric.query_id), wanted[metric.measure]] = metric.value
    return made


def _theirs(name: str) -> str:
    ours, _, cutoff = name.partition("@")
    return f"{NAMES[ours]}@{cutoff}" if cutoff else NAMES[ours]


def interval(values: Numbers, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by the percentile bootstrap.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if len(values) == 1:
        return float(values[0]), float(values[0])
    from scipy.stats import bootstrap

    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        batch=_batch(values),
        rng=seed,
    ).confidence_interval
    return float(found.low), float(found.high)


def p_value(differences: Numbers, seed: int = 0) -> float:
    """Return the p value of a mean difference: the probability of one as large if each sign is random.

    This is the two-sided paired randomisation test, Smucker, Allan and Carterette, CIKM 2007,
    https://doi.org/10.1145/1321440.1321528
    """
    from scipy.stats import monte_carlo_test

    random = np.random.default_rng(seed)

    def flipped(size: tuple[int, ...]) -> Numbers:
        return differences * (random.integers(0, 2, size, np.int8) * 2.0 - 1.0)

    def size_of_mean(values: Numbers, axis: int) -> Numbers:
        sizes: Numbers = np.abs(values.mean(axis=axis))
        return sizes

    # permutation_test flips signs too, but takes eight times as long.
    found = monte_carlo_test(
        differences,
        flipped,
        size_of_mean,
        alternative="greater",
        n_resamples=FLIPS,
        vectorized=True,
        batch=_batch(differences),
    )
    return float(found.pvalue)


def _batch(values: Numbers) -> int:
    return max(1, AT_ONCE // len(values))


def auroc(scores: Numbers, positive: Numbers) -> float:
    """Return the probability that a positive case scores above another one; ties count half. NaN for a single class."""
    from scipy.stats import rankdata

    chosen = np.asarray(positive, bool)
    ours, others = int(chosen.sum()), int((~chosen).sum())
    if not ours or not others:
        return float("nan")
    return float((rankdata(scores)[chosen].sum() - ours * (ours + 1) / 2) / (ours * others))


def interval_of(statistic: Callable[..., float], *columns: Numbers, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % confidence interval of a statistic of cases, by the percentile bootstrap over the cases."""
    rng, count = np.random.default_rng(seed), len(columns[0])
    drawn = (rng.integers(0, count, count) for _ in range(SET_RESAMPLES))
    found = [statistic(*(column[places] for column in columns)) for places in drawn]
    low, high = np.nanpercentile(found, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)
