"""Plain-text descriptions of a JSON schema's parameters. The schema is untrusted input."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from itertools import chain, islice
from typing import Any, TypeVar

MAX_PARAMETERS = 200
MAX_DEPTH = 4
MAX_CHOICES = 12
"""Limits on number, depth and breadth, since an untrusted schema may refer to itself."""

T = TypeVar("T")

Schema = MutableMapping[str, Any]


def parameter_lines(schema: Schema) -> tuple[list[str], bool]:
    """Return a line per parameter, nested ones by their path: "size.width (integer, required): in pixels".

    Also return whether there are more than MAX_PARAMETERS, which are left out.
    """
    lines = list(islice(_below(schema, _resolved(schema, schema), "", MAX_DEPTH), MAX_PARAMETERS + 1))
    return lines[:MAX_PARAMETERS], len(lines) > MAX_PARAMETERS


def _below(root: Schema, schema: ChainMap[str, Any], prefix: str, depth: int) -> Iterator[str]:
    required = [*chain(*_stated(schema, "required", list))]
    properties = dict(chain(*(each.items() for each in _stated(schema, "properties", dict))))
    for name, declared in properties.items():
        found = _resolved(root, declared)
        wanted = name in required
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
        kinds = [_type(root, _referred(root, one), depth - 1) for one in alternatives[:MAX_CHOICES]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if declared == "array" and depth > 1 and "items" in schema:
        return f"array of {_type(root, _referred(root, schema['items']), depth - 1) or 'any'}"
    return declared if isinstance(declared, str) else ""


def _object(root: Schema, schema: ChainMap[str, Any]) -> ChainMap[str, Any]:
    """Return the schema with a parameter's nested properties: its own, or that of an array's elements."""
    return _resolved(root, schema["items"]) if "items" in schema else schema


def _resolved(root: Schema, schema: Any) -> ChainMap[str, Any]:
    """Return what a schema refers to, before what the parts of its `allOf` state; theirs is not looked at."""
    found = _referred(root, schema)
    parts = found.get("allOf")
    return ChainMap(
        found, *(_referred(root, part) for part in (parts[:MAX_CHOICES] if isinstance(parts, list) else ()))
    )


def _stated(schema: ChainMap[str, Any], key: str, kind: type[T]) -> list[T]:
    """Return every value of a kind that a schema and the parts of its `allOf` have for a key."""
    return [each[key] for each in (*schema.maps[1:], schema.maps[0]) if isinstance(each.get(key), kind)]


def _referred(root: Schema, schema: Any) -> Schema:
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
