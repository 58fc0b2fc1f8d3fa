"""Skills source: folders with a SKILL.md below several roots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from findingaid.errors import ConfigError, ReadError, SkippedError, SourceError
from findingaid.sources import SOURCES
from findingaid.sources.skills import Skills
from tests.sources.test_files import LFS

SKILL = "---\nname: {name}\ndescription: Fills in forms.\nlicense: MIT\n---\n\n# Forms\n\nOpen the file.\n"


def put(root: Path, folder: str, text: str | bytes | None = None) -> Path:
    path = root / folder / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = SKILL.format(name=path.parent.name) if text is None else text
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def listed(source: Skills) -> list[str]:
    return [listing.artifact_id for listing in source.discover().listings]


def failed(source: Skills) -> dict[str, str]:
    return {failure.artifact_id: failure.message for failure in source.discover().failures}


def test_a_skill_is_its_front_matter_and_body(tmp_path: Path) -> None:
    put(tmp_path, "office/pdf")
    (tmp_path / "office" / "pdf" / "reference.md").write_text("Not a skill.")

    artifact = Skills((tmp_path,)).read("pdf")

    assert listed(Skills((tmp_path,))) == ["pdf"]
    assert artifact.raw == {
        "name": "pdf",
        "description": "Fills in forms.",
        "body": "# Forms\n\nOpen the file.",
        "parent": "office",
    }
    assert artifact.metadata == {"title": "pdf", "parent": "office", "path": "office/pdf/SKILL.md"}


def test_the_file_of_a_skill_may_be_written_in_lower_case(tmp_path: Path) -> None:
    for name in ("pdf", "pdf/nested"):
        path = put(tmp_path, name)
        path.rename(path.with_name("skill.md"))
    (tmp_path / "pdf" / "reference.md").write_text("Not a skill.")
    put(tmp_path, "both")
    (tmp_path / "both" / "skill.md").write_text(SKILL.format(name="other"))

    source = Skills((tmp_path,))

    assert listed(source) == ["both", "nested", "pdf"]
    assert list(failed(source)) == [str(tmp_path / "both" / "skill.md")]
    assert source.read("both").raw["name"] == "both"
    assert source.read("pdf").metadata["path"] == "pdf/skill.md"
    assert [file.path for file in source.bundled("pdf")[0]] == ["reference.md"]


def test_several_roots_are_one_corpus_and_the_parent_of_a_top_skill_is_its_root(tmp_path: Path) -> None:
    put(tmp_path, "mine/pdf")
    put(tmp_path, "ours/mail")

    source = Skills((tmp_path / "ours", tmp_path / "mine"))

    assert listed(source) == ["mail", "pdf"]
    assert source.read("mail").metadata["parent"] == "ours"


def test_a_second_skill_of_a_name_fails_with_both_places_and_the_first_is_kept(tmp_path: Path) -> None:
    first = put(tmp_path, "mine/pdf", SKILL.format(name="pdf").replace("Fills", "Draws"))
    second = put(tmp_path, "ours/pdf")

    source = Skills((tmp_path / "mine", tmp_path / "ours"))

    assert listed(source) == ["pdf"]
    assert failed(source) == {str(second): f"duplicate skill 'pdf' (first at {first}); keeping the first"}
    assert dict(source.read("pdf").raw)["description"] == "Draws in forms."  # type: ignore[call-overload]  # a mapping


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1: the front matter is missing"),
        ("# Only a body", ":1: the front matter is missing"),
        ("---\nname: pdf\n", ":1: the front matter is never closed"),
        ("---\nname: pdf\ndescription: Use when: asked\n---\n", ":3: the front matter is no YAML: mapping values"),
        ("---\nname: pdf\nlicense: [MIT\n---\n", ":4: the front matter is no YAML: "),
        ("---\nname: p\x07df\n---\n", ":1: the front matter is no YAML"),
        ("---\n- pdf\n---\n", ":2: the front matter is no mapping"),
        ("---\nname: pdf\n---\n", ":1: the front matter has no description"),
        ("---\nname: pdf\ndescription: 3\n---\n", ":1: the front matter has no description"),
    ],
)
def test_broken_front_matter_is_a_failed_artifact_by_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    path = put(tmp_path, "pdf", text)
    put(tmp_path, "mail")

    source = Skills((tmp_path,))

    assert listed(source) == ["mail", "pdf"]
    with pytest.raises(ReadError) as raised:
        source.read("pdf")
    assert str(raised.value).startswith(f"{path}{problem}")
    assert "\n" not in str(raised.value)


def test_a_skill_without_a_name_has_its_folders(tmp_path: Path) -> None:
    put(tmp_path, "pdf", "---\r\ndescription: Fills in forms.\r\n---\r\nBody")

    assert dict(Skills((tmp_path,)).read("pdf").raw) == {  # type: ignore[call-overload]  # a mapping
        "name": "pdf",
        "description": "Fills in forms.",
        "body": "Body",
        "parent": tmp_path.name,
    }


def test_a_latin1_skill_is_read(tmp_path: Path) -> None:
    put(tmp_path, "pdf", "---\ndescription: Füllt Formulare aus.\n---\n".encode("latin-1"))

    assert "Füllt" in str(Skills((tmp_path,)).read("pdf").raw)


@pytest.mark.parametrize("name", ["new\nline", "quote'\"", "emoji 🗂", "back\\slash"])
def test_odd_names_stand_as_they_are(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, SKILL.format(name="odd"))

    assert listed(Skills((tmp_path,))) == [name]
    assert Skills((tmp_path,)).read(name).metadata["title"] == "odd"


def test_a_skill_over_the_limit_is_a_failed_artifact_that_names_the_setting(tmp_path: Path) -> None:
    put(tmp_path, "pdf")

    with pytest.raises(ReadError, match="max_bytes"):
        Skills((tmp_path,), max_bytes=10).read("pdf")


def test_hidden_folders_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    put(tmp_path, ".claude/skills/pdf")

    assert listed(Skills((tmp_path,))) == []
    assert listed(Skills((tmp_path,), hidden=True)) == ["pdf"]


def test_a_link_out_of_the_root_is_a_failed_artifact_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/pdf")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pdf").symlink_to(tmp_path / "elsewhere" / "pdf")

    assert "leads outside the root" in failed(Skills((tmp_path / "root",)))["pdf"]
    assert listed(Skills((tmp_path / "root", tmp_path / "elsewhere"))) == ["pdf"]


def test_behind_a_folder_without_permission_nothing_is_taken_for_deleted(unprivileged: Path) -> None:
    uid = os.geteuid()
    os.seteuid(os.getuid())
    put(unprivileged, "locked/pdf")
    put(unprivileged, "mail")
    (unprivileged / "locked").chmod(0)
    os.seteuid(uid)

    discovery = Skills((unprivileged,)).discover()

    assert [listing.artifact_id for listing in discovery.listings] == ["mail"]
    assert discovery.unknown == ("",)
    assert [failure.artifact_id for failure in discovery.failures] == ["locked"]


def test_a_skill_that_was_moved_to_another_folder_has_another_stamp(tmp_path: Path) -> None:
    """Its metadata name the folder, and neither its id nor its file changes."""
    put(tmp_path, "office/pdf")
    [before] = Skills((tmp_path,)).discover().listings

    (tmp_path / "office").rename(tmp_path / "school")

    source = Skills((tmp_path,))
    [after] = source.discover().listings
    assert (after.artifact_id, source.read("pdf").metadata["parent"]) == ("pdf", "school")
    now = source.listing("pdf")
    assert now is not None
    assert before.stamp != after.stamp == now.stamp


def test_a_changed_skill_has_another_stamp(tmp_path: Path) -> None:
    path = put(tmp_path, "pdf")
    source = Skills((tmp_path,))
    before = source.discover().listings
    path.write_text("---\ndescription: Another.\n---\n")

    assert source.discover().listings != before
    assert dict(source.read("pdf").raw)["description"] == "Another."  # type: ignore[call-overload]  # a mapping


def test_a_root_that_is_not_there_and_no_root_at_all_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such directory"):
        Skills((tmp_path / "nowhere",)).discover()
    with pytest.raises(ConfigError, match="at least 1 item"):
        SOURCES.create({"kind": "skills", "roots": []}, "source")


def test_roots_in_a_configuration_are_beside_its_file(tmp_path: Path) -> None:
    put(tmp_path, "skills/pdf")

    source = SOURCES.create({"kind": "skills", "roots": ["skills"]}, "source", tmp_path)

    assert [listing.artifact_id for listing in source.discover().listings] == ["pdf"]


def test_a_folder_of_a_skill_that_becomes_a_link_is_not_read_through(tmp_path: Path) -> None:
    put(tmp_path, "skills/pdf")
    put(tmp_path, "secret/pdf")
    (tmp_path / "skills" / "pdf" / "more.md").write_text("harmless")
    (tmp_path / "secret" / "pdf" / "more.md").write_text("secret")
    source = Skills((tmp_path / "skills",))
    source.discover()
    assert source.bundled_text("pdf", "more.md") == "harmless"
    (tmp_path / "skills" / "pdf").rename(tmp_path / "old")
    (tmp_path / "skills" / "pdf").symlink_to(tmp_path / "secret" / "pdf")

    for read in (
        lambda: source.read("pdf"),
        lambda: source.bundled("pdf"),
        lambda: source.bundled_text("pdf", "more.md"),
    ):
        with pytest.raises(ReadError, match="outside the root"):
            read()


def test_a_skill_that_is_a_pointer_of_git_lfs_is_skipped(tmp_path: Path) -> None:
    put(tmp_path, "pdf", LFS)

    with pytest.raises(SkippedError, match="git lfs pull"):
        Skills((tmp_path,)).read("pdf")
