"""Documents that are not plain text, and the process that runs their converters.

A converter reads untrusted input, so it works in a separate process. If it hangs, uses too much memory or crashes, that
process is ended, one artifact fails, and the next one gets a new process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import orjson

from findingaid.errors import ReadError

REVISION = "1"
"""Version of the conversion.

Increment it when the same converters' results are combined differently, so that documents are read again.
"""

SECONDS = 120.0
SECONDS_A_MEGABYTE = 10.0
"""Time limit of a converter.

A PDF of 1,000 pages takes a second; a Word document takes a second per megabyte of its text.
"""

IDLE_SECONDS = 30.0
"""Idle time after which the process ends. It holds some 150 MB, and takes 2 s to start."""


class Format(NamedTuple):
    """Document format of a file suffix. The installed versions of `converters` determine the extracted text.

    `is_text` says whether a file can be indexed as it is if the converters are not installed.
    """

    name: str
    converters: tuple[str, ...]
    is_text: bool = False


HTML = Format("HTML page", ("markitdown", "markdownify", "lxml"), is_text=True)

FORMATS: Mapping[str, Format] = {
    ".pdf": Format("PDF", ("pypdfium2",)),
    ".docx": Format("Word document", ("markitdown", "mammoth", "markdownify")),
    ".pptx": Format("PowerPoint file", ("markitdown", "python-pptx")),
    ".epub": Format("EPUB", ("markitdown", "markdownify", "beautifulsoup4")),
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".ipynb": Format("Jupyter notebook", ("markitdown",), is_text=True),
}


def format_of(name: str) -> Format | None:
    """Return the document format of a file name; None for files that are read as they are."""
    if f".{name.rpartition('.')[2].lower()}" not in FORMATS:  # most files, in half the time
        return None
    return FORMATS.get(os.path.splitext(name)[1].lower())


def converter_id(name: str) -> str:
    """Return the converters of a file with this name, or "" if there are none.

    The result includes their versions, so that an upgrade is noticed.
    """
    found = format_of(name)
    return "" if found is None else _versions(found.converters)


@cache
def _versions(distributions: tuple[str, ...]) -> str:
    try:
        return "+".join((REVISION, *(f"{name}-{version(name)}" for name in distributions)))
    except PackageNotFoundError:
        return ""


def convert_document(name: str, payload: bytes, max_bytes: int) -> tuple[str, dict[str, Any]] | None:
    """Return a document's text and its own metadata (title, author, n_pages, text_type).

    Return None for plain text, and for a text format whose converter is not installed. Raises ReadError for a document
    that cannot be converted, or whose text is longer than `max_bytes`.
    """
    found = format_of(name)
    if found is None:
        return None
    if not _versions(found.converters):
        if found.is_text:
            return None
        raise ReadError(
            f"a {found.name}, and no converter is installed: pip install 'findingaid[documents]', or exclude it",
            "no_converter",
        )
    answer = _converter(os.getpid()).convert(os.path.splitext(name)[1].lower(), payload, max_bytes)
    if "error" in answer:
        raise ReadError(answer["error"], answer["kind"])
    return answer["text"], answer["metadata"]


class Converter:
    """A process that converts documents one after another. The first document starts it; it ends after an idle time."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle = threading.Timer(IDLE_SECONDS, self.end)

    def convert(self, suffix: str, payload: bytes, max_bytes: int) -> dict[str, Any]:
        """Return the answer of findingaid.sources.convert. Raises ReadError if the process does not answer."""
        with self._lock:
            self._idle.cancel()
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _start()
            try:
                answer = self._ask(self._process, suffix, payload, max_bytes)
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

    def _ask(self, process: subprocess.Popen[bytes], suffix: str, payload: bytes, max_bytes: int) -> dict[str, Any]:
        requests: Any = process.stdin  # both are pipes
        answers: Any = process.stdout
        seconds = self.seconds + SECONDS_A_MEGABYTE * len(payload) / 1e6
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        watch = threading.Timer(seconds, stop)
        watch.daemon = True
        watch.start()
        line = b""
        try:
            with suppress(OSError):  # the process is gone, and gives no answer
                requests.write(orjson.dumps([suffix, len(payload), max_bytes]) + b"\n")
                requests.write(payload)
                requests.flush()
                line = answers.readline()
        finally:
            watch.cancel()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = orjson.loads(line)
            return answer
        if late.is_set():
            raise ReadError(
                f"its converter did not finish within {seconds:.0f} s and was stopped: exclude it", "timeout"
            )
        raise ReadError(
            f"its converter crashed, perhaps out of memory (exit status {process.wait()}): exclude it", "parse"
        )

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # closing flushes again what could not be written
                if pipe:
                    pipe.close()


def _start() -> subprocess.Popen[bytes]:
    """Start a process that imports from the same places as this one.

    `-P` keeps the current folder, which may be a folder of documents, from being added to these.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "findingaid.sources.convert"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )


@cache
def _converter(pid: int) -> Converter:
    """Return the converter of this process. A forked process must not share its parent's."""
    return Converter()
