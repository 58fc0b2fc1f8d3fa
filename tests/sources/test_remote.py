"""Files source over remote roots and archives: the same ids and the same safeguards as for local folders."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import paramiko
import pytest

import findingaid
from findingaid import FindingAid, SourceError
from findingaid.config.loading import load
from findingaid.errors import ReadError, SkippedError
from findingaid.protocols import ConcurrentSource
from findingaid.query.lookup.freshness import NO_STAMPS, Freshness
from findingaid.sources.addresses import Address
from findingaid.sources.change_times import RACY_SECONDS
from findingaid.sources.documents import with_converter
from findingaid.sources.files import Files
from findingaid.sources.limits import SILENT
from findingaid.sources.sessions import Sessions
from findingaid.sources.skills import Skills
from tests.code_location import test_code_location as test_dagster
from tests.conftest import Cli, ReadyMade, error_of, text_about
from tests.indexing.test_incremental import docs, records
from tests.sources.conftest import NAMES
from tests.sources.test_files import LFS
from tests.support.buckets import KEY, SECRET, Bucket, refusing_keys
from tests.support.documents import with_password, zipped
from tests.support.location import DAGSTER_YAML, files_of_dagster, open_location
from tests.support.places import PASSWORD, S3, USER, Folder, Git, Http, Memory, Place, Tar, Zip
from tests.support.shares import Ftp, Sftp, Share, Smb, WebDav
from tests.support.web import on_loopback

KINDS = ("s3", "http", "zip", "tar", "git", "memory", "webdav", "sftp", "smb")


class Reading(Files):
    """Folder that records reads."""

    def read(self, artifact_id: str) -> findingaid.Artifact:
        self.__dict__.setdefault("seen", []).append(artifact_id)
        return super().read(artifact_id)

    def reads(self) -> list[str]:
        return sorted(self.__dict__.pop("seen", []))


STAMPED = (S3, Http, Zip, Git, WebDav, Sftp, Smb)
"""Places where what did not change is not read again."""

every_kind = pytest.mark.parametrize("place", KINDS, indirect=True)


def source_of(place: Place, **settings: object) -> Reading:
    return Reading(place.root, storage_options=place.options, **settings)  # type: ignore[arg-type]  # by keyword


def stamps(source: Files) -> dict[str, tuple[str, bool]]:
    found = source.discover()
    assert found.failures == []
    return {listing.artifact_id: (listing.stamp, listing.settled) for listing in found.listings}


@every_kind
def test_a_stamp_changes_with_its_file_and_what_is_gone_is_not_listed(place: Place) -> None:
    before = stamps(source_of(place))
    assert before.keys() == set(NAMES)
    if type(place) in STAMPED:
        assert stamps(source_of(place)) == before
        assert all(settled for _, settled in before.values())

    place.put("sub/b.md", text_about("edited"))
    place.delete("a.md")

    after = stamps(source_of(place))
    assert after.keys() == {"sub/b.md", NAMES[2]}
    assert after["sub/b.md"] != before["sub/b.md"] or not after["sub/b.md"][1]
    if type(place) in STAMPED:
        assert after[NAMES[2]] == before[NAMES[2]]


@pytest.mark.parametrize("place", ["http", "tar"], indirect=True)
def test_a_run_costs_what_changed_and_what_is_gone_goes(place: Place, make_aid: Callable[..., FindingAid]) -> None:
    source = source_of(place)
    first = make_aid(source=source).index()
    built = source.reads()
    make_aid(source=source).index()
    nothing = source.reads()
    place.put("sub/b.md", text_about("edited"))

    edited = make_aid(source=source).index()
    read_again = source.reads()
    place.delete("a.md")
    shrunk = make_aid(source=source).index()
    aid = make_aid(source=source)

    assert (docs(first).new, docs(first).failed, built) == (3, [], sorted(NAMES))
    assert (docs(edited).changed, docs(edited).unchanged) == (1, 2)
    assert "sub/b.md" in read_again
    if type(place) in STAMPED:
        assert (nothing, read_again) == ([], ["sub/b.md"])
    assert (docs(shrunk).deleted, docs(shrunk).unchanged) == (1, 2)
    assert {hit.artifact_id for hit in aid.search("edited", mode="lexical")} == {"sub/b.md"}
    assert aid.verify() == []


@every_kind
def test_ids_and_contents_are_those_of_the_same_files_in_a_folder(place: Place, tmp_path: Path) -> None:
    for name in ("naïve ü.md", "per%20cent.md", "sub/plus+and&.md", "emoji 🗂.md", "quote'.md", "semi;colon,.md"):
        place.put(name, text_about(name))
    folder = Folder(tmp_path / "folder")
    for name, content in place.files.items():
        folder.put(name, content)

    here, there = Files(tmp_path / "folder"), source_of(place)
    names = stamps(here).keys()

    assert len(names) == len(place.files)
    assert stamps(there).keys() == names
    assert [there.read(name) for name in names] == [here.read(name) for name in names]


@pytest.mark.parametrize("place", ["webdav", "sftp", "smb"], indirect=True)
def test_a_name_that_looks_like_part_of_an_address_is_read_as_itself(place: Place) -> None:
    names = {"20%25/100% (1).md", "20%/100% (1).md", "per%20cent.md", "per cent.md"}
    if not isinstance(place, Smb):  # no names of files in Windows
        names |= {"a#b.md", "why?.md", "notes /a.md", "notes/b.md", " end .md "}
    for name in names:
        place.put(name, f"text of {name}")

    source = source_of(place)

    assert stamps(source).keys() == names | set(NAMES)
    assert {source.read(name).raw for name in names} == {f"text of {name}" for name in names}


def test_a_server_that_falls_silent_is_given_up_and_asked_anew_after_a_while_and_by_the_next_run(
    share: Callable[[type[Share]], Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = share(Sftp)
    assert isinstance(server, Sftp)
    for number in range(SILENT + 2):
        server.put(f"{number}.md", f"text of {number}")
    source = source_of(server)
    names = sorted(stamps(source))
    monkeypatch.setattr("findingaid.sources.limits.ANSWER_SECONDS", 0.1)
    awake = threading.Event()
    server.loop.call_soon_threadsafe(awake.wait)

    said = []
    for name in names:
        with pytest.raises(ReadError) as raised:
            source.read(name)
        said.append(str(raised.value))
    awake.set()
    monkeypatch.undo()

    assert (
        said
        == ["cannot be read: no answer in time"] * SILENT
        + [f"not asked for, since {SILENT} files in a row got no answer"] * 2
    )
    assert stamps(source).keys() == set(names)
    assert source.read(names[0]).raw == "text of 0"


def test_a_server_that_is_silent_from_the_beginning_is_named(
    share: Callable[[type[Share]], Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = share(Smb)
    assert isinstance(server, Smb)
    server.put("a.md", "text")
    source = source_of(server)
    monkeypatch.setattr("findingaid.sources.limits.ANSWER_SECONDS", 0.2)
    os.killpg(server.server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(SourceError, match=f"^source.root: {server.root}: no answer in time$"):
            source.discover()
    finally:
        os.killpg(server.server.pid, signal.SIGCONT)


def test_a_folder_that_an_ftp_server_refuses_to_list_is_named_and_not_taken_for_empty(
    share: Callable[[type[Share]], Share],
) -> None:
    server = share(Ftp)
    assert isinstance(server, Ftp)
    for name in NAMES:
        server.put(name, text_about(name))
    (server.folder / "empty").mkdir()
    source = source_of(server)
    assert stamps(source).keys() == set(NAMES)
    assert {source.read(name).raw for name in NAMES} == {text_about(name) for name in NAMES}

    for reply in ("450 busy", "550 not allowed", "421 too many connections"):
        server.refused = {"/files/sub": reply}
        found = source.discover()

        assert [listing.artifact_id for listing in found.listings] == ["a.md"]
        assert found.unknown == ["sub/"]
        assert [failure.message for failure in found.failures] == [
            "folder cannot be listed: the server refuses to list it"
        ]


@pytest.mark.parametrize(
    "answer",
    [
        b'<d:multistatus xmlns:d="DAV:"/>',
        b'<d:multistatus xmlns:d="DAV:"><d:response><d:href>/files</d:href><d:propstat><d:prop><d:resourcetype>'
        b"<d:collection/></d:resourcetype></d:prop></d:propstat></d:response></d:multistatus>",
        b'<d:multistatus xmlns:d="DAV:"><d:response><d:href>/files/sub</d:href><d:propstat><d:prop><d:resourcetype>'
        b"<d:collection/></d:resourcetype></d:prop></d:propstat></d:response><d:response><d:href>/files/sub/b.md</d:href>"
        b"<d:status>HTTP/1.1 403 Forbidden</d:status></d:response></d:multistatus>",
        b'<d:multistatus xmlns:d="DAV:"><d:response><d:href>/files/sub</d:href><d:propstat><d:prop><d:resourcetype>'
        b"<d:collection/></d:resourcetype></d:prop></d:propstat></d:response><d:response><d:href>/files/sub/deep</d:href>"
        b"<d:propstat><d:prop><d:resourcetype/></d:prop><d:status>HTTP/1.1 403 Forbidden</d:status></d:propstat>"
        b"</d:response></d:multistatus>",
    ],
)
def test_an_answer_of_webdav_that_leaves_out_what_is_there_is_not_believed(
    share: Callable[[type[Share]], Share], answer: bytes
) -> None:
    server = share(WebDav)
    assert isinstance(server, WebDav)
    for name in NAMES:
        server.put(name, text_about(name))
    (server.folder / "empty").mkdir()
    assert stamps(source_of(server)).keys() == set(NAMES)

    server.instead = {("PROPFIND", "/files/sub"): ("207 Multi-Status", [], answer)}
    found = source_of(server).discover()

    assert ([x.artifact_id for x in found.listings], found.unknown) == (["a.md"], ["sub/"])


def test_the_address_of_a_webdav_server_may_have_a_path(share: Callable[[type[Share]], Share]) -> None:
    """As that of Nextcloud has. The server names folders with it, and the root is below it."""
    server = share(WebDav)
    for name in NAMES:
        server.put(name, text_about(name))
    options = {**server.options, "base_url": f"{server.options['base_url']}/files/"}

    source = Files("webdav://", storage_options=options)

    assert stamps(source).keys() == set(NAMES)
    assert source.read("sub/b.md").raw == text_about("sub/b.md")


def test_a_page_that_is_longer_than_the_file_is_not_its_text(share: Callable[[type[Share]], Share]) -> None:
    server = share(WebDav)
    assert isinstance(server, WebDav)
    server.put("a.md", "text")
    server.put("grows.md", "text")
    source = source_of(server)
    stamps(source)
    server.instead = {
        ("GET", "/files/a.md"): ("302 Found", [("Location", "/sign-in")], b""),
        ("GET", "/sign-in"): ("200 OK", [("Content-Type", "text/html")], b"<html>Sign in first</html>"),
    }
    server.put("grows.md", "a longer text")

    with pytest.raises(ReadError, match=r"^sent with 26 instead of 4 bytes: does the server want a sign-in\?$"):
        source.read("a.md")
    assert source.read("grows.md").raw == "a longer text"


def test_a_server_that_falls_silent_within_a_folder_is_named(
    share: Callable[[type[Share]], Share], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = share(Sftp)
    server.put("a.md", "text")
    monkeypatch.setattr("findingaid.sources.trees.file_systems.ANSWER_SECONDS", 0.2)
    never = threading.Event()

    async def names(*_: object) -> AsyncIterator[object]:
        await asyncio.to_thread(never.wait, 30)
        yield

    monkeypatch.setattr("asyncssh.SFTPServer.scandir", names)
    try:
        with pytest.raises(SourceError, match=r"no answer in time$"):
            source_of(server).discover()
    finally:
        never.set()


@pytest.mark.parametrize("place", ["tar", "zip", "webdav", "sftp", "smb"], indirect=True)
def test_callers_who_read_at_once_get_their_own_files(place: Place) -> None:
    texts = {f"{number}.md": f"text of {number} " * 10_000 for number in range(8)}
    for name, text in texts.items():
        place.files[name] = text.encode()
    place.fill()
    source = source_of(place)
    source.discover()

    with ThreadPoolExecutor(8) as callers:
        read = [*callers.map(lambda name: source.read(name).raw, [*texts] * 4)]

    assert read == [*texts.values()] * 4


def test_a_source_that_lists_again_and_again_keeps_one_connection(share: Callable[[type[Share]], Share]) -> None:
    server = share(Sftp)
    server.put("a.md", "text")
    before = {*threading.enumerate()}
    source = source_of(server)

    for _ in range(5):
        source.discover()

    opened = {each for each in threading.enumerate() if isinstance(each, paramiko.Transport) and each.is_active()}
    assert len(opened - before) == 1


@every_kind
def test_patterns_hidden_files_and_limits_mean_the_same(place: Place, tmp_path: Path) -> None:
    for name in (".config/x.md", ".hidden.md", "drafts/e.md", "drafts/keep.md", "sub/f.txt", "large.md"):
        place.put(name, "x" * 3000 if name == "large.md" else text_about(name))
    folder = Folder(tmp_path / "folder")
    for name, content in place.files.items():
        folder.put(name, content)

    for settings in (
        {},
        {"hidden": True},
        {"include": ("*.md",), "exclude": ("drafts/", "!drafts/keep.md")},
        {"include": ("/*.md",)},
        {"exclude": ("**/deep/**", "*.txt")},
    ):
        local = Files(tmp_path / "folder", **settings)  # type: ignore[arg-type]  # by keyword

        here, there = local.discover(), source_of(place, **settings).discover()

        assert [x.artifact_id for x in there.listings] == [x.artifact_id for x in here.listings], settings
        assert there.failures == here.failures == []

    for limited in (source_of(place, max_bytes=2000), listed(source_of(place, max_bytes=2000))):
        with pytest.raises(ReadError, match="max_bytes") as raised:
            limited.read("large.md")
        assert raised.value.kind == "too_large"


def listed(source: Reading) -> Reading:
    source.discover()
    return source


@every_kind
def test_a_place_that_cannot_be_listed_is_named_without_its_password(place: Place) -> None:
    place.lose()

    with pytest.raises(SourceError, match=r"^source\.root: ") as raised:
        source_of(place).discover()
    assert "\n" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("place", ["http"], indirect=True)
def test_a_source_that_cannot_be_listed_loses_nothing_and_says_so(
    place: Place, make_aid: Callable[..., FindingAid], ready_made: ReadyMade
) -> None:
    ready_made("files of a place", make_aid(source=source_of(place)).index)
    before = records(make_aid())
    place.lose()

    report = make_aid(source=source_of(place)).index()

    error = docs(report).error
    assert not report.ok
    assert error is not None
    assert "source.root: " in error
    assert records(make_aid()) == before


@every_kind
def test_what_is_not_there_is_a_read_error_in_a_process_that_never_listed(place: Place) -> None:
    with pytest.raises(ReadError, match="cannot be read: there is no such file") as raised:
        source_of(place).read("nowhere.md")
    assert raised.value.kind == "unreadable"
    assert source_of(place).read("a.md").raw == text_about("a.md")


@every_kind
def test_a_pointer_of_git_lfs_and_a_lock_file_are_skipped_wherever_they_are(place: Place) -> None:
    place.put("b.md", LFS)
    place.put("sub/~$c.md", "lock")
    source = source_of(place)

    assert {"b.md", "sub/~$c.md"} < {x.artifact_id for x in source.discover().listings}
    for name, why in (("b.md", "git lfs pull"), ("sub/~$c.md", "lock or temporary")):
        with pytest.raises(SkippedError, match=why):
            source.read(name)


@every_kind
@pytest.mark.parametrize("escape", ["../secret.md", "sub/../../secret.md"])
def test_an_id_cannot_climb_out_of_the_root(place: Place, escape: str) -> None:
    with pytest.raises(ReadError, match="out of the root"):
        source_of(place).read(escape)


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_bucket_is_asked_for_single_objects_alone(place: Place, make_aid: Callable[..., FindingAid]) -> None:
    source = source_of(place)
    aid = make_aid(source=source)
    aid.index()
    source.reads()
    place.put("a.md", text_about("edited"))
    place.delete("sub/b.md")

    found = aid.freshness([("docs", name) for name in NAMES]).found
    assert [found["docs", name].fresh for name in NAMES] == ["changed", "gone", "current"]
    assert found["docs", "a.md"].note.startswith("since ")
    assert source.reads() == []
    assert aid.freshness([("docs", NAMES[2])], "verify").found["docs", NAMES[2]].fresh == "current"
    assert source.reads() == [NAMES[2]]


@pytest.mark.parametrize("place", ["http", "zip", "tar", "git", "memory"], indirect=True)
def test_of_other_places_it_is_unknown_until_the_file_is_read(
    place: Place, make_aid: Callable[..., FindingAid], ready_made: ReadyMade
) -> None:
    aid = make_aid(source=source_of(place))
    ready_made("files of a place", aid.index)

    key = ("docs", "a.md")
    assert aid.freshness([key]).found[key] == Freshness("unknown", NO_STAMPS)
    assert aid.freshness([key], "verify").found[key].fresh == "current"
    place.put("a.md", text_about("edited"))
    assert aid.freshness([key], "verify").found[key].fresh == "changed"


@pytest.mark.parametrize("place", ["s3", "http", "memory"], indirect=True)
def test_a_root_can_be_one_file(place: Place) -> None:
    name = "sub/deep/c%20d.md" if place.root.startswith("http") else "sub/deep/c d.md"
    source = Files(f"{place.root.rstrip('/')}/{name}", storage_options=place.options)

    assert [listing.artifact_id for listing in source.discover().listings] == ["c d.md"]
    assert source.read("c d.md").raw == text_about("sub/deep/c d.md")


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_root_can_be_a_folder_within(place: Place) -> None:
    roots = {Zip: "zip://sub::{root}", Tar: "tar://sub/::{root}", Git: "{root}sub"}
    source = Files(
        roots.get(type(place), "{slashless}/sub").format(root=place.root, slashless=place.root.rstrip("/")),
        storage_options=place.options,
    )

    assert [listing.artifact_id for listing in source.discover().listings] == ["b.md", "deep/c d.md"]
    assert source.read("deep/c d.md").raw == text_about("sub/deep/c d.md")


@pytest.mark.parametrize("place", ["s3", "http", "memory"], indirect=True)
def test_an_archive_may_lie_anywhere(place: Place, tmp_path: Path) -> None:
    for archive in (Zip(tmp_path / "zip"), Tar(tmp_path / "tar")):
        archive.put("docs/a.md", "in an archive")
        place.put(archive.path.name, archive.path.read_bytes())

    for scheme, name in (("zip", "docs.zip"), ("tar", "docs.tar.gz")):
        root = f"{scheme}://docs::{place.root.rstrip('/')}/{name}"
        source = Files(root, storage_options=place.options)

        assert [listing.artifact_id for listing in source.discover().listings] == ["a.md"]
        assert source.read("a.md").raw == "in an archive"


@pytest.mark.parametrize("names", [("a.md", "./a.md"), ("./a.md", "a.md"), ("./a.md", "././a.md")])
def test_of_two_members_of_a_tar_with_one_name_the_later_counts(tmp_path: Path, names: tuple[str, str]) -> None:
    with tarfile.open(tmp_path / "docs.tar", "w") as archive:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(str(number).encode()))

    source = Files(tmp_path / "docs.tar")

    assert [listing.artifact_id for listing in source.discover().listings] == ["a.md"]
    assert source.read("a.md").raw == "1"


@pytest.mark.parametrize("blocks", [2, 3, 4, 5])
def test_a_tar_that_is_cut_short_cannot_be_listed(tmp_path: Path, blocks: int) -> None:
    with tarfile.open(tmp_path / "docs.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("a.md", "b.md", "c.md"):  # each a block of its own after one for its header
            (tmp_path / name).write_text("text")
            archive.add(tmp_path / name, name)
    whole = (tmp_path / "docs.tar").read_bytes()

    (tmp_path / "docs.tar").write_bytes(whole[: blocks * tarfile.BLOCKSIZE])

    with pytest.raises(SourceError, match=r"cut short|unexpected end of data"):
        Files(tmp_path / "docs.tar").discover()


@pytest.mark.parametrize("root", ["local://{}", "tar::file://{}/all.tar"])
def test_a_file_of_this_machine_with_the_size_and_time_of_before_is_read_again(tmp_path: Path, root: str) -> None:
    file, archive = tmp_path / "a.txt", tmp_path / "all.tar"
    stamps = set()
    for text in ("north", "south"):
        file.write_text(text)
        os.utime(file, (1_000_000_000, 1_000_000_000))
        with tarfile.open(archive, "w") as made:
            made.add(file, file.name)
        os.utime(archive, (1_000_000_000, 1_000_000_000))
        source = Files(root.format(tmp_path), include=("a.txt",))
        stamps |= {listing.stamp for listing in source.discover().listings}
        assert source.read("a.txt").raw == text
    assert len(stamps) == 2


def test_paths_of_this_machine_in_urls_are_relative_to_the_configuration(cli: Cli) -> None:
    Zip(cli.folder / "archive").put("a.md", text_about("zipped"))
    shutil.copy(cli.folder / "archive" / "docs.zip", cli.folder / "archive.bin")
    Git(cli.folder / "kept").put("a.md", text_about("committed"))

    for root in ("archive/docs.zip", "zip://::archive.bin", "git://kept/repository:main@"):
        cli.settings["corpora"] = {re.sub(r"\W", "_", root): {"source": {"kind": "files", "root": root}}}

        (report,) = cli.json("index")["corpora"].values()

        assert (report["new"], report["failed"], report["error"]) == (1, [], None), root


def test_a_file_with_a_password_in_an_archive_fails_alone_as_encrypted(tmp_path: Path) -> None:
    archive = tmp_path / "docs.zip"
    archive.write_bytes(with_password(zipped({"a.md": "text"})))

    (listing,) = Files(archive).discover().listings

    with pytest.raises(ReadError, match="encrypted, password required") as raised:
        Files(archive).read(listing.artifact_id)
    assert raised.value.kind == "encrypted"


def test_the_empty_objects_that_stand_for_folders_are_no_files(bucket: Bucket) -> None:
    place = S3(bucket)
    for name in ("", "sub/", "bare/", "sub/a.md"):
        place.put(name, "")

    assert [listing.artifact_id for listing in source_of(place).discover().listings] == ["sub/a.md"]


@pytest.mark.parametrize("content", [b"", b"words in a folder's place"], ids=["empty", "filled"])
def test_an_object_beside_the_one_that_stands_for_its_folder_has_its_own_stamp(bucket: Bucket, content: bytes) -> None:
    place = S3(bucket)
    place.put("plan", "first")
    bucket.write("team/docs/plan/", content)
    before = stamps(source_of(place))

    bucket.write("team/docs/plan", b"other")
    after = stamps(source_of(place))

    assert before.keys() == after.keys() == {"plan"}
    assert before != after
    assert source_of(place).read("plan").raw == "other"


@contextmanager
def s3_without_tokens(count: int, begins: bool) -> Iterator[str]:
    """Run a server of S3 with one bucket, whose pages hold no token, and begin after a key only if it `begins`."""
    keys = [f"{n:05}.md" for n in range(count)]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            after = parse_qs(urlsplit(self.path).query).get("start-after", [""])[0] if begins else ""
            rest = [key for key in keys if key > after]
            told = "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>1</ETag><Size>9</Size>"
            page = "".join(f"<Contents><Key>{key}</Key>{told}</Contents>" for key in rest[:1000])
            more = f"<IsTruncated>{str(len(rest) > 1000).lower()}</IsTruncated>"
            body = f"<ListBucketResult><Name>b</Name>{more}{page}</ListBucketResult>".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with on_loopback(Handler) as address:
        yield address


def test_a_server_of_s3_that_sends_no_tokens_is_listed_whole_or_refused(bucket: Bucket) -> None:
    for count in (1_000, 2_500):
        with s3_without_tokens(count, begins=True) as endpoint:
            options = bucket.options | {"endpoint": endpoint}
            assert len(Files("s3://b", storage_options=options).discover().listings) == count
    with s3_without_tokens(2_500, begins=False) as endpoint:
        options = bucket.options | {"endpoint": endpoint}
        with pytest.raises(
            SourceError, match="the server lists no more than 1,000 objects: does it know ListObjectsV2"
        ):
            Files("s3://b", storage_options=options).discover()


@pytest.mark.parametrize("name", ["a//b.md", "../b.md", "a\tb.md"])
def test_an_object_that_the_client_cannot_list_is_named_with_the_remedy(bucket: Bucket, name: str) -> None:
    place = S3(bucket)
    place.put("a.md", "text")
    bucket.write(f"team/docs/{name}", b"text")

    with pytest.raises(SourceError) as raised:
        source_of(place).discover()

    told = f'an object is called "team/docs/{name}", which the client cannot list: rename or delete it'
    assert str(raised.value) == f"source.root: {place.root}: {told}"


def test_a_git_checkout_is_as_of_its_ref(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.put("a.md", "first")
    git.git("tag", "v1")
    git.put("a.md", "second")
    (git.folder / "a.md").write_text("not committed")

    tagged, head = (Files(f"git://{git.folder}:{ref}@") for ref in ("v1", "main"))

    assert (tagged.read("a.md").raw, head.read("a.md").raw) == ("first", "second")
    assert head.discover().listings[0].stamp == with_converter(git.git("rev-parse", "main:a.md").strip(), "a.md")


def test_links_in_a_repository_fail_by_name(tmp_path: Path) -> None:
    git = Git(tmp_path)
    (git.folder / "link.md").symlink_to("/etc/passwd")
    git.put("a.md", "text")

    found = Files(git.root).discover()

    assert [listing.artifact_id for listing in found.listings] == ["a.md"]
    assert [(failure.artifact_id, failure.kind) for failure in found.failures] == [("link.md", "unreadable")]


def test_a_repository_within_a_repository_is_left_out_and_counted(tmp_path: Path) -> None:
    inner, git = Git(tmp_path / "inner"), Git(tmp_path)
    inner.put("b.md", "text")
    git.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.folder), "module")
    git.put("a.md", "text")

    found = Files(git.root).discover()
    assert [listing.artifact_id for listing in found.listings] == ["a.md"]
    assert found.notes == ["left out: 1 submodules, whose files are in repositories of their own"]
    assert Files(git.root, exclude=("module/",)).discover().notes == []


def test_folders_that_a_server_fails_to_show_are_unknown_not_gone(
    http: Http, make_aid: Callable[..., FindingAid]
) -> None:
    for name in NAMES:
        http.put(name, text_about(name))
    make_aid(source=source_of(http)).index()
    before = records(make_aid())
    http.failing = re.compile("^/sub/$")

    found = source_of(http).discover()
    report = make_aid(source=source_of(http)).index()

    assert (found.unknown, [failure.artifact_id for failure in found.failures]) == (["sub/"], ["sub/"])
    assert docs(report).deleted == 0
    assert not report.ok
    assert records(make_aid()) == before


def test_a_file_that_a_server_fails_to_give_fails_alone_and_stays(
    http: Http, make_aid: Callable[..., FindingAid]
) -> None:
    for name in NAMES:
        http.put(name, text_about(name))
    make_aid(source=source_of(http)).index()
    before = records(make_aid())
    http.failing = re.compile("^/a.md$")

    report = make_aid(source=source_of(http)).index()

    assert [failure.artifact_id for failure in docs(report).failed] == ["a.md"]
    assert PASSWORD not in str(docs(report).failed)
    assert records(make_aid()) == before


def test_a_page_that_a_server_gives_in_place_of_a_file_is_not_its_text(
    http: Http, make_aid: Callable[..., FindingAid]
) -> None:
    for name in ("a.md", "b.html", "c.md"):
        http.put(name, text_about(name))
    make_aid(source=source_of(http)).index()
    before = records(make_aid())
    http.put("login.html", "<p>Sign in</p>")
    http.put("b", text_about("b.html"))
    http.put("copy.md", text_about("a copy"))
    http.moved = {"/a.md": "/login.html?next=a.md", "/b.html": "/b", "/c.md": "/copy.md"}

    report = make_aid(source=source_of(http, include=["a.md", "b.html", "c.md"])).index()

    failed = {failure.artifact_id: failure.message for failure in docs(report).failed}
    assert failed.keys() == {"a.md"}
    assert "gives the page 'login.html'" in failed["a.md"]
    assert "does it want a sign-in?" in failed["a.md"]
    after = records(make_aid())
    assert [row for row in after if "a.md" in str(row)] == [row for row in before if "a.md" in str(row)]
    assert "a copy" in str(after)


def test_a_page_that_a_server_shows_instead_of_a_files_headers_is_no_stamp_of_the_file(http: Http) -> None:
    http.put("a.md", "text")
    http.put("login.html", "")
    http.moved = {"HEAD /a.md": "/login.html?next=/a.md"}
    source = Files(http.root, include=["a.md"])

    [listing] = source.discover().listings
    assert (listing.settled, source.read("a.md").raw) == (False, "text")


def test_a_page_just_written_has_no_stamp_to_trust(http: Http) -> None:
    http.put("a.md", "text")
    now = (http.folder / "a.md").stat().st_atime_ns  # of the clock that files have
    os.utime(http.folder / "a.md", ns=(now, now))
    assert Files(http.root).discover().listings[0].settled

    os.utime(http.folder / "a.md")

    assert not Files(http.root).discover().listings[0].settled
    assert RACY_SECONDS > 60, "some servers tell minutes"


def test_links_of_a_page_that_lead_elsewhere_are_none_of_its_files(http: Http) -> None:
    page = (
        '<a href="?C=N;O=D">Name</a> <a href="/">up</a> <a href="../">up</a> <a href="mailto:x@example.org">x</a>'
        '<a href="http://elsewhere.example/b.md">b</a> <a href="./">here</a> <a href="a%20b.md">a b</a>'
        '<a href="#top">top</a> <a href="./c.md">c</a> <a href="/listing/d.md">d</a> <a href="e&amp;f.md">e</a>'
        """<a class=file href=g.md>g</a> <a href="it's.md">it's</a> <a href = 'h.md'>h</a>"""
        '<a href=".">here</a> <a href="..">up</a> <a href="sub/%2e%2e/%2e%2e/x.md">x</a> <a href="//[">x</a>'
        '<a href="\n i:j.md ">i</a> <a href="sub/../k.md">k</a> <a href="../listing/l.md">l</a>'
    )
    http.put("listing/index.html", page)
    names = ["a b.md", "c.md", "d.md", "e&f.md", "g.md", "h.md", "i:j.md", "it's.md", "k.md", "l.md"]
    for name in names:
        http.put(f"listing/{name}", name)

    source = Files(f"{http.root}listing/")

    assert [listing.artifact_id for listing in source.discover().listings] == names
    assert [source.read(name).raw for name in names] == names


