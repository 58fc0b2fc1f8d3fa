"""Documents that are not plain text, and the process that runs their converters.

A converter reads untrusted input, so it works in a separate process. If it hangs, uses too much memory or crashes, that
process is ended, one artifact fails, and the next one gets a new process. It also ends with its parent.

A request with a deadline converts nothing after it. Such requests share the conversion of equal documents, and none of
their callers gets all processes, so that none keeps the others from an answer.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import orjson

from findingaid.errors import ReadError
from findingaid.identity.hashes import bytes_hash
from findingaid.model import Note
from findingaid.request_limits import CALLER, seconds_left
from findingaid.sources.media_types import media_type_of
from findingaid.text.code import grammar_id
from findingaid.text.decoding import BINARY, NOT_TEXT, decode, is_binary
from findingaid.text.escapes import without_escapes

REVISION = "27"
"""Version of the conversion.

Increment it when the same converters' results are combined differently, so that documents are read again.
"""

SECONDS = 120.0
SECONDS_A_MEGABYTE = 10.0
"""Time limit of a converter.

A PDF of 1,000 pages takes a second; a Word document takes a second per megabyte of its text.
"""

PAGE_DONE = b"\n"
"""Line before the answer, by which a converter says that a page was recognized. The next one has as much time."""

IDLE_SECONDS = 30.0
"""Idle time after which the process ends. It holds some 150 MB, and takes 2 s to start."""

AT_ONCE = 4
A_CALLER = 2
"""Most processes at once, in all and for the requests of one caller."""

DEADLINE_SHARE = 0.9
"""Share of the time left to a request that a conversion may take; the rest is for the answer."""

KEPT_CHARACTERS = 20_000_000
"""Most characters of converted documents that are kept for further requests."""

LATE_SECONDS = 600
"""Time for which a document that a deadline stopped is not converted for requests with no more time than it had."""


class Format(NamedTuple):
    """Document format of a file suffix. The installed versions of `converters` determine the extracted text.

    `is_text` says whether a file can be indexed as it is if the converters are not installed. `extra` installs them.
    """

    name: str
    converters: tuple[str, ...]
    is_text: bool = False
    extra: str = "documents"


MAIL = Format("mail or saved page", ("markitdown", "markdownify", "lxml"), is_text=True)

MESSAGE = Format("Outlook message", ("olefile", "compressed-rtf", "markitdown", "markdownify", "lxml"), is_text=True)
"""A file of another program with this suffix is text."""

CALENDAR = Format("calendar or contacts", ("vobject",), is_text=True)

CAPTIONS = Format("file of captions", ("webvtt-py",), is_text=True)

HTML = Format("HTML page", ("markitdown", "markdownify", "lxml"), is_text=True)

WEB_PAGE = "page.web-page"
"""Name given to a page of a web site, of which the main text is wanted."""

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SPREADSHEET = Format("spreadsheet", ("python-calamine", "defusedxml", "markitdown"))

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
SCAN, PICTURE = ".scanned-pdf", ".scanned-picture"
"""Suffixes given to a PDF and a picture whose text is to be recognized (OCR)."""

PAGE = ".page-"
"""Beginning of the suffix given to a PDF or picture of which a page is to be shown."""

FORMATS: Mapping[str, Format] = {
    ".pdf": Format("PDF", ("pypdfium2",)),
    ".docx": Format("Word document", ("markitdown", "mammoth", "markdownify")),
    ".pptx": Format("PowerPoint file", ("markitdown", "python-pptx")),
    ".epub": Format("EPUB", ("markitdown", "markdownify", "beautifulsoup4")),
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".web-page": Format("web page", ("trafilatura", "markitdown", "lxml")),
    ".eml": MAIL,
    ".msg": MESSAGE,
    ".mht": MAIL,
    ".mhtml": MAIL,
    ".ics": CALENDAR,
    ".vcf": CALENDAR,
    ".vtt": CAPTIONS,
    ".srt": CAPTIONS,
    **dict.fromkeys(WORKBOOKS, SPREADSHEET),
    ".odt": Format("OpenDocument text", ("markitdown", "markdownify", "lxml")),
    ".rtf": Format("RTF document", ("striprtf",)),
    ".ipynb": Format("Jupyter notebook", ("markitdown",), is_text=True),
    SCAN: Format("PDF", ("pypdfium2", "rapidocr"), extra="ocr"),
    PICTURE: Format("picture", ("rapidocr",), extra="ocr"),
}


ATTACHED = "attached files, not read"
"""Words of the note on files that are attached to a document or mail."""

HEADER_BYTES = 16_384
STORED_MAIL = re.compile(
    rb"(?:From .*\n|\d+\s*\n)?(?:[\w-]+:.*\n(?:[ \t].*\n)*)*?(?:MIME-Version|Content-Transfer-Encoding):", re.IGNORECASE
)
"""Beginning of a mail whose words may be encoded, also of the first one of a mailbox."""

AS_STORED = "mails, read as they are stored: save them as .eml or .mbox in a local folder"
"""Words of the note on such a mail that no converter reads."""

EXPORT = "not read: export it as PDF"
ARCHIVE = "an archive, not read: unpack it, or make it the root of a source"

OCR = "set ocr: true, and pip install 'findingaid[ocr]'"
"""Remedy for scans and pictures."""

NOT_READ: Mapping[str, str] = {
    ".doc": "not read: save it as DOCX",
    ".ppt": "not read: save it as PPTX",
    ".odp": "not read: save it as PPTX",
    ".pst": "not read: export its mails as EML or MBOX",
    ".wpd": "not read: save it as DOCX",
    ".mobi": "not read: convert it to EPUB",
    ".azw3": "not read: convert it to EPUB",
    **dict.fromkeys((".djvu", ".key", ".numbers", ".odg", ".one", ".pages", ".pub", ".vsd", ".vsdx", ".xps"), EXPORT),
    **dict.fromkeys(PICTURES, f"pictures, not read: {OCR}"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar", ".tar.gz", ".tar.bz2", ".tar.xz"), ARCHIVE),
}
"""Suffixes of formats that no converter reads, and the way out. A file of such a name that is text is read."""

NOT_READ_SUFFIXES = tuple(NOT_READ)

PLAIN_REVISION = "3"
"""Version of the reading of text as it is: its encoding, its escapes, its front matter, its title."""

NOT_READ_REVISION = "3"
"""Version of these reasons, which is in the stamps of such files."""

GZIP = ".gz"
"""Suffix of a compressed file, which is read as what its name says without it."""


class Converted(NamedTuple):
    """A document's text and its own metadata (title, author, n_pages, text_type), with notes on what it lacks."""

    text: str
    metadata: dict[str, Any]
    notes: Sequence[Note] = ()


