"""Pictures of checks: the shared location of the other tests draws each kind only once."""

from __future__ import annotations

import base64
from collections.abc import Callable

import dagster as dg
import pytest

from findingaid_dagster.assets.plots import bars, histogram, levels


@pytest.mark.parametrize(
    "draw",
    [
        lambda: histogram([0.0], "Ages", "days", "artifacts"),
        lambda: histogram([1, 5, 5_000, 100_000], "Lengths", "characters", "surfaces"),
        lambda: bars({"ok": 1_204, "pending": 1}, "Outcomes", "artifacts"),
        lambda: levels(
            {"nDCG@10": 0.5, "Recall@10": 1.0, "floor": 0.4, "low": 0.4, "high": 0.7, "cases": 3}, "Quality"
        ),
    ],
    ids=["histogram of one", "histogram", "bars", "levels"],
)
def test_a_picture_is_a_png_in_markdown_with_its_title(draw: Callable[[], dg.MarkdownMetadataValue]) -> None:
    title, data = draw().value.removesuffix(")").split("](data:image/png;base64,")

    assert title.startswith("![")
    assert base64.b64decode(data).startswith(b"\x89PNG")
