"""Front matter: optional YAML at the start of a Markdown text, between two lines of ---."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isfinite
from typing import Any

import yaml

from findingaid.text.titles import as_title

MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

HEADING = re.compile(r"^#{1,6}[ \t](.+)$", re.MULTILINE)

MAX_CHARACTERS = 20_000
"""Most characters of front matter that is parsed: YAML is slow, and every record of an artifact carries its fields."""

MAX_VALUES = 1_000
"""Most values of all fields together; YAML aliases can expand to many values from few characters."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Parsed fields and the offset at which the text itself begins, or a problem and its line number."""

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
            # Not libyaml: deep nesting overflows its stack and kills the process.
            fields = yaml.safe_load(found[1])
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 2 if error.problem_mark else 1
            return cls(end=end, problem=f"is no YAML: {error.problem}", line=line)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: an invalid date
            return cls(end=end, problem=f"is no YAML: {str(error).splitlines()[0]}")
        if fields is None:
            return cls(end=end)
        if not isinstance(fields, dict):  # text between two horizontal rules
            return cls(problem="is no mapping of names to values", line=2)
        if sum(len(value) if isinstance(value, list) else 1 for value in fields.values()) > MAX_VALUES:
            return cls(end=end, problem=f"has more than {MAX_VALUES:,} values")
        return cls(fields, end)


def file_metadata(markdown: str, name: str) -> dict[str, Any]:
    """Return the metadata of a Markdown file called `name`: its title, and its front matter as filter fields.

    Values are texts, numbers, dates and lists of these; other values are left out. If the front matter is invalid, the
    field `front_matter` states the problem. A text that merely begins with a line --- has no front matter. The title is
    that of the front matter, else the first heading, else the name.
    """
    found = FrontMatter.of(markdown)
    fields = dict(_filter_fields(found.fields))
    if found.end and found.problem:
        fields["front_matter"] = f"line {found.line}: {found.problem}"
    title = fields.get("title")
    said = title if isinstance(title, str) else _heading(markdown, found.end)
    return {**fields, "title": as_title(said) or name}


def _filter_fields(fields: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields with values that a filter can compare."""
    for name, value in fields.items():
        plain = [_plain(item) for item in value] if isinstance(value, list) else _plain(value)
        if isinstance(name, str) and plain not in (None, "") and (not isinstance(plain, list) or None not in plain):
            yield name, plain


def _plain(value: Any) -> str | int | float | None:
    """Convert a value to a JSON scalar; return None if it is not a single text, number or date."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value.strip().encode("utf-8", "replace").decode()  # YAML can write a lone surrogate
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    return value if isinstance(value, float) and isfinite(value) else None


def _heading(markdown: str, start: int) -> str:
    found = HEADING.search(markdown, start)
    return _without_closing(found[1].strip(" \t")).strip() if found else ""


def _without_closing(title: str) -> str:
    """Remove the run of # that may close a heading; if nothing else is left, keep one #."""
    return title.rstrip("#").rstrip(" \t") or title[:1]