def format_of(name: str) -> Format | None:
    """Return the document format of a file name; None for files that are read as they are."""
    if f".{name.rpartition('.')[2].lower()}" not in FORMATS:  # most files, in half the time
        return None
    return FORMATS.get(os.path.splitext(name)[1].lower())


def as_scan(name: str) -> str:
    """Return the name by which the text of a file is recognized, if it is a PDF or a picture, also a compressed one."""
    stem = name[: -len(GZIP)] if is_compressed(name) else name
    base, suffix = os.path.splitext(stem)
    kind = SCAN if suffix.lower() == ".pdf" else PICTURE if suffix.lower() in PICTURES else suffix
    return f"{base}{kind}{name[len(stem) :]}"


def reason_not_read(name: str) -> str:
    """Return why a file with this name is not read, if it is not text; "" for an unknown format."""
    lower = name.lower()
    if not lower.endswith(NOT_READ_SUFFIXES):  # most files, in a fraction of the time
        return ""
    return next(reason for suffix, reason in NOT_READ.items() if lower.endswith(suffix))


def converter_id(name: str) -> str:
    """Return the converters of a file with this name, or the grammar that it is cut by, or "" if there are none.

    The result includes their versions, so that an upgrade is noticed.
    """
    if reason_not_read(name):
        return f"not-read-{NOT_READ_REVISION}"
    if is_compressed(name):
        return f"gzip-{converter_id(name[: -len(GZIP)])}"
    found = format_of(name)
    return grammar_id(media_type_of(name)) if found is None else _versions(found.converters)


def with_converter(stamp: str, name: str) -> str:
    """Return the stamp of a file, which also changes with how a file with this name is read; "" for none."""
    if not stamp:
        return ""
    settled = stamp.removesuffix("?")
    return f"{settled}:{converter_id(name) or f'text-{PLAIN_REVISION}'}" + "?" * (settled != stamp)


def is_compressed(name: str) -> bool:
    """Return whether a file is a single compressed file, by its name."""
    return name.lower().endswith(GZIP) and not reason_not_read(name)


