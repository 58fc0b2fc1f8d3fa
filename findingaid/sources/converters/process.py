"""Converter process that turns documents into text; findingaid.sources.documents starts and watches it.

It reads a line of JSON, [suffix, bytes, max_bytes, seconds], then the document. It answers with a line of JSON, and
before it with an empty line for each page whose text it recognized, since the next one has as much time.

It limits its own memory and processor time. It ends with the process that started it, also in the middle of a document.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, NoReturn

import orjson

from findingaid.errors import ReadError
from findingaid.sources.converters.convert import convert
from findingaid.sources.converters.ocr import page_done
from findingaid.sources.converters.scans import page_picture
from findingaid.sources.documents import PAGE, PAGE_DONE

MOST_MEMORY = 4_000_000_000
"""Memory limit of the process, on systems that support one. Half of the machine's memory is the limit if it is less, or
what this process was given."""


def _memory_limit() -> int:
    limits = [MOST_MEMORY]
    with suppress(AttributeError, OSError, ValueError):  # the system does not tell
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limits += [most] if most != resource.RLIM_INFINITY else []
    return min(limits)


MEMORY_BYTES = _memory_limit()

NO_MEMORY = orjson.dumps(
    {"error": f"converting it takes more than {MEMORY_BYTES / 1e9:.1f} GB of memory: exclude it", "kind": "too_large"}
)

Request = tuple[str, bytes, int, float]
"""A document's suffix, its payload, the most bytes of its text, and the seconds that it may take."""


def answer(suffix: str, payload: bytes, max_bytes: int) -> bytes:
    """Return the answer for one document: its text and metadata, or an error and its kind."""
    try:
        page = suffix.removeprefix(PAGE)
        made = page_picture(payload, int(page)) if page != suffix else convert(suffix, payload, max_bytes)
        return orjson.dumps(made._asdict())
    except ReadError as error:
        return orjson.dumps({"error": str(error), "kind": error.kind})
    except MemoryError:
        pass  # the error holds the memory until here
    gc.collect()
    return NO_MEMORY


def serve(requests: BinaryIO, answers: BinaryIO) -> NoReturn:
    """Answer requests one after the other, until the process ends with their end."""
    received: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received), daemon=True).start()
    while True:
        suffix, payload, max_bytes, seconds = received.get()

        def renew_time(seconds: float = seconds) -> None:
            _limit_time(seconds)
            answers.write(PAGE_DONE)
            answers.flush()

        page_done.set(renew_time)
        _limit_time(seconds)
        answers.write(answer(suffix, payload, max_bytes) + b"\n")
        answers.flush()


def _receive(requests: BinaryIO, received: SimpleQueue[Request]) -> None:
    """Receive requests, and end the process when there are no more, that is, when the parent process has ended."""
    with suppress(OSError, ValueError):
        while line := requests.readline():
            suffix, size, max_bytes, seconds = orjson.loads(line)
            payload = requests.read(size)
            if len(payload) < size:
                break
            received.put((suffix, payload, max_bytes, seconds))
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the processes that a converter may have started
    os._exit(0)


def _limit_time(seconds: float) -> None:
    """Limit the processor time from now on, for a converter that lets no other thread of this process run."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        until = math.ceil(time.process_time() + seconds) + 1
        with suppress(ValueError):  # the limit of this process is lower
            resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _limit_memory() -> None:
    """Limit the memory of this process, and have it leave no image of its memory behind.

    If memory is short all the same, as in a container, Linux ends this process before the one that started it.
    """
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    """Serve on the original standard input and output, which are hidden from the converters."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "r+b") as nothing:
        for descriptor in (0, 1, 2):
            os.dup2(nothing.fileno(), descriptor)
    _limit_memory()
    serve(requests, answers)


if __name__ == "__main__":
    main()
