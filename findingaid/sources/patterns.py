"""Patterns, as in .gitignore, that select the files of a source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from unicodedata import normalize

from findingaid.errors import ConfigError, brief

MOST_ALTERNATIVES = 1_000
"""Most patterns that one pattern with braces may stand for."""

BRACES = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")
"""Innermost alternatives, as in *.{md,mdx}."""

HERE = re.compile(r"(\./+)+")

OF_WINDOWS = re.compile(r"(?<!\\)((?:\\\\)*)\\(?=\w)")
"""A path of Windows: in a pattern, a backslash only takes the meaning from a sign."""

SIGNS = re.compile(r"([\\*?\[\]{!# ])")
"""Characters with a special meaning in a pattern."""


def escape(path: str) -> str:
    """Return a path in which no character has a special meaning."""
    return SIGNS.sub(r"\\\1", path.replace("\n", " "))  # as `Patterns.match` compares it


def shown_name(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 shown as escapes."""
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # not from bytes, as in the key of an object
        return name.encode("utf-8", "backslashreplace").decode()


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


class Patterns:
    """Patterns of one setting, compared with paths in one form of Unicode; `unmatched` are those that matched none.

    Beyond those of .gitignore they may have alternatives in braces, and may begin with `./`.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        from pathspec import PathSpec  # imported here, since a source without patterns does not need it

        self._patterns = [
            (pattern, line)
            for line in lines
            for pattern in PathSpec.from_lines("gitignore", list(_expanded(line))).patterns
        ]
        self._patterns.reverse()
        self.unmatched = {line: None for _, line in reversed(self._patterns)}

    @property
    def matchable(self) -> bool:
        """Whether there is a pattern, and not only blank lines and comments."""
        return any(pattern.include is not None for pattern, _ in self._patterns)

    def match(self, path: str) -> bool:
        """Return what the last pattern that matches a path says; a folder's path ends in "/".

        A name that is not valid UTF-8 is compared as failures show it.
        """
        if not path.isascii():
            path = normalize("NFC", shown_name(path))
        if "\n" in path:
            path = path.replace("\n", " ")  # "**" does not match line ends
        decided: bool | None = None
        for pattern, line in self._patterns:
            if decided is not None and line not in self.unmatched:
                continue
            if pattern.include is not None and pattern.regex and pattern.regex.search(path):
                self.unmatched.pop(line, None)
                decided = bool(pattern.include) if decided is None else decided
            if decided is not None and not self.unmatched:
                break
        return bool(decided)


def check_pattern(name: str, pattern: str) -> None:
    """Raise ConfigError for a pattern that cannot match, with the form that can."""
    if OF_WINDOWS.search(pattern):
        right = OF_WINDOWS.sub(r"\1/", pattern)
        raise ConfigError(f"{name}: {brief(pattern)} has a backslash between names: write {right!r}")
    if pattern.lstrip("!").startswith("../"):
        raise ConfigError(f"{name}: {brief(pattern)} leads out of the root: set source.root above both")
    try:
        Patterns([pattern])
    except (ValueError, re.error):
        raise ConfigError(f"{name}: {brief(pattern)} is not a pattern as in .gitignore: correct it") from None


def unmatched_note(name: str, patterns: Sequence[str], root: str) -> str:
    """Return the line that names patterns which matched no file and no folder; `root` is the name of the root."""
    own = any(pattern.lstrip("!/").startswith(f"{root}/") for pattern in patterns) if root else False
    hint = f"; paths begin below the root, without its own name {root}/" if own else ""
    return f"source.{name}: matched nothing: {', '.join(patterns)}{hint}"


def _expanded(line: str) -> Iterator[str]:
    """Yield the patterns of .gitignore for one with braces. Raises ValueError for too many."""
    lines, done = [normalize("NFC", line)], []
    while lines:
        pattern = lines.pop()
        found = BRACES.search(pattern)
        if found is None:
            done.append(pattern)
        else:
            before, behind = pattern[: found.start()], pattern[found.end() :]
            lines += [f"{before}{each}{behind}" for each in reversed(found[1].split(","))]
        if len(lines) + len(done) > MOST_ALTERNATIVES:
            raise ValueError("too many alternatives")
    for pattern in done:
        sign = "!" * pattern.startswith("!")
        path = pattern.removeprefix("!")
        here = HERE.match(path)
        yield f"{sign}/{path[here.end() :] or '**'}" if here else pattern
