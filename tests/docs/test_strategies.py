"""docs/strategies.md describes the strategies correctly, and its examples run."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import yaml

import findingaid
from findingaid import Strategy
from findingaid.registry import parameters
from findingaid.strategies import STRATEGIES
from tests.conftest import Cli
from tests.paths import ROOT

DOCUMENT = (ROOT / "docs" / "strategies.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
ROW = re.compile(r"^\| (\w+) \| (.*?) \|", re.MULTILINE)


@pytest.mark.parametrize("name", STRATEGIES.known())
def test_the_table_of_a_strategy_has_its_parameters_and_their_defaults(name: str) -> None:
    member: Any = STRATEGIES.member(name, "")
    shown = {row: default for row, default in ROW.findall(SECTIONS[name]) if row != "parameter"}

    assert list(shown) == parameters(member)
    made: Any = member()
    defaults = {name: getattr(made, name) for name in shown}
    assert {k: v.strip("`") for k, v in shown.items() if "`" in v} == {
        k: type(v).__name__ if isinstance(v, Strategy) else str(v)
        for k, v in defaults.items()
        if isinstance(v, Strategy | str | bool)
    }


@pytest.fixture
def examples(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL):
        name = block.split()[1]
        (cli.folder / name).write_text(block)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(cli.folder)
    return cli


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL))
def test_the_examples_index(examples: Cli, block: str) -> None:
    text = "Glossary\n  ledger = : one row an artifact\r\nvector=: numbers\nno term\n"
    examples.write("a.md", text)
    examples.settings["corpora"]["docs"] |= yaml.safe_load(block)
    examples.run("status")

    aid = findingaid.open(examples.config)
    report = aid.index()

    assert report.ok
    terms = {hit.text for hit in aid.search("numbers", k=10) if hit.surface_kind == "term"}
    assert terms == {"ledger = : one row an artifact", "vector=: numbers"}
