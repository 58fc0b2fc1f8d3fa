"""Front matter: the YAML that a Markdown text may begin with, between two lines of ---."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isfinite
from typing import Any

import yaml

MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)

MAX_CHARACTERS = 20_000
"""Longer front matter is not parsed: YAML takes its time, and every record of an artifact carries its fields."""

MAX_VALUES = 1_000
"""Values of all fields together; aliases may stand for many in few characters."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields, and where the text itself begins; or what is wrong, and in which line."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    problem: str = ""
    line: int = 1

    @classmethod
    def of(cls, text: str) -> FrontMatter:
        found = MATTER.match(text)
        if found is None:
            begun = text.startswith("---")
            return cls(problem="is never closed by a line ---" if begun else "is missing: begin with a line ---")
        end = found.end()
        if len(found[1]) > MAX_CHARACTERS:
            return cls(end=end, problem=f"is longer than {MAX_CHARACTERS:,} characters")
        try:
            # Not libyaml: nested deeply enough it overflows the stack, and the process is gone.
            fields = yaml.safe_load(found[1])
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 2 if error.problem_mark else 1
            return cls(end=end, problem=f"is no YAML: {error.problem}", line=line)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that is none
            return cls(end=end, problem=f"is no YAML: {str(error).splitlines()[0]}")
        if fields is None:
            return cls(end=end)
        if not isinstance(fields, dict):  # text between two rulers
            return cls(problem="is no mapping of names to values", line=2)
        if sum(len(value) if isinstance(value, list) else 1 for value in fields.values()) > MAX_VALUES:
            return cls(end=end, problem=f"has more than {MAX_VALUES:,} values")
        return cls(fields, end)


def described(markdown: str, name: str) -> dict[str, Any]:
    """What a Markdown file called `name` says of itself: its title, and fields of its front matter as filter fields.

    Texts, numbers, dates and lists of these are taken. Where front matter is no YAML `front_matter` says so; a text
    that merely begins with a line --- has none. The title is that of the front matter, else the first heading, else
    the name.
    """
    found = FrontMatter.of(markdown)
    fields = dict(_filter_fields(found.fields))
    if found.end and found.problem:
        fields["front_matter"] = f"line {found.line}: {found.problem}"
    title = fields.get("title")
    said = " ".join(title.split()) if isinstance(title, str) else _heading(markdown, found.end)
    return {**fields, "title": said or name}


def _filter_fields(fields: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The fields that say something which a filter can compare."""
    for name, value in fields.items():
        plain = [_plain(item) for item in value] if isinstance(value, list) else _plain(value)
        if isinstance(name, str) and plain not in (None, "") and (not isinstance(plain, list) or None not in plain):
            yield name, plain


def _plain(value: Any) -> str | int | float | None:
    """A value as JSON knows it; None for what is no single one."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value.strip().encode("utf-8", "replace").decode()  # YAML can spell half a pair of surrogates
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    return value if isinstance(value, float) and isfinite(value) else None


def _heading(markdown: str, start: int) -> str:
    found = HEADING.search(markdown, start)
    return found[1].strip() if found else ""
