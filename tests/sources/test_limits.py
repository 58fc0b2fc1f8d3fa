"""Trees and files without end: each listing and each read ends, in bounded memory, and says why."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest

from findingaid.errors import ReadError, SourceError
from findingaid.sources.files import Files
from findingaid.sources.limits import SAME_ABOVE
from findingaid.sources.sessions import Sessions
from findingaid.sources.skills import Skills
from tests.support.places import Git, Http, Memory, Place, Zip
from tests.support.web import on_loopback


class Server(NamedTuple):
    """Server that answers by a function of the handler, and the paths that it was asked for."""

    root: str
    asked: list[str]


Serve = Callable[[Callable[[BaseHTTPRequestHandler], None]], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as servers:

        def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> Server:
            asked: list[str] = []

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    asked.append(self.path)
                    with suppress(OSError):  # the client has had enough
                        answer(self)

                do_HEAD = do_GET  # noqa: N815  # as http.server calls it

            return Server(f"{servers.enter_context(on_loopback(Handler))}/", asked)

        yield start


def send(handler: BaseHTTPRequestHandler, body: str, media_type: str = "text/html", length: int | None = -1) -> None:
    """Answer a request; a `length` of None announces none, and -1 the true one."""
    handler.send_response(200)
    handler.send_header("content-type", media_type)
    if length is not None:
        handler.send_header("content-length", str(len(body) if length < 0 else length))
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(body.encode())


def page(*names: str) -> str:
    return "".join(f"<a href='{name}'>x</a> " for name in names)


def test_a_server_that_shows_the_same_page_everywhere_is_left_after_a_few_levels(serve: Serve) -> None:
    """Although the page names the address, as pages of web servers do."""
    server = serve(lambda h: send(h, f"<h1>{h.path}</h1>" + page("a/", "b/", "x.md")))

    found = Files(server.root).discover()

    assert len(server.asked) < 100
    assert {x.artifact_id for x in found.failures} == set(found.unknown)
    assert {x.count("/") for x in found.unknown} == {SAME_ABOVE}
    assert "may have no end" in found.failures[0].message
    assert "x.md" in {x.artifact_id for x in found.listings}


def test_a_folder_of_a_server_that_leads_back_up_is_left_after_a_few_rounds(serve: Serve) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.rstrip("/").rpartition("/")[2]
        send(handler, page("loop/", "a.md") if name == "sub" else page("sub/"))

    found = Files(serve(answer).root).discover()

    assert found.unknown
    assert "sub/a.md" in {x.artifact_id for x in found.listings}
    assert len(found.listings) <= SAME_ABOVE + 1


def test_folders_with_equal_entries_beside_each_other_and_twice_above_are_listed(http: Http) -> None:
    for name in ("a/a/a.md", "b/a.md", "c/a.md", "d/a.md", "a/b.md", "a/a/a/a.md"):
        http.put(name, name)

    found = Files(http.root).discover()

    assert (len(found.listings), found.failures) == (6, [])


NO_PAGES: dict[str, tuple[int, str | None, str, str]] = {
    "empty": (200, "0", "", "empty, or broken off"),
    "broken off": (200, None, "<html><a href='a.md'>a</a> <a hr", "empty, or broken off"),
    "no content": (204, None, "", "answers with status 204"),
    "wait": (202, "11", "Please wait", "answers with status 202"),
    "sign-in": (302, "0", "", "leads to /sign-in of 127.0.0.1: does it want a sign-in?"),
}
"""Answers instead of the page of a folder: status, length as announced, body, and what is said of it."""


@pytest.mark.parametrize("answered", NO_PAGES)
def test_what_a_server_gives_instead_of_a_folders_page_deletes_nothing(serve: Serve, answered: str) -> None:
    status, length, body, said = NO_PAGES[answered]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path != "/sub/":
            return send(handler, page("sub/", "top.md") if handler.path == "/" else "<p>Sign in</p>")
        handler.send_response(status)
        handler.send_header("content-type", "text/html")
        handler.send_header("location", "/sign-in?next=/sub/")
        if length is not None:
            handler.send_header("content-length", length)
        handler.end_headers()
        handler.wfile.write(body.encode())
        return None

    found = Files(serve(answer).root).discover()

    assert [listing.artifact_id for listing in found.listings] == ["top.md"]
    assert found.unknown == ["sub/"]
    assert said in found.failures[0].message


def test_a_page_without_a_length_is_whole_if_it_has_its_end(serve: Serve) -> None:
    links = f"<html>{page('a.md')}</HTML>"

    found = Files(serve(lambda h: send(h, links if h.path == "/" else "text", length=None)).root).discover()

    assert [listing.artifact_id for listing in found.listings] == ["a.md"]


def test_a_file_that_is_shorter_than_its_server_says_is_not_read_in_half(serve: Serve) -> None:
    text = "half of a file " * 100

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.command == "HEAD":
            send(handler, text, "text/plain")
        else:
            send(handler, page("a.md") if handler.path == "/" else text[:700], "text/html", None)

    source = Files(serve(answer).root + "a.md")
    source.discover()

    with pytest.raises(ReadError, match=r"^sent with 700 instead of 1,500 bytes: broken off$"):
        source.read("a.md")


@pytest.mark.parametrize("share", [1, 2])
def test_a_packed_file_that_breaks_off_is_not_read_in_half(serve: Serve, share: int) -> None:
    text = "".join(map(str, range(10_000)))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/":
            send(handler, page("a.md"))
            return
        packed = gzip.compress(text.encode())
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.end_headers()
        handler.wfile.write(b"" if handler.command == "HEAD" else packed[: len(packed) // share])

    source = Files(serve(answer).root)
    source.discover()

    if share == 1:
        assert source.read("a.md").raw == text
    else:
        with pytest.raises(ReadError, match=r"^cannot be read: the answer broke off"):
            source.read("a.md")


@pytest.mark.parametrize("limit", ["folders", "entries", "seconds"])
def test_a_server_whose_pages_all_differ_is_refused_at_a_limit(
    serve: Serve, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        n = len(handler.path)
        if limit == "seconds":
            time.sleep(0.02)
        send(handler, page(f"a{n}/", f"b{n}/"))

    server = serve(answer)
    said = {"folders": "more than 10,000 folders", "entries": "more than 9 files", "seconds": "not listed within 0 s"}
    monkeypatch.setattr("findingaid.sources.trees.web.Web.most_folders", 9 if limit == "folders" else 10_000)
    if limit == "entries":
        monkeypatch.setattr("findingaid.sources.limits.ENTRIES", 9)
    if limit == "seconds":
        monkeypatch.setattr("findingaid.sources.limits.SECONDS", 0.1)
    begun = time.monotonic()

    sources = {"folders": Files(server.root), "entries": Sessions(server.root), "seconds": Skills((server.root,))}
    with pytest.raises(SourceError, match=re.escape(said[limit])) as raised:
        sources[limit].discover()
    assert f"source.root: {server.root}: " in str(raised.value)
    assert "exclude folders" in str(raised.value)
    assert time.monotonic() - begun < 20
    assert len(server.asked) < 100


@pytest.mark.parametrize("announced", [None, 10])
def test_a_file_without_end_is_left_at_the_limit_and_never_held_whole(serve: Serve, announced: int | None) -> None:
    """Whatever length the server announces before."""
    sent = [0]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/":
            send(handler, page("x.md"))
            return
        send(handler, "", "text/plain", announced if handler.command == "HEAD" else None)
        while handler.command == "GET":
            handler.wfile.write(b"zebra wor " * 10_000)
            sent[0] += 100_000

    source = Files(serve(answer).root, max_bytes=1_000_000)
    source.discover()
    tracemalloc.start()
    try:
        with pytest.raises(ReadError, match=r"more than source\.max_bytes = 1,000,000") as raised:
            source.read("x.md")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert raised.value.kind == "too_large"
    assert peak < 10_000_000
    assert sent[0] < 50_000_000


def test_a_page_of_links_without_end_cannot_be_listed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        send(handler, "", length=None)
        while handler.command == "GET":
            handler.wfile.write(page("x.md").encode() * 1000)

    monkeypatch.setattr("findingaid.sources.trees.web.PAGE_BYTES", 100_000)

    with pytest.raises(SourceError, match="its page of links has more than 100,000 bytes"):
        Files(serve(answer).root).discover()


@pytest.mark.parametrize("begins", [False, True])
def test_a_server_that_sends_slowly_for_ever_is_left_in_time(
    serve: Serve, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/":
            send(handler, page("x.md"))
            return
        if begins or handler.command == "HEAD":
            send(handler, "", "text/plain", None)
        while handler.command == "GET" and not stop.wait(0.02):
            handler.wfile.write(b"z" * begins)

    monkeypatch.setattr("findingaid.sources.trees.web.ANSWER_SECONDS", 0.2)
    source = Files(serve(answer).root)
    source.discover()
    begun = time.monotonic()

    with pytest.raises(ReadError, match="no answer in time") as raised:
        source.read("x.md")
    assert raised.value.kind == "timeout"
    assert time.monotonic() - begun < 20
    stop.set()


def test_redirects_in_a_circle_and_answers_cut_short_fail_alone(serve: Serve) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        match handler.path:
            case "/":
                send(handler, page("circle.md", "short.md", "a.md"))
            case "/circle.md":
                handler.send_response(302)
                handler.send_header("location", "/circle.md")
                handler.end_headers()
            case "/short.md":
                send(handler, "text", "text/plain", 100)
            case _:
                send(handler, "text", "text/plain")

    source = Files(serve(answer).root)

    assert [x.artifact_id for x in source.discover().listings] == ["a.md", "circle.md", "short.md"]
    for name in ("circle.md", "short.md"):
        with pytest.raises(ReadError, match="cannot be read"):
            source.read(name)
    assert source.read("a.md").raw == "text"


def test_a_redirect_to_another_server_takes_no_header_of_the_configuration_along(serve: Serve) -> None:
    got: dict[str, str | None] = {}

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        got[handler.path] = handler.headers.get("private-token") or handler.headers.get("cookie-like")
        send(handler, "text", "text/plain")

    other = serve(elsewhere)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        got[handler.path] = handler.headers.get("private-token")
        if handler.path == "/":
            return send(handler, page("here.md", "there.md"))
        if handler.path == "/moved":
            return send(handler, "text", "text/plain")
        handler.send_response(302)
        handler.send_header("location", "/moved" if handler.path == "/here.md" else f"{other.root}there")
        return handler.end_headers()

    options = {"headers": {"PRIVATE-TOKEN": "secret"}, "client_kwargs": {"headers": {"Cookie-Like": "secret"}}}
    source = Files(serve(answer).root, storage_options=options)
    source.discover()

    assert [source.read(name).raw for name in ("here.md", "there.md")] == ["text", "text"]
    assert got == {"/": "secret", "/here.md": "secret", "/moved": "secret", "/there.md": "secret", "/there": None}


@pytest.mark.parametrize("place", ["s3", "zip", "tar", "git", "memory"], indirect=True)
def test_the_entries_of_a_listing_are_limited_in_every_tree(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.sources.limits.ENTRIES", 2)

    with pytest.raises(SourceError, match="more than 2 files and folders"):
        Files(place.root, storage_options=place.options).discover()


@pytest.mark.parametrize("limit", ["ENTRIES", "SECONDS"])
def test_a_local_tree_is_limited_too(tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).touch()
    monkeypatch.setattr(f"findingaid.sources.limits.{limit}", 2 if limit == "ENTRIES" else -1)

    with pytest.raises(SourceError, match=f"source.root: {tmp_path}: "):
        Files(tmp_path).discover()


def test_a_tar_that_unpacks_without_end_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("findingaid.sources.trees.archives.UNPACKED_BYTES", 1_000_000)
    for suffix, mode in ((".tgz", "w:gz"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz")):
        path = tmp_path / f"bomb{suffix}"
        with tarfile.open(path, mode) as made:  # type: ignore[call-overload]  # one of its modes
            for name in ("a.md", "b.md"):
                info = tarfile.TarInfo(name)
                info.size = 1_500_000
                made.addfile(info, io.BytesIO(bytes(info.size)))

        with pytest.raises(SourceError, match="unpacks to more than 1,000,000 bytes"):
            Files(path).discover()


def test_an_archive_without_end_is_not_downloaded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        send(handler, "", "application/zip", None)
        while handler.command == "GET":
            handler.wfile.write(bytes(100_000))

    for module in ("tree", "web"):
        monkeypatch.setattr(f"findingaid.sources.trees.{module}.ARCHIVE_BYTES", 1_000_000)

    with pytest.raises(SourceError, match="the archive has more than 1,000,000 bytes"):
        Files(f"zip://::{serve(answer).root}docs.zip").discover()


def test_a_member_of_a_zip_that_tells_a_smaller_size_is_not_unpacked_beyond_it(tmp_path: Path) -> None:
    path = tmp_path / "docs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.md", "x" * 3_000_000)
    content = path.read_bytes()
    path.write_bytes(content.replace((3_000_000).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    source = Files(path, max_bytes=1000)

    source.discover()
    with pytest.raises(ReadError):
        source.read("a.md")


@pytest.mark.parametrize("made", [Git, Memory, Zip])
def test_a_file_that_was_never_listed_is_read_up_to_the_limit_only(
    made: Callable[[Path], Place], tmp_path: Path
) -> None:
    there = made(tmp_path)
    there.put("a.md", "x" * 2000)

    with pytest.raises(ReadError, match="max_bytes"):
        Files(there.root, max_bytes=1000).read("a.md")


def test_an_archive_that_is_a_pointer_of_git_lfs_is_named_with_its_remedy(tmp_path: Path) -> None:
    from tests.sources.test_files import LFS

    for name in ("docs.zip", "docs.tar.gz"):
        (tmp_path / name).write_text(LFS)
        with pytest.raises(SourceError, match="git lfs pull"):
            Files(tmp_path / name).discover()
