"""Packages source over a folder of repositories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from findingaid.errors import ReadError, SourceError
from findingaid.sources.packages import Packages

PROJECT = """
[project]
name = "Shop_Till"
description = "Counts money."
version = "1.2"
readme = "README.md"
authors = [{name = "Ada"}, {name = "Grace"}]
dependencies = ["numpy>=1.26", "Zope.Interface[extra]; python_version > '3'"]
"""

POETRY = """
[tool.poetry]
name = "till"
description = "Counts money."
authors = ["Ada Lovelace <ada@example.org>"]
[tool.poetry.dependencies]
python = "^3.11"
numpy = "*"
"""


def put(root: Path, folder: str, project: str | bytes = PROJECT, **others: str) -> Path:
    path = root / folder
    path.mkdir(parents=True)
    (path / "pyproject.toml").write_bytes(project.encode() if isinstance(project, str) else project)
    for name, text in others.items():
        (path / name.replace("_", ".")).write_text(text)
    return path


def listed(root: Path) -> list[str]:
    return [listing.artifact_id for listing in Packages(root).discover().listings]


def raw(root: Path, name: str) -> dict[str, Any]:
    return dict(Packages(root).read(name).raw)  # type: ignore[arg-type]  # a mapping


def test_a_repository_is_the_package_it_makes(tmp_path: Path) -> None:
    put(tmp_path, "till", README_md="# Till\n\nCounts.")
    (tmp_path / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()

    artifact = Packages(tmp_path).read("till")

    assert listed(tmp_path) == ["till"]
    assert artifact.raw == {
        "name": "Shop_Till",
        "description": "Counts money.",
        "readme": "# Till\n\nCounts.",
        "readme_type": "text/markdown",
        "owner": "Ada",
        "deps": ["numpy", "zope-interface"],
    }
    assert artifact.metadata == {"title": "Shop_Till", "version": "1.2", "path": "till"}


def test_poetrys_table_is_known(tmp_path: Path) -> None:
    put(tmp_path, "till", POETRY)

    assert (raw(tmp_path, "till")["owner"], raw(tmp_path, "till")["deps"]) == ("Ada Lovelace", ["numpy"])


@pytest.mark.parametrize(
    ("named", "readme", "kind"),
    [
        ('"ABOUT.rst"', "About", "text/x-rst"),
        ('{file = "ABOUT.rst", content-type = "text/markdown"}', "About", "text/markdown"),
        ('{text = "Inline", content-type = "text/plain"}', "Inline", "text/plain"),
        ('"gone.md"', "Usual", "text/markdown"),
        ('"../secret.md"', "Usual", "text/markdown"),
    ],
)
def test_the_readme_is_the_one_named_or_the_usual_one(tmp_path: Path, named: str, readme: str, kind: str) -> None:
    (tmp_path / "secret.md").write_text("secret")
    put(tmp_path, "till", f"[project]\nname = 'till'\nreadme = {named}\n", README_md="Usual", ABOUT_rst="About")

    assert (raw(tmp_path, "till")["readme"], raw(tmp_path, "till")["readme_type"]) == (readme, kind)
    notes = [str(note) for note in Packages(tmp_path).read("till").notes]
    left_out = "the readme that pyproject.toml names is not in its folder, and is not read"
    assert notes == [left_out] * (readme == "Usual")


@pytest.mark.parametrize(
    ("project", "problem"),
    [
        ("", r"till/pyproject.toml: no \[project\] table"),
        ("project = 3", r"no \[project\] table"),
        ("[project]\nname = till\n", r"till/pyproject.toml: not TOML: .*line 2"),
        ("[project]\nname = 'Größe'".encode("latin-1"), "not TOML"),
    ],
)
def test_a_broken_project_fails_alone_by_file_and_line(tmp_path: Path, project: str | bytes, problem: str) -> None:
    put(tmp_path, "till", project)
    put(tmp_path, "shop")

    assert listed(tmp_path) == ["shop", "till"]
    with pytest.raises(ReadError, match=problem):
        Packages(tmp_path).read("till")


def test_a_changed_readme_has_another_stamp(tmp_path: Path) -> None:
    folder = put(tmp_path, "till", README_md="one")
    before = Packages(tmp_path).discover().listings
    (folder / "README.md").write_text("two, longer")

    assert Packages(tmp_path).discover().listings != before


def test_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/till")
    (tmp_path / "repos").mkdir()
    (tmp_path / "repos" / "till").symlink_to(tmp_path / "elsewhere" / "till")

    with pytest.raises(ReadError, match="outside the root"):
        Packages(tmp_path / "repos").read("till")


@pytest.mark.parametrize("name", ["new\nline", "quote'\"", "emoji 🗂"])
def test_odd_names_stand_as_they_are(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)

    assert listed(tmp_path) == [name]
    assert raw(tmp_path, name)["name"] == "Shop_Till"


def test_a_folder_without_permission_is_a_failed_artifact(unprivileged: Path) -> None:
    uid = os.geteuid()
    os.seteuid(os.getuid())
    put(unprivileged, "till").chmod(0)
    put(unprivileged, "shop")
    os.seteuid(uid)

    discovery = Packages(unprivileged).discover()

    assert [listing.artifact_id for listing in discovery.listings] == ["shop"]
    assert [failure.artifact_id for failure in discovery.failures] == ["till"]


def test_a_readme_over_the_limit_is_a_failed_artifact_that_names_the_setting(tmp_path: Path) -> None:
    put(tmp_path, "till", README_md="x" * 1000)

    with pytest.raises(ReadError, match="max_bytes"):
        Packages(tmp_path, max_bytes=900).read("till")
    with pytest.raises(ReadError, match="max_bytes"):
        Packages(max_bytes=10).read("dagster")


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file or directory"):
        Packages(tmp_path / "nowhere").discover()
