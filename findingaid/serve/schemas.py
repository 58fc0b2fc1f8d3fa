"""JSON schemas of tools: brief ones, and ones for results without empty fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DROPPED = frozenset({"title", "additionalProperties"})


def brief_input(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an input without titles, and without null where it only means the default."""
    properties = {name: _brief_field(of) for name, of in schema["properties"].items()}
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"type": "object", "properties": properties, **required}


def _brief_field(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in DROPPED}
    if "anyOf" in kept and "default" in kept:
        kinds = [each for each in kept.pop("anyOf") if each.get("type") != "null"]
        kept = {**kinds[0], **kept} if len(kinds) == 1 else {"anyOf": kinds, **kept}
    if kept.get("default", 0) in (None, "", []):
        del kept["default"]
    return kept


def brief_output(schema: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an output with the types of these properties, without the shapes within them."""
    defined = schema.get("$defs", {})
    kinds = [_resolved(each, defined)["properties"] for each in schema.get("anyOf", [schema])]
    alternatives = {name: [kind[name] for kind in kinds if name in kind] for name in names}
    return {"type": "object", "properties": {name: _type(alike, defined) for name, alike in alternatives.items()}}


def _type(alternatives: Sequence[Mapping[str, Any]], defined: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the type of all alternatives but null; one without a type if they differ."""
    given = [each for schema in alternatives for each in schema.get("anyOf", [schema])]
    types = {_resolved(each, defined).get("type") for each in given} - {"null"}
    return {"type": types.pop()} if len(types) == 1 and None not in types else {}


def _resolved(schema: Mapping[str, Any], defined: Mapping[str, Any]) -> Mapping[str, Any]:
    return defined[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def without_required(schema: Any) -> Any:
    """Return a JSON schema whose objects require no property, because empty ones are left out."""
    if isinstance(schema, list):
        return [without_required(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema if "properties" not in schema else {key: schema[key] for key in schema if key != "required"}
    return {key: without_required(value) for key, value in kept.items()}