def test_links_are_of_a_folder_however_its_address_is_written(http: Http) -> None:
    """As IIS writes them, and a server behind a proxy that does the encryption."""
    links = ("/Docs%20(1)/%c3%a9t%c3%a9/", f"https://{http.host}/Docs (1)/b.md", f"//{http.host}/Docs%20%281%29/c.md")
    http.put("Docs (1)/index.html", "".join(f'<a href="{link}">x</a>' for link in links))
    names = ["Docs (1)/b.md", "Docs (1)/c.md", "Docs (1)/été/a.md"]
    for name in names:
        http.put(name, name)

    assert [listing.artifact_id for listing in Files(http.root).discover().listings] == names


def test_a_page_that_neither_leads_to_a_file_nor_names_its_folder_is_not_an_empty_folder(http: Http) -> None:
    for name in ("a.md", "gone/b.md", "some & more/d.md", "down/c.md"):
        http.put(name, text_about(name))
    http.put("down/index.html", "<html><title>We are back soon</title><a href='/status'>Status</a></html>")
    (http.folder / "gone/b.md").unlink()
    (http.folder / "some & more/d.md").unlink()

    found = Files(http.root).discover()

    assert [listing.artifact_id for listing in found.listings] == ["a.md"]
    assert found.unknown == ["down/"]
    assert "nor its name: is it the page of a folder?" in found.failures[0].message


