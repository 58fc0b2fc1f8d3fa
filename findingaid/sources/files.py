"""Files below one folder or URL, both text and documents. An artifact is a file; its id is the path below the root."""

from __future__ import annotations

import mimetypes
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from findingaid.errors import ConfigError, ReadError, SkippedError, SourceError, brief
from findingaid.model import Artifact, Discovery, Failure, Listing
from findingaid.registry import checked
from findingaid.sources import documents
from findingaid.sources.addresses import Address, ConfigRoot, StorageOptions, as_root
from findingaid.sources.remote import Remote, TreeFilter
from findingaid.sources.trees import DEEPEST, archive
from findingaid.text.front_matter import file_metadata

if TYPE_CHECKING:
    from pathspec import PathSpec

MARKDOWN = "text/markdown"
OFFICE = "application/vnd.openxmlformats-officedocument."
MEDIA_TYPES: Mapping[str, str] = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdx": MARKDOWN,
    ".docx": f"{OFFICE}wordprocessingml.document",
    ".pptx": f"{OFFICE}presentationml.presentation",
    ".epub": "application/epub+zip",
    ".ipynb": "application/x-ipynb+json",
}
"""Media types that Python's own table lacks on some systems."""

MOST_VISITS = 20
"""How often one folder may be listed through links.

Links that fork at each level would otherwise list it without end.
"""

READS = 3
"""How often to read a file that changes while it is being read."""

WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte order marks of UTF-16 and UTF-32. Any other payload that holds a zero byte is not text."""

HEAD_BYTES = 65_536
TOO_LARGE = "too_large"
BINARY = "binary"
NOT_TEXT = "not text"
"""Failure kind of a file that is not text, and the reason for which it is skipped."""

CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Control bytes that are in no text, of any encoding that keeps ASCII."""

WESTERN_SIGNS = frozenset("\xa0€…‘’“”•–—™¡£§©«®°±·»¿×„‚")  # noqa: RUF001  # these signs are meant
ACCENTED_SHARE = 0.3
SAMPLE_CHARACTERS = 100_000

# A file written in the same tick of a coarse clock as it was listed may change again under the same time stamp ("racily
# clean" in git's words). Such a stamp is not trusted, and the file is read again next time.
RACY_NANOSECONDS = 2_000_000_000


EVERYTHING = ("**/*",)


