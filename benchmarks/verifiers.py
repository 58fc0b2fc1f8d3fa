"""Figures of verifiers in RESULTS.md: `python -m benchmarks.verifiers wice/dev.jsonl [--verifier SPEC]`.

Each line of the file is a JSON object with `claim`, `evidence` (a list of sentences) and `label`: "supported", or any
other text for claims that are not. The last two measures are baselines: always the more frequent label, and the best
threshold on the share of the claim's words that the evidence has.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.beir import read_lines
from findingaid.evaluation.answers import share_of
from findingaid.metrics import Score
from findingaid.metrics.measures import Numbers, interval, interval_of
from findingaid.protocols import Verifier
from findingaid.query.answers.verification import VERIFIERS, find_objection, supported_share

SUPPORTED = "supported"
"""Label of a claim that its evidence supports fully. Every other label counts as not supported."""


@dataclass(frozen=True)
class VerifierEvaluation:
    """Decisions of a verifier, compared with the labels.

    Each array has an entry per claim: `supported` by its label and `accepted` by the verifier, 1 or 0, and `overlap`,
    the share of its words that its evidence has.
    """

    supported: Numbers
    accepted: Numbers
    overlap: Numbers
    seed: int = 0

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Map each measure to its value and interval. The last two are the accuracies of baselines."""
        right = (self.supported == self.accepted).astype(float)
        majority = (self.supported == float(self.supported.mean() >= 0.5)).astype(float)
        cut = max(np.unique(self.overlap), key=lambda least: float(self._agrees(least).mean()))
        return {
            "accuracy": self._mean(right),
            "precision": self._share(self.accepted, self.supported),
            "recall": self._share(self.supported, self.accepted),
            "accuracy of the majority label": self._mean(majority),
            "accuracy of word overlap": self._mean(self._agrees(cut)),
        }

    def _agrees(self, least: float) -> Numbers:
        agreed: Numbers = np.equal(self.overlap >= least, self.supported.astype(bool)).astype(np.float64)
        return agreed

    def _mean(self, values: Numbers) -> Score:
        return Score(float(values.mean()), *interval(values, self.seed))

    def _share(self, of: Numbers, those: Numbers) -> Score:
        return Score(share_of(of, those), *interval_of(share_of, of, those, seed=self.seed))


def evaluate_verifier(verifier: Verifier, claims: Sequence[Mapping[str, Any]], seed: int = 0) -> VerifierEvaluation:
    """Put claims with their evidence to a verifier."""
    return VerifierEvaluation(
        np.array([claim["label"] == SUPPORTED for claim in claims], float),
        np.array([not find_objection(verifier, claim["claim"], claim["evidence"]) for claim in claims], float),
        np.array([supported_share(claim["claim"], claim["evidence"]) for claim in claims]),
        seed,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", type=Path)
    parser.add_argument(
        "--verifier", type=yaml.safe_load, default={"kind": "lexical"}, help="spec, as in findingaid.yaml"
    )
    given = parser.parse_args()
    claims = read_lines(given.claims)
    found = evaluate_verifier(VERIFIERS.create(given.verifier, "verifier"), claims)
    print(f"{len(claims)} claims\n\n| measure | value |\n| --- | --- |")
    for name, score in found.scores.items():
        print(f"| {name} | {score} |")


if __name__ == "__main__":
    main()
