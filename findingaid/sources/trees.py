"""File trees that are not local folders.

They are in object storage, on a web server, in an archive, in a git repository, or in any other file system of fsspec.
"""

from __future__ import annotations

import asyncio
import bz2
import gzip
import html
import io
import lzma
import os
import re
import tarfile
import tempfile
import time
import weakref
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar, cast
from urllib.parse import quote, unquote, urljoin, urlsplit

from findingaid.errors import SourceError
from findingaid.sources.addresses import BUCKETS, Address, as_root
from findingaid.sources.change_times import RACY_SECONDS
from findingaid.sources.limits import (
    ANSWER_SECONDS,
    ARCHIVE_BYTES,
    ENTRIES,
    FOLDERS,
    PACKED_IN_PART,
    PAGE_BYTES,
    SAME_ABOVE,
    SECONDS,
    SLOWEST,
    UNPACKED_BYTES,
    ListingLimits,
    answer_in_time,
    breaks_off,
    unzip_answer,
    unzipped_whole,
)
from findingaid.sources.placeholders import POINTER, POINTER_BYTES, is_pointer
from findingaid.sources.tree_filter import TreeFilter

if TYPE_CHECKING:
    import pygit2

T = TypeVar("T")

REMOTE_READERS = 16
"""Maximum number of concurrent requests."""

RACY_SECONDS_HERE = 2

BLOCK = 2**20
"""Bytes to ask for at a time."""

DEEPEST = 100
"""Maximum depth of nested folders."""

WEB = frozenset({"http", "https"})
WHOLE = (200, 203)
"""Statuses of an answer with the whole content."""

ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar", ".tar.gz": "tar", ".tar.bz2": "tar", ".tar.xz": "tar"}
UNPACKERS: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".tgz": cast(Any, gzip.open),
    ".gz": cast(Any, gzip.open),
    ".bz2": cast(Any, bz2.open),
    ".xz": cast(Any, lzma.open),
}

INSTALL = {
    "obstore": (BUCKETS, "remote"),
    "aiohttp": (WEB, "remote"),
    "pygit2": ({"git"}, "git"),
    "requests": ({"github"}, "remote"),
}
"""Map each package to the schemes that need it, and to the extra that installs it."""

CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_url",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
"""Object-storage options that configure the HTTP client rather than the storage."""

CHECKSUMS = ("e_tag", "ETag", "md5Hash", "content_md5", "checksum", "sha", "hex", "blob_id")
"""Keys under which file systems report a checksum, that is, a value that changes whenever a file's content does."""

TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "modify", "last_write_time")
"""Keys under which file systems report when a file was last written."""

LINK = "a link, and links are followed only in local folders: exclude it"
GIT_LINK = 0o120000

LINKS = re.compile(r"""<a\s(?:[^<>]*?\s)?href\s*=\s*(?:"([^"<>]+)"|'([^'<>]+)'|([^\s"'<>]+))""", re.IGNORECASE)
"""Links of a folder page, in quotes of either kind or in none."""

TAG = re.compile(r"<[^<>]*>")

NO_FILE = re.compile(r"(mailto|javascript|data|tel):|[^?#]*[?#]")
"""Links on a web server's folder page that lead to none of its files, such as sort orders or a mail address."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file below the root. `stamp` and `changed` are as in `Listing`; `broken` says why it can never be read."""

    path: str
    stamp: str = ""
    size: int = 0
    broken: str = ""
    changed: float | None = None


@dataclass
class Listed:
    """Entries of a tree, and the folders that could not be listed, each with the exception."""

    entries: list[Entry] = field(default_factory=list)
    unlisted: dict[str, BaseException] = field(default_factory=dict)


class Tree(Protocol):
    """Files below a root, or the root itself as the only file. Every method may raise any exception."""

    def listed(self, wanted: TreeFilter) -> Listed: ...

    def size(self, path: str) -> int | None: ...

    def payload(self, path: str, most: int) -> bytes:
        """Return a file's bytes, or of a longer one the first `most`, so that no more are held in memory."""

    def opened(self) -> tuple[IO[bytes], str]:
        """Open the root as a file, for an archive, and return it with its stamp."""


