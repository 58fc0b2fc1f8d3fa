"""The guides stay short, and their links to the figures lead to a section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]
LONGEST_GUIDE = 2_500
ALL_GUIDES = 42_000


def words(guide: Path) -> int:
    return len(guide.read_text().split())


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("guide", GUIDES, ids=name)
def test_a_guide_can_be_read_at_one_sitting(guide: Path) -> None:
    assert words(guide) <= LONGEST_GUIDE, "what is the fact that users decide by, and which page has it already?"


def test_all_guides_together_stay_short() -> None:
    assert sum(map(words, GUIDES)) <= ALL_GUIDES


@pytest.mark.parametrize("guide", GUIDES, ids=name)
def test_a_link_to_the_figures_leads_to_a_section(guide: Path) -> None:
    headings = re.findall(r"^##+ (.+)$", (ROOT / "benchmarks" / "RESULTS.md").read_text(), re.MULTILINE)
    sections = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    assert {*re.findall(r"benchmarks/RESULTS\.md#([\w-]+)", guide.read_text())} <= sections
