"""Explanations of error kinds, from `errors.md`, which the reference page of errors shows too."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from findingaid.errors import QueryError, brief

FOLDER = PurePosixPath("docs/reference")
"""Folder of the page that shows the sections. Their links are relative to it."""

SECTION = re.compile(r"^##+ (\w+)$\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| ([a-z_, ]+) \| ([a-z]+) \| (.+) \|$", re.MULTILINE)
"""Row of the table of failure kinds: names, what they are kinds of, meaning."""

LINK = re.compile(r"\[([^\]]+)\]\(([^)#]*)(?:#[^)]*)?\)")


@cache
def explanations() -> dict[str, str]:
    """Map each kind to its explanation: the classes of errors, such as ConfigError, and the kinds of failures."""
    page = files("findingaid").joinpath("errors.md").read_text("utf-8")
    sections = {name: _plain(text) for name, text in SECTION.findall(page)}
    rows = [
        (name.strip(), meaning if of == "any" else f"{of}: {meaning}")
        for names, of, meaning in ROW.findall(page)
        for name in names.split(",")
    ]
    return sections | {name: _plain(text) for name, text in rows if name != "kind"}


def explain(kind: str) -> tuple[str, str]:
    """Return the name of an error kind as the page spells it, and its explanation. Raises QueryError if unknown."""
    found = {name.lower(): (name, text) for name, text in explanations().items()}
    if kind.lower() not in found:
        raise QueryError(f"{brief(kind)} is not a kind of error. Known: {', '.join(explanations())}")
    return found[kind.lower()]


def _plain(text: str) -> str:
    """Return Markdown with links as their text and the page that they lead to."""
    return LINK.sub(_link, text).strip()


def _link(found: re.Match[str]) -> str:
    """Return the text of a link and, unless the link stays on its page, the page in the documentation."""
    text, target = found.groups()
    parts: list[str] = []
    for part in (FOLDER / target).parts if target else ():
        parts = parts[:-1] if part == ".." else [*parts, part]
    return f"{text} ({'/'.join(parts)})" if parts else text
