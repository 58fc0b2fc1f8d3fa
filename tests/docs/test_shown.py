"""Configurations, programs and commands on the pages of docs/ work, besides the transcripts.

`test_guides.py` tests the tutorial and the how-tos.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import dagster as dg
import pytest
import yaml
from click.testing import CliRunner

import findingaid
from findingaid.cli import main
from findingaid.config.loading import load
from findingaid.config.settings import CorpusSettings, Settings
from findingaid.embedding import EMBEDDERS
from findingaid.metrics import load_cases
from findingaid.registry import parameters
from findingaid.serve.capabilities import CAPABILITIES
from findingaid.serve.session import Session
from findingaid.testing import OpenAIServer
from findingaid_dagster import build_definitions
from tests.paths import ROOT
from tests.support.commands import subcommands
from tests.support.serving import served
from tools.guides import FENCE, FILE, GUIDES
from tools.transcripts import PLACES

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"console", "text", "toctree"}
"""`console` is for test_readme.py; nothing can be done with the others."""

SOURCE = {"kind": "files", "root": "docs"}
OF_DAGSTER = {"dg check", "dg dev", "dg launch", "dagster job", "export DAGSTER_HOME", "export DAGSTER_EMIT"}
"""How commands begin that other tests run.

They are in test_code_location.py, test_graphql.py, test_examples.py, test_executor.py and test_postgres.py.
"""


def blocks(*languages: str) -> list[Any]:
    """The blocks of all pages but the guides, each with its page."""
    return [
        pytest.param(page, text, id=f"{page.stem}-{text.splitlines()[0]}")
        for page in PAGES
        if page not in GUIDES
        for language, text in FENCE.findall(page.read_text())
        if language in languages
    ]


PROGRAMS = sorted({parameter.values[0] for parameter in blocks("python", "py")})


def test_every_block_is_of_a_kind_that_something_is_done_with() -> None:
    done = {"bash", "json", "python", "py", "toml", "yaml"}

    languages = {language for page in PAGES for language, _ in FENCE.findall(page.read_text())}

    assert languages <= LANGUAGES | done


def test_the_pages_that_cases_expect_are_there() -> None:
    cases = load_cases(ROOT / "docs" / "cases.yaml").cases

    assert cases
    assert not [page for case in cases for page in case.expected if not (ROOT / page).exists()]


@pytest.mark.parametrize(("page", "block"), blocks("yaml"))
def test_every_yaml_is_what_it_is_shown_as(
    page: Path, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, text in FENCE.findall(page.read_text()):
        if named := FILE.match(text):
            (tmp_path / named[1]).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    shown = yaml.safe_load(block)
    for weights in re.findall(r"path: (\S+\.gguf)", block):
        (tmp_path / weights).parent.mkdir()
        (tmp_path / weights).write_bytes(b"read at the first call")
    file = tmp_path / "findingaid.yaml"

    if isinstance(shown, list):
        file.write_text(block)
        assert load_cases(file)
    elif page.stem == "models":  # made with the model, which is downloaded
        embedder = Settings.model_validate(shown | {"corpora": {"docs": {"source": SOURCE}}}).embedder
        assert {*embedder} - {"kind"} <= {*parameters(EMBEDDERS.member(embedder["kind"], "embedder"))}
    elif set(shown) <= set(Settings.model_fields):
        file.write_text(yaml.safe_dump({"corpora": {"docs": {"source": SOURCE}}} | shown))
        assert load(file).corpora
    elif set(shown) <= set(CorpusSettings.model_fields):
        file.write_text(yaml.safe_dump({"corpora": {"docs": {"source": SOURCE} | shown}}))
        assert load(file).corpora
    elif "ops" in shown:
        file.write_text(yaml.safe_dump({"corpora": {"docs": {"source": SOURCE}}}))
        definitions = build_definitions(file)
        (op,) = shown["ops"]
        job = "index" if op == "discover" else "__ASSET_JOB"
        assert dg.validate_run_config(definitions.resolve_job_def(job), shown)
    else:
        assert set(shown) == {"storage"}, "an instance of Dagster is what test_postgres.py makes"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for the programs of a page: an example's, or one like this project's, indexed."""
    made: dict[Path, Path] = {}
    for example in {*PLACES.values(), ROOT}:
        folder = made[example] = tmp_path_factory.mktemp("place") / "project"
        if example == ROOT:
            folder.mkdir()
            shutil.copy(ROOT / "findingaid.yaml", folder)
            shutil.copytree(ROOT / "docs", folder / "docs")
        else:
            shutil.copytree(example, folder, ignore=shutil.ignore_patterns(".findingaid"))
        assert findingaid.open(folder / "findingaid.yaml", {"embedder": {"kind": "hash"}}).index().ok
    return {page.name: made[PLACES.get(page.name, ROOT)] for page in PAGES}


