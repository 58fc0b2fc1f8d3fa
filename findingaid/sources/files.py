"""Files below one folder or URL, both text and documents. An artifact is a file; its id is the path below the root."""

from __future__ import annotations

import gzip
import os
import stat
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from annotated_types import Gt

from findingaid.errors import ConfigError, ReadError, SkippedError, SourceError, brief
from findingaid.identity.hashes import content_hash
from findingaid.model import Artifact, Discovery, Failure, Listing, Note
from findingaid.registry import checked
from findingaid.sources import documents
from findingaid.sources.access import UNREADABLE
from findingaid.sources.access_files import LocalAccess
from findingaid.sources.access_modes import HAS_OWNERS, access_by_mode
from findingaid.sources.addresses import Address, ConfigRoot, StorageOptions, as_root
from findingaid.sources.documents import ATTACHED, GZIP
from findingaid.sources.limits import ListingLimits
from findingaid.sources.local import READS, TOO_LARGE, listed, open_below, read_file, real_below
from findingaid.sources.mailboxes import (
    Part,
    attached_to,
    containers_of,
    file_name,
    find_parts,
    is_container,
    is_mail,
    is_mailbox,
    read_part,
)
from findingaid.sources.media_types import MARKDOWN, media_type_of
from findingaid.sources.patterns import Patterns, check_pattern, shown_name, unmatched_note
from findingaid.sources.placeholders import POINTER, TEMPORARY, is_pointer, is_temporary
from findingaid.sources.records import SETTLING_SECONDS
from findingaid.sources.remote import Remote
from findingaid.sources.tree_filter import HIDDEN, SUBMODULE, UNSELECTED, TreeFilter
from findingaid.sources.trees.archives import archive
from findingaid.sources.trees.tree import DEEPEST
from findingaid.text.code import grammar_id
from findingaid.text.decoding import BINARY, NOT_TEXT, is_binary
from findingaid.text.file_metadata import file_metadata, first_heading

MOST_VISITS = 20
"""How often one folder may be listed through links.

Links that fork at each level would otherwise list it without end.
"""

HEAD_BYTES = 65_536

# A file written in the same tick of a coarse clock as it was listed may change again under the same time stamp ("racily
# clean" in git's words). Such a stamp is not trusted, and the file is read again next time.
RACY_NANOSECONDS = 2_000_000_000


EVERYTHING = ("**/*",)

TABLE, VERSIONS = ".lance", "_versions"
"""End of the name of a folder that is a table of Lance, and the folder in each of them."""


