"""Whoever follows the tutorial or a how-to from an empty folder gets through, with the real model and real services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.guides import FENCE, GUIDES, Reader, servers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def surroundings() -> Iterator[dict[str, str]]:
    with servers() as variables:
        yield variables


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_followed(guide: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    text = guide.read_text()

    followed = Reader(tmp_path, surroundings).follow(text)

    assert [block[1] for block in FENCE.finditer(followed)] == [block[1] for block in FENCE.finditer(text)]