@pytest.mark.parametrize("root", ["", "docs/"])
def test_a_sign_in_in_place_of_the_root_is_not_its_page(http: Http, root: str) -> None:
    http.put("docs/a.md", "text")
    http.put("login/index.html", '<a href="help.md">Help</a>')
    http.moved = {f"/{root}": f"/login/?next=/{root}"}

    with pytest.raises(SourceError, match=r"the server leads to /login/ of .*: does it want a sign-in\?"):
        Files(f"{http.root}{root}").discover()


def test_what_shows_no_page_of_links_cannot_be_listed(http: Http) -> None:
    http.put("listing/index.html", "<p>nothing yet</p>")
    http.put("plain.txt", "text")

    assert [x.artifact_id for x in Files(f"{http.root}plain.txt").discover().listings] == ["plain.txt"]
    assert Files(f"{http.root}listing/").discover().listings == []
    with pytest.raises(SourceError, match="there is no such file or folder"):
        Files(f"{http.root}nowhere/").discover()
    http.media_type = "text/plain"
    with pytest.raises(SourceError, match=rf"^source.root: http://{http.host}/listing/: expected a page of links, got"):
        Files(f"{http.root}listing/").discover()


def test_a_ref_that_a_repository_does_not_have_is_named(tmp_path: Path) -> None:
    git = Git(tmp_path)
    git.put("a.md", "text")

    assert Files(f"git://{git.folder}").discover().listings
    for root, message in (
        (f"git://{git.folder}:v2@", "no branch, tag or commit 'v2'"),
        (f"git://{git.folder}:main@nowhere", "there is no such file or folder"),
        (f"zip://::git://{git.folder}:main@a.zip", "there is no such file or folder"),
    ):
        with pytest.raises(SourceError, match=f"^source.root: .*: {message}$"):
            Files(root).discover()


