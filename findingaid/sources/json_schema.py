"""Plain-text descriptions of a JSON schema's parameters. The schema is untrusted input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

MAX_PARAMETERS = 200
MAX_DEPTH = 4
MAX_CHOICES = 12
"""Limits on number, depth and breadth, since an untrusted schema may refer to itself."""

Schema = Mapping[str, Any]


def parameter_lines(schema: Schema) -> list[str]:
    """Return a line per parameter, nested ones by their path: "size.width (integer, required): in pixels"."""
    return list(islice(_below(schema, schema, "", MAX_DEPTH), MAX_PARAMETERS))


def _below(root: Schema, schema: Schema, prefix: str, depth: int) -> Iterator[str]:
    required = schema.get("required")
    for name, declared in _mapping(schema.get("properties")).items():
        found = _resolved(root, declared)
        wanted = isinstance(required, list) and name in required
        kind = ", ".join(part for part in (_type(root, found, MAX_DEPTH), "required" * wanted) if part)
        said = "; ".join(_said(found, _mapping(declared)))
        yield f"{prefix}{name}" + (f" ({kind})" if kind else "") + (f": {said}" if said else "")
        if depth > 1:
            yield from _below(root, _object(root, found), f"{prefix}{name}.", depth - 1)


def _said(schema: Schema, declared: Schema) -> Iterator[str]:
    """Yield a parameter's description, or else that of its type, then its allowed values and its default."""
    description = declared.get("description") or schema.get("description")
    if isinstance(description, str) and description.strip():
        yield description.strip()
    if isinstance(choices := schema.get("enum"), list) and choices:
        more = ", …" if len(choices) > MAX_CHOICES else ""
        yield f"one of {', '.join(map(str, choices[:MAX_CHOICES]))}{more}"
    default = declared.get("default", schema.get("default"))
    if isinstance(default, str | int | float) and default != "":
        yield f"default {default}"


def _type(root: Schema, schema: Schema, depth: int) -> str:
    declared = schema.get("type")
    if isinstance(declared, list):
        return " or ".join(str(one) for one in declared[:MAX_CHOICES])
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(alternatives, list) and depth > 1:
        kinds = [_type(root, _resolved(root, one), depth - 1) for one in alternatives[:MAX_CHOICES]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if declared == "array" and depth > 1 and "items" in schema:
        return f"array of {_type(root, _resolved(root, schema['items']), depth - 1) or 'any'}"
    return declared if isinstance(declared, str) else ""


def _object(root: Schema, schema: Schema) -> Schema:
    """Return the schema with a parameter's nested properties: its own, or that of an array's elements."""
    return _resolved(root, schema["items"]) if "items" in schema else schema


def _resolved(root: Schema, schema: Any) -> Schema:
    """Return a schema, or the one in `$defs` or `definitions` that it refers to; {} for any other reference."""
    reference = _mapping(schema).get("$ref")
    if not isinstance(reference, str):
        return _mapping(schema)
    for key in ("$defs", "definitions"):
        if reference.startswith(f"#/{key}/"):
            return _mapping(_mapping(root.get(key)).get(reference.removeprefix(f"#/{key}/")))
    return {}


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}
