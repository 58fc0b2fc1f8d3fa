"""YAML that people write by hand, in which a duplicate key is an error."""

from __future__ import annotations

from typing import Any

import yaml

from findingaid.errors import brief

MERGE = "tag:yaml.org,2002:merge"
"""Tag of YAML's merge key `<<`, which includes the keys of other mappings."""


class _Loader(yaml.SafeLoader):
    """YAML loader that rejects duplicate keys in a mapping; otherwise the last one would silently win."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[object, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE):
            if before := lines.get((key.tag, key.value)):
                raise yaml.MarkedYAMLError(
                    problem=f"{brief(key.value)} is a duplicate key, first at line {before}: remove one",
                    problem_mark=key.start_mark,
                )
            lines[key.tag, key.value] = key.start_mark.line + 1
        return node


def parse_yaml(text: str) -> Any:
    """Parse YAML. Raises ValueError for a syntax error, with its line, and for a duplicate key."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(
            f"{f' line {mark.line + 1}' if mark else ''}: not YAML: {getattr(error, 'problem', error)}"
        ) from None
    except RecursionError:
        raise ValueError(": not YAML: nested too deep") from None
    except ValueError as error:  # an invalid date or number
        raise ValueError(f": not YAML: {error}") from None
