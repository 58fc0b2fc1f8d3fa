"""The tutorial and the how-tos work from an empty folder, with the real model and real services."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import QUICK
from tools.guides import FENCE, GUIDES, BrokenGuideError, Reader, servers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def surroundings() -> Iterator[dict[str, str]]:
    path = os.pathsep.join(filter(None, [str(QUICK), os.environ.get("PYTHONPATH")]))
    with servers() as variables:
        yield variables | {"PYTHONPATH": path}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_can_be_followed(guide: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    text = guide.read_text()

    followed = Reader(tmp_path, surroundings).follow(text)

    assert [block[1] for block in FENCE.finditer(followed)] == [block[1] for block in FENCE.finditer(text)]


def test_a_port_that_a_guide_names_stands_for_a_free_one(tmp_path: Path) -> None:
    guide = "```python\n# asked.py\nPORT = 8077\n```\n\n```console\n$ echo 8077 | tee shown\n8077\n```\n"

    followed = Reader(tmp_path, ports={"8077": "41234"}).follow(guide)

    assert followed == guide
    assert (tmp_path / "asked.py").read_text() == "# asked.py\nPORT = 41234\n"
    assert (tmp_path / "shown").read_text() == "41234\n"


def test_a_guide_whose_server_does_not_start_is_broken(tmp_path: Path) -> None:
    with pytest.raises(BrokenGuideError, match="is not ready to answer"):
        Reader(tmp_path).follow("```bash\nfindingaid serve http\n```\n")