@checked
@dataclass(frozen=True)
class Files:
    """Files below `root` whose path matches `include` and not `exclude`, patterns as in .gitignore.

    Hidden files and folders are left out unless `hidden`; a file over `max_bytes` becomes a failed artifact. A file
    that is not text, and that no converter is for, is skipped, or becomes a failed artifact if `unreadable` is fail.
    With `ocr`, the text of scanned pages and pictures is recognized; a picture without text is skipped.
    `root` is a folder, a .zip or .tar, or a URL that fsspec opens with `storage_options`. Files that are called
    `access_file` name the readers of the files in their folder and below, see `LocalAccess`; they are no artifacts. Or,
    with `access_modes`, files have the readers that their modes admit, see `access_by_mode`.
    """

    root: ConfigRoot
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    hidden: bool = False
    max_bytes: Annotated[int, Gt(0)] = 20_000_000
    storage_options: StorageOptions = field(default_factory=dict, repr=False, hash=False)
    unreadable: Literal["skip", "fail"] = "skip"
    ocr: bool = False
    access_file: str | None = None
    access_modes: bool = False

    def __post_init__(self) -> None:
        name = self.access_file
        if name is not None and (name in {"", os.curdir, os.pardir} or os.path.basename(name) != name):
            raise ConfigError(f"access_file: {brief(name)} is no file name: give one, such as ACCESS.yaml")
        if name and self.access_modes:
            raise ConfigError("access_file and access_modes exclude each other: keep one")
        object.__setattr__(self, "root", as_root(self.root))  # the repr of this type hides passwords
        for name, patterns in (("include", self.include), ("exclude", self.exclude)):
            for pattern in patterns if patterns != EVERYTHING else ():
                check_pattern(name, pattern)

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
        return str(self._local / self._holder(path))

    def _holder(self, path: str) -> str:
        """Return the local file that holds a part of a mail or mailbox; for any other path the path itself."""
        return next((above for above in containers_of(path) if (self._local / above).is_file()), path)

    def below(self, folder: str) -> tuple[Files, str]:
        """Return a source of all files in a folder below the root, and the prefix that its paths have.

        For a local folder, that folder becomes the new root, so that no link leads out of it. The prefix is then "".
        Raises ReadError if the folder is gone, or really outside the root.
        """
        if self._remote or not folder:
            return replace(self, include=EVERYTHING), f"{folder}/" if folder else ""
        try:
            real = real_below(self._real_root, folder)
        except OSError as error:
            raise ReadError(f"its folder cannot be read: {error.strerror or error}", "missing") from error
        return replace(self, root=Path(self._real_root, real), include=EVERYTHING), ""

    def discover(self) -> Discovery:
        self.resolve()
        found = self._with_parts(self._discover())
        failures = [failure for failure in found.failures if not is_temporary(failure.artifact_id)]
        skipped = [Listing(x.artifact_id, TEMPORARY) for x in found.failures if is_temporary(x.artifact_id)]
        known = dict[str, LocalAccess]()
        listings = [*(self._to_convert(self._with_access(x, known)) for x in found.listings), *skipped]
        return replace(found, listings=sorted(listings, key=attrgetter("artifact_id")), failures=failures)

    def _discover(self) -> Discovery:
        if self.ocr and not documents.converter_id(f"a{documents.PICTURE}"):
            raise SourceError("source.ocr: needs rapidocr: pip install 'findingaid[ocr]'")
        self.__dict__.pop("_included", None)  # which know the patterns that matched nothing
        self.__dict__.pop("_excluded", None)
        if self._remote and self.access_file:
            raise SourceError("source.access_file: only a local folder has such files")
        if self.access_modes and (self._remote or not HAS_OWNERS):
            raise SourceError("source.access_modes: only a local folder has modes, and not on Windows")
        if self._remote:
            own = [place for path in self._own if (place := _place_in(self.root, path))]

            def excluded(path: str) -> bool:
                return path.rstrip("/") in own or self._excluded.match(path)

            wanted = TreeFilter(self._included.match, excluded, self.hidden)
            found = self._remote.discover(wanted)
            return replace(found, notes=self._notes(found, wanted.left_out))
        if not self._local.is_dir():
            raise SourceError(f"source.root: no such directory: {self.root}")
        self.__dict__["_discovered"] = root = self._real_root
        walk = _Walk(self, root, self._own_beside(root))
        try:
            walk.below("", "", ("",))
        except ValueError as error:
            raise SourceError(f"source.root: {self.root}: {error}") from None
        found = Discovery(walk.listings, walk.failures, walk.unknown, emptied=walk.emptied)
        return replace(found, notes=self._notes(found, walk.left_out))

    def _with_parts(self, found: Discovery) -> Discovery:
        """Add the attached files of mails, and put the mails of a mailbox in its place. Only local folders have these.

        The parts of a file that cannot be read are kept as they were indexed.
        """
        self._parts.clear()
        if self._remote or not any(is_container(x.artifact_id) for x in found.listings):
            return found
        listings, failures, unknown = list[Listing](), [*found.failures], [*found.unknown]
        limits = ListingLimits()
        for listing in found.listings:
            listings.append(listing)
            if not is_container(listing.artifact_id) or is_temporary(listing.artifact_id):
                continue
            try:
                parts = self._parts_of(listing.artifact_id, listing.stamp)
                limits.count(len(parts or ()))
            except (OSError, ReadError) as error:
                if is_mailbox(listing.artifact_id):
                    listings.pop()
                    said = (error.strerror if isinstance(error, OSError) else "") or str(error)
                    failures.append(Failure(listing.artifact_id, "artifacts", "unreadable", f"cannot be read: {said}"))
                unknown.append(f"{listing.artifact_id}/")
                continue
            except ValueError as error:
                raise SourceError(f"source.root: {listing.artifact_id}: {error}") from None
            if is_mailbox(listing.artifact_id) and parts is not None:
                listings.pop()
            for part_id, part in (parts or {}).items():
                if not (self.exclude and self._excluded.match(part_id)):
                    listings.append(part.listing(part_id))
        return replace(found, listings=listings, failures=failures, unknown=unknown)

    def _parts_of(self, path: str, stamp: str) -> Mapping[str, Part] | None:
        """Return the parts of a local file, from memory if they were listed at the same stamp.

        None for a mailbox that is none despite its name. Raises ReadError for one that is being written, and OSError.
        """
        known = stamp.removesuffix("?")
        if path not in self._parts or self._parts[path][0] != known:
            for _ in range(READS):
                with open(open_below(self._real_root, path), "rb") as file:
                    before = os.fstat(file.fileno())
                    parts = find_parts(path, file, stamp, self.max_bytes)
                    after = os.fstat(file.fileno())
                if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                    break
            else:
                raise ReadError(f"changed each of {READS} times that it was read: the next run tries again", "changed")
            self._parts[path] = known, parts
        return self._parts[path][1]

    def _part(self, artifact_id: str) -> tuple[str, Part] | None:
        """Return the file that holds an artifact, and its place there; None for a file of its own.

        Raises ReadError for a part that is no longer in its file, and OSError.
        """
        for path in () if self._remote else containers_of(artifact_id):
            try:
                found = os.stat(os.path.join(self._real_root, real_below(self._real_root, path)))
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ReadError(f"its file cannot be read: {error.strerror or error}", "missing") from error
            if stat.S_ISREG(found.st_mode):
                parts = self._parts_of(path, _listing(path, found, time.time_ns()).stamp)
                if parts is None or artifact_id not in parts:
                    raise ReadError(f"no longer in {path}", "missing")
                return path, parts[artifact_id]
        return None

    def settle(self) -> bool:
        """Return whether the mailboxes stay as they were listed until unchanged for `SETTLING_SECONDS`."""
        try:
            for path in filter(is_mailbox, [*self._parts]):
                place = os.path.join(self._real_root, real_below(self._real_root, path))
                age = time.time() - os.stat(place).st_mtime
                time.sleep(min(max(SETTLING_SECONDS - age, 0), SETTLING_SECONDS))
                stamp = _listing(path, os.stat(place), time.time_ns()).stamp
                if stamp.removesuffix("?") != self._parts[path][0]:
                    return False
        except (OSError, ReadError):
            return False
        return True

    @cached_property
    def _parts(self) -> dict[str, tuple[str, Mapping[str, Part] | None]]:
        """Stamp and parts of each file that was opened for its parts."""
        return {}

    def listing(self, artifact_id: str) -> Listing | None:
        """Return a file as `discover` lists it now; None if it is gone. Raises SourceError."""
        self.resolve()
        if self._remote:
            found = self._remote.listing(artifact_id)
            return found and self._to_convert(found)
        try:
            if part := self._part(artifact_id):
                return self._to_convert(self._with_access(part[1].listing(artifact_id), {}))
            stat_result = os.stat(os.path.join(self._real_root, real_below(self._real_root, artifact_id)))
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) and self._local.is_dir():
                return None
            raise SourceError(f"source.root: {self.root}: {error.strerror or error}") from error
        except ReadError as error:
            if error.kind == "missing" and self._local.is_dir():
                return None
            raise SourceError(f"source.root: {artifact_id}: {error}") from error
        if not stat.S_ISREG(stat_result.st_mode) or self._is_access_file(artifact_id):
            return None
        return self._to_convert(self._with_access(_listing(artifact_id, stat_result, time.time_ns()), {}))

    def _is_access_file(self, path: str) -> bool:
        return bool(self.access_file) and os.path.basename(path) == self.access_file

    def _with_access(self, listing: Listing, known: dict[str, LocalAccess]) -> Listing:
        """Return a listing whose stamp also changes with the readers that access files or modes name."""
        access = self._access(listing.artifact_id, known)
        if access.of_artifact is None:
            return listing
        said = content_hash(access.of_artifact, access.wrong)[:12]
        return replace(listing, stamp=f"{said}:{listing.stamp}", readers=access.of_artifact)

    def explain_access(self, artifact_id: str) -> list[str]:
        """Return the lines on access files or modes that decide who may read a file; [] if none does."""
        self.resolve()
        access = self._access(artifact_id, {})
        return [access.wrong] if access.wrong else [*access.allowing, *access.denying]

    def _access(self, artifact_id: str, known: dict[str, LocalAccess]) -> LocalAccess:
        """Return the principals that access files or modes name for an artifact, by the real place of its file.

        `known` is as in `LocalAccess.read` and `access_by_mode`.
        """
        if not self.access_file and not self.access_modes:
            return LocalAccess()
        try:
            real = real_below(self._real_root, self._holder(artifact_id))
        except (OSError, ReadError) as error:
            return LocalAccess(wrong=f"{artifact_id}: {getattr(error, 'strerror', None) or error}")
        if self.access_modes:
            return access_by_mode(self._real_root, real, known)
        return LocalAccess.read(self._real_root, os.path.dirname(real), self.access_file or "", known)

    def _to_convert(self, listing: Listing) -> Listing:
        """Return a listing whose stamp also changes with the converter of its type of document, and if it is too large.

        That of a temporary file never changes, since its name alone decides.
        """
        if is_temporary(listing.artifact_id):
            return Listing(listing.artifact_id, TEMPORARY)
        stamp = documents.with_converter(listing.stamp, self._read_as(file_name(listing.artifact_id)))
        if stamp and listing.size > self.max_bytes:  # it may have been read when the limit was higher
            stamp = f"{TOO_LARGE}:{stamp}"
        return listing if stamp == listing.stamp else replace(listing, stamp=stamp)

    def _read_as(self, name: str) -> str:
        """Return the file name that decides how a file is converted."""
        return documents.as_scan(name) if self.ocr else name

    def read(self, artifact_id: str) -> Artifact:
        name = file_name(artifact_id)
        try:
            payload = self.payload(artifact_id)
            if documents.is_compressed(name):
                payload, name = documents.decompress(payload, self.max_bytes), name[: -len(GZIP)]
            converted = documents.convert_document(self._read_as(name), payload, self.max_bytes)
            text, own, notes = converted or documents.read_plain(name, payload)
        except ReadError as error:
            binary = error.kind == BINARY or (error.kind == TOO_LARGE and self._begins_binary(artifact_id))
            known = documents.format_of(self._read_as(name))
            if self.unreadable == "skip" and error.kind == "no_text" and known == documents.FORMATS[documents.PICTURE]:
                raise SkippedError(str(error), error.kind) from None
            if binary and self.unreadable == "skip" and not known:
                raise SkippedError(documents.reason_not_read(name) or NOT_TEXT, BINARY) from None
            raise
        media_type = media_type_of(name)
        if media_type == MARKDOWN:
            said, also = file_metadata(text, name)
        else:
            heading = "" if "n_sheets" in own else first_heading(text, own.get("text_type", media_type))
            said, also = {"title": heading or name}, ()
        metadata = {**said, "path": artifact_id, "media_type": media_type} | own
        if grammar := grammar_id(media_type):
            metadata["grammar"] = grammar
        part = self._part(artifact_id)
        if part and part[1].within:
            metadata["parent"] = artifact_id.rpartition("/")[0]
        elif is_mail(artifact_id) and not self._remote and attached_to(artifact_id, payload, self.max_bytes):
            notes = [note for note in notes if note.words != ATTACHED]  # they are artifacts of their own
        access = self._access(artifact_id, {})
        wrong = [Note(UNREADABLE, f"nobody may read it: {access.wrong}")] if access.wrong else []
        return Artifact(artifact_id, text, metadata, (*notes, *also, *wrong), access.of_artifact)

    def page_picture(self, artifact_id: str, page: int) -> dict[str, Any]:
        """Return the picture of a scanned page as it is now, see `documents.page_picture`. Raises ReadError."""
        name, payload = os.path.basename(artifact_id), self.payload(artifact_id)
        if documents.is_compressed(name):
            payload = documents.decompress(payload, self.max_bytes)
        return documents.page_picture(self._read_as(name), payload, page)

    def payload(self, artifact_id: str) -> bytes:
        """Return a file's bytes.

        Raises ReadError if it cannot be read, is too large, or is really outside the root, and SkippedError if it is a
        lock file or a pointer.
        """
        if is_temporary(artifact_id):
            raise SkippedError(TEMPORARY, "temporary")
        try:
            if self._remote:
                content = self._remote.payload(artifact_id, self.max_bytes)
            elif part := self._part(artifact_id):
                with open(open_below(self._real_root, part[0]), "rb") as file:
                    return read_part(part[0], part[1], file, self.max_bytes)
            else:
                content = read_file(self._real_root, artifact_id, self.max_bytes)
        except OSError as error:
            raise ReadError(f"cannot be read: {error.strerror or error}", "unreadable") from error
        if is_pointer(content):
            raise SkippedError(POINTER, "pointer")
        return content

    def _begins_binary(self, artifact_id: str) -> bool:
        """Return whether a local file that is too large to read, such as a video, is not text."""
        if self._remote:
            return False
        with open(open_below(self._real_root, artifact_id), "rb") as file:
            return is_binary(head_of(artifact_id, file))

    def resolve(self) -> None:
        """Forget where the root leads: a link in its path may lead elsewhere now, or it may have become an archive."""
        if not isinstance(self.root, Address):
            self.__dict__.pop("_discovered", None)
            self.__dict__.pop("_remote", None)

    def leave_out(self, own: Iterable[str]) -> None:
        """Never list these files and folders, which the program itself writes: paths, or URLs.

        A root that is in one of the folders is listed all the same.
        """
        self._own.update(own)

    def _own_beside(self, root: str) -> frozenset[str]:
        """Return the real paths of the program's own files and folders, without those that a root is in."""
        real = {os.path.realpath(path) for path in self._own if "://" not in path}
        return frozenset(path for path in real if path not in _upward(root))

    @cached_property
    def _own(self) -> set[str]:
        return set()

    @property
    def _local(self) -> Path:
        return Path(self.root)

    @property
    def _real_root(self) -> str:
        """Real path of the root: as the last discovery found it, so that a run reads one folder, or else as it is."""
        return self.__dict__.get("_discovered") or os.path.realpath(self.root)

    @cached_property
    def _remote(self) -> Remote | None:
        """Reader for a root that is a URL or an archive; None for a local folder."""
        address = self.root if isinstance(self.root, Address) else archive(self._local)
        return Remote(address, self.storage_options) if address else None

    def _selects(self, path: str) -> bool:
        """Check whether a path is included and not excluded, without patterns where there are none to match."""
        included = self.include == EVERYTHING or self._included.match(path)
        return not (self.exclude and self._excluded.match(path)) and included and not self._is_access_file(path)

    @cached_property
    def _included(self) -> Patterns:
        return Patterns(self.include)

    @cached_property
    def _excluded(self) -> Patterns:
        return Patterns(self.exclude)

    def _notes(self, found: Discovery, left_out: Mapping[str, int]) -> list[str]:
        """Return lines on patterns that matched nothing, on submodules, and on a root in which no file is listed."""
        name = Path(self.root).name if not isinstance(self.root, Address) else ""
        unmatched = {} if self.include == EVERYTHING else {"include": [*self._included.unmatched]}
        unmatched |= {"exclude": [*self._excluded.unmatched]} if self.exclude else {}
        notes = [unmatched_note(key, lines, name) for key, lines in unmatched.items() if lines]
        if count := left_out.get(SUBMODULE):
            notes.append(f"left out: {count:,} {SUBMODULE}")
        if not found.listings and not found.failures:
            counts = [f"{count:,} {why}" for why, count in sorted(left_out.items()) if count]
            notes.append(f"no file is listed: {', '.join(counts) or 'the root is empty'}")
        return notes