def decompress(payload: bytes, max_bytes: int) -> bytes:
    """Return the content of a gzip file. Raises ReadError for a damaged one, and one of more than `max_bytes`."""
    try:
        with gzip.open(io.BytesIO(payload)) as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        said = " ".join(str(error).split())
        raise ReadError(f"damaged, or not a gzip file ({said}): repair or exclude it", "parse") from None
    if len(content) <= max_bytes:
        return content
    if is_binary(content):
        raise ReadError(NOT_TEXT, BINARY)
    raise ReadError(
        f"unpacks to more than source.max_bytes = {max_bytes:,}: exclude it or raise the limit", "too_large"
    )


@cache
def _versions(distributions: tuple[str, ...]) -> str:
    try:
        return "+".join((REVISION, *(f"{name}-{version(name)}" for name in distributions)))
    except PackageNotFoundError:
        return ""


def convert_document(name: str, payload: bytes, max_bytes: int) -> Converted | None:
    """Convert a document.

    Return None for plain text, and for a text format whose converter is not installed. Raises ReadError for a document
    that cannot be converted, or not by the deadline of the request, or whose text is longer than `max_bytes`.
    """
    found = format_of(name)
    if found is None or (found.is_text and not _versions(found.converters) and not is_binary(payload)):
        return None
    return _ask_converter(found, os.path.splitext(name)[1].lower(), payload, max_bytes)


def page_picture(name: str, payload: bytes, page: int) -> dict[str, Any]:
    """Return a page, from 1, of a PDF or picture as a JPEG in base64, and its size in the unit of the boxes.

    Raises ReadError, as `convert_document` does.
    """
    found = format_of(name[: -len(GZIP)] if is_compressed(name) else name)
    if found is None or found.extra != "ocr":
        raise ReadError("not a scan", "parse")
    made = _ask_converter(found, f"{PAGE}{page}", payload, 0)
    return {"picture": made.text, **made.metadata}


def _ask_converter(found: Format, suffix: str, payload: bytes, max_bytes: int) -> Converted:
    if not _versions(found.converters):
        raise ReadError(
            f"a {found.name}, and no converter is installed: pip install 'findingaid[{found.extra}]', or exclude it",
            "no_converter",
        )
    answer = _converters(os.getpid()).convert(suffix, payload, max_bytes)
    if "error" in answer:
        raise ReadError(answer["error"], answer["kind"])
    return Converted(answer["text"], answer["metadata"], tuple(Note(**note) for note in answer["notes"]))


def read_plain(name: str, payload: bytes) -> Converted:
    """Return the text of a file that no converter is for. Raises ReadError if it is not text."""
    text, encoding, notes = decode(payload)
    stored = [Note("mail_as_stored", AS_STORED)] if STORED_MAIL.match(payload[:HEADER_BYTES]) else []
    return Converted(without_escapes(text, media_type_of(name)), {"encoding": encoding}, (*notes, *stored))


Document = tuple[str, str, int]
"""Suffix, content hash and `max_bytes` of a document, on which its answer depends."""


def _not_in_time() -> ReadError:
    return ReadError("not converted within the time of the request", "timeout")


class Converters:
    """Converters of one process, for all its threads, and the last answers to requests with a deadline."""

    def __init__(self) -> None:
        self.idle = [Converter() for _ in range(AT_ONCE)]
        self._changed = threading.Condition()
        self._callers: Counter[str] = Counter()
        self._under_way: set[Document] = set()
        self._kept: OrderedDict[Document, dict[str, Any]] = OrderedDict()
        self._late: dict[Document, tuple[float, float]] = {}  # seconds that it had, and when they ended

    def convert(self, suffix: str, payload: bytes, max_bytes: int) -> dict[str, Any]:
        """Return the answer of the process. Raises ReadError if there is none, or none in time."""
        seconds, caller = seconds_left(), CALLER.get()
        until = None if seconds is None else time.monotonic() + DEADLINE_SHARE * seconds
        document = (suffix, bytes_hash(payload), max_bytes)
        with self._changed:
            while (known := self._known(document, until)) is None and not self._may_begin(document, caller, until):
                if not self._changed.wait(None if until is None else max(0.0, until - time.monotonic())):
                    raise _not_in_time()
            if known is not None:
                return known
            converter = self.idle.pop()  # the last one may still have its process
            self._callers[caller] += 1
            shared = set() if until is None else {document}
            self._under_way |= shared
        answer, began = None, time.monotonic()
        try:
            answer = converter.convert(suffix, payload, max_bytes, until)
        except ReadError as error:
            if until is not None and error.kind == "timeout":
                with self._changed:
                    self._late[document] = (until - began, time.monotonic())
            raise
        finally:
            with self._changed:
                self.idle.append(converter)
                self._callers[caller] -= 1
                self._under_way -= shared
                if shared and answer is not None:
                    self._keep(document, answer)
                self._changed.notify_all()
        return answer

    def _known(self, document: Document, until: float | None) -> dict[str, Any] | None:
        """Return the answer if it is kept. Raises ReadError if this request has no more time than a late one had."""
        if until is None:
            return None
        now = time.monotonic()
        self._late = {each: (had, at) for each, (had, at) in self._late.items() if now < at + LATE_SECONDS}
        if document in self._late and self._late[document][0] >= until - now:
            raise _not_in_time()
        if document in self._kept:
            self._kept.move_to_end(document)
        return self._kept.get(document)

    def _may_begin(self, document: Document, caller: str, until: float | None) -> bool:
        if until is None:
            return bool(self.idle) and not self._callers[caller]
        return bool(self.idle) and document not in self._under_way and self._callers[caller] < A_CALLER

    def _keep(self, document: Document, answer: dict[str, Any]) -> None:
        self._kept[document] = answer
        while sum(len(kept.get("text", "")) for kept in self._kept.values()) > KEPT_CHARACTERS:
            self._kept.popitem(last=False)


