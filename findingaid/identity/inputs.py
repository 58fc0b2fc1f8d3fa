"""Files that decide what a process does: its configuration, its prompts and its code, as they were when it read them.

A process that goes on for long would otherwise take back what a run with the newer files has indexed.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from types import ModuleType

_READ: dict[str, tuple[int, ...] | None] = {}
"""State of each file when it was read, see `_state`."""


def read_input(path: Path) -> str:
    """Read a file of UTF-8, and keep its state for `changed_input`. Raises OSError and UnicodeDecodeError."""
    _READ[str(path)] = _state(str(path))
    return path.read_text("utf-8")


def changed_input() -> str | None:
    """Return a file that was written or removed since this process read it, or None.

    A module counts from the first call after it was loaded: also one of a library, which may be upgraded meanwhile.
    """
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(file, str):
            _READ.setdefault(file, _state(file))
    return next((file for file, state in _READ.items() if _state(file) != state), None)


def _state(file: str) -> tuple[int, ...] | None:
    """Return what changes with each write of a file; None without a file, and for a pipe, as of a shell's <(...)."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