ANSWERS = {
    "s3://no-such-bucket-at-all/x": "the bucket does not exist",
    "http://127.0.0.1:9/": "no answer: is the host right, running and reachable?",
    "http://name.invalid/": "no answer: is the host right, running and reachable?",
    "memory://nowhere-at-all": "there is no such file or folder",
    "zip://::nowhere.zip": "there is no such file or folder",
    "git:///nowhere:main@": "Repository not found at /nowhere",
    "nonsense://x": "Protocol not known: nonsense",
    "sftp://127.0.0.1:9/x": "no answer: is the host right, running and reachable?",
    "gdrive://someone@example.org/x": "Please install gdrive_fs for access to Google Drive",
}


@pytest.mark.parametrize("root", ANSWERS)
def test_what_cannot_be_opened_is_one_line(cli: Cli, request: pytest.FixtureRequest, root: str) -> None:
    options = request.getfixturevalue("bucket").options if root.startswith("s3") else {}
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": root, "storage_options": options}

    done = cli.run("index")

    assert done.exit_code == 1
    assert ANSWERS[root] in error_of(done)


def test_options_that_are_wrong_are_one_line(cli: Cli) -> None:
    given = cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": "s3://any/x"}
    wrong = (({"secret_key": PASSWORD}, "'secret_key' is not valid"), (PASSWORD, "expected names and values"))
    for options, message in wrong:
        given["storage_options"] = options  # type: ignore[assignment]  # the tested error

        done = cli.run("index")

        assert done.exit_code == 1
        assert message in error_of(done)
        assert PASSWORD not in done.output


