"""What every source keeps: it lists each id once, in order, cheaply, and reads what it lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from findingaid import Source
from findingaid.errors import ReadError
from findingaid.sources.files import Files
from findingaid.sources.packages import Packages, normalised
from findingaid.sources.records import RecordFile, Records
from findingaid.sources.sessions import Sessions
from findingaid.sources.skills import Skills
from findingaid.testing import MemorySource


@pytest.fixture(params=["files", "packages", "memory", "records", "rows", "sessions", "skills"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "files":
        for name in ("b.md", "a.md", "sub/c.md"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(f"# Title of {name}\n\nText.")
        return Files(tmp_path)
    if request.param == "records":
        (tmp_path / "rows.csv").write_text("id,text\nb,two\na,one\n")
        return RecordFile(tmp_path / "rows.csv", text="text")
    if request.param == "sessions":
        for name in ("b", "a", "a-b"):
            (tmp_path / f"{name}.jsonl").write_text('{"type": "user", "message": {"content": "Why?"}}\n')
        return Sessions(tmp_path)
    if request.param == "skills":
        for name in ("b", "a"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "SKILL.md").write_text("---\ndescription: What it is for.\n---\n")
        return Skills((tmp_path,))
    if request.param == "rows":
        return Records([{"id": "b"}, {"id": "a"}])
    return Packages() if request.param == "packages" else MemorySource({"b": "text", "a": {"text": "mapped"}})


def test_ids_are_unique_and_sorted_and_stamps_stand_still(source: Source) -> None:
    first, second = source.discover(), source.discover()
    ids = [listing.artifact_id for listing in first.listings]

    assert ids == sorted(set(ids))
    assert first.listings == second.listings
    assert ids


def test_what_is_listed_can_be_read_and_is_the_same_twice(source: Source) -> None:
    for listing in source.discover().listings[:20]:
        artifact = source.read(listing.artifact_id)

        assert artifact.artifact_id == listing.artifact_id
        assert artifact == source.read(listing.artifact_id)


def test_what_is_gone_is_a_read_error(source: Source) -> None:
    with pytest.raises((ReadError, KeyError)):
        source.read("no-such-artifact")


def test_installed_packages_have_name_description_and_readme() -> None:
    artifact = Packages().read("dagster")

    assert isinstance(artifact.raw, dict)
    assert artifact.raw["name"] == "dagster"
    assert "data" in artifact.raw["description"]
    assert "click" in artifact.raw["deps"]
    assert artifact.metadata["version"]


def test_names_are_compared_as_indexes_do() -> None:
    assert normalised("Zope.Interface_x--y") == "zope-interface-x-y"
