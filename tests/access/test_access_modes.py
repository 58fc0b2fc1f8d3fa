"""Files whose readers are those that their owners, groups and modes admit."""

from __future__ import annotations

import itertools
import os
import random
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from grp import getgrgid
from pathlib import Path
from pwd import getpwuid

import pytest

from findingaid import ConfigError, Corpus, FindingAid, SourceError
from findingaid.access import Caller
from findingaid.model import Artifact
from findingaid.sources import access_modes
from findingaid.sources.access import AccessRule, AccessRules
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder


@pytest.fixture
def docs(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody may pass, with a note that everybody may read and one for its group in a folder."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as made:
        docs = Path(made, "docs")
        (docs / "hr").mkdir(parents=True)
        docs.chmod(0o755)
        put(docs, "a.md", 0o644)
        put(docs, "hr/b.md", 0o644)
        (docs / "hr").chmod(0o750)
        yield docs


def put(docs: Path, name: str, mode: int) -> None:
    (docs / name).write_text(f"The office of {name} opens at nine.")
    (docs / name).chmod(mode)


def made(docs: Path, *rules: AccessRule) -> FindingAid:
    corpus = Corpus("docs", Files(docs, access_modes=True), Chunked(), access=AccessRules(rules))
    return FindingAid(Store(str(docs.parent / "index")), CountingEmbedder(), {"docs": corpus})


def readers(aid: FindingAid) -> dict[str, str]:
    table = aid.store.dataset("records").to_table(["artifact_id", "readers"])
    return dict(zip(table["artifact_id"].to_pylist(), table["readers"].to_pylist(), strict=True))


def own(path: Path) -> tuple[str, str]:
    """Return the owner and the group of a path as principals."""
    return f"user:{path.owner()}", f"group:{path.group()}"


def test_the_folders_and_the_file_have_to_admit_a_reader(docs: Path) -> None:
    user, group = own(docs)
    put(docs, "c.md", 0o600)
    put(docs, "hr/d.md", 0o640)
    aid = made(docs)

    aid.index()

    assert readers(aid) == {
        "a.md": f"{group} public {user}",
        "hr/b.md": f"{group} {user}",
        "c.md": user,
        "hr/d.md": f"{group} {user}",
    }


def test_a_changed_mode_counts_with_the_next_run_and_embeds_nothing(docs: Path) -> None:
    aid = made(docs)
    aid.index()

    (docs / "hr").chmod(0o700)
    report = aid.index()

    assert (report.corpora["docs"].changed, report.corpora["docs"].calls.embed) == (1, 0)
    assert readers(aid)["hr/b.md"] == own(docs)[0]


def test_rules_may_deny_and_an_explanation_names_modes(docs: Path) -> None:
    aid = made(docs, AccessRule(deny=["user:bob"]))
    aid.index()

    assert readers(aid)["a.md"].endswith(" -user:bob")
    user, group = own(docs)
    assert aid.access("hr/b.md").rules == [
        f"the root (drwxr-xr-x): {user}, {group}, public may pass it",
        f"hr (drwxr-x---): {user}, {group} may pass it",
        f"hr/b.md (-rw-r--r--): {user}, {group}, public may read it",
        "rule 1 (**): user:bob may not",
    ]


def test_whom_a_mode_keeps_out_may_not_read_what_others_may(docs: Path) -> None:
    put(docs, "a.md", 0o604)

    user, group = own(docs)
    assert Files(docs, access_modes=True).read("a.md").readers == [user, "public", f"-{group}"]


def test_what_belongs_to_nobody_that_is_known_is_for_nobody_and_named(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_modes, "getgrgid", {}.__getitem__)
    aid = made(docs)

    report = aid.index()

    assert set(readers(aid).values()) == {""}
    assert "has no name on this machine" in str(report)


def test_a_place_without_owners_and_two_ways_at_once_are_refused(docs: Path) -> None:
    with pytest.raises(ConfigError, match="access_file and access_modes exclude each other"):
        Files(docs, access_file="ACCESS.yaml", access_modes=True)
    with pytest.raises(SourceError, match=r"source\.access_modes: only a local folder"):
        Files("https://a.example/", access_modes=True).discover()


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="Python sets no control lists on this system")
def test_a_control_list_is_not_passed_over(docs: Path) -> None:
    """The list is that of `setfacl -m u:daemon:r`: tags and permissions of owner, daemon, group, mask and others."""
    entries = [(1, 6, -1), (2, 4, 1), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(docs / "a.md", access_modes.ACL, packed)
    except OSError as error:
        pytest.skip(f"this file system keeps no control lists: {error.strerror}")

    [note] = Files(docs, access_modes=True).read("a.md").notes
    assert "a.md: its access control list is not read" in note.words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others and ask as them")
def test_nobody_reads_more_than_the_system_lets_them() -> None:
    """The kernel is asked as each user. It lets more read who pass a folder as one principal and read as another."""
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        places = [Path(root, f"{n % 8}", f"{n}.md") for n in range(160)]
        for place in places:
            place.parent.mkdir(exist_ok=True)
            place.write_text("Words.")
            os.chown(place, chance.choice([1, 2, 3]), chance.choice([1, 2, 3]))
            place.chmod(chance.choice([0o644, 0o640, 0o600, 0o604, 0o044, 0o004, 0o040, 0o000]))
        for folder in {place.parent for place in places}:
            os.chown(folder, chance.choice([1, 2, 3]), chance.choice([1, 2, 3]))
            folder.chmod(0o755 if int(folder.name) % 2 else chance.choice([0o750, 0o700, 0o705, 0o711, 0o710]))
        found = {
            each.artifact_id: Artifact(each.artifact_id, "", readers=each.readers)
            for each in Files(root, access_modes=True).discover().listings
        }
        readers = {name: AccessRules().readers(artifact)[0] for name, artifact in found.items()}
        for user, groups in itertools.product([1, 2, 3], [[1], [2, 3], []]):
            lets = {str(Path(line).relative_to(root)) for line in _readable(places, user, groups)}
            caller = Caller.of(f"user:{getpwuid(user).pw_name}", [f"group:{getgrgid(each).gr_name}" for each in groups])
            may = {name for name, said in readers.items() if caller.may_read(said)}

            assert may <= lets
            assert {name for name in lets - may if _plain(Path(root, name), user, groups)} == set()


def _readable(places: Iterable[Path], user: int, groups: Sequence[int]) -> list[str]:
    """Return the files that the system lets a user in these groups read."""
    ask = ["sh", "-c", 'for each; do test -r "$each" && echo "$each"; done; true', "sh", *map(str, places)]
    none = 65534
    return subprocess.run(
        ask, check=True, capture_output=True, text=True, user=user, group=[*groups, none][0], extra_groups=groups[1:]
    ).stdout.splitlines()


def _plain(place: Path, user: int, groups: Sequence[int]) -> bool:
    """Return whether everybody passes the folder, and no owner is in a group that the mode keeps out."""
    info = place.stat()
    return place.parent.stat().st_mode & 0o777 == 0o755 and not (info.st_uid == user and info.st_gid in groups)