class Converter:
    """A process that converts documents one after another. The first document starts it; it ends after an idle time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle = threading.Timer(IDLE_SECONDS, self.end)

    def convert(self, suffix: str, payload: bytes, max_bytes: int, until: float | None = None) -> dict[str, Any]:
        """Return the answer of the process.

        Raises ReadError if the process does not answer, or not by `until`, a time of `time.monotonic`.
        """
        with self._lock:
            self._idle.cancel()
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _start()
            try:
                answer = self._ask(self._process, suffix, payload, max_bytes, until)
            except BaseException:  # also on a signal: a late answer must not be taken for the next document's
                self._end()
                raise
            self._idle = threading.Timer(IDLE_SECONDS, self.end)
            self._idle.daemon = True
            self._idle.start()
            return answer

    def end(self) -> None:
        """End the process; the next document starts a new one."""
        with self._lock:
            self._end()

    def _ask(
        self, process: subprocess.Popen[bytes], suffix: str, payload: bytes, max_bytes: int, until: float | None
    ) -> dict[str, Any]:
        requests: Any = process.stdin  # both are pipes
        answers: Any = process.stdout
        most = self.seconds + SECONDS_A_MEGABYTE * len(payload) / 1e6
        late = threading.Event()

        def stop() -> None:
            late.set()
            _kill(process)

        def time_left() -> float:
            return most if until is None else max(0.0, min(most, until - time.monotonic()))

        def next_line(seconds: float, *request: bytes) -> bytes:
            watch = threading.Timer(seconds, stop)
            watch.daemon = True
            watch.start()
            try:
                requests.writelines(request)
                requests.flush()
                return bytes(answers.readline())
            except OSError:  # the process is gone, and gives no answer
                return b""
            finally:
                watch.cancel()

        seconds = time_left()
        line = next_line(seconds, orjson.dumps([suffix, len(payload), max_bytes, seconds]) + b"\n", payload)
        while line == PAGE_DONE:
            seconds = time_left()
            line = next_line(seconds)
        if line.endswith(b"\n"):
            answer: dict[str, Any] = orjson.loads(line)
            return answer
        if late.is_set() and seconds < most:
            raise _not_in_time()
        if late.is_set() or process.wait() == OUT_OF_TIME:
            raise ReadError(
                f"its converter did not finish within {seconds:.0f} s and was stopped: exclude it", "timeout"
            )
        raise ReadError(
            f"its converter crashed, perhaps out of memory (exit status {process.wait()}): exclude it", "crash"
        )

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # closing flushes again what could not be written
                if pipe:
                    pipe.close()


HEAP = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
"""Has glibc return each freed block above 1 MiB to the system.

It would raise that threshold by itself to the size of a picture, and then the heap grew by 10 MB a page.
"""

OUT_OF_TIME = -getattr(signal, "SIGXCPU", 0) or None
"""Exit status of a process that used up its processor time."""


def _start() -> subprocess.Popen[bytes]:
    """Start a process that imports from the same places as this one, in a process group of its own.

    `-P` keeps the current folder, which may be a folder of documents, from being added to these. `HEAP` is for long
    scans.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "findingaid.sources.converters.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=HEAP | os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of `_start`, and those that it started."""
    if sys.platform == "win32":
        process.kill()
    elif process.returncode is None:  # else its number may be another's
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@cache
def _converters(pid: int) -> Converters:
    """Return the converters of this process. A forked process must not share its parent's."""
    return Converters()
