"""Files that decide what a process does: its configuration, its prompts and the user's code, as it read them.

A process that goes on for long would otherwise take back what a run with the newer files has indexed.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from pathlib import Path

from findingaid.identity.code import Origin, module_file, origin

_READ: dict[Path, bytes | None] = {}


def read_input(path: Path) -> str:
    """Read a file of UTF-8, and keep its content for `changed_input`. Raises OSError and UnicodeDecodeError."""
    content = path.read_bytes()
    if path.is_file():  # a pipe, as of a shell's <(...), cannot be read again
        _READ[path] = content
    return io.TextIOWrapper(io.BytesIO(content), "utf-8").read()


def changed_input() -> Path | None:
    """Return a file that differs from what this process read, or None.

    A module of the user's counts from the first call after it was loaded.
    """
    for module in list(sys.modules):
        if origin(module) is Origin.OWN and (file := module_file(module)):
            _READ.setdefault(file, _content(file))
    return next((path for path, content in _READ.items() if _content(path) != content), None)


def _content(path: Path) -> bytes | None:
    with suppress(OSError):  # gone, or being replaced
        return path.read_bytes()
    return None
