"""Patterns, as in .gitignore, that leave files out of a source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import PurePosixPath

SIGNS = re.compile(r"([\\*?\[\]!# ])")
"""Characters with a special meaning in a pattern."""


def escape(path: str) -> str:
    """Return a path in which no character has a special meaning."""
    return SIGNS.sub(r"\\\1", path)


def pattern_of(path: str) -> str:
    """Return the pattern that matches one path only."""
    return f"/{escape(path)}"


def exclude_patterns(paths: Collection[str], kept: Collection[str]) -> list[str]:
    """Return few patterns that match `paths`: one for a suffix, unless a file in `kept` has it too."""
    by_suffix: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        by_suffix[PurePosixPath(path).suffix].append(path)
    of_kept = {"", *(PurePosixPath(path).suffix for path in kept)}
    return [
        pattern
        for suffix, group in by_suffix.items()
        for pattern in (map(pattern_of, group) if suffix in of_kept or len(group) == 1 else [f"*{escape(suffix)}"])
    ]
