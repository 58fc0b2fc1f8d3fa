"""Plot of evaluations: each measure as dots with their intervals, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from findingaid.errors import ConfigError
from findingaid.metrics.results import Evaluation

STEP = 0.12
"""Horizontal distance between the dots of one measure."""


def draw(evaluations: Sequence[Evaluation], path: str | Path) -> None:
    """Write a PNG file. Raises ConfigError if matplotlib is missing or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("--plot needs matplotlib: pip install 'findingaid[evaluation]'") from None

    figure = Figure(figsize=(8, 4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    measures = evaluations[0].measures
    for number, evaluation in enumerate(evaluations):
        found = [(place, score) for place, name in enumerate(measures) if (score := evaluation.score(name))]
        axes.errorbar(
            [place + STEP * (number - (len(evaluations) - 1) / 2) for place, _ in found],
            [score.value for _, score in found],
            yerr=[[s.value - s.low for _, s in found], [s.high - s.value for _, s in found]],
            fmt="o",
            capsize=3,
            label=evaluation.name,
        )
    axes.set_xticks(range(len(measures)), measures)
    axes.set_ylim(0, 1.03)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{len(evaluations[0].cases):,} cases, intervals of 95 %", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ConfigError(f"--plot {path}: {error.strerror or error}") from None
