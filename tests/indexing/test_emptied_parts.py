"""A part of a source that suddenly lists nothing, as the folder of a disk that is not mounted, deletes nothing."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from findingaid import Corpus, FindingAid, Source, Strategy
from findingaid.sources.files import Files
from findingaid.sources.mcp_tools import Tools
from findingaid.sources.packages import Packages
from findingaid.sources.sessions import Sessions
from findingaid.sources.skills import Skills
from findingaid.store import Store
from findingaid.strategies import ClaudeSession, Package, Skill, WholeText
from findingaid.testing import HashEmbedder
from tests.paths import TESTS

HERE, AWAY = ("a", "b", "c"), ("d", "e")


class Folders:
    """A source of two folders, of which one leads to a disk or to the empty place where that disk is mounted."""

    def __init__(self, root: Path, suffix: str, text: str, make: Callable[[Path], Source]) -> None:
        self.suffix, self.text = suffix, text
        self.link, self.disk, self.place, self.other = (root / x for x in ("away", ".disk/away", ".place/away", "here"))
        for folder in (self.disk, self.place, self.other):
            folder.mkdir(parents=True)
        for name in HERE:
            self.write(self.other, name)
        for name in AWAY:
            self.write(self.disk, name)
        self.lead(self.disk)
        self.source = make(root)

    def file(self, folder: Path, name: str) -> Path:
        return folder / f"{name}{self.suffix}"

    def write(self, folder: Path, name: str) -> None:
        file = self.file(folder, name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(self.text.replace("NAME", name))

    def lead(self, folder: Path) -> None:
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(folder, target_is_directory=True)

    def unmount(self) -> None:
        self.lead(self.place)

    def mount(self) -> None:
        self.lead(self.disk)

    def delete(self, name: str) -> None:
        self.file(self.other, name).unlink()

    def empty(self) -> None:
        for name in AWAY:
            self.file(self.disk, name).unlink()
        for folder in self.disk.iterdir():
            folder.rmdir()

    def remove(self) -> None:
        self.link.unlink()
        shutil.rmtree(self.disk)


class Servers:
    """A source of two MCP servers, of which one answers with an empty list."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root, self.here = root, [*HERE]
        self.mount()
        self.source: Source = self.of("here", "away")

    def of(self, *names: str) -> Source:
        scripted = str(TESTS / "servers" / "scripted.py")
        started = {x: {"command": sys.executable, "args": [scripted, str(self.root / x), ""]} for x in names}
        return Tools(servers=started)  # type: ignore[arg-type]  # checked

    def answer(self, *away: str) -> None:
        for name, tools in {"here": self.here, "away": away}.items():
            described = [
                {"name": x, "description": "Opens the gate.", "inputSchema": {"type": "object"}} for x in tools
            ]
            (self.root / name).write_text(json.dumps(described))

    def unmount(self) -> None:
        self.answer()

    def mount(self) -> None:
        self.answer(*AWAY)

    def delete(self, name: str) -> None:
        self.here.remove(name)
        self.answer()

    def remove(self) -> None:
        self.source = self.of("here")


SKILL = "---\nname: NAME\ndescription: Opens the gate NAME.\n---\nPull NAME.\n"
SESSION = '{"type": "user", "message": {"role": "user", "content": "Where is the gate NAME?"}, "uuid": "NAME"}\n'

MADE: dict[str, tuple[Callable[[Path], Folders | Servers], Strategy]] = {
    "files": (lambda root: Folders(root, ".md", "The gate NAME.", Files), WholeText()),
    "sessions": (lambda root: Folders(root, ".jsonl", SESSION, Sessions), ClaudeSession()),
    "skills": (
        lambda root: Folders(root, "/SKILL.md", SKILL, lambda at: Skills((at / "here", at / "away"))),
        Skill(),
    ),
    "skills in folders of a root": (lambda root: Folders(root, "/SKILL.md", SKILL, lambda at: Skills((at,))), Skill()),
    "servers": (Servers, WholeText()),
}


