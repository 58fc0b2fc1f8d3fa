"""Tuning: evaluates search settings on cases, and recommends a change if its gain is unlikely to be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import yaml

from findingaid.aid import FindingAid
from findingaid.evaluation.searches import evaluate
from findingaid.indexing.run import ProgressOf
from findingaid.metrics import Cases, Difference, Evaluation, measure_name

BLENDS: Sequence[float | str] = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0, "rrf")
"""Blends that are compared: from 0, which ranks by words alone, to 1, which ranks by meaning alone."""

ROUTES = ("flat", "auto", "boost", "collapsed")

SIGNIFICANT = 0.05
"""Highest corrected p value at which a change is recommended."""


@dataclass(frozen=True)
class Tuning:
    """Evaluations of search settings by one measure. The first is that of the configuration."""

    measure: str
    tried: Sequence[tuple[Mapping[str, Any], Evaluation]]

    @cached_property
    def best(self) -> tuple[Mapping[str, Any], Evaluation]:
        """Settings with the highest mean, and their evaluation; the first of equal ones."""
        return max(self.tried, key=lambda entry: float(np.nanmean(entry[1].scores[self.measure])))

    @cached_property
    def gain(self) -> Difference:
        """Difference of the measure between the best settings and the configuration."""
        return self.best[1].versus(self.tried[0][1]).differences[self.measure]

    @property
    def corrected_p(self) -> float:
        """p value of the gain, times the number of settings tried (Bonferroni)."""
        return min(1.0, self.gain.p * (len(self.tried) - 1))

    @property
    def advice(self) -> Mapping[str, Any]:
        """Settings to change; empty if the gain may be chance."""
        return self.best[0] if self.gain.value > 0 and self.corrected_p <= SIGNIFICANT else {}

    @property
    def lines(self) -> str:
        """Advice as YAML for the configuration; "" if there is none."""
        return yaml.safe_dump({"search": dict(self.advice)}, sort_keys=False) if self.advice else ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "tried": [{"settings": dict(asked), **found.to_dict()["scores"]} for asked, found in self.tried],
            "best": dict(self.best[0]),
            "gain": self.gain.value,
            "low": self.gain.low,
            "high": self.gain.high,
            "corrected_p": self.corrected_p,
            "advice": dict(self.advice),
        }


def tune(
    aid: FindingAid,
    cases: Cases,
    measure: str = "nDCG@10",
    *,
    corpora: Sequence[str] | None = None,
    seed: int = 0,
    progress: ProgressOf | None = None,
) -> Tuning:
    """Evaluate the configured search, then each blend, then each route with the best blend.

    Only searches are made, which cost nothing unless a model is configured for them. Raises the errors of `evaluate`.
    """
    measure = measure_name(measure)

    def measured(asked: Mapping[str, Any]) -> tuple[Mapping[str, Any], Evaluation]:
        name = ", ".join(f"{key} {value}" for key, value in asked.items()) or "as configured"
        bar = partial(progress(name), "queries") if progress else None
        found = evaluate(aid, cases, measures=[measure], corpora=corpora, name=name, seed=seed, progress=bar, **asked)
        return asked, found

    configured = measured({})
    blends = [measured({"blend": blend}) for blend in BLENDS]
    best = Tuning(measure, [configured, *blends]).best[0]
    routes = [measured({**best, "route": route}) for route in ROUTES]
    return Tuning(measure, [configured, *blends, *routes])