@dataclass
class _Walk:
    """One pass over a tree, which collects listings, failures and the folders that it could not list.

    `root` is a real path. Folders are named by their real paths relative to it, "" for the root itself.
    """

    files: Files
    root: str
    own: frozenset[str]
    """Real paths of the program's own files and folders."""

    listings: list[Listing] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    emptied: dict[str, float] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    visits: Counter[str] = field(default_factory=Counter)
    limits: ListingLimits = field(default_factory=ListingLimits)
    now: int = field(default_factory=time.time_ns)

    def below(self, folder: str, prefix: str, ancestors: tuple[str, ...]) -> None:
        """List a folder. `ancestors` are the folders above it, to detect a link that loops back."""
        folders: list[tuple[str, str]] = []
        exclude = self.files.exclude
        try:
            with listed(self.root, folder) as entries:
                self.limits.count(len(entries))
                self._note_empty(entries, folder, prefix)
                for entry in entries:
                    artifact_id, place = prefix + entry.name, os.path.join(folder, entry.name)
                    if entry.name.startswith(".") and not self.files.hidden:
                        self.left_out[HIDDEN] += 1
                        if exclude:
                            self.files._excluded.match(artifact_id + "/" * is_folder(entry))
                        continue
                    if leads_nowhere(entry) and not (exclude and self.files._excluded.match(artifact_id + "/")):
                        self._keep_below(artifact_id + "/")
                    if is_folder(entry):
                        folders += self._folder(entry, place, artifact_id + "/", ancestors)
                    elif not self.files._selects(artifact_id):
                        self.left_out[UNSELECTED] += 1
                    elif listing := self._file(entry, place, artifact_id):
                        self.listings.append(listing)
        except OSError as error:
            self._fail_folder(prefix, error.strerror or str(error))
            return
        for real, inside in folders:
            self.below(real, inside, (*ancestors, real))

    def _note_empty(self, entries: list[os.DirEntry[str]], folder: str, prefix: str) -> None:
        if not entries:
            found = os.stat(os.path.join(self.root, folder))
            self.emptied[prefix] = max(found.st_mtime, found.st_ctime)

    def _folder(
        self, entry: os.DirEntry[str], place: str, prefix: str, ancestors: tuple[str, ...]
    ) -> list[tuple[str, str]]:
        """Return the real path of a folder to list, with its prefix; [] if it is left out, or failed."""
        if self.files.exclude and self.files._excluded.match(prefix):
            self.left_out[UNSELECTED] += 1
            return []
        if self._is_own(entry, place) or self._is_table(entry, place):
            return []
        real = place
        if entry.is_symlink():
            try:
                real = real_below(self.root, place)
            except ReadError as error:
                self._fail_below(prefix, error.kind, str(error))
                return []
            if real in ancestors or real == ".":
                loop = f"link loops back to {os.path.join(self.root, real)}: exclude it"
                self._fail_below(prefix, "outside_root", loop)
                return []
        self.visits[real] += 1
        if self.visits[real] > MOST_VISITS:
            message = f"listed {MOST_VISITS} times already, through links: exclude it"
            self._fail_below(prefix, "duplicate", message)
            return []
        if len(ancestors) > DEEPEST:
            self._fail_folder(prefix, f"more than {DEEPEST} folders deep: exclude it")
            return []
        return [(real, prefix)]

    def _file(self, entry: os.DirEntry[str], place: str, artifact_id: str) -> Listing | None:
        """Return the listing of a file.

        Return None for the program's own, and for one that cannot be listed, which is noted among the failures.
        """
        if self._is_own(entry, place):
            return None
        try:
            artifact_id.encode()
        except UnicodeEncodeError:
            self._fail(artifact_id, "encoding", "file name is not valid UTF-8: rename it or exclude it")
            return None
        try:
            if entry.is_symlink():
                real_below(self.root, place)
            found = entry.stat()
        except ReadError as error:
            self._fail(artifact_id, error.kind, str(error))
            return None
        except OSError as error:
            self._fail(artifact_id, "unreadable", f"cannot be read: {error.strerror or error}")
            return None
        if not stat.S_ISREG(found.st_mode):
            self._fail(artifact_id, "unreadable", "not a regular file: exclude it")
            return None
        return _listing(artifact_id, found, self.now)

    def _is_own(self, entry: os.DirEntry[str], place: str) -> bool:
        """Return whether an entry is one of the program's own, or a link to one or into one.

        One that is reached by another path, as through a second mount or by other letter case, is told by its inode.
        """
        if entry.is_symlink():
            return not self.own.isdisjoint(_upward(os.path.realpath(os.path.join(self.root, place))))
        if place in self._own_here:
            return True
        devices = self._own_inodes.get(entry.inode())
        if devices:
            with suppress(OSError):
                return entry.stat().st_dev in devices
        return False

    def _is_table(self, entry: os.DirEntry[str], place: str) -> bool:
        """Return whether a folder is a table, such as those of another store below the root."""
        return entry.name.endswith(TABLE) and os.path.isdir(os.path.join(self.root, place, VERSIONS))

    @cached_property
    def _own_here(self) -> frozenset[str]:
        """Those of the program's own that are below the root, relative to it."""
        return frozenset(os.path.relpath(path, self.root) for path in self.own if path.startswith(self.root))

    @cached_property
    def _own_inodes(self) -> Mapping[int, set[int]]:
        """Map the inode of each of the program's own that exists to its devices."""
        found: dict[int, set[int]] = {}
        for path in self.own:
            with suppress(OSError):
                own = os.stat(path)
                found.setdefault(own.st_ino, set()).add(own.st_dev)
        return found

    def _fail(self, artifact_id: str, kind: str, message: str) -> None:
        self.failures.append(Failure(shown_name(artifact_id), "artifacts", kind, shown_name(message)))

    def _fail_folder(self, prefix: str, message: str) -> None:
        self._fail_below(prefix, "unreadable", f"folder cannot be listed: {message}")

    def _fail_below(self, prefix: str, kind: str, message: str) -> None:
        self._fail(prefix or ".", kind, message)
        self._keep_below(prefix)

    def _keep_below(self, prefix: str) -> None:
        """Take nothing below a folder, or a link that may lead to one, for deleted."""
        self.unknown.append(shown_name(prefix))


