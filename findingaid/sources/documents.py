"""Documents that are no plain text, and the process in which their converters work.

A converter reads what anyone may have written, so it works in a process of its own: where it hangs, swallows
memory or crashes, that process is ended, one artifact fails, and the next one gets a new process.
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
"""Raised when the same converters' results are put together otherwise, so that documents are read again."""

SECONDS = 120.0
SECONDS_A_MEGABYTE = 10.0
"""How long a converter may take. A PDF of 1,000 pages takes a second, a Word document one a megabyte of its text."""

IDLE_SECONDS = 30.0
"""After so long without a document the process ends; it holds some 150 MB, and takes 2 s to start."""


class Format(NamedTuple):
    """What a file suffix stands for; the installed versions of `converters` decide what text comes out.

    `is_text` is whether a file can also be indexed as it is, where they are not installed.
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
    """The format that a file's name says; None for what is read as it is."""
    return FORMATS.get(os.path.splitext(name)[1].lower())


def converter_id(name: str) -> str:
    """What converts a file of this name, with versions, so that an upgrade is noticed; "" where nothing does."""
    found = format_of(name)
    return "" if found is None else _versions(found.converters)


@cache
def _versions(distributions: tuple[str, ...]) -> str:
    try:
        return "+".join((REVISION, *(f"{name}-{version(name)}" for name in distributions)))
    except PackageNotFoundError:
        return ""


def converted(name: str, payload: bytes, max_bytes: int) -> tuple[str, dict[str, Any]] | None:
    """A document's text and what it says of itself (title, author, n_pages, text_type); None for plain text.

    Raises ReadError for a document that cannot be converted, or to more than `max_bytes` of text.
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
    """A process that converts one document after another: started for the first, ended when it was idle."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle = threading.Timer(IDLE_SECONDS, self.end)

    def convert(self, suffix: str, payload: bytes, max_bytes: int) -> dict[str, Any]:
        """What findingaid.sources.convert answers. Raises ReadError where it does not."""
        with self._lock:
            self._idle.cancel()
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _start()
            try:
                answer = self._ask(self._process, suffix, payload, max_bytes)
            except BaseException:  # also of a signal: what it answers later must not be taken for the next document's
                self._end()
                raise
            self._idle = threading.Timer(IDLE_SECONDS, self.end)
            self._idle.daemon = True
            self._idle.start()
            return answer

    def end(self) -> None:
        """End the process; the next document gets a new one."""
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
            with suppress(OSError):  # it is gone, and answers nothing
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
            raise ReadError(f"its converter was not done after {seconds:.0f} s, and was ended: exclude it", "timeout")
        raise ReadError(
            f"its converter crashed, perhaps for want of memory (exit status {process.wait()}): exclude it", "parse"
        )

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # what could not be written to it, once more
                if pipe:
                    pipe.close()


def _start() -> subprocess.Popen[bytes]:
    """A process that imports from where this one does, so not from the folder of documents that it may stand in."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "findingaid.sources.convert"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )


@cache
def _converter(pid: int) -> Converter:
    """That of this process; one that was forked must not share its parent's."""
    return Converter()
