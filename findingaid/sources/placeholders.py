"""Files that stand for others and are no documents: lock and temporary files of programs, and pointers of Git LFS."""

from __future__ import annotations

import re

TEMPORARY = "a lock or temporary file of an editor or office program"
POINTER = "a pointer of Git LFS, not the file itself: run `git lfs pull`"
"""Reasons for which such files are skipped."""

TEMPORARY_NAME = re.compile(r"~\$.*|~.*\.tmp|\.~lock\..*#|\.#.*|#.*#|\._.*|.*\.sw[nop]", re.DOTALL | re.IGNORECASE)
"""Names of Microsoft Office, LibreOffice, Emacs, macOS and Vim."""

POINTER_BYTES = 1024
"""Most bytes of a pointer, by the specification of Git LFS."""

POINTER_CONTENT = re.compile(
    rb"version https?://(git-lfs\.github\.com/spec|hawser\.github\.com/spec|git-media\.io)/v\d\r?\n"
    rb"(ext-\d-\S+ \S+\r?\n)*oid sha256:[0-9a-f]{64}\r?\nsize \d+\s*"
)


def is_temporary(path: str) -> bool:
    """Return whether a file is a lock or temporary file, by its name."""
    return TEMPORARY_NAME.fullmatch(path.rpartition("/")[2]) is not None


def is_pointer(content: bytes) -> bool:
    """Return whether the content of a file is a pointer of Git LFS."""
    return len(content) <= POINTER_BYTES and POINTER_CONTENT.fullmatch(content) is not None
