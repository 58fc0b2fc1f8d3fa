"""Files in the folders of a source that say who may read what is below them."""

from __future__ import annotations

import os
import shutil
from email.message import EmailMessage
from pathlib import Path

import pytest

from findingaid import ConfigError, Corpus, FindingAid, SourceError
from findingaid.access import NOBODY
from findingaid.sources.access import AccessRule, AccessRules
from findingaid.sources.files import Files
from findingaid.store import Store
from findingaid.strategies.chunked import Chunked
from findingaid.testing import CountingEmbedder

NAME = "ACCESS.yaml"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Documents at the root, in `hr` and in `hr/pay`, and an access file for the first two."""
    docs = tmp_path / "docs"
    (docs / "hr" / "pay").mkdir(parents=True)
    for folder in ("", "hr", "hr/pay"):
        (docs / folder / "a.md").write_text(f"The office of {folder or 'all'} opens at nine.")
    say(docs, "readers: [public]")
    say(docs / "hr", "readers: ['group:hr']\ndeny: ['user:bob']")
    return docs


def say(folder: Path, access: str | bytes) -> None:
    (folder / NAME).write_bytes(access.encode() if isinstance(access, str) else access)


def made(docs: Path, access: AccessRules | None = None) -> FindingAid:
    corpus = Corpus("docs", Files(docs, access_file=NAME, unreadable="fail"), Chunked(), access=access or AccessRules())
    return FindingAid(Store(str(docs.parent / "index")), CountingEmbedder(), {"docs": corpus})


def readers(aid: FindingAid) -> dict[str, str]:
    """Return the published readers of each artifact, from its records."""
    table = aid.store.dataset("records").to_table(["artifact_id", "readers"])
    return dict(zip(table["artifact_id"].to_pylist(), table["readers"].to_pylist(), strict=True))


def test_the_nearest_file_that_names_readers_decides_and_each_may_deny(docs: Path) -> None:
    aid = made(docs)
    say(docs / "hr" / "pay", "deny: ['group:temps']")

    aid.index()

    assert readers(aid) == {
        "a.md": "public",
        "hr/a.md": "group:hr -user:bob",
        "hr/pay/a.md": "group:hr -group:temps -user:bob",
    }


def test_explained_are_the_files_that_decide_and_the_rules_that_deny(docs: Path) -> None:
    say(docs / "hr" / "pay", "deny: ['group:temps']")
    aid = made(docs, AccessRules([AccessRule("**", ["group:staff"], deny=["user:eve"])]))
    aid.index()

    assert aid.access("hr/pay/a.md").rules == [
        "hr/ACCESS.yaml: group:hr may read it",
        "hr/ACCESS.yaml: user:bob may not",
        "hr/pay/ACCESS.yaml: group:temps may not",
        "rule 1 (**): user:eve may not",
    ]
    (docs / NAME).unlink()
    assert aid.access("a.md").rules == ["rule 1 (**): group:staff may read it", "rule 1 (**): user:eve may not"]


def test_a_change_rewrites_the_readers_below_and_embeds_nothing(docs: Path) -> None:
    made(docs).index()
    say(docs / "hr", "readers: ['group:hr', 'user:eve']")

    aid = made(docs)
    report = aid.index().corpora["docs"]

    assert readers(aid) == {"a.md": "public", "hr/a.md": "group:hr user:eve", "hr/pay/a.md": "group:hr user:eve"}
    assert report.calls.embed == 0
    (docs / "hr" / NAME).unlink()
    aid.index()
    assert set(readers(aid).values()) == {"public"}


def test_a_file_that_cannot_be_read_any_more_is_not_left_to_its_readers_of_before(docs: Path) -> None:
    made(docs).index()
    (docs / "hr" / "a.md").write_bytes(b"\x81\x00" * 30)
    aid = made(docs)
    report = aid.index().corpora["docs"]
    assert [failure.artifact_id for failure in report.failed] == ["hr/a.md"]
    assert readers(aid)["hr/a.md"] == "group:hr -user:bob"  # what was read before stays, for the same readers

    say(docs / "hr", "readers: ['user:eve']")
    aid = made(docs)
    aid.index()

    assert readers(aid) == {"a.md": "public", "hr/pay/a.md": "user:eve"}


def test_an_edit_that_says_the_same_changes_no_stamp(docs: Path) -> None:
    before = stamps(docs)

    say(docs / "hr", "# who works there\ndeny: ['user:bob']\nreaders: ['group:hr']")

    assert stamps(docs) == before
    say(docs / "hr", "readers: ['group:hr']")
    assert {path for path, stamp in stamps(docs).items() if stamp != before[path]} == {"hr/a.md", "hr/pay/a.md"}


def stamps(docs: Path) -> dict[str, str]:
    """Return the stamps that a listing and a look at each file give, which are equal."""
    source = Files(docs, access_file=NAME)
    found = {listing.artifact_id: listing.stamp.removesuffix("?") for listing in source.discover().listings}
    assert found == {path: source.listing(path).stamp.removesuffix("?") for path in found}
    return found


def test_one_that_cannot_be_understood_gives_access_to_nobody_and_is_named(docs: Path) -> None:
    wrong: dict[str, tuple[str | bytes, str]] = {
        "broken": ("readers: [public", " line 1: not YAML: "),
        "twice": ("readers: [public]\nreaders: []", " line 2: not YAML: 'readers' is a duplicate key"),
        "word": ("readers: public", ": readers: 'public' is not public, user:NAME or group:NAME"),
        "name": ("readers: [ann]", ": readers: 'ann' is not public, user:NAME or group:NAME"),
        "list": ("readers: [[public]]", ": readers: a list is not public, user:NAME or group:NAME"),
        "null": ("deny: null", ": deny: a NoneType is not public, user:NAME or group:NAME"),
        "key": ("owners: ['user:ann']", ": expected the keys readers, deny, or both"),
        "empty": ("", ": expected the keys readers, deny, or both"),
        "latin": (b"readers: ['user:\xe4nn']", ": not UTF-8"),
        "long": (f"readers: [public] # {'x' * 70_000}", ": longer than 65,536 bytes"),
    }
    for folder in wrong:
        shutil.copytree(docs / "hr", docs / folder)
    made(docs).index()
    for folder, (said, _) in wrong.items():
        say(docs / folder, said)

    report = made(docs).index().corpora["docs"]

    below = {f"{folder}/{name}": folder for folder in wrong for name in ("a.md", "pay/a.md")}
    others = {"a.md": "public", **dict.fromkeys(("hr/a.md", "hr/pay/a.md"), "group:hr -user:bob")}
    assert readers(made(docs)) == others | dict.fromkeys(below, NOBODY)
    assert sorted(note.artifact_id for note in report.noted) == sorted(below)
    for note in report.noted:
        folder = below[note.artifact_id]
        assert note.words.startswith(f"nobody may read it: {folder}/ACCESS.yaml{wrong[folder][1]}")


@pytest.mark.parametrize("leads", ["nowhere", "outside", "folder"])
def test_a_link_or_a_folder_of_its_name_is_not_passed_over(docs: Path, leads: str) -> None:
    outside = docs.parent / "outside.yaml"
    outside.write_text("readers: [public]")
    place = docs / "hr" / NAME
    place.unlink()
    if leads == "folder":
        place.mkdir()
    else:
        place.symlink_to(outside if leads == "outside" else docs / "no such file")

    aid = made(docs)
    aid.index()

    assert readers(aid)["hr/a.md"] == readers(aid)["hr/pay/a.md"] == NOBODY


def test_one_that_cannot_be_looked_at_is_not_taken_for_none(docs: Path) -> None:
    source = Files(docs, access_file="a" * 300)

    artifact = source.read("a.md")

    assert artifact.readers == []
    assert [note.words for note in artifact.notes] == [f"nobody may read it: {'a' * 300}: File name too long"]


def test_what_a_link_leads_to_has_the_readers_of_its_real_place(docs: Path) -> None:
    (docs / "open.md").symlink_to(docs / "hr" / "a.md")
    (docs / "beside").symlink_to(docs / "hr" / "pay")

    aid = made(docs)
    aid.index()

    assert readers(aid)["open.md"] == readers(aid)["beside/a.md"] == "group:hr -user:bob"


def test_mails_of_a_mailbox_and_attached_files_have_the_readers_of_their_file(docs: Path) -> None:
    message = EmailMessage()
    message["Subject"], message["From"] = "Pay", "ann@example.org"
    message.set_content("The office pays in May.")
    message.add_attachment("More in June.", filename="more.txt")
    (docs / "hr" / "one.eml").write_bytes(bytes(message))
    (docs / "hr" / "all.mbox").write_bytes(b"From ann@example.org Thu Jan  1 00:00:00 2026\n" + bytes(message))
    os.utime(docs / "hr" / "all.mbox", (1, 1))
    made(docs).index()

    before = readers(made(docs))
    say(docs / "hr", "readers: ['user:eve']")
    report = made(docs).index().corpora["docs"]

    mails = {artifact_id for artifact_id in before if "one.eml" in artifact_id or "all.mbox" in artifact_id}
    assert len(mails) == 4
    assert {before[artifact_id] for artifact_id in mails} == {"group:hr -user:bob"}
    assert {readers(made(docs))[artifact_id] for artifact_id in mails} == {"user:eve"}
    assert report.calls.embed == 0


def test_where_no_file_names_readers_the_rules_decide_and_denials_alone_admit_nobody(docs: Path) -> None:
    (docs / NAME).unlink()
    say(docs / "hr", "deny: ['user:bob']")

    aid = made(docs, AccessRules([AccessRule("**", ["group:staff"])]))
    aid.index()

    assert readers(aid) == {"a.md": "group:staff", "hr/a.md": NOBODY, "hr/pay/a.md": NOBODY}


def test_a_path_and_a_place_without_such_files_are_refused(docs: Path, tmp_path: Path) -> None:
    for name in ("hr/ACCESS.yaml", "", ".."):
        with pytest.raises(ConfigError, match=f"access_file: {name!r} is no file name: give one, such as ACCESS.yaml"):
            Files(docs, access_file=name)
    shutil.make_archive(str(tmp_path / "docs"), "zip", docs)
    with pytest.raises(SourceError, match=r"source\.access_file: only a local folder has such files"):
        Files(tmp_path / "docs.zip", access_file=NAME).discover()


def test_without_access_the_corpus_says_what_to_set(docs: Path) -> None:
    corpus = Corpus("docs", Files(docs, access_file=NAME), Chunked())
    aid = FindingAid(Store(str(docs.parent / "index")), CountingEmbedder(), {"docs": corpus})

    failed = aid.index().corpora["docs"].failed

    assert len(failed) == 3
    assert all("its corpus has no `access`" in failure.message for failure in failed)
