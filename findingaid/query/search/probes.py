"""Probes: questions about unrelated subjects, whose scores are the yardstick for the score of a real question.

Cosines of different embedders are not comparable: unrelated texts have 0.02 in one and 0.7 in another. Against the
similarity of random records to each other, probes tell questions that an index answers from others much better
(benchmarks/RESULTS.md): records of one collection are alike, whatever is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from findingaid.store.sql import one_of
from findingaid.store.vectors import unit

if TYPE_CHECKING:
    from findingaid.model import Vectors
    from findingaid.query.search.reader import Reader

PROBES = (
    "Who won the football world cup?",
    "Which country is the world champion in football?",
    "How long should pasta boil?",
    "Who composed the Moonlight Sonata?",
    "When did the Roman Empire fall?",
    "How do I teach a dog to sit?",
    "Why do leaves turn red in autumn?",
    "How deep is the Pacific Ocean?",
)
"""Questions about subjects that few collections treat. The first two ask for the same in other words."""

SAMPLE = 256
"""Number of records, evenly spaced, that the probes are compared with."""

MEANING = 3.0
"""Minimum number of deviations by which an embedder must tell the two equal probes from noise."""


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """Mean and standard deviation of the cosines of probes and records.

    `meaning`: the embedder recognizes the same question in other words. If not, as for hashes, its scores say nothing.
    """

    mean: float
    deviation: float
    meaning: bool

    def above(self, cosine: float) -> float | None:
        """Return by how many deviations a cosine is above the mean; None for an embedder without meaning."""
        return (cosine - self.mean) / self.deviation if self.meaning else None


NO_SCORES = ProbeScores(0.0, 1.0, meaning=False)


def probe_scores(reader: Reader, corpora: Sequence[str]) -> ProbeScores:
    """Return the scores of the probes in these corpora, measured once per reader with an embedding for each probe."""
    asked = tuple(sorted(corpora))
    if asked not in reader.probed:
        reader.probed[asked] = _measure(reader, asked)
    return reader.probed[asked]


def _measure(reader: Reader, corpora: Sequence[str]) -> ProbeScores:
    sample = _sample(reader, corpora)
    if not len(sample):
        return NO_SCORES
    probes = np.stack([reader.embed(probe) for probe in PROBES]).astype(np.float32)
    probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    cosines = probes @ sample.T
    mean, deviation = float(cosines.mean()), float(cosines.std())
    if not deviation:
        return NO_SCORES
    return ProbeScores(mean, deviation, meaning=(float(probes[0] @ probes[1]) - mean) / deviation >= MEANING)


def _sample(reader: Reader, corpora: Sequence[str]) -> Vectors:
    found = reader.records.to_table(columns=[], filter=one_of("corpus", corpora), with_row_id=True)
    rows = found["_rowid"].to_numpy()
    if not len(rows):
        return np.empty((0, 0), np.float32)
    listed = ",".join(map(str, rows[np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(int))]))
    vectors: Vectors = unit(
        reader.records.to_table(columns=["vector"], filter=f"_rowid IN ({listed})")["vector"].combine_chunks()
    )
    return vectors
