"""Plots for check results: small PNG images embedded in Markdown."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import dagster as dg
import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BAR = "#8b93a3", "#5b6ee1"  # legible on Dagster's light and dark pages

BINS = 24


def histogram(values: Sequence[float], title: str, x: str, y: str) -> dg.MarkdownMetadataValue:
    """Plot the distribution of values. The last bar contains all values beyond the 99th percentile."""
    figure, axes = _axes(title)
    top = float(np.percentile(values, 99)) or 1.0
    axes.hist(np.minimum(values, top), bins=BINS, color=BAR)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    return _image(figure, title)


def bars(counts: Mapping[str, float], title: str, x: str) -> dg.MarkdownMetadataValue:
    """Plot one labelled bar per name."""
    figure, axes = _axes(title)
    drawn = axes.barh(list(counts), list(counts.values()), color=BAR)
    axes.bar_label(drawn, [f"{n:,}" for n in counts.values()], color=INK, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(x, color=INK)
    return _image(figure, title)


def levels(facts: Mapping[str, float], title: str) -> dg.MarkdownMetadataValue:
    """Plot measures from 0 to 1 as bars, the first with its interval, and the floor as a line."""
    figure, axes = _axes(title)
    shown = {name: value for name, value in facts.items() if name not in {"cases", "floor", "low", "high"}}
    axes.barh(list(shown), list(shown.values()), color=BAR)
    first = next(iter(shown.values()))
    axes.errorbar(first, 0, xerr=[[first - facts["low"]], [facts["high"] - first]], color=INK, capsize=3)
    axes.axvline(facts["floor"], color=INK, linestyle="--")
    axes.text(facts["floor"], 1.0, " floor", color=INK, fontsize=8, transform=axes.get_xaxis_transform(), va="top")
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    return _image(figure, title)


def _axes(title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure  # imported here: it takes longer to load than the whole code location

    figure = Figure(figsize=(5.5, 2.4), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, color=INK, fontsize=11, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    return figure, axes


def _image(figure: Figure, alternative: str) -> dg.MarkdownMetadataValue:
    png = BytesIO()
    figure.savefig(png, transparent=True)
    return dg.MetadataValue.md(f"![{alternative}](data:image/png;base64,{base64.b64encode(png.getvalue()).decode()})")
