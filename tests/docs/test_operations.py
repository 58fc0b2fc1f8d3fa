"""docs/operations.md lists every check that a run can end with."""

import re

from findingaid.indexing.checks import CHECKS, CLAIMS, NODES, QUALITY, READABLE
from tests.paths import ROOT

ROW = re.compile(r"^\| (\w+) \| (\w+) \| (yes|no) \|", re.MULTILINE)


def test_the_table_of_checks_gives_each_check_with_its_stage_and_whether_it_blocks() -> None:
    shown = ROW.findall((ROOT / "docs/operations.md").read_text())

    every = (*CHECKS, CLAIMS, NODES, READABLE, QUALITY)
    assert sorted(shown) == sorted((c.name, c.stage.value, "yes" if c.blocking else "no") for c in every)
