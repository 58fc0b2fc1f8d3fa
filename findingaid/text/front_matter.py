"""Front matter: optional YAML at the start of a Markdown text, between two lines of ---."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isfinite
from typing import Any

import yaml

from findingaid.model import Note

MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

MAX_CHARACTERS = 20_000
"""Most characters of front matter that is parsed: YAML is slow, and every record of an artifact carries its fields."""

MAX_VALUES = 1_000
"""Most values of all fields together; YAML aliases can expand to many values from few characters."""


class _Loader(yaml.SafeLoader):
    """YAML in which a scalar keeps its text: a number is one only if it is written as numbers are.

    YAML 1.1 has octal numbers (01234), sexagesimal ones (12:30), and takes NO and 1.10 for false and 1.1.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in known if tag.endswith((":null", ":merge", ":timestamp"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: dict[str, None] = {}

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Compose a mapping, and note the keys that it repeats with another value."""
        node = super().compose_mapping_node(anchor)
        before: dict[str, Any] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                name = key.value.lower()
                if name in before and getattr(before[name], "value", None) != getattr(value, "value", None):
                    self.repeated[key.value] = None
                before[name] = value
        return node


def _time(loader: _Loader, node: Any) -> Any:
    """Return a date or time, or the text of one that does not exist."""
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError:
        return node.value


def _float(loader: _Loader, node: Any) -> float | str:
    """Return a number, or the text of one that has other digits than the number would show."""
    value: float = loader.construct_yaml_float(node)
    return value if not isfinite(value) or repr(value) == node.value else str(node.value)


for tag, pattern, first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)\.[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _time)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Parsed fields and the offset at which the text itself begins, or a problem and its line number."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    problem: str = ""
    line: int = 1
    notes: tuple[Note, ...] = ()

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
            loader = _Loader(found[1])
            fields = loader.get_single_data()
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
        notes = (Note("repeated_key", f"front matter repeats {name}: the last counts") for name in loader.repeated)
        return cls(fields, end, notes=tuple(notes))


def filter_fields(front: FrontMatter) -> dict[str, Any]:
    """Return the fields of front matter with values that a filter can compare, by their names in lower case.

    Values are texts, numbers, dates and lists of these; other values are left out. If the front matter is invalid, the
    field `front_matter` states the problem. A text that merely begins with a line --- has no front matter.
    """
    found = dict(_filter_fields(front.fields))
    if front.end and front.problem:
        found["front_matter"] = f"line {front.line}: {front.problem}"
    return found


def _filter_fields(fields: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        plain = [_plain(item) for item in value] if isinstance(value, list) else _plain(value)
        if isinstance(name, str) and plain not in (None, "") and (not isinstance(plain, list) or None not in plain):
            yield name.lower(), plain


def _plain(value: Any) -> str | int | float | None:
    """Convert a value to a JSON scalar; return None if it is not a single text, number or date."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value.strip().encode("utf-8", "replace").decode()  # YAML can write a lone surrogate
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    return value if isinstance(value, float) and isfinite(value) else None