def build(folder: Path, parts: Folders | Servers, strategy: Strategy) -> FindingAid:
    corpus = Corpus("all", parts.source, strategy, max_loss=0.9)
    return FindingAid(Store(str(folder / "index")), HashEmbedder(), {"all": corpus})


def names(aid: FindingAid) -> set[str]:
    return {artifact_id.split("/")[-1].removesuffix(".md") for (_, artifact_id), _ in aid.artifacts()}


@pytest.mark.parametrize("kind", MADE)
def test_a_part_that_lists_nothing_keeps_what_was_not_deleted_there(tmp_path: Path, kind: str) -> None:
    make, strategy = MADE[kind]
    parts = make(tmp_path / "root")
    aid = build(tmp_path, parts, strategy)
    assert not aid.index().corpora["all"].failed

    parts.unmount()
    parts.delete("c")
    for force in (False, True):
        report = aid.index(force=force).corpora["all"]
        [failure] = report.failed
        assert failure.kind == "SourceShrunkError"
        assert "lists nothing, and 2 artifacts that it had stay" in failure.message
        assert "run again with --allow-loss" in failure.message
        assert report.deleted == (not force)
        assert names(aid) == {"a", "b", "d", "e"}
    assert [each.message for each in aid.status()[0].failed] == [failure.message]

    parts.mount()
    report = aid.index().corpora["all"]
    assert (report.failed, report.new, report.changed) == ([], 0, 0)
    assert names(aid) == {"a", "b", "d", "e"}

    parts.unmount()
    report = aid.index(allow_loss=True).corpora["all"]
    assert (report.failed, report.deleted) == ([], 2)
    assert names(aid) == {"a", "b"}
    assert aid.index().ok


@pytest.mark.parametrize("kind", sorted(MADE.keys() - {"skills"}))  # a root that is not there is an error
def test_a_part_that_is_taken_out_is_deleted(tmp_path: Path, kind: str) -> None:
    make, strategy = MADE[kind]
    parts = make(tmp_path / "root")
    build(tmp_path, parts, strategy).index()

    parts.remove()
    aid = build(tmp_path, parts, strategy)
    report = aid.index().corpora["all"]
    assert (report.failed, report.deleted) == ([], 2)
    assert names(aid) == {*HERE}


@pytest.mark.parametrize("kind", sorted(MADE.keys() - {"servers"}))
def test_what_is_deleted_from_a_folder_is_gone_also_if_the_folder_stays(tmp_path: Path, kind: str) -> None:
    make, strategy = MADE[kind]
    parts = make(tmp_path / "root")
    assert isinstance(parts, Folders)
    aid = build(tmp_path, parts, strategy)
    aid.index()

    parts.empty()
    report = aid.index().corpora["all"]
    assert (report.failed, report.deleted) == ([], 2)
    assert names(aid) == {*HERE}


def test_a_repository_in_whose_folder_nothing_is_stays(tmp_path: Path) -> None:
    """As that of a submodule that is not checked out, or a disk that is not mounted. Others begin with its name."""
    root, disk, place = (tmp_path / "root" / name for name in ("", ".disk", ".place"))
    place.mkdir(parents=True)
    for folder in (disk, *(root / name for name in ("gate", "gate-2", "gates"))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{folder.name}"\n')
    shutil.rmtree(root / "gate")
    (root / "gate").symlink_to(disk)
    aid = FindingAid(
        Store(str(tmp_path / "index")),
        HashEmbedder(),
        {"all": Corpus("all", Packages(root), Package(), max_loss=0.9)},
    )
    assert aid.index().ok

    (root / "gate").unlink()
    (root / "gate").symlink_to(place)
    shutil.rmtree(root / "gate-2")
    report = aid.index().corpora["all"]
    assert [(failure.artifact_id, failure.kind) for failure in report.failed] == [("gate/", "SourceShrunkError")]
    assert report.deleted == 1
    assert names(aid) == {"gate", "gates"}

    assert aid.index(allow_loss=True).ok
    assert names(aid) == {"gates"}
