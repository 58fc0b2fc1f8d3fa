"""Evaluation of a verifier on claims that people have judged against evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
from pydantic import BaseModel, Field, ValidationError

from findingaid.errors import CasesError
from findingaid.metrics import Score
from findingaid.metrics.measures import Numbers, interval, interval_of
from findingaid.protocols import Verifier
from findingaid.query.answers.verification import find_objection, supported_share
from findingaid.registry import one_line

SUPPORTED = "supported"
"""Label of a claim that its evidence supports fully. Every other label counts as not supported."""


class JudgedClaim(BaseModel):
    """Claim with the sentences of its evidence, and the label that people gave it."""

    claim: Annotated[str, Field(pattern=r"\S")]
    evidence: Annotated[list[str], Field(min_length=1)]
    label: str


@dataclass(frozen=True)
class VerifierEvaluation:
    """Decisions of a verifier, compared with the labels.

    Each array has an entry per claim: `supported` by its label and `accepted` by the verifier, 1 or 0, and `overlap`,
    the share of its words that its evidence has.
    """

    model: str
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

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "n": len(self.supported),
            "scores": {name: asdict(score) for name, score in self.scores.items()},
        }


def share_of(of: Numbers, those: Numbers) -> float:
    """Return the share of `those` among the cases of `of`; NaN if there are none."""
    return float((of * those).sum() / of.sum()) if of.sum() else float("nan")


def load_judged_claims(path: str | Path) -> list[JudgedClaim]:
    """Load the claims of a JSON lines file. Raises CasesError, with the line."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise CasesError(f"{path} cannot be read: {error.strerror}") from None
    found = [_read(f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise CasesError(f"{path}: no claims: give at least one line with claim, evidence and label")
    return found


def _read(place: str, line: bytes) -> JudgedClaim:
    try:
        return JudgedClaim.model_validate(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        raise CasesError(f"{place}: not JSON: {error.msg}") from None
    except ValidationError as error:
        raise CasesError(f"{place}: {one_line(error, '', list(JudgedClaim.model_fields))}") from None


def evaluate_verifier(verifier: Verifier, claims: Sequence[JudgedClaim], seed: int = 0) -> VerifierEvaluation:
    """Put claims with their evidence to a verifier. Raises ModelError."""
    return VerifierEvaluation(
        verifier.model,
        np.array([claim.label == SUPPORTED for claim in claims], float),
        np.array([not find_objection(verifier, claim.claim, claim.evidence) for claim in claims], float),
        np.array([supported_share(claim.claim, claim.evidence) for claim in claims]),
        seed,
    )
