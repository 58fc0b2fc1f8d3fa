"""House rules: imports point one way, importing is cheap, the public names are complete."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import findingaid
from tests.paths import ROOT
from tools import layout


def test_imports_point_one_way(tmp_path: Path) -> None:
    layout.write(tmp_path / "layout")
    lint = [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"]

    done = subprocess.run(lint, cwd=tmp_path / "layout", capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_importing_the_library_loads_no_heavy_module() -> None:
    heavy = ("torch", "lancedb", "lance", "dagster", "pyarrow", "numpy", "pydantic")
    code = f"import sys, findingaid; print([m for m in {heavy} if m in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in findingaid.__all__:
        assert getattr(findingaid, name) is not None


@pytest.mark.slow
def test_the_shipped_configuration_works_without_a_network(tmp_path: Path) -> None:
    code = f"""
import socket
def refuse(*_): raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
import findingaid
aid = findingaid.open({str(ROOT / "findingaid.yaml")!r}, {{"store": {str(tmp_path / "index")!r}}})
assert aid.index(["docs"]).ok
print(aid.search("what is a ledger", 1)[0].corpus)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "docs"


def test_a_command_imports_neither_the_database_nor_what_other_commands_need() -> None:
    others = (
        "lance",
        "lancedb",
        "onnxruntime",
        "pyromark",
        "findingaid.evaluation.searches",
        "findingaid.evaluation.generated_cases",
    )
    code = f"import sys, findingaid.cli; print([m for m in {others} if m in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_graph_is_what_its_script_writes() -> None:
    done = subprocess.run(
        [sys.executable, "tools/minilm_graph.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_every_module_imports_and_says_what_it_is() -> None:
    files = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "findingaid").rglob("*.py")]
    names = [".".join(path.parts).removesuffix(".__init__") for path in files]

    assert len(names) > 100
    assert [name for name in names if not importlib.import_module(name).__doc__] == []


def test_the_integration_contains_its_three_folders_and_nothing_else_of_the_checkout() -> None:
    found = {name: find_spec(f"findingaid_dagster.{name}") for name in ("assets", "pipelines", "resources", "tests")}

    assert [name for name, spec in found.items() if spec is None] == ["tests"]


def test_every_file_and_folder_that_the_map_names_is_there() -> None:
    """A path from the root, or the name of a module of the folder that the sentence is about."""
    named = set(re.findall(r"`([\w./]+(?:\.py|/))`", (ROOT / "ARCHITECTURE.md").read_text()))
    folders = ("findingaid", "findingaid_dagster", "assets", "pipelines")
    names = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}

    assert len(named) > 60
    assert [name for name in named if not (ROOT / name).exists() and name not in names] == []


def test_every_folder_of_the_library_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = [path.parent for path in (ROOT / "findingaid").rglob("__init__.py") if path.parent.name != "query"]

    assert [f for f in folders if f"`{f.relative_to(ROOT).as_posix()}/`" not in text] == []