def readers(address: Address) -> int:
    """Return how many files may be read at once.

    Files in an archive or a repository share one open file with one position, so they are read one at a time.
    """
    return REMOTE_READERS if address.scheme in {*BUCKETS, *WEB, "github"} and "::" not in address else 1


def archive(path: Path) -> Address | None:
    """Return the address of an archive's contents, if the suffix of this local file says archive; otherwise None."""
    scheme = next((scheme for suffix, scheme in ARCHIVES.items() if path.name.lower().endswith(suffix)), None)
    return Address(f"{scheme}://::{path}") if scheme and path.is_file() else None


def tree(address: Address, options: Mapping[str, Any]) -> Tree:
    """Open a tree. Raises SourceError if a package is missing, and any exception of the file system."""
    first, _, rest = address.partition("::")
    scheme, _, inside = first.partition("://")
    try:
        if rest and scheme in ARCHIVES.values():
            return Archive(scheme, inside, as_root(rest), options)
        if scheme in BUCKETS:
            return Bucket(address, options)
        if scheme in WEB:
            return Web(address, options)
        if scheme in {"webdav", "dav"}:
            return WebDav(address, options)
        if scheme == "ftp":
            return Ftp(address, options)
        if scheme == "git":
            return Git(inside)
        return FileSystem(address, options)
    except ImportError as error:
        missing = (
            f"needs {p}: pip install 'findingaid[{extra}]'" for p, (of, extra) in INSTALL.items() if scheme in of
        )
        needs = next(missing, " ".join(str(error).split()))
        raise SourceError(f"source.root: {address.shown}: {needs}") from None


class Bucket:
    """Object storage: one listing of all keys with their ETags. Uses the client that also stores the tables."""

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        from obstore.store import from_url

        scheme, _, place = address.partition("://")
        bucket, _, key = place.partition("/")
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
        client: Any = {name: text for name, text in texts.items() if name in CLIENT_OPTIONS}
        config: Any = {name: text for name, text in texts.items() if name not in CLIENT_OPTIONS}
        self._store = from_url(f"{scheme}://{bucket}", config=config, client_options=client or None)
        self._root = key.strip("/")

    def listed(self, wanted: TreeFilter) -> Listed:
        prefix = f"{self._root}/" if self._root else ""
        found: list[Any] = []
        limits = ListingLimits()
        for chunk in self._store.list(self._root or None):
            limits.count(len(chunk))
            found += chunk
        if not found and self._root:
            found, prefix = [self._store.head(self._root)], self._root.removesuffix(_name(self._root))
        named = [(m["path"].removeprefix(prefix), m) for m in found if m["path"].startswith(prefix)]
        often = Counter(path for path, _ in named)
        entries: dict[str, Entry | None] = {path: _entry_of(path, m) for path, m in named if wanted.file(path)}
        with ThreadPoolExecutor(REMOTE_READERS) as pool:
            unsure = [path for path, entry in entries.items() if not (entry and entry.size) or often[path] > 1]
            entries |= zip(unsure, pool.map(self._asked, unsure), strict=True)
        return Listed([entry for entry in entries.values() if entry])

    def _asked(self, path: str) -> Entry | None:
        """Return an object as the server tells of it alone, or None. Raises any exception of the client.

        Web consoles keep an empty object `sub/` to represent a folder, and the client lists it as `sub`, which another
        object may be called.
        """
        with suppress(FileNotFoundError):
            return self.entry(path)
        return None

    def entry(self, path: str) -> Entry:
        """Return an object. Raises FileNotFoundError."""
        return _entry_of(path, _found(self._root, path, self._store.head))

    def size(self, path: str) -> int | None:
        return int(_found(self._root, path, self._store.head)["size"])

    def payload(self, path: str, most: int) -> bytes:
        content = bytearray()
        for chunk in _found(self._root, path, self._store.get).stream():
            content += chunk
            if len(content) >= most:
                break
        return bytes(content[:most])

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        for chunk in self._store.get(self._root).stream():
            file.write(chunk)
            _check_archive(file.tell())
        file.seek(0)
        return file, stamp_of(self._store.head(self._root))


