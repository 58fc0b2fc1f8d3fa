"""Results of an evaluation: measures with intervals, by kind of query, and the difference between two evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from findingaid.errors import CasesError
from findingaid.frames import to_frame
from findingaid.metrics.cases import Case, Cases
from findingaid.metrics.measures import MEASURES, PASSAGE, Numbers, depth_of, interval, p_value, scores
from findingaid.metrics.rankings import CaseRanking, Progress, SupportsSearch, rank

if TYPE_CHECKING:
    import pandas as pd

TOP = 10
"""Number of artifacts of a ranking that are shown."""


@dataclass(frozen=True, slots=True)
class Score:
    """Mean over cases with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.2f}-{self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over the same cases, with its 95 % confidence interval and p value."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.2f} {self.high:+.2f}] p={self.p:.2g}"


@dataclass(frozen=True)
class Evaluation:
    """Search results of cases for one setup, called `name`. The same seed gives the same intervals."""

    name: str
    cases: Sequence[Case]
    rankings: Sequence[CaseRanking]
    measures: Sequence[str]
    seed: int = 0

    @cached_property
    def scores(self) -> Mapping[str, Numbers]:
        """measure -> one number per case; NaN for passage@k if a case names no passage."""
        of_artifacts = [name for name in self.measures if not name.startswith(PASSAGE)]
        matrix = scores([c.expected for c in self.cases], [r.artifacts for r in self.rankings], of_artifacts)
        found = dict(zip(of_artifacts, matrix.T, strict=True))
        return {name: found[name] if name in found else self._passages(name) for name in self.measures}

    def _passages(self, name: str) -> Numbers:
        k = int(name.partition("@")[2])
        held = [
            (ranking.passage is not None and ranking.passage <= k) if case.passage else np.nan
            for case, ranking in zip(self.cases, self.rankings, strict=True)
        ]
        return np.array(held, np.float64)

    @property
    def kinds(self) -> list[str]:
        """Kinds of query; empty if all cases are of one kind."""
        found = sorted({case.kind for case in self.cases})
        return found if len(found) > 1 else []

    def count(self, kind: str | None = None) -> int:
        """Return the number of cases, of one kind or of all."""
        return sum(kind in {None, case.kind} for case in self.cases)

    def score(self, measure: str, kind: str | None = None) -> Score | None:
        """Return a measure over all cases or those of one kind; None if no case has it."""
        values = self._values(self.scores[measure], kind)
        return Score(float(values.mean()), *interval(values, self.seed)) if len(values) else None

    def _values(self, values: Numbers, kind: str | None) -> Numbers:
        if kind is not None:
            values = values[np.array([case.kind == kind for case in self.cases])]
        return values[~np.isnan(values)]

    def worst(self, measure: str, count: int) -> list[Case]:
        """Return the cases with the lowest scores, ties in their order; a case without the measure counts as 1."""
        values = np.nan_to_num(self.scores[measure], nan=1.0)
        return [self.cases[i] for i in np.argsort(values, kind="stable")[:count]]

    def table(self) -> Mapping[str | None, Mapping[str, Score | None]]:
        """Return kind of query -> measure -> score; the key None means all kinds."""
        return self._table

    @cached_property
    def _table(self) -> dict[str | None, dict[str, Score | None]]:
        return {kind: {m: self.score(m, kind) for m in self.measures} for kind in (None, *self.kinds)}

    def versus(self, other: Evaluation) -> Comparison:
        """Compare this evaluation with another of the same cases. Raises CasesError if the cases differ."""
        if [case.id for case in self.cases] != [case.id for case in other.cases]:
            raise CasesError("only evaluations of the same cases can be compared")
        pairs = {m: self.scores[m] - other.scores[m] for m in self.measures if m in other.scores}
        return Comparison(self.name, other.name, {m: _difference(d, self.seed) for m, d in pairs.items()})

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a data frame with one row per case, and its measures. Raises ConfigError without pandas."""
        return to_frame([{**case, **case.pop("scores")} for case in self.to_dict()["cases"]])

    def to_dict(self) -> dict[str, Any]:
        """Return the whole evaluation as a dictionary, with the results of each case."""
        of_cases = {
            name: [None if np.isnan(value) else round(float(value), 6) for value in values]
            for name, values in self.scores.items()
        }
        return {
            "name": self.name,
            "n": len(self.cases),
            "scores": _plain(self._table[None]),
            "kinds": {
                kind: {"n": self.count(kind), "scores": _plain(scores)}
                for kind, scores in self.table().items()
                if kind is not None
            },
            "cases": [
                {
                    "id": case.id,
                    "query": case.query,
                    "kind": case.kind,
                    "expected": dict(case.expected),
                    "found": list(ranking.artifacts[:TOP]),
                    "scores": {name: values[i] for name, values in of_cases.items()},
                }
                for i, (case, ranking) in enumerate(zip(self.cases, self.rankings, strict=True))
            ],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """`name` minus `versus`, measure by measure, over the same cases."""

    name: str
    versus: str
    differences: Mapping[str, Difference]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _difference(values: Numbers, seed: int) -> Difference:
    values = values[~np.isnan(values)]
    return Difference(float(values.mean()), *interval(values, seed), p_value(values, seed))


def _plain(scores: Mapping[str, Score | None]) -> dict[str, Any]:
    return {name: score and asdict(score) for name, score in scores.items()}


def evaluate_search(
    searching: SupportsSearch,
    cases: Cases,
    measures: Sequence[str] | None = None,
    *,
    corpora: Sequence[str] | None = None,
    asked: Mapping[str, Any] | None = None,
    name: str = "",
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate the search of `searching` on cases, over `corpora` or all, with the search options `asked`.

    Raises CasesError for a measure of passages if no case has one.
    """
    with_passage = any(case.passage for case in cases.cases)
    if measures is None:
        measures = MEASURES + ((f"{PASSAGE}@{TOP}",) if with_passage else ())
    if not with_passage and (wrong := next((m for m in measures if m.startswith(PASSAGE)), None)):
        raise CasesError(f"{wrong}: no case has a passage")
    rankings = rank(
        searching,
        cases.cases,
        depth_of(measures),
        corpora=corpora,
        asked=asked,
        progress=progress,
    )
    return Evaluation(name or cases.name, cases.cases, rankings, measures, seed)
