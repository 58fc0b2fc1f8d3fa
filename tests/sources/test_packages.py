"""Installed packages whose metadata cannot be read are named, and keep what was indexed."""

from __future__ import annotations

from pathlib import Path

import pytest

from findingaid.errors import ReadError, SourceError
from findingaid.model import Failure
from findingaid.sources.packages import Packages
from tests.conftest import Cli

BROKEN = {
    "empty": b"",
    "missing": None,
    "nameless": b"Metadata-Version: 2.1\nVersion: 1\n\nA readme.\n",
    "not UTF-8": b"Metadata-Version: 2.1\nName: of-herons\nVersion: 1\nSummary: Gr\xfc\xdfe\n",
}


def install(
    folder: Path, metadata: bytes | None = b"Name: of-herons\nVersion: 1\nSummary: Of herons\n\nHerons.\n"
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").unlink(missing_ok=True)
    if metadata is not None:
        (folder / "METADATA").write_bytes(metadata)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.mark.parametrize("metadata", BROKEN.values(), ids=BROKEN)
def test_a_package_whose_metadata_break_fails_by_name_and_stays(site: Path, cli: Cli, metadata: bytes | None) -> None:
    install(site / "of_herons-1.dist-info")
    cli.settings["corpora"]["docs"] = {"source": {"kind": "packages"}}
    cli.run("index", "--artifact", "of-herons")
    install(site / "of_herons-1.dist-info", metadata)

    failed = cli.run("index", "--artifact", "of-herons")

    assert failed.exit_code == 1
    assert "of-herons: its metadata cannot be read" in failed.stderr
    assert "of-herons" in cli.run("search", "herons", "--mode", "lexical").stdout
    with pytest.raises(SourceError, match="of-herons: its metadata cannot be read"):
        Packages().listing("of-herons")


def test_another_installation_of_a_broken_package_is_taken(site: Path, tmp_path: Path) -> None:
    install(site / "of_herons-2.dist-info", b"")
    install(site / "of_herons-3.dist-info", b"")
    assert [failure.artifact_id for failure in Packages().discover().failures] == ["of-herons"]
    install(site / "of_herons-1.dist-info")

    found = Packages().discover()

    assert found.failures == []
    listed = {listing.artifact_id: listing for listing in found.listings}["of-herons"]
    assert Packages().listing("of-herons") == listed
    assert Packages().read("of-herons").raw["description"] == "Of herons"


def test_a_package_of_a_single_file_is_listed(site: Path) -> None:
    site.mkdir()
    (site / "of_ducks-1.egg-info").write_text("Metadata-Version: 1.1\nName: of-ducks\nVersion: 1\nSummary: Of ducks\n")

    found = Packages().discover()

    assert "of-ducks" in {listing.artifact_id for listing in found.listings}
    assert not [
        failure for failure in found.failures if isinstance(failure, Failure) and "ducks" in failure.artifact_id
    ]
    assert Packages().read("of-ducks").metadata["version"] == "1"


def test_the_word_of_older_setuptools_for_no_value_is_none(site: Path) -> None:
    unknown = b"Author: UNKNOWN\nAuthor-email: ada@example.org\nSummary: UNKNOWN\n\nUNKNOWN\n"
    install(site / "of_herons-1.dist-info", b"Name: of-herons\nVersion: 1\n" + unknown)

    raw = Packages().read("of-herons").raw

    assert isinstance(raw, dict)
    assert (raw["description"], raw["readme"], raw["owner"]) == ("", "", "ada@example.org")


def test_what_an_upgrade_left_behind_is_named_and_not_taken_for_the_package(site: Path) -> None:
    install(site / "~f_herons-1.dist-info", b"Name: of-herons\nVersion: 1\n")
    install(site / "of_herons-2.dist-info", b"Name: of-herons\nVersion: 2\n")
    before = Packages().listing("of-herons")

    found = Packages().discover()

    assert [failure.artifact_id for failure in found.failures] == ["~f-herons"]
    assert "its folder is not named for 'of-herons'" in str(found.failures)
    assert [listing for listing in found.listings if listing.artifact_id == "of-herons"] == [before]
    assert Packages().read("of-herons").metadata["version"] == "2"


def test_an_egg_that_requires_another_package_has_another_stamp(site: Path) -> None:
    egg = site / "of_ducks.egg-info"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: of-ducks\nVersion: 1\n")
    (egg / "requires.txt").write_text("ponds\n")
    before = Packages().listing("of-ducks")

    (egg / "requires.txt").write_text("ponds\nreeds\n")

    assert Packages().listing("of-ducks") != before
    raw = Packages().read("of-ducks").raw
    assert isinstance(raw, dict)
    assert raw["deps"] == ["ponds", "reeds"]


def test_a_name_in_a_readme_is_not_that_of_the_package(site: Path) -> None:
    install(site / "of_herons-1.dist-info", b"Version: 1\n\nName: of-herons\n")

    with pytest.raises(SourceError, match="it has no name"):
        Packages().listing("of-herons")


def test_metadata_that_begin_with_a_mark_fail_with_the_reason(site: Path) -> None:
    install(site / "of_herons-1.dist-info", b"\xef\xbb\xbfName: of-herons\nName: of-herons\nVersion: 1\n")

    with pytest.raises(ReadError, match="do not begin with headers"):
        Packages().read("of-herons")