class FileSystem:
    """Any file system that fsspec opens.

    fsspec's own `find` skips folders that it cannot list, so this class walks them itself.
    """

    most_folders = FOLDERS
    """Most folders to list, since each takes a request."""

    patient = False
    """Whether answers may take any time, since nobody else gives them, or since their time is limited elsewhere."""

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        from fsspec.core import url_to_fs

        self._at_once = readers(address)
        # fsspec reuses instances, and these cache their listings: one from an earlier run would show no changes.
        # YAML has lists alone; a pair of name and password is mostly asked for as a tuple.
        arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
        self._fs, self._root = self._ask(partial(url_to_fs, str(address), **arguments, skip_instance_cache=True))
        if close := getattr(getattr(self._fs, "client", None), "close", None):
            weakref.finalize(self, close).atexit = False  # SFTP's client has a thread that keeps it connected
        if channel := getattr(getattr(self._fs, "ftp", None), "get_channel", None):
            channel().settimeout(ANSWER_SECONDS)  # SFTP sends the names of a folder in several answers

    def _ask(self, ask: Callable[..., T], *args: Any, **limits: Any) -> T:
        """Return what a method of the file system returns, within `limits`, see `answer_in_time`."""
        asked = partial(ask, *args)
        return asked() if self.patient else answer_in_time(asked, **limits)

    def _copy(self, path: str, into: IO[bytes], most: int) -> None:
        """Write the first `most` bytes of a file to another."""

        def copy() -> None:
            with self._fs.open(path, "rb") as there:
                while block := there.read(min(BLOCK, most - into.tell())):
                    into.write(block)

        self._ask(copy, received=into.tell)

    def listed(self, wanted: TreeFilter) -> Listed:
        if self._is_file:
            name = self._name
            return Listed([self._entry(name, self._ask(self._fs.info, self._root))] if wanted.file(name) else [])
        listed, limits = Listed(), ListingLimits(self.most_folders)
        names: dict[str, frozenset[str]] = {}
        level = [""]
        with ThreadPoolExecutor(self._at_once) as pool:
            while level:
                limits.count_folders(len(level))
                found = dict(zip(level, pool.map(partial(self._folder, limits=limits), level), strict=True))
                limits.check_time()
                inside: dict[str, Mapping[str, Any]] = {}
                for folder, what in found.items():
                    if isinstance(what, BaseException):
                        listed.unlisted[folder] = what
                        continue
                    limits.count(len(what))
                    names[folder] = frozenset(path[len(folder) :] for path in what)
                    if error := _repeated(folder, names):
                        listed.unlisted[folder] = error
                    else:
                        inside |= what
                files = [path for path in inside if not path.endswith("/") and wanted.file(path)]
                entry = partial(self._entry_in_time, limits)
                listed.entries += pool.map(entry, files, map(inside.__getitem__, files))
                level = [path for path in inside if path.endswith("/") and wanted.folder(path)]
        if "" in listed.unlisted:
            raise listed.unlisted[""]
        return listed

    def size(self, path: str) -> int | None:
        size: int | None = self._ask(self._fs.info, self._path(path)).get("size")
        return size

    def payload(self, path: str, most: int) -> bytes:
        content = io.BytesIO()
        self._copy(self._path(path), content, most)
        return content.getvalue()

    def _path(self, path: str) -> str:
        return self._root if self._is_file else _below(self._root, path)

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        self._copy(self._root, file, ARCHIVE_BYTES + 1)
        _check_archive(file.tell())
        file.seek(0)
        return file, stamp_of(self._ask(self._fs.info, self._root))

    @property
    def _name(self) -> str:
        return _name(self._root)

    @cached_property
    def _is_file(self) -> bool:
        return bool(self._ask(self._fs.info, self._root)["type"] != "directory")

    def _folder(self, prefix: str, limits: ListingLimits) -> dict[str, Mapping[str, Any]] | BaseException:
        """Return the entries of a folder by their paths below the root, or the exception if it cannot be listed.

        Paths of folders end in "/".
        """
        if prefix.count("/") > DEEPEST:
            return RecursionError(f"more than {DEEPEST} folders deep")
        try:
            limits.check_time()
            return dict(self._children(prefix))
        except Exception as error:  # noqa: BLE001  # a file system may raise anything; the rest is listed
            return error

    def _children(self, prefix: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        folder = _below(self._root, prefix.rstrip("/"))
        for info in self._ask(self._infos, folder, seconds=SECONDS):
            if (name := info["name"].rstrip("/")).strip("/") != folder.strip("/"):
                yield prefix + _name(name) + "/" * (info["type"] == "directory"), info

    def _infos(self, folder: str) -> Iterable[Mapping[str, Any]]:
        """Return the metadata of the entries of a folder. Raises any exception of the client."""
        infos: Iterable[Mapping[str, Any]] = self._fs.ls(folder, detail=True)
        return infos

    def _entry_in_time(self, limits: ListingLimits, path: str, info: Mapping[str, Any]) -> Entry:
        limits.check_time()
        return self._entry(path, info)

    def _entry(self, path: str, info: Mapping[str, Any]) -> Entry:
        return Entry(path, self._stamp(info), info.get("size") or 0, _broken(info), _time_of(info))

    def _stamp(self, info: Mapping[str, Any]) -> str:
        return stamp_of(info)


def _without_headers_elsewhere(names: Iterable[str]) -> Any:
    """Return a trace that takes these headers out of a request that is redirected to another server.

    aiohttp itself does so with Authorization alone.
    """
    import aiohttp
    from yarl import URL

    async def redirected(_session: object, _context: object, request: aiohttp.TraceRequestRedirectParams) -> None:
        here, there = request.url, request.url.join(URL(request.response.headers.get("Location", "")))
        if (there.host, there.port) != (here.host, here.port) and (there.host, there.scheme) != (here.host, "https"):
            for name in names:
                request.headers.popall(name, None)

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(redirected)
    return trace


class Ftp(FileSystem):
    """Folder of an FTP server. fsspec lists one that the server refuses as if it were empty, and then keeps nothing."""

    def _infos(self, folder: str) -> Iterable[Mapping[str, Any]]:
        found = [*super()._infos(folder)]
        if not found and self._fs._strip_protocol(folder) not in self._fs.dircache:
            raise OSError("the server refuses to list it")
        return found


class WebDav(FileSystem):
    """Folder of a WebDAV server.

    Its client takes a path for a part of an address, where "%20" is a space. It lists the folder `a ` as `a`, and
    believes an answer that leaves out the folder itself, or what a name in it is.
    """

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        super().__init__(address, options)
        client = self._fs.client
        join = client.join_url
        client.join_url = lambda path, *arguments, **named: join(quote(path), *arguments, **named)

    def _infos(self, folder: str) -> Iterable[Mapping[str, Any]]:
        from webdav4.fsspec import translate_exceptions, translate_info

        client = self._fs.client
        with translate_exceptions():
            found = client.propfind(folder, headers={"Depth": "1"}, follow_redirects=True).responses
        own = found.get(client.join_url(folder).path)
        if own is None or not own.properties.collection:
            raise OSError("the server's answer does not contain the folder itself: does it want a sign-in?")
        if unknown := next((path for path, each in found.items() if not _says_what_it_is(each)), ""):
            raise OSError(f"the server's answer does not say what {unknown} is")
        return [
            translate_info({"name": path, **each.properties.as_dict()})
            for path, each in found.items()
            if each is not own
        ]


def _says_what_it_is(answer: Any) -> bool:
    """Return whether WebDAV's answer on a name says if it is a folder; its client takes a refusal to say for no."""
    parts = answer.response_xml.iterfind("{DAV:}propstat")
    said = (part.findtext("{DAV:}status", " 2") for part in parts if part.find(".//{DAV:}resourcetype") is not None)
    return answer.properties.collection is not None and all(" 2" in status for status in said)


class Web(FileSystem):
    """The page of links that a web server shows for a folder, with the pages of the folders below it; or one file.

    Paths are as on the server's disk: %20 in the URL is a space in the path.
    """

    patient = True

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        import aiohttp

        client = {"timeout": aiohttp.ClientTimeout(total=ANSWER_SECONDS), **options.get("client_kwargs", {})}
        client["auto_decompress"] = False  # aiohttp takes a packed answer that broke off for whole
        secret = {*options.get("headers", ()), *client.get("headers", ())}
        client["trace_configs"] = [*client.get("trace_configs", ()), _without_headers_elsewhere(secret)]
        super().__init__(address, {**options, "client_kwargs": client})
        self._root = str(address)

    def size(self, path: str) -> int | None:
        size: int | None = self._info(self._url(path)).get("size")
        return size

    def payload(self, path: str, most: int) -> bytes:
        content, response = self._get(self._url(path), most)
        if response.history and _is_other_page(path, response.url, response.headers.get("Content-Type", "")):
            page = f"{response.url.name!r} of {response.url.host}"
            raise OSError(f"the server gives the page {page} instead: does it want a sign-in?")
        return content

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        self._download(self._root, file, ARCHIVE_BYTES + 1)
        _check_archive(file.tell())
        file.seek(0)
        return file, self._stamp(self._info(self._root))

    def _get(self, url: str, most: int) -> tuple[bytes, Any]:
        """Return the first `most` bytes at an address, and the response. Raises any exception of the client."""
        content = io.BytesIO()
        response = self._download(url, content, most)
        return content.getvalue()[:most], response

    def _download(self, url: str, into: IO[bytes], most: int) -> Any:
        """Write at least the first `most` bytes at an address, or all, to a file, and return the response."""
        from fsspec.asyn import sync

        return sync(self._fs.loop, self._stream, url, into, most)

    async def _stream(self, url: str, into: IO[bytes], most: int) -> Any:
        import aiohttp

        options = {"timeout": aiohttp.ClientTimeout(total=None), **self._fs.kwargs}
        options["headers"] = {**options.get("headers", {}), "Accept-Encoding": "gzip"}
        session = await self._fs.set_session()
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(ANSWER_SECONDS) as patience:
            async with session.get(self._fs.encode_url(url), **options) as response:
                self._fs._raise_not_found_for_status(response, url)
                if response.status not in WHOLE:
                    raise OSError(f"the server answers with status {response.status} instead of the content")
                unzip = unzip_answer(response.headers)
                async for chunk in response.content.iter_any():
                    into.write(unzip.decompress(chunk, most + 1) if unzip else chunk)
                    if into.tell() >= most:
                        break
                    patience.reschedule(begun + ANSWER_SECONDS + into.tell() / SLOWEST)
                else:
                    if unzip and not unzipped_whole(unzip):
                        raise OSError(PACKED_IN_PART)
                return response

    @property
    def _name(self) -> str:
        return unquote(_name(urlsplit(self._root).path.rstrip("/")))

    @cached_property
    def _is_file(self) -> bool:
        """Return whether the root is a file.

        Servers redirect a folder's address without a final "/" to the one with it.
        """
        if self._root.endswith("/"):
            return False
        return not self._info(self._root)["url"].endswith("/")

    def _children(self, prefix: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        folder = self._url(prefix)
        page, response = self._get(folder, PAGE_BYTES)
        if len(page) == PAGE_BYTES:
            raise ValueError(f"its page of links has more than {PAGE_BYTES:,} bytes")
        if "html" not in (found := response.headers.get("Content-Type", "html")):
            raise ValueError(f"expected a page of links, got {found.partition(';')[0]}")
        there, wanted = response.url.path.lower(), (prefix or self._name).lower()
        if response.history and (wanted not in there if wanted else there != "/"):
            raise OSError(f"the server leads to {response.url.path} of {response.url.host}: does it want a sign-in?")
        if not page or breaks_off(page, response.headers):
            raise OSError("its page of links is empty, or broken off")
        text = page.decode("utf-8", "ignore")
        names = dict.fromkeys(_linked(folder, text))
        if not names and prefix.rstrip("/").rpartition("/")[2] not in html.unescape(TAG.sub("", text)):
            raise OSError("its page has no links to what is in it, nor its name: is it the page of a folder?")
        for name in names:
            yield prefix + name, {"type": "directory" if name.endswith("/") else "file"}

    def _entry(self, path: str, info: Mapping[str, Any]) -> Entry:
        """Return an entry with the size and stamp that the server reports, since a page of links gives names only.

        If that request fails, or leads to another page, the entry has only its path, and the file is read.
        """
        from yarl import URL

        try:
            info = self._info(self._url(path))
        except Exception:  # noqa: BLE001  # reading the file reports the error
            return Entry(path)
        if _is_other_page(path, URL(info["url"]), info.get("mimetype", "")):
            return Entry(path)
        return super()._entry(path, info)

    def _stamp(self, info: Mapping[str, Any]) -> str:
        """Return a stamp from the response headers.

        An ETag is trusted no more than time and size, since servers mostly derive it from these.
        """
        told = [str(info[name]) for name in ("ETag", "Content-MD5", "Digest", "Last-Modified") if name in info]
        written = _seconds(info.get("Last-Modified"))
        racy = written is not None and time.time() - written < RACY_SECONDS
        return f"{info.get('size')}:{':'.join(told)}" + "?" * racy if told else ""

    def _info(self, url: str) -> Mapping[str, Any]:
        try:
            info: Mapping[str, Any] = self._fs.info(url)
        except FileNotFoundError as error:  # fsspec raises this for every error; the real one is its cause
            raise error.__cause__ or error from None
        return info

    def _url(self, path: str) -> str:
        return self._root if self._is_file else f"{self._root.rstrip('/')}/{quote(path)}"


def _linked(folder: str, page: str) -> Iterator[str]:
    """Yield the names that a page has links to in its folder, in whatever way their addresses are written."""
    at = urlsplit(folder)
    base = f"{at.scheme}://{at.netloc.rpartition('@')[2]}{at.path}"
    here = _place(base, "")
    for link in (html.unescape("".join(found)).strip() for found in LINKS.findall(page)):
        place = "" if NO_FILE.match(link) else _place(base, link)
        name = place.removeprefix(here)
        if name and place != name and ".." not in name.split("/"):
            yield name


def _place(base: str, link: str) -> str:
    """Return the server and path that a link leads to, unescaped; "" if it leads nowhere."""
    is_name = not link.startswith(("http://", "https://", "/"))  # which may have a colon
    try:
        return unquote(urljoin(base, f"./{link}" if is_name else link).partition("//")[2])
    except ValueError:
        return ""


def _is_other_page(path: str, url: Any, media_type: str) -> bool:
    """Return whether a web server led from a file to a page of another name."""
    return "html" in media_type and _stem(url.name) != _stem(path)


class Git:
    """A commit of a local repository: `REPOSITORY:REF@FOLDER`, as fsspec writes it. Stamps are blob ids.

    fsspec's own implementation cannot list a folder that contains a submodule. This one skips submodules.
    """

    def __init__(self, place: str) -> None:
        import pygit2

        repository, _, place = place.partition(":")
        ref, _, folder = place.rpartition("@")
        found = pygit2.Repository(repository)
        try:
            self._tree = found.revparse_single(ref or "HEAD").peel(pygit2.Tree)
        except KeyError:
            raise ValueError(f"no branch, tag or commit {ref or 'HEAD'!r}") from None
        if folder := folder.strip("/"):
            self._tree = self._at(folder).peel(pygit2.Tree)

    def listed(self, wanted: TreeFilter) -> Listed:
        listed, limits = Listed(), ListingLimits()
        for entry in self._entries(self._tree, "", wanted, listed.unlisted, limits):
            listed.entries.append(entry)
        return listed

    def size(self, path: str) -> int | None:
        return int(self._at(path).size)

    def payload(self, path: str, most: int) -> bytes:
        return bytes(memoryview(self._at(path))[:most])

    def opened(self) -> tuple[IO[bytes], str]:
        raise ValueError("an archive in a repository is not opened: check out the repository")

    def _entries(
        self,
        folder: pygit2.Tree,
        prefix: str,
        wanted: TreeFilter,
        unlisted: dict[str, BaseException],
        limits: ListingLimits,
    ) -> Iterator[Entry]:
        if prefix.count("/") > DEEPEST:
            unlisted[prefix] = RecursionError(f"more than {DEEPEST} folders deep")
            return
        import pygit2

        limits.count(len(folder))
        entry: Any  # a blob, a tree, or the commit of a submodule
        for entry in folder:
            path = prefix + entry.raw_name.decode("utf-8", "surrogateescape")
            if entry.type_str == "tree" and wanted.folder(f"{path}/"):
                try:
                    inside = entry.peel(type(folder))
                except (KeyError, OSError, pygit2.GitError):
                    unlisted[f"{path}/"] = ValueError(NOT_FETCHED)
                    continue
                yield from self._entries(inside, f"{path}/", wanted, unlisted, limits)
            elif entry.type_str == "blob" and wanted.file(path):
                yield _blob(entry, path)

    def _at(self, path: str) -> Any:
        try:
            return self._tree[path]
        except KeyError:
            raise FileNotFoundError(path) from None


NOT_FETCHED = "not in this clone, which is partial: fetch it, as with `git fetch --refetch`, or exclude it"


def _blob(entry: Any, path: str) -> Entry:
    """Return the entry of a file, whose content may be missing from a partial clone."""
    import pygit2

    try:
        size = entry.size
    except (KeyError, OSError, pygit2.GitError):
        return Entry(path, str(entry.id), broken=NOT_FETCHED)
    return Entry(path, str(entry.id), size, LINK if entry.filemode == GIT_LINK else "")


class Archive(FileSystem):
    """Contents of a .zip or .tar, which is a local file or lies in another tree."""

    most_folders = ENTRIES
    patient = True

    def __init__(self, scheme: str, inside: str, outside: Path | Address, options: Mapping[str, Any]) -> None:
        import fsspec

        if isinstance(outside, Address):
            file, self._outside = tree(outside, options).opened()
        else:
            file = outside.open("rb")
            self._outside = _local_stamp(os.fstat(file.fileno()))
        self._at_once = 1
        self._root = inside.strip("/")
        if is_pointer(file.read(POINTER_BYTES + 1)):
            raise SourceError(f"source.root: {outside}: {POINTER}")
        file.seek(0)
        unpack = UNPACKERS.get(Path(outside.name).suffix.lower())
        self._fs = fsspec.filesystem(scheme, fo=_Unpacked(unpack(file)) if unpack and scheme == "tar" else file)
        if scheme == "tar":
            _refuse_cut(self._fs.tar)
            _plain_names_of_tar(self._fs)
        else:
            _plain_names_of_zip(self._fs.zip)

    def listed(self, wanted: TreeFilter) -> Listed:
        listed = super().listed(wanted)
        listed.entries += [Entry(name) for name in self._outside_names() if wanted.file(_inside(name))]
        return listed

    def _outside_names(self) -> Iterable[str]:
        """Return the names that lead out of the archive. A walk does not reach them."""
        names = self._fs.zip.namelist() if self._fs.protocol == "zip" else self._fs.tar.getnames()
        return dict.fromkeys(name for name in names if name.startswith("/") or ".." in name.split("/"))

    def _children(self, prefix: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        return (child for child in super()._children(prefix) if not child[1]["name"].startswith("/"))

    def _stamp(self, info: Mapping[str, Any]) -> str:
        """Return a stamp that changes with the content: a zip's checksum, or else the stamp of the whole archive.

        A tar keeps no checksums.
        """
        return f"{info['CRC']:08x}:{info['size']}" if "CRC" in info else self._outside


def plain_name(name: str) -> str:
    """Return a member's name without `.` and doubled slashes, as in ./a.md; one that leads outside stays as it is."""
    if name.startswith("/") or ".." in name.split("/"):
        return name
    plain = "/".join(part for part in name.split("/") if part not in {"", "."})
    return plain + "/" * (plain != "" and name.endswith("/"))


def _plain_names_of_tar(filesystem: Any) -> None:
    """Index the members by plain names. Of two with the same name the later counts, as when they are unpacked."""
    for name in [*filesystem.index]:
        plain = plain_name(name)
        if plain != name:
            info, offset, own = filesystem.index.pop(name)
            if plain and (plain not in filesystem.index or filesystem.index[plain][1] < offset):
                filesystem.index[plain] = (info | {"name": plain}, offset, own)


def _plain_names_of_zip(archive: zipfile.ZipFile) -> None:
    """Index the members by plain names, where no other member has that name.

    Old programs of Windows wrote backslashes between folders.
    """
    for member in archive.infolist():
        name = member.filename
        of_windows = "\\" in name and "/" not in name and member.create_system in FAT_SYSTEMS
        plain = plain_name(name.replace("\\", "/") if of_windows else name)
        if plain != name and plain and plain not in archive.NameToInfo:
            archive.NameToInfo[plain] = archive.NameToInfo.pop(name)
            member.filename = plain


FAT_SYSTEMS = (0, 10, 11)
"""Systems that made a ZIP archive, by its specification: FAT, NTFS and VFAT."""


class _Unpacked:
    """Content of a compressed file, up to UNPACKED_BYTES. It has no name, by which fsspec would unpack it again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.read, self.tell, self.seekable, self.close = file.read, file.tell, file.seekable, file.close

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if offset > UNPACKED_BYTES:
            raise ValueError(f"the archive unpacks to more than {UNPACKED_BYTES:,} bytes")
        return self._file.seek(offset, whence)


def _check_archive(size: int) -> None:
    if size > ARCHIVE_BYTES:
        raise ValueError(f"the archive has more than {ARCHIVE_BYTES:,} bytes")


def _repeated(folder: str, names: Mapping[str, frozenset[str]]) -> BaseException | None:
    """Return an error for a folder that has the same entries as several folders above it, with folders among them."""
    parts = folder.split("/")[:-1]
    above = ["".join(f"{part}/" for part in parts[:n]) for n in range(len(parts))]
    same = [other for other in above if names.get(other) == names[folder]]
    if len(same) < SAME_ABOVE or not any(name.endswith("/") for name in names[folder]):
        return None
    return RecursionError(f"it has the same entries as {len(same)} folders above it, and may have no end: exclude it")


def _inside(name: str) -> str:
    """Return a name that leads out of an archive in the form that patterns are matched with."""
    return "/".join(part for part in name.split("/") if part not in {"", ".", ".."})


def _refuse_cut(tar: tarfile.TarFile) -> None:
    """Raise EOFError for a truncated archive.

    tarfile takes anything that is not a header for the end of the archive, so a truncated one would seem to hold fewer
    files.
    """
    file: Any = tar.fileobj
    file.seek(tar.offset)  # the position where tarfile found no more headers
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("the archive is cut short")


def stamp_of(info: Mapping[str, Any]) -> str:
    """Return a stamp from a file's metadata: a checksum, else time and size, else "".

    The `etag` of a WebDAV server is trusted no more than time and size, from which servers mostly derive it.
    """
    if checksum := next((info[name] for name in CHECKSUMS if info.get(name)), None):
        return str(checksum)
    tag = info.get("etag") or ""
    if (written := _written(info)) is None:
        return str(tag)
    seconds = _seconds(written)
    racy = seconds is None or time.time() - seconds < RACY_SECONDS
    return f"{info.get('size')}:{written}{tag and f':{tag}'}" + "?" * racy


def _written(info: Mapping[str, Any]) -> Any:
    """Return the time of a file's last change as its metadata has it, or None."""
    return next((info[name] for name in TIMES if info.get(name)), None)


def _time_of(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last change in seconds since 1970, or None."""
    return _seconds(_written(info))


def _entry_of(path: str, meta: Mapping[str, Any]) -> Entry:
    """Return an object of a bucket."""
    return Entry(path, stamp_of(meta), meta["size"], changed=_time_of(meta))


def _seconds(told: Any) -> float | None:
    """Return a time as seconds since 1970, or None if it cannot be parsed."""
    if isinstance(told, str):
        try:
            told = parsedate_to_datetime(told)
        except (ValueError, OverflowError):
            return None
    if isinstance(told, datetime):
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    return float(told) if isinstance(told, int | float) else None


def _local_stamp(found: os.stat_result) -> str:
    racy = time.time() - max(found.st_mtime, found.st_ctime) < RACY_SECONDS_HERE
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}" + "?" * racy


def _broken(info: Mapping[str, Any]) -> str:
    """Return why a file cannot be read, or "" if it can. File systems report a link in several ways."""
    modes = (str(info.get("mode")), f"{(info.get('external_attr') or 0) >> 16:o}")
    if info.get("islink") or info["type"] == "link" or any(mode.startswith(f"{GIT_LINK:o}"[:3]) for mode in modes):
        return LINK
    return "" if info["type"] == "file" else "not a regular file: exclude it"


def _found(root: str, path: str, get: Callable[[str], T]) -> T:
    """Return the result of `get` for a path below the root, or for the root itself if it is that file."""
    try:
        return get(_below(root, path))
    except FileNotFoundError:
        if path != _name(root):
            raise
        return get(root)


def _below(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}".rstrip("/") if root.strip("/") else root + path


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path).partition(".")[0]