@checked
@dataclass(frozen=True)
class Files:
    """Files below `root` whose path matches `include` and not `exclude`, patterns as in .gitignore.

    Hidden files and folders are left out unless `hidden`; a file over `max_bytes` becomes a failed artifact. A file
    that is not text, and that no converter is for, is skipped, or becomes a failed artifact if `unreadable` is fail.
    `root` is a folder, a .zip or .tar, or a URL that fsspec opens with `storage_options`.
    """

    root: ConfigRoot
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    hidden: bool = False
    max_bytes: int = 20_000_000
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    unreadable: Literal["skip", "fail"] = "skip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", as_root(self.root))  # the repr of this type hides passwords
        for name, patterns in (("include", self.include), ("exclude", self.exclude)):
            for pattern in patterns if patterns != EVERYTHING else ():
                _check_pattern(name, pattern)

    @property
    def readers(self) -> int:
        """Best number of artifacts to read at once."""
        return self._remote.readers if self._remote else 1

    def watched(self) -> list[Path]:
        """Return the root, if it is a folder or an archive on this machine."""
        return [] if isinstance(self.root, Address) else [self._local]

    def place(self, path: str) -> str:
        """Return the location of a path below the root, for display."""
        if isinstance(self.root, Address):
            return f"{self.root.shown.rstrip('/')}/{path}"
        return str(self._local / path)

    def below(self, folder: str) -> tuple[Files, str]:
        """Return a source of all files in a folder below the root, and the prefix that its paths have.

        For a local folder, that folder becomes the new root, so that no link leads out of it. The prefix is then "".
        """
        if self._remote or not folder:
            return replace(self, include=EVERYTHING), f"{folder}/" if folder else ""
        return replace(self, root=self._local / folder, include=EVERYTHING), ""

    def discover(self) -> Discovery:
        if self._remote:
            included, excluded = (partial(_matches, patterns) for patterns in (self._included, self._excluded))
            found = self._remote.discover(TreeFilter(included, excluded, self.hidden))
            return replace(found, listings=[_to_convert(listing) for listing in found.listings])
        if not self._local.is_dir():
            raise SourceError(f"source.root: no such directory: {self.root}")
        walk = _Walk(self)
        walk.below(os.fspath(self._real_root), "", (os.fspath(self._real_root),))
        return Discovery(sorted(walk.listings, key=attrgetter("artifact_id")), walk.failures, walk.unknown)

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a file as `discover` lists it now; None if it is gone. Raises SourceError."""
        if self._remote:
            found = self._remote.listing(artifact_id)
            return found and _to_convert(found)
        try:
            stat_result = os.stat(os.path.join(self.root, artifact_id))
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) and self._local.is_dir():
                return None
            raise SourceError(f"source.root: {self.root}: {error.strerror or error}") from error
        if not stat.S_ISREG(stat_result.st_mode):
            return None
        changed = max(stat_result.st_mtime, stat_result.st_ctime)
        return replace(_listing(artifact_id, stat_result, time.time_ns()), changed=changed)

    def read(self, artifact_id: str) -> Artifact:
        name = os.path.basename(artifact_id)
        try:
            payload = self.payload(artifact_id)
            text, own = documents.convert_document(name, payload, self.max_bytes) or _plain(payload)
        except ReadError as error:
            binary = error.kind == BINARY or (error.kind == TOO_LARGE and self._begins_binary(artifact_id))
            if binary and self.unreadable == "skip" and not documents.format_of(name):
                raise SkippedError(NOT_TEXT, BINARY) from None
            raise
        suffix = os.path.splitext(name)[1].lower()
        media_type = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"
        markdown = own.get("text_type", media_type) == MARKDOWN
        said = file_metadata(text, name) if markdown else {"title": name}
        return Artifact(artifact_id, text, {**said, "path": artifact_id, "media_type": media_type} | own)

    def payload(self, artifact_id: str, start: int = 0) -> bytes:
        """Return a file's bytes from `start` on.

        Raises ReadError if the file cannot be read, is too large, or is really outside the root.
        """
        if self._remote:
            return self._remote.payload(artifact_id, self.max_bytes)[start:]
        path = os.path.join(self.root, artifact_id)  # not a Path: this runs once per file
        folder, name = os.path.split(path)
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode) or name == ".." or not self._below_root(folder):
                self._refuse_outside(Path(path).resolve(strict=True))
                found = os.stat(path)
            if found.st_size > self.max_bytes:
                raise ReadError(
                    f"{found.st_size:,} bytes, more than source.max_bytes = {self.max_bytes:,}:"
                    " exclude it or raise the limit",
                    TOO_LARGE,
                )
            return _unchanged(path, start)
        except OSError as error:
            raise ReadError(f"cannot be read: {error.strerror or error}", "unreadable") from error

    def _begins_binary(self, artifact_id: str) -> bool:
        """Return whether a local file that is too large to read, such as a video, is not text."""
        if self._remote:
            return False
        with open(os.path.join(self.root, artifact_id), "rb", opener=_without_waiting) as file:
            return _is_binary(file.read(HEAD_BYTES))

    def _refuse_outside(self, real: Path) -> None:
        if not real.is_relative_to(self._real_root):
            raise ReadError(_outside(real, self._real_root), "outside_root")

    def _below_root(self, folder: str) -> bool:
        """Return whether a folder really is below the root.

        The result is cached: resolving costs more than reading a file.
        """
        if folder not in self._folders:
            self._folders[folder] = Path(folder).resolve(strict=True).is_relative_to(self._real_root)
        return self._folders[folder]

    @cached_property
    def _folders(self) -> dict[str, bool]:
        return {}

    @property
    def _local(self) -> Path:
        return Path(self.root)

    @cached_property
    def _real_root(self) -> Path:
        return self._local.resolve()

    @cached_property
    def _remote(self) -> Remote | None:
        """Reader for a root that is a URL or an archive; None for a local folder."""
        address = self.root if isinstance(self.root, Address) else archive(self._local)
        return Remote(address, self.storage_options) if address else None

    def _selects(self, path: str) -> bool:
        """Check whether a path is included and not excluded, without patterns where there are none to match."""
        included = self.include == EVERYTHING or _matches(self._included, path)
        return included and not (self.exclude and _matches(self._excluded, path))

    @cached_property
    def _included(self) -> PathSpec[Any]:
        return _patterns(self.include)

    @cached_property
    def _excluded(self) -> PathSpec[Any]:
        return _patterns(self.exclude)


@dataclass
class _Walk:
    """One pass over a tree, which collects listings, failures and the folders that it could not list."""

    files: Files
    listings: list[Listing] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    visits: Counter[str] = field(default_factory=Counter)
    now: int = field(default_factory=time.time_ns)

    def below(self, folder: str, prefix: str, ancestors: tuple[str, ...]) -> None:
        """List a folder. `ancestors` are the real paths above it, to detect a link that loops back."""
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            self._fail_folder(prefix, error.strerror or str(error))
            return
        for entry in entries:
            if entry.name.startswith(".") and not self.files.hidden:
                continue
            artifact_id = prefix + entry.name
            if is_folder(entry):
                self._folder(entry, artifact_id + "/", ancestors)
            elif self.files._selects(artifact_id) and (listing := self._file(entry, artifact_id)):
                self.listings.append(listing)

    def _folder(self, entry: os.DirEntry[str], prefix: str, ancestors: tuple[str, ...]) -> None:
        if self.files.exclude and _matches(self.files._excluded, prefix):
            return
        real = entry.path
        if entry.is_symlink():
            real = os.path.realpath(entry.path)
            if real in ancestors:
                self._fail(prefix, "outside_root", f"link loops back to {real}: exclude it")
                return
            if not Path(real).is_relative_to(self.files._real_root):
                self._fail(prefix, "outside_root", _outside(real, self.files._real_root))
                return
        self.visits[real] += 1
        if self.visits[real] > MOST_VISITS:
            self._fail(prefix, "duplicate", f"listed {MOST_VISITS} times already, through links: exclude it")
            return
        if len(ancestors) > DEEPEST:
            self._fail_folder(prefix, f"more than {DEEPEST} folders deep: exclude it")
            return
        self.below(real, prefix, (*ancestors, real))

    def _file(self, entry: os.DirEntry[str], artifact_id: str) -> Listing | None:
        """Return the listing of a file; None if it cannot be listed, which is noted among the failures."""
        try:
            artifact_id.encode()
        except UnicodeEncodeError:
            self._fail(artifact_id, "encoding", "file name is not valid UTF-8: rename it or exclude it")
            return None
        try:
            if entry.is_symlink() and not Path(real := os.path.realpath(entry.path)).is_relative_to(
                self.files._real_root
            ):
                self._fail(artifact_id, "outside_root", _outside(real, self.files._real_root))
                return None
            found = entry.stat()
        except OSError as error:
            self._fail(artifact_id, "unreadable", f"cannot be read: {error.strerror or error}")
            return None
        if not stat.S_ISREG(found.st_mode):
            self._fail(artifact_id, "unreadable", "not a regular file: exclude it")
            return None
        return _listing(artifact_id, found, self.now)

    def _fail(self, artifact_id: str, kind: str, message: str) -> None:
        self.failures.append(Failure(shown_name(artifact_id), "artifacts", kind, shown_name(message)))

    def _fail_folder(self, prefix: str, message: str) -> None:
        self._fail(prefix or ".", "unreadable", f"folder cannot be listed: {message}")
        self.unknown.append(shown_name(prefix))


def shown_name(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 shown as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder; a link to itself is not one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _check_pattern(name: str, pattern: str) -> None:
    """Raise ConfigError for a pattern that pathspec cannot use."""
    try:
        _patterns((pattern,))
    except (ValueError, re.error):
        raise ConfigError(f"{name}: {brief(pattern)} is not a pattern as in .gitignore: correct it") from None


def _patterns(lines: Iterable[str]) -> PathSpec[Any]:
    from pathspec import PathSpec  # imported here, since a source without patterns does not need it

    return PathSpec.from_lines("gitignore", lines)


def _matches(patterns: PathSpec[Any], path: str) -> bool:
    """Return what the last pattern that matches a path says; as `PathSpec.match_file` for a path in normal form."""
    path = path.replace("\n", " ")  # pathspec's "**" does not match line ends
    for pattern in reversed(patterns.patterns):
        if pattern.include is not None and pattern.regex.search(path):
            return bool(pattern.include)
    return False


def _outside(real: str | Path, root: Path) -> str:
    return f"link leads outside the root, to {real}: exclude it, or set source.root above both (now {root})"


def _listing(artifact_id: str, found: os.stat_result, now: int) -> Listing:
    """Return the listing of a local file; `now` is the time in nanoseconds since 1970."""
    racy = now - max(found.st_mtime_ns, found.st_ctime_ns) < RACY_NANOSECONDS
    stamp = f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"
    return _to_convert(Listing(artifact_id, stamp + "?" * racy, found.st_size))


def _to_convert(listing: Listing) -> Listing:
    """Return a listing whose stamp also changes with the converter of this type of document."""
    converter = documents.converter_id(listing.artifact_id)
    if not converter or not listing.stamp:
        return listing
    settled = listing.stamp.removesuffix("?")
    return replace(listing, stamp=f"{settled}:{converter}" + "?" * (settled != listing.stamp))


def _unchanged(path: str, start: int) -> bytes:
    """Return a file's bytes from `start` on, all read at one moment.

    Raises ReadError for a file that is being written.
    """
    for _ in range(READS):
        with open(path, "rb", opener=_without_waiting) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise ReadError("not a regular file: exclude it", "unreadable")
            file.seek(start)
            payload = file.read()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
            return payload
    raise ReadError(f"changed each of {READS} times that it was read: the next run tries again", "changed")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking, since it may have become a pipe after it was listed."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _plain(payload: bytes) -> tuple[str, dict[str, Any]]:
    text, encoding = decode(payload)
    return text, {"encoding": encoding}


def decode(payload: bytes) -> tuple[str, str]:
    """Return the text and its encoding. Line ends are kept. Raises ReadError for a payload that is not text."""
    if _is_binary(payload):
        raise ReadError(f"binary, {NOT_TEXT}: exclude it", BINARY)
    try:
        return payload.removeprefix(b"\xef\xbb\xbf").decode(), "utf-8"
    except UnicodeDecodeError:
        pass
    if (western := _as_western(payload)) is not None:
        return western, "cp1252"
    from charset_normalizer import from_bytes  # imported here, since few files need it

    best = from_bytes(payload).best()
    if best is None and CONTROLS.search(payload):
        raise ReadError(f"binary, {NOT_TEXT}: exclude it", BINARY)
    if best is None:
        raise ReadError("no known text encoding fits: save it as UTF-8 or exclude it", "encoding")
    return str(best), best.encoding.replace("_", "-")


def _is_binary(payload: bytes) -> bool:
    return b"\x00" in payload and not payload.startswith(WIDE_MARKS)


def _as_western(payload: bytes) -> str | None:
    """Return the text decoded as Windows-1252 if that looks plausible: mostly ASCII, the rest letters and quotes.

    Otherwise None.

    The general detection guesses from letter statistics, and takes a short German text for a Baltic one.
    """
    try:
        text = payload.decode("cp1252")
    except UnicodeDecodeError:
        return None
    sample = text[:SAMPLE_CHARACTERS]
    letters = [c for c in sample if c.isalpha()]
    accented = sum(c > "\x7f" for c in letters)
    plausible = all(c < "\x80" or c.isalpha() or c in WESTERN_SIGNS for c in sample)
    return text if plausible and accented <= ACCENTED_SHARE * len(letters) else None
