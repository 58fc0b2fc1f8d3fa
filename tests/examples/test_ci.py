"""The workflow of examples/ci does its steps, as GitHub's runner would, over two commits of a repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import findingaid
from tests.examples.test_examples import EXAMPLES

WORKFLOW = EXAMPLES / "ci" / "index.yml"
BIN = Path(sys.executable).parent


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["index"]["steps"]
    return found


class Runner:
    """A runner that keeps the cache and the artifacts of its runs, and has what `Install` would install."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.published: Path | None = None

    def run(self, checkout: Path) -> str:
        """Do all steps in a new checkout; return the output of their commands."""
        return "".join(self._do(step, checkout) for step in steps())

    def _do(self, step: dict[str, Any], checkout: Path) -> str:
        path = checkout / step.get("with", {}).get("path", "")
        match step.get("uses", "").partition("@")[0]:
            case "actions/cache/restore" if self.cache.exists():
                shutil.copytree(self.cache, path)
            case "actions/cache/save":
                shutil.copytree(path, self.cache, dirs_exist_ok=True)
            case "actions/upload-artifact":
                self.published = path
            case "" if step["name"] != "Install":
                shell = ["bash", "--noprofile", "--norc", "-e", "-c", step["run"]]
                environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
                done = subprocess.run(shell, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
                return done.stdout + done.stderr
        return ""


def check_out(repository: Path, folder: Path) -> Path:
    """Copy a repository without the times of its files, as git does."""
    return Path(shutil.copytree(repository, folder, copy_function=shutil.copyfile))


def test_it_is_a_workflow_of_github() -> None:
    check = [BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW]

    subprocess.run(check, check=True, capture_output=True)


@pytest.mark.slow
def test_its_steps_index_what_a_commit_changed_and_publish_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(EXAMPLES / "code_location", repository, ignore=shutil.ignore_patterns(".dagster", ".findingaid"))
    runner = Runner(tmp_path)

    first = runner.run(check_out(repository, tmp_path / "first"))
    (repository / "handbook" / "opening.md").write_text("# Opening hours\n\nWe are open on Sundays from ten to two.\n")
    second = runner.run(check_out(repository, tmp_path / "second"))

    assert "3 new, 0 changed" in first
    assert "0 new, 1 changed, 2 unchanged" in second
    assert "2 texts embedded, 1 synopses written" in second
    assert runner.published == tmp_path / "second" / "index.tar.gz"
    with tarfile.open(runner.published) as archive:
        archive.extractall(tmp_path / "reader")
    aid = findingaid.open(repository / "findingaid.yaml", {"store": str(tmp_path / "reader" / ".findingaid" / "index")})
    assert "Sundays" in aid.search("on which days are you open", 1)[0].text
