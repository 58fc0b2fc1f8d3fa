"""File systems of fsspec, such as SFTP, SMB, FTP and WebDAV."""

from __future__ import annotations

import io
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import IO, Any, TypeVar
from urllib.parse import quote

from findingaid.sources.addresses import Address
from findingaid.sources.limits import (
    ANSWER_SECONDS,
    ARCHIVE_BYTES,
    FOLDERS,
    SAME_ABOVE,
    SECONDS,
    ListingLimits,
    answer_in_time,
)
from findingaid.sources.tree_filter import TreeFilter
from findingaid.sources.trees.tree import (
    DEEPEST,
    Entry,
    Listed,
    below,
    check_archive,
    name_of,
    readers,
    stamp_of,
    time_of,
    why_broken,
)

T = TypeVar("T")


BLOCK = 2**20
"""Bytes to ask for at a time."""


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
        return self._root if self._is_file else below(self._root, path)

    def opened(self) -> tuple[IO[bytes], str]:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller reads it for as long as it needs
        self._copy(self._root, file, ARCHIVE_BYTES + 1)
        check_archive(file.tell())
        file.seek(0)
        return file, stamp_of(self._ask(self._fs.info, self._root))

    @property
    def _name(self) -> str:
        return name_of(self._root)

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
        folder = below(self._root, prefix.rstrip("/"))
        for info in self._ask(self._infos, folder, seconds=SECONDS):
            if (name := info["name"].rstrip("/")).strip("/") != folder.strip("/"):
                yield prefix + name_of(name) + "/" * (info["type"] == "directory"), info

    def _infos(self, folder: str) -> Iterable[Mapping[str, Any]]:
        """Return the metadata of the entries of a folder. Raises any exception of the client."""
        infos: Iterable[Mapping[str, Any]] = self._fs.ls(folder, detail=True)
        return infos

    def _entry_in_time(self, limits: ListingLimits, path: str, info: Mapping[str, Any]) -> Entry:
        limits.check_time()
        return self._entry(path, info)

    def _entry(self, path: str, info: Mapping[str, Any]) -> Entry:
        return Entry(path, self._stamp(info), info.get("size") or 0, why_broken(info), time_of(info))

    def _stamp(self, info: Mapping[str, Any]) -> str:
        return stamp_of(info)


def _repeated(folder: str, names: Mapping[str, frozenset[str]]) -> BaseException | None:
    """Return an error for a folder that has the same entries as several folders above it, with folders among them."""
    parts = folder.split("/")[:-1]
    above = ["".join(f"{part}/" for part in parts[:n]) for n in range(len(parts))]
    same = [other for other in above if names.get(other) == names[folder]]
    if len(same) < SAME_ABOVE or not any(name.endswith("/") for name in names[folder]):
        return None
    return RecursionError(f"it has the same entries as {len(same)} folders above it, and may have no end: exclude it")


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
