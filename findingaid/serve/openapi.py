"""The OpenAPI document of what is served over HTTP, made from the capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from findingaid import __version__
from findingaid.serve.capabilities import Capability
from findingaid.serve.outputs import Failed

REF = "#/components/schemas/{model}"

REFUSALS: Mapping[int, str] = {
    400: "It cannot be asked so.",
    401: "The token is missing or wrong.",
    403: "Asked from a page of another host.",
    404: "What it is about is not there.",
    413: "The body is too large.",
    414: "The address is too long.",
    422: "It does not have the shape that is asked for.",
    500: "An error of the server.",
    502: "A model that was asked for fails.",
    503: "Nothing is published, storage does not answer, or too much is asked at once.",
    504: "No answer in time.",
}


def document(capabilities: Iterable[Capability], locked: bool) -> dict[str, Any]:
    """The document; `locked` where a token is wanted."""
    listed = list(capabilities)
    shapes: list[Any] = [(c.name, "validation", TypeAdapter(c.input)) for c in listed]
    shapes += [(c.name, "serialization", c.adapter) for c in listed]
    shapes += [("failed", "serialization", TypeAdapter(Failed))]
    schemas, shared = TypeAdapter.json_schemas(shapes, ref_template=REF)
    refusal = schemas[("failed", "serialization")]
    responses = {str(status): _json(said, refusal) for status, said in REFUSALS.items()}
    paths: dict[str, Any] = {}
    for c in listed:
        asked, given = schemas[(c.name, "validation")], schemas[(c.name, "serialization")]
        about: dict[str, Any] = {
            "summary": c.name,
            "description": c.description,
            "responses": {"200": _json("So it is.", given), **responses},
        }
        body = {"required": True, **_json("", asked)}
        del body["description"]
        paths[f"/v1/{c.name}"] = {"post": {"operationId": c.name, "requestBody": body, **about}}
        if is_simple(c):
            fields = c.input.model_json_schema(ref_template=REF)
            paths[f"/v1/{c.name}"]["get"] = {"operationId": f"get_{c.name}", "parameters": _parameters(fields), **about}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "findingaid",
            "version": __version__,
            "description": "Search, answers and provenance of an index.",
        },
        "paths": paths,
        "components": {"schemas": shared.get("$defs", {})},
    }
    if locked:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


def is_simple(capability: Capability) -> bool:
    """Whether it only reads, and all that it is asked with can stand in an address."""
    schema = capability.input.model_json_schema()
    return capability.read_only and "$defs" not in schema and not any(map(_is_nested, schema["properties"].values()))


def lists(capability: Capability) -> frozenset[str]:
    """What may stand in an address several times."""
    fields = capability.input.model_json_schema()["properties"]
    return frozenset(name for name, field in fields.items() if _without_null(field).get("type") == "array")


def _is_nested(field: Mapping[str, Any]) -> bool:
    """Whether a field has several shapes, or names and values."""
    kinds = {each.get("type") for each in field.get("anyOf", [field])} - {"null"}
    return len(kinds) > 1 or "object" in kinds


def _parameters(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": _without_null(field),
        }
        for name, field in schema["properties"].items()
    ]


def _without_null(field: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a field as an address has it: what is null is left out there."""
    kept = {key: value for key, value in field.items() if key not in {"anyOf", "description", "title", "default"}}
    return kept | next((dict(each) for each in field.get("anyOf", ()) if each.get("type") != "null"), {})


def _json(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
