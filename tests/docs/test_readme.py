"""Commands, snippets and links of the documents work."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from findingaid.cli import main
from tests.conftest import Cli
from tests.paths import ROOT
from tools.guides import FENCE, GUIDES
from tools.transcripts import BLOCK, PLACES, commands

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SHOWN = [
    c
    for path in DOCUMENTS
    if path.name not in PLACES and path not in GUIDES
    for block in BLOCK.findall(path.read_text())
    for c in commands(block)
]
HAND_MADE = ("strategy.name=Chunk", "pth LIKE", "once more")  # shows an error


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The configuration that ships, with a store and an embedder for tests."""
    store = tmp_path_factory.mktemp("readme") / "index"
    return ["--config", str(ROOT / "findingaid.yaml"), "--set", f"store={store}", "--set", "embedder={kind: hash}"]


def test_there_are_commands_to_check() -> None:
    assert len(SHOWN) >= 7


@pytest.mark.parametrize("command", SHOWN)
def test_every_command_shown_runs(command: str, indexed: list[str]) -> None:
    program, *arguments = shlex.split(command)
    assert program == "findingaid"
    if not Path(indexed[3].removeprefix("store=")).exists():
        assert CliRunner().invoke(main, ["index", *indexed]).exit_code == 0

    result = CliRunner().invoke(main, [*arguments, *indexed])

    assert result.exit_code == (1 if any(mark in command for mark in HAND_MADE) else 0), result.output


@pytest.mark.parametrize("name", PLACES)
def test_the_commands_of_a_document_with_an_example_run_one_after_the_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "example"
    shutil.copytree(PLACES[name], folder, ignore=shutil.ignore_patterns(".findingaid"))
    monkeypatch.chdir(folder)
    shown = [c for block in BLOCK.findall((ROOT / "docs" / name).read_text()) for c in commands(block)]

    assert shown
    for command in shown:
        result = CliRunner().invoke(main, [*shlex.split(command)[1:], "--set", "embedder={kind: hash}"])

        assert result.exit_code == any(mark in command for mark in HAND_MADE), result.output


def test_the_library_snippets_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.write("a.md", "# A\n\nVersions are compared by their hashes.")
    cli.run("status")
    monkeypatch.chdir(cli.folder)

    for snippet in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(compile(snippet, "README.md", "exec"), {})

    printed = capsys.readouterr().out
    assert "docs/a.md" in printed


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_file_that_is_named_is_there(path: Path) -> None:
    text = FENCE.sub("", path.read_text())  # the output of a search can be part of a link
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (path.parent / link).exists(), link
    for name in re.findall(r"`((?:findingaid|docs|tests|tools|benchmarks|pipelines)/[\w./]+\.\w+)`", path.read_text()):
        assert (ROOT / name).exists(), name


def test_the_configuration_documented_names_every_parameter() -> None:
    from findingaid.claims.extraction import CLAIM_EXTRACTORS
    from findingaid.claims.nodes import NODE_PRODUCERS
    from findingaid.embedding import EMBEDDERS
    from findingaid.query.answers.generation import ANSWERERS
    from findingaid.query.search.components import RERANKERS, REWRITERS, SELECTORS
    from findingaid.sources import SOURCES
    from findingaid.strategies import STRATEGIES
    from findingaid.synthesis import SUMMARIZERS, SYNTHESIZERS

    pages = (
        *("configuration.md", "sources.md", "agent-sources.md", "places.md", "strategies.md", "synopses.md"),
        *("batches.md", "anchored.md", "query.md", "routes.md", "steps.md", "answers.md", "models.md"),
    )
    text = "".join((ROOT / "docs" / name).read_text() for name in pages)
    for registry in (
        SOURCES,
        STRATEGIES,
        SYNTHESIZERS,
        SUMMARIZERS,
        EMBEDDERS,
        RERANKERS,
        SELECTORS,
        REWRITERS,
        ANSWERERS,
        CLAIM_EXTRACTORS,
        NODE_PRODUCERS,
    ):
        for name in registry.known():
            assert name in text
            for field in fields(registry.member(name, "")):  # type: ignore[arg-type]  # members are dataclasses
                assert not field.metadata.get("spec", True) or field.name in text, f"{name}: {field.name}"


def test_the_workspace_and_the_instance_are_yaml() -> None:
    for name in ("workspace.yaml", ".dagster/dagster.yaml", "findingaid.yaml", ".pre-commit-config.yaml"):
        assert yaml.safe_load((ROOT / name).read_text())


def test_no_section_of_the_readme_stands_twice() -> None:
    headings = re.findall(r"^## .+$", BLOCK.sub("", (ROOT / "README.md").read_text()), re.MULTILINE)

    assert len(headings) == len(set(headings))
    assert headings[-1] == "## Contributing"
