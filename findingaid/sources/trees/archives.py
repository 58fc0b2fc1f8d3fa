"""Contents of archives, as they are unpacked."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from findingaid.errors import SourceError
from findingaid.sources.addresses import Address
from findingaid.sources.limits import ENTRIES, UNPACKED_BYTES
from findingaid.sources.placeholders import POINTER, POINTER_BYTES, is_pointer
from findingaid.sources.tree_filter import TreeFilter
from findingaid.sources.trees.file_systems import FileSystem
from findingaid.sources.trees.tree import Entry, Listed

ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar", ".tar.gz": "tar", ".tar.bz2": "tar", ".tar.xz": "tar"}

UNPACKERS: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".tgz": cast(Any, gzip.open),
    ".gz": cast(Any, gzip.open),
    ".bz2": cast(Any, bz2.open),
    ".xz": cast(Any, lzma.open),
}

FAT_SYSTEMS = (0, 10, 11)
"""Systems that made a ZIP archive, by its specification: FAT, NTFS and VFAT."""

RACY_SECONDS_HERE = 2


def archive(path: Path) -> Address | None:
    """Return the address of an archive's contents, if the suffix of this local file says archive; otherwise None."""
    scheme = next((scheme for suffix, scheme in ARCHIVES.items() if path.name.lower().endswith(suffix)), None)
    return Address(f"{scheme}://::{path}") if scheme and path.is_file() else None


class Archive(FileSystem):
    """Contents of a .zip or .tar, which is a local file or lies in another tree."""

    most_folders = ENTRIES
    patient = True

    def __init__(self, scheme: str, inside: str, outside: Path | Address, opened: tuple[IO[bytes], str]) -> None:
        """Read the folder `inside` the archive at `outside`, from its file and stamp."""
        import fsspec

        file, self._outside = opened
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


class _Unpacked:
    """Content of a compressed file, up to UNPACKED_BYTES. It has no name, by which fsspec would unpack it again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.read, self.tell, self.seekable, self.close = file.read, file.tell, file.seekable, file.close

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if offset > UNPACKED_BYTES:
            raise ValueError(f"the archive unpacks to more than {UNPACKED_BYTES:,} bytes")
        return self._file.seek(offset, whence)


def _refuse_cut(tar: tarfile.TarFile) -> None:
    """Raise EOFError for a truncated archive.

    tarfile takes anything that is not a header for the end of the archive, so a truncated one would seem to hold fewer
    files.
    """
    file: Any = tar.fileobj
    file.seek(tar.offset)  # the position where tarfile found no more headers
    if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("the archive is cut short")


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


def plain_name(name: str) -> str:
    """Return a member's name without `.` and doubled slashes, as in ./a.md; one that leads outside stays as it is."""
    if name.startswith("/") or ".." in name.split("/"):
        return name
    plain = "/".join(part for part in name.split("/") if part not in {"", "."})
    return plain + "/" * (plain != "" and name.endswith("/"))


def _inside(name: str) -> str:
    """Return a name that leads out of an archive in the form that patterns are matched with."""
    return "/".join(part for part in name.split("/") if part not in {"", ".", ".."})


def open_file(path: Path) -> tuple[IO[bytes], str]:
    """Open a local file, and return it with its stamp."""
    file = path.open("rb")
    found = os.fstat(file.fileno())
    racy = time.time() - max(found.st_mtime, found.st_ctime) < RACY_SECONDS_HERE
    return file, f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}" + "?" * racy