def _upward(path: str) -> Iterable[str]:
    """Return a path, and the folders above it."""
    parts = path.split(os.sep)
    return [os.sep.join(parts[:n]) for n in range(1, len(parts) + 1)]


def _place_in(root: Path | str, path: str) -> str:
    """Return the path below a root that is a URL of the place at another URL; "" if it is not below it."""
    above = f"{str(root).rstrip('/')}/"
    return path.rstrip("/").removeprefix(above) if path.startswith(above) else ""


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder; a link to itself is not one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry cannot be looked at, such as a link to a place that is not mounted."""
    try:
        if not entry.is_dir() and entry.is_symlink():
            entry.stat()
    except OSError:
        return True
    return False


def head_of(name: str, file: IO[bytes]) -> bytes:
    """Return the first bytes of a file, or of its content if it is compressed."""
    if not documents.is_compressed(name):
        return file.read(HEAD_BYTES)
    with suppress(OSError, EOFError, zlib.error), gzip.open(file) as content:
        return content.read(HEAD_BYTES)
    return b""


def _listing(artifact_id: str, found: os.stat_result, now: int) -> Listing:
    """Return the listing of a local file; `now` is the time in nanoseconds since 1970."""
    racy = now - max(found.st_mtime_ns, found.st_ctime_ns) < RACY_NANOSECONDS
    stamp = f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"
    return Listing(artifact_id, stamp + "?" * racy, found.st_size, found.st_mtime)