@pytest.mark.slow
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda p: p.stem)
def test_the_programs_of_a_page_run_one_after_the_other(
    page: Path, places: dict[str, Path], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places[page.name])
    monkeypatch.setenv("FINDINGAID__EMBEDDER", "{kind: hash}")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    program = ModuleType(f"page_{page.stem}")  # where the classes that a page makes are looked for
    monkeypatch.setitem(sys.modules, program.__name__, program)
    vars(program)["aid"] = findingaid.open()

    for language, block in FENCE.findall(page.read_text()):
        if language in {"python", "py"}:
            if "sys.argv[1]" in block:  # the log of decisions, as the page exports it
                Path("decisions.jsonl").write_text(CliRunner().invoke(main, ["claims", "export"]).stdout)
                monkeypatch.setattr(sys, "argv", [page.name, "decisions.jsonl"])
            exec(compile(block, page.name, "exec", dont_inherit=True), vars(program))


@pytest.mark.slow
def test_what_is_asked_of_a_server_is_answered(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [
        (page.name, line)
        for page, block in (parameter.values for parameter in blocks("bash"))
        for line in block.splitlines()
        if line.startswith("curl ")
    ]
    monkeypatch.setenv("FINDINGAID__EMBEDDER", "{kind: hash}")
    aid = findingaid.open(places["serving.md"] / "findingaid.yaml")

    assert asked
    with served(Session.of(aid, ["docs"])) as address:
        for page, line in asked:
            command = line.replace("localhost:8077", address.removeprefix("http://"))
            answer = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
            assert "error" not in json.loads(answer), f"{page}: {line}"


@pytest.mark.parametrize(("page", "block"), blocks("json"))
def test_what_is_sent_as_json_is_taken(page: Path, block: str) -> None:
    """The file of a client of MCP starts a command that is there; a line has a method with its parameters."""
    for said in map(json.loads, block.splitlines()):
        for server in said.get("mcpServers", {}).values():
            group, command, *arguments = server["args"]
            assert server["command"] == "findingaid"
            assert subcommands(subcommands(main)[group])[command].make_context(command, arguments)
        for capability in CAPABILITIES:
            if said.get("method") == capability.name:
                assert capability.input.model_validate(said["params"])


@pytest.mark.parametrize(("page", "block"), blocks("bash"))
def test_every_command_of_a_script_is_there_with_its_options(page: Path, block: str) -> None:
    for line in block.splitlines():
        program, *arguments = shlex.split(line, comments=True) or ["#"]
        if program == "findingaid":
            command: click.Command = main
            while isinstance(command, click.Group) and arguments[0] in command.commands:
                command = command.commands[arguments.pop(0)]
            assert command.make_context(command.name, arguments)
        elif arguments[:1] == ["-m"]:
            assert importlib.util.find_spec(arguments[1])
        elif program == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif program not in {"#", "curl", "pip"}:  # for pip see test_installation.py
            assert any(line.startswith(begin) for begin in OF_DAGSTER), f"{page.name}: {line}"