def test_several_files_are_read_at_once_and_stay_in_order(http: Http, make_aid: Callable[..., FindingAid]) -> None:
    for number in range(12):
        http.put(f"{number:02d}.md", b"\x00" if number == 7 else text_about(str(number)))

    source = source_of(http, unreadable="fail")
    report = make_aid(source=source).index()
    aid = make_aid()

    assert isinstance(source, ConcurrentSource)
    assert (docs(report).new, [failure.artifact_id for failure in docs(report).failed]) == (11, ["07.md"])
    for number in (0, 11):
        assert aid.search(f"# {number}", mode="lexical", k=1)[0].artifact_id == f"{number:02d}.md"


def test_a_folder_is_read_by_one_thread(tmp_path: Path) -> None:
    assert Files(tmp_path).readers == 1


# -- secrets -----------------------------------------------------------------------------------------------


SECRET_ROOTS = {
    "https://lovelace:pa55@example.org/x/?sig=t0ken#y": "https://example.org/x/",
    "zip://docs::https://t0ken@example.org/a.zip": "zip://docs::https://example.org/a.zip",
    "sftp://lovelace:p@55@example.org/x": "sftp://example.org/x",
    "github://org:repo@main/docs": "github://org:repo@main/docs",
    "abfs://container@account.dfs.core.windows.net/x": "abfs://container@account.dfs.core.windows.net/x",
    "git:///srv/repo:v1@docs": "git:///srv/repo:v1@docs",
    "https://example.org/@scope/x": "https://example.org/@scope/x",
}


@pytest.mark.parametrize("root", SECRET_ROOTS)
def test_an_address_is_shown_without_credentials(root: str) -> None:
    assert Address(root).shown == SECRET_ROOTS[root]
    assert SECRET_ROOTS[root] in repr(Files(root))
    assert not [secret for secret in Address(root).secrets() if secret and secret in repr(Files(root))]


def test_no_credential_is_in_any_output(cli: Cli, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    http.put("a.md", text_about("ledger"))
    http.put("bad.md", b"\x00")
    given = cli.settings["corpora"]["docs"]["source"] = {
        "kind": "files",
        "root": http.root,
        "storage_options": {"client_kwargs": {"headers": {"X-Key": "h3ader-of-the-test"}}},
    }
    outputs = [cli.run(*command).output for command in (["index"], ["status"], ["plan"], ["show", "a.md"])]
    config = load(cli.config)
    outputs += [repr(x) for x in (config, config.settings, config.settings.model_dump(), config.corpora, vars(config))]
    http.failing = re.compile("a.md")
    outputs += [cli.run("index", "--force").output]
    http.server.close()
    outputs += [cli.run("index").output]
    monkeypatch.setenv("FINDINGAID__CORPORA__DOCS__SOURCE__STORAGE_OPTIONS__AUTH", "envir0nment: [of the test")
    outputs += [cli.run("index").output, repr(load(cli.config).settings)]
    given["nonsense"] = "x"
    outputs += [cli.run("index").output]

    for output in outputs:
        assert not re.search(f"{PASSWORD}|h3ader|{USER}:|envir0nment", output), output
    written = [path.read_bytes() for path in (cli.folder / "index").rglob("*") if path.is_file()]
    assert not any(PASSWORD.encode() in content for content in written)


def test_an_error_keeps_no_credential_in_its_trace(http: Http) -> None:
    http.failing = re.compile("")

    for call in (Files(http.root).discover, lambda: Files(http.root).read("a.md")):
        with pytest.raises((SourceError, ReadError)) as raised:
            call()

        assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_options_from_the_environment_are_taken_as_they_are(
    cli: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    S3(bucket).put("a.md", text_about("ledger"))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": S3(bucket).root}
    for name, value in bucket.options.items():
        monkeypatch.setenv(f"FINDINGAID__CORPORA__DOCS__SOURCE__STORAGE_OPTIONS__{name.upper()}", value)

    assert cli.json("index")["corpora"]["docs"]["new"] == 1


def test_the_variables_of_aws_are_enough(cli: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    S3(bucket).put("a.md", text_about("ledger"))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": S3(bucket).root}
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    assert cli.json("index")["corpora"]["docs"]["new"] == 1


def test_a_refused_key_is_one_line(cli: Cli, bucket: Bucket) -> None:
    S3(bucket).put("a.md", text_about("ledger"))
    cli.settings["corpora"]["docs"]["source"] = {
        "kind": "files",
        "root": S3(bucket).root,
        "storage_options": bucket.options,
    }

    with refusing_keys(bucket):
        done = cli.run("index")

    assert done.exit_code == 1
    assert f"source.root: {S3(bucket).root}: access is refused: check the key" in done.stderr
    assert not [value for value in (KEY, SECRET) if value in done.output]


# -- other readers of remote files -------------------------------------------------------------------------


@pytest.mark.slow
def test_dagster_sees_what_changed_elsewhere_and_keeps_no_credential(
    cli: Cli, http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.md", "b.md"):
        http.put(name, text_about(name))
    cli.settings["corpora"]["docs"]["source"] = {"kind": "files", "root": http.root}
    for location in open_location(cli, monkeypatch, DAGSTER_YAML):
        first, second = location.index(), test_dagster.TestSensor().tick(location)
        http.put("a.md", text_about("edited"))
        asked, _, _ = test_dagster.TestSensor().tick(location)
        observed = location.observe()
        third = location.index()
        http.lose()
        away, _, _ = test_dagster.TestSensor().tick(location)
        failed = location.index()

        assert first.success
        assert second[:2] == ([], "nothing changed")
        assert asked == [{"ops": {"discover": {"config": {"corpora": ["docs"]}}}}]
        assert observed == {"a.md"}
        assert third.success
        assert away == asked
        assert not failed.success
    written = [path.read_bytes() for path in files_of_dagster(cli.folder / "dagster_home")]
    assert any(b"the server fails with 503" in content for content in written)
    assert not any(PASSWORD.encode() in content for content in written)


def test_sessions_and_skills_may_lie_elsewhere_too(bucket: Bucket) -> None:
    place = S3(bucket)
    place.put("project/s.jsonl", '{"type": "user", "message": {"content": "Why?"}}\n')
    place.put("plugin/skills/sew/SKILL.md", "---\ndescription: How to sew.\n---\nWith a needle.")
    place.put("plugin/skills/odd/SKILL.md", "no front matter")

    sessions = Sessions(place.root, storage_options=place.options)
    skills = Skills((place.root,), storage_options=place.options)

    assert [listing.artifact_id for listing in sessions.discover().listings] == ["project/s"]
    assert sessions.read("project/s").metadata["title"] == "Why?"
    assert [listing.artifact_id for listing in skills.discover().listings] == ["odd", "sew"]
    assert skills.read("sew").metadata["path"] == "plugin/skills/sew/SKILL.md"
    assert isinstance(skills, ConcurrentSource)
    with pytest.raises(ReadError, match=re.escape(f"{place.root}/plugin/skills/odd/SKILL.md:1: the front matter is")):
        skills.read("odd")


WITHOUT = """
import sys
for package in ("obstore", "aiohttp", "pygit2"):
    sys.modules[package] = None
from findingaid.cli import main
main()
"""


def test_a_package_that_is_missing_is_named_with_what_installs_it(cli: Cli) -> None:
    needs = {
        "s3://b/x": "needs obstore: pip install 'findingaid[remote]'",
        "zip://::https://h/a.zip": "needs aiohttp: pip install 'findingaid[remote]'",
        "git://r:main@": "needs pygit2: pip install 'findingaid[git]'",
    }
    cli.settings["corpora"] = {
        f"c{number}": {"source": {"kind": "files", "root": root}} for number, root in enumerate(needs)
    }
    cli.configure()

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "index", "--config", str(cli.config)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert [message for message in needs.values() if message not in done.stderr] == []


def test_a_store_below_a_root_that_is_a_url_is_left_out(tmp_path: Path) -> None:
    place = Memory(tmp_path)
    for name in ("a.md", "index/records.lance/x.md", "index2/b.md"):
        place.put(name, text_about(name))
    source = Files(place.root)
    source.leave_out([f"{place.root}/index"])

    assert [x.artifact_id for x in source.discover().listings] == ["a.md", "index2/b.md"]


def test_a_file_or_folder_that_a_partial_clone_lacks_fails_alone(tmp_path: Path) -> None:
    place = Git(tmp_path)
    for name in ("a.md", "b.md", "sub/c.md"):
        place.put(name, f"text of {name}")
    for lacking in ("main:b.md", "main:sub"):
        name = place.git("rev-parse", lacking).strip()
        (place.folder / ".git" / "objects" / name[:2] / name[2:]).unlink()

    found = Files(place.root).discover()

    assert [listing.artifact_id for listing in found.listings] == ["a.md"]
    assert {failure.artifact_id: "partial" in failure.message for failure in found.failures} == {
        "b.md": True,
        "sub/": True,
    }
    assert list(found.unknown) == ["sub/"]
